// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * The processes of this process's node (MPI-3.0, section 6.4.2, {@code MPI_COMM_TYPE_SHARED}).
 *
 * <p>A library that overruns short buffers has to be guarded: by a match before the receive, or by
 * memory with address space behind it and a copy. Within a node, a long message is sent after its
 * match, so the match costs little. From another node it has arrived by then: the library keeps it
 * in between, and that costs more than a copy.
 */
final class Node {
    /** Longer messages of other nodes are matched too: those are not sent as one piece. */
    static final int MOST_BYTES = 1 << 15;

    private static final byte HERE = 1, ELSEWHERE = 2;
    /** This node's processes. */
    private static Group here;

    /** For each peer of a communicator, HERE, ELSEWHERE, or 0: not asked yet. */
    private final byte[] places;

    Node(int peers) {
        places = new byte[peers];
    }

    /** Finds this node's processes; collective, for {@link MPI#Init}. */
    static void find(long world, Scratch scratch) throws MPIException {
        if (!Native.OVERRUNS) return;
        MPIException.check(Native.call(Native.COMM_SPLIT_TYPE, world,
            Native.integer("COMM_TYPE_SHARED"), 0, Native.ABI.handle("INFO_NULL"), scratch.out));
        Intracomm node = new Intracomm(Native.getHandle(scratch.out));
        here = node.Group();
        node.Free();
    }

    /** Whether a peer is on another node; a call is needed only once for each. */
    boolean elsewhere(Comm comm, int peer) throws MPIException {
        if (places[peer] == 0) places[peer] = place(comm, peer);
        return places[peer] == ELSEWHERE;
    }

    private static byte place(Comm comm, int peer) throws MPIException {
        Group peers = comm instanceof Intercomm inter ? inter.Remote_group() : comm.Group();
        try {
            int rank = Group.Translate_ranks(peers, new int[] {peer}, here)[0];
            return rank == MPI.UNDEFINED ? ELSEWHERE : HERE;
        } finally {
            peers.Free();
        }
    }
}
