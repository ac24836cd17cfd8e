/*
 * Alltoall, Allreduce, Bcast and Barrier over message size, by the method of
 * the Intel MPI Benchmarks (IMB-MPI1) and in IMB's table format, so that one
 * parser reads both.  Every call is timed on its own, with a barrier before;
 * t_max is the mean on the rank where it is longest.  What it adds: every size's result is
 * verified.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <mpi.h>
#include "mpi_program.h"
#include "options.h"

enum { WORD = sizeof(double), OPERATIONS = 4, RESIDUES = 1009 };
/* Most bytes of the messages to all ranks together, as IMB has it: half of its 1 GiB a process. */
static const long MOST_BYTES = 1L << 29;

static struct {
    long iterations, min_iterations, max_bytes;
    double max_time;
} method = {1000, 5, 1L << 20, 0.5};
static int rank, ranks;
static double *from, *to, sums[RESIDUES]; /* what all ranks send together, by i * 7 */

static const char HELP[] =
    "Usage: <launcher> -n N collectives [options]\n"
    "Time of MPI's Alltoall, Allreduce, Bcast and Barrier among N ranks,\n"
    "8 B to 1 MiB (to each rank, in Alltoall; there 512 MiB to all ranks at most).\n"
    "\n"
    "  --iterations N      timed calls per size (default 1000)\n"
    "  --max-time SECONDS  aim to stay below this per size (default 0.5)\n"
    "  --min-iterations N  but never go below N calls (default 5)\n"
    "  --max-bytes BYTES   longest message (default 1048576)\n"
    "  --help              this text\n"
    "\n"
    "Example: mpirun -n 16 collectives --max-bytes 65536\n"
    "Exit status: 0 done, 2 bad usage or too little memory,\n"
    "3 a result was wrong or no time could be taken.\n";

static const struct number OPTIONS[] = {
    {"iterations", 1, 1e9, &method.iterations, NULL},
    {"min-iterations", 1, 1e9, &method.min_iterations, NULL},
    {"max-bytes", WORD, 1 << 28, &method.max_bytes, NULL},
    {"max-time", 0.001, 1e6, NULL, &method.max_time},
    {0},
};

/* ---- the operations: `count` doubles to each rank, the root going round */

static void alltoall(int count, int root)
{
    (void)root;
    MPI_Alltoall(from, count, MPI_DOUBLE, to, count, MPI_DOUBLE, MPI_COMM_WORLD);
}

static void allreduce(int count, int root)
{
    (void)root;
    MPI_Allreduce(from, to, count, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(int count, int root)
{
    MPI_Bcast(rank == root ? from : to, count, MPI_DOUBLE, root, MPI_COMM_WORLD);
}

static void barrier(int count, int root)
{
    (void)count, (void)root;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What rank r sends at place i; small whole numbers, so that sums are exact. */
static double sent(int r, long i) { return (double)((i * 7 + r * 13L) % RESIDUES + 1); }

/* The longest message of an operation. */
static long longest(int operation)
{
    return operation == 0 && method.max_bytes > MOST_BYTES / ranks ? MOST_BYTES / ranks
                                                                   : method.max_bytes;
}

static double expected(int operation, int count, int root, long i)
{
    if (operation == 0) return sent((int)(i / count), (long)rank * count + i % count);
    if (operation == 2) return sent(root, i);
    return sums[i * 7 % RESIDUES];
}

static const struct {
    const char *name;
    void (*call)(int, int);
} OPERATION[OPERATIONS] = {
    {"Alltoall", alltoall},
    {"Allreduce", allreduce},
    {"Bcast", bcast},
    {"Barrier", barrier},
};

/* One call whose result is looked at; every rank leaves where it is wrong on any. */
static void verify(int operation, int count)
{
    const int root = ranks - 1;
    const long results = (long)count * (operation == 0 ? ranks : 1);
    for (long i = 0; i < results; i++) {
        from[i] = sent(rank, i);
        to[i] = -1;
    }
    OPERATION[operation].call(count, root);
    int wrong = 0;
    if (operation != 3 && !(operation == 2 && rank == root))
        for (long i = 0; i < results && !wrong; i++)
            wrong = to[i] != expected(operation, count, root, i);
    if (wrong)
        fprintf(stderr, "collectives: rank %d got a wrong result of %s with %ld bytes.\n", rank,
                OPERATION[operation].name, (long)count * WORD);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (wrong) {
        MPI_Finalize();
        exit(WRONG_RESULT);
    }
}

/* Seconds of a call on this rank, mean over so many. */
static double timed(int operation, int count, long calls)
{
    double spent = 0;
    for (long n = 0; n < calls; n++) {
        MPI_Barrier(MPI_COMM_WORLD);
        const double start = MPI_Wtime();
        OPERATION[operation].call(count, (int)(n % ranks));
        spent += MPI_Wtime() - start;
    }
    return spent / (double)calls;
}

static void measure(int operation, int count)
{
    verify(operation, count);
    timed(operation, count, 2);
    const double begin = MPI_Wtime();
    timed(operation, count, 5);
    /* The estimate includes the barrier. */
    double estimate = (MPI_Wtime() - begin) / 5, mean, least, sum, most;
    long calls = estimate > 0 ? (long)(method.max_time / estimate) : method.iterations;
    if (calls < method.min_iterations) calls = method.min_iterations;
    if (calls > method.iterations) calls = method.iterations;
    MPI_Bcast(&calls, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    mean = 1e6 * timed(operation, count, calls);
    MPI_Reduce(&mean, &least, 1, MPI_DOUBLE, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mean, &most, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    MPI_Reduce(&mean, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank != 0) return;
    if (!(least > 0)) {
        complain("the clock stood still over %ld calls of %s; raise --iterations.", calls,
                 OPERATION[operation].name);
        MPI_Abort(MPI_COMM_WORLD, WRONG_RESULT);
    }
    if (operation != 3) printf("%13ld ", (long)count * WORD);
    printf("%13ld %13.4f %13.4f %13.4f\n", calls, least, most, sum / ranks);
    fflush(stdout); /* the last line of a job that hangs tells how far it got */
}

static void head(int operation)
{
    if (rank != 0) return;
    const char *rule = "#----------------------------------------------------------------";
    printf("\n%s\n# Benchmarking %s\n# #processes = %d\n%s\n", rule, OPERATION[operation].name,
           ranks, rule);
    if (operation != 3) printf("%13s ", "#bytes");
    printf("%13s %13s %13s %13s\n", "#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]");
}

int main(int argc, char **argv)
{
    rank = start_mpi(&argc, &argv, 0, &ranks);
    program_name = "collectives";
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, OPTIONS);
    if (status == 0 && ranks < 2)
        status = complain(
            "collectives need at least 2 ranks, but 1 started (where more were asked for, the "
            "launcher is not this MPI's).");
    if (status != 0) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    const long to_all = longest(0) * ranks;
    const size_t words = (size_t)(to_all > method.max_bytes ? to_all : method.max_bytes) / WORD;
    from = malloc(words * sizeof *from);
    to = malloc(words * sizeof *to);
    if (!from || !to) {
        fprintf(stderr,
                "collectives: rank %d has no memory for two times %zu bytes; lower --max-bytes.\n",
                rank, words * WORD);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    for (int r = 0; r < ranks; r++)
        for (long i = 0; i < RESIDUES; i++) sums[i * 7 % RESIDUES] += sent(r, i);
    print_program("collectives 1");
    if (rank == 0)
        printf("# nearmetal method: iterations=%ld min_iterations=%ld max_time=%g max_bytes=%ld\n",
               method.iterations, method.min_iterations, method.max_time, method.max_bytes);
    for (int operation = 0; operation < OPERATIONS; operation++) {
        head(operation);
        for (long bytes = WORD; bytes <= longest(operation); bytes *= 2) {
            measure(operation, (int)(bytes / WORD));
            if (operation == 3) break; /* a barrier has no size */
        }
    }
    if (rank == 0) puts("\n# nearmetal complete");
    free(from);
    free(to);
    MPI_Finalize();
    return 0;
}
