/*
 * Keeps processors awake and together while MPI runs, and measures how far two are apart.
 *
 * A host moves virtual processors between caches. Far apart, they hand over a cache line in several
 * times the time, for seconds or minutes. They come together if one sleeps and the other wakes it,
 * again and again: a host starts a process that was woken near the one that woke it. They sleep
 * only while no process holds /dev/cpu_dma_latency (PM QoS).
 *
 * Usage: processors distance NUMBER
 *            prints the time in ns in which the first two processors hand over a cache line, NUMBER
 *            times, twice a second
 *        processors together SECONDS
 *            brings them together within this time. Prints their distance and how often one slept.
 *            Exit status 1: they are far apart
 *        processors serve SOCKET SECONDS COUNTERS
 *            keeps all processors awake while a client is connected to SOCKET, which it makes. To a
 *            new client it sends one byte, having brought the first two together. The file COUNTERS
 *            has the time in us in which they were far apart all the same. With 0 seconds it
 *            does neither
 *
 * Both are busy before each measurement, as in a job of MPI: a host may let idle ones stay, and
 * move busy ones.
 *
 * Build: cc -O2 -pthread processors.c -o processors
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* The least of some batches counts: in the others something else ran. While a program is measured,
   fewer round trips must do. */
enum { BATCHES = 10, ROUND_TRIPS = 500, QUICK_BATCHES = 3, QUICK_ROUND_TRIPS = 50 };
static const double SECOND_NS = 1e9;
static const double PERIOD_NS = 5e8;
/* Processors with a common cache take 20 to 60 ns. Those of two caches take more. */
static const double FAR_NS = 80;
/* One sleep, and how long there are sleeps between two measurements. Of 0.05 to 50 ms, a sleep of
   0.3 ms brought them together soonest. The one that wakes the other may sleep as long itself. */
static const double SLEEP_NS = 3e5, SLEEPS_NS = 5e7;
/* Busy ones are moved within the first time, if they are. Between tries it is less: in a repeat,
   what this program computes counts as another process. */
static const double BUSY_NS = 3e7, BUSY_BETWEEN_NS = 1e7;
/* Nodes of one launch ask within a moment of one another: one answer is for all. */
static const double SAME_LAUNCH_NS = 5e8;
/* After a try that failed, none for so long, and twice as long after each further one: where the
   processors stay far apart, jobs wait for a small part of their time. */
static const double PATIENCE_NS = 4e9, MOST_PATIENCE_NS = 6.4e10;
/* While clients are connected, time between two looks. */
static const double LOOK_NS = 1e8;
enum { CLIENTS = 256 };

/* What the first processor asks of the second: nothing, to hand over a cache line, to wake it, to
   sleep until a time. */
enum { NOTHING, LINE, WAKE, REST, END };
/* One thread on each of the first two processors. */
typedef struct {
    _Alignas(128) atomic_int asked;
    _Alignas(128) atomic_int awake;
    double rest_until;
} Pair;

static cpu_set_t processors;
/* Whether clients are connected, and the processors are not just brought together. */
static atomic_int watched;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * SECOND_NS + (double)time.tv_nsec;
}

static void busy_until(double end) { while (now() < end); }

static void fail(const char *what)
{
    fprintf(stderr, "processors: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void run_on(int nth)
{
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
        if (!CPU_ISSET(processor, &processors) || nth--) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        errno = pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        if (errno) fail("pthread_setaffinity_np");
        return;
    }
    fprintf(stderr, "processors: this process has a single processor\n");
    exit(2);
}

static void ask(Pair *pair, int what)
{
    atomic_store_explicit(&pair->asked, what, memory_order_release);
}

static void wait_for_answer(Pair *pair)
{
    while (atomic_load_explicit(&pair->asked, memory_order_acquire) != NOTHING);
}

static void futex(Pair *pair, int operation, int value)
{
    syscall(SYS_futex, &pair->awake, operation, value, NULL, NULL, 0);
}

static void rest(double until)
{
    const time_t seconds = (time_t)(until / SECOND_NS);
    const struct timespec time = {seconds, (long)(until - (double)seconds * SECOND_NS)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR);
}

/* The second processor. It waits for what is asked, and is busy meanwhile. */
static void *answer(void *its_pair)
{
    Pair *pair = its_pair;
    run_on(1);
    for (;;) {
        int what;
        while ((what = atomic_load_explicit(&pair->asked, memory_order_acquire)) == NOTHING);
        if (what == END) return NULL;
        if (what == REST) rest(pair->rest_until);
        if (what == WAKE) {
            nanosleep(&(struct timespec){0, (long)SLEEP_NS}, NULL);
            atomic_store(&pair->awake, 1);
            futex(pair, FUTEX_WAKE_PRIVATE, 1);
        }
        ask(pair, NOTHING);
    }
}

static pthread_t start(void *(*run)(void *), void *what)
{
    pthread_t thread;
    errno = pthread_create(&thread, NULL, run, what);
    if (errno) fail("pthread_create");
    return thread;
}

static double distance(Pair *pair, int batches, int round_trips)
{
    double least = 0;
    for (int batch = 0; batch < batches; batch++) {
        const double begun = now();
        for (int i = 0; i < round_trips; i++) {
            ask(pair, LINE);
            wait_for_answer(pair);
        }
        const double each = (now() - begun) / (2 * round_trips);
        if (!batch || each < least) least = each;
    }
    return least;
}

static void sleep_until(Pair *pair, double end)
{
    while (now() < end) {
        atomic_store(&pair->awake, 0);
        ask(pair, WAKE);
        while (!atomic_load(&pair->awake)) futex(pair, FUTEX_WAIT_PRIVATE, 0);
        wait_for_answer(pair);
    }
}

static int watch(int number)
{
    static Pair pair;
    run_on(0);
    start(answer, &pair);
    for (; number > 0; number--) {
        const double next = now() + PERIOD_NS;
        printf("%.0f\n", distance(&pair, BATCHES, ROUND_TRIPS));
        fflush(stdout);
        busy_until(next);
    }
    return 0;
}

static int bring_together(int seconds)
{
    static Pair pair;
    const double begun = now();
    double found;
    int tries = 0;
    run_on(0);
    ask(&pair, NOTHING);
    const pthread_t other = start(answer, &pair);
    for (;; tries++) {
        busy_until(now() + (tries ? BUSY_BETWEEN_NS : BUSY_NS));
        found = distance(&pair, BATCHES, ROUND_TRIPS);
        if (found <= FAR_NS || now() >= begun + seconds * SECOND_NS) break;
        sleep_until(&pair, now() + SLEEPS_NS);
    }
    ask(&pair, END);
    pthread_join(other, NULL);
    if (tries)
        printf("%.0f ns after %d tries, %.2f s\n", found, tries, (now() - begun) / SECOND_NS);
    else printf("%.0f ns\n", found);
    fflush(stdout);
    return found > FAR_NS;
}

/* Adds up the time in which watched processors are far apart. Both threads go before all others:
   a look takes 0.1 ms. */
static _Noreturn void *look(void *its_file)
{
    static Pair pair;
    const int *file = its_file;
    const struct sched_param first = {.sched_priority = 1};
    double apart_us = 0;
    /* It finds its processor before this thread is first on its own. */
    const pthread_t other = start(answer, &pair);
    run_on(0);
    ask(&pair, LINE);
    wait_for_answer(&pair);
    errno = pthread_setschedparam(other, SCHED_FIFO, &first);
    if (!errno) errno = pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
    if (errno) perror("processors: SCHED_FIFO");
    for (pair.rest_until = now();; pair.rest_until += LOOK_NS) {
        char text[40];
        ask(&pair, REST);
        rest(pair.rest_until);
        wait_for_answer(&pair);
        const int length = snprintf(text, sizeof text, "apart_us %-20.0f\n", apart_us);
        if (pwrite(*file, text, (size_t)length, 0) != length) fail("the file of the counters");
        if (atomic_load(&watched) && distance(&pair, QUICK_BATCHES, QUICK_ROUND_TRIPS) > FAR_NS)
            apart_us += LOOK_NS / 1e3;
    }
}

/* The device that keeps all processors awake as long as it is open. */
static int keep_awake(void)
{
    const int32_t longest_us = 0;
    const int device = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
    if (device < 0 || write(device, &longest_us, sizeof longest_us) < 0)
        fail("/dev/cpu_dma_latency");
    return device;
}

/* Begins a line of the log. */
static void print_time(void)
{
    char text[32];
    const time_t seconds = time(NULL);
    strftime(text, sizeof text, "%F %T", localtime(&seconds));
    printf("%s ", text);
}

static int listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) errno = ENAMETOOLONG, fail(path);
    strcpy(address.sun_path, path);
    unlink(path);
    umask(077);
    if (server < 0 || bind(server, (struct sockaddr *)&address, sizeof address) ||
        listen(server, 64))
        fail(path);
    return server;
}

static void count_in(const char *path)
{
    static int file;
    unlink(path);
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0 || fchmod(file, 0644)) fail(path);
    start(look, &file);
}

static void serve(const char *path, int seconds)
{
    struct pollfd polled[1 + CLIENTS] = {{listen_at(path), POLLIN, 0}};
    int clients = 0, device = -1;
    double next_try = 0, patience = PATIENCE_NS;
    for (;;) {
        polled[0].events = clients < CLIENTS ? POLLIN : 0;
        if (poll(polled, 1 + clients, -1) < 0 && errno != EINTR) fail("poll");
        /* A client sends nothing: what there is to read is its end. */
        for (int i = clients; i > 0; i--) {
            if (!polled[i].revents) continue;
            close(polled[i].fd);
            polled[i] = polled[clients--];
        }
        if (!clients && device >= 0) {
            atomic_store(&watched, 0);
            close(device);
            device = -1;
        }
        if (!polled[0].revents) continue;
        const int client = accept4(polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) continue;
        if (seconds && now() >= next_try) {
            if (device >= 0) close(device);
            device = -1;
            atomic_store(&watched, 0);
            print_time();
            const int apart = bring_together(seconds);
            next_try = now() + (apart ? patience : SAME_LAUNCH_NS);
            patience = !apart ? PATIENCE_NS : patience < MOST_PATIENCE_NS ? 2 * patience : patience;
        }
        if (device < 0) device = keep_awake();
        atomic_store(&watched, 1);
        polled[++clients] = (struct pollfd){client, POLLIN, 0};
        /* Where it fails, poll says that the client is gone. */
        (void)!send(client, "", 1, MSG_NOSIGNAL);
    }
}

int main(int count, char **words)
{
    if (sched_getaffinity(0, sizeof processors, &processors)) fail("sched_getaffinity");
    if (count == 3 && !strcmp(words[1], "distance")) return watch(atoi(words[2]));
    if (count == 3 && !strcmp(words[1], "together")) return bring_together(atoi(words[2]));
    if (count == 5 && !strcmp(words[1], "serve")) {
        if (atoi(words[3])) count_in(words[4]);
        serve(words[2], atoi(words[3]));
    }
    fprintf(stderr,
            "usage: processors distance NUMBER\n"
            "       processors together SECONDS\n"
            "       processors serve SOCKET SECONDS COUNTERS\n");
    return 2;
}
