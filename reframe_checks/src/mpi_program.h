/* What every MPI program of ours says of where it runs and with what. */
#ifndef NEARMETAL_MPI_PROGRAM_H
#define NEARMETAL_MPI_PROGRAM_H
#ifndef _GNU_SOURCE
#error "define _GNU_SOURCE before the first include: sched_getcpu, CPU_ALLOC"
#endif
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "program.h"
#include "usage.h"

/* Before anything is sent: in Open MPI 5.0 a rank crashes that is still within MPI_Init when the
 * first message of another reaches it (open-mpi/ompi#12495, #13559). No clock runs yet. */
static inline void rest_after_init(int ranks)
{
    if (ranks > 1) nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

/* MPI starts, as one that calls it on its first thread alone, and rests. Returns the rank. */
static inline int start_mpi(int *argc, char ***argv, int threads, int *ranks)
{
    int rank, provided;
    if (threads) MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    else MPI_Init(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, ranks);
    rest_after_init(*ranks);
    return rank;
}

struct place { /* where a rank runs */
    char host[256]; /* the kernel's name of it: that of the library may lack its domain */
    int cpu, allowed_cpus; /* -1: the kernel did not say */
};

static struct place this_place(void)
{
    struct place place = {.cpu = sched_getcpu(), .allowed_cpus = -1};
    gethostname(place.host, sizeof place.host - 1);
    const int limit = 1 << 16; /* a fixed cpu_set_t is refused above 1024 CPUs */
    cpu_set_t *set = CPU_ALLOC(limit);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(limit), set) == 0)
        place.allowed_cpus = CPU_COUNT_S(CPU_ALLOC_SIZE(limit), set);
    CPU_FREE(set);
    return place;
}

/* Collective; rank 0 prints. `program` is a name and the version of its format. */
static void print_program(const char *program)
{
    int rank, ranks, length;
    begin_usage();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    struct place mine = this_place(), *const all = calloc((size_t)ranks, sizeof *all);
    if (!all) MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    MPI_Gather(&mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        char library[MPI_MAX_LIBRARY_VERSION_STRING];
        MPI_Get_library_version(library, &length);
        library[strcspn(library, "\r\n")] = '\0'; /* MPICH goes on for a page */
        for (char *c = library; *c; c++)
            if (*c == '\t') *c = ' ';
        printf(
            "# nearmetal program: %s\n# nearmetal mpi_library: %s\n# nearmetal compiler: %s %s\n",
            program, library, COMPILER, NEARMETAL_CFLAGS);
        for (int r = 0; r < ranks; r++)
            printf("# nearmetal rank %d: host=%s cpu=%d allowed_cpus=%d\n", r, all[r].host,
                   all[r].cpu, all[r].allowed_cpus);
    }
    free(all);
}
#endif
