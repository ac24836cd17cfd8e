// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;

/**
 * Native memory of one thread for the length of a call. It grows to the thread's longest message
 * and lives as long as the thread.
 */
final class Scratch {
    private static final ThreadLocal<Scratch> OF_THREAD = ThreadLocal.withInitial(Scratch::new);
    private static final int LEAST = 1 << 16;
    private static final int LARGE = 1 << 24;
    /** The number of the first thread that called MPI; 0: none has. */
    private static long first;
    private static volatile boolean several;

    /** For results: eight words, and a status. */
    final long out, status;

    private final Region fixed = new Region(), send = new Region(), words = new Region();
    private Room room;
    private Scratch inner;
    private MemorySegment holdsRoom;
    private long roomBytes;
    private Pins pins;

    /** Memory that a longer one replaces. */
    private static final class Region {
        private Arena arena;
        private long address, bytes;

        long atLeast(long wanted) {
            if (wanted > bytes) {
                long size = sizeFor(wanted);
                // Freed by the collector, when neither this thread nor a call holds it any more.
                Arena fresh = Arena.ofAuto();
                address = fresh.allocate(size, 4096).address();
                arena = fresh;
                bytes = size;
            }
            return address;
        }
    }

    /** A power of two, or a multiple of LARGE. */
    private static long sizeFor(long wanted) {
        if (wanted > LARGE) return (wanted + LARGE - 1) / LARGE * LARGE;
        return Math.max(LEAST, Long.highestOneBit(Math.max(1, wanted - 1)) * 2);
    }

    /** Whether several threads have called MPI. */
    static boolean ofSeveralThreads() {
        return several;
    }

    private Scratch() {
        out = fixed.atLeast(4096);
        status = out + 256;
        synchronized (Scratch.class) {
            long mine = Thread.currentThread().threadId();
            if (first == 0) first = mine;
            if (first != mine) several = true;
        }
    }

    static Scratch get() {
        return OF_THREAD.get();
    }

    /** Gives a function other memory, while a native call of this thread uses this one. */
    void within(Runnable function) {
        if (inner == null) inner = new Scratch();
        OF_THREAD.set(inner);
        try {
            function.run();
        } finally {
            OF_THREAD.set(this);
        }
    }

    /** Memory for what a call sends. */
    long send(long bytes) {
        return send.atLeast(bytes);
    }

    /** Memory for what a call receives. */
    long receive(long bytes) {
        if (room == null || bytes > roomBytes) {
            long size = sizeFor(bytes);
            Room fresh = new Room(size);
            holdsRoom = MemorySegment.ofAddress(fresh.address)
                            .reinterpret(size, Arena.ofAuto(), freed -> fresh.unmap());
            room = fresh;
            roomBytes = size; // last: without memory, the old room stays
        }
        return room.address;
    }

    /** Whether this thread can pin arrays. A virtual one can move to another thread of JNI. */
    boolean canPin() {
        return Pins.USABLE && !Thread.currentThread().isVirtual();
    }

    /** The address of an array, which stays there until the call is done. */
    long pin(Object array) {
        if (pins == null) pins = new Pins();
        return pins.pin(array);
    }

    /** What follows each call with memory of {@link Buffers#source}; returns the call's code. */
    int done(int code) {
        if (pins != null) pins.unpin();
        return code;
    }

    /** Checks the code of a call that has sent. */
    void sent(int code) throws MPIException {
        MPIException.check(done(code));
    }

    /** Checks the code of a call that has received. */
    void received(int code) throws MPIException {
        if (done(code) == 0) return;
        if (room != null) room.discard();
        throw MPIException.of(code);
    }

    /** Memory for arrays of counts and handles. */
    long words(long bytes) {
        return words.atLeast(bytes);
    }

    /** Copies integers to memory of this thread, from a byte of `words` on. */
    static long put(long address, int[] values) {
        for (int i = 0; i < values.length; i++) Native.putInt(address + 4L * i, values[i]);
        return address;
    }
}
