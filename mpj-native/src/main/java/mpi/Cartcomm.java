// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/** A communicator with a Cartesian topology. */
public class Cartcomm extends Intracomm {
    Cartcomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        try {
            return like(new Cartcomm(duplicate()));
        } catch (MPIException error) {
            throw new IllegalStateException(error.getMessage(), error);
        }
    }

    static void requireShape(int[] dims, boolean[] periods) throws MPIException {
        if (dims == null || periods == null)
            throw new MPIException("the dimensions or periods are null");
        if (dims.length != periods.length)
            throw new MPIException(
                "there are " + dims.length + " dimensions, but " + periods.length + " periods");
        for (int dim : dims)
            if (dim <= 0) throw new MPIException("the dimension " + dim + " is not above 0");
    }

    /** Writes the dimensions, then the periods, to native memory. */
    static long shape(Scratch scratch, int[] dims, boolean[] periods) {
        long words = Scratch.put(scratch.words(8L * dims.length), dims);
        for (int i = 0; i < dims.length; i++)
            Native.putInt(words + 4L * (dims.length + i), periods[i] ? 1 : 0);
        return words;
    }

    private int dimensions() throws MPIException {
        return integer(Native.CARTDIM_GET);
    }

    /** The topology, and this process's coordinates. */
    public CartParms Get() throws MPIException {
        Scratch scratch = enter();
        int n = dimensions();
        long words = scratch.words(12L * n);
        MPIException.check(
            Native.call(Native.CART_GET, handle, n, words, words + 4L * n, words + 8L * n));
        int[] dims = new int[n], coords = new int[n];
        boolean[] periods = new boolean[n];
        for (int i = 0; i < n; i++) {
            dims[i] = Native.getInt(words + 4L * i);
            periods[i] = Native.getInt(words + 4L * (n + i)) != 0;
            coords[i] = Native.getInt(words + 4L * (2 * n + i));
        }
        return new CartParms(dims, periods, coords);
    }

    /** The rank at some coordinates. */
    public int Rank(int[] coords) throws MPIException {
        Scratch scratch = enter();
        CartParms own = Get();
        if (coords == null || coords.length != own.dims.length)
            throw new MPIException("the topology has " + own.dims.length + " dimensions");
        for (int i = 0; i < coords.length; i++)
            if (!own.periods[i] && (coords[i] < 0 || coords[i] >= own.dims[i]))
                throw new MPIException("the coordinate " + coords[i] + " of dimension " + i
                    + " is not from 0 to " + (own.dims[i] - 1));
        long words = Scratch.put(scratch.words(4L * coords.length), coords);
        MPIException.check(Native.call(Native.CART_RANK, handle, words, scratch.out));
        return Native.getInt(scratch.out);
    }

    /** The coordinates of a rank. */
    public int[] Coords(int rank) throws MPIException {
        Scratch scratch = enter();
        requireRank(rank, "rank");
        int n = dimensions();
        long words = scratch.words(4L * n);
        MPIException.check(Native.call(Native.CART_COORDS, handle, rank, n, words));
        int[] coords = new int[n];
        for (int i = 0; i < n; i++) coords[i] = Native.getInt(words + 4L * i);
        return coords;
    }

    /** The ranks of a shift along a dimension. */
    public ShiftParms Shift(int direction, int disp) throws MPIException {
        Scratch scratch = enter();
        int n = dimensions();
        if (direction < 0 || direction >= n)
            throw new MPIException("the direction " + direction + " is not from 0 to " + (n - 1));
        MPIException.check(
            Native.call(Native.CART_SHIFT, handle, direction, disp, scratch.out, scratch.out + 8));
        return new ShiftParms(Native.getInt(scratch.out), Native.getInt(scratch.out + 8));
    }

    /** A communicator of the ranks that differ only in the kept dimensions; collective. */
    public Cartcomm Sub(boolean[] remain_dims) throws MPIException {
        Scratch scratch = enter();
        int n = dimensions();
        if (remain_dims == null || remain_dims.length != n)
            throw new MPIException("the topology has " + n + " dimensions");
        long words = scratch.words(4L * n);
        for (int i = 0; i < n; i++) Native.putInt(words + 4L * i, remain_dims[i] ? 1 : 0);
        MPIException.check(Native.call(Native.CART_SUB, handle, words, scratch.out));
        long created = Native.getHandle(scratch.out);
        return created == Native.COMM_NULL ? null : new Cartcomm(created);
    }

    /** The best rank of this process in a topology, {@link MPI#UNDEFINED} if it has none. */
    public int Map(int[] dims, boolean[] periods) throws MPIException {
        Scratch scratch = enter();
        requireShape(dims, periods);
        long words = shape(scratch, dims, periods);
        MPIException.check(Native.call(
            Native.CART_MAP, handle, dims.length, words, words + 4L * dims.length, scratch.out));
        return Native.getInt(scratch.out);
    }

    /** Sets the dimensions that are 0, so that all together hold so many processes. */
    public static void Dims_create(int nnodes, int[] dims) throws MPIException {
        MPI.enter();
        if (dims == null) throw new MPIException("the dimensions are null");
        if (nnodes <= 0)
            throw new MPIException("the number of nodes " + nnodes + " is not above 0");
        for (int dim : dims)
            if (dim < 0) throw new MPIException("the dimension " + dim + " is negative");
        Scratch scratch = Scratch.get();
        long words = Scratch.put(scratch.words(4L * dims.length), dims);
        MPIException.check(Native.call(Native.DIMS_CREATE, nnodes, dims.length, words));
        for (int i = 0; i < dims.length; i++) dims[i] = Native.getInt(words + 4L * i);
    }
}
