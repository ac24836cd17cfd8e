// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.rank;
import static mpjtest.Main.ranks;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Op;
import mpi.User_function;

/** Reductions with predefined operations and with the program's own. */
public final class ReductionsTest {
    private ReductionsTest() {}

    private static int all(int value, Op op) throws MPIException {
        int[] result = new int[2];
        world.Allreduce(new int[] {0, value}, 1, result, 1, 1, MPI.INT, op);
        return result[1];
    }

    public static void predefined() throws MPIException {
        int product = 1, bits = 0, odd = 0;
        for (int r = 0; r < ranks; r++) {
            product *= r + 1;
            bits |= 1 << r;
            odd ^= r + 1;
        }
        same(ranks, all(rank + 1, MPI.MAX));
        same(1, all(rank + 1, MPI.MIN));
        same(ranks * (ranks + 1) / 2, all(rank + 1, MPI.SUM));
        same(product, all(rank + 1, MPI.PROD));
        same(bits, all(1 << rank, MPI.BOR));
        same(~bits, all(~(1 << rank), MPI.BAND));
        same(odd, all(rank + 1, MPI.BXOR));
        same(1, all(rank, MPI.LOR) | (ranks == 1 ? 1 : 0));
        same(0, all(rank, MPI.LAND));
        same(1, all(rank == 0 ? 1 : 0, MPI.LXOR));
    }

    public static void everyType() throws MPIException {
        byte[] bytes = new byte[1];
        world.Allreduce(new byte[] {(byte) -rank}, 0, bytes, 0, 1, MPI.BYTE, MPI.MIN);
        same(new byte[] {(byte) (1 - ranks)}, bytes);
        char[] chars = new char[1];
        world.Allreduce(new char[] {(char) (40000 + rank)}, 0, chars, 0, 1, MPI.CHAR, MPI.MAX);
        same(new char[] {(char) (39999 + ranks)}, chars);
        short[] shorts = new short[1];
        world.Allreduce(new short[] {-2}, 0, shorts, 0, 1, MPI.SHORT, MPI.SUM);
        same(new short[] {(short) (-2 * ranks)}, shorts);
        boolean[] flags = new boolean[2];
        world.Allreduce(new boolean[] {rank == 0, true}, 0, flags, 0, 2, MPI.BOOLEAN, MPI.LAND);
        same(new boolean[] {ranks == 1, true}, flags);
        long[] longs = new long[1];
        world.Allreduce(new long[] {1L << 40}, 0, longs, 0, 1, MPI.LONG, MPI.SUM);
        same(new long[] {(long) ranks << 40}, longs);
        float[] floats = new float[1];
        world.Allreduce(new float[] {0.5f}, 0, floats, 0, 1, MPI.FLOAT, MPI.SUM);
        same(new float[] {0.5f * ranks}, floats);
        double[] doubles = new double[70000];
        double[] from = new double[70000];
        java.util.Arrays.fill(from, 0.25);
        world.Allreduce(from, 0, doubles, 0, 70000, MPI.DOUBLE, MPI.SUM);
        for (double value : doubles) same(0.25 * ranks, value);
    }

    public static void reduce() throws MPIException {
        for (int root = 0; root < ranks; root++) {
            int[] to = rank == root ? new int[3] : null;
            world.Reduce(new int[] {rank, 1}, 0, to, 1, 2, MPI.INT, MPI.SUM, root);
            if (rank == root) same(new int[] {0, ranks * (ranks - 1) / 2, ranks}, to);
        }
    }

    public static void scan() throws MPIException {
        int[] to = new int[1];
        world.Scan(new int[] {rank + 1}, 0, to, 0, 1, MPI.INT, MPI.SUM);
        same((rank + 1) * (rank + 2) / 2, to[0]);
    }

    public static void reduceScatter() throws MPIException {
        int[] counts = new int[ranks];
        int total = 0, before = 0;
        for (int r = 0; r < ranks; r++) {
            counts[r] = r + 1;
            if (r < rank) before += r + 1;
            total += r + 1;
        }
        int[] from = new int[total], to = new int[rank + 2];
        for (int i = 0; i < total; i++) from[i] = i;
        world.Reduce_scatter(from, 0, to, 1, counts, MPI.INT, MPI.SUM);
        for (int i = 0; i <= rank; i++) same(ranks * (before + i), to[1 + i]);
    }

    public static void locations() throws MPIException {
        int last = ranks - 1;
        int[] ints = new int[4];
        world.Allreduce(new int[] {rank, rank, -rank, rank}, 0, ints, 0, 2, MPI.INT2, MPI.MINLOC);
        same(new int[] {0, 0, -last, last}, ints);
        world.Allreduce(new int[] {5, rank, rank, rank}, 0, ints, 0, 2, MPI.INT2, MPI.MAXLOC);
        same(new int[] {5, 0, last, last}, ints); // of equal values the least place
        short[] shorts = new short[2];
        world.Allreduce(
            new short[] {(short) rank, (short) rank}, 0, shorts, 0, 1, MPI.SHORT2, MPI.MAXLOC);
        same(new short[] {(short) last, (short) last}, shorts);
        long[] longs = new long[2];
        world.Allreduce(
            new long[] {(long) rank << 40, rank}, 0, longs, 0, 1, MPI.LONG2, MPI.MAXLOC);
        same(new long[] {(long) last << 40, last}, longs);
        float[] floats = new float[2];
        world.Allreduce(new float[] {-rank, rank}, 0, floats, 0, 1, MPI.FLOAT2, MPI.MINLOC);
        same(new float[] {-last + 0f, last}, floats);
        double[] doubles = new double[2];
        world.Allreduce(new double[] {rank + 0.5, rank}, 0, doubles, 0, 1, MPI.DOUBLE2, MPI.MAXLOC);
        same(new double[] {last + 0.5, last}, doubles);
        refused(
            "pairs", () -> world.Allreduce(new int[1], 0, new int[1], 0, 1, MPI.INT, MPI.MINLOC));
    }

    /** Not commutative: affine maps x -> a x + b, one after the other. */
    private static final class Compose extends User_function {
        @Override
        public void Call(
            Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {
            long[] a = (long[]) in, b = (long[]) inout;
            for (int i = 0; i < count; i++) {
                int p = inoffset + 2 * i, q = inoutoffset + 2 * i;
                long factor = a[p] * b[q], constant = a[p] * b[q + 1] + a[p + 1];
                b[q] = factor;
                b[q + 1] = constant;
            }
        }
    }

    public static void ownOperation() throws MPIException {
        Op compose = new Op(new Compose(), false);
        Datatype map = Datatype.Contiguous(2, MPI.LONG);
        map.Commit();
        long factor = 1, constant = 0, scanFactor = 1, scanConstant = 0;
        for (int r = ranks - 1; r >= 0; r--) {
            constant = (r + 2) * constant + r;
            factor *= r + 2;
        }
        for (int r = rank; r >= 0; r--) {
            scanConstant = (r + 2) * scanConstant + r;
            scanFactor *= r + 2;
        }
        long[] own = {rank + 2, rank}, result = new long[3];
        world.Allreduce(own, 0, result, 1, 1, map, compose);
        same(new long[] {0, factor, constant}, result);
        world.Scan(own, 0, result, 0, 1, map, compose);
        same(scanFactor, result[0]);
        same(scanConstant, result[1]);
        long[] atRoot = new long[2];
        world.Reduce(own, 0, atRoot, 0, 1, map, compose, ranks - 1);
        if (rank == ranks - 1) same(new long[] {factor, constant}, atRoot);
        compose.Free();
        holds(compose.Is_null(), "a freed operation is null");
        refused("has been freed", () -> world.Allreduce(own, 0, result, 0, 1, map, compose));
    }

    public static void ownOperationOnGaps() throws MPIException {
        Datatype odd = Datatype.Struct(
            new int[] {1, 1, 1}, new int[] {0, 1, 2}, new Datatype[] {MPI.LB, MPI.INT, MPI.UB});
        odd.Commit();
        Op sum = new Op(new User_function() {
            @Override
            public void Call(
                Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {
                for (int i = 0; i < count; i++)
                    ((int[]) inout)[inoutoffset + 2 * i + 1] += ((int[]) in)[inoffset + 2 * i + 1];
            }
        }, true);
        int[] to = {-1, -1, -1, -1};
        world.Allreduce(new int[] {7, 1, 7, rank}, 0, to, 0, 2, odd, sum);
        same(new int[] {-1, ranks, -1, ranks * (ranks - 1) / 2}, to);
        sum.Free();
    }

    public static void manyOperationsAndTypes() throws MPIException {
        for (int i = 1; i <= 50; i++) {
            int factor = i;
            Op sum = new Op(new User_function() {
                @Override
                public void Call(Object in, int inoffset, Object inout, int inoutoffset, int count,
                    Datatype type) {
                    for (int e = 0; e < count * type.Size(); e++)
                        ((int[]) inout)[inoutoffset + e] += ((int[]) in)[inoffset + e];
                }
            }, true);
            Datatype items = Datatype.Contiguous(i, MPI.INT);
            items.Commit();
            int[] from = new int[i], to = new int[i];
            from[i - 1] = factor;
            world.Allreduce(from, 0, to, 0, 1, items, sum);
            same(factor * ranks, to[i - 1]);
            sum.Free();
            items.Free();
            if (i % 10 == 0) System.gc();
        }
    }

    public static void ownOperationThatThrows() throws MPIException {
        if (ranks == 1) return; // there is nothing to reduce
        Op broken = new Op(new User_function() {
            @Override
            public void Call(
                Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {
                throw new IllegalStateException("broken on purpose");
            }
        }, true);
        int[] to = new int[1];
        boolean threw = false;
        try {
            world.Allreduce(new int[] {1}, 0, to, 0, 1, MPI.INT, broken);
        } catch (MPIException error) {
            threw = error.getMessage().contains("broken on purpose");
        }
        int[] any = new int[1];
        world.Allreduce(new int[] {threw ? 1 : 0}, 0, any, 0, 1, MPI.INT, MPI.SUM);
        holds(any[0] > 0, "a rank that called the function gets its exception");
        broken.Free();
    }

    public static void wrongOnes() throws MPIException {
        refused("not defined for DOUBLE",
            () -> world.Allreduce(new double[1], 0, new double[1], 0, 1, MPI.DOUBLE, MPI.BAND));
        refused("not defined for BOOLEAN",
            () -> world.Allreduce(new boolean[1], 0, new boolean[1], 0, 1, MPI.BOOLEAN, MPI.SUM));
        refused("operation is null",
            () -> world.Allreduce(new int[1], 0, new int[1], 0, 1, MPI.INT, null));
        refused("function of the operation is null", () -> new Op(null, true));
        refused("predefined", () -> MPI.SUM.Free());
    }
}
