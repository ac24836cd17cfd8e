import java.util.Arrays;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/**
 * FT: a partial differential equation solved by Fourier transforms in three dimensions
 * (report, 2.4): one forward transform, then for each time step a multiplication and an inverse
 * one, and a checksum of the result. Grid of processes, layout of the blocks and all-to-alls as in
 * ../npb/ft.c; the transforms run on lines of their own, for the reason that MG gives.
 */
public final class FT extends Npb {
    private static final int BATCH = 32, CHECKED = 1024;
    private static final int[][] POINTS = {{64, 64, 64}, {128, 128, 32}, {256, 256, 128},
        {512, 256, 256}, {512, 512, 512}, {2048, 1024, 1024}, {4096, 2048, 2048}};
    private static final int[] STEPS = {6, 6, 6, 20, 20, 25, 25};

    private int nx, ny, nz, across, along, myAcross, myAlong;
    // yShare of the columns that I hold in space, zShare of the planes
    private int xShare, yShare, zShare;
    private int yPart; // of the columns in Fourier space
    private Intracomm row, column; // those who share my planes, and those who share my columns
    private double[] fourier, space, moved; // a point has two numbers
    private int circle = 512; // or the points of a longer axis
    private double[] rootRe, rootIm; // exp(-2 pi i k / circle)
    private double[][] decay; // what a time step leaves of a frequency
    private double[][][] work; // real and imaginary parts, from and to
    private final int[] rows = new int[BATCH];
    private final double[] mine = new double[2], all = new double[2];

    private FT(Program program) {
        super(program, "FT", "floating point");
    }

    public static void main(String[] arguments) {
        Program.run("npb FT", arguments, (program, own) -> new FT(program).run(own));
    }

    @Override
    double bytes(int problem) {
        return (processes > 1 ? 3 : 2) * 16.0 * POINTS[problem][0] * POINTS[problem][1]
            * POINTS[problem][2] / processes;
    }

    @Override
    long fewest(int problem) {
        final int[] n = POINTS[problem];
        return Math.max(1, 2L * n[0] * n[1] * n[2] >> 30);
    }

    @Override
    long most(int problem) {
        final int[] n = POINTS[problem];
        return (long) Math.min(n[1], n[2]) * Math.min(n[0], n[1]);
    }

    /* ---- transforms of interleaved lines of n points: self-sorting (Stockham), by fours and at
     * the end by two */

    private static void butterfly(int count, double w1r, double w1i, double w2r, double w2i,
        double w3r, double w3i, double[] ar, double[] ai, double[] br, double[] bi, double[] cr,
        double[] ci, double[] dr, double[] di, double[] y0r, double[] y0i, double[] y1r,
        double[] y1i, double[] y2r, double[] y2i, double[] y3r, double[] y3i) {
        for (int q = 0; q < count; q++) {
            final double sumR = ar[q] + cr[q], sumI = ai[q] + ci[q], differenceR = ar[q] - cr[q],
                         differenceI = ai[q] - ci[q];
            final double oddR = br[q] + dr[q], oddI = bi[q] + di[q], turnedR = bi[q] - di[q],
                         turnedI = dr[q] - br[q];
            final double oneR = differenceR + turnedR, oneI = differenceI + turnedI,
                         twoR = sumR - oddR, twoI = sumI - oddI;
            final double threeR = differenceR - turnedR, threeI = differenceI - turnedI;
            y0r[q] = sumR + oddR;
            y0i[q] = sumI + oddI;
            y1r[q] = oneR * w1r - oneI * w1i;
            y1i[q] = oneR * w1i + oneI * w1r;
            y2r[q] = twoR * w2r - twoI * w2i;
            y2i[q] = twoR * w2i + twoI * w2r;
            y3r[q] = threeR * w3r - threeI * w3i;
            y3i[q] = threeR * w3i + threeI * w3r;
        }
    }

    private void byFour(
        int n, int s, int batch, double[][] xr, double[][] xi, double[][] yr, double[][] yi) {
        final int quarter = n / 4, stride = circle / n, apart = s * quarter;
        for (int p = 0; p < quarter; p++) {
            final int k = p * stride;
            for (int q = 0; q < s; q++) {
                final int a = s * p + q, to = 4 * s * p + q;
                butterfly(batch, rootRe[k], rootIm[k], rootRe[2 * k], rootIm[2 * k], rootRe[3 * k],
                    rootIm[3 * k], xr[a], xi[a], xr[a + apart], xi[a + apart], xr[a + 2 * apart],
                    xi[a + 2 * apart], xr[a + 3 * apart], xi[a + 3 * apart], yr[to], yi[to],
                    yr[to + s], yi[to + s], yr[to + 2 * s], yi[to + 2 * s], yr[to + 3 * s],
                    yi[to + 3 * s]);
            }
        }
    }

    private static void sumAndDifference(
        int count, double[] a, double[] b, double[] sum, double[] difference) {
        for (int q = 0; q < count; q++) {
            sum[q] = a[q] + b[q];
            difference[q] = a[q] - b[q];
        }
    }

    private static void byTwo(int s, int batch, double[][] x, double[][] y) {
        for (int q = 0; q < s; q++) sumAndDifference(batch, x[q], x[s + q], y[q], y[s + q]);
    }

    /**
     * Of what stands in work[0] (real) and work[1]; returns 0 or 2, where the result stands. An
     * inverse transform is a forward one with the parts exchanged.
     */
    private int transform(int points, int batch, boolean inverse) {
        final int re = inverse ? 1 : 0, im = 1 - re;
        int at = 0, n = points, s = 1;
        for (; n >= 4; n /= 4, s *= 4, at ^= 2)
            byFour(n, s, batch, work[at + re], work[at + im], work[(at ^ 2) + re],
                work[(at ^ 2) + im]);
        if (n == 2) {
            byTwo(s, batch, work[at], work[at ^ 2]);
            byTwo(s, batch, work[at + 1], work[(at ^ 2) + 1]);
            at ^= 2;
        }
        return at;
    }

    private static void take(double[] from, int at, double[] re, double[] im, int count) {
        for (int i = 0; i < count; i++) {
            re[i] = from[at + 2 * i];
            im[i] = from[at + 2 * i + 1];
        }
    }

    private static void takeDecayed(double[] from, int at, double common, double[] factor,
        int first, double[] re, double[] im, int count) {
        for (int i = 0; i < count; i++) {
            final double left = common * factor[first + i];
            final double real = left * from[at + 2 * i], imaginary = left * from[at + 2 * i + 1];
            from[at + 2 * i] = re[i] = real;
            from[at + 2 * i + 1] = im[i] = imaginary;
        }
    }

    private static void give(double[] to, int at, double[] re, double[] im, int count) {
        for (int i = 0; i < count; i++) {
            to[at + 2 * i] = re[i];
            to[at + 2 * i + 1] = im[i];
        }
    }

    /* ---- where things stand, in points */

    /**
     * Row (y, z) of blocks of `chunk` columns and `width` points a row, as an all-to-all over y
     * sends or receives them.
     */
    private int rowAt(int z, int y, int chunk, int width) {
        return ((y / chunk * zShare + z) * chunk + y % chunk) * width;
    }

    /**
     * Of my columns y and planes z in space: the beginning of a row, whose pieces stand xApart
     * from each other.
     */
    private int xRow(int z, int y) {
        return across > 1 ? (z * yShare + y) * xShare : rowAt(z, y, yPart, nx);
    }

    private int xApart() {
        return zShare * yShare * xShare;
    }

    private int pointAt(int z, int y, int x) {
        return xRow(z, y) + x / xShare * xApart() + x % xShare;
    }

    /* ---- transforms of all lines of a direction, of one plane or of all */

    /** Four points at a time, which a cache line holds. */
    private static void takeFour(
        double[] from, int[] rows, int x, int batch, double[][] re, double[][] im, int to) {
        final double[] r0 = re[to], r1 = re[to + 1], r2 = re[to + 2], r3 = re[to + 3];
        final double[] i0 = im[to], i1 = im[to + 1], i2 = im[to + 2], i3 = im[to + 3];
        for (int b = 0; b < batch; b++) {
            final int at = 2 * (rows[b] + x);
            r0[b] = from[at];
            i0[b] = from[at + 1];
            r1[b] = from[at + 2];
            i1[b] = from[at + 3];
            r2[b] = from[at + 4];
            i2[b] = from[at + 5];
            r3[b] = from[at + 6];
            i3[b] = from[at + 7];
        }
    }

    private static void giveFour(
        double[] to, int[] rows, int x, int batch, double[][] re, double[][] im, int from) {
        final double[] r0 = re[from], r1 = re[from + 1], r2 = re[from + 2], r3 = re[from + 3];
        final double[] i0 = im[from], i1 = im[from + 1], i2 = im[from + 2], i3 = im[from + 3];
        for (int b = 0; b < batch; b++) {
            final int at = 2 * (rows[b] + x);
            to[at] = r0[b];
            to[at + 1] = i0[b];
            to[at + 2] = r1[b];
            to[at + 3] = i1[b];
            to[at + 4] = r2[b];
            to[at + 5] = i2[b];
            to[at + 6] = r3[b];
            to[at + 7] = i3[b];
        }
    }

    private void xLines(double[] data, int z, boolean inverse) {
        final int batch = Math.min(BATCH, yShare), apart = xApart();
        for (int y = 0; y < yShare; y += batch) {
            for (int b = 0; b < batch; b++) rows[b] = xRow(z, y + b);
            for (int x = 0; x < nx; x += 4)
                takeFour(data, rows, x / xShare * apart + x % xShare, batch, work[0], work[1], x);
            final int at = transform(nx, batch, inverse);
            for (int x = 0; x < nx; x += 4)
                giveFour(
                    data, rows, x / xShare * apart + x % xShare, batch, work[at], work[at + 1], x);
        }
    }

    private void yLines(
        double[] from, int fromChunk, double[] to, int toChunk, int z, boolean inverse) {
        final int batch = Math.min(BATCH, xShare);
        for (int x = 0; x < xShare; x += batch) {
            for (int y = 0; y < ny; y++)
                take(from, 2 * (rowAt(z, y, fromChunk, xShare) + x), work[0][y], work[1][y], batch);
            final int at = transform(ny, batch, inverse);
            for (int y = 0; y < ny; y++)
                give(to, 2 * (rowAt(z, y, toChunk, xShare) + x), work[at][y], work[at + 1][y],
                    batch);
        }
    }

    /** With `step` the spectrum decays by one time step first, which stays in `from`. */
    private void zLines(double[] from, double[] to, boolean inverse, boolean step) {
        final int batch = Math.min(BATCH, xShare), plane = yPart * xShare;
        for (int y = 0; y < yPart; y++)
            for (int x = 0; x < xShare; x += batch) {
                final int line = y * xShare + x;
                for (int z = 0; z < nz; z++) {
                    final int here = 2 * (z * plane + line);
                    if (step)
                        takeDecayed(from, here, decay[1][myAlong * yPart + y] * decay[2][z],
                            decay[0], myAcross * xShare + x, work[0][z], work[1][z], batch);
                    else take(from, here, work[0][z], work[1][z], batch);
                }
                final int at = transform(nz, batch, inverse);
                for (int z = 0; z < nz; z++)
                    give(to, 2 * (z * plane + line), work[at][z], work[at + 1][z], batch);
            }
    }

    private void exchange(double[] from, double[] to, Intracomm group, int size)
        throws MPIException {
        final int count = 2 * (zShare * ny * xShare / size);
        group.Alltoall(from, 0, count, MPI.DOUBLE, to, 0, count, MPI.DOUBLE);
        payload += 8.0 * (size - 1) * count;
    }

    /** From `space` to `fourier`. */
    private void forward() throws MPIException {
        double[] ready = space;
        if (across == 1) {
            // a plane is still in the cache for its second direction
            for (int z = 0; z < zShare; z++) {
                xLines(space, z, false);
                yLines(space, yPart, space, yPart, z, false);
            }
        } else {
            for (int z = 0; z < zShare; z++) xLines(space, z, false);
            exchange(space, moved, row, across);
            for (int z = 0; z < zShare; z++) yLines(moved, yShare, space, yPart, z, false);
        }
        if (along > 1) {
            exchange(space, moved, column, along);
            ready = moved;
        }
        zLines(ready, fourier, false, false);
    }

    /** One time step, from `fourier`; returns where the result stands. */
    private double[] inverse() throws MPIException {
        double[] ready = space;
        zLines(fourier, space, true, true);
        if (along > 1) {
            exchange(space, moved, column, along);
            ready = moved;
        }
        if (across == 1) {
            for (int z = 0; z < zShare; z++) {
                yLines(ready, yPart, ready, yPart, z, true);
                xLines(ready, z, true);
            }
            return ready;
        }
        for (int z = 0; z < zShare; z++) yLines(ready, yPart, space, yShare, z, true);
        exchange(space, moved, row, across);
        for (int z = 0; z < zShare; z++) xLines(moved, z, true);
        return moved;
    }

    /* ---- the problem */

    /** Random numbers in the order of the whole grid. */
    private void initialConditions() {
        for (int z = 0; z < zShare; z++)
            for (int y = 0; y < yShare; y++) {
                final long before =
                    ((long) (myAlong * zShare + z) * ny + myAcross * yShare + y) * nx;
                long state = skip(RANDOM_SEED, 2 * before);
                for (int piece = 0; piece < nx / xShare; piece++)
                    state = fill(space, 2 * (xRow(z, y) + piece * xApart()), 2 * xShare, state);
            }
    }

    private static long fill(double[] to, int at, int count, long state) {
        for (int i = at; i < at + count; i++) {
            state = state * RANDOM_A & RANDOM_MASK;
            to[i] = uniform(state);
        }
        return state;
    }

    private void makeTables() {
        final double alpha = 1e-6;
        for (int k = 0; k < circle; k++) {
            rootRe[k] = Math.cos(2 * Math.PI * k / circle);
            rootIm[k] = -Math.sin(2 * Math.PI * k / circle);
        }
        for (int axis = 0; axis < 3; axis++) {
            final int n = POINTS[problem][axis];
            for (int k = 0; k < n; k++) {
                final double frequency = k < n / 2 ? k : k - n;
                decay[axis][k] = Math.exp(-4 * alpha * Math.PI * Math.PI * frequency * frequency);
            }
        }
    }

    /** Into sums[2 step] and the one behind, on rank 0. */
    private void checksum(double[] result, double[] sums, int step) throws MPIException {
        mine[0] = mine[1] = 0;
        for (int j = 1; j <= CHECKED; j++) {
            final int x = j % nx, y = 3 * j % ny - myAcross * yShare,
                      z = 5 * j % nz - myAlong * zShare;
            if (y < 0 || y >= yShare || z < 0 || z >= zShare) continue;
            final int at = 2 * pointAt(z, y, x);
            mine[0] += result[at];
            mine[1] += result[at + 1];
        }
        world.Reduce(mine, 0, all, 0, 2, MPI.DOUBLE, MPI.SUM, 0);
        final double points = (double) nx * ny * nz;
        sums[2 * step] = all[0] / points;
        sums[2 * step + 1] = all[1] / points;
    }

    private void makeGrid() throws MPIException {
        nx = POINTS[problem][0];
        ny = POINTS[problem][1];
        nz = POINTS[problem][2];
        circle = Math.max(circle, Math.max(nx, Math.max(ny, nz)));
        rootRe = new double[circle];
        rootIm = new double[circle];
        decay = new double[3][circle];
        work = new double[4][circle][BATCH];
        along = Math.min(processes, Math.min(ny, nz));
        across = processes / along;
        myAcross = rank % across;
        myAlong = rank / across;
        row = across > 1 ? world.Split(myAlong, myAcross) : null;
        column = across > 1 ? world.Split(myAcross, myAlong) : world;
        xShare = nx / across;
        yShare = ny / across;
        zShare = nz / along;
        yPart = ny / along;
        final int numbers = 2 * xShare * ny * zShare;
        fourier = new double[numbers];
        space = new double[numbers];
        if (processes > 1) moved = new double[numbers];
    }

    @Override
    int kernel() throws MPIException {
        final int steps = STEPS[problem];
        makeGrid();
        title("Size                : %4dx%4dx%4d%n Iterations          :        %7d", nx, ny, nz,
            steps);
        final double[] sums = new double[2 * steps], official = FTChecksums.SUMS[problem];
        makeTables();
        initialConditions();
        forward();
        // or the spectrum would fade to denormal numbers
        for (final double[] factors : decay) Arrays.fill(factors, 1);
        warmUp(() -> checksum(inverse(), sums, 0));
        initialConditions();
        forward();
        clockStart();
        makeTables();
        initialConditions();
        forward();
        for (int step = 0; step < steps; step++) {
            checksum(inverse(), sums, step);
            iterationDone();
        }
        final double seconds = clockStop(), points = (double) nx * ny * nz;
        boolean verified = true;
        for (int step = 0; step < steps && rank == 0; step++) {
            Program.print(" T = %4d     Checksum = %22.12e %22.12e%n", step + 1, sums[2 * step],
                sums[2 * step + 1]);
            for (int part = 2 * step; part < 2 * step + 2; part++)
                verified &= agrees(sums[part], official[part], 1e-12);
        }
        return finish(String.format("%4dx%4dx%4d", nx, ny, nz), steps, seconds,
            1e-6 * points
                * (14.8157 + 7.19641 * Math.log(points)
                    + (5.23518 + 7.21113 * Math.log(points)) * steps),
            verified);
    }
}
