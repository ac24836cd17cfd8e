// SPDX-License-Identifier: BSD-3-Clause
/* The counterpart in C of ../java/mpjtest/Copies.java: `copies same` or `copies fresh`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 22, ROUNDS = 25 };
static const int SIZES[] = {1, 1024, 4096, 16384, 65536, 262144, 1 << 20, MOST};

static int by_time(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int other = 1 - rank, fresh = argc > 1 && !strcmp(argv[1], "fresh");
    char *const sent = malloc(MOST), *const received = malloc(MOST);
    memset(sent, 1, MOST);
    memset(received, 2, MOST);
    if (rank == 0) printf("C, %s:", fresh ? "fresh" : "same");
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        const int bytes = SIZES[s], few = 30000000 / (bytes + 10000);
        const int trips = few > 2000 ? 2000 : few < 5 ? 5 : few;
        double us[ROUNDS];
        for (int round = 0; round < ROUNDS; round++) {
            MPI_Barrier(MPI_COMM_WORLD);
            const double start = MPI_Wtime();
            for (int i = 0; i < trips; i++) {
                if (fresh) memset(sent, i, (size_t)bytes);
                if (rank == 0) MPI_Send(sent, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
                MPI_Recv(received, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                if (rank == 1) MPI_Send(sent, bytes, MPI_BYTE, other, 1, MPI_COMM_WORLD);
            }
            us[round] = (MPI_Wtime() - start) * 1e6 / 2 / trips;
        }
        qsort(us, ROUNDS, sizeof *us, by_time);
        if (rank == 0) printf(" %d=%.2f", bytes, us[ROUNDS / 2]);
    }
    if (rank == 0) puts("");
    free(sent);
    free(received);
    return MPI_Finalize();
}
