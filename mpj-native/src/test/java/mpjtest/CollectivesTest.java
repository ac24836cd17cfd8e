// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.rank;
import static mpjtest.Main.ranks;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import mpi.MPI;
import mpi.MPIException;

/** Collective operations that move data, with each rank as root. */
public final class CollectivesTest {
    private CollectivesTest() {}

    /** Rank r has r + 1 items in the v forms, with a gap of one item after each part. */
    private static int[] counts() {
        int[] counts = new int[ranks];
        for (int r = 0; r < ranks; r++) counts[r] = r + 1;
        return counts;
    }

    private static int[] starts() {
        int[] starts = new int[ranks];
        for (int r = 1; r < ranks; r++) starts[r] = starts[r - 1] + r + 1;
        return starts;
    }

    private static final int END = 64;

    private static int[] parts() {
        int[] all = new int[END];
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i <= r; i++) all[1 + starts()[r] + i] = 100 * r + i;
        return all;
    }

    private static int[] own() {
        int[] own = new int[ranks + 2];
        for (int i = 0; i <= rank; i++) own[1 + i] = 100 * rank + i;
        return own;
    }

    public static void barrier() throws MPIException {
        for (int i = 0; i < 10; i++) world.Barrier();
    }

    public static void bcast() throws MPIException {
        for (int root = 0; root < ranks; root++)
            for (int n : new int[] {0, 1, 50000}) {
                float[] buffer = new float[n + 1], expected = new float[n + 1];
                for (int i = 1; i <= n; i++) expected[i] = i + root;
                if (rank == root) buffer = expected.clone();
                world.Bcast(buffer, 1, n, MPI.FLOAT, root);
                same(expected, buffer);
            }
    }

    public static void gatherAndScatter() throws MPIException {
        for (int root = 0; root < ranks; root++) {
            long[] mine = {0, rank, -rank};
            long[] all = rank == root ? new long[2 * ranks + 1] : null;
            world.Gather(mine, 1, 2, MPI.LONG, all, 1, 2, MPI.LONG, root);
            if (rank == root)
                for (int r = 0; r < ranks; r++) {
                    same((long) r, all[1 + 2 * r]);
                    same((long) -r, all[2 + 2 * r]);
                }
            long[] got = new long[4];
            world.Scatter(all, 1, 2, MPI.LONG, got, 1, 2, MPI.LONG, root);
            same(new long[] {0, rank, -rank, 0}, got);
        }
    }

    public static void gathervAndScatterv() throws MPIException {
        for (int root = 0; root < ranks; root++) {
            int[] all = rank == root ? new int[END] : null;
            world.Gatherv(own(), 1, rank + 1, MPI.INT, all, 1, counts(), starts(), MPI.INT, root);
            if (rank == root) same(parts(), all);
            int[] got = new int[ranks + 2];
            world.Scatterv(all, 1, counts(), starts(), MPI.INT, got, 1, rank + 1, MPI.INT, root);
            same(own(), got);
        }
    }

    public static void allgather() throws MPIException {
        char[] all = new char[2 * ranks], expected = new char[2 * ranks];
        for (int i = 0; i < 2 * ranks; i++) expected[i] = (char) ('a' + i);
        world.Allgather(expected, 2 * rank, 2, MPI.CHAR, all, 0, 2, MPI.CHAR);
        same(expected, all);
        int[] parts = new int[END];
        world.Allgatherv(own(), 1, rank + 1, MPI.INT, parts, 1, counts(), starts(), MPI.INT);
        same(parts(), parts);
    }

    public static void alltoall() throws MPIException {
        short[] from = new short[2 * ranks], to = new short[2 * ranks + 1];
        for (int r = 0; r < ranks; r++) {
            from[2 * r] = (short) (10 * rank + r);
            from[2 * r + 1] = (short) -from[2 * r];
        }
        world.Alltoall(from, 0, 2, MPI.SHORT, to, 1, 2, MPI.SHORT);
        for (int r = 0; r < ranks; r++) {
            same((short) (10 * r + rank), to[1 + 2 * r]);
            same((short) -(10 * r + rank), to[2 + 2 * r]);
        }
    }

    public static void alltoallv() throws MPIException {
        // Rank a sends b + 1 items to rank b.
        int[] to = new int[(rank + 2) * ranks], from = parts();
        int[] receive = new int[ranks], places = new int[ranks];
        for (int r = 0; r < ranks; r++) {
            receive[r] = rank + 1;
            places[r] = (ranks - 1 - r) * (rank + 2);
        }
        world.Alltoallv(from, 1, counts(), starts(), MPI.INT, to, 0, receive, places, MPI.INT);
        for (int r = 0; r < ranks; r++) {
            for (int i = 0; i <= rank; i++) same(100 * rank + i, to[places[r] + i]);
            same(0, to[places[r] + rank + 1]);
        }
    }

    private static IntBuffer direct(int ints) {
        return ByteBuffer.allocateDirect(4 * ints).order(ByteOrder.nativeOrder()).asIntBuffer();
    }

    public static void inPlaceOfDirectBuffers() throws MPIException {
        IntBuffer from = direct(END), to = direct(END + ranks * (ranks + 2));
        from.put(0, parts());
        int[] receive = new int[ranks], places = new int[ranks];
        for (int r = 0; r < ranks; r++) {
            receive[r] = rank + 1;
            places[r] = r * (rank + 2);
        }
        world.Alltoallv(from, 1, counts(), starts(), MPI.INT, to, 2, receive, places, MPI.INT);
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i <= rank; i++) same(100 * rank + i, to.get(2 + places[r] + i));
        from.put(0, rank);
        world.Allgather(from, 0, 1, MPI.INT, to, 0, 1, MPI.INT);
        for (int r = 0; r < ranks; r++) same(r, to.get(r));
        world.Allreduce(from, 0, to, 3, 1, MPI.INT, MPI.SUM);
        same(ranks * (ranks - 1) / 2, to.get(3));
        from.put(0, 70 + rank);
        world.Bcast(from, 0, 1, MPI.INT, 0);
        same(70, from.get(0));
    }
}
