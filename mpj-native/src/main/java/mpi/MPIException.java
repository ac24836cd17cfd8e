// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** An error of MPI, with the native library's text where that library reported it. */
public class MPIException extends Exception {
    private static final long serialVersionUID = 1;
    /** The native library's error code; -1 where no native call was made. */
    private final int code;

    /** An error without a message. */
    public MPIException() {
        code = -1;
    }

    /** An error that was found before a native call. */
    public MPIException(String message) {
        super(message);
        code = -1;
    }

    MPIException(String message, Throwable cause) {
        super(message, cause);
        code = -1;
    }

    private MPIException(int code, String message) {
        super(message);
        this.code = code;
    }

    /** Throws what a native call returned, unless that is success. */
    static void check(int code) throws MPIException {
        if (code != 0) throw of(code);
    }

    static MPIException of(int code) {
        Scratch scratch = Scratch.get();
        long text = scratch.words(8192), length = scratch.out;
        int failed = Native.call(Native.ERROR_STRING, code, text, length);
        return new MPIException(code,
            failed != 0 ? "error " + code + " of the MPI library"
                        : Native.string(text, Native.getInt(length)));
    }

    /** The native library's error code; -1 for an error that was found before a native call. */
    public int Get_error_code() {
        return code;
    }

    /** The standard's class of the error; -1 for an error found before a native call. */
    public int Get_error_class() {
        if (code < 0) return -1;
        long out = Scratch.get().out;
        return Native.call(Native.ERROR_CLASS, code, out) == 0 ? Native.getInt(out) : code;
    }
}
