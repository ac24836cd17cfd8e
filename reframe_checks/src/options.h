/* Options of our programs: each takes a number, and whatever else stands there is answered in one
 * sentence. */
#ifndef NEARMETAL_OPTIONS_H
#define NEARMETAL_OPTIONS_H
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "program.h"

enum { MAX_NUMBERS = 8 };

struct number { /* `--name N`, from low to high, a whole one into `count`, any into `value` */
    const char *name;
    double low, high;
    long *count;
    double *value;
};

static const char *program_name;
static int speaks = 1; /* of many ranks one: all saying the same is noise */

/* Returns USAGE_ERROR, which it mostly stands for. */
static inline int complain(const char *format, ...)
{
    if (speaks) {
        va_list arguments;
        va_start(arguments, format);
        fprintf(stderr, "%s: ", program_name);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
        va_end(arguments);
    }
    return USAGE_ERROR;
}

/* 0: go on; HELP_GIVEN or USAGE_ERROR: stop. `numbers` ends with one without name. */
static inline int parse_numbers(int argc, char **argv, const char *help,
                                const struct number *numbers)
{
    struct option options[MAX_NUMBERS + 2] = {0};
    int last = 0, option;
    for (; numbers[last].name; last++)
        options[last] = (struct option){numbers[last].name, 1, NULL, last};
    options[last] = (struct option){"help", 0, NULL, 'h'};
    opterr = 0; /* getopt would print from all ranks */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        if (option == 'h') {
            if (speaks) fputs(help, stdout);
            return HELP_GIVEN;
        }
        /* of a word that goes on, getopt is not past it */
        if (option == '?' && optopt && strncmp(argv[optind - 1], "--", 2))
            return complain("'-%c' is no option of this program; see --help.", optopt);
        if (option == ':' || option == '?')
            return complain(option == ':' ? "%s needs a value; see --help."
                                          : "'%s' is no option of this program; see --help.",
                            argv[optind - 1]);
        const struct number n = numbers[option];
        char *end;
        const double value = strtod(optarg, &end);
        const int fits = end != optarg && *end == '\0' && value >= n.low && value <= n.high;
        if (!fits || (n.count && value != (double)(long)value))
            return complain("--%s takes a %snumber from %.12g to %.12g, not '%s'.", n.name,
                            n.count ? "whole " : "", n.low, n.high, optarg);
        if (n.count) *n.count = (long)value;
        else *n.value = value;
    }
    return optind == argc ? 0
                          : complain("'%s' is not expected: there are only options; see --help.",
                                     argv[optind]);
}
#endif
