/*
 * Runs a command with small pages only, or asks for large ones wherever it
 * allocates: `small` withdraws transparent huge pages from it (prctl, kept by
 * children), `large` has the C library advise them for malloc (glibc 2.35).
 * Whether it got them is for the kernel's counters to say (provenance.sh).
 *
 * C11 and Linux.  Build: gcc -std=c11 -O2 pages.c -o pages
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "program.h"

static const char TUNABLE[] = "glibc.malloc.hugetlb=1",
                  MODE[] = "/sys/kernel/mm/transparent_hugepage/enabled";

#define FAIL(...) \
    (fputs("pages: ", stderr), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(USAGE_ERROR))

static void ask_for_large(void)
{
    char mode[64] = "", value[1024];
    FILE *file = fopen(MODE, "r");
    if (!file || !fgets(mode, sizeof mode, file))
        FAIL("this kernel has no transparent huge pages (%s cannot be read).", MODE);
    fclose(file);
    if (strstr(mode, "[never]"))
        FAIL("%s says never: an administrator has to write madvise or always there.", MODE);
    const char *others = getenv("GLIBC_TUNABLES");
    const int length = snprintf(value, sizeof value, "%s%s%s", others ? others : "",
                                others && *others ? ":" : "", TUNABLE);
    if (length >= (int)sizeof value || setenv("GLIBC_TUNABLES", value, 1) != 0)
        FAIL("GLIBC_TUNABLES has no room for %s.", TUNABLE);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "large") == 0) ask_for_large();
    else if (argc > 2 && strcmp(argv[1], "small") == 0) {
        if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) != 0)
            FAIL("this kernel cannot withdraw huge pages from a program (Linux 3.15 can).");
    } else FAIL("usage: pages small|large COMMAND [ARGUMENT ...]");
    execvp(argv[2], argv + 2);
    perror("pages");
    fprintf(stderr, "pages: %s cannot be run.\n", argv[2]);
    return 127;
}
