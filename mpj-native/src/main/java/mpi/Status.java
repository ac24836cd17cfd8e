// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** What is known of a message that arrived, or of a request that completed (MPI-1.1, 3.2.5). */
public class Status {
    /** Rank of the sender. */
    public final int source;
    /** Tag of the message. */
    public final int tag;
    /** Place of the request in the array given to Waitany, Testany, Waitsome or Testsome. */
    public int index = MPI.UNDEFINED;

    private final long bytes;
    private final boolean cancelled;
    /** Objects of the message; -1 where it holds none. */
    private int objects = -1;

    private Status(int source, int tag, long bytes, boolean cancelled) {
        this.source = source;
        this.tag = tag;
        this.bytes = bytes;
        this.cancelled = cancelled;
    }

    /** What MPI says of a request that is null or inactive. */
    static Status empty() {
        return new Status(MPI.ANY_SOURCE, MPI.ANY_TAG, 0, false);
    }

    /** Bytes of the message that a native status describes. */
    static long bytes(long status, Scratch scratch) throws MPIException {
        MPIException.check(
            Native.call(Native.GET_ELEMENTS, status, Native.BYTE, scratch.out + 128));
        return Native.ALL.get(Native.LONG, scratch.out + 128);
    }

    static Status of(long status, long bytes) {
        return new Status(Native.getInt(status + Native.SOURCE_AT),
            Native.getInt(status + Native.TAG_AT), bytes, false);
    }

    static Status ofObjects(Status plain, int objects) {
        plain.objects = objects;
        return plain;
    }

    static Status ofCancelled(long status) {
        return new Status(Native.getInt(status + Native.SOURCE_AT),
            Native.getInt(status + Native.TAG_AT), 0, true);
    }

    static boolean cancelled(long status, Scratch scratch) throws MPIException {
        MPIException.check(Native.call(Native.TEST_CANCELLED, status, scratch.out + 128));
        return Native.getInt(scratch.out + 128) != 0;
    }

    /**
     * {@return items of the message; {@link MPI#UNDEFINED} where it does not hold whole ones}
     *
     * @param datatype datatype of the items
     */
    public int Get_count(Datatype datatype) throws MPIException {
        int elements = Get_elements(datatype);
        if (elements == MPI.UNDEFINED) return elements;
        if (datatype.size == 0) return 0;
        return elements % datatype.size == 0 ? elements / datatype.size : MPI.UNDEFINED;
    }

    /**
     * {@return elements of the basic type in the message; {@link MPI#UNDEFINED} where it does not
     * hold whole ones, or more than an int counts}
     *
     * @param datatype datatype of the items
     */
    public int Get_elements(Datatype datatype) throws MPIException {
        Datatype.usable(datatype);
        if (datatype.ofObjects()) return objects >= 0 ? objects : MPI.UNDEFINED;
        long elements = bytes / datatype.bytes;
        boolean whole = bytes % datatype.bytes == 0 && elements <= Integer.MAX_VALUE;
        return whole ? (int) elements : MPI.UNDEFINED;
    }

    /** {@return whether the request was cancelled} */
    public boolean Test_cancelled() {
        return cancelled;
    }
}
