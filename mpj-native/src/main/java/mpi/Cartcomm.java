// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * A communicator with a Cartesian topology (MPI-1.1, section 6.5).
 *
 * <p>Errors are as in {@link Comm}: dimensions below 1, more places than processes, coordinates
 * beyond a dimension that is not periodic, arrays of another length than the topology.
 */
public class Cartcomm extends Intracomm {
    Cartcomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        return like(new Cartcomm(duplicate()));
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

    /** Checks that a topology has no more places than there are processes. */
    static void requireProcesses(int[] dims, int size) throws MPIException {
        long places = 1;
        for (int dim : dims) {
            places *= dim;
            if (places > size)
                throw new MPIException("the topology needs more than the " + size + " processes");
        }
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

    /** {@return the topology, and this process's coordinates} */
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

    /**
     * {@return the rank at some coordinates}
     *
     * @param coords one coordinate for each dimension
     */
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

    /**
     * {@return the coordinates of a rank}
     *
     * @param rank a rank
     */
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

    /**
     * {@return the ranks of a shift along a dimension}
     *
     * @param direction the dimension, from 0 on
     * @param disp how far, upwards or, if negative, downwards
     */
    public ShiftParms Shift(int direction, int disp) throws MPIException {
        Scratch scratch = enter();
        int n = dimensions();
        if (direction < 0 || direction >= n)
            throw new MPIException("the direction " + direction + " is not from 0 to " + (n - 1));
        MPIException.check(
            Native.call(Native.CART_SHIFT, handle, direction, disp, scratch.out, scratch.out + 8));
        return new ShiftParms(Native.getInt(scratch.out), Native.getInt(scratch.out + 8));
    }

    /**
     * {@return a communicator of the ranks that differ only in the kept dimensions; collective}
     *
     * @param remain_dims whether each dimension is kept
     */
    public Cartcomm Sub(boolean[] remain_dims) throws MPIException {
        Scratch scratch = enter();
        int n = dimensions();
        if (remain_dims == null || remain_dims.length != n)
            throw new MPIException("the topology has " + n + " dimensions");
        long words = scratch.words(4L * n);
        for (int i = 0; i < n; i++) Native.putInt(words + 4L * i, remain_dims[i] ? 1 : 0);
        MPIException.check(Native.call(Native.CART_SUB, handle, words, scratch.out));
        long created = Native.getHandle(scratch.out);
        return created == Native.COMM_NULL ? null : from(new Cartcomm(created));
    }

    /**
     * {@return the best rank of this process in a topology, {@link MPI#UNDEFINED} if it has none}
     *
     * @param dims processes along each dimension
     * @param periods whether each dimension is periodic
     */
    public int Map(int[] dims, boolean[] periods) throws MPIException {
        Scratch scratch = enter();
        requireShape(dims, periods);
        requireProcesses(dims, Size());
        long words = shape(scratch, dims, periods);
        MPIException.check(Native.call(
            Native.CART_MAP, handle, dims.length, words, words + 4L * dims.length, scratch.out));
        return Native.getInt(scratch.out);
    }

    /**
     * Sets the dimensions that are 0, so that all together hold so many processes.
     *
     * @param nnodes processes
     * @param dims processes along each dimension
     */
    public static void Dims_create(int nnodes, int[] dims) throws MPIException {
        MPI.enter();
        if (dims == null) throw new MPIException("the dimensions are null");
        if (nnodes <= 0)
            throw new MPIException("the number of nodes " + nnodes + " is not above 0");
        long given = 1;
        for (int dim : dims) {
            if (dim < 0) throw new MPIException("the dimension " + dim + " is negative");
            if (dim > 0) given = Math.min(given * dim, Integer.MAX_VALUE + 1L);
        }
        if (nnodes % given != 0)
            throw new MPIException(
                "the given dimensions hold " + given + " nodes, which does not divide " + nnodes);
        Scratch scratch = Scratch.get();
        long words = Scratch.put(scratch.words(4L * dims.length), dims);
        MPIException.check(Native.call(Native.DIMS_CREATE, nnodes, dims.length, words));
        for (int i = 0; i < dims.length; i++) dims[i] = Native.getInt(words + 4L * i);
    }
}
