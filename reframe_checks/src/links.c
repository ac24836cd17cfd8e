/*
 * Start-up latency and bandwidth of the links between nodes, each way: one rank on each node.
 *
 * The pairs come from the circle method of round-robin tournaments: N - 1 rounds of N / 2 disjoint
 * pairs. A round has a slot of time that begins for all ranks at once, and so has each pair with
 * --alone. A pair that is not done by the end of its slot has failed. So a node that hangs costs
 * only its own pairs, and the time of a sweep is known before it.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_program.h"
#include "options.h"
#include "payload.h"
#include "slots.h"

enum { MESSAGES = 4, TAGS = 32000 };

static struct {
    double seconds;
    long repeats, rounds, alone, bytes;
} method = {.seconds = 60, .repeats = 3, .bytes = 1 << 18};

/* Least length of a slot, and the parts of it for the latency and for the bandwidth of one way. The
 * rest is for the first messages of a pair, which connect it, and for the last batches. */
static const double LEAST_SLOT = 0.01, LATENCY_PART = 0.2, BANDWIDTH_PART = 0.2;

static const char HELP[] =
    "Usage: <launcher> -n N links [options]\n"
    "Latency and bandwidth each way between N ranks, one on each node.\n"
    "\n"
    "  --seconds S   time of the whole sweep (default 60)\n"
    "  --repeats N   times that each pair is measured (default 3)\n"
    "  --rounds K    measure K of the N - 1 rounds, so that each node is in K pairs (default 0: "
    "all)\n"
    "  --alone 1     one pair after the other (default 0: all pairs of a round at the same time)\n"
    "  --bytes B     length of a message for the bandwidth (default 262144)\n"
    "  --help        this text\n"
    "\n"
    "A line `link A B REPEAT LATENCY_US GBPS GBPS_BACK` tells of ranks A and B, and\n"
    "`link A B REPEAT failed WHY` of a pair that was not done in time.\n"
    "Exit status: 0 done, 2 bad usage, 4 the ranks did not all start.\n";

static const struct number OPTIONS[] = {
    {"seconds", 0.01, 1e6, NULL, &method.seconds}, {"repeats", 1, 1000, &method.repeats, NULL},
    {"rounds", 0, 1e6, &method.rounds, NULL},      {"alone", 0, 1, &method.alone, NULL},
    {"bytes", 64, 1 << 28, &method.bytes, NULL},   {0},
};

static unsigned char *send_buffer[MESSAGES], *receive_buffer[MESSAGES];

/* Half round trip in us: the median of batches, the first of which is not used where there are
 * others. NaN: not done in time. The first rank of a pair says in each message whether it is the
 * last. */
static double latency(int other, double seconds)
{
    double batch[MAX_BATCHES];
    const double begin = MPI_Wtime();
    unsigned char last = 0;
    for (long n = 0;; n++) {
        const double start = MPI_Wtime();
        if (rank < other) last = n == MAX_BATCHES - 1 || (n > 0 && start - begin > seconds);
        for (int i = 0; i < ROUND_TRIPS; i++) {
            if (rank < other && !sent(&last, 1, other)) return NAN;
            if (!received(&last, 1, other)) return NAN;
            if (rank > other && !sent(&last, 1, other)) return NAN;
        }
        batch[n] = (MPI_Wtime() - start) * 1e6 / 2 / ROUND_TRIPS;
        if (last) return median(batch + (n > 0), n > 0 ? n : 1);
    }
}

/* What a message of a rank holds after its first byte. */
static const unsigned char *contents(int sender, int message)
{
    return pattern((long)sender * MESSAGES + message);
}

/* Gb/s from this rank: the median of batches, the first of which is not used where there are
 * others. 0: the other rank received something else. NaN: not done in time. */
static double send_batches(int other, double seconds)
{
    double batch[MAX_BATCHES];
    const double begin = MPI_Wtime();
    for (long n = 0;; n++) {
        const double start = MPI_Wtime();
        const int last = n == MAX_BATCHES - 1 || (n > 0 && start - begin > seconds);
        unsigned char answer;
        MPI_Request requests[MESSAGES];
        for (int m = 0; m < MESSAGES; m++) {
            send_buffer[m][0] = (unsigned char)last;
            MPI_Isend(send_buffer[m], (int)method.bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD,
                      &requests[m]);
        }
        if (!done(MESSAGES, requests) || !received(&answer, 1, other)) return NAN;
        batch[n] = 8e-9 * MESSAGES * (double)method.bytes / (MPI_Wtime() - start);
        if (!last) continue;
        if (!received(&answer, 1, other)) return NAN;
        return answer ? median(batch + (n > 0), n > 0 ? n : 1) : 0;
    }
}

static unsigned char *buffer_of_a_message(void)
{
    unsigned char *buffer = malloc((size_t)method.bytes);
    if (!buffer) {
        complain("rank %d has no memory for messages; lower --bytes.", rank);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    memset(buffer, 1, (size_t)method.bytes); /* touched: no page fault while timed */
    return buffer;
}

/* Gives up a receive. A message that was on its way cannot be cancelled: it is written when it
 * comes, into what the next link would compare. So its buffer is never used again. */
static void give_up(MPI_Request *request, unsigned char **buffer)
{
    int over;
    if (*request == MPI_REQUEST_NULL) return;
    MPI_Cancel(request);
    MPI_Test(request, &over, MPI_STATUS_IGNORE);
    if (over) return;
    MPI_Request_free(request);
    *buffer = buffer_of_a_message();
}

/* Whether the batches of the other rank came in time. The receives of a batch are posted before the
 * answer to the one before. */
static int receive_batches(int other)
{
    for (;;) {
        MPI_Request requests[MESSAGES];
        for (int m = 0; m < MESSAGES; m++)
            MPI_Irecv(receive_buffer[m], (int)method.bytes, MPI_BYTE, other, tag, MPI_COMM_WORLD,
                      &requests[m]);
        if (!done(MESSAGES, requests)) {
            for (int m = 0; m < MESSAGES; m++) give_up(&requests[m], &receive_buffer[m]);
            return 0;
        }
        const int last = receive_buffer[0][0];
        unsigned char right = 1;
        if (!sent(&right, 1, other)) return 0;
        if (!last) continue;
        for (int m = 0; m < MESSAGES; m++)
            right &= !memcmp(receive_buffer[m] + 1, contents(other, m), (size_t)method.bytes - 1);
        return sent(&right, 1, other);
    }
}

static void say_failed(int other, long repeat, const char *why)
{
    const int first = rank < other ? rank : other, second = rank < other ? other : rank;
    printf("link %d %d %ld failed %s\n", first, second, repeat, why);
    fflush(stdout);
}

/* Measures a link within its slot. */
static void measure(int other, long repeat, double slot)
{
    unsigned char hello = 0;
    double there = NAN, back = NAN;
    if (!(rank < other ? sent(&hello, 1, other) && received(&hello, 1, other)
                       : received(&hello, 1, other) && sent(&hello, 1, other))) {
        say_failed(other, repeat, "no answer");
        return;
    }
    const double us = latency(other, LATENCY_PART * slot);
    if (isnan(us)) {
        say_failed(other, repeat, "latency not done in time");
    } else if (rank < other) {
        there = send_batches(other, BANDWIDTH_PART * slot);
        if (isnan(there) || !receive_batches(other) || !received(&back, sizeof back, other)) {
            say_failed(other, repeat, "bandwidth not done in time");
        } else if (there == 0 || back == 0) {
            say_failed(other, repeat, "a message arrived changed");
        } else {
            printf("link %d %d %ld %.4f %.5g %.5g\n", rank, other, repeat, us, there, back);
            fflush(stdout);
        }
    } else {
        if (receive_batches(other)) back = send_batches(other, BANDWIDTH_PART * slot);
        if (isnan(back) || !sent(&back, sizeof back, other))
            say_failed(other, repeat, "bandwidth not done in time");
    }
}

/* The partner in a round, and in `place` the pair's number in it; -1: the rank rests. The last of
 * an even number of players stands still, and the others turn. */
static int partner(long round, long players, long *place)
{
    const long turning = players - 1;
    const long ahead = ((rank - round) % turning + turning) % turning;
    long other;
    if (rank == players - 1) {
        other = round;
        *place = 0;
    } else if (ahead == 0) {
        other = players - 1;
        *place = 0;
    } else if (ahead < players / 2) {
        other = ((round - ahead) % turning + turning) % turning;
        *place = ahead;
    } else {
        *place = turning - ahead;
        other = (round + *place) % turning;
    }
    return other < ranks ? (int)other : -1;
}

static void allocate(void)
{
    if (!scramble(method.bytes)) {
        complain("rank %d has no memory for messages; lower --bytes.", rank);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    for (int m = 0; m < MESSAGES; m++) {
        send_buffer[m] = buffer_of_a_message();
        receive_buffer[m] = buffer_of_a_message();
        memcpy(send_buffer[m] + 1, contents(rank, m), (size_t)method.bytes - 1);
    }
}

/* The sweep. It ends with the last slot: a rank that ends earlier would end those of others. */
static void sweep(long players, long rounds, double slot)
{
    const long pairs = method.alone ? players / 2 : 1;
    const double begin = MPI_Wtime();
    for (long repeat = 0; repeat < method.repeats; repeat++)
        for (long r = 0; r < rounds; r++) {
            long place;
            const long round = r * (players - 1) / rounds;
            const int other = partner(round, players, &place);
            if (other < 0) continue;
            const long number = (repeat * rounds + r) * pairs + (method.alone ? place : 0);
            tag = (int)((repeat * rounds + r) % TAGS);
            deadline = begin + slot * (double)(number + 1);
            sleep_until(deadline - slot);
            measure(other, repeat, slot);
        }
    sleep_until(begin + slot * (double)(method.repeats * rounds * pairs));
}

int main(int argc, char **argv)
{
    program_name = "links";
    expect_start();
    rank = start_mpi(&argc, &argv, 0, &ranks);
    all_started();
    speaks = rank == 0;
    const long players = ranks + ranks % 2;
    int status = parse_numbers(argc, argv, HELP, OPTIONS);
    if (!status && ranks < 2)
        status =
            complain("links need at least 2 ranks, but 1 started; launch it with -n 2 or more.");
    const long rounds =
        method.rounds > 0 && method.rounds < players - 1 ? method.rounds : players - 1;
    const long slots = method.repeats * rounds * (method.alone ? players / 2 : 1);
    const double slot = method.seconds / (double)slots;
    if (!status && slot < LEAST_SLOT)
        status = complain(
            "%g s are too short for %ld slots of %g s; raise --seconds to %g, or lower --rounds.",
            method.seconds, slots, LEAST_SLOT, ceil((double)slots * LEAST_SLOT));
    if (status) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    allocate();
    print_program("links 1");
    if (rank == 0) {
        printf("# nearmetal method: seconds=%g repeats=%ld rounds=%ld alone=%ld bytes=%ld\n",
               method.seconds, method.repeats, rounds, method.alone, method.bytes);
        fflush(stdout);
    }
    meet();
    sweep(players, rounds, slot);
    if (rank == 0) puts("# nearmetal complete");
    part(meet_again());
    take_the_rest(receive_buffer[0], (int)method.bytes);
    MPI_Finalize();
    return 0;
}
