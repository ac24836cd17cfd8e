/*
 * Rate of messages between pairs of MPI ranks, each with a rank on either of two nodes: the
 * question and the method of osu_mbw_mr (one direction) and of osu_bibw (both) of the OSU
 * Micro-Benchmarks, on 1, 2, 4, ... and all pairs.  What it adds: the payload of every size is
 * verified, idle ranks sleep, and the time is that of the slowest rank.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <math.h>
#include <stdio.h>

#include "exchange.h"
#include "mpi_program.h"

enum { FIRST = 8, FACTOR = 8, TAG = 1, ACK = 2, MOST = 1 << 28 };

/* Messages that are under way in a pair before an answer, and their bytes; windows at least. */
enum { WINDOW = 64, VOLUME = 8 << 20, FEWEST = 2 };

static struct {
    long max_bytes, stall_timeout;
    double max_time;
} method = {2L << 20, 60, 0.1};

/* This rank, the other one of its pair, the pair's number, and the side of the pair that it is. */
static int rank, ranks, other, pair, side;
static unsigned char *send_buffer, *receive_buffer;
static MPI_Request requests[2 * WINDOW];
static MPI_Status statuses[2 * WINDOW]; /* gcc warns of MPICH's MPI_STATUSES_IGNORE */
static MPI_Comm measured; /* the ranks of the pairs that send */
static double sent_bytes;

static const char HELP[] =
    "Usage: <launcher> -n N multi_pair [options]\n"
    "Aggregate rate of messages between the ranks of two nodes, in 1, 2, 4, ... and N/2 pairs,\n"
    "8 B to 2 MiB in powers of eight, in one direction and in both.\n"
    "\n"
    "  --max-time SECONDS  double the windows of a size until they take half of this (default "
    "0.1)\n"
    "  --max-bytes BYTES   longest message (default 2097152)\n"
    "  --stall-timeout S   give up on the start of MPI after S seconds, and on a phase after S\n"
    "                      more than --max-time: another rank hangs (default 60)\n"
    "  --help              this text\n"
    "\n"
    "Example: mpirun -n 16 multi_pair --max-bytes 65536\n"
    "Exit status: 0 done, 2 bad usage, 3 a payload arrived corrupted or no time could be taken,\n"
    "4 another rank does not answer.\n";

static const struct number OPTIONS[] = {
    {"max-bytes", FIRST, VOLUME, &method.max_bytes, NULL},
    {"stall-timeout", 1, 1e6, &method.stall_timeout, NULL},
    {"max-time", 0.001, 1e6, NULL, &method.max_time},
    {0},
};

static void expect_progress(long size)
{
    expect_answer(rank, other, size, method.stall_timeout, 2 * method.max_time);
}

/* Pairs the k-th rank of the first node with the k-th of the second one, wherever the launcher
 * placed them; ranks on one node by halves. Whether each rank has exactly one other. */
static int find_other(void)
{
    MPI_Comm node;
    int mine[2], members, partners = 0, *const all = malloc(2 * (size_t)ranks * sizeof *all);
    if (!all) MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &mine[1]);
    MPI_Comm_size(node, &members);
    mine[0] = rank;
    MPI_Bcast(mine, 1, MPI_INT, 0, node); /* its first rank stands for a node */
    MPI_Comm_free(&node);
    if (members == ranks && ranks > 1) {
        mine[0] = rank / (ranks / 2);
        mine[1] = rank % (ranks / 2);
    }
    MPI_Allgather(mine, 2, MPI_INT, all, 2, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < ranks; r++)
        if (all[2 * r] != mine[0] && all[2 * r + 1] == mine[1]) {
            other = r;
            partners++;
        }
    pair = mine[1];
    side = mine[0] != all[0];
    free(all);
    int even = partners == 1;
    MPI_Allreduce(MPI_IN_PLACE, &even, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return even;
}

static long window_of(long size) { return size * WINDOW > VOLUME ? VOLUME / size : WINDOW; }

/* Messages that are all under way at once, and the answer that all have arrived. */
static void exchange(long size, int directions)
{
    const long window = window_of(size);
    int count = 0;
    if (directions == 2 || side == 1)
        for (long m = 0; m < window; m++)
            MPI_Irecv(receive_buffer + m * size, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                      &requests[count++]);
    if (directions == 2 || side == 0) {
        for (long m = 0; m < window; m++)
            MPI_Isend(send_buffer, (int)size, MPI_BYTE, other, TAG, MPI_COMM_WORLD,
                      &requests[count++]);
        sent_bytes += (double)(window * size);
    }
    MPI_Waitall(count, requests, statuses);
    char answer = 0, theirs;
    MPI_Sendrecv(&answer, 1, MPI_CHAR, other, ACK, &theirs, 1, MPI_CHAR, other, ACK, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* Seconds of so many windows, on the slowest rank; the same number on all. */
static double timed(long size, int directions, long iterations)
{
    expect_progress(size);
    MPI_Barrier(measured);
    MPI_Barrier(measured); /* the first may still be absorbing skew */
    const double start = MPI_Wtime();
    for (long i = 0; i < iterations; i++) exchange(size, directions);
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, measured);
    return seconds;
}

/* Windows in both directions, before the first number of pairs. */
static void verify(long size)
{
    const long window = window_of(size);
    int wrong = 0;
    expect_progress(size);
    for (long m = 0; m < window; m++)
        prepare(send_buffer, rank, receive_buffer + m * size, other, size);
    exchange(size, 2);
    for (long m = 0; m < window && !wrong; m++)
        wrong = changed(receive_buffer + m * size, rank, other, size);
    leave_if(wrong);
}

static void measure(long size, int directions, int pairs)
{
    long iterations = FEWEST;
    double seconds;
    /* The first time that is long enough counts: those before it warm up. */
    while ((seconds = timed(size, directions, iterations)) < method.max_time / 2 &&
           iterations < MOST)
        iterations *= 2;
    if (rank != 0) return;
    if (!(seconds > 0)) {
        complain("the clock stood still over %ld windows of %ld bytes; raise --max-time.",
                 iterations, size);
        MPI_Abort(MPI_COMM_WORLD, WRONG_RESULT);
    }
    const double bits = 8.0 * (double)(size * window_of(size) * iterations) * pairs * directions;
    printf("%10ld %6d %10d %7ld %11ld %14.9f %14.6f\n", size, pairs, directions, window_of(size),
           iterations, seconds, bits / seconds / 1e9);
    fflush(stdout); /* the last line of a job that hangs tells how far it got */
}

/* Ranks that wait for others use no processor meanwhile. */
static void wait_asleep(void)
{
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static int measure_all(int pairs)
{
    int rows = 0;
    expect_progress(0);
    MPI_Comm_split(MPI_COMM_WORLD, pair < pairs ? 0 : MPI_UNDEFINED, rank, &measured);
    if (measured != MPI_COMM_NULL) {
        for (int directions = 1; directions <= 2; directions++)
            for (long size = FIRST; size <= method.max_bytes; size *= FACTOR, rows++)
                measure(size, directions, pairs);
        MPI_Comm_free(&measured);
        expect_progress(0);
    } else alarm(0); /* those that send tell of a rank that hangs */
    wait_asleep();
    return rows;
}

int main(int argc, char **argv)
{
    program_name = "multi_pair";
    expect_start(argc, argv, HELP, OPTIONS, &method.stall_timeout);
    rank = start_mpi(&argc, &argv, 0, &ranks);
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, OPTIONS), rows = 0;
    if (status == 0 && !find_other())
        status = complain(
            "pairs need as many ranks on each of two nodes, or an even number of "
            "ranks on one; %d ranks started otherwise.",
            ranks);
    if (status != 0) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    send_buffer = allocate((size_t)method.max_bytes, rank);
    receive_buffer = allocate(VOLUME, rank);
    print_program("multi_pair 1");
    if (rank == 0) {
        printf("# nearmetal method: max_time=%g max_bytes=%ld pairs=%d\n", method.max_time,
               method.max_bytes, ranks / 2);
        printf("%10s %6s %10s %7s %11s %14s %14s\n", "#bytes", "pairs", "directions", "window",
               "windows", "t[sec]", "Gbits/sec");
    }
    for (long size = FIRST; size <= method.max_bytes; size *= FACTOR) verify(size);
    for (int pairs = 1; pairs < ranks / 2; pairs *= 2) rows += measure_all(pairs);
    rows += measure_all(ranks / 2);
    double all = 0;
    MPI_Reduce(&sent_bytes, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf(
            "# nearmetal payload_bytes: %.0f\n# nearmetal verified: rows=%d\n"
            "# nearmetal complete\n",
            all, rows);
    MPI_Free_mem(send_buffer);
    MPI_Free_mem(receive_buffer);
    MPI_Finalize();
    return 0;
}
