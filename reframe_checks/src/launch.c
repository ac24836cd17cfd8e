/*
 * How long it takes until an MPI program can begin: from the moment that its launcher was called to
 * the return of MPI_Init on the first process, and what of that all processes spend within
 * MPI_Init.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <stdio.h>
#include <time.h>

#include "mpi_program.h"
#include "options.h"

static long expected;
static double asked;

static const char HELP[] =
    "Usage: <launcher> -n N launch --ranks N --since $(date +%s.%N)\n"
    "Seconds from then until MPI_Init has returned on the first process,\n"
    "and those within MPI_Init.\n"
    "\n"
    "  --ranks N        fail unless there are N processes, which know of each other\n"
    "  --since SECONDS  when the launcher was called, by the clock of the first process's node\n"
    "                   (seconds since 1970; without it only MPI_Init is timed)\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0 done, 2 bad usage or another number of processes.\n";

static const struct number OPTIONS[] = {
    {"ranks", 1, 1e7, &expected, NULL},
    {"since", 0, 1e11, NULL, &asked},
    {0},
};

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int argc, char **argv)
{
    program_name = "launch";
    const double began = now(CLOCK_MONOTONIC);
    MPI_Init(&argc, &argv);
    double inside = now(CLOCK_MONOTONIC) - began;
    const double ready = now(CLOCK_REALTIME);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    rest_after_init(ranks);
    speaks = rank == 0;
    int status = parse_numbers(argc, argv, HELP, OPTIONS);
    if (!status && expected && ranks != expected)
        status = complain(
            "%d process(es) instead of %ld know of each other: the launcher does not speak what "
            "this MPI library does (srun --mpi=..., SLURM_MPI_TYPE).",
            ranks, expected);
    if (!status && asked > ready)
        status =
            complain("--since %.6f is later than the start: is that clock another node's?", asked);
    if (!status) {
        print_program("launch 1");
        MPI_Allreduce(MPI_IN_PLACE, &inside, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (rank == 0) {
            printf("# nearmetal launch: processes=%d mpi_init_s=%.6f", ranks, inside);
            if (asked > 0) printf(" since_asked_s=%.6f", ready - asked);
            printf("\n# nearmetal complete\n");
        }
    }
    MPI_Finalize();
    return status == HELP_GIVEN ? 0 : status;
}
