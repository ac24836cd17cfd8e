// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** A Cartesian topology, and the place of this process in it. */
public class CartParms {
    /** Processes along each dimension. */
    public final int[] dims;
    /** Whether each dimension is periodic. */
    public final boolean[] periods;
    /** Coordinates of this process. */
    public final int[] coords;

    CartParms(int[] dims, boolean[] periods, int[] coords) {
        this.dims = dims;
        this.periods = periods;
        this.coords = coords;
    }
}
