// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * Native memory for what is being sent ({@link Room} has that for receives). It is never returned
 * to the system, since a message may outlive its request, but used again.
 */
final class Pool {
    private static final int LEAST = 8;
    /** Free blocks by the logarithm of their size. */
    private static final long[][] FREE = new long[48][16];
    private static final int[] COUNT = new int[48];

    private Pool() {}

    static int level(long bytes) {
        return Math.max(LEAST, 64 - Long.numberOfLeadingZeros(Math.max(1, bytes - 1)));
    }

    /** A block of so many bytes. */
    static long take(long bytes) {
        int level = level(bytes);
        synchronized (Pool.class) {
            if (COUNT[level] > 0) return FREE[level][--COUNT[level]];
        }
        return Native.allocate(1L << level);
    }

    /** Gives back a block of so many bytes. */
    static void give(long address, long bytes) {
        int level = level(bytes);
        synchronized (Pool.class) {
            if (COUNT[level] == FREE[level].length)
                FREE[level] = java.util.Arrays.copyOf(FREE[level], 2 * COUNT[level]);
            FREE[level][COUNT[level]++] = address;
        }
    }
}
