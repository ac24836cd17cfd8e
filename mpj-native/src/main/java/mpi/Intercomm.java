// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** A communicator between two groups (MPI-1.1, section 5.6). Errors are as in {@link Comm}. */
public class Intercomm extends Comm {
    Intercomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        return like(new Intercomm(duplicate()));
    }

    /** {@return number of ranks of the remote group} */
    public int Remote_size() throws MPIException {
        return integer(Native.COMM_REMOTE_SIZE);
    }

    /** {@return the remote group} */
    public Group Remote_group() throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.COMM_REMOTE_GROUP, handle, scratch.out));
        return new Group(Native.getHandle(scratch.out));
    }

    /**
     * {@return one communicator of both groups, the one with {@code high} last; collective}
     *
     * @param high whether this group's ranks come last
     */
    public Intracomm Merge(boolean high) throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.INTERCOMM_MERGE, handle, high ? 1 : 0, scratch.out));
        return from(new Intracomm(Native.getHandle(scratch.out)));
    }
}
