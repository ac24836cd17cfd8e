/*
 * MG: a Poisson equation on a periodic cube by V-cycles of a multigrid method
 * (report, 2.3): 27-point stencils, and after each the planes on all six sides
 * exchanged with the neighbours.
 *
 * The cube is split over px x py x pz processes.  Levels on which a process
 * would have fewer than two points in a direction are so small that every
 * process computes them whole, from one all-gather; up to 8 processes those
 * are the coarsest one or two, where the official program goes on exchanging.
 *
 * Build: mpi -O3
 */
#include "npb.h"

enum { MOST_LEVELS = 11, AXES = 3, CHARGES = 10 };
static const struct {
    int levels, iterations;
    double norm, smoother[3];
} CLASS[CLASSES] = {
    {5, 4, 0.5307707005734e-04, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {7, 4, 0.6467329375339e-05, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {8, 4, 0.2433365309069e-05, {-3.0 / 8, 1.0 / 32, -1.0 / 64}},
    {8, 20, 0.1800564401355e-05, {-3.0 / 17, 1.0 / 33, -1.0 / 61}},
    {9, 20, 0.5706732285740e-06, {-3.0 / 17, 1.0 / 33, -1.0 / 61}},
    {10, 50, 0.1583275060440e-09, {-3.0 / 17, 1.0 / 33, -1.0 / 61}},
    {11, 50, 0.5630442584711e-10, {-3.0 / 17, 1.0 / 33, -1.0 / 61}},
};
static const double STENCIL_CENTRE = -8.0 / 3, STENCIL_EDGE = 1.0 / 6, STENCIL_CORNER = 1.0 / 12;

/* Of one level: u the solution, r the residual, with a ghost point on either side; m points in each
 * direction. */
struct level {
    int m[AXES], split[AXES];
    double *u, *r;
};

static int class, levels, lowest; /* `lowest` is the coarsest that is split */
static int grid[AXES], place[AXES], neighbour[AXES][2];
/* block: my part of the finest level that is not split */
static struct level level[MOST_LEVELS + 1], block;
static double *v, *line1, *line2, *line3, *outgoing, *incoming, *gathered;

static void make_shares(int count, int share[AXES])
{
    /* slabs of four give no more points to the neighbours than squares do */
    const int log = count > 4 ? log_2(count) : 0;
    share[0] = 1 << log / 3;
    share[1] = 1 << (log - log / 3) / 2;
    share[2] = count / share[0] / share[1];
}

/* Of `share` processes along the z axis, which is split most. */
static int lowest_of(int share) { return processes == 1 ? 1 : 1 + log_2(share); }

static double bytes(int c)
{
    int share[AXES];
    make_shares(processes, share);
    double all = 0;
    for (int l = CLASS[c].levels; l > 0; l--) {
        const int split = l >= lowest_of(share[2]);
        double points = 1;
        for (int axis = 0; axis < AXES; axis++)
            points *= (double)(1 << l) / (split ? share[axis] : 1) + 2;
        all += (l == CLASS[c].levels ? 3 : 2) * 8 * points;
    }
    return all;
}

/* Every process has two points or more of the finest level in each direction. */
static long most(int c) { return 1L << 3 * (CLASS[c].levels - 1); }

static size_t points_of(const struct level *l)
{
    return (size_t)l->m[0] * (size_t)l->m[1] * (size_t)l->m[2];
}
static size_t row_of(const struct level *l, int y, int z)
{
    return ((size_t)z * (size_t)l->m[1] + (size_t)y) * (size_t)l->m[0];
}

/* ---- ghost points */

/* Copies the points of plane `at` of an axis, out of (or into) a buffer; returns how many. Axes
 * already done go with their ghost points, so that edges and corners arrive too. */
static int plane(const struct level *l, double *data, double *buffer, int axis, int at, int out)
{
    int count = 0, low[AXES], high[AXES];
    for (int a = 0; a < AXES; a++) {
        low[a] = a < axis ? 0 : a == axis ? at : 1;
        high[a] = a < axis ? l->m[a] : a == axis ? at + 1 : l->m[a] - 1;
    }
    const int width = high[0] - low[0];
    for (int z = low[2]; z < high[2]; z++)
        for (int y = low[1]; y < high[1]; y++, count += width) {
            double *const row = data + row_of(l, y, z) + low[0];
            if (width == 1) {
                if (out) buffer[count] = *row;
                else *row = buffer[count];
            } else if (out) {
                memcpy(buffer + count, row, (size_t)width * sizeof *row);
            } else {
                memcpy(row, buffer + count, (size_t)width * sizeof *row);
            }
        }
    return count;
}

/* From the neighbours of one axis. */
static void exchange(const struct level *l, double *data, int axis)
{
    const int last = l->m[axis] - 1;
    if (l->split[axis] == 1) { /* periodic within this process */
        plane(l, data, outgoing, axis, last - 1, 1);
        plane(l, data, outgoing, axis, 0, 0);
        plane(l, data, outgoing, axis, 1, 1);
        plane(l, data, outgoing, axis, last, 0);
        return;
    }
    const int room = (int)(points_of(l) / (size_t)l->m[axis]);
    MPI_Request requests[2];
    for (int side = 0; side < 2; side++) /* tagged with the side that it is sent from */
        MPI_Irecv(incoming + side * room, room, MPI_DOUBLE, neighbour[axis][side], !side,
                  MPI_COMM_WORLD, &requests[side]);
    for (int side = 0; side < 2; side++) {
        const int count = plane(l, data, outgoing, axis, side ? last - 1 : 1, 1);
        MPI_Send(outgoing, count, MPI_DOUBLE, neighbour[axis][side], side, MPI_COMM_WORLD);
        npb_payload += (double)count * sizeof *outgoing;
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int side = 0; side < 2; side++)
        plane(l, data, incoming + side * room, axis, side ? last : 0, 0);
}

static void fill_ghosts(const struct level *l, double *data)
{
    for (int axis = 0; axis < AXES; axis++) exchange(l, data, axis);
}

/* Of one z only, where x and y are not split. */
static void wrap(const struct level *l, double *data, int z)
{
    const size_t width = (size_t)l->m[0], rows = (size_t)l->m[1];
    double *const at = data + row_of(l, 0, z);
    for (double *row = at + width; row < at + (rows - 1) * width; row += width) {
        row[0] = row[width - 2];
        row[width - 1] = row[1];
    }
    memcpy(at, at + (rows - 2) * width, width * sizeof *at);
    memcpy(at + (rows - 1) * width, at + width, width * sizeof *at);
}

/* ---- the four operators, z by z; sums that neighbouring points share are made once a row */

/* The four faces and the four edges around a row, point by point. */
static void sum_around(const struct level *l, const double *data, int y, int z,
                       double *restrict faces, double *restrict edges)
{
    const double *const down = data + row_of(l, y - 1, z);
    const double *const up = data + row_of(l, y + 1, z);
    const double *const front = data + row_of(l, y, z - 1);
    const double *const back = data + row_of(l, y, z + 1);
    const double *const a = data + row_of(l, y - 1, z - 1);
    const double *const b = data + row_of(l, y + 1, z - 1);
    const double *const c = data + row_of(l, y - 1, z + 1);
    const double *const d = data + row_of(l, y + 1, z + 1);
    for (int x = 0; x < l->m[0]; x++) {
        faces[x] = down[x] + up[x] + front[x] + back[x];
        edges[x] = a[x] + b[x] + c[x] + d[x];
    }
}

/* r = right - A u for one z; `right` may be r itself. */
static void residual(const struct level *l, const double *right, int z)
{
    for (int y = 1; y < l->m[1] - 1; y++) {
        sum_around(l, l->u, y, z, line1, line2);
        const double *const u = l->u + row_of(l, y, z);
        const double *const f = right + row_of(l, y, z);
        double *const out = l->r + row_of(l, y, z);
#pragma GCC ivdep
        for (int x = 1; x < l->m[0] - 1; x++)
            out[x] = f[x] - STENCIL_CENTRE * u[x] -
                     STENCIL_EDGE * (line2[x] + line1[x - 1] + line1[x + 1]) -
                     STENCIL_CORNER * (line2[x - 1] + line2[x + 1]);
    }
}

/* u = u + S r for one z; `fresh`: u was zero. */
static void smooth(const struct level *l, int z, int fresh)
{
    const double *const c = CLASS[class].smoother, kept = fresh ? 0 : 1;
    for (int y = 1; y < l->m[1] - 1; y++) {
        sum_around(l, l->r, y, z, line1, line2);
        const double *const r = l->r + row_of(l, y, z);
        double *const u = l->u + row_of(l, y, z);
#pragma GCC ivdep
        for (int x = 1; x < l->m[0] - 1; x++)
            u[x] = kept * u[x] + c[0] * r[x] + c[1] * (r[x - 1] + r[x + 1] + line1[x]) +
                   c[2] * (line2[x] + line1[x - 1] + line1[x + 1]);
    }
}

/* The fine residual onto the coarse grid: full weighting about every second point. */
static void restrict_to(const struct level *fine, const struct level *coarse)
{
    for (int z = 1; z < coarse->m[2] - 1; z++)
        for (int y = 1; y < coarse->m[1] - 1; y++) {
            sum_around(fine, fine->r, 2 * y, 2 * z, line1, line2);
            const double *const r = fine->r + row_of(fine, 2 * y, 2 * z);
            double *const out = coarse->r + row_of(coarse, y, z);
            for (int x = 1; x < coarse->m[0] - 1; x++) {
                const int i = 2 * x;
                out[x] = 0.5 * r[i] + 0.25 * (r[i - 1] + r[i + 1] + line1[i]) +
                         0.125 * (line1[i - 1] + line1[i + 1] + line2[i]) +
                         0.0625 * (line2[i - 1] + line2[i + 1]);
            }
        }
}

/* The coarse solution between one z and the next, interpolated, becomes the fine one at 2 z and
 * 2 z + 1, or (`add`) its correction; ghost points included. */
static void prolong(const struct level *coarse, const struct level *fine, int z, int add)
{
    const double kept = add ? 1 : 0;
    const int width = coarse->m[0] - 1;
    for (int y = 0; y < coarse->m[1] - 1; y++) {
        const double *const here = coarse->u + row_of(coarse, y, z);
        const double *const up = coarse->u + row_of(coarse, y + 1, z);
        const double *const back = coarse->u + row_of(coarse, y, z + 1);
        const double *const both = coarse->u + row_of(coarse, y + 1, z + 1);
        for (int x = 0; x <= width; x++) {
            line1[x] = up[x] + here[x];
            line2[x] = back[x] + here[x];
            line3[x] = both[x] + back[x] + line1[x];
        }
        const double *const source[] = {here, line1, line2, line3};
        const double weight[] = {1, 0.5, 0.5, 0.25};
        for (int corner = 0; corner < 4; corner++) {
            const double *const s = source[corner], w = weight[corner], half = w / 2;
            double *const u = fine->u + row_of(fine, 2 * y + (corner & 1), 2 * z + (corner >> 1));
#pragma GCC ivdep
            for (int x = 0; x < width; x++) {
                u[2 * x] = kept * u[2 * x] + w * s[x];
                u[2 * x + 1] = kept * u[2 * x + 1] + half * (s[x] + s[x + 1]);
            }
        }
    }
}

/* ---- the levels that all processes compute whole */

static void gather_block(const struct level *whole)
{
    const int n[AXES] = {block.m[0] - 2, block.m[1] - 2, block.m[2] - 2},
              count = n[0] * n[1] * n[2];
    double *out = outgoing;
    for (int z = 1; z <= n[2]; z++)
        for (int y = 1; y <= n[1]; y++, out += n[0])
            memcpy(out, block.r + row_of(&block, y, z) + 1, (size_t)n[0] * sizeof *out);
    MPI_Allgather(outgoing, count, MPI_DOUBLE, gathered, count, MPI_DOUBLE, MPI_COMM_WORLD);
    npb_payload += (double)(processes - 1) * count * sizeof *outgoing;
    const double *in = gathered;
    for (int p = 0; p < processes; p++) {
        const int from[AXES] = {p % grid[0] * n[0], p / grid[0] % grid[1] * n[1],
                                p / grid[0] / grid[1] * n[2]};
        for (int z = 1; z <= n[2]; z++)
            for (int y = 1; y <= n[1]; y++, in += n[0])
                memcpy(whole->r + row_of(whole, from[1] + y, from[2] + z) + from[0] + 1, in,
                       (size_t)n[0] * sizeof *in);
    }
}

static void cut_block(const struct level *whole)
{
    for (int z = 0; z < block.m[2]; z++)
        for (int y = 0; y < block.m[1]; y++)
            memcpy(block.u + row_of(&block, y, z),
                   whole->u +
                       row_of(whole, place[1] * (block.m[1] - 2) + y,
                              place[2] * (block.m[2] - 2) + z) +
                       place[0] * (block.m[0] - 2),
                   (size_t)block.m[0] * sizeof(double));
}

/* ---- the cycle */

static void residual_everywhere(const struct level *l, const double *right)
{
    for (int z = 1; z < l->m[2] - 1; z++) residual(l, right, z);
    fill_ghosts(l, l->r);
}

/* The coarse correction, what is left of the residual, the smoother and, on the finest level, the
 * residual again.  Where x and y are not split, all follow each other from z to z, so that memory
 * is read and written once for all four; the outermost z wait for the neighbours. */
static void ascend(const struct level *coarse, const struct level *l)
{
    const int finest = l == &level[levels], last = l->m[2] - 2;
    const double *const right = finest ? v : l->r;
    if (l->split[0] > 1 || l->split[1] > 1) {
        for (int z = 0; z < coarse->m[2] - 1; z++) prolong(coarse, l, z, finest);
        residual_everywhere(l, right);
        for (int z = 1; z <= last; z++) smooth(l, z, 0);
        fill_ghosts(l, l->u);
        if (finest) residual_everywhere(l, right);
        return;
    }
    for (int z = 1, corrected = 0; z <= last; z++) {
        for (; 2 * corrected <= z + 1; corrected++) prolong(coarse, l, corrected, finest);
        residual(l, right, z);
        wrap(l, l->r, z);
        if (z < 3) continue;
        smooth(l, z - 1, 0);
        wrap(l, l->u, z - 1);
        if (z < 5 || !finest) continue;
        residual(l, right, z - 2); /* the smoother is through with this z and its neighbours */
        wrap(l, l->r, z - 2);
    }
    exchange(l, l->r, 2);
    for (int z = 1; z <= last; z += last - 1) {
        smooth(l, z, 0);
        wrap(l, l->u, z);
    }
    exchange(l, l->u, 2);
    if (!finest) return;
    const int outermost[] = {1, 2, last - 1, last};
    for (int i = 0; i < 4; i++) {
        residual(l, right, outermost[i]);
        wrap(l, l->r, outermost[i]);
    }
    exchange(l, l->r, 2);
}

/* Begins and ends with the residual of the finest level. */
static void v_cycle(void)
{
    for (int l = levels; l > 1; l--) {
        const int leaves = l == lowest;
        const struct level *const coarse = leaves ? &block : &level[l - 1];
        restrict_to(&level[l], coarse);
        if (leaves) gather_block(&level[l - 1]);
        fill_ghosts(&level[l - 1], level[l - 1].r);
    }
    for (int z = 1; z < level[1].m[2] - 1; z++) smooth(&level[1], z, 1);
    fill_ghosts(&level[1], level[1].u);
    for (int l = 2; l <= levels; l++) {
        if (l == lowest) cut_block(&level[l - 1]);
        ascend(l == lowest ? &block : &level[l - 1], &level[l]);
    }
}

/* ---- the problem */

static double norm(void)
{
    const struct level *const l = &level[levels];
    double sum = 0;
    for (int z = 1; z < l->m[2] - 1; z++)
        for (int y = 1; y < l->m[1] - 1; y++) {
            const double *const r = l->r + row_of(l, y, z);
            for (int x = 1; x < l->m[0] - 1; x++) sum += r[x] * r[x];
        }
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return sqrt(sum / ldexp(1, 3 * levels));
}

struct charge {
    double value;
    int64_t at; /* x + n (y + n z) in the whole cube */
};

/* Keeps the ten smallest, in order. */
static void keep(struct charge *smallest, double value, int64_t at)
{
    int i = CHARGES - 1;
    if (value >= smallest[i].value) return;
    for (; i > 0 && smallest[i - 1].value > value; i--) smallest[i] = smallest[i - 1];
    smallest[i] = (struct charge){value, at};
}

/* Of two processes' charges; both signs are elements of a reduction. */
static void merge(void *theirs, void *mine, int *signs, MPI_Datatype *type)
{
    (void)type;
    const struct charge *from = theirs;
    struct charge *to = mine;
    for (int sign = 0; sign < *signs; sign++, to += CHARGES)
        for (int i = 0; i < CHARGES; i++, from++) keep(to, from->value, from->at);
}

/* +1 at the ten largest of the random numbers that fill the cube, -1 at the ten smallest. */
static void place_charges(void)
{
    const struct level *const l = &level[levels];
    const int n = 1 << levels;
    struct charge found[2][CHARGES];
    for (int i = 0; i < CHARGES; i++) found[0][i] = found[1][i] = (struct charge){2, 0};
    for (int z = 0; z < l->m[2] - 2; z++)
        for (int y = 0; y < l->m[1] - 2; y++) {
            int64_t at = place[0] * (l->m[0] - 2) +
                         (int64_t)n * (place[1] * (l->m[1] - 2) + y +
                                       (int64_t)n * (place[2] * (l->m[2] - 2) + z));
            uint64_t state = random_skip(RANDOM_SEED, (uint64_t)at);
            for (int x = 0; x < l->m[0] - 2; x++, at++) {
                const double value = random_next(&state);
                keep(found[0], value, at);
                keep(found[1], -value, at);
            }
        }
    memset(v, 0, points_of(l) * sizeof *v);
    MPI_Datatype charges;
    MPI_Op merged;
    MPI_Type_contiguous(sizeof *found, MPI_BYTE, &charges);
    MPI_Type_commit(&charges);
    MPI_Op_create(merge, 1, &merged);
    MPI_Allreduce(MPI_IN_PLACE, found, 2, charges, merged, MPI_COMM_WORLD);
    MPI_Op_free(&merged);
    MPI_Type_free(&charges);
    for (int sign = 0; sign < 2; sign++)
        for (int i = 0; i < CHARGES; i++) {
            int64_t rest = found[sign][i].at;
            int at[AXES], mine = 1;
            for (int axis = 0; axis < AXES; axis++, rest /= n) {
                at[axis] = (int)(rest % n) - place[axis] * (l->m[axis] - 2) + 1;
                mine = mine && at[axis] >= 1 && at[axis] < l->m[axis] - 1;
            }
            if (mine) v[row_of(l, at[1], at[2]) + (size_t)at[0]] = sign ? 1 : -1;
        }
    memset(l->u, 0, points_of(l) * sizeof *l->u);
}

static void make_levels(void)
{
    make_shares(processes, grid);
    place[0] = rank % grid[0];
    place[1] = rank / grid[0] % grid[1];
    place[2] = rank / grid[0] / grid[1];
    const int stride[AXES] = {1, grid[0], grid[0] * grid[1]};
    for (int axis = 0; axis < AXES; axis++)
        for (int side = 0; side < 2; side++) {
            const int next = (place[axis] + (side ? 1 : grid[axis] - 1)) % grid[axis];
            neighbour[axis][side] = rank + (next - place[axis]) * stride[axis];
        }
    levels = CLASS[class].levels;
    lowest = lowest_of(grid[2]);
    size_t longest = 0, largest = 0;
    for (int l = levels; l > 0; l--) {
        for (int axis = 0; axis < AXES; axis++) {
            level[l].split[axis] = l >= lowest ? grid[axis] : 1;
            level[l].m[axis] = (1 << l) / level[l].split[axis] + 2;
            block.m[axis] = l == lowest - 1 ? (1 << l) / grid[axis] + 2 : block.m[axis];
            longest = (size_t)level[l].m[axis] > longest ? (size_t)level[l].m[axis] : longest;
        }
        level[l].u = npb_allocate(points_of(&level[l]), sizeof(double));
        level[l].r = npb_allocate(points_of(&level[l]), sizeof(double));
        /* the residual of level 1 reads what nobody wrote */
        memset(level[l].u, 0, points_of(&level[l]) * sizeof(double));
        memset(level[l].r, 0, points_of(&level[l]) * sizeof(double));
    }
    if (lowest > 1) {
        largest = points_of(&level[lowest - 1]);
        block.u = npb_allocate(points_of(&block), sizeof(double));
        block.r = npb_allocate(points_of(&block), sizeof(double));
        gathered = npb_allocate(largest, sizeof(double));
    }
    v = npb_allocate(points_of(&level[levels]), sizeof(double));
    double **const lines[] = {&line1, &line2, &line3};
    for (int i = 0; i < 3; i++) *lines[i] = npb_allocate(longest, sizeof(double));
    outgoing =
        npb_allocate(longest * longest > largest ? longest * longest : largest, sizeof(double));
    incoming = npb_allocate(2 * longest * longest, sizeof(double));
}

int main(int argc, char **argv)
{
    static const struct kernel MG = {"MG", "floating point", bytes, .most = most};
    class = npb_start(argc, argv, &MG);
    const int n = 1 << CLASS[class].levels, iterations = CLASS[class].iterations;
    npb_title("Size: %4dx%4dx%4d  (class %c)\n Iterations: %3d", n, n, n, CLASS_NAMES[class],
              iterations);
    make_levels();
    const struct level *const finest = &level[levels];
    double before = 0, after = 0, seconds = 0;
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        place_charges();
        npb_clock_start();
        residual_everywhere(finest, v);
        before = norm();
        for (int iteration = 0; iteration < (rehearsal ? 1 : iterations); iteration++) {
            v_cycle();
            npb_iteration_done();
        }
        after = norm();
        seconds = npb_clock_stop();
    }
    if (rank == 0) printf(" L2 Norm before: %20.13e\n L2 Norm is      %20.13e\n", before, after);
    return npb_finish((struct outcome){
        .class = class,
        .size = {n, n, n},
        .iterations = iterations,
        .seconds = seconds,
        .mops = 58e-6 * iterations * ldexp(1, 3 * levels),
        .verified = npb_agrees(after, CLASS[class].norm, 1e-8),
    });
}
