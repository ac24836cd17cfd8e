import java.util.ArrayList;
import java.util.List;
import mpi.MPI;
import mpi.MPIException;

/**
 * Alltoall, Allreduce, Bcast and Barrier over message size in Java: the counterpart of
 * ../collectives.c, by the same method (Intel MPI Benchmarks: every call timed on its own, with a
 * barrier before) and in the same format, every size's result verified. What Java adds: before the
 * first size all ranks settle until the JIT compiler has hardly anything left to do.
 */
public final class Collectives {
    private static final int WORD = 8, OPERATIONS = 4, ALLTOALL = 0, ALLREDUCE = 1, BCAST = 2,
                             BARRIER = 3, WINDOW = 5;
    // of some messages each: HotSpot's C2 takes up what 15000 of these call
    private static final int LEAST_CALLS = 5000;
    private static final String[] NAMES = {"Alltoall", "Allreduce", "Bcast", "Barrier"};
    private static final int RESIDUES = 1009;
    /** Most bytes of the messages to all ranks together, as ../collectives.c. */
    private static final long MOST_BYTES = 1L << 29;
    /** Seconds of a size while all of them are rehearsed. */
    private static final double REHEARSAL = 0.002;
    private static final double ROUND_SECONDS = 0.05, ENOUGH_SECONDS = 10, COMPILING = 0.02;

    private static final String HELP = """
            Usage: <launcher> -n N Collectives [options]
            Time of MPI's Alltoall, Allreduce, Bcast and Barrier among N ranks,
            8 B to 1 MiB (to each rank, in Alltoall; there 512 MiB to all ranks at most).

              --iterations N      timed calls per size (default 1000)
              --max-time SECONDS  aim to stay below this per size (default 0.5)
              --min-iterations N  but never go below N calls (default 5)
              --max-bytes BYTES   longest message (default 1048576)
              --help              this text

            Exit status: 0 done, 2 bad usage or too little memory,
            3 a result was wrong or no time could be taken.
            """;

    private final Program.Option iterations = new Program.Option("iterations", 1, 1e9, true, 1000);
    private final Program.Option minIterations =
        new Program.Option("min-iterations", 1, 1e9, true, 5);
    private final Program.Option maxBytes =
        new Program.Option("max-bytes", WORD, 1 << 28, true, 1 << 20);
    private final Program.Option maxTime = new Program.Option("max-time", 0.001, 1e6, false, 0.5);

    private final Program program;
    private final int rank, ranks;
    private double[] from, to;
    private final double[] sums = new double[RESIDUES]; // what all ranks send together, by 7 i
    private final double[] time = new double[1], least = new double[1], most = new double[1],
                           sum = new double[1];
    /** What was measured, for the table. */
    private final List<Row> rows = new ArrayList<>();

    /** A row of the table: times in us. */
    private record
        Row(int operation, long bytes, int calls, double least, double most, double mean) {}

    private Collectives(Program program) {
        this.program = program;
        rank = program.rank;
        ranks = program.ranks;
    }

    public static void main(String[] arguments) {
        Program.run("collectives", arguments, (program, own) -> new Collectives(program).run(own));
    }

    private static double now() {
        return System.nanoTime() * 1e-9;
    }

    /** `count` doubles to each rank, the root going round. */
    private void call(int operation, int count, int root) throws MPIException {
        switch (operation) {
            case ALLTOALL:
                program.world.Alltoall(from, 0, count, MPI.DOUBLE, to, 0, count, MPI.DOUBLE);
                break;
            case ALLREDUCE:
                program.world.Allreduce(from, 0, to, 0, count, MPI.DOUBLE, MPI.SUM);
                break;
            case BCAST:
                program.world.Bcast(rank == root ? from : to, 0, count, MPI.DOUBLE, root);
                break;
            default:
                program.world.Barrier();
        }
    }

    /** What rank r sends at place i; small whole numbers, so that sums are exact. */
    private static double sent(int r, long i) {
        return (i * 7 + r * 13L) % RESIDUES + 1;
    }

    private double expected(int operation, int count, int root, int i) {
        if (operation == ALLTOALL) return sent(i / count, (long) rank * count + i % count);
        if (operation == BCAST) return sent(root, i);
        return sums[(int) (i * 7L % RESIDUES)];
    }

    /** The longest message of an operation. */
    private long longest(int operation) {
        return operation == ALLTOALL ? Math.min((long) maxBytes.value, MOST_BYTES / ranks)
                                     : (long) maxBytes.value;
    }

    /** One call whose result is looked at; whether it was right on every rank. */
    private boolean verify(int operation, int count) throws MPIException {
        final int root = ranks - 1, results = count * (operation == ALLTOALL ? ranks : 1);
        for (int i = 0; i < results; i++) {
            from[i] = sent(rank, i);
            to[i] = -1;
        }
        call(operation, count, root);
        final int[] wrong = new int[1], any = new int[1];
        if (operation != BARRIER && !(operation == BCAST && rank == root))
            for (int i = 0; i < results && wrong[0] == 0; i++)
                if (to[i] != expected(operation, count, root, i)) wrong[0] = 1;
        if (wrong[0] != 0)
            Program.complain(program.name,
                "rank " + rank + " got a wrong result of " + NAMES[operation] + " with "
                    + (long) count * WORD + " bytes.");
        program.world.Allreduce(wrong, 0, any, 0, 1, MPI.INT, MPI.MAX);
        return any[0] == 0;
    }

    /** Seconds of a call on this rank, mean over so many. */
    private double timed(int operation, int count, int calls) throws MPIException {
        long spent = 0;
        for (int n = 0; n < calls; n++) {
            program.world.Barrier();
            final long start = System.nanoTime();
            call(operation, count, n % ranks);
            spent += System.nanoTime() - start;
        }
        return spent * 1e-9 / calls;
    }

    private int agree(double count) throws MPIException {
        final int[] word = {(int) Math.min(count, Integer.MAX_VALUE)};
        program.world.Bcast(word, 0, 1, MPI.INT, 0);
        return word[0];
    }

    /**
     * All operations with the shortest message and with one of each other size by turns, which the
     * compiler must have seen, in rounds until in the last of them hardly anything was compiled.
     */
    private void settle(int largest) throws MPIException {
        final double[] ended = new double[WINDOW + 1];
        final long[] jit = new long[WINDOW + 1];
        final double start = now(), mostSeconds = Program.mostWarmUpSeconds();
        final int sizes = 32 - Integer.numberOfLeadingZeros(largest);
        int calls = 1, all = 0;
        for (int round = 0;; round++) {
            final int newest = round % (WINDOW + 1), oldest = (round + 1) % (WINDOW + 1);
            ended[newest] = now();
            jit[newest] = Program.compilingMs();
            final double spent = ended[newest] - start;
            final double share =
                (jit[newest] - jit[oldest]) * 1e-3 / (ended[newest] - ended[oldest]);
            final boolean enough = all >= LEAST_CALLS || spent > ENOUGH_SECONDS;
            final boolean stable = round >= sizes + WINDOW && enough && share < COMPILING;
            calls = agree(stable || spent > mostSeconds && round > WINDOW ? 0 : calls);
            if (calls == 0) {
                if (rank == 0)
                    Program.print("# nearmetal warm_up: stable=%s calls=%d seconds=%.2f jit_ms=%d "
                            + "last_jit_share=%.4f%n",
                        stable ? "yes" : "no", all, spent, Program.compilingMs(), share);
                return;
            }
            final double begin = now();
            for (int operation = 0; operation < OPERATIONS; operation++) {
                timed(operation, 1, calls);
                final long words = Math.min(1L << round % sizes, longest(operation) / WORD);
                timed(operation, (int) words, Math.max(1, calls / 100));
            }
            all += calls * OPERATIONS;
            if (now() - begin < ROUND_SECONDS) calls *= 2;
        }
    }

    /** All operations and sizes, `seconds` each. */
    private void measureAll(double seconds) throws MPIException {
        rows.clear();
        for (int operation = 0; operation < OPERATIONS; operation++)
            for (long bytes = WORD; bytes <= longest(operation); bytes *= 2) {
                measure(operation, (int) (bytes / WORD), seconds);
                if (operation == BARRIER) break; // it has no size
            }
    }

    private void measure(int operation, int count, double seconds) throws MPIException {
        if (!verify(operation, count))
            throw new Program.Refusal(
                Program.WRONG_RESULT, NAMES[operation] + " computes wrongly.");
        timed(operation, count, 2);
        final double begin = now();
        timed(operation, count, 5);
        final double estimate = (now() - begin) / 5; // the barrier's time is in it
        final double wanted = estimate > 0 ? Math.floor(seconds / estimate) : iterations.value;
        final int calls = agree(Math.min(Math.max(wanted, minIterations.value), iterations.value));
        time[0] = 1e6 * timed(operation, count, calls);
        program.world.Allreduce(time, 0, least, 0, 1, MPI.DOUBLE, MPI.MIN);
        program.world.Allreduce(time, 0, most, 0, 1, MPI.DOUBLE, MPI.MAX);
        program.world.Allreduce(time, 0, sum, 0, 1, MPI.DOUBLE, MPI.SUM);
        if (!(least[0] > 0))
            throw new Program.Refusal(Program.WRONG_RESULT,
                "the clock stood still over " + calls + " calls of " + NAMES[operation]
                    + "; raise --iterations.");
        rows.add(new Row(operation, (long) count * WORD, calls, least[0], most[0], sum[0] / ranks));
    }

    private void printTables() {
        int before = -1;
        for (final Row row : rows) {
            if (row.operation != before) printHead(row.operation);
            before = row.operation;
            if (row.operation != BARRIER) Program.print("%13d ", row.bytes);
            Program.print("%13d %13.4f %13.4f %13.4f%n", row.calls, row.least, row.most, row.mean);
        }
    }

    private void printHead(int operation) {
        final String rule = "#----------------------------------------------------------------";
        Program.print("%n%s%n# Benchmarking %s%n# #processes = %d%n%s%n", rule, NAMES[operation],
            ranks, rule);
        if (operation != BARRIER) Program.print("%13s ", "#bytes");
        Program.print(
            "%13s %13s %13s %13s%n", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]");
    }

    private int run(String[] arguments) throws MPIException {
        if (!program.parse(arguments, HELP, iterations, minIterations, maxBytes, maxTime)) return 0;
        if (ranks < 2)
            throw new Program.Refusal(Program.USAGE_ERROR,
                "collectives need at least 2 ranks, but 1 started (where "
                    + "more were asked for, the launcher is not this MPI's).");
        final int largest = (int) maxBytes.value / WORD;
        final long words = Math.max(largest, longest(ALLTOALL) * ranks / WORD);
        from = new double[(int) words];
        to = new double[(int) words];
        for (int r = 0; r < ranks; r++)
            for (int i = 0; i < RESIDUES; i++) sums[i * 7 % RESIDUES] += sent(r, i);
        program.printProgram("collectives 1");
        if (rank == 0)
            Program.print("# nearmetal method: iterations=%.0f min_iterations=%.0f max_time=%s "
                    + "max_bytes=%.0f%n",
                iterations.value, minIterations.value, Program.plain(maxTime.value),
                maxBytes.value);
        settle(largest);
        // What runs for the first time is linked and compiled, which takes the core from a rank.
        measureAll(Math.min(REHEARSAL, maxTime.value));
        Program.awaitCompiler();
        final long jit = Program.compilingMs();
        measureAll(maxTime.value);
        final long compiled = Program.compilingMs() - jit;
        if (rank != 0) return 0;
        printTables();
        Program.print("%n# nearmetal timed_run: jit_ms=%d%n# nearmetal complete%n", compiled);
        return 0;
    }
}
