// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import static mpi.Native.ALL;
import static mpi.Native.LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.ref.WeakReference;

/**
 * Arrays that stay in their place while the native library reads or writes them, for one thread.
 *
 * <p>The collector G1 leaves the region of a pinned array where it is and collects all others (JEP
 * 423, JDK 22). So a pinned array may wait for its message. Other collectors would wait for it, and
 * with them arrays are copied.
 *
 * <p>It is JNI that pins ({@code GetPrimitiveArrayCritical}), by a handle of the array. Only native
 * methods get handles. The one here is an upcall stub, so that no C is compiled. It makes a weak
 * handle of an array, which the thread keeps for the array's next messages.
 */
final class Pins {
    /** Whether arrays can be pinned. */
    static final boolean USABLE = usable();

    /** Arrays whose handles are kept: a power of two. */
    private static final int KEPT = 64;
    /** Twice as deep as the upcall goes. */
    private static final int FRAMES = 48;

    private final long environment = Jni.environment();
    /** By the arrays' hash codes: the arrays, and their handles. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private final WeakReference<Object>[] arrays = new WeakReference[KEPT];
    private final long[] handles = new long[KEPT];

    /** What is pinned; null: nothing is. */
    private Object pinned;
    private long handle, address;

    private static boolean usable() {
        try {
            for (GarbageCollectorMXBean collector : ManagementFactory.getGarbageCollectorMXBeans())
                if (!collector.getName().startsWith("G1 ")) return false;
            if (!Jni.registered()) return false;
            long[] array = {0x6e6561726d65L};
            Pins pins = new Pins();
            boolean right = ALL.get(LONG, pins.pin(array)) == array[0];
            pins.unpin();
            return right;
        } catch (RuntimeException | LinkageError | VirtualMachineError unknown) {
            // such as a JDK without management, or no thread left
            return false;
        }
    }

    /** Pins an array of a primitive type alone; returns the address of its first element. */
    long pin(Object array) {
        unpin(); // where an exception has ended a call early
        int place = System.identityHashCode(array) & KEPT - 1;
        if (arrays[place] == null || !arrays[place].refersTo(array)) keep(array, place);
        handle = handles[place];
        address = Jni.pin(environment, handle);
        pinned = array; // as a weak handle does not keep it
        return address;
    }

    /** Undoes the last pin, if there is one. */
    void unpin() {
        if (pinned == null) return;
        Jni.unpin(environment, handle, address);
        pinned = null;
    }

    private void keep(Object array, int place) {
        descend(FRAMES, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
            21, 22, 23);
        WeakReference<Object> kept = new WeakReference<>(array);
        long fresh = Jni.handle(array);
        if (fresh == 0) throw new OutOfMemoryError("no native memory for a handle of an array");
        if (handles[place] != 0) Jni.forget(environment, handles[place]);
        arrays[place] = kept;
        handles[place] = fresh;
    }

    /**
     * Throws where the stack is nearly full: in the upcall, an exception would end the JVM. What
     * does not fit into registers makes each frame larger, which is quicker than more frames.
     */
    private static long descend(int frames, long a, long b, long c, long d, long e, long f, long g,
        long h, long i, long j, long k, long l, long m, long n, long o, long p, long q, long r,
        long s, long t, long u, long v, long w, long x) {
        if (frames == 0) return a;
        return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v
            + w + x
            + descend(
                frames - 1, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, a);
    }

    /** JNI's functions. A thread, as JNI tells which class the thread is of that asks. */
    private static final class Jni extends Thread {
        private static final ValueLayout.OfLong WORD = ValueLayout.JAVA_LONG;
        private static final Linker LINKER = Linker.nativeLinker();
        /** Any function of up to four words. */
        private static final MethodHandle CALL =
            LINKER.downcallHandle(FunctionDescriptor.of(WORD, WORD, WORD, WORD, WORD));
        private static final int VERSION = 0x00150000;

        /** Places of functions in JNI's tables (JNI specification, chapters 4 and 5). */
        private static final int GET_ENV = 6, FIND_CLASS = 6, GET_OBJECT_CLASS = 31,
                                 GET_STATIC_METHOD_ID = 113, CALL_STATIC_OBJECT_METHOD_A = 116,
                                 REGISTER_NATIVES = 215, GET_CRITICAL = 222, RELEASE_CRITICAL = 223,
                                 NEW_WEAK_GLOBAL = 226, DELETE_WEAK_GLOBAL = 227,
                                 EXCEPTION_CHECK = 228;

        private static final MethodHandle GET, RELEASE, HOLD, FORGET;

        static {
            long environment = environment();
            GET = bound(environment, GET_CRITICAL);
            RELEASE = bound(environment, RELEASE_CRITICAL);
            HOLD = bound(environment, NEW_WEAK_GLOBAL);
            FORGET = bound(environment, DELETE_WEAK_GLOBAL);
        }

        private boolean done;

        private static MethodHandle bound(long environment, int place) {
            return CALL.bindTo(function(environment, place));
        }

        private static long call(MethodHandle function, long a, long b, long c, long d) {
            try {
                return (long) function.invokeExact(a, b, c, d);
            } catch (Throwable thrown) {
                throw Native.broken(thrown);
            }
        }

        static long pin(long environment, long handle) {
            return call(GET, environment, handle, 0, 0);
        }

        static void unpin(long environment, long handle, long address) {
            call(RELEASE, environment, handle, address, 0);
        }

        static void forget(long environment, long handle) {
            call(FORGET, environment, handle, 0, 0);
        }

        /** A new weak handle of an object. */
        static native long handle(Object object);

        /** What `handle` runs: the arguments of a static method in JNI. */
        private static long hold(long environment, long type, long object) {
            return call(HOLD, environment, object, 0, 0);
        }

        /** Whether `handle` can be called. */
        static boolean registered() {
            Jni thread = new Jni();
            thread.setDaemon(true);
            thread.start();
            try {
                thread.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
                return false;
            }
            return thread.done;
        }

        @Override
        public void run() {
            try (Arena arena = Arena.ofConfined()) {
                FunctionDescriptor shape = FunctionDescriptor.of(WORD, WORD, WORD, WORD);
                MethodType type = shape.toMethodType();
                MethodHandle hold = MethodHandles.lookup().findStatic(Jni.class, "hold", type);
                long stub = LINKER.upcallStub(hold, shape, Arena.global()).address();
                // a JNINativeMethod: name, signature, function
                long method = arena.allocate(3 * WORD.byteSize()).address();
                ALL.set(LONG, method, text(arena, "handle"));
                ALL.set(LONG, method + 8, text(arena, "(Ljava/lang/Object;)J"));
                ALL.set(LONG, method + 16, stub);
                long name = text(arena, "java/lang/Thread"), asks = text(arena, "currentThread"),
                     returns = text(arena, "()Ljava/lang/Thread;"), own = environment();
                MemorySegment find = function(own, FIND_CLASS),
                              ask = function(own, GET_STATIC_METHOD_ID),
                              answer = function(own, CALL_STATIC_OBJECT_METHOD_A),
                              failed = function(own, EXCEPTION_CHECK),
                              is = function(own, GET_OBJECT_CLASS),
                              register = function(own, REGISTER_NATIVES);
                // Local handles from here on. A native method of Java would free them; none is
                // called, as CALL has been linked.
                long threads = call(find, own, name, 0, 0);
                long current = call(ask, own, threads, asks, returns);
                long thread = call(answer, own, threads, current, 0);
                if ((byte) call(failed, own, 0, 0, 0) != 0) return;
                long jni = call(is, own, thread, 0, 0);
                done = (int) call(register, own, jni, method, 1) == 0;
            } catch (ReflectiveOperationException absent) {
                throw new IllegalStateException(absent);
            }
        }

        private static long text(Arena arena, String text) {
            return arena.allocateFrom(text).address();
        }

        /** A function of the table, to whose address `object` points. */
        private static MemorySegment function(long object, int place) {
            long table = ALL.get(LONG, object);
            return MemorySegment.ofAddress(ALL.get(LONG, table + place * WORD.byteSize()));
        }

        private static long call(MemorySegment function, long a, long b, long c, long d) {
            try {
                return (long) CALL.invokeExact(function, a, b, c, d);
            } catch (Throwable thrown) {
                throw Native.broken(thrown);
            }
        }

        /** This thread's JNIEnv. */
        static long environment() {
            try (Arena arena = Arena.ofConfined()) {
                MemorySegment created = SymbolLookup.libraryLookup("libjvm.so", Arena.global())
                                            .find("JNI_GetCreatedJavaVMs")
                                            .orElseThrow();
                long out = arena.allocate(3 * WORD.byteSize()).address();
                call(created, out, 1, out + 8, 0);
                long machine = ALL.get(LONG, out);
                call(function(machine, GET_ENV), machine, out + 16, VERSION, 0);
                return ALL.get(LONG, out + 16);
            }
        }
    }
}
