// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * A communicator with a graph topology (MPI-1.1, section 6.5).
 *
 * <p>Errors are as in {@link Comm}: more nodes than processes, an index that falls, edges to nodes
 * that are not there.
 */
public class Graphcomm extends Intracomm {
    Graphcomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        return like(new Graphcomm(duplicate()));
    }

    static void requireShape(int[] index, int[] edges, int size) throws MPIException {
        if (index == null || edges == null) throw new MPIException("the index or edges are null");
        if (index.length > size)
            throw new MPIException("the topology needs more than the " + size + " processes");
        int before = 0;
        for (int end : index) {
            if (end < before || end > edges.length)
                throw new MPIException(
                    "the index " + end + " is not from " + before + " to " + edges.length);
            before = end;
        }
        for (int edge : edges)
            if (edge < 0 || edge >= index.length)
                throw new MPIException(
                    "the edge to " + edge + " is not to a node from 0 to " + (index.length - 1));
    }

    private static int[] ints(long address, int length) {
        int[] values = new int[length];
        for (int i = 0; i < length; i++) values[i] = Native.getInt(address + 4L * i);
        return values;
    }

    /** {@return the topology} */
    public GraphParms Get() throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.GRAPHDIMS_GET, handle, scratch.out, scratch.out + 8));
        int nodes = Native.getInt(scratch.out), edges = Native.getInt(scratch.out + 8);
        long words = scratch.words(4L * (nodes + edges));
        MPIException.check(
            Native.call(Native.GRAPH_GET, handle, nodes, edges, words, words + 4L * nodes));
        return new GraphParms(ints(words, nodes), ints(words + 4L * nodes, edges));
    }

    /**
     * {@return the neighbours of a rank}
     *
     * @param rank a rank of this communicator
     */
    public int[] Neighbours(int rank) throws MPIException {
        Scratch scratch = enter();
        requireRank(rank, "rank");
        MPIException.check(Native.call(Native.GRAPH_COUNT, handle, rank, scratch.out));
        int n = Native.getInt(scratch.out);
        long words = scratch.words(4L * n);
        MPIException.check(Native.call(Native.GRAPH_NEIGHBORS, handle, rank, n, words));
        return ints(words, n);
    }

    /**
     * {@return the best rank of this process in a topology, {@link MPI#UNDEFINED} if it has none}
     *
     * @param index for each node, the number of neighbours of all nodes up to it
     * @param edges neighbours of all nodes, one node after the other
     */
    public int Map(int[] index, int[] edges) throws MPIException {
        Scratch scratch = enter();
        requireShape(index, edges, Size());
        long words = scratch.words(4L * (index.length + edges.length));
        Scratch.put(words, index);
        Scratch.put(words + 4L * index.length, edges);
        MPIException.check(Native.call(
            Native.GRAPH_MAP, handle, index.length, words, words + 4L * index.length, scratch.out));
        return Native.getInt(scratch.out);
    }
}
