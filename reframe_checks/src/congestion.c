/*
 * How some nodes communicate alone, and how beside others that generate traffic: the question and
 * the method of GPCNeT (S. Chunduri et al., SC19, article 42). One rank on each node. A shuffle
 * with a fixed seed makes some of them victims, which are measured, and all others generators.
 *
 * Victims measure exchanges of 8 B with both neighbours in a random ring, exchanges of 8 messages
 * of 128 KiB with each of them, and an Allreduce of 8 B. A slot of time is of one measurement, with
 * generators asleep or with traffic, in turn. What is not done in it has failed. So a node that
 * hangs costs no more time than any other.
 *
 * C11 and MPI only.  See --help for the options.
 * Build: mpi -O2
 */
#define _GNU_SOURCE /* what mpi_program.h needs */
#include <math.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_program.h"
#include "options.h"
#include "payload.h"
#include "slots.h"

enum { LATENCY, BANDWIDTH, ALLREDUCE, METRICS };
enum { ALONE, TRAFFIC, STATES };
enum { INCAST, ALL_TO_ALL, RANDOM };
enum { LEFT, RIGHT, SIDES };
static const char *const NAMES[METRICS] = {"latency", "bandwidth", "allreduce"};
static const char *const STATE_NAMES[STATES] = {"alone", "traffic"};

/* Messages to a neighbour and their length, as GPCNeT has them. */
enum { MESSAGES = 8, LONG = 1 << 17 };
/* Messages of a generator to another one that are under way, and receivers of its random ones. */
enum { COPIES = 2, RANDOM_RECEIVERS = 4 };
enum { MAX_ROUNDS = 100, LAST_EXCHANGE = 1 << 30 };
/* Samples that a quantile of 99 % needs: of 299, the longest one is beyond it with 95 % (S. S.
 * Wilks, The Annals of Mathematical Statistics 12, 1941). */
enum { LEAST_OF_99 = 299 };

static struct {
    double seconds;
    long rounds, traffic, victims, seed, bytes;
} method = {.seconds = 30, .rounds = 5, .seed = 1, .bytes = 1 << 16};

/* Parts of a slot: when all begin, when samples count, when victims and then generators stop, and
 * when the last messages must have arrived. The first exchanges connect. The last ones of victims
 * may end after the traffic, which can slow them down much. */
static const double BEGIN = 0.05, FROM = 0.15, UNTIL = 0.65, STOP = 0.75, SILENCE = 0.95;
/* Seconds from the last meeting to the first slot: the generators are asleep by then. */
static const double REST = 0.2;

static const char HELP[] =
    "Usage: <launcher> -n N congestion [options]\n"
    "Latency, bandwidth and Allreduce of some of N nodes, alone and beside traffic of the others.\n"
    "\n"
    "  --seconds S   time of all slots (default 30)\n"
    "  --rounds K    times that each measurement has a slot alone and one beside traffic "
    "(default 5)\n"
    "  --traffic T   0: all others send to one of them, 1: to each other, 2: each to four at "
    "random (default 0)\n"
    "  --victims V   nodes that are measured (default 0: a fifth, at least 2)\n"
    "  --seed S      of the shuffles (default 1)\n"
    "  --bytes B     length of a message of traffic (default 65536)\n"
    "  --help        this text\n"
    "\n"
    "A line `victim RANK METRIC ROUND STATE SAMPLES MEDIAN_US MEAN_US` tells of a slot,\n"
    "`tail RANK METRIC STATE SAMPLES US_99 US_WORST` of all samples (`-`: fewer than 299), and\n"
    "`generator RANK METRIC ROUND SENT_GBPS RECEIVED_GBPS` of traffic, and `pause RANK SECONDS` "
    "of\n"
    "the longest time in which the system did not let a rank run.\n"
    "`victim RANK METRIC ROUND STATE failed WHY` and `generator RANK METRIC ROUND failed WHY` "
    "tell\n"
    "of what was not done in time.\n"
    "Exit status: 0 done, 2 bad usage, 4 the ranks did not all start.\n";

static const struct number OPTIONS[] = {
    {"seconds", 0.6, 1e6, NULL, &method.seconds},
    {"rounds", 1, MAX_ROUNDS, &method.rounds, NULL},
    {"traffic", INCAST, RANDOM, &method.traffic, NULL},
    {"victims", 0, 1e6, &method.victims, NULL},
    {"seed", 0, 1e9, &method.seed, NULL},
    {"bytes", 64, 1 << 28, &method.bytes, NULL},
    {0},
};

struct header { /* the first bytes of a message */
    uint32_t number, sender; /* twice the number of the exchange, and one more for the last */
};

static unsigned char *send_buffer[MESSAGES], *receive_buffer[SIDES][MESSAGES];

/* Ranks of this rank's role in the order of a shuffle, and where it is. */
static int *mates, mate_count, place, is_victim;

/* Samples in us by steps of 0.1 %, so that any number of them has a place. */
enum { STEPS = 1000, BINS = 32 * STEPS };
static const double LEAST_US = 1e-3;

struct histogram {
    uint32_t *bin;
    uint64_t count;
    double sum, worst;
};

static struct histogram now_measured, whole[METRICS][STATES];
struct slot { /* of a victim */
    unsigned long long samples;
    double median, mean;
    const char *why; /* it has no value; NULL: it has */
};
struct traffic { /* Gb/s of a generator in a slot */
    double sent, received;
    const char *why;
};
static struct slot slot_of[MAX_ROUNDS][METRICS][STATES];
static struct traffic traffic_of[MAX_ROUNDS][METRICS];
static MPI_Comm reduced[MAX_ROUNDS][STATES]; /* one each: what is given up in one harms no other */
static int gave_up;

static const char NOT_IN_TIME[] = "not done in time", CHANGED[] = "a message arrived changed";
static const char NOT_SILENT[] = "did not stop in time";

/* Why a message is not what was sent: what was given up before may have arrived in its place. */
static const char *changed(void) { return gave_up ? NOT_IN_TIME : CHANGED; }

static void note(struct histogram *h, double us)
{
    const double at = STEPS * log(us / LEAST_US);
    h->bin[at < 0 ? 0 : at >= BINS ? BINS - 1 : (int)at]++;
    h->count++;
    h->sum += us;
    if (us > h->worst) h->worst = us;
}

static void add(struct histogram *to, const struct histogram *from)
{
    for (int i = 0; i < BINS; i++) to->bin[i] += from->bin[i];
    to->count += from->count;
    to->sum += from->sum;
    if (from->worst > to->worst) to->worst = from->worst;
}

static double quantile(const struct histogram *h, double part)
{
    const double wanted = ceil(part * (double)h->count);
    uint64_t seen = 0;
    int i = 0;
    for (; i < BINS - 1; i++)
        if ((double)(seen += h->bin[i]) >= wanted) break;
    return LEAST_US * exp((i + 0.5) / STEPS);
}

static void forget(struct histogram *h)
{
    memset(h->bin, 0, BINS * sizeof *h->bin);
    h->count = 0;
    h->sum = h->worst = 0;
}

/* Shuffles a list, always alike for the same seed and number (splitmix64; G. L. Steele et al.,
 * OOPSLA 2014). */
static void shuffle(int *list, int count, long number)
{
    uint64_t state = (uint64_t)method.seed << 32 | (uint64_t)number;
    for (int i = count - 1; i > 0; i--) {
        uint64_t z = state += 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        const int j = (int)((z ^ z >> 31) % (uint64_t)(i + 1)), other = list[i];
        list[i] = list[j];
        list[j] = other;
    }
}

static void cancel(int count, MPI_Request *requests)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Request_free(&requests[i]);
        }
}

/* What a message of a rank holds after its header. */
static const unsigned char *contents(int sender, int message)
{
    return pattern((long)sender * MESSAGES + message);
}

/* Exchanges with both neighbours until a time, and NULL or why they failed. Their times count from
 * `from` on.
 *
 * A rank says in each message whether it is its last. A rank whose neighbour said so exchanges
 * once more with the other one, and says so there. So all of them stop, each when its time is up or
 * one exchange after a neighbour. */
static const char *ring(const int *order, double from, double until, int messages, size_t bytes)
{
    int at = 0, going[SIDES] = {1, 1};
    while (order[at] != rank) at++;
    const int other[SIDES] = {order[(at + mate_count - 1) % mate_count],
                              order[(at + 1) % mate_count]};
    for (uint32_t n = 0; going[LEFT] || going[RIGHT]; n++) {
        MPI_Request receives[SIDES * MESSAGES], sends[SIDES * MESSAGES];
        int count = 0;
        const double start = MPI_Wtime();
        runs(start);
        const int counts = going[LEFT] && going[RIGHT];
        const int last = start >= until || !counts || n == LAST_EXCHANGE;
        const struct header head = {2 * n + (uint32_t)last, (uint32_t)rank};
        for (int m = 0; m < messages; m++) memcpy(send_buffer[m], &head, sizeof head);
        for (int side = 0; side < SIDES; side++)
            for (int m = 0; going[side] && m < messages; m++, count++) {
                /* With two victims both neighbours are one: the way of a message is its tag. */
                MPI_Irecv(receive_buffer[side][m], (int)bytes, MPI_BYTE, other[side], tag + !side,
                          MPI_COMM_WORLD, &receives[count]);
                MPI_Isend(send_buffer[m], (int)bytes, MPI_BYTE, other[side], tag + side,
                          MPI_COMM_WORLD, &sends[count]);
            }
        if (!done(count, receives) || !done(count, sends)) {
            cancel(count, receives);
            gave_up = 1;
            return NOT_IN_TIME;
        }
        if (counts && start >= from)
            note(&now_measured, 1e6 * (MPI_Wtime() - start) / (messages > 1 ? 1 : 2));
        for (int side = 0; side < SIDES; side++) {
            struct header got = {0};
            if (!going[side]) continue;
            for (int m = 0; m < messages; m++) {
                memcpy(&got, receive_buffer[side][m], sizeof got);
                if (got.sender != (uint32_t)other[side] || got.number >> 1 != n) return changed();
            }
            going[side] = !last && !(got.number & 1);
            for (int m = 0; !going[side] && m < messages; m++)
                if (memcmp(receive_buffer[side][m] + sizeof got, contents(other[side], m),
                           bytes - sizeof got) != 0)
                    return changed();
        }
    }
    return NULL;
}

/* Allreduces of 8 B until a time, which the first victim says in the sum, and NULL or why they
 * failed. A blocking one would wait for a node that hangs. */
static const char *allreduce(long round, int state, double from, double until)
{
    /* What is given up may still be written. */
    static struct {
        int64_t mine, sum;
    } values[MAX_ROUNDS][STATES];
    int64_t *const mine = &values[round][state].mine, *const sum = &values[round][state].sum;
    const int64_t stop = (int64_t)1 << 50, ranks_sum = (int64_t)mate_count * (mate_count + 1) / 2;
    for (int64_t n = 0;; n++) {
        MPI_Request request;
        const double start = MPI_Wtime();
        runs(start);
        *mine = (n % 1000 + 1) * (place + 1);
        if (place == 0 && start >= until) *mine += stop;
        MPI_Iallreduce(mine, sum, 1, MPI_INT64_T, MPI_SUM, reduced[round][state], &request);
        if (!done(1, &request)) {
            gave_up = 1;
            return NOT_IN_TIME;
        }
        if (start >= from) note(&now_measured, 1e6 * (MPI_Wtime() - start));
        if (*sum % stop != (n % 1000 + 1) * ranks_sum) return CHANGED;
        if (*sum >= stop) return NULL;
    }
}

/* A victim's part of a slot. */
static void measure(long round, int metric, int state, double begin, double length)
{
    const double from = begin + FROM * length, until = begin + UNTIL * length;
    int *const order = malloc((size_t)mate_count * sizeof *order);
    const char *why = NULL;
    deadline = begin + SILENCE * length;
    forget(&now_measured);
    memcpy(order, mates, (size_t)mate_count * sizeof *order);
    shuffle(order, mate_count, 1 + round);
    sleep_until(begin + BEGIN * length);
    if (metric == LATENCY) why = ring(order, from, until, 1, sizeof(struct header));
    if (metric == BANDWIDTH) why = ring(order, from, until, MESSAGES, LONG);
    if (metric == ALLREDUCE) why = allreduce(round, state, from, until);
    if (!why && now_measured.count == 0) why = NOT_IN_TIME;
    slot_of[round][metric][state] = (struct slot){.samples = now_measured.count, .why = why};
    if (!why) {
        slot_of[round][metric][state].median = quantile(&now_measured, 0.5);
        slot_of[round][metric][state].mean = now_measured.sum / (double)now_measured.count;
        add(&whole[metric][state], &now_measured);
    }
    free(order);
}

/* Of the traffic of this rank: receivers and senders. One of them is there as often as messages
 * are under way. */
static int *receivers, *senders, receiver_count, sender_count;
static unsigned char *traffic_buffer;
static unsigned char *traffic_message[2]; /* one that is not the last, and the last */
static MPI_Request *under_way;
static int *finished;

static void choose_receivers(long number)
{
    receiver_count = sender_count = 0;
    for (int i = 1; i < mate_count && method.traffic != RANDOM; i++)
        for (int copy = 0; copy < COPIES; copy++) {
            const int other = (place + i) % mate_count;
            if (method.traffic == ALL_TO_ALL || other == 0)
                receivers[receiver_count++] = mates[other];
            if (method.traffic == ALL_TO_ALL || place == 0) senders[sender_count++] = mates[other];
        }
    int *const order = malloc((size_t)mate_count * sizeof *order);
    for (int k = 0; k < RANDOM_RECEIVERS && method.traffic == RANDOM; k++) {
        for (int i = 0; i < mate_count; i++) order[i] = i;
        shuffle(order, mate_count, 1000 + RANDOM_RECEIVERS * number + k);
        for (int i = 0; i < mate_count; i++) { /* in the order of the shuffle, each to the next */
            const int next = order[(i + 1) % mate_count];
            if (order[i] == place) receivers[receiver_count++] = mates[next];
            if (next == place) senders[sender_count++] = mates[order[i]];
        }
    }
    free(order);
}

/* A send is done when its receive has begun: so no receiver is flooded. */
static void send_next(int i, int last)
{
    MPI_Issend(traffic_message[last], (int)method.bytes, MPI_BYTE, receivers[i], tag,
               MPI_COMM_WORLD, &under_way[i]);
}

static unsigned char *buffer_of(int i) { return traffic_buffer + (size_t)i * (size_t)method.bytes; }

static void receive_next(int i)
{
    MPI_Irecv(buffer_of(i), (int)method.bytes, MPI_BYTE, senders[i], tag, MPI_COMM_WORLD,
              &under_way[receiver_count + i]);
}

/* Traffic until a time; each sender says in its last messages that they are. Returns NULL, or why
 * it failed. */
static const char *send_traffic(double until, double *sent_bytes, double *received_bytes)
{
    const int count = receiver_count + sender_count;
    int left = count, right = 1;
    char *const ended = calloc((size_t)count + 1, 1);
    if (!ended) MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    for (int i = 0; i < sender_count; i++) receive_next(i);
    for (int i = 0; i < receiver_count; i++) send_next(i, 0);
    while (left > 0 && last_run < deadline) {
        int some = 0;
        runs(MPI_Wtime());
        MPI_Testsome(count, under_way, &some, finished, MPI_STATUSES_IGNORE);
        if (some <= 0) sched_yield(); /* nodes may share processors */
        const int last = last_run >= until;
        for (int k = 0; k < some; k++) {
            const int i = finished[k];
            if (i < receiver_count) {
                *sent_bytes += (double)method.bytes;
                left -= ended[i];
                if (ended[i]) continue;
                ended[i] = (char)last;
                send_next(i, last);
                continue;
            }
            struct header got;
            const int in = i - receiver_count, sender = senders[in];
            memcpy(&got, buffer_of(in), sizeof got);
            *received_bytes += (double)method.bytes;
            right &= got.sender == (uint32_t)sender;
            if (got.number) {
                right &= !memcmp(buffer_of(in) + sizeof got, contents(sender, 0),
                                 (size_t)method.bytes - sizeof got);
                left--;
            } else {
                receive_next(in);
            }
        }
    }
    free(ended);
    if (left > 0) cancel(sender_count, under_way + receiver_count);
    gave_up |= left > 0;
    return left > 0 ? NOT_SILENT : right ? NULL : changed();
}

/* A generator's part of a slot with traffic. */
static void generate(long round, int metric, double begin, double length)
{
    double sent_bytes = 0, received_bytes = 0;
    choose_receivers(METRICS * round + metric);
    sleep_until(begin + BEGIN * length);
    deadline = begin + SILENCE * length;
    const double start = MPI_Wtime();
    const char *why = send_traffic(begin + STOP * length, &sent_bytes, &received_bytes);
    const double took = MPI_Wtime() - start;
    if (!why && MPI_Wtime() > begin + length) why = NOT_SILENT;
    traffic_of[round][metric] =
        (struct traffic){8e-9 * sent_bytes / took, 8e-9 * received_bytes / took, why};
}

/* All slots. They end with the last: a rank that ends earlier would end those of others. */
static void all_slots(void)
{
    const double length = method.seconds / (double)(method.rounds * METRICS * STATES);
    const double first = MPI_Wtime() + REST;
    last_run = first - REST;
    longest_pause = 0;
    for (long slot = 0; slot < method.rounds * METRICS * STATES; slot++) {
        const int state = (int)(slot % STATES), metric = (int)(slot / STATES % METRICS);
        const long round = slot / STATES / METRICS;
        const double begin = first + length * (double)slot;
        tag = (int)(SIDES * slot);
        if (is_victim) measure(round, metric, state, begin, length);
        else if (state == TRAFFIC) generate(round, metric, begin, length);
    }
    sleep_until(first + method.seconds);
}

static void print_victim(void)
{
    for (int metric = 0; metric < METRICS; metric++)
        for (int state = 0; state < STATES; state++) {
            const char *const name = NAMES[metric], *const of = STATE_NAMES[state];
            const struct histogram *const h = &whole[metric][state];
            const unsigned long long count = h->count;
            for (long round = 0; round < method.rounds; round++) {
                const struct slot slot = slot_of[round][metric][state];
                if (slot.why)
                    printf("victim %d %s %ld %s failed %s\n", rank, name, round, of, slot.why);
                else
                    printf("victim %d %s %ld %s %llu %.6g %.6g\n", rank, name, round, of,
                           slot.samples, slot.median, slot.mean);
            }
            if (count >= LEAST_OF_99)
                printf("tail %d %s %s %llu %.6g %.6g\n", rank, name, of, count, quantile(h, 0.99),
                       h->worst);
            else if (count > 0)
                printf("tail %d %s %s %llu - %.6g\n", rank, name, of, count, h->worst);
        }
}

static void print_generator(void)
{
    for (int metric = 0; metric < METRICS; metric++)
        for (long round = 0; round < method.rounds; round++) {
            const struct traffic traffic = traffic_of[round][metric];
            if (traffic.why)
                printf("generator %d %s %ld failed %s\n", rank, NAMES[metric], round, traffic.why);
            else
                printf("generator %d %s %ld %.5g %.5g\n", rank, NAMES[metric], round, traffic.sent,
                       traffic.received);
        }
}

/* The roles. Every rank must be here. */
static void choose_roles(void)
{
    int *const all = malloc((size_t)ranks * sizeof *all);
    MPI_Comm victims;
    if (!all) MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    for (int r = 0; r < ranks; r++) all[r] = r;
    shuffle(all, ranks, 0);
    for (int r = 0; r < ranks; r++)
        if (all[r] == rank) place = r;
    is_victim = place < method.victims;
    mates = is_victim ? all : all + method.victims;
    mate_count = is_victim ? (int)method.victims : ranks - (int)method.victims;
    if (!is_victim) place -= (int)method.victims;
    MPI_Comm_split(MPI_COMM_WORLD, is_victim ? 0 : MPI_UNDEFINED, place, &victims);
    for (long round = 0; is_victim && round < method.rounds; round++)
        for (int state = 0; state < STATES; state++) MPI_Comm_dup(victims, &reduced[round][state]);
    if (rank == 0) {
        printf("# nearmetal victims:");
        for (long r = 0; r < method.victims; r++) printf(" %d", all[r]);
        puts("");
    }
}

/* Whether no rank gave anything up: what is under way would keep MPI_Finalize waiting. */
static int all_are_done(void)
{
    int any = 1;
    MPI_Request request;
    MPI_Iallreduce(&gave_up, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    return done(1, &request) && !any;
}

/* Memory, touched: no page fault while something is timed. */
static void *zeroed(size_t bytes)
{
    void *const memory = malloc(bytes);
    if (!memory) {
        fprintf(stderr, "congestion: rank %d has no memory for messages; lower --bytes.\n", rank);
        MPI_Abort(MPI_COMM_WORLD, USAGE_ERROR);
    }
    return memset(memory, 0, bytes);
}

static void allocate(void)
{
    const size_t most =
        (size_t)(mate_count > RANDOM_RECEIVERS ? mate_count : RANDOM_RECEIVERS) * COPIES;
    if (!scramble(method.bytes > LONG ? method.bytes : LONG)) zeroed(SIZE_MAX);
    if (is_victim) {
        now_measured.bin = zeroed(BINS * sizeof *now_measured.bin);
        for (int i = 0; i < METRICS * STATES; i++)
            whole[i / STATES][i % STATES].bin = zeroed(BINS * sizeof *now_measured.bin);
        for (int m = 0; m < MESSAGES; m++) {
            send_buffer[m] = zeroed(LONG);
            memcpy(send_buffer[m] + sizeof(struct header), contents(rank, m),
                   LONG - sizeof(struct header));
            for (int side = 0; side < SIDES; side++) receive_buffer[side][m] = zeroed(LONG);
        }
        return;
    }
    receivers = zeroed(most * sizeof *receivers);
    senders = zeroed(most * sizeof *senders);
    under_way = zeroed(2 * most * sizeof *under_way);
    finished = zeroed(2 * most * sizeof *finished);
    choose_receivers(0);
    traffic_buffer = zeroed((size_t)(sender_count + 1) * (size_t)method.bytes);
    for (uint32_t last = 0; last < 2; last++) {
        const struct header head = {last, (uint32_t)rank};
        traffic_message[last] = zeroed((size_t)method.bytes);
        memcpy(traffic_message[last], &head, sizeof head);
        memcpy(traffic_message[last] + sizeof head, contents(rank, 0),
               (size_t)method.bytes - sizeof head);
    }
}

int main(int argc, char **argv)
{
    static char printed[1 << 16];
    program_name = "congestion";
    expect_start();
    rank = start_mpi(&argc, &argv, 0, &ranks);
    speaks = rank == 0;
    /* All that a rank prints is one write: MPICH's mpirun mixes what ranks write within a line. */
    setvbuf(stdout, printed, _IOFBF, sizeof printed);
    int status = parse_numbers(argc, argv, HELP, OPTIONS);
    if (!status && ranks < 4)
        status = complain(
            "2 victims and 2 generators need 4 ranks, but %d started; launch it with "
            "-n 4 or more.",
            ranks);
    if (method.victims == 0) method.victims = ranks < 10 ? 2 : ranks / 5;
    if (!status && (method.victims < 2 || method.victims > ranks - 2))
        status = complain("--victims is %ld of %d ranks; leave 2 or more for each role.",
                          method.victims, ranks);
    if (status) {
        MPI_Finalize();
        return status == HELP_GIVEN ? 0 : status;
    }
    print_program("congestion 1");
    choose_roles();
    allocate();
    if (rank == 0)
        printf(
            "# nearmetal method: seconds=%g rounds=%ld traffic=%ld victims=%ld seed=%ld "
            "bytes=%ld\n",
            method.seconds, method.rounds, method.traffic, method.victims, method.seed,
            method.bytes);
    fflush(stdout);
    all_started();
    meet();
    all_slots();
    printf("pause %d %.3g\n", rank, longest_pause);
    if (is_victim) print_victim();
    else print_generator();
    const int all_are_here = meet_again() && all_are_done();
    if (rank == 0) puts("# nearmetal complete");
    part(all_are_here);
    const size_t longest = (size_t)(method.bytes > LONG ? method.bytes : LONG);
    take_the_rest(malloc(longest), (int)longest);
    MPI_Finalize();
    return 0;
}
