// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.util.Arrays;

/**
 * A datatype: elements of one basic type, at offsets within an array.
 *
 * <p>The constructors are those of MPI-1.1, section 3.12. They throw an MPIException where an array
 * or the old datatype is null, a count is negative, arrays differ in length, parts differ in their
 * basic type, or an offset is more than an int.
 *
 * <p>Offsets, strides and extents count elements of the array, as mpiJava 1.2 has it. The elements
 * of a derived type are packed before they are sent, so that the native library only sees basic
 * types, and any matching type of another language can receive them.
 */
public class Datatype {
    /** The basic types, by the class of the array. */
    enum Kind {
        BYTE(1, byte[].class),
        CHAR(2, char[].class),
        SHORT(2, short[].class),
        BOOLEAN(1, boolean[].class),
        INT(4, int[].class),
        LONG(8, long[].class),
        FLOAT(4, float[].class),
        DOUBLE(8, double[].class),
        PACKED(1, byte[].class),
        OBJECT(1, Object[].class),
        LB(0, null),
        UB(0, null);

        final int bytes;
        final Class<?> array;

        Kind(int bytes, Class<?> array) {
            this.bytes = bytes;
            this.array = array;
        }
    }

    final Kind kind;
    /** The native basic type of messages, and that of reductions. */
    final long handle, reduced;
    final int bytes;
    /** Elements of one item. */
    final int size;
    /** Runs of elements: pairs of an offset and a length; null where it is one, from offset 0. */
    final int[] runs;
    final int lower, upper;
    /** The first element of an item, and the one after the last. */
    final int first, last;
    /** Whether markers set the bounds, which then hold for what is derived from it. */
    private final boolean lowerMarked, upperMarked;
    /** One run of `extent` elements, so that items follow each other without gaps. */
    final boolean plain;
    private final boolean basic;
    private boolean committed, freed;
    private long item;

    /** A basic type of so many elements. */
    Datatype(Kind kind, String message, String reduction, int elements) {
        this.kind = kind;
        handle = Native.ABI == null || message.isEmpty() ? 0 : Native.ABI.handle(message);
        reduced = Native.ABI == null || reduction.isEmpty() ? handle : Native.ABI.handle(reduction);
        bytes = kind.bytes;
        size = elements;
        runs = null;
        lower = 0;
        upper = elements;
        first = 0;
        last = elements;
        lowerMarked = upperMarked = false;
        plain = true;
        basic = true;
        committed = true;
    }

    private Datatype(Map map) throws MPIException {
        // A type without elements fits any buffer.
        Datatype base = map.kind == null ? MPI.BYTE : map.base;
        kind = base.kind;
        handle = base.handle;
        reduced = base.reduced;
        bytes = kind.bytes;
        runs = Arrays.copyOf(map.runs, map.used);
        long elements = 0, low = Integer.MAX_VALUE, high = Integer.MIN_VALUE;
        for (int i = 0; i < map.used; i += 2) {
            elements += runs[i + 1];
            low = Math.min(low, runs[i]);
            high = Math.max(high, (long) runs[i] + runs[i + 1]);
        }
        if (elements == 0) low = high = 0;
        size = fits(elements, "elements of the datatype");
        first = (int) low;
        last = fits(high, "last offset of the datatype");
        lowerMarked = map.lower != null;
        upperMarked = map.upper != null;
        lower = lowerMarked ? map.lower : (int) low;
        upper = upperMarked ? map.upper : last;
        basic = false;
        plain = runs.length == 2 && runs[0] == 0 && lower == 0 && upper == size;
    }

    static int fits(long value, String what) throws MPIException {
        if (value < Integer.MIN_VALUE || value > Integer.MAX_VALUE)
            throw new MPIException("the " + what + " would be " + value + ", more than an int");
        return (int) value;
    }

    /** The elements of a type that is being made. */
    private static final class Map {
        Kind kind;
        Datatype base;
        int[] runs = new int[16];
        int used;
        Integer lower, upper;

        /** Adds `count` items of a type that follow each other, the first at `offset`. */
        void add(Datatype type, long offset, int count) throws MPIException {
            if (type == null) throw new MPIException("the old datatype is null");
            type.notFreed();
            if (count < 0) throw new MPIException("the block length " + count + " is negative");
            if (count == 0) return;
            if (type.kind == Kind.LB || type.kind == Kind.UB) {
                int at = fits(offset, "bound of the datatype");
                if (type.kind == Kind.LB) lower = lower == null ? at : Math.min(lower, at);
                else upper = upper == null ? at : Math.max(upper, at);
                return;
            }
            if (kind != null && type.size > 0 && kind != type.kind)
                throw new MPIException("a datatype of " + kind + " cannot hold one of " + type.kind
                    + ": all parts need the same basic type");
            if (kind == null && type.size > 0) {
                kind = type.kind;
                base = type;
            }
            int extent = type.Extent();
            if (type.plain && !type.lowerMarked && !type.upperMarked) {
                run(offset, fits((long) count * type.size, "elements of the datatype"));
                return;
            }
            for (int i = 0; i < count; i++) {
                long start = offset + (long) i * extent;
                if (type.runs == null) run(start, type.size);
                else
                    for (int r = 0; r < type.runs.length; r += 2)
                        run(start + type.runs[r], type.runs[r + 1]);
                if (type.lowerMarked) {
                    int at = fits(start + type.lower, "bound of the datatype");
                    lower = lower == null ? at : Math.min(lower, at);
                }
                if (type.upperMarked) {
                    int at = fits(start + type.upper, "bound of the datatype");
                    upper = upper == null ? at : Math.max(upper, at);
                }
            }
        }

        private void run(long offset, int length) throws MPIException {
            int at = fits(offset, "offset in the datatype");
            fits(offset + length, "offset in the datatype");
            if (length == 0) return;
            if (used > 0 && (long) runs[used - 2] + runs[used - 1] == at
                && (long) runs[used - 1] + length <= Integer.MAX_VALUE) {
                runs[used - 1] += length;
                return;
            }
            if (used == runs.length) runs = Arrays.copyOf(runs, 2 * used);
            runs[used++] = at;
            runs[used++] = length;
        }
    }

    private static void lengths(String what, int expected, int found) throws MPIException {
        if (expected != found)
            throw new MPIException(
                "there are " + expected + " block lengths, but " + found + " " + what);
    }

    private static void notNegative(String what, int value) throws MPIException {
        if (value < 0) throw new MPIException("the " + what + " " + value + " is negative");
    }

    private static <T> T present(T array, String what) throws MPIException {
        if (array == null) throw new MPIException("the " + what + " are null");
        return array;
    }

    /**
     * {@code count} items of a type that follow each other.
     *
     * @param count items
     * @param oldtype datatype of the items
     * @return the datatype, to be committed
     */
    public static Datatype Contiguous(int count, Datatype oldtype) throws MPIException {
        notNegative("count", count);
        return Vector(1, count, 1, oldtype);
    }

    /**
     * {@code count} blocks of items, with starts {@code stride} items apart.
     *
     * @param count blocks
     * @param blocklength items of a block
     * @param stride from the start of a block to the next
     * @param oldtype datatype of the items
     * @return the datatype, to be committed
     */
    public static Datatype Vector(int count, int blocklength, int stride, Datatype oldtype)
        throws MPIException {
        if (oldtype == null) throw new MPIException("the old datatype is null");
        return strided(count, blocklength, (long) stride * oldtype.Extent(), oldtype);
    }

    /**
     * {@code count} blocks of items, with starts {@code stride} array elements apart.
     *
     * @param count blocks
     * @param blocklength items of a block
     * @param stride from the start of a block to the next
     * @param oldtype datatype of the items
     * @return the datatype, to be committed
     */
    public static Datatype Hvector(int count, int blocklength, int stride, Datatype oldtype)
        throws MPIException {
        return strided(count, blocklength, stride, oldtype);
    }

    private static Datatype strided(int count, int blocklength, long stride, Datatype oldtype)
        throws MPIException {
        if (oldtype == null) throw new MPIException("the old datatype is null");
        notNegative("count", count);
        notNegative("block length", blocklength);
        Map map = new Map();
        map.kind = oldtype.kind;
        map.base = oldtype;
        if (blocklength > 0 && stride == (long) blocklength * oldtype.Extent())
            map.add(oldtype, 0, fits((long) count * blocklength, "items of the datatype"));
        else if (blocklength > 0)
            for (int i = 0; i < count; i++) map.add(oldtype, i * stride, blocklength);
        return new Datatype(map);
    }

    /**
     * Blocks of items at displacements that count items.
     *
     * @param array_of_blocklengths items of each block
     * @param array_of_displacements start of each block
     * @param oldtype datatype of the items
     * @return the datatype, to be committed
     */
    public static Datatype Indexed(int[] array_of_blocklengths, int[] array_of_displacements,
        Datatype oldtype) throws MPIException {
        if (oldtype == null) throw new MPIException("the old datatype is null");
        return indexed(array_of_blocklengths, array_of_displacements, oldtype.Extent(), oldtype);
    }

    /**
     * Blocks of items at displacements that count array elements.
     *
     * @param array_of_blocklengths items of each block
     * @param array_of_displacements start of each block
     * @param oldtype datatype of the items
     * @return the datatype, to be committed
     */
    public static Datatype Hindexed(int[] array_of_blocklengths, int[] array_of_displacements,
        Datatype oldtype) throws MPIException {
        return indexed(array_of_blocklengths, array_of_displacements, 1, oldtype);
    }

    private static Datatype indexed(int[] lengths, int[] displacements, int unit, Datatype oldtype)
        throws MPIException {
        lengths("displacements", present(lengths, "block lengths").length,
            present(displacements, "displacements").length);
        if (oldtype == null) throw new MPIException("the old datatype is null");
        Map map = new Map();
        map.kind = oldtype.kind;
        map.base = oldtype;
        for (int i = 0; i < lengths.length; i++)
            map.add(oldtype, (long) displacements[i] * unit, lengths[i]);
        return new Datatype(map);
    }

    /**
     * Blocks of several types at displacements that count array elements. All types need the same
     * basic type, apart from the markers {@link MPI#LB} and {@link MPI#UB}.
     *
     * @param array_of_blocklengths items of each block
     * @param array_of_displacements start of each block
     * @param array_of_types datatype of each block
     * @return the datatype, to be committed
     */
    public static Datatype Struct(int[] array_of_blocklengths, int[] array_of_displacements,
        Datatype[] array_of_types) throws MPIException {
        lengths("displacements", present(array_of_blocklengths, "block lengths").length,
            present(array_of_displacements, "displacements").length);
        lengths("types", array_of_blocklengths.length, present(array_of_types, "types").length);
        Map map = new Map();
        for (int i = 0; i < array_of_blocklengths.length; i++)
            map.add(array_of_types[i], array_of_displacements[i], array_of_blocklengths[i]);
        return new Datatype(map);
    }

    /** {@return array elements from the start of an item to that of the next} */
    public int Extent() {
        return upper - lower;
    }

    /** {@return elements of an item, without gaps} */
    public int Size() {
        return size;
    }

    /** {@return array elements from the start of an item to its lower bound} */
    public int Lb() {
        return lower;
    }

    /** {@return array elements from the start of an item to its upper bound} */
    public int Ub() {
        return upper;
    }

    /** Makes the type ready for messages. */
    public void Commit() throws MPIException {
        notFreed();
        committed = true;
    }

    private void notFreed() throws MPIException {
        if (freed) throw new MPIException("the datatype has been freed");
    }

    /** Ends the use of a derived type. Messages under way are not affected. */
    public synchronized void Free() throws MPIException {
        if (basic) throw new MPIException("a basic datatype cannot be freed");
        notFreed();
        freed = true;
        if (item == 0) return;
        MPI.enter();
        Op.forget(item);
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, item);
        item = 0;
        MPIException.check(Native.call(Native.TYPE_FREE, scratch.out));
    }

    /** Whether this is a type of objects, which are serialized. */
    boolean ofObjects() {
        return kind == Kind.OBJECT;
    }

    static Datatype usable(Datatype type) throws MPIException {
        if (type == null) throw new MPIException("the datatype is null");
        type.notFreed();
        if (!type.committed) throw new MPIException("the datatype is not committed");
        if (type.kind == Kind.LB || type.kind == Kind.UB)
            throw new MPIException("the datatype is only a marker for bounds");
        return type;
    }

    /** A native type of one item, for a reduction whose function sees items. */
    synchronized long item() throws MPIException {
        if (basic && size == 1) return reduced;
        if (item == 0) {
            Scratch scratch = Scratch.get();
            MPIException.check(Native.call(Native.TYPE_CONTIGUOUS, size, reduced, scratch.out));
            MPIException.check(Native.call(Native.TYPE_COMMIT, scratch.out));
            item = Native.getHandle(scratch.out);
        }
        return item;
    }
}
