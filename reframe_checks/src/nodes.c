/*
 * What each node can do by itself, of all nodes in one job: memory bandwidth (STREAM's triad; J. D.
 * McCalpin, IEEE TCCA Newsletter, December 1995), floating-point rate (products of small matrices),
 * noise (fixed work quanta; P. Beckman et al., IEEE Cluster 2006), messages within the node, and
 * memory latency (a chain of dependent loads). Two ranks or more on each node, with a thread on
 * each CPU.
 *
 * A node has a turn of time, which begins for all nodes of the turn at once. What is not done in it
 * has failed. So a node that hangs costs only its own values, and the time of a sweep is known
 * before it. Between turns, ranks sleep.
 *
 * C11, POSIX threads and MPI only.  See --help for the options.
 * Build: mpi -O3 -pthread
 */
#define _GNU_SOURCE /* what mpi_program.h needs, pthread_setaffinity_np */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_program.h"
#include "options.h"
#include "slots.h"

enum { CPU_LIMIT = 1 << 16, SIDE = 32, TAGS = 30000, LINE = 64, CHASED = 4, QUANTUM_STEPS = 800 };
enum { MEMORY, PROCESSOR, NOISE, MEMORY_LATENCY, SHARED_MEMORY, METRICS };
static const char *const NAMES[METRICS] = {"memory", "processor", "noise", "memory_latency",
                                           "shared_memory"};

static struct {
    double seconds;
    long repeats, at_once, megabytes;
} method = {.seconds = 10, .repeats = 1, .megabytes = 16};

/* The part of a turn that each metric has, and the part of it that is measured. The rest is for
 * ranks that do not begin at the very same time, and for the first messages. */
static const double PART = 0.18, MEASURED = 0.8;
/* Seconds from the last meeting to the first turn: the ranks are asleep by then. */
static const double REST = 0.2;

static const char HELP[] =
    "Usage: <launcher> -n 2N --ntasks-per-node=2 nodes [options]\n"
    "Memory bandwidth, floating-point rate, noise, messages within a node and memory latency of N "
    "nodes.\n"
    "\n"
    "  --seconds S     time of a node's turn (default 10)\n"
    "  --repeats N     times that each node is measured (default 1)\n"
    "  --at-once K     nodes in a turn (default 0: all)\n"
    "  --megabytes M   each of a CPU's three arrays; the chain of loads has four times as much "
    "(default 16)\n"
    "  --help          this text\n"
    "\n"
    "Bind no process (srun --cpu-bind=none): a node's ranks divide its CPUs.\n"
    "A line `node N REPEAT METRIC VALUE` tells of node N, the host of the Nth host's first rank:\n"
    "memory and processor in GB/s and Gflop/s of all CPUs, noise in percent of the time that the\n"
    "worst CPU lost, shared_memory in us (half round trip of 1 B), memory_latency in ns.\n"
    "`node N REPEAT METRIC failed WHY` tells of a value that was not measured in time.\n"
    "Exit status: 0 done, 2 bad usage, 4 the ranks did not all start.\n";

static const struct number OPTIONS[] = {
    {"seconds", 0.5, 1e6, NULL, &method.seconds},
    {"repeats", 1, 1000, &method.repeats, NULL},
    {"at-once", 0, 1e6, &method.at_once, NULL},
    {"megabytes", 1, 4096, &method.megabytes, NULL},
    {0},
};

struct worker { /* a thread of one CPU */
    pthread_t thread;
    int cpu, wrong;
    double *a, *b, *c, value;
};

static struct worker *workers;
static int worker_count;
static pthread_barrier_t together_here;
static double window; /* seconds of a measurement */

static MPI_Comm here; /* the ranks of this node */
static int local, locals, *mates;
static long node, node_count, doubles, chain_lines;
static void **chain;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void bind_to_cpu(int cpu)
{
    cpu_set_t *const set = CPU_ALLOC(CPU_LIMIT);
    CPU_ZERO_S(CPU_ALLOC_SIZE(CPU_LIMIT), set);
    CPU_SET_S((size_t)cpu, CPU_ALLOC_SIZE(CPU_LIMIT), set);
    if (pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(CPU_LIMIT), set) != 0)
        complain("CPU %d refuses this program although the kernel lists it as allowed.", cpu);
    CPU_FREE(set);
}

/* The compiler must take memory as read and written here. */
#define TOUCHED(pointer) __asm__ volatile("" : : "r"(pointer) : "memory")

static void *touch(void *argument)
{
    struct worker *const own = argument;
    bind_to_cpu(own->cpu);
    for (long i = 0; i < doubles; i++) {
        own->a[i] = 0;
        own->b[i] = 1;
        own->c[i] = 2;
    }
    return NULL;
}

/* GB/s of a thread. */
static void *stream(void *argument)
{
    struct worker *const own = argument;
    double *restrict const a = own->a;
    const double *restrict const b = own->b, *restrict const c = own->c;
    bind_to_cpu(own->cpu);
    pthread_barrier_wait(&together_here);
    const double begin = now();
    double elapsed;
    long passes = 0;
    do {
        for (long i = 0; i < doubles; i++) a[i] = b[i] + 3 * c[i];
        TOUCHED(a);
        passes++;
        elapsed = now() - begin;
    } while (elapsed < window);
    own->wrong = a[0] != 7 || a[doubles / 2] != 7 || a[doubles - 1] != 7;
    own->value = 1e-9 * (double)passes * 3 * sizeof *a * (double)doubles / elapsed;
    return NULL;
}

static double left_of(int i, int k) { return (i + 3 * k) % 7 - 3; }

static double right_of(int k, int j) { return (2 * k + j) % 5 - 2; }

/* Four by four products at a time stay in registers. */
__attribute__((noinline)) static void multiply(double a[restrict SIDE][SIDE],
                                               double b[restrict SIDE][SIDE],
                                               double c[restrict SIDE][SIDE])
{
    for (int i = 0; i < SIDE; i += 4)
        for (int j = 0; j < SIDE; j += 4) {
            double sum[4][4] = {0};
            for (int k = 0; k < SIDE; k++)
                for (int row = 0; row < 4; row++)
                    for (int column = 0; column < 4; column++)
                        sum[row][column] += a[i + row][k] * b[k][j + column];
            for (int row = 0; row < 4; row++) memcpy(&c[i + row][j], sum[row], sizeof sum[row]);
        }
    TOUCHED(c);
}

/* Gflop/s of a thread. The numbers are whole, so that the product is exact. */
static void *compute(void *argument)
{
    struct worker *const own = argument;
    double a[SIDE][SIDE], b[SIDE][SIDE], c[SIDE][SIDE];
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            a[i][j] = left_of(i, j);
            b[i][j] = right_of(i, j);
        }
    bind_to_cpu(own->cpu);
    pthread_barrier_wait(&together_here);
    const double begin = now();
    double elapsed;
    long products = 0;
    do {
        for (int i = 0; i < 20; i++) multiply(a, b, c);
        products += 20;
        elapsed = now() - begin;
    } while (elapsed < window);
    own->wrong = 0;
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double sum = 0;
            for (int k = 0; k < SIDE; k++) sum += left_of(i, k) * right_of(k, j);
            own->wrong |= c[i][j] != sum;
        }
    own->value = 1e-9 * (double)products * 2 * SIDE * SIDE * SIDE / elapsed;
    return NULL;
}

/* Each step waits for the one before it, and no compiler can leave it out. */
static double quantum(void)
{
    const double begin = now();
    uint64_t state = 1;
    for (int i = 0; i < QUANTUM_STEPS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(state));
    }
    return now() - begin;
}

/* Percent of the time in detours: in what quanta of more than twice the shortest one take longer.
 * The first tenth of the time shows the shortest. */
static void *lose(void *argument)
{
    struct worker *const own = argument;
    double shortest = 1e9, lost = 0, elapsed, last;
    bind_to_cpu(own->cpu);
    pthread_barrier_wait(&together_here);
    for (const double begin = now(); now() - begin < window / 10;) {
        const double took = quantum();
        if (took < shortest) shortest = took;
    }
    const double begin = last = now();
    do {
        quantum();
        const double end = now(), took = end - last;
        last = end;
        if (took < shortest) shortest = took;
        if (took > 2 * shortest) lost += took - shortest;
        elapsed = end - begin;
    } while (elapsed < 0.9 * window);
    own->value = 100 * lost / elapsed;
    own->wrong = 0;
    return NULL;
}

/* Values of the threads of this rank, summed or their maximum; NaN: a result is wrong. */
static double on_all_cpus(void *(*work)(void *), int sum)
{
    double value = 0;
    pthread_barrier_init(&together_here, NULL, (unsigned)worker_count);
    for (int i = 0; i < worker_count; i++)
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "nodes: no thread could be started for CPU %d.\n", workers[i].cpu);
            MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
        }
    for (int i = 0; i < worker_count; i++) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < worker_count; i++) {
        if (workers[i].wrong) return NAN;
        if (sum) value += workers[i].value;
        else if (workers[i].value > value) value = workers[i].value;
    }
    pthread_barrier_destroy(&together_here);
    return value;
}

/* ns of a load that waits for the one before it: the median of batches. */
static double chase(void)
{
    double batch[MAX_BATCHES];
    void **at = chain;
    const double begin = now();
    long n = 0;
    for (; n < MAX_BATCHES; n++) {
        const double start = now();
        if (n > 2 && start - begin > window) break;
        for (int i = 0; i < 2000; i++) at = *at;
        TOUCHED(at);
        batch[n] = (now() - start) * 1e9 / 2000;
    }
    return median(batch, n);
}

/* Half round trip of 1 B in us, which the first of two ranks measures: the median of batches, the
 * first of which is not used where there are others. A batch is one round trip where something else
 * has the CPUs. NaN: not one was done in time. */
static double half_round_trip(int other)
{
    double batch[MAX_BATCHES];
    int last = 0;
    long n = 0, trips = 1;
    const double begin = now();
    while (!last) {
        const double start = now();
        last = n == MAX_BATCHES - 1 || (n > 0 && start - begin > window);
        for (long i = 0; i < trips; i++) {
            const unsigned char ends = last && i == trips - 1;
            unsigned char echo;
            if (sent(&ends, 1, other) && received(&echo, 1, other)) continue;
            return n > 0 ? median(batch + (n > 1), n - (n > 1)) : NAN;
        }
        batch[n] = (now() - start) * 1e6 / 2 / (double)trips;
        trips = batch[n++] < 100 ? ROUND_TRIPS : 1;
    }
    return median(batch + (n > 1), n - (n > 1));
}

/* Answers the first rank until it says that a message is the last. */
static void answer(int other)
{
    unsigned char last = 0;
    while (!last)
        if (!received(&last, 1, other) || !sent(&last, 1, other)) return;
}

/* A random cycle through all lines of the chain (S. Sattolo, An algorithm to generate a random
 * cyclic permutation, Information Processing Letters 22, 1986). */
static void link_chain(void)
{
    uint64_t state = 1;
    const size_t stride = LINE / sizeof *chain;
    for (long i = 0; i < chain_lines; i++) chain[(size_t)i * stride] = chain + (size_t)i * stride;
    for (long i = chain_lines - 1; i > 0; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const size_t j = (size_t)((state >> 20) % (uint64_t)i) * stride, k = (size_t)i * stride;
        void *const other = chain[k];
        chain[k] = chain[j];
        chain[j] = other;
    }
}

/* The allowed CPUs of this rank in `list`, CPU_LIMIT of them at most. */
static int allowed_cpus(int *list)
{
    int count = 0;
    cpu_set_t *const set = CPU_ALLOC(CPU_LIMIT);
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(CPU_LIMIT), set) == 0)
        for (int cpu = 0; cpu < CPU_LIMIT; cpu++)
            if (CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE(CPU_LIMIT), set)) list[count++] = cpu;
    CPU_FREE(set);
    return count;
}

/* A thread for each CPU: of CPUs that the node's ranks have in common, each takes its part. */
static void take_cpus(void)
{
    int *const list = malloc(CPU_LIMIT * sizeof *list), count = allowed_cpus(list), first = 0;
    const int mine[2] = {count, count ? list[0] : 0};
    int (*const all)[2] = malloc((size_t)locals * sizeof *all), common = 1;
    MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, here);
    for (int i = 0; i < locals; i++) common &= !memcmp(all[i], mine, sizeof mine);
    if (common && count >= locals) {
        first = count * local / locals;
        count = count * (local + 1) / locals - first;
    } else if (common && count) {
        first = local % count;
        count = 1;
    }
    workers = calloc((size_t)count, sizeof *workers);
    worker_count = count;
    for (int i = 0; i < count; i++) workers[i].cpu = list[first + i];
    if (count) bind_to_cpu(workers[0].cpu);
    free(all);
    free(list);
}

/* Whether there is memory for the arrays of all CPUs and for the chain. */
static int allocate(void)
{
    doubles = method.megabytes * (1 << 20) / (long)sizeof(double);
    chain_lines = CHASED * method.megabytes * (1 << 20) / LINE;
    const size_t bytes = (size_t)doubles * sizeof(double);
    for (int i = 0; i < worker_count; i++) {
        double *const arrays = malloc(3 * bytes);
        if (!arrays) return 0;
        workers[i].a = arrays;
        workers[i].b = arrays + doubles;
        workers[i].c = arrays + 2 * doubles;
    }
    if (local > 0) return 1;
    chain = malloc((size_t)chain_lines * LINE);
    return chain != NULL;
}

/* Numbers of the nodes, and the ranks of this one. Every rank must be here. */
static void find_node(void)
{
    MPI_Comm leaders;
    int own;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &local);
    MPI_Comm_size(here, &locals);
    mates = malloc((size_t)locals * sizeof *mates);
    MPI_Allgather(&rank, 1, MPI_INT, mates, 1, MPI_INT, here);
    MPI_Comm_split(MPI_COMM_WORLD, local == 0 ? 0 : MPI_UNDEFINED, rank, &leaders);
    long told[2] = {0};
    if (local == 0) {
        MPI_Comm_rank(leaders, &own);
        told[0] = own;
        MPI_Comm_size(leaders, &own);
        told[1] = own;
        MPI_Comm_free(&leaders);
    }
    MPI_Bcast(told, 2, MPI_LONG, 0, here);
    node = told[0];
    node_count = told[1];
}

static void say_failed(long repeat, int metric, const char *why)
{
    printf("node %ld %ld %s failed %s\n", node, repeat, NAMES[metric], why);
}

/* Measures this rank's part of a node, from `begin` on. */
static void measure(double begin, double values[METRICS])
{
    const double length = PART * method.seconds;
    for (int metric = 0; metric < METRICS; metric++) {
        sleep_until(begin + length * (metric + (1 - MEASURED) / 2));
        if (metric == MEMORY) values[metric] = on_all_cpus(stream, 1);
        if (metric == PROCESSOR) values[metric] = on_all_cpus(compute, 1);
        if (metric == NOISE) values[metric] = on_all_cpus(lose, 0);
        if (metric == MEMORY_LATENCY && local == 0) values[metric] = chase();
        deadline = begin + method.seconds;
        if (metric == SHARED_MEMORY && local == 0) values[metric] = half_round_trip(mates[1]);
        if (metric == SHARED_MEMORY && local == 1) answer(mates[0]);
    }
}

/* Prints what the ranks of this node measured together; the first one prints. */
static void collect(double (*values)[METRICS])
{
    const int bytes = (int)((size_t)method.repeats * sizeof *values);
    double (*const others)[METRICS] = malloc((size_t)bytes);
    int answers = others != NULL;
    deadline = MPI_Wtime() + PATIENCE;
    tag = TAGS;
    if (local > 0) answers &= sent(values, bytes, mates[0]);
    for (int mate = 1; local == 0 && answers && mate < locals; mate++) {
        answers &= received(others, bytes, mates[mate]);
        for (long repeat = 0; answers && repeat < method.repeats; repeat++) {
            double *const own = values[repeat], *const other = others[repeat];
            own[MEMORY] += other[MEMORY];
            own[PROCESSOR] += other[PROCESSOR];
            if (other[NOISE] > own[NOISE]) own[NOISE] = other[NOISE];
        }
    }
    for (long repeat = 0; local == 0 && repeat < method.repeats; repeat++)
        for (int metric = 0; metric < METRICS; metric++) {
            const double value = values[repeat][metric];
            if (!answers) say_failed(repeat, metric, "a rank of the node does not answer");
            else if (isnan(value) && metric == SHARED_MEMORY)
                say_failed(repeat, metric, "not done in time");
            else if (isnan(value)) say_failed(repeat, metric, "a wrong result");
            else printf("node %ld %ld %s %.6g\n", node, repeat, NAMES[metric], value);
        }
    fflush(stdout);
    free(others);
}

/* The sweep. It ends with the last turn: a rank that ends earlier would end those of others. */
static void sweep(void)
{
    const long at_once = method.at_once > 0 ? method.at_once : node_count;
    const long turns = (node_count + at_once - 1) / at_once;
    const double begin = MPI_Wtime() + REST;
    double (*const values)[METRICS] = calloc((size_t)method.repeats, sizeof *values);
    if (!values) MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    window = MEASURED * PART * method.seconds;
    for (long repeat = 0; repeat < method.repeats; repeat++) {
        tag = (int)(repeat % TAGS);
        measure(begin + method.seconds * (double)(repeat * turns + node / at_once), values[repeat]);
    }
    sleep_until(begin + method.seconds * (double)(method.repeats * turns));
    collect(values);
    free(values);
}

int main(int argc, char **argv)
{
    static unsigned char rest[1 << 16];
    program_name = "nodes";
    expect_start();
    rank = start_mpi(&argc, &argv, 1, &ranks);
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, OPTIONS), least = 0, can = 1, all_can;
    find_node();
    MPI_Allreduce(&locals, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!status && least < 2)
        status = complain(
            "a node has one rank, but messages within a node need 2; launch two on "
            "each (srun --ntasks-per-node=2).");
    if (status) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    print_program("nodes 1");
    take_cpus();
    can = worker_count > 0 && allocate();
    if (!can)
        fprintf(stderr,
                "nodes: rank %d has no CPU, or no memory for %ld MB of %d threads; lower "
                "--megabytes.\n",
                rank, 3 * method.megabytes, worker_count);
    MPI_Allreduce(&can, &all_can, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (!all_can) {
        MPI_Finalize();
        return USAGE_ERROR;
    }
    on_all_cpus(touch, 1);
    if (local == 0) link_chain();
    if (rank == 0) {
        printf("# nearmetal method: seconds=%g repeats=%ld at_once=%ld megabytes=%ld nodes=%ld\n",
               method.seconds, method.repeats, method.at_once, method.megabytes, node_count);
        fflush(stdout);
    }
    all_started();
    meet();
    sweep();
    const int all_are_here = meet_again();
    if (rank == 0) puts("# nearmetal complete");
    part(all_are_here);
    take_the_rest(rest, sizeof rest);
    MPI_Finalize();
    return 0;
}
