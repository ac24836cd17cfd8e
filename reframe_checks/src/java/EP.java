import mpi.MPI;
import mpi.MPIException;

/**
 * EP, "embarrassingly parallel": 2^m pairs of Gaussian deviates by the polar method, counted by
 * rings (report, 2.2).
 */
public final class EP extends Npb {
    private static final int BATCH = 1 << 16, RINGS = 10, PARTS = 16;
    private static final int[] M = {24, 25, 28, 30, 32, 36, 40};
    private static final double[] SX = {-3.247834652034740e+3, -2.863319731645753e+3,
        -4.295875165629892e+3, 4.033815542441498e+4, 4.764367927995374e+4, 1.982481200946593e+5,
        -5.319717441530e+5};
    private static final double[] SY = {-6.958407078382297e+3, -6.320053679109499e+3,
        -1.580732573678431e+4, -2.660669192809235e+4, -8.084072988043731e+4, -1.020596636361769e+5,
        -3.688834557731e+5};
    private static final long SEED = 271828183;

    private final double[] numbers = new double[2 * BATCH];
    private final double[] sums = new double[2 + RINGS]; // x, y, and how many are in each ring

    private EP(Program program) {
        super(program, "EP", "Random numbers generated");
    }

    public static void main(String[] arguments) {
        Program.run("npb EP", arguments, (program, own) -> new EP(program).run(own));
    }

    @Override
    double bytes(int problem) {
        return 8.0 * numbers.length;
    }

    @Override
    long most(int problem) {
        return (1L << M[problem]) / BATCH;
    }

    /**
     * Four numbers at once, because each waits for the multiplication that makes the one before
     * it.
     */
    private static void fill(double[] numbers, long state) {
        final long a2 = RANDOM_A * RANDOM_A & RANDOM_MASK, a4 = a2 * a2 & RANDOM_MASK;
        long s0 = state * RANDOM_A & RANDOM_MASK, s1 = s0 * RANDOM_A & RANDOM_MASK;
        long s2 = s1 * RANDOM_A & RANDOM_MASK, s3 = s2 * RANDOM_A & RANDOM_MASK;
        for (int i = 0; i < numbers.length - 3; i += 4) {
            numbers[i] = 2 * uniform(s0) - 1;
            numbers[i + 1] = 2 * uniform(s1) - 1;
            numbers[i + 2] = 2 * uniform(s2) - 1;
            numbers[i + 3] = 2 * uniform(s3) - 1;
            s0 = s0 * a4 & RANDOM_MASK;
            s1 = s1 * a4 & RANDOM_MASK;
            s2 = s2 * a4 & RANDOM_MASK;
            s3 = s3 * a4 & RANDOM_MASK;
        }
    }

    /**
     * The numbers first and the logarithms afterwards, so that either loop runs at its own speed.
     */
    private void oneBatch(long number) {
        fill(numbers, skip(SEED, number * 2 * BATCH));
        final double[] numbers = this.numbers, sums = this.sums;
        double sumX = sums[0], sumY = sums[1];
        for (int i = 0; i < BATCH; i++) {
            final double x = numbers[2 * i], y = numbers[2 * i + 1], square = x * x + y * y;
            if (square > 1) continue;
            final double factor = Math.sqrt(-2 * Math.log(square) / square), gx = x * factor,
                         gy = y * factor;
            sums[2 + (int) Math.max(Math.abs(gx), Math.abs(gy))]++;
            sumX += gx;
            sumY += gy;
        }
        sums[0] = sumX;
        sums[1] = sumY;
    }

    private void batches(long from, long to) {
        for (long batch = from; batch < to; batch++) oneBatch(batch);
    }

    @Override
    int kernel() throws MPIException {
        final int m = M[problem];
        title("Number of random numbers generated: %.0f", Math.scalb(1.0, m + 1));
        final long mine = (1L << m) / BATCH / processes, parts = Math.min(mine, PARTS),
                   first = rank * mine;
        warmUp(() -> batches(first, first + Math.max(1, mine / parts)));
        java.util.Arrays.fill(sums, 0);
        clockStart();
        for (long part = 0; part < parts; part++) {
            batches(first + mine * part / parts, first + mine * (part + 1) / parts);
            iterationDone();
        }
        final double[] all = new double[2 + RINGS];
        world.Allreduce(sums, 0, all, 0, 2 + RINGS, MPI.DOUBLE, MPI.SUM);
        final double seconds = clockStop();
        if (rank == 0) {
            double pairs = 0;
            for (int ring = 0; ring < RINGS; ring++) pairs += all[2 + ring];
            Program.print(" EP Benchmark Results:%n%n N = 2^%5d%n No. Gaussian Pairs = %15.0f%n"
                    + " Sums = %25.15e %25.15e%n Counts:%n",
                m, pairs, all[0], all[1]);
            for (int ring = 0; ring < RINGS; ring++)
                Program.print("%3d %15.0f%n", ring, all[2 + ring]);
        }
        return finish(Long.toString(1L << m + 1), 0, seconds, Math.scalb(1e-6, m + 1),
            agrees(all[0], SX[problem], 1e-8) && agrees(all[1], SY[problem], 1e-8));
    }
}
