import java.util.Locale;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/**
 * What the kernels of the NAS Parallel Benchmarks share, in Java: the counterpart of ../npb/npb.h,
 * whose kernels these are written after, line by line where the language allows. It prints the same
 * table, so that one parser reads both.
 *
 * Specification: D. Bailey et al., The NAS Parallel Benchmarks, NASA Ames RNR-94-007, as sizes and
 * verification values stand in NPB 3.4; as "NPB-MPJ" of the messaging paper (Mallon et al., PDP
 * 2009) was.
 *
 * JVM: -Xms as -Xmx, -XX:+AlwaysPreTouch, -XX:+UseParallelGC and -XX:+UseTransparentHugePages. On
 * one process of class W, MG made 4900 Mop/s with them and 1600 without (CPU time, OpenJDK 21).
 */
abstract class Npb {
    static final String CLASS_NAMES = "SWABCDE";
    static final int MOST_PROCESSES = 1 << 16, MOST_ITERATIONS = 100;

    /* Random numbers: x' = a x mod 2^46, and x / 2^46 is uniform (report, 2.3). */
    static final long RANDOM_MASK = (1L << 46) - 1, RANDOM_A = 1220703125, RANDOM_SEED = 314159265;

    /* Warm-up goes by rounds, until in the last so many of them nothing was gained and hardly
     * anything compiled. */
    // a method that a run calls once takes so many
    private static final int WINDOW = 5, LEAST_RUNS = 40;
    private static final double ROUND_SECONDS = 0.1, ENOUGH_SECONDS = 10, GAIN = 0.02,
                                COMPILING = 0.02;

    private static final String HELP = "Usage: <launcher> -n N %s CLASS%n"
        + "The %s kernel of the NAS Parallel Benchmarks; CLASS is S, W, A, B, C, D or E (each some%n"
        + "times larger than the one before), N a power of two up to %d.%n%n"
        + "Exit status: 0 verified, 2 bad usage or too little memory,%n"
        + "3 the result is not the official one.%n";

    final Program program;
    final Intracomm world;
    final int rank, processes;
    private final String name, operation;

    int problem; // the class, as an index into CLASS_NAMES
    double payload; // bytes that this process sent to others, for telling what carried them
    private double began;
    private final double[] noted = new double[MOST_ITERATIONS + 1];
    private int notes;
    private long compiled, collected;

    /** A part of a run, such as an iteration. */
    interface Step {
        void run() throws MPIException;
    }

    Npb(Program program, String name, String operation) {
        this.program = program;
        this.name = name;
        this.operation = operation;
        world = program.world;
        rank = program.rank;
        processes = program.ranks;
    }

    /** Memory that this process allocates. */
    abstract double bytes(int problem);

    /** Fewest processes: an array of Java holds 2^31 - 1 numbers. */
    long fewest(int problem) {
        return 1;
    }

    /** Most processes of a class. */
    long most(int problem) {
        return MOST_PROCESSES;
    }

    /** The kernel from its title to its table; returns the exit status. */
    abstract int kernel() throws MPIException;

    /** Every kernel's `main`. */
    final int run(String[] arguments) throws MPIException {
        if (arguments.length == 1 && arguments[0].equals("--help")) {
            if (rank == 0) Program.print(HELP, name, name, MOST_PROCESSES);
            return 0;
        }
        final boolean one = arguments.length == 1;
        problem = one && arguments[0].length() == 1 ? CLASS_NAMES.indexOf(arguments[0]) : -1;
        if (problem < 0)
            throw refusal("one class is expected, S, W, A, B, C, D or E, %s; see --help.",
                one ? "not '" + arguments[0] + "'" : "and nothing else");
        final long fewest = fewest(problem), most = Math.min(most(problem), MOST_PROCESSES);
        if (processes < fewest || processes > most || Integer.bitCount(processes) != 1)
            throw refusal("class %s runs on %d, %d, %d, ... processes up to %d, not on %d.",
                arguments[0], fewest, 2 * fewest, 4 * fewest, most, processes);
        checkMemory();
        return kernel();
    }

    private static Program.Refusal refusal(String format, Object... values) {
        return new Program.Refusal(Program.USAGE_ERROR, String.format(Locale.ROOT, format, values));
    }

    private void checkMemory() throws MPIException {
        final Runtime jvm = Runtime.getRuntime();
        final double available = jvm.maxMemory() - (jvm.totalMemory() - jvm.freeMemory());
        final double needed = bytes(problem) * program.ranksInThisJvm();
        final double[] mine = {needed > available ? needed : 0,
            needed > available ? -available : Double.NEGATIVE_INFINITY};
        final double[] worst = new double[2];
        world.Allreduce(mine, 0, worst, 0, 2, MPI.DOUBLE, MPI.MAX);
        if (worst[0] > 0)
            throw refusal(
                "class %s on %d processes needs %.0f MB in a JVM whose heap has %.0f MB left; "
                    + "raise -Xmx, or take a "
                    + "smaller class or more nodes.",
                CLASS_NAMES.charAt(problem), processes, worst[0] / 1e6, -worst[1] / 1e6);
    }

    final char className() {
        return CLASS_NAMES.charAt(problem);
    }

    /* ---- random numbers */

    static double uniform(long state) {
        return state * 0x1p-46;
    }

    /** The state after `count` numbers. */
    static long skip(long state, long count) {
        for (long a = RANDOM_A; count != 0; count >>>= 1, a = a * a & RANDOM_MASK)
            if ((count & 1) != 0) state = state * a & RANDOM_MASK;
        return state;
    }

    static int log2(long value) {
        return 63 - Long.numberOfLeadingZeros(value);
    }

    /* ---- time: all start together, the slowest counts; rank 0 notes each iteration */

    static double now() {
        // Wtime of MPJ Express is that too, but counts from 1970 in milliseconds elsewhere
        return System.nanoTime() * 1e-9;
    }

    /**
     * Runs a step until the JIT compiler has nothing left to make of it, and says how that was
     * seen. The clock starts once before the compiler's wait: the first time links its calls, which
     * may take the compiler 400 ms, on a core that a rank wants. The step runs once more after the
     * wait, as it does in C directly before the clock: a core that slept begins with cold caches.
     */
    final void warmUp(Step step) throws MPIException {
        final double[] mean = new double[WINDOW], ended = new double[WINDOW + 1];
        final long[] jit = new long[WINDOW + 1];
        final int[] next = {1}; // runs of the next round; rank 0 decides
        double before = Double.POSITIVE_INFINITY; // the best round but for the last WINDOW
        final double start = now(), most = Program.mostWarmUpSeconds();
        int runs = 0;
        for (int round = 0;; round++) {
            double best = Double.POSITIVE_INFINITY;
            for (final double seconds : mean) best = Math.min(best, seconds);
            final int newest = round % (WINDOW + 1), oldest = (round + 1) % (WINDOW + 1);
            ended[newest] = now();
            jit[newest] = Program.compilingMs();
            final double took = ended[newest] - ended[oldest],
                         share = (jit[newest] - jit[oldest]) * 1e-3 / took;
            final boolean enough =
                round > WINDOW && (runs >= LEAST_RUNS || ended[newest] - start > ENOUGH_SECONDS);
            final boolean stable = enough && best > before * (1 - GAIN) && share < COMPILING;
            final boolean late = ended[newest] - start > most && round > WINDOW;
            if (stable || late) next[0] = 0;
            world.Bcast(next, 0, 1, MPI.INT, 0);
            if (next[0] == 0) {
                if (rank == 0) report(stable, runs, ended[newest] - start, share, mean, round);
                break;
            }
            if (round >= WINDOW) before = Math.min(before, mean[round % WINDOW]);
            final double begin = now();
            for (int i = 0; i < next[0]; i++) step.run();
            final double each = (now() - begin) / next[0];
            mean[round % WINDOW] = each;
            runs += next[0];
            next[0] = each * next[0] < ROUND_SECONDS
                ? (int) Math.min(2.0 * next[0], ROUND_SECONDS / each + 1)
                : Math.max(1, (int) (ROUND_SECONDS / each));
        }
        clockStart();
        Program.awaitCompiler();
        step.run();
    }

    private static void report(
        boolean stable, int runs, double seconds, double share, double[] mean, int rounds) {
        final StringBuilder last = new StringBuilder();
        for (int i = 0; i < WINDOW; i++)
            last.append(i > 0 ? "," : "")
                .append(String.format(Locale.ROOT, "%.9f", mean[(rounds + i) % WINDOW]));
        Program.print("# nearmetal warm_up: stable=%s runs=%d seconds=%.2f jit_ms=%d "
                + "last_jit_share=%.4f last_s=%s%n",
            stable ? "yes" : "no", runs, seconds, Program.compilingMs(), share, last);
    }

    final void clockStart() throws MPIException {
        world.Barrier();
        notes = 0;
        compiled = Program.compilingMs();
        collected = Program.collectingMs();
        noted[0] = began = now();
    }

    final void iterationDone() {
        noted[++notes] = now();
    }

    /** Seconds of the slowest process, on all of them. */
    final double clockStop() throws MPIException {
        final double[] mine = {now() - began}, slowest = new double[1];
        compiled = Program.compilingMs() - compiled;
        collected = Program.collectingMs() - collected;
        world.Allreduce(mine, 0, slowest, 0, 1, MPI.DOUBLE, MPI.MAX);
        return slowest[0];
    }

    /* ---- what is printed */

    final void title(String format, Object... values) throws MPIException {
        program.printProgram("npb 1");
        if (rank != 0) return;
        Program.print(
            "%n%n NAS Parallel Benchmarks 3.4, by Nearmetal in Java -- %s Benchmark%n%n ", name);
        Program.print(format, values);
        Program.print("%n Total number of processes: %d%n%n", processes);
    }

    /** Whether the two agree to `tolerance`, relative; false for what is no number. */
    static boolean agrees(double value, double official, double tolerance) {
        return Math.abs((value - official) / official) <= tolerance;
    }

    /**
     * Prints the table; `mops` are operations in millions, by the official count. Returns the exit
     * status.
     */
    final int finish(String size, int iterations, double seconds, double mops, boolean good)
        throws MPIException {
        final int[] verified = {good ? 1 : 0};
        final double[] mine = {payload}, sent = new double[1];
        world.Bcast(verified, 0, 1, MPI.INT, 0);
        world.Reduce(mine, 0, sent, 0, 1, MPI.DOUBLE, MPI.SUM, 0);
        final boolean right = verified[0] == 1;
        if (rank == 0) {
            Program.print("%n%n %s Benchmark Completed.%n", name);
            Program.print(" Class           = %24c%n Size            = %24s%n", className(), size);
            Program.print(
                " Iterations      = %24d%n Time in seconds = %24.2f%n", iterations, seconds);
            Program.print(
                " Total processes = %24d%n Active processes= %24d%n", processes, processes);
            Program.print(" Mop/s total     = %24.2f%n", mops / seconds);
            Program.print(" Mop/s/process   = %24.2f%n", mops / seconds / processes);
            Program.print(" Operation type  = %24s%n", operation);
            Program.print(" Verification    = %24s%n", right ? "SUCCESSFUL" : "UNSUCCESSFUL");
            Program.print(" Version         = %24s%n%n", "3.4, by Nearmetal");
            Program.print(
                "# nearmetal seconds: %.9f%n# nearmetal payload_bytes: %.0f%n", seconds, sent[0]);
            Program.print("# nearmetal timed_run: jit_ms=%d gc_ms=%d%n", compiled, collected);
            if (notes > 0) {
                final StringBuilder line =
                    new StringBuilder("# nearmetal iterations: kernel=all s=");
                for (int i = 0; i < notes; i++)
                    line.append(i > 0 ? "," : "")
                        .append(String.format(Locale.ROOT, "%.9f", noted[i + 1] - noted[i]));
                Program.print("%s%n", line);
            }
            Program.print("# nearmetal complete%n");
            if (!right)
                Program.complain(program.name,
                    "class " + className() + " did not give the official result: the "
                        + "machine, the JVM or the MPI library computes wrongly.");
        }
        return right ? 0 : Program.WRONG_RESULT;
    }
}
