/*
 * How far two processors are apart: prints the time in ns in which they hand over a cache line,
 * NUMBER times, twice a second.
 *
 * Both are busy in between, as in a job of MPI: a host may let idle virtual processors stay, and
 * move busy ones.
 *
 * Usage: distance FIRST SECOND NUMBER
 *
 * Build: cc -O2 -pthread distance.c -o distance
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The least of some batches counts: in the others something else ran. */
enum { BATCHES = 20, ROUND_TRIPS = 1000 };
static const double PERIOD_NS = 5e8;

static _Alignas(128) atomic_int turn;
enum { ASKED, ANSWERED };

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void run_on(int processor)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (pthread_setaffinity_np(pthread_self(), sizeof one, &one)) {
        fprintf(stderr, "distance: this process may not run on processor %d\n", processor);
        exit(2);
    }
}

static void hand_over(int to) { atomic_store_explicit(&turn, to, memory_order_release); }

static void wait_for(int mine)
{
    while (atomic_load_explicit(&turn, memory_order_acquire) != mine);
}

static void *answer(void *processor)
{
    run_on(*(int *)processor);
    for (;;) {
        wait_for(ASKED);
        hand_over(ANSWERED);
    }
    return NULL;
}

static double distance(void)
{
    double least = 0;
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = now();
        for (int i = 0; i < ROUND_TRIPS; i++) {
            hand_over(ASKED);
            wait_for(ANSWERED);
        }
        const double each = (now() - start) / (2 * ROUND_TRIPS);
        if (!batch || each < least) least = each;
    }
    return least;
}

int main(int count, char **words)
{
    if (count != 4) {
        fprintf(stderr, "usage: distance FIRST SECOND NUMBER\n");
        return 2;
    }
    int second = atoi(words[2]);
    pthread_t other;
    run_on(atoi(words[1]));
    atomic_store(&turn, ANSWERED);
    if (pthread_create(&other, NULL, answer, &second)) return 1;
    for (int left = atoi(words[3]); left > 0; left--) {
        const double next = now() + PERIOD_NS;
        printf("%.0f\n", distance());
        fflush(stdout);
        while (now() < next);
    }
    return 0;
}
