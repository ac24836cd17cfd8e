// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.invoke.MethodHandle;

/**
 * An ordered set of processes (MPI-1.1, section 5.3).
 *
 * <p>A method throws an MPIException where a group is null or freed, or a rank is not in it.
 */
public class Group {
    private long handle;

    Group(long handle) {
        this.handle = handle;
    }

    long handle() throws MPIException {
        MPI.enter();
        if (handle == Native.GROUP_NULL)
            throw new MPIException("the group is null or has been freed");
        return handle;
    }

    private int integer(MethodHandle function) throws MPIException {
        long out = Scratch.get().out;
        MPIException.check(Native.call(function, handle(), out));
        return Native.getInt(out);
    }

    /** {@return number of processes} */
    public int Size() throws MPIException {
        return integer(Native.GROUP_SIZE);
    }

    /** {@return this process's rank, {@link MPI#UNDEFINED} if it is not in the group} */
    public int Rank() throws MPIException {
        return integer(Native.GROUP_RANK);
    }

    /** {@return whether the group has been freed} */
    public boolean Is_null() {
        return handle == Native.GROUP_NULL;
    }

    /** Frees the group. */
    public void Free() throws MPIException {
        Scratch scratch = Scratch.get();
        if (this == MPI.GROUP_EMPTY) throw new MPIException("GROUP_EMPTY cannot be freed");
        Native.putHandle(scratch.out, handle());
        MPIException.check(Native.call(Native.GROUP_FREE, scratch.out));
        handle = Native.GROUP_NULL;
    }

    private static Group present(Group group) throws MPIException {
        if (group == null) throw new MPIException("the group is null");
        group.handle();
        return group;
    }

    private static Group combine(MethodHandle function, Group group1, Group group2)
        throws MPIException {
        long out = Scratch.get().out;
        MPIException.check(
            Native.call(function, present(group1).handle(), present(group2).handle(), out));
        return new Group(Native.getHandle(out));
    }

    /**
     * {@return all of the first group, then those of the second that are not in the first}
     *
     * @param group1 the first group
     * @param group2 the second group
     */
    public static Group Union(Group group1, Group group2) throws MPIException {
        return combine(Native.GROUP_UNION, group1, group2);
    }

    /**
     * {@return those of the first group that are in the second too}
     *
     * @param group1 the first group
     * @param group2 the second group
     */
    public static Group Intersection(Group group1, Group group2) throws MPIException {
        return combine(Native.GROUP_INTERSECTION, group1, group2);
    }

    /**
     * {@return those of the first group that are not in the second}
     *
     * @param group1 the first group
     * @param group2 the second group
     */
    public static Group Difference(Group group1, Group group2) throws MPIException {
        return combine(Native.GROUP_DIFFERENCE, group1, group2);
    }

    /**
     * {@return {@link MPI#IDENT}, {@link MPI#SIMILAR} or {@link MPI#UNEQUAL}}
     *
     * @param group1 the first group
     * @param group2 the second group
     */
    public static int Compare(Group group1, Group group2) throws MPIException {
        long out = Scratch.get().out;
        MPIException.check(Native.call(
            Native.GROUP_COMPARE, present(group1).handle(), present(group2).handle(), out));
        return Native.getInt(out);
    }

    /**
     * {@return the ranks that processes of the first group have in the second}
     *
     * @param group1 the first group
     * @param ranks1 ranks of the first group
     * @param group2 the second group
     */
    public static int[] Translate_ranks(Group group1, int[] ranks1, Group group2)
        throws MPIException {
        int n = present(group1).ranks(ranks1, true).length;
        long words = Scratch.get().words(8L * n);
        Scratch.put(words, ranks1);
        MPIException.check(Native.call(Native.GROUP_TRANSLATE, group1.handle(), n, words,
            present(group2).handle(), words + 4L * n));
        int[] ranks2 = new int[n];
        for (int i = 0; i < n; i++) ranks2[i] = Native.getInt(words + 4L * (n + i));
        return ranks2;
    }

    private int[] ranks(int[] ranks, boolean orNone) throws MPIException {
        if (ranks == null) throw new MPIException("the array of ranks is null");
        int size = Size();
        for (int rank : ranks)
            if ((rank < 0 || rank >= size) && !(orNone && rank == MPI.PROC_NULL))
                throw new MPIException("the rank " + rank + " is not from 0 to " + (size - 1));
        return ranks;
    }

    private Group of(MethodHandle function, int[] values, int count) throws MPIException {
        Scratch scratch = Scratch.get();
        long words = Scratch.put(scratch.words(4L * values.length), values);
        MPIException.check(Native.call(function, handle(), count, words, scratch.out));
        return new Group(Native.getHandle(scratch.out));
    }

    /**
     * {@return the processes with these ranks, in this order}
     *
     * @param ranks ranks of this group
     */
    public Group Incl(int[] ranks) throws MPIException {
        return of(Native.GROUP_INCL, ranks(ranks, false), ranks.length);
    }

    /**
     * {@return all processes but those with these ranks}
     *
     * @param ranks ranks of this group
     */
    public Group Excl(int[] ranks) throws MPIException {
        return of(Native.GROUP_EXCL, ranks(ranks, false), ranks.length);
    }

    /**
     * {@return the processes of ranges, each a first rank, a last rank and a stride}
     *
     * @param ranges triples of a first rank, a last rank and a stride
     */
    public Group Range_incl(int[][] ranges) throws MPIException {
        return of(Native.GROUP_RANGE_INCL, flat(ranges), ranges.length);
    }

    /**
     * {@return all processes but those of ranges, each a first rank, a last rank and a stride}
     *
     * @param ranges triples of a first rank, a last rank and a stride
     */
    public Group Range_excl(int[][] ranges) throws MPIException {
        return of(Native.GROUP_RANGE_EXCL, flat(ranges), ranges.length);
    }

    private int[] flat(int[][] ranges) throws MPIException {
        if (ranges == null) throw new MPIException("the array of ranges is null");
        int[] values = new int[3 * ranges.length];
        for (int i = 0; i < ranges.length; i++) {
            if (ranges[i] == null || ranges[i].length != 3)
                throw new MPIException("a range is a first rank, a last rank and a stride");
            if (ranges[i][2] == 0) throw new MPIException("the stride of a range is 0");
            ranks(new int[] {ranges[i][0], ranges[i][1]}, false);
            System.arraycopy(ranges[i], 0, values, 3 * i, 3);
        }
        return values;
    }
}
