import java.util.Arrays;
import mpi.MPI;
import mpi.MPIException;

/**
 * IS, "integer sort": ten times the rank of every key, as a bucket sort over the processes
 * (report, 2.6), with the messages of
 * ../npb/is.c: the counts of buckets are added up, and the keys go where their bucket is in one
 * all-to-all.
 */
public final class IS extends Npb {
    private static final int ITERATIONS = 10, TESTS = 5;
    // Powers of two: 16 stands for 65536.
    private static final int[] KEYS = {16, 20, 23, 25, 27, 31, 35},
                               VALUES = {11, 16, 19, 21, 23, 27, 31},
                               BUCKETS = {9, 10, 10, 10, 10, 10, 10};
    private static final long[][] PLACE = {{48427, 17148, 23627, 62548, 4431},
        {357773, 934767, 875723, 898999, 404505}, {2112377, 662041, 5336171, 3642833, 4250760},
        {41869, 812306, 5102857, 18232239, 26860214},
        {44172927, 72999161, 74326391, 129606274, 21736814},
        {1317351170, 995930646, 1157283250, 1503301535, 1453734525},
        {21492309536L, 24606226181L, 12608530949L, 4065943607L, 3324513396L}};
    // In iteration k the key at PLACE has RANK + STEP * k: the official offsets are added up here.
    private static final long[][] RANK = {{0, 18, 346, 64917, 65463},
        {1247, 11696, 1039987, 1043896, 1048018}, {103, 17522, 123927, 8288933, 8388265},
        {33422937, 10244, 59149, 33135281, 99}, {61147, 882988, 266290, 133997595, 133525895},
        {1, 36538729, 1978098519, 2145192618, 2147425337},
        {1, 27580352, 3248475151L, 30048754304L, 31485259699L}};
    private static final int[][] STEP = {{1, 1, 1, -1, -1}, {1, 1, -1, -1, -1}, {1, 1, 1, -1, -1},
        {-1, 1, 1, -1, 1}, {1, 1, 1, -1, -1}, {1, 1, -1, -1, -1}, {1, 1, 1, -1, -1}};

    private int buckets, bucketShift, mine;
    private long total;
    private int[] keys, sorted, received; // as made; by bucket; those of my buckets
    private int[] counts = {}; // how often each of my values occurs, then how many are not larger
    private int[] localSizes, sizes; // of buckets; TESTS more for the tested keys
    private int[] next; // where the next key of a bucket goes
    private int[] sendCounts, sendStarts, receiveCounts, receiveStarts;
    // what is mine after the exchange; `below` keys are smaller
    private int firstValue, values, held;
    private long below;
    private int passed;

    private IS(Program program) {
        super(program, "IS", "keys ranked");
    }

    public static void main(String[] arguments) {
        Program.run("npb IS", arguments, (program, own) -> new IS(program).run(own));
    }

    /**
     * Keys pile up in the middle values, and only whole buckets move: half as much again is room
     * enough. The first process has the most values, as ../npb/is.c explains.
     */
    @Override
    double bytes(int problem) {
        final double widest = processes < 24 ? 1 : Math.pow(24.0 / processes, 0.25) / 4 + 1e-3;
        return 4
            * ((2 + 1.5) * (1L << KEYS[problem]) / processes + widest * (1L << VALUES[problem]));
    }

    @Override
    long fewest(int problem) {
        return Math.max(1, (1L << KEYS[problem]) >> 30);
    }

    /** Rank 0 sets twice ITERATIONS keys. */
    @Override
    long most(int problem) {
        return 1L << KEYS[problem] - 5;
    }

    /**
     * Each key is the mean of four random numbers; integers all the way, as the numbers are
     * multiples of 2^-46.
     */
    private void makeKeys() {
        long state = skip(RANDOM_SEED, 4L * mine * rank);
        final int shift = 48 - VALUES[problem];
        for (int i = 0; i < mine; i++) {
            long sum = 0;
            for (int n = 0; n < 4; n++) {
                state = state * RANDOM_A & RANDOM_MASK;
                sum += state;
            }
            keys[i] = (int) (sum >>> shift);
        }
    }

    /**
     * Each process takes buckets until all that were taken make its share and its predecessors'.
     */
    private void shareBuckets() {
        long seen = 0, before = 0;
        int bucket = 0;
        for (int p = 0; p < processes; p++) {
            final int first = bucket;
            sendCounts[p] = 0;
            for (; bucket < buckets && (seen < total / processes * (p + 1) || p == processes - 1);
                bucket++) {
                seen += sizes[bucket];
                sendCounts[p] += localSizes[bucket];
            }
            sendStarts[p] = p > 0 ? sendStarts[p - 1] + sendCounts[p - 1] : 0;
            if (p == rank) {
                firstValue = first << bucketShift;
                values = bucket - first << bucketShift;
                below = before;
            }
            before = seen;
        }
    }

    private void exchange() throws MPIException {
        world.Alltoall(sendCounts, 0, 1, MPI.INT, receiveCounts, 0, 1, MPI.INT);
        held = 0;
        for (int p = 0; p < processes; p++) {
            receiveStarts[p] = held;
            held += receiveCounts[p];
        }
        if (held > received.length) received = new int[held + held / 64];
        world.Alltoallv(sorted, 0, sendCounts, sendStarts, MPI.INT, received, 0, receiveCounts,
            receiveStarts, MPI.INT);
        payload += 4.0 * (mine - sendCounts[rank]);
    }

    private static void countKeys(int[] keys, int held, int first, int[] counts) {
        for (int i = 0; i < held; i++) counts[keys[i] - first]++;
    }

    private static void addUp(int[] counts, int values) {
        int sum = 0;
        for (int v = 0; v < values; v++) {
            sum += counts[v];
            counts[v] = sum;
        }
    }

    /**
     * counts[v - firstValue] becomes how many of all keys are at most v, but those on lower
     * processes.
     */
    private void rankKeys() {
        if (values > counts.length) counts = new int[values];
        Arrays.fill(counts, 0, values, 0);
        countKeys(received, held, firstValue, counts);
        addUp(counts, values);
    }

    private void verifyTests(int iteration) {
        for (int t = 0; t < TESTS; t++) {
            final int key = sizes[buckets + t], v = key - firstValue;
            if (key <= 0 || key >= 1L << VALUES[problem] || v < 0 || v >= values) continue;
            final long smaller = below + (v > 0 ? counts[v - 1] : 0);
            int late = 0; // one key of class E has no constant step
            if (className() == 'E' && t == 2 && iteration > 2) late = iteration > 4 ? 2 : 1;
            if (smaller == RANK[problem][t] + STEP[problem][t] * iteration - late) passed++;
        }
    }

    private static void countBuckets(int[] keys, int shift, int[] sizes) {
        for (int i = 0; i < keys.length; i++) sizes[keys[i] >> shift]++;
    }

    private static void sortByBucket(int[] keys, int shift, int[] next, int[] sorted) {
        for (int i = 0; i < keys.length; i++) {
            final int key = keys[i];
            sorted[next[key >> shift]++] = key;
        }
    }

    private void iterate(int iteration) throws MPIException {
        if (rank == 0) {
            keys[iteration] = iteration;
            keys[iteration + ITERATIONS] = (int) ((1L << VALUES[problem]) - iteration);
        }
        Arrays.fill(localSizes, 0);
        for (int t = 0; t < TESTS; t++) {
            final long at = PLACE[problem][t] - (long) mine * rank;
            if (at >= 0 && at < mine) localSizes[buckets + t] = keys[(int) at];
        }
        countBuckets(keys, bucketShift, localSizes);
        world.Allreduce(localSizes, 0, sizes, 0, buckets + TESTS, MPI.INT, MPI.SUM);
        for (int b = 0, start = 0; b < buckets; start += localSizes[b++]) next[b] = start;
        sortByBucket(keys, bucketShift, next, sorted);
        shareBuckets();
        exchange();
        rankKeys();
        verifyTests(iteration);
    }

    /**
     * Puts the keys where their ranks say, and looks whether all are in order, from process to
     * process too.
     */
    private boolean inOrder() throws MPIException {
        final int[] out = held > mine ? new int[held] : sorted, last = {-1};
        int wrong = 0;
        for (int i = 0; i < held; i++) out[--counts[received[i] - firstValue]] = received[i];
        for (int i = 1; i < held; i++)
            if (out[i - 1] > out[i]) wrong++;
        // A process without keys passes on what it got.
        if (rank > 0) world.Recv(last, 0, 1, MPI.INT, rank - 1, 0);
        if (held > 0) {
            if (last[0] > out[0]) wrong++;
            last[0] = out[held - 1];
        }
        if (rank < processes - 1) world.Send(last, 0, 1, MPI.INT, rank + 1, 0);
        return wrong == 0;
    }

    @Override
    int kernel() throws MPIException {
        total = 1L << KEYS[problem];
        mine = (int) (total / processes);
        // Several buckets for each process, as ../npb/is.c.
        bucketShift =
            Math.max(0, VALUES[problem] - Math.max(BUCKETS[problem], log2(processes) + 2));
        buckets = 1 << VALUES[problem] - bucketShift;
        title("Size:  %d  (class %c)%n Iterations:   %d", total, className(), ITERATIONS);
        keys = new int[mine];
        sorted = new int[mine];
        received = new int[mine + mine / 2];
        localSizes = new int[buckets + TESTS];
        sizes = new int[buckets + TESTS];
        next = new int[buckets];
        sendCounts = new int[processes];
        sendStarts = new int[processes];
        receiveCounts = new int[processes];
        receiveStarts = new int[processes];
        makeKeys();
        warmUp(() -> iterate(1));
        passed = 0;
        clockStart();
        for (int iteration = 1; iteration <= ITERATIONS; iteration++) {
            iterate(iteration);
            iterationDone();
        }
        final double seconds = clockStop();
        if (inOrder()) passed++;
        final int[] right = {passed}, all = new int[1];
        world.Allreduce(right, 0, all, 0, 1, MPI.INT, MPI.SUM);
        return finish(Long.toString(total), ITERATIONS, seconds, ITERATIONS * (double) total * 1e-6,
            all[0] == TESTS * ITERATIONS + processes);
    }
}
