// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** A graph topology. */
public class GraphParms {
    /** For each node, the number of neighbours of all nodes up to it. */
    public final int[] index;
    /** Neighbours of all nodes, one node after the other. */
    public final int[] edges;

    GraphParms(int[] index, int[] edges) {
        this.index = index;
        this.edges = edges;
    }
}
