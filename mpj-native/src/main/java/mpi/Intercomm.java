// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** A communicator between two groups. */
public class Intercomm extends Comm {
    Intercomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        try {
            return like(new Intercomm(duplicate()));
        } catch (MPIException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
    }

    /** Number of ranks of the remote group. */
    public int Remote_size() throws MPIException {
        return integer(Native.COMM_REMOTE_SIZE);
    }

    /** The remote group. */
    public Group Remote_group() throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.COMM_REMOTE_GROUP, handle, scratch.out));
        return new Group(Native.getHandle(scratch.out));
    }

    /** One communicator of both groups, the one with {@code high} last; collective. */
    public Intracomm Merge(boolean high) throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.INTERCOMM_MERGE, handle, high ? 1 : 0, scratch.out));
        return new Intracomm(Native.getHandle(scratch.out));
    }
}
