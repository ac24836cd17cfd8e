/*
 * EP, "embarrassingly parallel": 2^m pairs of Gaussian deviates by the polar method, counted by
 * rings (report, 2.2).
 *
 * Build: mpi -O3
 */
#include "npb.h"

enum { BATCH = 1 << 16, RINGS = 10, PARTS = 16 };
static const struct {
    int m;
    double sx, sy;
} CLASS[CLASSES] = {
    {24, -3.247834652034740e+3, -6.958407078382297e+3},
    {25, -2.863319731645753e+3, -6.320053679109499e+3},
    {28, -4.295875165629892e+3, -1.580732573678431e+4},
    {30, 4.033815542441498e+4, -2.660669192809235e+4},
    {32, 4.764367927995374e+4, -8.084072988043731e+4},
    {36, 1.982481200946593e+5, -1.020596636361769e+5},
    {40, -5.319717441530e+5, -3.688834557731e+5},
};
static const uint64_t SEED = 271828183;

static struct {
    double x, y, rings[RINGS];
} sum;
static double numbers[2 * BATCH];

static double bytes(int class)
{
    (void)class;
    return sizeof numbers;
}

static long most(int class) { return (1L << CLASS[class].m) / BATCH; }

/* The numbers first and the logarithms afterwards, so that either loop runs at its own speed. */
static void one_batch(uint64_t number)
{
    uint64_t state = random_skip(SEED, number * 2 * BATCH);
    for (int i = 0; i < 2 * BATCH; i++) numbers[i] = 2 * random_next(&state) - 1;
    for (int i = 0; i < BATCH; i++) {
        const double x = numbers[2 * i], y = numbers[2 * i + 1], square = x * x + y * y;
        if (square > 1) continue;
        const double factor = sqrt(-2 * log(square) / square), gx = x * factor, gy = y * factor;
        sum.rings[(int)fmax(fabs(gx), fabs(gy))]++;
        sum.x += gx;
        sum.y += gy;
    }
}

int main(int argc, char **argv)
{
    static const struct kernel EP = {"EP", "Random numbers generated", bytes, .most = most};
    const int class = npb_start(argc, argv, &EP), m = CLASS[class].m;
    npb_title("Number of random numbers generated: %.0f", ldexp(1, m + 1));
    const uint64_t batches = ((uint64_t)1 << m) / BATCH;
    double seconds = 0;
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        const uint64_t mine = rehearsal ? 1 : batches / (uint64_t)processes,
                       parts = mine < PARTS ? mine : PARTS;
        memset(&sum, 0, sizeof sum);
        npb_clock_start();
        for (uint64_t part = 0; part < parts; part++) {
            for (uint64_t batch = mine * part / parts; batch < mine * (part + 1) / parts; batch++)
                one_batch((uint64_t)rank * mine + batch);
            npb_iteration_done();
        }
        MPI_Allreduce(MPI_IN_PLACE, &sum, 2 + RINGS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        seconds = npb_clock_stop();
    }
    if (rank == 0) {
        double pairs = 0;
        for (int ring = 0; ring < RINGS; ring++) pairs += sum.rings[ring];
        printf(
            " EP Benchmark Results:\n\n N = 2^%5d\n No. Gaussian Pairs = %15.0f\n Sums = %25.15e "
            "%25.15e\n Counts:\n",
            m, pairs, sum.x, sum.y);
        for (int ring = 0; ring < RINGS; ring++) printf("%3d %15.0f\n", ring, sum.rings[ring]);
    }
    return npb_finish((struct outcome){
        .class = class,
        .size = {(long)ldexp(1, m + 1)},
        .seconds = seconds,
        .mops = ldexp(1, m + 1) * 1e-6,
        .verified =
            npb_agrees(sum.x, CLASS[class].sx, 1e-8) && npb_agrees(sum.y, CLASS[class].sy, 1e-8),
    });
}
