import java.util.Locale;
import mpi.MPI;
import mpi.MPIException;

/**
 * MPI half round trip between two ranks in Java, byte arrays and no serialization: the counterpart of ../pingpong.c, by the
 * same method (PingPong of the Intel MPI Benchmarks) and in the same format, so that one parser reads both. What Java adds:
 * before the first size the ranks settle with the longest and the shortest message, until the last round trips agree and the
 * JIT compiler has hardly anything left to do.
 */
public final class PingPong {
    private static final int MAX_BATCHES = 10, TAG = 1, WINDOW = 8;
    private static final double AGREEMENT = 1.5, CHUNK_SECONDS = 0.01, LEAST_SECONDS = 1, MOST_SECONDS = 8, COMPILING = 0.02;

    private static final String HELP = """
            Usage: <launcher> -n 2 PingPong [options]
            Half round trip time and bandwidth between two MPI ranks, 1 B to 4 MiB in powers of two.

              --warmup N          round trips before the clock starts, per size (default 100);
                                  cut short at a tenth of --max-time
              --iterations N      timed round trips per size (default 1000)
              --volume BYTES      at most BYTES/size of them, so that long messages take fewer
                                  (default 41943040, as IMB's overall volume)
              --max-time SECONDS  aim to stay below this per size (default 10, as IMB's -time)
              --min-iterations N  but never go below N round trips (default 5)
              --max-bytes BYTES   longest message (default 4194304, at most 1073741824)
              --stall-timeout S   give up on a phase of a size that takes S seconds longer than
                                  --max-time: the other rank hangs (default 60)
              --help              this text

            Exit status: 0 done, 2 bad usage or too little memory, 3 a payload arrived corrupted or no time could be taken,
            4 the other rank does not answer.
            """;

    private final Program.Option warmup = new Program.Option("warmup", 0, 1e9, true, 100);
    private final Program.Option iterations = new Program.Option("iterations", 1, 1e9, true, 1000);
    private final Program.Option minIterations = new Program.Option("min-iterations", 1, 1e9, true, 5);
    private final Program.Option volume = new Program.Option("volume", 1, 1e15, true, 40L << 20);
    private final Program.Option maxBytes = new Program.Option("max-bytes", 1, 1 << 30, true, 4 << 20);
    private final Program.Option stallTimeout = new Program.Option("stall-timeout", 1, 1e6, true, 60);
    private final Program.Option maxTime = new Program.Option("max-time", 0.001, 1e6, false, 10);

    private final Program program;
    private final int rank, other;
    private byte[] sendBuffer, receiveBuffer;
    private final int[] word = new int[1];
    private volatile long deadline;
    private volatile int deadlineBytes;

    private PingPong(Program program) {
        this.program = program;
        rank = program.rank;
        other = 1 - rank;
    }

    public static void main(String[] arguments) {
        Program.run("pingpong", arguments, (program, own) -> new PingPong(program).run(own));
    }

    private static double now() {
        return System.nanoTime() * 1e-9;
    }

    /* ---- a rank that hangs ends as a sentence, and not as a job that sits out its time limit */

    private void expectProgress(int bytes) {
        deadlineBytes = bytes;
        deadline = System.nanoTime() + (long) ((stallTimeout.value + maxTime.value + MOST_SECONDS) * 1e9);
    }

    private void watch() {
        expectProgress(0);
        final Thread watcher = new Thread(() -> {
            try {
                while (System.nanoTime() - deadline < 0) Thread.sleep(500);
            } catch (InterruptedException ended) {
                return;
            }
            Program.complain(program.name, String.format(Locale.ROOT, "rank %d has had no answer from rank %d for %.0f s "
                    + "at messages of %d bytes: that rank hangs, or the network between them lost it.", rank, other,
                    stallTimeout.value, deadlineBytes));
            Runtime.getRuntime().halt(Program.STALLED);
        });
        watcher.setDaemon(true);
        watcher.start();
    }

    /* ---- messages */

    /** Scrambled, so that a shifted, repeated or stale stretch does not fit. */
    private static byte pattern(long offset, long size, long seed) {
        final long mixed = (offset + 1) * 0x9E3779B97F4A7C15L ^ size * 0xC2B2AE3D27D4EB4FL;
        return (byte) (mixed + seed * 0x165667B19E3779F9L >>> 37);
    }

    private void roundTrips(long count, int bytes) throws MPIException {
        for (long i = 0; i < count; i++) {
            if (rank == 0) program.world.Send(sendBuffer, 0, bytes, MPI.BYTE, other, TAG);
            program.world.Recv(receiveBuffer, 0, bytes, MPI.BYTE, other, TAG);
            if (rank == 1) program.world.Send(sendBuffer, 0, bytes, MPI.BYTE, other, TAG);
        }
    }

    /** One round trip, each direction with a pattern of its own. The receive buffer first holds the complement of what is
     *  expected, so that neither an earlier message nor a short one can pass for this one. */
    private boolean verifiedRoundTrip(int bytes) throws MPIException {
        for (int i = 0; i < bytes; i++) {
            sendBuffer[i] = pattern(i, bytes, rank + 1);
            receiveBuffer[i] = (byte) ~pattern(i, bytes, other + 1);
        }
        roundTrips(1, bytes);
        final int[] wrong = new int[1], any = new int[1];
        for (int i = 0; i < bytes && wrong[0] == 0; i++) {
            final byte expected = pattern(i, bytes, other + 1);
            if (receiveBuffer[i] == expected) continue;
            wrong[0] = 1;
            Program.complain(program.name, String.format(Locale.ROOT, "rank %d received a corrupted message of %d bytes: at "
                    + "byte offset %d expected 0x%02x, got 0x%02x.", rank, bytes, i, expected, receiveBuffer[i]));
        }
        program.world.Allreduce(wrong, 0, any, 0, 1, MPI.INT, MPI.MAX);
        return any[0] == 0;
    }

    /** Rank 0 decides how often, rank 1 has to know: always outside the timed loop. */
    private int agree(double count) throws MPIException {
        word[0] = (int) Math.min(count, Integer.MAX_VALUE);
        program.world.Bcast(word, 0, 1, MPI.INT, 0);
        return word[0];
    }

    /** In chunks that double, until enough are done or a tenth of the time budget is spent. Returns the estimate of a round
     *  trip in seconds, from the last chunk. */
    private double warmUp(int bytes) throws MPIException {
        final long wanted = Math.max(1, (long) warmup.value);
        double spent = 0, estimate = 0;
        long done = 0, chunk = 1;
        for (;;) {
            final int next = agree(spent > maxTime.value / 10 ? 0 : Math.min(wanted - done, chunk));
            if (next == 0) return estimate;
            final double start = now();
            roundTrips(next, bytes);
            final double elapsed = now() - start;
            spent += elapsed;
            estimate = elapsed / next;
            done += next;
            chunk *= 2;
        }
    }

    /** Before the first size: round trips of `bytes` until the last chunks agree and hardly anything is compiled any more.
     *  Reports how that was seen; returns whether it was. */
    private boolean settle(int bytes, StringBuilder report) throws MPIException {
        final double[] recent = new double[WINDOW], ended = new double[WINDOW + 1];
        final long[] jit = new long[WINDOW + 1];
        final double begin = now();
        double best = 0, chunk = 1;
        long trips = 0;
        expectProgress(bytes);
        for (int n = 0;; n++) {
            final int newest = n % (WINDOW + 1), oldest = (n + 1) % (WINDOW + 1);
            ended[newest] = now();
            jit[newest] = Program.compilingMs();
            final double spent = ended[newest] - begin;
            final double share = (jit[newest] - jit[oldest]) * 1e-3 / (ended[newest] - ended[oldest]);
            boolean steady = n > WINDOW && spent > LEAST_SECONDS && share < COMPILING;
            for (final double roundTrip : recent) steady = steady && roundTrip < best * AGREEMENT;
            final int next = agree(steady || spent > MOST_SECONDS ? 0 : chunk);
            if (next == 0) {
                report.append(String.format(Locale.ROOT, "# nearmetal warm_up_%d: stable=%s round_trips=%d seconds=%.2f "
                        + "jit_ms=%d last_jit_share=%.4f last_us=", bytes, steady ? "yes" : "no", trips, spent,
                        Program.compilingMs(), share));
                for (int i = 0; i < WINDOW; i++)
                    report.append(String.format(Locale.ROOT, "%s%.4f", i > 0 ? "," : "", recent[(n + i) % WINDOW] * 1e6 / 2));
                report.append('\n');
                return steady;
            }
            final double start = now();
            roundTrips(next, bytes);
            final double roundTrip = (now() - start) / next;
            recent[n % WINDOW] = roundTrip;
            if (best == 0 || roundTrip < best) best = roundTrip;
            trips += next;
            chunk = Math.floor(CHUNK_SECONDS / roundTrip) + 1;
        }
    }

    private long chooseIterations(int bytes, double roundTrip) {
        double count = Math.min(iterations.value, Math.floor(volume.value / bytes));
        if (count * roundTrip > maxTime.value) count = Math.floor(maxTime.value / roundTrip);
        return (long) Math.min(Math.max(count, minIterations.value), iterations.value);
    }

    /** One uninterrupted loop; rank 0 reads the clock only between batches. Fills `batch` (half round trips in us) and returns
     *  how many iterations there were. */
    private int measure(int bytes, double[] clock) throws MPIException {
        final double estimate = warmUp(bytes);
        final int count = agree(chooseIterations(bytes, estimate)), batches = Math.min(count, MAX_BATCHES);
        expectProgress(bytes);
        program.world.Barrier(); // twice, as IMB: the first may still be
        program.world.Barrier(); // absorbing the skew of the decision above
        clock[0] = now();
        for (int b = 0; b < batches; b++) {
            roundTrips((long) count * (b + 1) / batches - (long) count * b / batches, bytes);
            clock[b + 1] = now();
        }
        return count;
    }

    private void printHead(boolean settled, double seconds, CharSequence report) throws MPIException {
        program.printProgram("pingpong 2"); // 2 is the version of this format
        if (rank != 0) return;
        Program.print("# nearmetal method: warmup=%.0f iterations=%.0f min_iterations=%.0f volume=%.0f max_time=%s "
                + "max_bytes=%.0f%n", warmup.value, iterations.value, minIterations.value, volume.value,
                Program.plain(maxTime.value), maxBytes.value);
        if (settled) Program.print("# nearmetal settled: after %.2f s%n", seconds);
        else Program.print("# nearmetal settled: no, round trips still varied after the time allowed%n");
        final String rule = "#---------------------------------------------------";
        Program.print("%s%s%n# Benchmarking PingPong%n# #processes = 2%n%s%n", report, rule, rule);
        Program.print("%13s %12s %12s %12s%n", "#bytes", "#repetitions", "t[usec]", "Mbytes/sec");
    }

    private int run(String[] arguments) throws MPIException {
        if (!program.parse(arguments, HELP, warmup, iterations, minIterations, volume, maxBytes, stallTimeout, maxTime))
            return 0;
        if (program.ranks != 2)
            throw new Program.Refusal(Program.USAGE_ERROR, "a ping-pong needs exactly 2 ranks, but " + program.ranks
                    + " started; launch it with -n 2 (1 where 2 were asked for: the launcher is not this MPI's).");
        sendBuffer = new byte[(int) maxBytes.value];
        receiveBuffer = new byte[(int) maxBytes.value];
        watch();
        final double begin = now();
        final StringBuilder report = new StringBuilder(), batches = new StringBuilder();
        boolean settled = true; // the longest first: the library has another protocol for it, which is compiled too
        for (final int bytes : maxBytes.value > 1 ? new int[] {(int) maxBytes.value, 1} : new int[] {1})
            settled &= settle(bytes, report);
        Program.awaitCompiler();
        printHead(settled, now() - begin, report);
        final double[] clock = new double[MAX_BATCHES + 1];
        int sizes = 0;
        final long jit = Program.compilingMs();
        for (long size = 1; size <= maxBytes.value; size *= 2, sizes++) {
            final int bytes = (int) size;
            expectProgress(bytes);
            if (!verifiedRoundTrip(bytes)) return Program.WRONG_RESULT;
            final int count = measure(bytes, clock), parts = Math.min(count, MAX_BATCHES);
            final double mean = (clock[parts] - clock[0]) * 1e6 / 2 / count;
            word[0] = mean > 0 ? 1 : 0;
            program.world.Bcast(word, 0, 1, MPI.INT, 0);
            if (word[0] == 0)
                throw new Program.Refusal(Program.WRONG_RESULT, "the clock stood still over " + count + " round trips of "
                        + bytes + " bytes; raise --iterations.");
            if (rank != 0) continue;
            Program.print("%13d %12d %12.4f %12.2f%n", bytes, count, mean, bytes / mean);
            batches.append("# nearmetal batches: bytes=").append(bytes).append(" us=");
            for (int b = 0; b < parts; b++) {
                final long trips = (long) count * (b + 1) / parts - (long) count * b / parts;
                final double halfTrip = (clock[b + 1] - clock[b]) * 1e6 / 2 / trips;
                batches.append(String.format(Locale.ROOT, "%s%.4f", b > 0 ? "," : "", halfTrip));
            }
            batches.append('\n');
        }
        if (rank == 0) Program.print("%s# nearmetal timed_run: jit_ms=%d%n# nearmetal verified: sizes=%d%n"
                + "# nearmetal complete%n", batches, Program.compilingMs() - jit, sizes);
        return 0;
    }
}
