/*
 * MPI half round trip between two ranks, by the method of the PingPong of the
 * Intel MPI Benchmarks (IMB), and in IMB's table format, so that one parser
 * reads both.  What it adds: every size's payload is verified, the batches
 * that a launch is timed in are given, and the facts that decide a latency (library,
 * hosts, CPUs) stand in the output as lines `# nearmetal <key>: <value>`.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <math.h>
#include <stdio.h>

#include "exchange.h"
#include "mpi_program.h"

enum { MAX_BATCHES = 10, MAX_SIZES = 31, TAG = 1 };

static struct {
    long warmup, iterations, min_iterations, volume, max_bytes, stall_timeout, rehearsals;
    double max_time;
} method = {100, 1000, 5, 40L << 20, 4L << 20, 60, 0, 10.0};

struct result { /* of one message size; times are half round trips in us */
    long bytes, iterations;
    int batches;
    double mean, batch[MAX_BATCHES];
};

static int rank;
static unsigned char *send_buffer, *receive_buffer;
/* as IMB and most libraries: in Open MPI the world's own messages are some percent quicker */
static MPI_Comm pair;

static const char HELP[] =
    "Usage: <launcher> -n 2 pingpong [options]\n"
    "Half round trip time and bandwidth between two MPI ranks, 1 B to 4 MiB in powers of two.\n"
    "\n"
    "  --warmup N          round trips before the clock starts, per size (default 100);\n"
    "                      cut short at a tenth of --max-time\n"
    "  --iterations N      timed round trips per size (default 1000)\n"
    "  --volume BYTES      at most BYTES/size of them, so that long messages take fewer\n"
    "                      (default 41943040, as IMB's overall volume)\n"
    "  --max-time SECONDS  aim to stay below this per size (default 10, as IMB's -time)\n"
    "  --min-iterations N  but never go below N round trips (default 5)\n"
    "  --max-bytes BYTES   longest message (default 4194304, at most 1073741824)\n"
    "  --rehearsals N      send the longest message and then all sizes before the first size is\n"
    "                      timed, N times, as the program in Java does (default 0)\n"
    "  --stall-timeout S   give up on the start of MPI after S seconds, and on a phase of a\n"
    "                      size after S more than --max-time: the other rank hangs (default 60)\n"
    "  --help              this text\n"
    "\n"
    "Example: mpirun -n 2 pingpong --max-bytes 1024 --iterations 10000\n"
    "Exit status: 0 done, 2 bad usage, 3 a payload arrived corrupted or no time could be taken,\n"
    "4 the other rank does not answer.\n";

static const struct number OPTIONS[] = {
    {"warmup", 0, 1e9, &method.warmup, NULL},
    {"iterations", 1, 1e9, &method.iterations, NULL},
    {"min-iterations", 1, 1e9, &method.min_iterations, NULL},
    {"volume", 1, 1e15, &method.volume, NULL},
    {"max-bytes", 1, 1 << 30 /* an MPI count is an int */, &method.max_bytes, NULL},
    {"stall-timeout", 1, 1e6, &method.stall_timeout, NULL},
    {"rehearsals", 0, 1000, &method.rehearsals, NULL},
    {"max-time", 0.001, 1e6, NULL, &method.max_time},
    {0},
};

static void expect_progress(long size)
{
    expect_answer(rank, 1 - rank, size, method.stall_timeout, method.max_time);
}

static void round_trips(long count, long size)
{
    const int n = (int)size, other = 1 - rank;
    for (long i = 0; i < count; i++) {
        if (rank == 0) MPI_Send(send_buffer, n, MPI_BYTE, other, TAG, pair);
        MPI_Recv(receive_buffer, n, MPI_BYTE, other, TAG, pair, MPI_STATUS_IGNORE);
        if (rank == 1) MPI_Send(send_buffer, n, MPI_BYTE, other, TAG, pair);
    }
}

/* One round trip, each direction with a pattern of its own. */
static void verified_round_trip(long size)
{
    prepare(send_buffer, rank, receive_buffer, 1 - rank, size);
    round_trips(1, size);
    leave_if(changed(receive_buffer, rank, 1 - rank, size));
}

/* Rank 0 decides how often, rank 1 has to know: always outside the timed loop. */
static long agree(long count)
{
    MPI_Bcast(&count, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    return count;
}

/* Warm-up in chunks that double, until enough are done or a tenth of the time
 * budget is spent.  Returns rank 0's estimate of a round trip in seconds, from
 * the last chunk: the warmest, and half of the sample.  At least one round
 * trip is made even with --warmup 0, or there would be no estimate. */
static double warm_up(long size)
{
    const long wanted = method.warmup > 0 ? method.warmup : 1;
    double spent = 0, estimate = 0;
    long done = 0, chunk = 1;
    for (;;) {
        long next = wanted - done < chunk ? wanted - done : chunk;
        if (spent > method.max_time / 10) next = 0;
        next = agree(next);
        if (next == 0) return estimate;
        const double start = MPI_Wtime();
        round_trips(next, size);
        const double elapsed = MPI_Wtime() - start;
        spent += elapsed;
        estimate = elapsed / (double)next;
        done += next;
        chunk *= 2;
    }
}

/* Before the first size: one-byte round trips until the last chunks agree, so
 * that connections are made, clocks are up, and two ranks that the kernel
 * started on one core have been moved apart.  Returns the seconds it took, or
 * -1 when the limit came first; that is printed, not hidden. */
static double settle(void)
{
    enum { WINDOW = 8 };
    const double least = 0.3, chunk_time = 0.01, agreement = 1.5;
    const double limit = fmax(least, fmin(3.0, 10 * method.max_time));
    double recent[WINDOW] = {0}, best = 0;
    const double begin = MPI_Wtime();
    long chunk = 1;
    for (long n = 0;; n++) {
        const double spent = MPI_Wtime() - begin;
        int steady = n >= WINDOW && spent > least;
        for (int i = 0; i < WINDOW; i++) steady = steady && recent[i] < best * agreement;
        const long next = agree(steady || spent > limit ? 0 : chunk);
        if (next == 0) return steady ? spent : -1;
        const double start = MPI_Wtime();
        round_trips(next, 1);
        const double round_trip = (MPI_Wtime() - start) / (double)next;
        recent[n % WINDOW] = round_trip;
        if (best == 0 || round_trip < best) best = round_trip;
        chunk = round_trip > 0 ? (long)(chunk_time / round_trip) + 1 : chunk * 2;
    }
}

/* Long messages change the state of a connection: over TCP, those of 4 to 32 KiB then take longer.
 * A program that has to send them before the clock starts is compared with one that does, too. */
static void rehearse(void)
{
    for (long size = method.max_bytes; size > 0; size /= 2) {
        expect_progress(size);
        warm_up(size);
    }
}

static long choose_iterations(long size, double round_trip)
{
    long count = method.iterations;
    if (count > method.volume / size) count = method.volume / size;
    if ((double)count * round_trip > method.max_time) count = (long)(method.max_time / round_trip);
    if (count < method.min_iterations) count = method.min_iterations;
    return count < method.iterations ? count : method.iterations;
}

/* The iterations are one uninterrupted loop; rank 0 reads the clock only
 * between batches, so that they cost at most eleven clock calls. */
static struct result measure(long size)
{
    struct result result = {.bytes = size};
    expect_progress(size);
    verified_round_trip(size);
    const double estimate = warm_up(size);
    result.iterations = agree(choose_iterations(size, estimate));
    result.batches = result.iterations < MAX_BATCHES ? (int)result.iterations : MAX_BATCHES;
    double clock[MAX_BATCHES + 1];
    expect_progress(size);
    MPI_Barrier(MPI_COMM_WORLD); /* twice, as IMB: the first may still be */
    MPI_Barrier(MPI_COMM_WORLD); /* absorbing the skew of the decision above */
    clock[0] = MPI_Wtime();
    for (int b = 0; b < result.batches; b++) {
        const long begin = result.iterations * b / result.batches;
        const long end = result.iterations * (b + 1) / result.batches;
        round_trips(end - begin, size);
        clock[b + 1] = MPI_Wtime();
        result.batch[b] = (double)(end - begin); /* turned into a time below */
    }
    for (int b = 0; b < result.batches; b++)
        result.batch[b] = (clock[b + 1] - clock[b]) * 1e6 / 2 / result.batch[b];
    result.mean = (clock[result.batches] - clock[0]) * 1e6 / 2 / (double)result.iterations;
    return result;
}

/* In the order of measurement: the launch's second level of samples. */
static void print_batches(struct result r)
{
    printf("# nearmetal batches: bytes=%ld us=", r.bytes);
    for (int b = 0; b < r.batches; b++) printf("%s%.4f", b ? "," : "", r.batch[b]);
    putchar('\n');
}

static void print_facts(double settled)
{
    print_program("pingpong 2"); /* 2 is the version of this format */
    if (rank != 0) return;
    printf(
        "# nearmetal method: warmup=%ld iterations=%ld min_iterations=%ld volume=%ld max_time=%g "
        "max_bytes=%ld",
        method.warmup, method.iterations, method.min_iterations, method.volume, method.max_time,
        method.max_bytes);
    if (method.rehearsals) printf(" rehearsals=%ld", method.rehearsals);
    putchar('\n');
    if (settled < 0)
        puts("# nearmetal settled: no, round trips still varied after the time allowed");
    else printf("# nearmetal settled: after %.2f s\n", settled);
    const char *rule = "#---------------------------------------------------";
    printf("%s\n# Benchmarking PingPong\n# #processes = 2\n%s\n", rule, rule);
    printf("%13s %12s %12s %12s\n", "#bytes", "#repetitions", "t[usec]", "Mbytes/sec");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int ranks, sizes = 0;
    program_name = "pingpong";
    expect_start(argc, argv, HELP, OPTIONS, &method.stall_timeout);
    rank = start_mpi(&argc, &argv, 0, &ranks);
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, OPTIONS);
    if (status == 0 && ranks != 2)
        status = complain(
            "a ping-pong needs exactly 2 ranks, but %d started; launch it with -n 2 "
            "(1 where 2 were asked for: the launcher is not this MPI's).",
            ranks);
    if (status != 0) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &pair);
    send_buffer = allocate((size_t)method.max_bytes, rank);
    receive_buffer = allocate((size_t)method.max_bytes, rank);
    for (long n = 0; n < method.rehearsals; n++) rehearse();
    expect_progress(0);
    const double settled = settle();
    print_facts(settled);
    struct result results[MAX_SIZES];
    for (long size = 1; size <= method.max_bytes; size *= 2) {
        const struct result r = results[sizes++] = measure(size);
        if (rank != 0) continue;
        if (!(r.mean > 0)) {
            complain("the clock stood still over %ld round trips of %ld bytes; raise --iterations.",
                     r.iterations, size);
            MPI_Abort(MPI_COMM_WORLD, WRONG_RESULT);
        }
        printf("%13ld %12ld %12.4f %12.2f\n", size, r.iterations, r.mean, (double)size / r.mean);
        fflush(stdout); /* the last line of a job that hangs tells how far it got */
    }
    if (rank == 0) {
        for (int s = 0; s < sizes; s++) print_batches(results[s]);
        printf("# nearmetal verified: sizes=%d\n# nearmetal complete\n", sizes);
    }
    MPI_Free_mem(send_buffer);
    MPI_Free_mem(receive_buffer);
    MPI_Comm_free(&pair);
    MPI_Finalize();
    return 0;
}
