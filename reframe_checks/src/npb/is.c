/*
 * IS, "integer sort": ten times the rank of every key, as a bucket sort over
 * the processes (report, 2.6).  A process counts its keys by bucket, all add up
 * the counts, each takes as many whole buckets as make its share, and the keys
 * go there in one all-to-all.
 *
 * Build: mpi -O3
 */
#include "npb.h"

enum { ITERATIONS = 10, TESTS = 5 };
static const struct {
    int keys, values, buckets; /* powers of two */
    long place[TESTS], rank[TESTS];
    /* in iteration k the key at `place` has rank + step * k: the offsets are added up */
    int step[TESTS];
} CLASS[CLASSES] = {
    {16, 11, 9, {48427, 17148, 23627, 62548, 4431}, {0, 18, 346, 64917, 65463}, {1, 1, 1, -1, -1}},
    {20,
     16,
     10,
     {357773, 934767, 875723, 898999, 404505},
     {1247, 11696, 1039987, 1043896, 1048018},
     {1, 1, -1, -1, -1}},
    {23,
     19,
     10,
     {2112377, 662041, 5336171, 3642833, 4250760},
     {103, 17522, 123927, 8288933, 8388265},
     {1, 1, 1, -1, -1}},
    {25,
     21,
     10,
     {41869, 812306, 5102857, 18232239, 26860214},
     {33422937, 10244, 59149, 33135281, 99},
     {-1, 1, 1, -1, 1}},
    {27,
     23,
     10,
     {44172927, 72999161, 74326391, 129606274, 21736814},
     {61147, 882988, 266290, 133997595, 133525895},
     {1, 1, 1, -1, -1}},
    {31,
     27,
     10,
     {1317351170, 995930646, 1157283250, 1503301535, 1453734525},
     {1, 36538729, 1978098519, 2145192618, 2147425337},
     {1, 1, -1, -1, -1}},
    {35,
     31,
     10,
     {21492309536, 24606226181, 12608530949, 4065943607, 3324513396},
     {1, 27580352, 3248475151, 30048754304, 31485259699},
     {1, 1, 1, -1, -1}},
};

static int class, buckets, bucket_shift;
static long total, mine;            /* keys */
static int *keys, *sorted, *received; /* as made; by bucket; those of my buckets that others had */
static const int *own; /* those of my buckets that I had, where they are in `sorted` */
static long own_count, capacity, key_capacity; /* the latter two of `received` and `keys` */
/* how often each of my values occurs, then how many are not larger: 2^31 of class D on one process
 */
static uint32_t *counts;
static long count_capacity;
static int *local_sizes, *sizes; /* of buckets; TESTS more for the tested keys */
static uint32_t *place; /* where the next key of a bucket goes */
static int *send_counts, *send_starts, *receive_counts, *receive_starts;
/* what is mine after the exchange; `below` keys are smaller */
static long first_value, values, below;
static long held; /* keys in `received` */
static int passed;

/* Of `sorted` a process keeps what is its own.  Keys pile up in the middle values, and only whole
 * buckets move: half as much again is room enough.  The lowest values are rare, since the sum of
 * four random numbers is below s with probability s^4 / 24: that is the share of the first process.
 */
static double bytes(int c)
{
    const double p = processes, moved = 1.5 * (1 - 1 / p);
    const double widest = p < 24 ? 1 : pow(24 / p, 0.25) / 4 + 1e-3;
    return 4 * ((2 + moved) * ldexp(1, CLASS[c].keys) / p + ldexp(widest, CLASS[c].values));
}

/* MPI counts the keys of a message in 31 bits. */
static long fewest(int c) { return CLASS[c].keys > 31 ? 1L << (CLASS[c].keys - 30) : 1; }

/* Rank 0 sets twice ITERATIONS keys. */
static long most(int c) { return 1L << (CLASS[c].keys - 5); }

/* Each key is the mean of four random numbers; integers all the way, as the numbers are multiples
 * of 2^-46. */
static void make_keys(void)
{
    uint64_t state = random_skip(RANDOM_SEED, 4 * (uint64_t)(mine * rank));
    for (long i = 0; i < mine; i++) {
        uint64_t sum = 0;
        for (int n = 0; n < 4; n++) sum += random_step(&state, RANDOM_A);
        keys[i] = (int)(sum >> (48 - CLASS[class].values));
    }
}

/* An array of 32-bit numbers that has as many as it needs. */
static void *grown(void *array, long *has, long needs)
{
    if (needs <= *has) return array;
    free(array);
    *has = needs + needs / 64;
    return npb_allocate((size_t)*has, sizeof(int32_t));
}

/* Each process takes buckets until all that were taken make its share and its predecessors'. */
static void share_buckets(void)
{
    long seen = 0, before = 0, start = 0;
    int bucket = 0;
    for (int p = 0; p < processes; p++) {
        const int first = bucket;
        long count = 0;
        for (; bucket < buckets && (seen < total / processes * (p + 1) || p == processes - 1);
             bucket++) {
            seen += sizes[bucket];
            count += local_sizes[bucket];
        }
        send_starts[p] = (int)start;
        send_counts[p] = p == rank ? 0 : (int)count; /* nobody copies what stays */
        if (p == rank) {
            own = sorted + start;
            own_count = count;
            first_value = (long)first << bucket_shift;
            values = (long)(bucket - first) << bucket_shift;
            below = before;
        }
        start += count;
        before = seen;
    }
}

static void exchange(void)
{
    MPI_Alltoall(send_counts, 1, MPI_INT, receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
    held = 0;
    for (int p = 0; p < processes; p++) {
        receive_starts[p] = (int)held;
        held += receive_counts[p];
    }
    received = grown(received, &capacity, held);
    MPI_Alltoallv(sorted, send_counts, send_starts, MPI_INT, received, receive_counts,
                  receive_starts, MPI_INT, MPI_COMM_WORLD);
    npb_payload += (double)(mine - own_count) * sizeof *sorted;
}

/* counts[v - first_value] becomes how many of all keys are at most v, but those on lower processes.
 */
static void rank_keys(void)
{
    counts = grown(counts, &count_capacity, values);
    memset(counts, 0, (size_t)values * sizeof *counts);
    uint32_t *const count = counts - first_value;
    for (long i = 0; i < own_count; i++) count[own[i]]++;
    for (long i = 0; i < held; i++) count[received[i]]++;
    for (long v = 1; v < values; v++) counts[v] += counts[v - 1];
}

static void verify_tests(int iteration)
{
    for (int t = 0; t < TESTS; t++) {
        const long key = sizes[buckets + t], v = key - first_value;
        if (key <= 0 || key >= 1L << CLASS[class].values || v < 0 || v >= values) continue;
        const long smaller = below + (v ? counts[v - 1] : 0);
        /* one key of class E has no constant step */
        const int slow = CLASS_NAMES[class] == 'E' && t == 2;
        const int late = slow * ((iteration > 2) + (iteration > 4));
        passed += smaller == CLASS[class].rank[t] + CLASS[class].step[t] * iteration - late;
    }
}

static void iterate(int iteration)
{
    if (rank == 0) {
        keys[iteration] = iteration;
        keys[iteration + ITERATIONS] = (int)((1L << CLASS[class].values) - iteration);
    }
    memset(local_sizes, 0, (size_t)(buckets + TESTS) * sizeof *local_sizes);
    for (int t = 0; t < TESTS; t++) {
        const long at = CLASS[class].place[t] - mine * rank;
        if (at >= 0 && at < mine) local_sizes[buckets + t] = keys[at];
    }
    for (long i = 0; i < mine; i++) local_sizes[keys[i] >> bucket_shift]++;
    MPI_Allreduce(local_sizes, sizes, buckets + TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    place[0] = 0;
    for (int b = 1; b < buckets; b++) place[b] = place[b - 1] + (uint32_t)local_sizes[b - 1];
    for (long i = 0; i < mine; i++) {
        const int key = keys[i];
        sorted[place[key >> bucket_shift]++] = key;
    }
    share_buckets();
    exchange();
    rank_keys();
    verify_tests(iteration);
}

/* Puts the keys where their ranks say, and looks whether all are in order, from process to process
 * too. */
static int in_order(void)
{
    const long all = own_count + held;
    long wrong = 0;
    keys = grown(keys, &key_capacity, all); /* those that were made are done with */
    for (long i = 0; i < own_count; i++) keys[--counts[own[i] - first_value]] = own[i];
    for (long i = 0; i < held; i++) keys[--counts[received[i] - first_value]] = received[i];
    for (long i = 1; i < all; i++) wrong += keys[i - 1] > keys[i];
    /* A process without keys passes on what it got. */
    int last = -1;
    if (rank > 0) MPI_Recv(&last, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (all > 0) {
        wrong += last > keys[0];
        last = keys[all - 1];
    }
    if (rank < processes - 1) MPI_Send(&last, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    return wrong == 0;
}

int main(int argc, char **argv)
{
    static const struct kernel IS = {"IS", "keys ranked", bytes, fewest, most};
    class = npb_start(argc, argv, &IS);
    total = 1L << CLASS[class].keys;
    mine = total / processes;
    /* Several buckets for each process: the official ones are enough for 128. */
    const int wanted = log_2(processes) + 2, official = CLASS[class].buckets;
    const int log = wanted > official ? wanted : official;
    bucket_shift = CLASS[class].values > log ? CLASS[class].values - log : 0;
    buckets = 1 << (CLASS[class].values - bucket_shift);
    npb_title("Size:  %ld  (class %c)\n Iterations:   %d", total, CLASS_NAMES[class], ITERATIONS);
    keys = grown(NULL, &key_capacity, mine);
    sorted = npb_allocate((size_t)mine, sizeof *sorted);
    place = npb_allocate((size_t)buckets, sizeof *place);
    int **const small[] = {&local_sizes, &sizes,          &send_counts,
                           &send_starts, &receive_counts, &receive_starts};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        *small[i] = npb_allocate((size_t)(buckets + TESTS + processes), sizeof(int));
    make_keys();
    double seconds = 0;
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        passed = 0;
        npb_clock_start();
        for (int iteration = 1; iteration <= (rehearsal ? 1 : ITERATIONS); iteration++) {
            iterate(iteration);
            npb_iteration_done();
        }
        seconds = npb_clock_stop();
    }
    passed += in_order();
    MPI_Allreduce(MPI_IN_PLACE, &passed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    return npb_finish((struct outcome){
        .class = class,
        .size = {total},
        .iterations = ITERATIONS,
        .seconds = seconds,
        .mops = ITERATIONS * (double)total * 1e-6,
        .verified = passed == TESTS * ITERATIONS + processes,
    });
}
