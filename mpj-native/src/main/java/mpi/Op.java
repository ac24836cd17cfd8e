// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An operation of reductions (MPI-1.1, section 4.9).
 *
 * <p>A reduction throws an MPIException where the operation is null, freed or not defined for the
 * datatype, and where its function throws anything.
 */
public class Op {
    /** Datatypes that native functions call back with, by their native handle. */
    private static final Map<Long, Datatype> TYPES = new ConcurrentHashMap<>();

    private final String name;
    private final User_function function;
    private final boolean commutes;
    /** The predefined operation of the native library. */
    private final long handle;
    /** The native operation that calls the function; 0 until it is needed. */
    private long called;
    private boolean freed;
    /** What the native operation calls, in memory that lives as long as this operation. */
    private Caller caller;
    private MemorySegment stub;
    /** Whether there is any such operation. */
    private static volatile boolean anyStub;

    /** A predefined operation. */
    Op(String constant, User_function function) {
        name = constant;
        this.function = function;
        commutes = true;
        handle = Native.ABI == null || constant.isEmpty() ? 0 : Native.ABI.handle(constant);
    }

    /**
     * An operation by a function of the program.
     *
     * @param function what combines two arrays of items
     * @param commute whether the order of the ranks does not matter
     */
    public Op(User_function function, boolean commute) throws MPIException {
        if (function == null) throw new MPIException("the function of the operation is null");
        name = "";
        this.function = function;
        commutes = commute;
        handle = 0;
    }

    /** Frees an operation by a function of the program. */
    public synchronized void Free() throws MPIException {
        MPI.enter();
        if (!name.isEmpty()) throw new MPIException("a predefined operation cannot be freed");
        notFreed();
        freed = true;
        if (called == 0) return;
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, called);
        MPIException.check(Native.call(Native.OP_FREE, scratch.out));
        called = 0;
    }

    private void notFreed() throws MPIException {
        if (freed) throw new MPIException("the operation has been freed");
    }

    /**
     * Whether the native library may call back in any of its calls, also in one of a thread that
     * reduces nothing.
     */
    static boolean mayCallBack() {
        return anyStub && Scratch.ofSeveralThreads();
    }

    /** {@return whether the operation has been freed} */
    public synchronized boolean Is_null() {
        return freed;
    }

    /** Whether the native library applies the operation to elements of the type by itself. */
    private boolean byLibrary(Datatype type) {
        if (name.isEmpty()) return false;
        return !name.endsWith("LOC") || type == MPI.INT2;
    }

    /** The native type by which items of a checked type are reduced. */
    long typeOf(Datatype type) throws MPIException {
        if (!byLibrary(type)) {
            long item = type.item();
            TYPES.putIfAbsent(item, type);
            return item;
        }
        return type == MPI.INT2 && name.endsWith("LOC") ? MPI.pairOfInts : type.reduced;
    }

    /** Forgets a datatype that has been freed. */
    static void forget(long item) {
        TYPES.remove(item);
    }

    /** How many of these a number of items are. */
    int countOf(Datatype type, int count) throws MPIException {
        return byLibrary(type) && !name.endsWith("LOC") ? count * type.size : count;
    }

    /** The native operation for a type. */
    synchronized long handleFor(Datatype type) throws MPIException {
        if (type.kind == Datatype.Kind.PACKED)
            throw new MPIException("packed data cannot be reduced");
        if (name.endsWith("LOC") && (type.size != 2 || type.runs != null))
            throw new MPIException(
                name + " needs a type of pairs: SHORT2, INT2, LONG2, FLOAT2 or DOUBLE2");
        if (byLibrary(type)) {
            boolean logical = name.startsWith("L") || name.startsWith("B");
            if (type.kind == Datatype.Kind.BOOLEAN && !logical)
                throw new MPIException(name + " is not defined for BOOLEAN");
            if (logical && (type.kind == Datatype.Kind.FLOAT || type.kind == Datatype.Kind.DOUBLE))
                throw new MPIException(name + " is not defined for " + type.kind);
            // The native type of BOOLEAN has the logical operations alone, which do the same.
            if (type.kind == Datatype.Kind.BOOLEAN && name.startsWith("B"))
                return Native.ABI.handle("L" + name.substring(1));
            return handle;
        }
        return upcalled();
    }

    private long upcalled() throws MPIException {
        notFreed();
        if (called != 0) return called;
        try {
            MethodHandle method = Native.lookup().findVirtual(Caller.class, "call",
                MethodType.methodType(void.class, long.class, long.class, long.class, long.class));
            caller = new Caller(function);
            stub = Native.upcall(method.bindTo(caller));
            anyStub = true;
            Scratch scratch = Scratch.get();
            MPIException.check(
                Native.call(Native.OP_CREATE, stub.address(), commutes ? 1 : 0, scratch.out));
            called = Native.getHandle(scratch.out);
            return called;
        } catch (ReflectiveOperationException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    /**
     * The function as the native library calls it. It does not hold the operation, so that the
     * collector can free the operation and its stub.
     */
    static final class Caller {
        private final User_function function;
        /** What the function threw, which may not cross a native call. */
        private volatile Throwable failure;

        Caller(User_function function) {
            this.function = function;
        }

        /** Called by the native library: `inout = in op inout` for so many items. */
        void call(long in, long inout, long length, long type) {
            try {
                Datatype items = TYPES.get(Native.getHandle(type));
                int count = Native.getInt(length);
                int room = Math.max(1, span(items, count));
                int start = start(items, count);
                int elements = count * items.size;
                Class<?> component = items.kind.array.getComponentType();
                Object first = Array.newInstance(component, room),
                       second = Array.newInstance(component, room);
                Buffers.unpack(first, start, elements, items, in);
                Buffers.unpack(second, start, elements, items, inout);
                Scratch.get().within(
                    () -> function.Call(first, start, second, start, count, items));
                Buffers.pack(second, start, count, items, inout);
            } catch (Throwable thrown) {
                failure = thrown;
            }
        }
    }

    /** The first item's offset in an array that just holds so many. */
    private static int start(Datatype type, int count) {
        return (int) Math.max(0, -(type.first + Math.min(0, (count - 1L) * type.Extent())));
    }

    private static int span(Datatype type, int count) throws MPIException {
        long shift = (count - 1L) * type.Extent();
        return Datatype.fits(
            type.last + Math.max(0, shift) + start(type, count), "elements of the items");
    }

    synchronized void requireObjects() throws MPIException {
        notFreed();
        if (!name.isEmpty())
            throw new MPIException(name + " is not defined for objects: give an Op of your own");
    }

    /** The operation on objects, which are in Java already. */
    void apply(Object in, Object inout, int count, Datatype type) throws MPIException {
        try {
            function.Call(in, 0, inout, 0, count, type);
        } catch (Exception | StackOverflowError | LinkageError thrown) {
            throw new MPIException("the operation's function threw " + thrown, thrown);
        }
    }

    /** Throws what the function threw in the native call that has returned, else its error. */
    void check(int code) throws MPIException {
        Caller called = caller;
        Throwable thrown = called == null ? null : called.failure;
        if (thrown == null) {
            MPIException.check(code);
            return;
        }
        called.failure = null;
        throw new MPIException("the operation's function threw " + thrown, thrown);
    }

    /** MINLOC and MAXLOC on pairs of any basic type: the value, then its place. */
    static final class Location extends User_function {
        private final boolean least;

        Location(boolean least) {
            this.least = least;
        }

        @Override
        public void Call(
            Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype datatype) {
            for (int i = 0; i < count; i++) {
                int a = inoffset + 2 * i, b = inoutoffset + 2 * i;
                int order = compare(in, a, inout, b);
                if (!least) order = -order;
                if (order < 0 || order == 0 && compare(in, a + 1, inout, b + 1) < 0)
                    System.arraycopy(in, a, inout, b, 2);
            }
        }

        private static int compare(Object a, int i, Object b, int j) {
            return switch (a) {
                case int[] values -> Integer.compare(values[i], ((int[]) b)[j]);
                case long[] values -> Long.compare(values[i], ((long[]) b)[j]);
                case short[] values -> Short.compare(values[i], ((short[]) b)[j]);
                case float[] values -> Float.compare(values[i], ((float[]) b)[j]);
                default -> Double.compare(((double[]) a)[i], ((double[]) b)[j]);
            };
        }
    }
}
