/*
 * CG: the smallest eigenvalue of a large sparse matrix by inverse power
 * iteration, each step of which is 25 iterations of conjugate gradients
 * (report, 2.5).
 *
 * The matrix lies on a grid of `rows` x `columns` processes, columns being rows
 * or twice as many.  A vector is split over the columns and every row of the
 * grid has a copy; a product is summed over a row of the grid and then
 * exchanged with the process across the diagonal.  All messages go between two
 * processes, as in the official program, and each is as long as there.
 *
 * Build: mpi -O3
 */
#include "npb.h"

enum { CG_ITERATIONS = 25, LANES = 4, MOST_NONZEROS = 26 };
static const struct {
    int n, nonzeros, iterations;
    double shift, zeta;
} CLASS[CLASSES] = {
    {1400, 7, 15, 10, 8.5971775078648},        {7000, 8, 15, 12, 10.362595087124},
    {14000, 11, 15, 20, 17.130235054029},      {75000, 13, 75, 60, 22.712745482631},
    {150000, 15, 75, 110, 28.973605592845},    {1500000, 21, 100, 500, 52.514532105794},
    {9000000, 26, 100, 1500, 77.522164599383},
};
static const double RCOND = 0.1;

static int class, n, rows, columns, my_row, my_column;
static int first_row, row_count, first_column, column_count;
/* the grid is twice as wide as high: half of my rows are the vector that I hold */
static int half;
/* the process that holds my vector's part of the product, and wants its own */
static int across;
static int steps;       /* of a sum over a row of the grid */
static double *x, *z, *p, *q, *r, *w, *other;

static struct {
    int64_t *start; /* class E has more than 2^31 elements */
    int *column;
    double *value;
} matrix;

static int start_of(int part, int parts) { return (int)((long)n * part / parts); }

/* No more entries than the outer products have before equal places are added up, and the vectors
 * of the iteration. */
static double bytes(int c)
{
    const double width = CLASS[c].nonzeros + 1, longest = CLASS[c].n >> log_2(processes) / 2;
    return 12 * CLASS[c].n * width * width / processes + 7 * 8 * longest;
}

/* ---- the matrix: sum over i of w_i v_i v_i' with sparse random v_i, and RCOND - shift on the
 * diagonal */

/* The i-th vector; returns how many elements it has.  A value and a place a time; places beyond n
 * or already taken are passed over, and the i-th element is always 0.5. */
static int next_vector(uint64_t *state, int i, int *index, double *element)
{
    const int nonzeros = CLASS[class].nonzeros;
    int places = 1, length = 0, has_own = 0;
    while (places < n) places *= 2;
    while (length < nonzeros) {
        const double value = random_next(state);
        const int place = (int)(random_next(state) * places);
        int taken = place >= n;
        for (int k = 0; k < length && !taken; k++) taken = index[k] == place;
        if (taken) continue;
        index[length] = place;
        element[length++] = value;
    }
    for (int k = 0; k < length; k++)
        if (index[k] == i) {
            element[k] = 0.5;
            has_own = 1;
        }
    if (!has_own) {
        index[length] = i;
        element[length++] = 0.5;
    }
    return length;
}

static int by_number(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

/* Every outer product's entries behind one another in their row, then each row sorted and equal
 * places added up.  Each pass makes the vectors anew: all of class E take 3 GB. */
static void make_matrix(void)
{
    const double ratio = pow(RCOND, 1.0 / n);
    int64_t *const start = npb_allocate((size_t)row_count + 1, sizeof *start);
    int64_t *const end = npb_allocate((size_t)row_count, sizeof *end);
    memset(end, 0, (size_t)row_count * sizeof *end);
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        double weight = 1;
        uint64_t state = RANDOM_SEED;
        random_next(&state);
        for (int i = 0; i < n; i++, weight *= ratio) {
            int index[MOST_NONZEROS + 1];
            double element[MOST_NONZEROS + 1];
            const int length = next_vector(&state, i, index, element);
            for (int a = 0; a < length; a++) {
                const int row = index[a] - first_row;
                if (row < 0 || row >= row_count) continue;
                for (int b = 0; b < length; b++) {
                    const int column = index[b] - first_column;
                    if (column < 0 || column >= column_count) continue;
                    if (pass) {
                        matrix.column[end[row]] = column;
                        matrix.value[end[row]] =
                            weight * element[a] * element[b] +
                            (index[a] == i && index[b] == i ? RCOND - CLASS[class].shift : 0);
                    }
                    end[row]++;
                }
            }
        }
        if (pass) break;
        start[0] = 0;
        for (int row = 0; row < row_count; row++) {
            start[row + 1] = start[row] + end[row];
            end[row] = start[row];
        }
        matrix.column = npb_allocate((size_t)start[row_count], sizeof(int));
        matrix.value = npb_allocate((size_t)start[row_count], sizeof(double));
    }
    double *const sum = npb_allocate((size_t)column_count, sizeof(double));
    char *const seen = npb_allocate((size_t)column_count, 1);
    memset(seen, 0, (size_t)column_count);
    int64_t out = 0;
    for (int row = 0; row < row_count; row++) {
        const int64_t begin = out;
        for (int64_t k = start[row]; k < end[row]; k++) {
            const int column = matrix.column[k];
            sum[column] = seen[column] ? sum[column] + matrix.value[k] : matrix.value[k];
            if (!seen[column]) matrix.column[out++] = column;
            seen[column] = 1;
        }
        qsort(matrix.column + begin, (size_t)(out - begin), sizeof(int), by_number);
        for (int64_t k = begin; k < out; k++) {
            matrix.value[k] = sum[matrix.column[k]];
            seen[matrix.column[k]] = 0;
        }
        start[row] = begin;
    }
    start[row_count] = out;
    matrix.start = start;
    free(end);
    free(sum);
    free(seen);
}

/* ---- the grid of processes */

static void make_grid(void)
{
    rows = 1 << log_2(processes) / 2;
    columns = processes / rows;
    my_row = rank / columns;
    my_column = rank % columns;
    first_row = start_of(my_row, rows);
    row_count = start_of(my_row + 1, rows) - first_row;
    first_column = start_of(my_column, columns);
    column_count = start_of(my_column + 1, columns) - first_column;
    half = columns != rows;
    steps = log_2(columns);
    /* Whose vector part lies within my rows, at the same place of a pair of columns. */
    across =
        half ? my_column / 2 * columns + 2 * my_row + my_column % 2 : my_column * columns + my_row;
}

/* In the i-th step of a sum, the process whose column differs from mine in that bit. */
static int partner(int step) { return my_row * columns + (my_column ^ 1 << step); }

static void swap_with(int process, const double *send, int send_count, double *receive,
                      int receive_count)
{
    MPI_Request request;
    MPI_Irecv(receive, receive_count, MPI_DOUBLE, process, 0, MPI_COMM_WORLD, &request);
    MPI_Send(send, send_count, MPI_DOUBLE, process, 0, MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    npb_payload += (double)send_count * sizeof *send;
}

static void sum_over_row(double *values, int count)
{
    double others[2];
    for (int step = 0; step < steps; step++) {
        swap_with(partner(step), values, count, others, count);
        for (int i = 0; i < count; i++) values[i] += others[i];
    }
}

/* ---- the iteration */

static double dot(const double *restrict a, const double *restrict b)
{
    double lane[LANES] = {0};
    int i = 0;
    for (; i + LANES <= column_count; i += LANES)
        for (int l = 0; l < LANES; l++) lane[l] += a[i + l] * b[i + l];
    for (; i < column_count; i++) lane[0] += a[i] * b[i];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* Several sums at once, because each addition waits for the one before it. */
static void multiply(const double *restrict vector, double *restrict product)
{
    const int *restrict column = matrix.column;
    const double *restrict value = matrix.value;
    for (int row = 0; row < row_count; row++) {
        double lane[LANES] = {0};
        int64_t k = matrix.start[row];
        const int64_t end = matrix.start[row + 1];
        for (; k + LANES <= end; k += LANES)
            for (int l = 0; l < LANES; l++) lane[l] += value[k + l] * vector[column[k + l]];
        for (; k < end; k++) lane[0] += value[k] * vector[column[k]];
        product[row] = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    }
}

/* result = A vector, both split over the columns. */
static void apply(const double *vector, double *result)
{
    multiply(vector, w);
    /* The last step of a wide grid makes only what this process and its partner pass on. */
    const int left = start_of(2 * my_row + 1, 2 * rows) - first_row, low = my_column % 2 == 0;
    for (int step = steps - 1; step >= half; step--) {
        swap_with(partner(step), w, row_count, other, row_count);
        for (int i = 0; i < row_count; i++) w[i] += other[i];
    }
    double *kept = w;
    int count = row_count;
    if (half) {
        double *const passed = low ? w + left : w;
        kept = low ? w : w + left;
        count = low ? left : row_count - left;
        swap_with(partner(0), passed, row_count - count, other, count);
        for (int i = 0; i < count; i++) kept[i] += other[i];
    }
    if (across == rank) memcpy(result, kept, (size_t)count * sizeof *kept);
    else swap_with(across, kept, count, result, column_count);
}

/* Solves A z = x; returns the norm of the residual. */
static double conjugate_gradient(void)
{
    memset(z, 0, (size_t)column_count * sizeof *z);
    memcpy(r, x, (size_t)column_count * sizeof *r);
    memcpy(p, x, (size_t)column_count * sizeof *p);
    double rho = dot(r, r);
    sum_over_row(&rho, 1);
    for (int iteration = 0; iteration < CG_ITERATIONS; iteration++) {
        apply(p, q);
        double pq = dot(p, q);
        sum_over_row(&pq, 1);
        const double alpha = rho / pq, before = rho;
        for (int i = 0; i < column_count; i++) {
            z[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
        rho = dot(r, r);
        sum_over_row(&rho, 1);
        const double beta = rho / before;
        for (int i = 0; i < column_count; i++) p[i] = r[i] + beta * p[i];
    }
    apply(z, r);
    double norm = 0;
    for (int i = 0; i < column_count; i++) norm += (x[i] - r[i]) * (x[i] - r[i]);
    sum_over_row(&norm, 1);
    return sqrt(norm);
}

/* One step: x becomes z / |z|; returns zeta. */
static double power_step(double *residual)
{
    *residual = conjugate_gradient();
    double sums[2] = {dot(x, z), dot(z, z)};
    sum_over_row(sums, 2);
    const double scale = 1 / sqrt(sums[1]);
    for (int i = 0; i < column_count; i++) x[i] = scale * z[i];
    return CLASS[class].shift + 1 / sums[0];
}

int main(int argc, char **argv)
{
    static const struct kernel CG = {"CG", "floating point", .bytes = bytes};
    class = npb_start(argc, argv, &CG);
    n = CLASS[class].n;
    const int iterations = CLASS[class].iterations;
    npb_title("Size: %10d  (class %c)\n Iterations: %5d", n, CLASS_NAMES[class], iterations);
    make_grid();
    make_matrix();
    double **const parts[] = {&x, &z, &p, &q, &r, &w, &other};
    const int longest = row_count > column_count ? row_count : column_count;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        *parts[i] = npb_allocate((size_t)longest + 1, sizeof(double));
    double residual, zeta = 0, seconds = 0;
    if (rank == 0) puts("   iteration           ||r||                 zeta");
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        for (int i = 0; i < column_count; i++) x[i] = 1;
        npb_clock_start();
        for (int iteration = 1; iteration <= (rehearsal ? 1 : iterations); iteration++) {
            zeta = power_step(&residual);
            if (rank == 0 && !rehearsal)
                printf("    %5d       %20.14e%20.13f\n", iteration, residual, zeta);
            npb_iteration_done();
        }
        seconds = npb_clock_stop();
    }
    const double nonzeros = CLASS[class].nonzeros * (CLASS[class].nonzeros + 1.0);
    return npb_finish((struct outcome){
        .class = class,
        .size = {n},
        .iterations = iterations,
        .seconds = seconds,
        .mops = 2e-6 * iterations * n * (3 + nonzeros + CG_ITERATIONS * (5 + nonzeros) + 3),
        .verified = npb_agrees(zeta, CLASS[class].zeta, 1e-10),
    });
}
