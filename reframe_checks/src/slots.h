/* Ranks that measure in slots of time. What is not done by the end of a slot has failed, so that a
 * rank that hangs costs its own slots alone. */
#ifndef NEARMETAL_SLOTS_H
#define NEARMETAL_SLOTS_H
#include <math.h>
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "options.h"
#include "program.h"

enum { MAX_BATCHES = 1000, ROUND_TRIPS = 10, START_SECONDS = 60 };

/* Seconds that the ranks wait for each other before the first slot and after the last one. */
static const double PATIENCE = 20;

static int rank, ranks, tag;
static double deadline;
/* When this rank last ran, and the longest time since 'runs' or a sleep in which it did not. */
static double last_run, longest_pause;

static inline void runs(double now)
{
    if (now - last_run > longest_pause) longest_pause = now - last_run;
    last_run = now;
}

/* Whether the requests are done before the deadline. What is not done is given up: its tag is not
 * used again, so that a late message meets nothing. */
static inline int done(int count, MPI_Request *requests)
{
    int all = 0;
    do {
        MPI_Testall(count, requests, &all, MPI_STATUSES_IGNORE);
        if (all) break;
        runs(MPI_Wtime());
    } while (last_run < deadline);
    return all;
}

static inline int sent(const void *bytes, int count, int other)
{
    MPI_Request request;
    MPI_Isend(bytes, count, MPI_BYTE, other, tag, MPI_COMM_WORLD, &request);
    return done(1, &request);
}

static inline int received(void *bytes, int count, int other)
{
    MPI_Request request;
    MPI_Irecv(bytes, count, MPI_BYTE, other, tag, MPI_COMM_WORLD, &request);
    if (done(1, &request)) return 1;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
    return 0;
}

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *values, long count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static inline void sleep_until(double when)
{
    const double left = when - MPI_Wtime();
    if (left <= 0) return;
    nanosleep(&(struct timespec){.tv_sec = (time_t)left, .tv_nsec = (long)(fmod(left, 1) * 1e9)},
              NULL);
    last_run = when;
    runs(MPI_Wtime());
}

/* Whether all ranks are here before the deadline. */
static inline int together(void)
{
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    return done(1, &request);
}

/* Until all ranks have started, nothing can be measured. */
static void not_started(int signal)
{
    static const char WHY[] =
        ": MPI has not started within 60 s: the program of another node hangs or does not start.\n";
    (void)signal;
    ssize_t written = write(STDERR_FILENO, program_name, strlen(program_name));
    if (written >= 0) written = write(STDERR_FILENO, WHY, sizeof WHY - 1);
    _exit(written < 0 ? STALLED + 1 : STALLED);
}

/* From here on, `all_started` must follow within START_SECONDS. */
static inline void expect_start(void)
{
    signal(SIGALRM, not_started);
    alarm(START_SECONDS);
}

static inline void all_started(void) { alarm(0); }

/* The ranks meet before the first slot; the program ends if one does not come. */
static inline void meet(void)
{
    deadline = MPI_Wtime() + PATIENCE;
    if (together()) return;
    complain("a rank does not answer within %g s after all have started.", PATIENCE);
    _exit(STALLED);
}

static void end(int signal)
{
    (void)signal;
    _exit(0);
}

/* Whether all ranks are here after the last slot. What they printed is out. */
static inline int meet_again(void)
{
    fflush(stdout);
    deadline = MPI_Wtime() + PATIENCE;
    return together();
}

/* Where a rank hangs, the program ends here: all that is known is printed. What follows may hang
 * too, and has as long. The first rank, which prints the last line, ends before the others: Open
 * MPI ends a rank when another one ends without MPI_Finalize. */
static inline void part(int all_are_here)
{
    fflush(stdout);
    if (!all_are_here && rank > 0) sleep(2);
    if (!all_are_here) _exit(0);
    signal(SIGALRM, end);
    alarm((unsigned)PATIENCE);
}

/* Messages of pairs that were given up: with them MPI_Finalize fails, or waits for ever. */
static inline void take_the_rest(void *buffer, int bytes)
{
    int more;
    do {
        MPI_Status status;
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &more, &status);
        if (more)
            MPI_Recv(buffer, bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    } while (more);
}
#endif
