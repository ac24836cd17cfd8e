import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import mpi.MPI;
import mpi.MPIException;

/**
 * MPI half round trip between two ranks in Java, byte arrays and no serialization (with
 * -Dnearmetal.buffers=off_heap direct buffers, which mpj-native takes): the counterpart of
 * ../pingpong.c, by the same method (PingPong of the Intel MPI Benchmarks) and in the same
 * format, so that one parser reads both. What Java adds: before the first size the ranks settle
 * with the longest and the shortest message, until the last round trips gain nothing any more and
 * the JIT compiler has hardly anything left to do. If it compiles all the same while sizes are
 * timed, all are timed once more. Between two JVMs some sizes are also sent over a plain socket
 * (Sockets), so that the library's own cost is told from Java's and the network's.
 */
public final class PingPong {
    private static final int MAX_BATCHES = 10, TAG = 1, WINDOW = 8;
    // what a message calls once, HotSpot's C2 takes up after so many
    private static final int LEAST_TRIPS = 15000;
    private static final int[] PLAIN = {1, 1024, 65536, 4194304};
    private static final double GAIN = 0.05, CHUNK_SECONDS = 0.01, LEAST_SECONDS = 1,
                                ENOUGH_SECONDS = 10, COMPILING = 0.02;
    private static final double REHEARSAL = 0.005;
    // of all sizes, until one of them has hardly anything compiled
    private static final int MOST_REHEARSALS = 6, REHEARSED_MS = 10;
    // A compilation takes the core from a rank: then all sizes are timed once more.
    private static final int MOST_RUNS = 6, COMPILED_MS = 4;

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
              --rehearsals N      send all sizes at least N times before the first size is timed;
                                  once is the least, and more while the compiler is busy
              --stall-timeout S   give up on a phase of a size that takes S seconds longer than
                                  --max-time: the other rank hangs (default 60)
              --help              this text

            Exit status: 0 done, 2 bad usage or too little memory,
            3 a payload arrived corrupted or no time could be taken,
            4 the other rank does not answer.
            """;

    private final Program.Option warmup = new Program.Option("warmup", 0, 1e9, true, 100);
    private final Program.Option iterations = new Program.Option("iterations", 1, 1e9, true, 1000);
    private final Program.Option minIterations =
        new Program.Option("min-iterations", 1, 1e9, true, 5);
    private final Program.Option volume = new Program.Option("volume", 1, 1e15, true, 40L << 20);
    private final Program.Option maxBytes =
        new Program.Option("max-bytes", 1, 1 << 30, true, 4 << 20);
    private final Program.Option stallTimeout =
        new Program.Option("stall-timeout", 1, 1e6, true, 60);
    private final Program.Option rehearsals = new Program.Option("rehearsals", 0, 1000, true, 0);
    private final Program.Option maxTime = new Program.Option("max-time", 0.001, 1e6, false, 10);

    private final Program program;
    private final int rank, other;
    private byte[] sendBuffer, receiveBuffer;
    private ByteBuffer direct, directReceived; // null: the arrays are the messages
    private Object outgoing, incoming; // what the library gets
    private final int[] word = new int[1];
    private final double mostSeconds = Program.mostWarmUpSeconds();
    private final Way library = this::byLibrary;
    private Sockets sockets;
    private double budget; // seconds of a size: those of a rehearsal, then the real ones

    /** Either way that messages go. */
    interface Way {
        void roundTrips(long count, int bytes) throws MPIException;
    }
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
        // The other rank may still wait for its compiler: that is no stall.
        deadline = System.nanoTime() + Program.PATIENCE_NS
            + (long) ((stallTimeout.value + maxTime.value + mostSeconds) * 1e9);
    }

    private void watch() {
        expectProgress(0);
        final Thread watcher = new Thread(() -> {
            try {
                while (System.nanoTime() - deadline < 0) Thread.sleep(500);
            } catch (InterruptedException ended) {
                return;
            }
            Program.complain(program.name,
                String.format(Locale.ROOT,
                    "rank %d has had no answer from rank %d for %.0f s "
                        + "at messages of %d bytes: that rank hangs, or the network between "
                        + "them lost it.",
                    rank, other, stallTimeout.value, deadlineBytes));
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

    private void byLibrary(long count, int bytes) throws MPIException {
        for (long i = 0; i < count; i++) {
            if (rank == 0) program.world.Send(outgoing, 0, bytes, MPI.BYTE, other, TAG);
            program.world.Recv(incoming, 0, bytes, MPI.BYTE, other, TAG);
            if (rank == 1) program.world.Send(outgoing, 0, bytes, MPI.BYTE, other, TAG);
        }
    }

    /**
     * One round trip, each direction with a pattern of its own. The receive buffer first holds the
     * complement of what is expected, so that neither an earlier message nor a short one can pass
     * for this one.
     */
    private boolean verifiedRoundTrip(Way way, int bytes) throws MPIException {
        for (int i = 0; i < bytes; i++) {
            sendBuffer[i] = pattern(i, bytes, rank + 1);
            receiveBuffer[i] = (byte) ~pattern(i, bytes, other + 1);
        }
        if (sockets != null) sockets.load(sendBuffer);
        if (direct != null) {
            direct.put(0, sendBuffer, 0, bytes);
            directReceived.put(0, receiveBuffer, 0, bytes);
        }
        way.roundTrips(1, bytes);
        if (direct != null && way == library) directReceived.get(0, receiveBuffer, 0, bytes);
        if (sockets != null && way != library) sockets.store(receiveBuffer, bytes);
        final int[] wrong = new int[1], any = new int[1];
        for (int i = 0; i < bytes && wrong[0] == 0; i++) {
            final byte expected = pattern(i, bytes, other + 1);
            if (receiveBuffer[i] == expected) continue;
            wrong[0] = 1;
            Program.complain(program.name,
                String.format(Locale.ROOT,
                    "rank %d received a corrupted message of %d bytes: at "
                        + "byte offset %d expected 0x%02x, got 0x%02x.",
                    rank, bytes, i, expected, receiveBuffer[i]));
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

    /** The larger number of both ranks. */
    private int mostOf(int mine) throws MPIException {
        final int[] most = new int[1];
        word[0] = mine;
        program.world.Allreduce(word, 0, most, 0, 1, MPI.INT, MPI.MAX);
        return most[0];
    }

    /**
     * In chunks that double, until enough are done or a tenth of the time budget is spent. Returns
     * the estimate of a round trip in seconds, from the last chunk.
     */
    private double warmUp(Way way, int bytes) throws MPIException {
        final long wanted = Math.max(1, (long) warmup.value);
        double spent = 0, estimate = 0;
        long done = 0, chunk = 1;
        for (;;) {
            final int next = agree(spent > budget / 10 ? 0 : Math.min(wanted - done, chunk));
            if (next == 0) return estimate;
            final double start = now();
            way.roundTrips(next, bytes);
            final double elapsed = now() - start;
            spent += elapsed;
            estimate = elapsed / next;
            done += next;
            chunk *= 2;
        }
    }

    /**
     * Before the first size: round trips of `bytes` until the last chunks gain nothing and hardly
     * anything is compiled any more. Reports how that was seen; returns whether it was.
     */
    private boolean settle(Way way, String name, int bytes, StringBuilder report)
        throws MPIException {
        final double[] recent = new double[WINDOW], ended = new double[WINDOW + 1];
        final long[] jit = new long[WINDOW + 1];
        final double begin = now();
        // the best round trip but for the last WINDOW chunks
        double before = Double.POSITIVE_INFINITY, chunk = 1;
        long trips = 0;
        expectProgress(bytes);
        for (int n = 0;; n++) {
            final int newest = n % (WINDOW + 1), oldest = (n + 1) % (WINDOW + 1);
            ended[newest] = now();
            jit[newest] = Program.compilingMs();
            final double spent = ended[newest] - begin;
            final double share =
                (jit[newest] - jit[oldest]) * 1e-3 / (ended[newest] - ended[oldest]);
            final double best = Arrays.stream(recent).min().getAsDouble();
            final boolean enough =
                trips >= LEAST_TRIPS || spent > (bytes == 1 ? ENOUGH_SECONDS : LEAST_SECONDS);
            final boolean steady =
                n > 2 * WINDOW && enough && share < COMPILING && best > before * (1 - GAIN);
            final int next = agree(steady || spent > mostSeconds ? 0 : chunk);
            if (next == 0) {
                report.append(String.format(Locale.ROOT,
                    "# nearmetal warm_up_%s%d: stable=%s round_trips=%d seconds=%.2f "
                        + "jit_ms=%d last_jit_share=%.4f last_us=",
                    name, bytes, steady ? "yes" : "no", trips, spent, Program.compilingMs(),
                    share));
                for (int i = 0; i < WINDOW; i++)
                    report.append(String.format(Locale.ROOT, "%s%.4f", i > 0 ? "," : "",
                        recent[(n + i) % WINDOW] * 1e6 / 2));
                report.append('\n');
                return steady;
            }
            if (n >= WINDOW) before = Math.min(before, recent[n % WINDOW]);
            final double start = now();
            way.roundTrips(next, bytes);
            final double roundTrip = (now() - start) / next;
            recent[n % WINDOW] = roundTrip;
            trips += next;
            chunk = Math.floor(CHUNK_SECONDS / roundTrip) + 1;
        }
    }

    private long chooseIterations(int bytes, double roundTrip) {
        double count = Math.min(iterations.value, Math.floor(volume.value / bytes));
        if (count * roundTrip > budget) count = Math.floor(budget / roundTrip);
        return (long) Math.min(Math.max(count, minIterations.value), iterations.value);
    }

    /**
     * One uninterrupted loop; rank 0 reads the clock only between batches. Fills `batch` (half
     * round trips in us) and returns how many iterations there were.
     */
    private int measure(Way way, int bytes, double[] clock) throws MPIException {
        final double estimate = warmUp(way, bytes);
        final int count = agree(chooseIterations(bytes, estimate)),
                  batches = Math.min(count, MAX_BATCHES);
        expectProgress(bytes);
        program.world.Barrier(); // twice, as IMB: the first may still be
        program.world.Barrier(); // absorbing the skew of the decision above
        clock[0] = now();
        for (int b = 0; b < batches; b++) {
            way.roundTrips((long) count * (b + 1) / batches - (long) count * b / batches, bytes);
            clock[b + 1] = now();
        }
        return count;
    }

    private void printHead() throws MPIException {
        program.printProgram("pingpong 2"); // 2 is the version of this format
        if (rank == 0)
            Program.print(
                "# nearmetal method: warmup=%.0f iterations=%.0f min_iterations=%.0f volume=%.0f "
                    + "max_time=%s max_bytes=%.0f%s%n",
                warmup.value, iterations.value, minIterations.value, volume.value,
                Program.plain(maxTime.value), maxBytes.value,
                rehearsals.value > 0 ? " rehearsals=" + (long) rehearsals.value : "");
    }

    private void printTableHead(boolean settled, double seconds) {
        if (settled) Program.print("# nearmetal settled: after %.2f s%n", seconds);
        else
            Program.print(
                "# nearmetal settled: no, round trips still gained after the time allowed%n");
        final String rule = "#---------------------------------------------------";
        Program.print("%s%n# Benchmarking PingPong%n# #processes = 2%n%s%n", rule, rule);
        Program.print("%13s %12s %12s %12s%n", "#bytes", "#repetitions", "t[usec]", "Mbytes/sec");
    }

    private int run(String[] arguments) throws MPIException {
        if (!program.parse(arguments, HELP, warmup, iterations, minIterations, volume, maxBytes,
                rehearsals, stallTimeout, maxTime))
            return 0;
        if (program.ranks != 2)
            throw new Program.Refusal(Program.USAGE_ERROR,
                "a ping-pong needs exactly 2 ranks, but " + program.ranks
                    + " started; launch it with -n 2 "
                    + "(1 where 2 were asked for: the launcher is not this MPI's).");
        sendBuffer = new byte[(int) maxBytes.value];
        receiveBuffer = new byte[(int) maxBytes.value];
        outgoing = sendBuffer;
        incoming = receiveBuffer;
        if (System.getProperty("nearmetal.buffers", "heap").equals("off_heap")) {
            outgoing = direct = ByteBuffer.allocateDirect(sendBuffer.length);
            incoming = directReceived = ByteBuffer.allocateDirect(receiveBuffer.length);
        }
        watch();
        printHead();
        final StringBuilder batches = new StringBuilder();
        final int sizes = pass(library, "", batches);
        if (sizes < 0) return Program.WRONG_RESULT;
        // Only now, since what the compiler learns of channels from plain sockets would cost the
        // library, which has others.
        sockets = Sockets.connect(program, (int) maxBytes.value);
        if (sockets != null && pass(sockets::roundTrips, "sockets_", batches) < 0)
            return Program.WRONG_RESULT;
        if (rank == 0)
            Program.print(
                "%s# nearmetal verified: sizes=%d%n# nearmetal complete%n", batches, sizes);
        return 0;
    }

    /**
     * All sizes warmed up, then verified and timed; how many there are, or -1 where a message
     * arrived corrupted.
     */
    private int pass(Way way, String name, StringBuilder batches) throws MPIException {
        final double begin = now();
        final StringBuilder report = new StringBuilder();
        budget = Math.min(REHEARSAL, maxTime.value);
        boolean settled = true; // the longest first: the library has another protocol for it
        for (final int bytes :
            maxBytes.value > 1 ? new int[] {(int) maxBytes.value, 1} : new int[] {1}) {
            // Rehearsed before, since of a size that the compiler has never seen the first message
            // undoes what it made.
            if (allSizes(way, null, null) < 0) return -1;
            settled &= settle(way, name, bytes, report);
        }
        budget = maxTime.value;
        // As below: what is compiled there would take the core from a rank.
        for (int n = 0, busy = 1; n < rehearsals.value || n < MOST_REHEARSALS && busy > 0; n++) {
            final long before = Program.compilingMs();
            if (allSizes(way, new StringBuilder(), null) < 0) return -1;
            busy = mostOf((int) (Program.compilingMs() - before) / REHEARSED_MS);
        }
        if (way == library && rank == 0) printTableHead(settled, now() - begin);
        Program.awaitCompiler();
        final StringBuilder timed = new StringBuilder(), rows = new StringBuilder();
        int sizes = 0, runs = 0, jit;
        do {
            timed.setLength(0);
            rows.setLength(0);
            final long before = Program.compilingMs();
            sizes = allSizes(way, timed, rows);
            if (sizes < 0) return -1;
            Program.awaitCompiler(100);
            jit = (int) (Program.compilingMs() - before);
            runs++;
        } while (mostOf(jit) > COMPILED_MS && runs < MOST_RUNS);
        if (way == library && rank == 0) Program.print("%s", rows);
        batches.append(timed).append(report).append(
            String.format(Locale.ROOT, "# nearmetal timed_run%s: runs=%d jit_ms=%d%n",
                name.isEmpty() ? "" : "_sockets", runs, jit));
        return sizes;
    }

    /** Adds to the rows of the table and the batches; a rehearsal may do without them. */
    private int allSizes(Way way, StringBuilder batches, StringBuilder rows) throws MPIException {
        int sizes = 0;
        for (long size = 1; size <= maxBytes.value; size *= 2, sizes++) {
            final int bytes = (int) size;
            if (way != library && Arrays.binarySearch(PLAIN, bytes) < 0) continue;
            expectProgress(bytes);
            if (!verifiedRoundTrip(way, bytes)) return -1;
            timed(way, bytes, batches, rows);
        }
        return sizes;
    }

    /**
     * Messages of one size: a row of the table where `rows` are wanted, and what they were measured
     * in.
     */
    private void timed(Way way, int bytes, StringBuilder batches, StringBuilder rows)
        throws MPIException {
        final double[] clock = new double[MAX_BATCHES + 1];
        final int count = measure(way, bytes, clock), parts = Math.min(count, MAX_BATCHES);
        final double mean = (clock[parts] - clock[0]) * 1e6 / 2 / count;
        word[0] = mean > 0 ? 1 : 0;
        program.world.Bcast(word, 0, 1, MPI.INT, 0);
        if (word[0] == 0)
            throw new Program.Refusal(Program.WRONG_RESULT,
                "the clock stood still over " + count + " round trips of " + bytes
                    + " bytes; raise --iterations.");
        if (rank != 0 || batches == null) return;
        final String row = String.format(
            Locale.ROOT, "%13d %12d %12.4f %12.2f%n", bytes, count, mean, bytes / mean);
        if (rows != null) rows.append(row);
        batches.append("# nearmetal ")
            .append(way == library ? "batches" : "sockets")
            .append(": bytes=")
            .append(bytes)
            .append(" us=");
        for (int b = 0; b < parts; b++) {
            final long trips = (long) count * (b + 1) / parts - (long) count * b / parts;
            final double halfTrip = (clock[b + 1] - clock[b]) * 1e6 / 2 / trips;
            batches.append(String.format(Locale.ROOT, "%s%.4f", b > 0 ? "," : "", halfTrip));
        }
        batches.append('\n');
    }
}
