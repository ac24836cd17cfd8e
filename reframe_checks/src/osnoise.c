/*
 * What the operating system and the hypervisor take from a program that only
 * computes: fixed work quanta on every core at once, and of each how much
 * longer it took than the shortest (FWQ of the ASC Sequoia benchmarks; P.
 * Beckman et al., The Influence of Operating Systems on the Performance of
 * Collective Operations at Extreme Scale, IEEE Cluster 2006, for the words).
 * A quantum that takes more than twice the shortest holds a detour.
 *
 * C11, POSIX threads and Linux.  See --help for the options.
 * Build: serial -O2 -pthread
 */
#define _GNU_SOURCE /* pthread_setaffinity_np, CPU_ALLOC */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "options.h"

enum { CPU_LIMIT = 1 << 16, PARTS = 10, BINS = 32, WINDOW = 100000 };
static const double QUANTUM_NS = 1000;

static const char HELP[] =
    "Usage: osnoise [options]\n"
    "Computes on every allowed CPU at once, in quanta of one microsecond,\n"
    "and tells what interrupted it: how often, how long, and which share of the time.\n"
    "\n"
    "  --seconds S  how long (default 10, from 0.1 to 86400)\n"
    "  --help       this text\n"
    "\n"
    "Example: srun --cpu-bind=none --exclusive osnoise --seconds 60\n"
    "Exit status: 0 done, 2 bad usage or too little memory,\n"
    "3 the clock is too coarse or nothing could be measured.\n";

#define FAIL(status, ...) (complain(__VA_ARGS__), exit(status))

struct core {
    pthread_t thread;
    int cpu;
    uint64_t quanta, detours, shortest, longest; /* times in ns */
    double taken, elapsed, part[PARTS];          /* ns in detours; of each part the share */
    uint64_t bins[BINS];                         /* detours of at least 2^i ns */
    uint64_t *times;                             /* of the quanta of one window */
};

static double seconds = 10;
static long steps;          /* of a quantum */
static pthread_barrier_t together;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Each step waits for the one before it, and no compiler can leave it out. */
static void work(void)
{
    uint64_t state = 1;
    for (long i = 0; i < steps; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(state));
    }
}

static uint64_t shortest_of(int count)
{
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < count; i++) {
        const uint64_t start = now();
        work();
        const uint64_t took = now() - start;
        if (took < shortest) shortest = took;
    }
    return shortest;
}

/* Steps of a quantum, on this CPU with nobody beside us; the same on all of them. */
static void choose_steps(void)
{
    for (steps = 16; steps < 1L << 30; steps *= 2)
        if (shortest_of(1000) > QUANTUM_NS / 2) break;
    steps = (long)((double)steps * QUANTUM_NS / (double)shortest_of(10000)) + 1;
}

static void note(struct core *core, uint64_t detour)
{
    int bin = 0;
    while (bin < BINS - 1 && detour >> (bin + 1)) bin++;
    core->bins[bin]++;
    core->detours++;
    core->taken += (double)detour;
    if (detour > core->longest) core->longest = detour;
}

/* A window at a time: the loop only stores, and what it stored is looked at between two windows. */
static void *measure(void *argument)
{
    struct core *const core = argument;
    cpu_set_t *const set = CPU_ALLOC(CPU_LIMIT);
    CPU_ZERO_S(CPU_ALLOC_SIZE(CPU_LIMIT), set);
    CPU_SET_S((size_t)core->cpu, CPU_ALLOC_SIZE(CPU_LIMIT), set);
    if (pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(CPU_LIMIT), set) != 0)
        FAIL(USAGE_ERROR, "CPU %d refuses this program although the kernel lists it as allowed.",
             core->cpu);
    CPU_FREE(set);
    /* touched: no page fault inside a quantum */
    memset(core->times, 1, WINDOW * sizeof *core->times);
    pthread_barrier_wait(&together);
    core->shortest = shortest_of(20000);
    pthread_barrier_wait(&together);
    for (int part = 0; part < PARTS; part++) {
        const double taken = core->taken, elapsed = core->elapsed;
        const uint64_t end = now() + (uint64_t)(seconds * 1e9 / PARTS);
        for (uint64_t last = now(); last < end;) {
            const uint64_t begin = last = now();
            int count = 0;
            while (last < end && count < WINDOW) {
                work();
                const uint64_t t = now();
                core->times[count++] = t - last;
                last = t;
            }
            for (int i = 0; i < count; i++)
                if (core->times[i] < core->shortest) core->shortest = core->times[i];
            for (int i = 0; i < count; i++)
                if (core->times[i] > 2 * core->shortest)
                    note(core, core->times[i] - core->shortest);
            core->quanta += (uint64_t)count;
            core->elapsed += (double)(last - begin);
        }
        core->part[part] = (core->taken - taken) / (core->elapsed - elapsed);
    }
    return NULL;
}

static struct core *allowed_cores(int *count)
{
    cpu_set_t *const set = CPU_ALLOC(CPU_LIMIT);
    if (!set || sched_getaffinity(0, CPU_ALLOC_SIZE(CPU_LIMIT), set) != 0)
        FAIL(USAGE_ERROR, "the kernel does not say which CPUs are allowed.");
    *count = CPU_COUNT_S(CPU_ALLOC_SIZE(CPU_LIMIT), set);
    struct core *const cores = calloc((size_t)*count, sizeof *cores);
    if (!cores) FAIL(USAGE_ERROR, "there is too little memory for %d CPUs.", *count);
    for (int cpu = 0, n = 0; n < *count; cpu++)
        if (CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE(CPU_LIMIT), set)) cores[n++].cpu = cpu;
    CPU_FREE(set);
    return cores;
}

int main(int argc, char **argv)
{
    static const struct number options[] = {{"seconds", 0.1, 86400, NULL, &seconds}, {0}};
    program_name = "osnoise";
    const int status = parse_numbers(argc, argv, HELP, options);
    if (status != 0) return status == HELP_GIVEN ? 0 : status;
    int count;
    struct core *const cores = allowed_cores(&count);
    choose_steps();
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        if (!(cores[i].times = malloc(WINDOW * sizeof *cores[i].times)))
            FAIL(USAGE_ERROR, "there is too little memory for %d CPUs.", count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&cores[i].thread, NULL, measure, &cores[i]) != 0)
            FAIL(USAGE_ERROR, "no thread could be started for CPU %d.", cores[i].cpu);
    for (int i = 0; i < count; i++) pthread_join(cores[i].thread, NULL);
    printf(
        "# nearmetal program: osnoise 1\n# nearmetal compiler: %s %s\n# nearmetal method: "
        "seconds=%g steps=%ld cpus=%d\n",
        COMPILER, NEARMETAL_CFLAGS, seconds, steps, count);
    printf("%6s %12s %12s %12s %14s %12s\n", "#cpu", "quanta", "shortest[ns]", "detours",
           "longest[ns]", "lost[%]");
    uint64_t bins[BINS] = {0};
    for (int i = 0; i < count; i++) {
        const struct core *const c = &cores[i];
        if (c->shortest == 0 || c->quanta < 1000)
            FAIL(WRONG_RESULT,
                 "CPU %d did %llu quanta, the shortest in %llu ns: the clock is too coarse.",
                 c->cpu, (unsigned long long)c->quanta, (unsigned long long)c->shortest);
        printf("%6d %12llu %12llu %12llu %14llu %12.6f\n", c->cpu, (unsigned long long)c->quanta,
               (unsigned long long)c->shortest, (unsigned long long)c->detours,
               (unsigned long long)c->longest, 100 * c->taken / c->elapsed);
        for (int b = 0; b < BINS; b++) bins[b] += c->bins[b];
    }
    for (int b = 0; b < BINS; b++)
        if (bins[b])
            printf("# nearmetal detours: from_ns=%llu count=%llu\n", 1ull << b,
                   (unsigned long long)bins[b]);
    for (int part = 0; part < PARTS; part++) {
        double lost = 0;
        for (int i = 0; i < count; i++) lost += 100 * cores[i].part[part] / count;
        printf("%s%.9f", part ? "," : "# nearmetal parts: variable=share_lost percent=", lost);
    }
    puts("\n# nearmetal complete");
    return 0;
}
