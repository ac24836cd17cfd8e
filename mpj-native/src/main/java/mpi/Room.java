// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.io.IOException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/**
 * Native memory for messages that arrive, with address space behind it.
 *
 * <p>Open MPI up to 5.0.11 may write a whole message, however short the buffer is. What it writes
 * past the end then meets memory that nobody uses. The system provides pages only as they are
 * written. Without such address space, because of a limit or strict accounting, memory is plain.
 */
final class Room {
    private static final long READ_WRITE = 3, PRIVATE_ANONYMOUS_NORESERVE = 0x4022;
    private static final long DONTNEED = 4, NOHUGEPAGE = 15;
    /** A shorter room gets no large page, which the system may give it for its first byte. */
    private static final long LARGE_PAGE = 1 << 21;
    private static final long PAGE = 4096;
    /** Address space for all rooms. Each gets a part of what is left. */
    private static final long MOST = 1L << 44;
    private static final int PARTS = 1024;

    private static final MethodHandle MMAP = bind("mmap", 6), MUNMAP = bind("munmap", 2),
                                      MADVISE = bind("madvise", 3);
    private static final boolean LIMITED = limited();
    /** Rooms that nothing is received into, by the logarithm of their size. */
    private static final List<ArrayDeque<Room>> FREE =
        Stream.generate(() -> new ArrayDeque<Room>()).limit(64).toList();
    private static long reserved;

    final long address;
    private final long bytes, all;

    /** Memory of so many bytes. */
    Room(long bytes) {
        this.bytes = bytes;
        all = reserve(bytes);
        address = map(all);
        if (address != -1) {
            if (bytes < LARGE_PAGE) advise(NOHUGEPAGE);
            return;
        }
        release(all);
        throw new OutOfMemoryError("no native memory for a message of " + bytes + " bytes");
    }

    /** Memory of at least so many bytes, for a message under way. */
    static Room take(long bytes) {
        int level = Pool.level(bytes);
        synchronized (FREE) {
            Room room = FREE.get(level).poll();
            if (room != null) return room;
        }
        return new Room(1L << level);
    }

    /** Makes a room that was taken free for another message. */
    void give() {
        synchronized (FREE) {
            FREE.get(Pool.level(bytes)).push(this);
        }
    }

    /** The bytes of address space that a room takes. */
    private static synchronized long reserve(long bytes) {
        long whole = bytes + PAGE - 1 & -PAGE;
        if (!LIMITED) whole += Math.max(0, MOST - reserved) / PARTS & -PAGE;
        reserved += whole;
        return whole;
    }

    private static synchronized void release(long whole) {
        reserved -= whole;
    }

    private static long map(long bytes) {
        try {
            return (long) MMAP.invokeExact(
                0L, bytes, READ_WRITE, PRIVATE_ANONYMOUS_NORESERVE, -1L, 0L);
        } catch (Throwable thrown) {
            throw Native.broken(thrown);
        }
    }

    /** Returns the memory to the system, for good. */
    void unmap() {
        release(all);
        try {
            long ignored = (long) MUNMAP.invokeExact(address, all);
        } catch (Throwable thrown) {
            throw Native.broken(thrown);
        }
    }

    /** After a too long message: returns to the system what it took. */
    void discard() {
        advise(DONTNEED);
    }

    private void advise(long what) {
        try {
            long ignored = (long) MADVISE.invokeExact(address, all, what);
        } catch (Throwable thrown) {
            throw Native.broken(thrown);
        }
    }

    /** Whether address space is limited, or counted as memory. */
    private static boolean limited() {
        try {
            if (Files.readString(Path.of("/proc/sys/vm/overcommit_memory")).strip().equals("2"))
                return true;
            for (String line : Files.readAllLines(Path.of("/proc/self/limits")))
                if (line.startsWith("Max address space"))
                    return !line.matches(".*space +unlimited.*");
            return true;
        } catch (IOException | SecurityException unknown) {
            return true;
        }
    }

    private static MethodHandle bind(String name, int arguments) {
        MemoryLayout[] words = new MemoryLayout[arguments];
        Arrays.fill(words, ValueLayout.JAVA_LONG);
        return Linker.nativeLinker().downcallHandle(
            Linker.nativeLinker().defaultLookup().find(name).orElseThrow(),
            FunctionDescriptor.of(ValueLayout.JAVA_LONG, words));
    }
}
