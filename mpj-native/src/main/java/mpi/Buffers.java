// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import static mpi.Native.ALL;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.CharBuffer;
import java.nio.DoubleBuffer;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;
import java.nio.LongBuffer;
import java.nio.ShortBuffer;

/**
 * The buffers of messages: arrays, {@link Buffer}s and {@link MemorySegment}s. Everything about
 * them is checked here, before a native call.
 *
 * <p>The native library reads and writes direct buffers and native segments in place, unless the
 * datatype has gaps. So it does long arrays where they can be pinned ({@link Pins}). All others are
 * copied to native memory and back.
 */
final class Buffers {
    private static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

    /** Longer arrays are copied by C's memcpy, which is quicker, if they are not used in place. */
    static final int MANY_BYTES = 1 << 12;

    private Buffers() {}

    /**
     * Checks `count` items from element `offset` on; returns how many elements they have together.
     */
    static int check(Object buf, int offset, int count, Datatype type) throws MPIException {
        Datatype.usable(type);
        if (count < 0) throw new MPIException("the count " + count + " is negative");
        long elements = (long) count * type.size;
        if (elements > Integer.MAX_VALUE)
            throw new MPIException(
                count + " items of " + type.size + " elements are more than 2147483647 elements");
        if (elements == 0) return 0;
        if (buf == null) throw new MPIException("the buffer is null");
        long length = length(buf, type);
        long least, most;
        if (type.plain) {
            least = offset;
            most = offset + elements;
        } else {
            long shift = (count - 1L) * type.Extent();
            least = (long) offset + type.first + Math.min(0, shift);
            most = (long) offset + type.last + Math.max(0, shift);
        }
        if (least < 0 || most > length)
            throw new MPIException("the elements " + least + " to " + (most - 1)
                + " are not all in the buffer, which has " + length);
        return (int) elements;
    }

    /** The same for a buffer that is written. */
    static int checkWritable(Object buf, int offset, int count, Datatype type) throws MPIException {
        int elements = check(buf, offset, count, type);
        if (elements > 0
            && (buf instanceof Buffer buffer && buffer.isReadOnly()
                || buf instanceof MemorySegment segment && segment.isReadOnly()))
            throw new MPIException("the buffer is read-only");
        return elements;
    }

    /** Elements that a buffer holds. */
    private static long length(Object buf, Datatype type) throws MPIException {
        switch (type.kind) {
            case BYTE, PACKED:
                if (buf instanceof byte[] array) return array.length;
                break;
            case CHAR:
                if (buf instanceof char[] array) return array.length;
                break;
            case SHORT:
                if (buf instanceof short[] array) return array.length;
                break;
            case BOOLEAN:
                if (buf instanceof boolean[] array) return array.length;
                break;
            case INT:
                if (buf instanceof int[] array) return array.length;
                break;
            case LONG:
                if (buf instanceof long[] array) return array.length;
                break;
            case FLOAT:
                if (buf instanceof float[] array) return array.length;
                break;
            case DOUBLE:
                if (buf instanceof double[] array) return array.length;
                break;
            default:
                if (buf instanceof Object[] array) return array.length;
                break;
        }
        if (!type.ofObjects() && (buf instanceof Buffer || buf instanceof MemorySegment)) {
            if (!(buf instanceof ByteBuffer) && order(buf) != ByteOrder.nativeOrder())
                throw new MPIException("the buffer has another byte order than this machine. "
                    + "Set order(ByteOrder.nativeOrder()) before the view is made");
            return segment(buf).byteSize() / type.bytes;
        }
        throw new MPIException("a buffer of " + type.kind + " is a "
            + type.kind.array.getSimpleName()
            + (type.ofObjects() ? "" : ", Buffer or MemorySegment") + ", not a "
            + buf.getClass().getSimpleName());
    }

    /** The order of the bytes in a view's elements; a ByteBuffer and a segment have none. */
    private static ByteOrder order(Object buf) {
        return switch (buf) {
            case CharBuffer view -> view.order();
            case ShortBuffer view -> view.order();
            case IntBuffer view -> view.order();
            case LongBuffer view -> view.order();
            case FloatBuffer view -> view.order();
            case DoubleBuffer view -> view.order();
            default -> ByteOrder.nativeOrder();
        };
    }

    /** Whether the buffer's memory is native. */
    static boolean isNative(Object buf) {
        return buf instanceof Buffer buffer && buffer.isDirect()
            || buf instanceof MemorySegment segment && segment.isNative();
    }

    /** A buffer from its position to its limit, an array (not of booleans), or a segment. */
    static MemorySegment segment(Object buf) throws MPIException {
        MemorySegment segment = switch (buf) {
            case MemorySegment given -> given;
            case Buffer buffer -> MemorySegment.ofBuffer(buffer);
            case byte[] array -> MemorySegment.ofArray(array);
            case char[] array -> MemorySegment.ofArray(array);
            case short[] array -> MemorySegment.ofArray(array);
            case int[] array -> MemorySegment.ofArray(array);
            case long[] array -> MemorySegment.ofArray(array);
            case float[] array -> MemorySegment.ofArray(array);
            case double[] array -> MemorySegment.ofArray(array);
            default ->
                throw new MPIException("a " + buf.getClass().getSimpleName() + " is no buffer");
        };
        if (!segment.scope().isAlive())
            throw new MPIException("the arena of the buffer has been closed");
        if (!segment.isAccessibleBy(Thread.currentThread()))
            throw new MPIException("the arena of the buffer is confined to another thread");
        return segment;
    }

    /** The address of an element of native memory, where the library may use it in place; or 0. */
    static long inPlace(Object buf, int offset, Datatype type) throws MPIException {
        if (!type.plain || !isNative(buf)) return 0;
        return segment(buf).address() + (long) offset * type.bytes;
    }

    /**
     * Memory with what is to be sent: the buffer's own, or a copy. {@link Scratch#done} follows
     * the call.
     */
    static long source(Object buf, int offset, int count, int elements, Datatype type,
        Scratch scratch) throws MPIException {
        if (elements == 0) return scratch.out;
        if (pinnable(buf, elements, type, scratch))
            return scratch.pin(buf) + (long) offset * type.bytes;
        long address = buf.getClass().isArray() ? 0 : inPlace(buf, offset, type);
        if (address == 0) {
            address = scratch.send((long) elements * type.bytes);
            pack(buf, offset, count, type, address);
        }
        return address;
    }

    /** Whether this is an array that the library can use in place, and a copy would take longer. */
    static boolean pinnable(Object buf, long elements, Datatype type, Scratch scratch) {
        return elements * type.bytes >= MANY_BYTES && plainArray(buf, type) && scratch.canPin();
    }

    /** Whether this is an array whose items are as they are in native memory. */
    static boolean plainArray(Object buf, Datatype type) {
        return type.plain && buf.getClass().isArray() && !(buf instanceof boolean[]);
    }

    /**
     * Native memory for what is received: the buffer's own, or some to be unpacked. A short buffer
     * is not received in place by a library that would write past its end.
     */
    static long target(Object buf, int offset, int elements, Datatype type, Scratch scratch)
        throws MPIException {
        long bytes = (long) elements * type.bytes;
        if (elements == 0 || guarded(bytes)) return scratch.receive(bytes);
        long address = buf.getClass().isArray() ? 0 : inPlace(buf, offset, type);
        return address == 0 ? scratch.receive(bytes) : address;
    }

    /** Whether so short a direct buffer has to be guarded by a copy. */
    static boolean guarded(long bytes) {
        return Native.OVERRUNS && bytes <= MANY_BYTES;
    }

    private static boolean byMemcpy(Object buf, int elements, Datatype type) {
        return (long) elements * type.bytes > MANY_BYTES && !(buf instanceof boolean[]);
    }

    /** Copies checked items to native memory, one element after the other. */
    static void pack(Object buf, int offset, int count, Datatype type, long address)
        throws MPIException {
        if (!type.plain) {
            runs(buf, offset, count * (long) type.size, type, address, true);
            return;
        }
        int n = count * type.size;
        if (byMemcpy(buf, n, type)) {
            Native.copy(
                segment(buf), (long) offset * type.bytes, address, (long) n * type.bytes, true);
            return;
        }
        switch (buf) {
            case byte[] array -> MemorySegment.copy(array, offset, ALL, BYTE, address, n);
            case double[] array ->
                MemorySegment.copy(
                    array, offset, ALL, ValueLayout.JAVA_DOUBLE_UNALIGNED, address, n);
            case int[] array -> MemorySegment.copy(array, offset, ALL, Native.INT, address, n);
            case long[] array -> MemorySegment.copy(array, offset, ALL, Native.LONG, address, n);
            case float[] array ->
                MemorySegment.copy(
                    array, offset, ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, address, n);
            case boolean[] array -> booleans(array, offset, n, address, true);
            default ->
                MemorySegment.copy(
                    segment(buf), (long) offset * type.bytes, ALL, address, (long) n * type.bytes);
        }
    }

    /** Copies a message of so many bytes from native memory into a buffer of `room` elements. */
    static void received(Object buf, int offset, int room, Datatype type, long bytes, long address)
        throws MPIException {
        if (room > 0) unpack(buf, offset, Math.min(bytes / type.bytes, room), type, address);
    }

    /** Copies so many elements back from native memory; they need not be whole items. */
    static void unpack(Object buf, int offset, long elements, Datatype type, long address)
        throws MPIException {
        if (elements == 0) return;
        if (!type.plain) {
            runs(buf, offset, elements, type, address, false);
            return;
        }
        int n = (int) elements;
        if (byMemcpy(buf, n, type)) {
            Native.copy(
                segment(buf), (long) offset * type.bytes, address, (long) n * type.bytes, false);
            return;
        }
        switch (buf) {
            case byte[] array -> MemorySegment.copy(ALL, BYTE, address, array, offset, n);
            case double[] array ->
                MemorySegment.copy(
                    ALL, ValueLayout.JAVA_DOUBLE_UNALIGNED, address, array, offset, n);
            case int[] array -> MemorySegment.copy(ALL, Native.INT, address, array, offset, n);
            case long[] array -> MemorySegment.copy(ALL, Native.LONG, address, array, offset, n);
            case float[] array ->
                MemorySegment.copy(
                    ALL, ValueLayout.JAVA_FLOAT_UNALIGNED, address, array, offset, n);
            case boolean[] array -> booleans(array, offset, n, address, false);
            default ->
                MemorySegment.copy(
                    ALL, address, segment(buf), (long) offset * type.bytes, (long) n * type.bytes);
        }
    }

    private static void booleans(boolean[] array, int offset, int n, long address, boolean in) {
        for (int i = 0; i < n; i++)
            if (in) ALL.set(BYTE, address + i, (byte) (array[offset + i] ? 1 : 0));
            else array[offset + i] = ALL.get(BYTE, address + i) != 0;
    }

    /** Copies the elements of items with gaps, in either direction. */
    private static void runs(Object buf, int offset, long elements, Datatype type, long address,
        boolean in) throws MPIException {
        MemorySegment heap = buf instanceof boolean[] ? null : segment(buf);
        long left = elements, at = address;
        for (long item = 0; left > 0; item++) {
            long start = offset + item * type.Extent();
            int pieces = type.runs == null ? 2 : type.runs.length;
            for (int r = 0; r < pieces && left > 0; r += 2) {
                long first = start + (type.runs == null ? 0 : type.runs[r]);
                long n = Math.min(left, type.runs == null ? type.size : type.runs[r + 1]);
                if (heap == null) booleans((boolean[]) buf, (int) first, (int) n, at, in);
                else if (in) MemorySegment.copy(heap, first * type.bytes, ALL, at, n * type.bytes);
                else MemorySegment.copy(ALL, at, heap, first * type.bytes, n * type.bytes);
                at += n * type.bytes;
                left -= n;
            }
        }
    }
}
