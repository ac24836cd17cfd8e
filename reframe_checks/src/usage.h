/* What the kernel gave this process while it measured, which it prints at its end. */
#ifndef NEARMETAL_USAGE_H
#define NEARMETAL_USAGE_H
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "program.h"

struct usage {
    double clock, cpu; /* seconds: time, processor time of all threads */
    double wait;       /* seconds that the living threads waited in run queues; -1: not said */
    double main_ran, main_wait; /* seconds of the first thread */
    double worst; /* part of its time that the thread waited which waited most; -1: not said */
    long involuntary, major; /* involuntary context switches, major page faults */
};

static struct usage usage_start;

static inline double usage_seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

/* The numbers of /proc/PID/task/TID/schedstat are the times on a processor and in run queues, in
 * ns. In less than a second, the start of all threads at once is most of the waiting. */
static inline void usage_wait(struct usage *now)
{
    now->wait = now->worst = -1;
    DIR *const tasks = opendir("/proc/self/task");
    if (!tasks) return;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[sizeof "/proc/self/task//schedstat" + sizeof task->d_name];
        unsigned long long ran_ns, wait_ns;
        if (task->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
        FILE *const file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%llu %llu", &ran_ns, &wait_ns) == 2) {
            double ran = (double)ran_ns * 1e-9, wait = (double)wait_ns * 1e-9;
            now->wait = (now->wait < 0 ? 0 : now->wait) + wait;
            if (atol(task->d_name) == (long)getpid()) {
                now->main_ran = ran;
                now->main_wait = wait;
                ran -= usage_start.main_ran;
                wait -= usage_start.main_wait;
            }
            if (ran + wait >= 1 && wait / (ran + wait) > now->worst)
                now->worst = wait / (ran + wait);
        }
        fclose(file);
    }
    closedir(tasks);
}

static inline struct usage usage_now(void)
{
    struct timespec now;
    struct rusage used = {0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    getrusage(RUSAGE_SELF, &used);
    struct usage usage = {.clock = (double)now.tv_sec + (double)now.tv_nsec * 1e-9,
                          .cpu = usage_seconds(used.ru_utime) + usage_seconds(used.ru_stime),
                          .involuntary = used.ru_nivcsw,
                          .major = used.ru_majflt};
    usage_wait(&usage);
    return usage;
}

static inline void usage_print(void)
{
    const struct usage now = usage_now();
    const double wait = now.wait - usage_start.wait; /* below 0 where a thread has ended */
    const int known = now.wait >= 0 && usage_start.wait >= 0;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    printf(
        "# nearmetal usage: host=%s wall=%.6f cpu=%.6f all=%.6f wait=%.6f worst=%.6f "
        "involuntary=%ld major=%ld\n",
        host, now.clock - usage_start.clock, now.cpu - usage_start.cpu, now.cpu,
        !known     ? -1
        : wait < 0 ? 0
                   : wait,
        now.worst, now.involuntary - usage_start.involuntary, now.major - usage_start.major);
    fflush(stdout);
}

/* Each process prints one line when it ends. `all` is its processor time since it began. */
static inline void begin_usage(void)
{
    usage_start = usage_now();
    atexit(usage_print);
}
#endif
