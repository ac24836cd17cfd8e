/* What every program of ours says and how it fails. */
#ifndef NEARMETAL_PROGRAM_H
#define NEARMETAL_PROGRAM_H
#include <stdlib.h>
#include <string.h>

#ifndef NEARMETAL_CFLAGS
#define NEARMETAL_CFLAGS "(flags not recorded: build with -DNEARMETAL_CFLAGS)"
#endif
#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "gcc " __VERSION__
#endif

/* Exit statuses; a launch that ends with none of them was ended by a signal or by MPI. */
enum { HELP_GIVEN = 1, USAGE_ERROR = 2, WRONG_RESULT = 3, STALLED = 4 };

#endif
