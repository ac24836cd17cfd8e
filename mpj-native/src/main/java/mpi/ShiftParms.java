// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** The two ranks of a shift; {@link MPI#PROC_NULL} beyond the end of a dimension. */
public class ShiftParms {
    /** The rank to receive from. */
    public final int rank_source;
    /** The rank to send to. */
    public final int rank_dest;

    ShiftParms(int source, int dest) {
        rank_source = source;
        rank_dest = dest;
    }
}
