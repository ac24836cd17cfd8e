/* What programs share whose ranks send messages to each other in pairs: a rank that hangs ends as a
 * sentence, what arrives changed is noticed, and buffers are as IMB has them. */
#ifndef NEARMETAL_EXCHANGE_H
#define NEARMETAL_EXCHANGE_H
#include <mpi.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "options.h"
#include "program.h"

/* A rank that hangs must end as a sentence and not as a job that sits out its
 * time limit.  Each phase of a size re-arms the alarm; the text is made ready
 * beforehand, because a signal handler may only write. */
static char stall_text[512];

static void stalled(int signal)
{
    (void)signal;
    const ssize_t written = write(STDERR_FILENO, stall_text, strlen(stall_text));
    _exit(written < 0 ? STALLED + 1 : STALLED);
}

/* The other rank may hang before both have started. The options are read before MPI is there to say
 * which rank speaks: only the limit is taken from them, and faults are found later. */
static inline void expect_start(int argc, char **argv, const char *help,
                                const struct number *numbers, const long *limit)
{
    speaks = 0;
    parse_numbers(argc, argv, help, numbers);
    optind = 0; /* getopt begins again */
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    snprintf(stall_text, sizeof stall_text,
             "%s: MPI has not started within %ld s on %s: another rank hangs or does not "
             "start, or the network between them lost a message.\n",
             program_name, *limit, host);
    signal(SIGALRM, stalled);
    alarm((unsigned)*limit);
}

/* An answer within the limit, and the seconds that the phase is to take. */
static inline void expect_answer(int rank, int other, long size, long limit, double seconds)
{
    snprintf(stall_text, sizeof stall_text,
             "%s: rank %d has had no answer from rank %d for %ld s at messages "
             "of %ld bytes: that rank hangs, or the network between them lost it.\n",
             program_name, rank, other, limit, size);
    alarm((unsigned)(limit + (long)seconds));
}

/* Scrambled, so that a shifted, repeated or stale stretch does not fit. */
static inline unsigned char pattern(long offset, long size, int sender)
{
    uint64_t mixed =
        ((uint64_t)offset + 1) * 0x9E3779B97F4A7C15u ^ (uint64_t)size * 0xC2B2AE3D27D4EB4Fu;
    return (unsigned char)((mixed + ((uint64_t)sender + 1) * 0x165667B19E3779F9u) >> 37);
}

/* The buffer to receive in first holds the complement of what is expected,
 * so that neither an earlier message nor a short one can pass for this one. */
static inline void prepare(unsigned char *sent, int rank, unsigned char *received, int other,
                           long size)
{
    for (long i = 0; i < size; i++) {
        sent[i] = pattern(i, size, rank);
        received[i] = (unsigned char)~pattern(i, size, other);
    }
}

/* Whether a message arrived changed, which this rank says. */
static inline int changed(const unsigned char *received, int rank, int other, long size)
{
    for (long i = 0; i < size; i++) {
        const unsigned expected = pattern(i, size, other);
        if (received[i] == expected) continue;
        fprintf(stderr,
                "%s: rank %d received a corrupted message of %ld bytes: at byte offset %ld "
                "expected 0x%02x, got 0x%02x.\n",
                program_name, rank, size, i, expected, received[i]);
        return 1;
    }
    return 0;
}

/* All ranks of the world leave together and in order: on MPI_Abort MPICH's launcher
 * at times drops what was printed, the sentence on the message included. */
static inline void leave_if(int wrong)
{
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (wrong) {
        MPI_Finalize();
        exit(WRONG_RESULT);
    }
}

/* Of calls that belong to no communicator: MPI 3 raises theirs on the world, MPI 4 on the process
 * itself. */
static inline void set_errors(MPI_Errhandler handler)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
}

static inline unsigned char *allocate(size_t bytes, int rank)
{
    /* as IMB: a page's boundary would be kinder to some transports than a program's memory is */
    void *memory = NULL;
    set_errors(MPI_ERRORS_RETURN);
    const int refused = MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory);
    set_errors(MPI_ERRORS_ARE_FATAL);
    if (refused != MPI_SUCCESS) {
        fprintf(stderr,
                "%s: rank %d has no memory for a message of %zu bytes; lower --max-bytes.\n",
                program_name, rank, bytes);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    return memset(memory, 0xA5, bytes); /* touched: no page fault inside a timed loop */
}
#endif
