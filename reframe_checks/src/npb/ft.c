/*
 * FT: a partial differential equation solved by Fourier transforms in three
 * dimensions (report, 2.4): one forward transform, then for each time step a
 * multiplication and an inverse one, and a checksum of the result.
 *
 * The grid lies on `across` x `along` processes: a process has all x, a share
 * of y (across) and of z (along); across is 1 unless there are more processes
 * than planes.  Transforms in y and z need all of that direction, which an
 * all-to-all among the processes of a row or column gives.  Arrays are kept in
 * the blocks that the next all-to-all sends, so that nothing is packed.
 *
 * Build: mpi -O3
 */
#include "npb.h"

enum { BATCH = 16, APART = 24, MOST_STEPS = 25, MOST_POINTS = 4096, CHECKED = 1024 };
static const struct {
    int n[3], steps;
    double sum[MOST_STEPS][2];
} CLASS[CLASSES] = {
#include "ft_checksums.h"
};

typedef struct {
    double re, im;
} number;

static int class, nx, ny, nz;
static int across, along, my_across, my_along;
/* y_share of the columns that I hold in space, z_share of the planes */
static int x_share, y_share, z_share;
static int y_part;                    /* of the columns in Fourier space */
/* those who share my planes, and those who share my columns */
static MPI_Comm row, column;
static number *fourier, *space, *moved;
static int circle = 512;               /* 512, or the points of a longer axis */
static number roots[MOST_POINTS];     /* exp(-2 pi i k / circle) */
static double decay[3][MOST_POINTS];  /* what a time step leaves of a frequency */
/* apart by no power of two: they would share the sets of a cache */
static double work[4][MOST_POINTS * BATCH + APART];

static int smaller(int a, int b) { return a < b ? a : b; }

static double bytes(int c)
{
    const double points = (double)CLASS[c].n[0] * CLASS[c].n[1] * CLASS[c].n[2];
    return (processes > 1 ? 3 : 2) * sizeof(number) * points / processes;
}

/* MPI counts the points that a process sends to another in 31 bits. */
static long fewest(int c)
{
    return ldexp(CLASS[c].n[0], -31) * CLASS[c].n[1] * CLASS[c].n[2] < 4 ? 1 : 4;
}

static long most(int c)
{
    const int *const n = CLASS[c].n;
    return (long)smaller(n[1], n[2]) * smaller(n[0], n[1]);
}

/* ---- transforms of `s` interleaved lines of n points: self-sorting (Stockham), by fours and at
 * the end by two */

static void by_four(int n, int s, const double *restrict xr, const double *restrict xi,
                    double *restrict yr, double *restrict yi)
{
    const int quarter = n / 4, stride = circle / n;
    for (int p = 0; p < quarter; p++) {
        const number w1 = roots[p * stride], w2 = roots[2 * p * stride], w3 = roots[3 * p * stride];
        const int a = s * p, b = a + s * quarter, c = b + s * quarter, d = c + s * quarter,
                  to = 4 * s * p;
        for (int q = 0; q < s; q++) {
            const double sum_r = xr[a + q] + xr[c + q], sum_i = xi[a + q] + xi[c + q];
            const double difference_r = xr[a + q] - xr[c + q], difference_i = xi[a + q] - xi[c + q];
            const double odd_r = xr[b + q] + xr[d + q], odd_i = xi[b + q] + xi[d + q];
            const double turned_r = xi[b + q] - xi[d + q], turned_i = xr[d + q] - xr[b + q];
            const double one_r = difference_r + turned_r, one_i = difference_i + turned_i;
            const double two_r = sum_r - odd_r, two_i = sum_i - odd_i;
            const double three_r = difference_r - turned_r, three_i = difference_i - turned_i;
            yr[to + q] = sum_r + odd_r;
            yi[to + q] = sum_i + odd_i;
            yr[to + s + q] = one_r * w1.re - one_i * w1.im;
            yi[to + s + q] = one_r * w1.im + one_i * w1.re;
            yr[to + 2 * s + q] = two_r * w2.re - two_i * w2.im;
            yi[to + 2 * s + q] = two_r * w2.im + two_i * w2.re;
            yr[to + 3 * s + q] = three_r * w3.re - three_i * w3.im;
            yi[to + 3 * s + q] = three_r * w3.im + three_i * w3.re;
        }
    }
}

static void by_two(int s, const double *restrict x, double *restrict y)
{
    for (int q = 0; q < s; q++) {
        y[q] = x[q] + x[s + q];
        y[s + q] = x[q] - x[s + q];
    }
}

/* Of what stands in work[0] (real) and work[1]; returns 0 or 2, where the result stands.  An
 * inverse transform is a forward one with the parts exchanged. */
static int transform(int n, int s, int inverse)
{
    int at = 0;
    for (; n >= 4; n /= 4, s *= 4, at ^= 2)
        by_four(n, s, work[at + inverse], work[at + !inverse], work[(at ^ 2) + inverse],
                work[(at ^ 2) + !inverse]);
    if (n == 2) {
        by_two(s, work[at], work[at ^ 2]);
        by_two(s, work[at + 1], work[(at ^ 2) + 1]);
        at ^= 2;
    }
    return at;
}

static inline void take(const number *restrict from, int to, int count)
{
    for (int i = 0; i < count; i++) {
        work[0][to + i] = from[i].re;
        work[1][to + i] = from[i].im;
    }
}

static inline void give(number *restrict to, int at, int from, int count)
{
    for (int i = 0; i < count; i++) {
        to[i].re = work[at][from + i];
        to[i].im = work[at + 1][from + i];
    }
}

/* ---- where things stand */

/* Row (y, z) of blocks of `chunk` columns and `width` points a row, as an all-to-all over y sends
 * or receives them. */
static size_t row_at(int z, int y, int chunk, int width)
{
    return (((size_t)(y / chunk) * (size_t)z_share + (size_t)z) * (size_t)chunk +
            (size_t)(y % chunk)) *
           (size_t)width;
}

/* Of my columns y and planes z in space: the beginning of a row, whose pieces stand `x_apart` from
 * each other. */
static size_t x_row(int z, int y)
{
    return across > 1 ? ((size_t)z * (size_t)y_share + (size_t)y) * (size_t)x_share
                      : row_at(z, y, y_part, nx);
}

static size_t x_apart(void) { return (size_t)z_share * (size_t)y_share * (size_t)x_share; }

/* ---- transforms of all lines of a direction, of one plane or of all */

static void x_lines(number *data, int z, int inverse)
{
    const int batch = smaller(BATCH, y_share), pieces = nx / x_share;
    for (int y = 0; y < y_share; y += batch) {
        for (int b = 0; b < batch; b++)
            for (int piece = 0; piece < pieces; piece++) {
                const number *const from = data + x_row(z, y + b) + (size_t)piece * x_apart();
                for (int x = 0; x < x_share; x++) {
                    work[0][(piece * x_share + x) * batch + b] = from[x].re;
                    work[1][(piece * x_share + x) * batch + b] = from[x].im;
                }
            }
        const int at = transform(nx, batch, inverse);
        for (int b = 0; b < batch; b++)
            for (int piece = 0; piece < pieces; piece++) {
                number *const to = data + x_row(z, y + b) + (size_t)piece * x_apart();
                for (int x = 0; x < x_share; x++) {
                    to[x].re = work[at][(piece * x_share + x) * batch + b];
                    to[x].im = work[at + 1][(piece * x_share + x) * batch + b];
                }
            }
    }
}

static void y_lines(const number *from, int from_chunk, number *to, int to_chunk, int z,
                    int inverse)
{
    const int batch = smaller(BATCH, x_share);
    for (int x = 0; x < x_share; x += batch) {
        for (int y = 0; y < ny; y++)
            take(from + row_at(z, y, from_chunk, x_share) + x, y * batch, batch);
        const int at = transform(ny, batch, inverse);
        for (int y = 0; y < ny; y++)
            give(to + row_at(z, y, to_chunk, x_share) + x, at, y * batch, batch);
    }
}

/* With `step` the spectrum decays by one time step first, which stays in `from`. */
static void z_lines(number *from, number *to, int inverse, int step)
{
    const int batch = smaller(BATCH, x_share);
    const size_t plane = (size_t)y_part * (size_t)x_share;
    for (int y = 0; y < y_part; y++)
        for (int x = 0; x < x_share; x += batch) {
            const size_t line = (size_t)y * (size_t)x_share + (size_t)x;
            for (int z = 0; z < nz; z++) {
                number *const here = from + (size_t)z * plane + line;
                if (step) {
                    const double *const factor = decay[0] + my_across * x_share + x;
                    const double common = decay[1][my_along * y_part + y] * decay[2][z];
                    for (int b = 0; b < batch; b++) {
                        here[b].re *= common * factor[b];
                        here[b].im *= common * factor[b];
                    }
                }
                take(here, z * batch, batch);
            }
            const int at = transform(nz, batch, inverse);
            for (int z = 0; z < nz; z++) give(to + (size_t)z * plane + line, at, z * batch, batch);
        }
}

static void exchange(const number *from, number *to, MPI_Comm group, int size)
{
    const int count = (int)((size_t)z_share * (size_t)ny * (size_t)x_share / (size_t)size);
    MPI_Alltoall(from, count, MPI_C_DOUBLE_COMPLEX, to, count, MPI_C_DOUBLE_COMPLEX, group);
    npb_payload += (double)(size - 1) * count * sizeof *from;
}

/* From `space` to `fourier`. */
static void forward(void)
{
    number *ready = space;
    if (across == 1) {
        /* a plane is still in the cache for its second direction */
        for (int z = 0; z < z_share; z++) {
            x_lines(space, z, 0);
            y_lines(space, y_part, space, y_part, z, 0);
        }
    } else {
        for (int z = 0; z < z_share; z++) x_lines(space, z, 0);
        exchange(space, moved, row, across);
        for (int z = 0; z < z_share; z++) y_lines(moved, y_share, space, y_part, z, 0);
    }
    if (along > 1) {
        exchange(space, moved, column, along);
        ready = moved;
    }
    z_lines(ready, fourier, 0, 0);
}

/* One time step, from `fourier`; returns where the result stands. */
static number *inverse(void)
{
    number *ready = space;
    z_lines(fourier, space, 1, 1);
    if (along > 1) {
        exchange(space, moved, column, along);
        ready = moved;
    }
    if (across == 1) {
        for (int z = 0; z < z_share; z++) {
            y_lines(ready, y_part, ready, y_part, z, 1);
            x_lines(ready, z, 1);
        }
        return ready;
    }
    for (int z = 0; z < z_share; z++) y_lines(ready, y_part, space, y_share, z, 1);
    exchange(space, moved, row, across);
    for (int z = 0; z < z_share; z++) x_lines(moved, z, 1);
    return moved;
}

/* ---- the problem */

/* Random numbers in the order of the whole grid. */
static void initial_conditions(void)
{
    for (int z = 0; z < z_share; z++)
        for (int y = 0; y < y_share; y++) {
            const uint64_t before = ((uint64_t)(my_along * z_share + z) * (uint64_t)ny +
                                     (uint64_t)(my_across * y_share + y)) *
                                    (uint64_t)nx;
            uint64_t state = random_skip(RANDOM_SEED, 2 * before);
            for (int x = 0; x < nx; x++) {
                number *const point =
                    space + x_row(z, y) + (size_t)(x / x_share) * x_apart() + (size_t)(x % x_share);
                point->re = random_next(&state);
                point->im = random_next(&state);
            }
        }
}

static void make_tables(void)
{
    const double pi = acos(-1), alpha = 1e-6;
    for (int k = 0; k < circle; k++)
        roots[k] = (number){cos(2 * pi * k / circle), -sin(2 * pi * k / circle)};
    for (int axis = 0; axis < 3; axis++) {
        const int n = CLASS[class].n[axis];
        for (int k = 0; k < n; k++) {
            const double frequency = k < n / 2 ? k : k - n;
            decay[axis][k] = exp(-4 * alpha * pi * pi * frequency * frequency);
        }
    }
}

static number checksum(const number *result)
{
    number sum = {0, 0}, all;
    for (int j = 1; j <= CHECKED; j++) {
        const int x = j % nx, y = 3 * j % ny - my_across * y_share,
                  z = 5 * j % nz - my_along * z_share;
        if (y < 0 || y >= y_share || z < 0 || z >= z_share) continue;
        const number point =
            result[x_row(z, y) + (size_t)(x / x_share) * x_apart() + (size_t)(x % x_share)];
        sum.re += point.re;
        sum.im += point.im;
    }
    MPI_Reduce(&sum, &all, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    const double points = (double)nx * ny * nz;
    return (number){all.re / points, all.im / points};
}

static void make_grid(void)
{
    nx = CLASS[class].n[0];
    ny = CLASS[class].n[1];
    nz = CLASS[class].n[2];
    for (int axis = 0; axis < 3; axis++)
        if (CLASS[class].n[axis] > circle) circle = CLASS[class].n[axis];
    along = smaller(processes, smaller(ny, nz));
    across = processes / along;
    my_across = rank % across;
    my_along = rank / across;
    MPI_Comm_split(MPI_COMM_WORLD, my_along, my_across, &row);
    MPI_Comm_split(MPI_COMM_WORLD, my_across, my_along, &column);
    x_share = nx / across;
    y_share = ny / across;
    z_share = nz / along;
    y_part = ny / along;
    const size_t points = (size_t)x_share * (size_t)ny * (size_t)z_share;
    fourier = npb_allocate(points, sizeof *fourier);
    space = npb_allocate(points, sizeof *space);
    if (processes > 1) moved = npb_allocate(points, sizeof *moved);
}

int main(int argc, char **argv)
{
    static const struct kernel FT = {"FT", "floating point", bytes, fewest, most};
    class = npb_start(argc, argv, &FT);
    const int steps = CLASS[class].steps;
    make_grid();
    npb_title("Size                : %4dx%4dx%4d\n Iterations          :        %7d", nx, ny, nz,
              steps);
    int verified = 1;
    number sums[MOST_STEPS];
    double seconds = 0;
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        npb_clock_start();
        make_tables();
        initial_conditions();
        forward();
        for (int step = 0; step < (rehearsal ? 1 : steps); step++) {
            sums[step] = checksum(inverse());
            npb_iteration_done();
        }
        seconds = npb_clock_stop();
    }
    const double points = (double)nx * ny * nz;
    for (int step = 0; step < steps && rank == 0; step++) {
        const number sum = sums[step];
        const double *const official = CLASS[class].sum[step];
        printf(" T = %4d     Checksum = %22.12e %22.12e\n", step + 1, sum.re, sum.im);
        verified = verified && npb_agrees(sum.re, official[0], 1e-12) &&
                   npb_agrees(sum.im, official[1], 1e-12);
    }
    return npb_finish((struct outcome){
        .class = class,
        .size = {nx, ny, nz},
        .iterations = steps,
        .seconds = seconds,
        .verified = verified,
        .mops = 1e-6 * points *
                (14.8157 + 7.19641 * log(points) + (5.23518 + 7.21113 * log(points)) * steps),
    });
}
