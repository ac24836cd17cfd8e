/*
 * Sustainable memory bandwidth by the rules of STREAM (J. D. McCalpin,
 * https://www.cs.virginia.edu/stream/ref.html), for several thread counts in
 * one run, in STREAM's table format.  The rules kept: arrays at least four
 * times the last-level caches, best of --ntimes passes without the first,
 * MB = 10^6 bytes, 16/16/24/24 bytes counted an element, the result validated.
 *
 * C11, OpenMP and Linux.  See --help for the options.
 * Build: serial -O2 -fopenmp
 * -O3 is as good; never -ffast-math, which would let the validation be folded
 * away.  The pointers are deliberately not `restrict`: with it GCC turns Copy
 * into memcpy(), whose streaming stores skip the read that an ordinary store
 * causes, and Copy would no longer be comparable with the other three.
 */
#define _GNU_SOURCE /* sched_getcpu, sched_getaffinity, CPU_ALLOC */
#include <getopt.h>
#include <glob.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "usage.h"

enum {
    KERNELS = 4,
    MAX_TABLES = 64,
    CPU_LIMIT = 1 << 16,
    MAX_PASSES = 200 /* 15^260 leaves a double */
};
static const double SCALAR = 3.0, TOLERANCE = 1e-13;

struct binding {
    int cpu, allowed;
    char list[256];
};

static const char HELP[] =
    "Usage: stream [options]\n"
    "Memory bandwidth (Copy, Scale, Add, Triad) in MB/s, one table a thread count.\n"
    "\n"
    "  --threads LIST  thread counts, e.g. 1,2,4 (default: powers of two up to the\n"
    "                  CPUs allowed, and their exact number)\n"
    "  --elements N    doubles in each of the three arrays (default: 4 x all last-level caches)\n"
    "  --ntimes N      passes, the first of which does not count (default 10, from 2 to 200)\n"
    "  --help          this text\n"
    "\n"
    "Example: OMP_PROC_BIND=spread OMP_PLACES=cores stream --threads 1,8\n"
    "Exit status: 0 done, 2 bad usage or too little memory, 3 the arrays hold wrong results.\n";

#define FAIL(status, ...) \
    (fputs("stream: ", stderr), fprintf(stderr, __VA_ARGS__), fputc('\n', stderr), exit(status))

static long read_count(const char *option, const char *text, long low, long high)
{
    char *end;
    const long value = strtol(text, &end, 10); /* beyond a long: LONG_MAX, out of range below */
    if (end == text || *end != '\0' || value < low || value > high)
        FAIL(USAGE_ERROR, "--%s takes a whole number from %ld to %ld, not '%s'.", option, low, high,
             text);
    return value;
}

static int read_threads(char *text, int allowed, int *counts)
{
    int tables = 0;
    for (char *item = text, *next; item; item = next) {
        if ((next = strchr(item, ','))) *next++ = '\0';
        if (tables == MAX_TABLES)
            FAIL(USAGE_ERROR, "--threads takes at most %d counts.", MAX_TABLES);
        counts[tables++] = (int)read_count("threads", item, 1, allowed);
    }
    return tables;
}

static int default_threads(int allowed, int *counts)
{
    int tables = 0, count = 1;
    for (; count < allowed; count *= 2) counts[tables++] = count;
    counts[tables++] = allowed;
    return tables;
}

/* One word of a file below /sys; 0 when it cannot be read. */
static int read_word(const char *directory, const char *name, char word[256])
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    const int got = file && fscanf(file, "%255s", word) == 1;
    if (file) fclose(file);
    return got;
}

/* Bytes in all distinct last-level caches of the machine, 0 when the kernel
 * names none (some hypervisors hide them).  A cache is counted by the first
 * CPU of its shared_cpu_list; the last level is taken CPU by CPU, because the
 * cores of a hybrid processor differ. */
static long last_level_cache_bytes(void)
{
    glob_t cpus, caches;
    long total = 0;
    if (glob("/sys/devices/system/cpu/cpu[0-9]*", 0, NULL, &cpus) != 0) return 0;
    for (size_t c = 0; c < cpus.gl_pathc; c++) {
        char pattern[512], type[256], level[256], shared[256], size[256];
        long deepest = 0, bytes = 0, first = -1;
        snprintf(pattern, sizeof pattern, "%s/cache/index[0-9]*", cpus.gl_pathv[c]);
        if (glob(pattern, 0, NULL, &caches) != 0) continue;
        for (size_t i = 0; i < caches.gl_pathc; i++) {
            const char *cache = caches.gl_pathv[i];
            if (!read_word(cache, "type", type) || strcmp(type, "Instruction") == 0) continue;
            if (!read_word(cache, "level", level) || atol(level) <= deepest) continue;
            if (!read_word(cache, "shared_cpu_list", shared) || !read_word(cache, "size", size))
                continue;
            char *unit;
            bytes = strtol(size, &unit, 10) * (*unit == 'K' ? 1024 : *unit == 'M' ? 1 << 20 : 1);
            deepest = atol(level);
            first = atol(shared);
        }
        globfree(&caches);
        if (first == atol(strrchr(cpus.gl_pathv[c], '/') + strlen("/cpu"))) total += bytes;
    }
    globfree(&cpus);
    return total;
}

static double available_bytes(void)
{
    char line[256];
    double kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1) break;
    if (file) fclose(file);
    if (kib == 0)
        FAIL(USAGE_ERROR,
             "/proc/meminfo has no MemAvailable, so the arrays cannot be placed safely.");
    return kib * 1024;
}

/* Where the calling thread runs and may run, the latter as a list like 0-3,8. */
static struct binding this_binding(void)
{
    struct binding binding = {.cpu = sched_getcpu(), .allowed = -1, .list = "unknown"};
    const size_t bytes = CPU_ALLOC_SIZE(CPU_LIMIT);
    cpu_set_t *set = CPU_ALLOC(CPU_LIMIT);
    if (set && sched_getaffinity(0, bytes, set) == 0) {
        size_t used = 0;
        binding.allowed = CPU_COUNT_S(bytes, set);
        for (int cpu = 0, end; cpu < CPU_LIMIT; cpu = end + 1) {
            for (end = cpu; CPU_ISSET_S((size_t)end, bytes, set);) end++;
            if (end == cpu) continue;
            if (used + 24 > sizeof binding.list) { /* say that the list goes on */
                strcpy(binding.list + used, ",...");
                break;
            }
            used += (size_t)sprintf(binding.list + used, "%s%d", used ? "," : "", cpu);
            if (end - 1 > cpu) used += (size_t)sprintf(binding.list + used, "-%d", end - 1);
        }
    }
    CPU_FREE(set);
    return binding;
}

static double *allocate(long elements)
{
    double *array = aligned_alloc(4096, ((size_t)elements * sizeof(double) + 4095) / 4096 * 4096);
    if (!array)
        FAIL(USAGE_ERROR, "no memory for an array of %ld elements; lower --elements.", elements);
    return array;
}

/* Average relative error over the three arrays' expected values, which follow
 * from the same recurrence on three numbers. */
static void validate(const double *a, const double *b, const double *c, long elements, int ntimes)
{
    double ea = 1, eb = 2, ec = 0, da = 0, db = 0, dc = 0;
    for (int k = 0; k < ntimes; k++) {
        ec = ea;
        eb = SCALAR * ec;
        ec = ea + eb;
        ea = eb + SCALAR * ec;
    }
#pragma omp parallel for schedule(static) reduction(+ : da, db, dc)
    for (long i = 0; i < elements; i++) {
        da += fabs(a[i] - ea) / ea;
        db += fabs(b[i] - eb) / eb;
        dc += fabs(c[i] - ec) / ec;
    }
    const double n = (double)elements, error = fmax(da, fmax(db, dc)) / n;
    /* fmax drops a NaN, so each sum is asked; !(x < y) is true of a NaN */
    if (!(da / n < TOLERANCE) || !(db / n < TOLERANCE) || !(dc / n < TOLERANCE)) {
        printf("Failed Validation: avg error %e where less than %e is allowed\n", error, TOLERANCE);
        fflush(stdout);
        FAIL(WRONG_RESULT,
             "the arrays hold wrong results (average relative errors a %g, b %g, c %g): "
             "suspect the compiler flags or the memory.",
             da / n, db / n, dc / n);
    }
    printf("Solution Validates: avg error less than %e on all three arrays\n", TOLERANCE);
}

static void run(int threads, long elements, int ntimes)
{
    static const char *const label[KERNELS] = {"Copy:", "Scale:", "Add:", "Triad:"};
    static const int words[KERNELS] = {2, 2, 3, 3};
    double best[KERNELS], worst[KERNELS] = {0}, sum[KERNELS] = {0}, passes[KERNELS][MAX_PASSES];
    double *a = allocate(elements), *b = allocate(elements), *c = allocate(elements);
    struct binding *bindings = calloc((size_t)threads, sizeof *bindings);
    int team = 0;
    for (int k = 0; k < KERNELS; k++) best[k] = INFINITY;
    omp_set_num_threads(threads);
    /* First touch with the schedule of the kernels: each page comes to lie in
     * the memory of the thread that will use it. */
#pragma omp parallel for schedule(static)
    for (long i = 0; i < elements; i++) {
        a[i] = 1;
        b[i] = 2;
        c[i] = 0;
    }
#pragma omp parallel
    {
#pragma omp single
        team = omp_get_num_threads();
        if (bindings && omp_get_thread_num() < threads)
            bindings[omp_get_thread_num()] = this_binding();
    }
    if (team != threads || !bindings)
        FAIL(USAGE_ERROR, "asked for %d threads, OpenMP gave %d: see OMP_THREAD_LIMIT.", threads,
             team);
    for (int pass = 0; pass < ntimes; pass++) {
        double clock[KERNELS + 1];
        clock[0] = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < elements; i++) c[i] = a[i];
        clock[1] = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < elements; i++) b[i] = SCALAR * c[i];
        clock[2] = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < elements; i++) c[i] = a[i] + b[i];
        clock[3] = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (long i = 0; i < elements; i++) a[i] = b[i] + SCALAR * c[i];
        clock[4] = omp_get_wtime();
        for (int k = 0; pass > 0 && k < KERNELS; k++) {
            const double elapsed = clock[k + 1] - clock[k];
            best[k] = fmin(best[k], elapsed);
            worst[k] = fmax(worst[k], elapsed);
            sum[k] += elapsed;
            passes[k][pass - 1] = elapsed;
        }
    }
    printf("# nearmetal threads: %d\n", threads);
    for (int t = 0; t < threads; t++)
        printf("# nearmetal binding: thread=%d cpu=%d allowed=%d %s\n", t, bindings[t].cpu,
               bindings[t].allowed, bindings[t].list);
    puts("Function    Best Rate MB/s  Avg time     Min time     Max time");
    for (int k = 0; k < KERNELS; k++) {
        if (!(best[k] > 0)) FAIL(WRONG_RESULT, "a pass took no measurable time; raise --elements.");
        printf("%-12s%12.1f  %11.6f  %11.6f  %11.6f\n", label[k],
               1e-6 * words[k] * sizeof(double) * (double)elements / best[k], sum[k] / (ntimes - 1),
               best[k], worst[k]);
    }
    for (int k = 0; k < KERNELS; k++) { /* the launch's second level of samples */
        printf("# nearmetal passes: function=%.*s s=", (int)strlen(label[k]) - 1, label[k]);
        for (int pass = 1; pass < ntimes; pass++)
            printf("%s%.6g", pass > 1 ? "," : "", passes[k][pass - 1]);
        putchar('\n');
    }
    validate(a, b, c, elements, ntimes);
    fflush(stdout); /* the last line of a job that hangs tells how far it got */
    free(a);
    free(b);
    free(c);
    free(bindings);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"threads", 1, NULL, 't'},
        {"elements", 1, NULL, 'e'},
        {"ntimes", 1, NULL, 'n'},
        {"help", 0, NULL, 'h'},
        {0},
    };
    /* not sched_getaffinity(): with OMP_PROC_BIND the runtime has already
     * pinned this thread to its own place */
    const int allowed = omp_get_num_procs();
    const long cache = last_level_cache_bytes(), needed = cache / 2; /* 4 x cache / 8 bytes */
    int counts[MAX_TABLES], tables = default_threads(allowed, counts), option, ntimes = 10;
    long elements = 0;
    opterr = 0;
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case 't': tables = read_threads(optarg, allowed, counts); break;
        case 'e': elements = read_count("elements", optarg, 1, 1L << 50); break;
        case 'n': ntimes = (int)read_count("ntimes", optarg, 2, MAX_PASSES); break;
        case 'h': return fputs(HELP, stdout) < 0;
        case ':': FAIL(USAGE_ERROR, "%s needs a value; see --help.", argv[optind - 1]);
        default:
            FAIL(USAGE_ERROR, "'%s' is no option of this program; see --help.", argv[optind - 1]);
        }
    }
    if (optind < argc)
        FAIL(USAGE_ERROR, "'%s' is not expected: there are only options; see --help.",
             argv[optind]);
    if (elements == 0 && cache == 0)
        FAIL(USAGE_ERROR,
             "the kernel names no cache here, so the array size is unknown: give --elements, "
             "4 x the bytes of all last-level caches / 8.");
    if (elements == 0) elements = needed;
    const double wanted = 3.0 * (double)elements * sizeof(double), available = available_bytes();
    if (wanted > 0.6 * available)
        FAIL(USAGE_ERROR,
             "three arrays of %ld elements take %.0f MB, more than 60%% of the %.0f MB available; "
             "lower --elements.",
             elements, wanted / 1e6, available / 1e6);
    omp_set_dynamic(0); /* a count asked for is a count given */
    begin_usage();
    puts("# nearmetal program: stream 2"); /* 2 is the version of this format */
    printf("# nearmetal compiler: %s %s\n# nearmetal method: ntimes=%d allowed_cpus=%d\n", COMPILER,
           NEARMETAL_CFLAGS, ntimes, allowed);
    printf("# nearmetal arrays: elements=%ld bytes_each=%ld llc_bytes=%ld four_times_llc=%s\n",
           elements, elements * 8, cache,
           cache == 0           ? "unknown"
           : elements >= needed ? "yes"
                                : "no");
    fflush(stdout);
    for (int t = 0; t < tables; t++) run(counts[t], elements, ntimes);
    puts("# nearmetal complete");
    return fflush(stdout) != 0;
}
