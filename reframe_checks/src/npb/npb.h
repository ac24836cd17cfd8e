/*
 * What the kernels of the NAS Parallel Benchmarks share: the classes, the
 * random numbers, the refusal of what cannot run, and the table of results,
 * which stands in the format of the official programs (NPB 3.4, print_results)
 * so that one parser reads both.
 *
 * Specification: D. Bailey et al., The NAS Parallel Benchmarks, NASA Ames
 * RNR-94-007, as sizes and verification values stand in NPB 3.4.
 * Build: mpicc -std=c11 -O3 -DNEARMETAL_CFLAGS='"-O3"' cg.c -o cg -lm
 */
#ifndef NEARMETAL_NPB_H
#define NEARMETAL_NPB_H
#define _GNU_SOURCE /* what ../mpi_program.h needs */
#include <limits.h>
#include <math.h>
#include <mpi.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include "../mpi_program.h"

enum { CLASSES = 7, MAX_ITERATIONS = 100, MOST_PROCESSES = 1 << 16 };
static const char CLASS_NAMES[] = "SWABCDE";

static int rank, processes;

/* ---- random numbers: x' = a x mod 2^46, and x / 2^46 is uniform (report, 2.3) */

#define RANDOM_MASK (((uint64_t)1 << 46) - 1)
static const uint64_t RANDOM_A = 1220703125, RANDOM_SEED = 314159265;

static inline uint64_t random_step(uint64_t *x, uint64_t a) { return *x = *x * a & RANDOM_MASK; }

static inline double random_next(uint64_t *x)
{
    return (double)(int64_t)random_step(x, RANDOM_A) * 0x1p-46;
}

/* The state after `count` numbers. */
static inline uint64_t random_skip(uint64_t x, uint64_t count)
{
    for (uint64_t a = RANDOM_A; count; count >>= 1, a = a * a & RANDOM_MASK)
        if (count & 1) x = x * a & RANDOM_MASK;
    return x;
}

/* ---- what cannot run says so in one sentence, before it allocates anything */

struct kernel {
    const char *name;                       /* CG, ... */
    const char *operation;                  /* what the official table calls an operation */
    double (*bytes)(int class);             /* memory of this process */
    /* fewest and most processes of a class; NULL: 1 and MOST_PROCESSES */
    long (*fewest)(int class), (*most)(int class);
};

static const struct kernel *npb_kernel;

/* From rank 0 only; every rank leaves. */
static _Noreturn void npb_refuse(const char *format, ...)
{
    if (rank == 0) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "npb %s: ", npb_kernel->name);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
    MPI_Finalize();
    exit(USAGE_ERROR);
}

static const char NPB_HELP[] =
    "Usage: <launcher> -n N %s CLASS\n"
    "The %s kernel of the NAS Parallel Benchmarks; CLASS is S, W, A, B, C, D or E (each some\n"
    "times larger than the one before), N a power of two up to %d.\n"
    "\n"
    "Example: mpirun -n 4 %s A\n"
    "Exit status: 0 verified, 2 bad usage or too little memory,\n"
    "3 the result is not the official one.\n";

/* What all processes of this node can have without swapping; 0: the kernel does not say. */
static double available_bytes(int on_node)
{
    char line[256];
    double kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file) &&
           sscanf(line, "MemAvailable: %lf", &kilobytes) != 1) {
    }
    if (file) fclose(file);
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return kilobytes * 1024;
    const double limited = (double)limit.rlim_cur * on_node;
    return kilobytes > 0 ? fmin(kilobytes * 1024, limited) : limited;
}

static void npb_check_memory(int class)
{
    MPI_Comm node;
    int on_node;
    double needed = npb_kernel->bytes(class), all, worst[2], mine[2];
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &on_node);
    MPI_Allreduce(&needed, &all, 1, MPI_DOUBLE, MPI_SUM, node);
    MPI_Comm_free(&node);
    const double available = available_bytes(on_node);
    mine[0] = available > 0 && all > available ? all : 0;
    mine[1] = mine[0] > 0 ? -available : -INFINITY;
    MPI_Allreduce(mine, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (worst[0] > 0)
        npb_refuse(
            "class %c on %d processes needs %.0f MB on a node that has %.0f MB left; take a "
            "smaller class or more nodes.",
            CLASS_NAMES[class], processes, worst[0] / 1e6, -worst[1] / 1e6);
}

/* Starts MPI; returns the class as an index into CLASS_NAMES. */
static int npb_start(int argc, char **argv, const struct kernel *kernel)
{
    npb_kernel = kernel;
    rank = start_mpi(&argc, &argv, 0, &processes);
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        if (rank == 0) printf(NPB_HELP, argv[0], kernel->name, MOST_PROCESSES, argv[0]);
        MPI_Finalize();
        exit(0);
    }
    const char *found = argc == 2 && strlen(argv[1]) == 1 ? strchr(CLASS_NAMES, argv[1][0]) : NULL;
    if (!found)
        npb_refuse("one class is expected, S, W, A, B, C, D or E, %s%s%s; see --help.",
                   argc == 2 ? "not '" : "and nothing else", argc == 2 ? argv[1] : "",
                   argc == 2 ? "'" : "");
    const int class = (int)(found - CLASS_NAMES);
    const long fewest = kernel->fewest ? kernel->fewest(class) : 1;
    const long bound = kernel->most ? kernel->most(class) : MOST_PROCESSES;
    const long most = bound < MOST_PROCESSES ? bound : MOST_PROCESSES;
    if (processes < fewest || processes > most || processes & (processes - 1))
        npb_refuse("class %c runs on %ld, %ld, %ld, ... processes up to %ld, not on %d.", *found,
                   fewest, 2 * fewest, 4 * fewest, most, processes);
    npb_check_memory(class);
    return class;
}

static inline void *npb_allocate(size_t count, size_t size)
{
    void *memory = NULL; /* on a page: vectors are aligned, and large ones can have huge pages */
    const size_t bytes = (count * size + 4095) / 4096 * 4096;
    if (posix_memalign(&memory, bytes >= 1 << 21 ? 1 << 21 : 4096, bytes) != 0) {
        fprintf(stderr,
                "npb %s: rank %d was refused %zu bytes of memory; take a smaller class or more "
                "nodes.\n",
                npb_kernel->name, rank, count * size);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    return memory;
}

/* ---- time: all start together, the slowest counts; rank 0 notes each iteration
 *
 * A kernel goes through its timed part twice, the first time (`rehearsal`) as briefly as it can and
 * for nothing: that touches the memory, makes the connections and brings in the pages of every
 * function that it calls.  From an image those come through a file system in user space, 2 ms for
 * the MPI library's: half of MG's time in class S. */

/* bytes that this process sent to others, for telling what carried them */
static double npb_payload;

static double npb_began, npb_noted[MAX_ITERATIONS + 1];
static int npb_notes;

static void npb_clock_start(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
    npb_notes = 0;
    npb_noted[0] = npb_began = MPI_Wtime();
}

static inline void npb_iteration_done(void) { npb_noted[++npb_notes] = MPI_Wtime(); }

/* Seconds of the slowest process, on all of them. */
static double npb_clock_stop(void)
{
    double mine = MPI_Wtime() - npb_began, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* ---- results */

struct outcome {
    int class, iterations, verified;
    long size[3];          /* unused ones are 0 */
    double seconds, mops;  /* operations in millions, by the official count */
};

/* Prints the table and ends MPI; returns the program's exit status. */
static int npb_finish(struct outcome o)
{
    double payload;
    MPI_Bcast(&o.verified, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Reduce(&npb_payload, &payload, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        char size[64];
        if (o.size[2])
            snprintf(size, sizeof size, "%4ldx%4ldx%4ld", o.size[0], o.size[1], o.size[2]);
        else snprintf(size, sizeof size, "%ld", o.size[0]);
        printf("\n\n %s Benchmark Completed.\n", npb_kernel->name);
        printf(" Class           = %24c\n", CLASS_NAMES[o.class]);
        printf(" Size            = %24s\n", size);
        printf(" Iterations      = %24d\n", o.iterations);
        printf(" Time in seconds = %24.2f\n", o.seconds);
        printf(" Total processes = %24d\n", processes);
        printf(" Active processes= %24d\n", processes);
        printf(" Mop/s total     = %24.2f\n", o.mops / o.seconds);
        printf(" Mop/s/process   = %24.2f\n", o.mops / o.seconds / processes);
        printf(" Operation type  = %24s\n", npb_kernel->operation);
        printf(" Verification    = %24s\n", o.verified ? "SUCCESSFUL" : "UNSUCCESSFUL");
        printf(" Version         = %24s\n\n", "3.4, by Nearmetal");
        printf("# nearmetal seconds: %.9f\n# nearmetal payload_bytes: %.0f\n", o.seconds, payload);
        for (int i = 0; i < npb_notes; i++)
            printf("%s%.9f", i ? "," : "# nearmetal iterations: kernel=all s=",
                   npb_noted[i + 1] - npb_noted[i]);
        puts(npb_notes ? "\n# nearmetal complete" : "# nearmetal complete");
        fflush(stdout);
        if (!o.verified)
            fprintf(stderr,
                    "npb %s: class %c did not give the official result: the machine, the "
                    "compiler's flags or the MPI "
                    "library computes wrongly.\n",
                    npb_kernel->name, CLASS_NAMES[o.class]);
    }
    MPI_Finalize();
    return o.verified ? 0 : WRONG_RESULT;
}

static void npb_title(const char *format, ...)
{
    print_program("npb 1");
    if (rank != 0) return;
    va_list arguments;
    va_start(arguments, format);
    printf("\n\n NAS Parallel Benchmarks 3.4, by Nearmetal -- %s Benchmark\n\n ", npb_kernel->name);
    vprintf(format, arguments);
    printf("\n Total number of processes: %d\n\n", processes);
    va_end(arguments);
    fflush(stdout);
}

/* Whether the two agree to `tolerance`, relative; false for what is no number. */
static inline int npb_agrees(double value, double official, double tolerance)
{
    return fabs((value - official) / official) <= tolerance;
}

static inline int log_2(long value)
{
    int log = 0;
    while (value >>= 1) log++;
    return log;
}
#endif
