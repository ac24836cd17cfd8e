// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.rank;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import mpi.MPI;
import mpi.MPIException;

/** Long arrays, which the library uses in place where the collector is G1. */
public final class PinsTest {
    private static final int INTS = 50000, ROUNDS = 20;

    private PinsTest() {}

    /** What the collector has to move, if it can. */
    private static int[] young(int seed) {
        int[] array = new int[INTS];
        for (int i = 0; i < INTS; i++) array[i] = seed + i;
        return array;
    }

    private static void collect() {
        byte[][] garbage = new byte[64][];
        for (int i = 0; i < 16384; i++) garbage[i % garbage.length] = new byte[4096];
        System.gc();
    }

    /** A send waits while another thread collects; its array is what is received then. */
    public static void collectorWhileSending() throws MPIException, InterruptedException {
        if (MPI.Query_thread() != MPI.THREAD_MULTIPLE) return;
        for (int round = 0; round < 3; round++) {
            int[] to = young(-1), from = young(round);
            Main.Part receiver = new Main.Part(Thread.ofPlatform(), () -> {
                collect();
                world.Recv(to, 0, INTS, MPI.INT, rank, 61);
            });
            world.Ssend(from, 0, INTS, MPI.INT, rank, 61);
            receiver.end();
            same(young(round), to);
        }
    }

    /** Operations in place on young arrays, between collections. */
    public static void collectorBetweenOperations() throws MPIException {
        int ranks = world.Size();
        for (int round = 0; round < ROUNDS; round++) {
            int[] from = young(rank + round), to = new int[INTS], sum = new int[INTS];
            world.Sendrecv(
                from, 0, INTS, MPI.INT, next(world), 62, to, 0, INTS, MPI.INT, previous(world), 62);
            same(young(previous(world) + round), to);
            if (round % 5 == 0) collect();
            world.Allreduce(from, 0, sum, 0, INTS, MPI.INT, MPI.SUM);
            same(ranks * (round + 7) + ranks * (ranks - 1) / 2, sum[7]);
            int[] counts = new int[ranks], starts = new int[ranks], all = new int[INTS];
            int part = INTS / ranks - 1;
            for (int r = 0; r < ranks; r++) {
                counts[r] = part;
                starts[r] = r * (part + 1);
            }
            world.Alltoallv(from, 1, counts, starts, MPI.INT, all, 0, counts, starts, MPI.INT);
            for (int r = 0; r < ranks; r++) {
                same(r + round + 1 + starts[rank], all[starts[r]]);
                same(r + round + starts[rank] + part, all[starts[r] + part - 1]);
                same(0, all[starts[r] + part]);
            }
        }
    }

    /** An error leaves the array as any other. */
    public static void afterAnError() throws MPIException {
        for (int round = 0; round < ROUNDS; round++) {
            int[] array = young(round);
            try {
                world.Sendrecv(
                    array, 0, INTS, MPI.INT, rank, 63, new int[1], 0, 2, MPI.INT, rank, 63);
                throw new AssertionError("a receive past the end of an array");
            } catch (MPIException expected) {
                holds(
                    expected.getMessage().contains("not all in the buffer"), expected.getMessage());
            }
            collect();
            same(young(round), array);
        }
    }

    private static int depth;

    /** Of a new array each time. */
    private static void sendAndDescend() throws MPIException {
        world.Send(new int[2000], 0, 2000, MPI.INT, MPI.PROC_NULL, 64);
        depth++;
        sendAndDescend();
    }

    /** Sends to the end of the stack: an overflow is an error as any other, and ends no JVM. */
    public static void stackOverflow() throws InterruptedException {
        for (int size = 400; size < 600; size += 5) {
            new Main
                .Part(Thread.ofPlatform().stackSize(size << 10),
                    () -> {
                        try {
                            sendAndDescend();
                        } catch (StackOverflowError expected) {
                            return;
                        }
                    })
                .end();
        }
        holds(depth > 1000, "sends of one another: " + depth);
    }

    /** A virtual thread sends as any other. */
    public static void virtualThread() throws InterruptedException {
        int[] to = new int[INTS];
        new Main
            .Part(Thread.ofVirtual(),
                () -> {
                    if (MPI.Query_thread() != MPI.THREAD_MULTIPLE) return;
                    world.Sendrecv(
                        young(9), 0, INTS, MPI.INT, rank, 65, to, 0, INTS, MPI.INT, rank, 65);
                    same(young(9), to);
                })
            .end();
    }
}
