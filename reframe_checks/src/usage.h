/* What the kernel gave this process while it measured, which it prints at its end. */
#ifndef NEARMETAL_USAGE_H
#define NEARMETAL_USAGE_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

struct usage {
    double clock, cpu; /* seconds: time, processor time of all threads */
    double wait;       /* seconds that the living threads waited in run queues; -1: not said */
    long involuntary, major; /* involuntary context switches, major page faults */
};

static struct usage usage_start;

static inline double usage_seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* The second number of /proc/PID/task/TID/schedstat is the time in run queues, in ns. */
static inline double usage_wait(void)
{
    double sum = -1;
    DIR *const tasks = opendir("/proc/self/task");
    if (!tasks) return sum;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[sizeof "/proc/self/task//schedstat" + sizeof task->d_name];
        unsigned long long waited;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *const file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%*u %llu", &waited) == 1)
            sum = (sum < 0 ? 0 : sum) + (double)waited * 1e-9;
        fclose(file);
    }
    closedir(tasks);
    return sum;
}

static inline struct usage usage_now(void)
{
    struct timespec now;
    struct rusage used = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    getrusage(RUSAGE_SELF, &used);
    return (struct usage){.clock = (double)now.tv_sec + (double)now.tv_nsec * 1e-9,
                          .cpu = usage_seconds(used.ru_utime) + usage_seconds(used.ru_stime),
                          .wait = usage_wait(),
                          .involuntary = used.ru_nivcsw,
                          .major = used.ru_majflt};
}

static inline void usage_print(void)
{
    const struct usage now = usage_now();
    const double wait = now.wait - usage_start.wait; /* below 0 where a thread has ended */
    const int known = now.wait >= 0 && usage_start.wait >= 0;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    printf("# nearmetal usage: host=%s wall=%.6f cpu=%.6f wait=%.6f involuntary=%ld major=%ld\n",
           host, now.clock - usage_start.clock, now.cpu - usage_start.cpu,
           !known     ? -1
           : wait < 0 ? 0
                      : wait,
           now.involuntary - usage_start.involuntary, now.major - usage_start.major);
    fflush(stdout);
}

/* Each process prints one line when it ends. */
static inline void begin_usage(void)
{
    usage_start = usage_now();
    atexit(usage_print);
}
#endif
