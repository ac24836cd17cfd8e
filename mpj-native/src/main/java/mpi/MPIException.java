// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * An error of MPI, with the native library's text where that library reported it.
 *
 * <p>It is not checked, as in MPJ Express. Programs that declare or catch it compile all the same.
 */
public class MPIException extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** The native library's error code; -1 where no native call was made. */
    private final int code;
    /** The standard's class of the error; -1 where no native call was made. */
    private final int errorClass;

    /** An error without a message. */
    public MPIException() {
        code = errorClass = -1;
    }

    /**
     * An error that was found before a native call.
     *
     * @param message what is wrong
     */
    public MPIException(String message) {
        super(message);
        code = errorClass = -1;
    }

    /**
     * An error with the exception that caused it.
     *
     * @param cause the exception
     */
    public MPIException(Throwable cause) {
        super(cause);
        code = errorClass = -1;
    }

    MPIException(String message, Throwable cause) {
        super(message, cause);
        code = errorClass = -1;
    }

    private MPIException(int code, int errorClass, String message) {
        super(message);
        this.code = code;
        this.errorClass = errorClass;
    }

    /** Throws what a native call returned, unless that is success. */
    static void check(int code) throws MPIException {
        if (code != 0) throw of(code);
    }

    static MPIException of(int code) {
        Scratch scratch = Scratch.get();
        long text = scratch.words(8192), length = scratch.out;
        int failed = Native.call(Native.ERROR_STRING, code, text, length);
        String said = failed != 0 ? "error " + code + " of the MPI library"
                                  : Native.string(text, Native.getInt(length));
        int errorClass =
            Native.call(Native.ERROR_CLASS, code, length) == 0 ? Native.getInt(length) : code;
        // MPICH 5.0.2 names another class in the text of its libmpi_abi.
        if (errorClass == Native.ERR_TRUNCATE && !said.contains("runcated"))
            said = "the message was truncated: " + said;
        return new MPIException(code, errorClass, said);
    }

    /** What the native library would say of a message that is too long for its buffer. */
    static MPIException truncated(long bytes, long room) {
        return new MPIException(Native.ERR_TRUNCATE, Native.ERR_TRUNCATE,
            "the message was truncated: it has " + bytes + " bytes, and the buffer " + room);
    }

    /**
     * {@return the native library's error code; -1 for an error that was found before a native
     * call}
     */
    public int Get_error_code() {
        return code;
    }

    /**
     * {@return the standard's class of the error; -1 for an error found before a native call}
     */
    public int Get_error_class() {
        return errorClass;
    }
}
