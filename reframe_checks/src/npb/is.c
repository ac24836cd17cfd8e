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
};

static int class, buckets, bucket_shift;
static long total, mine;            /* keys */
static int *keys, *sorted, *received; /* as made; by bucket; those of my buckets that others had */
static const int *own; /* those of my buckets that I had, where they are in `sorted` */
static long own_count, capacity; /* the latter of `received` */
/* how often each of my values occurs, then how many are not larger */
static int *counts;
static long count_capacity;
static int *local_sizes, *sizes; /* of buckets; TESTS more for the tested keys */
static int *place; /* where the next key of a bucket goes */
static int *send_counts, *send_starts, *receive_counts, *receive_starts;
/* what is mine after the exchange; `below` keys are smaller */
static long first_value, values, below;
static long held; /* keys in `received` */
static int passed;

/* Keys pile up in the middle values, and only whole buckets move: half as much again is room
 * enough. */
static double bytes(int c)
{
    return 4 * ((2 + 1.5) * ldexp(1, CLASS[c].keys) / processes + ldexp(1, CLASS[c].values));
}

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

static void grow(int **array, long *has, long needs)
{
    if (needs <= *has) return;
    free(*array);
    *has = needs + needs / 64;
    *array = npb_allocate((size_t)*has, sizeof **array);
}

/* Each process takes buckets until all that were taken make its share and its predecessors'. */
static void share_buckets(void)
{
    long seen = 0, before = 0;
    int bucket = 0;
    for (int p = 0; p < processes; p++) {
        const int first = bucket;
        send_counts[p] = 0;
        for (; bucket < buckets && (seen < total / processes * (p + 1) || p == processes - 1);
             bucket++) {
            seen += sizes[bucket];
            send_counts[p] += local_sizes[bucket];
        }
        send_starts[p] = p ? send_starts[p - 1] + send_counts[p - 1] : 0;
        if (p == rank) {
            first_value = (long)first << bucket_shift;
            values = (long)(bucket - first) << bucket_shift;
            below = before;
        }
        before = seen;
    }
}

static void exchange(void)
{
    own = sorted + send_starts[rank]; /* nobody copies what stays */
    own_count = send_counts[rank];
    send_counts[rank] = 0;
    MPI_Alltoall(send_counts, 1, MPI_INT, receive_counts, 1, MPI_INT, MPI_COMM_WORLD);
    held = 0;
    for (int p = 0; p < processes; p++) {
        receive_starts[p] = (int)held;
        held += receive_counts[p];
    }
    grow(&received, &capacity, held + own_count);
    MPI_Alltoallv(sorted, send_counts, send_starts, MPI_INT, received, receive_counts,
                  receive_starts, MPI_INT, MPI_COMM_WORLD);
    npb_payload += (double)(mine - own_count) * sizeof *sorted;
}

/* counts[v - first_value] becomes how many of all keys are at most v, but those on lower processes.
 */
static void rank_keys(void)
{
    grow(&counts, &count_capacity, values);
    memset(counts, 0, (size_t)values * sizeof *counts);
    int *const count = counts - first_value;
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
        passed += smaller == CLASS[class].rank[t] + CLASS[class].step[t] * iteration;
    }
}

static void iterate(int iteration)
{
    if (rank == 0) {
        keys[iteration] = iteration;
        keys[iteration + ITERATIONS] = (1 << CLASS[class].values) - iteration;
    }
    memset(local_sizes, 0, (size_t)(buckets + TESTS) * sizeof *local_sizes);
    for (int t = 0; t < TESTS; t++) {
        const long at = CLASS[class].place[t] - mine * rank;
        if (at >= 0 && at < mine) local_sizes[buckets + t] = keys[at];
    }
    for (long i = 0; i < mine; i++) local_sizes[keys[i] >> bucket_shift]++;
    MPI_Allreduce(local_sizes, sizes, buckets + TESTS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int b = 0, start = 0; b < buckets; start += local_sizes[b++]) place[b] = start;
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
    if (own_count) memcpy(received + held, own, (size_t)own_count * sizeof *own);
    held += own_count;
    long wrong = held > 2 * mine; /* never: see bytes() */
    int *const out = keys; /* and `sorted`, which follow each other and are done with */
    if (wrong) held = 0;
    for (long i = 0; i < held; i++) out[--counts[received[i] - first_value]] = received[i];
    for (long i = 1; i < held; i++) wrong += out[i - 1] > out[i];
    /* A process without keys passes on what it got. */
    int last = -1;
    if (rank > 0) MPI_Recv(&last, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (held > 0) {
        wrong += last > out[0];
        last = out[held - 1];
    }
    if (rank < processes - 1) MPI_Send(&last, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    return wrong == 0;
}

int main(int argc, char **argv)
{
    static const struct kernel IS = {"IS", "keys ranked", bytes};
    class = npb_start(argc, argv, &IS);
    total = 1L << CLASS[class].keys;
    mine = total / processes;
    buckets = 1 << CLASS[class].buckets;
    bucket_shift = CLASS[class].values - CLASS[class].buckets;
    npb_title("Size:  %ld  (class %c)\n Iterations:   %d", total, CLASS_NAMES[class], ITERATIONS);
    keys = npb_allocate((size_t)(2 * mine), sizeof *keys);
    sorted = keys + mine;
    int **const small[] = {&local_sizes, &sizes,          &place,         &send_counts,
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
