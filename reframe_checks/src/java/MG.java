import java.util.Arrays;
import mpi.MPI;
import mpi.MPIException;
import mpi.Request;

/**
 * MG: a Poisson equation on a periodic cube by V-cycles of a multigrid method (report, 2.3):
 * 27-point stencils, and after each the planes on all six sides exchanged with the neighbours.
 * Split of the cube and messages as in ../npb/mg.c.
 *
 * Every row of the cube is an array, and a loop reads and writes all of its arrays at the same
 * index, neighbours in a row being copied to it first: C2 computes several points at once only
 * where it sees so that they cannot overlap. One flat array with offsets, as in C, takes three to
 * five times as long.
 */
public final class MG extends Npb {
    private static final int AXES = 3, CHARGES = 10;
    private static final int[] LEVELS = {5, 7, 8, 8, 9, 10, 11},
                               ITERATIONS = {4, 4, 4, 20, 20, 50, 50};
    private static final double[] NORM = {0.5307707005734e-04, 0.6467329375339e-05,
        0.2433365309069e-05, 0.1800564401355e-05, 0.5706732285740e-06, 0.1583275060440e-09,
        0.5630442584711e-10};
    private static final double[] SMOOTHER_A = {-3.0 / 8, 1.0 / 32, -1.0 / 64},
                                  SMOOTHER_B = {-3.0 / 17, 1.0 / 33, -1.0 / 61};
    private static final double CENTRE = -8.0 / 3, EDGE = 1.0 / 6, CORNER = 1.0 / 12;

    /**
     * u the solution, r the residual, with a ghost point on either side; m points in each
     * direction.
     */
    private static final class Level {
        final int[] m = new int[AXES], split = new int[AXES];
        double[][] u, r;

        long points() {
            return (long) m[0] * m[1] * m[2];
        }

        int row(int y, int z) {
            return z * m[1] + y;
        }

        double[][] rows() {
            return new double[m[1] * m[2]][m[0]];
        }

        void allocate() {
            u = rows();
            r = rows();
        }
    }

    private int levels, lowest; // `lowest` is the coarsest that is split
    private final int[] grid = new int[AXES], place = new int[AXES];
    private final int[][] neighbour = new int[AXES][2];
    private Level[] level;
    private final Level block = new Level(); // my part of the finest level that is not split
    private double[][] v;
    private double[] line1, line2, line3, outgoing, incoming0, incoming1, gathered;

    private MG(Program program) {
        super(program, "MG", "floating point");
    }

    public static void main(String[] arguments) {
        Program.run("npb MG", arguments, (program, own) -> new MG(program).run(own));
    }

    private static void makeShares(int count, int[] share) {
        final int log = log2(count);
        share[0] = 1 << log / 3;
        share[1] = 1 << (log - log / 3) / 2;
        share[2] = count / share[0] / share[1];
    }

    /** Of `share` processes along the z axis, which is split most. */
    private int lowestOf(int share) {
        return processes == 1 ? 1 : 1 + log2(share);
    }

    @Override
    long most(int problem) {
        return 1L << 3 * (LEVELS[problem] - 1);
    }

    @Override
    double bytes(int problem) {
        final int[] share = new int[AXES];
        makeShares(processes, share);
        double all = 0;
        for (int l = LEVELS[problem]; l > 0; l--) {
            final boolean split = l >= lowestOf(share[2]);
            double points = 1;
            for (int axis = 0; axis < AXES; axis++)
                points *= (double) (1 << l) / (split ? share[axis] : 1) + 2;
            all += (l == LEVELS[problem] ? 3 : 2) * 8 * points;
        }
        return all;
    }

    /* ---- ghost points */

    /**
     * Copies the points of plane `at` of an axis, out of (or into) a buffer; returns how many.
     * Axes already done go with their ghost points, so that edges and corners arrive too.
     */
    private static int plane(
        Level l, double[][] data, double[] buffer, int axis, int at, boolean out) {
        final int lowX = axis == 0 ? at : 0, highX = axis == 0 ? at + 1 : l.m[0];
        int lowY = axis < 1 ? 1 : 0, highY = axis < 1 ? l.m[1] - 1 : l.m[1];
        if (axis == 1) {
            lowY = at;
            highY = at + 1;
        }
        final int lowZ = axis == 2 ? at : 1, highZ = axis == 2 ? at + 1 : l.m[2] - 1,
                  width = highX - lowX;
        int count = 0;
        for (int z = lowZ; z < highZ; z++)
            for (int y = lowY; y < highY; y++, count += width) {
                final double[] row = data[l.row(y, z)];
                if (width == 1) {
                    if (out) buffer[count] = row[lowX];
                    else row[lowX] = buffer[count];
                } else if (out) {
                    System.arraycopy(row, lowX, buffer, count, width);
                } else {
                    System.arraycopy(buffer, count, row, lowX, width);
                }
            }
        return count;
    }

    private void fillGhosts(Level l, double[][] data) throws MPIException {
        for (int axis = 0; axis < AXES; axis++) {
            final int last = l.m[axis] - 1;
            if (l.split[axis] == 1) { // periodic within this process
                plane(l, data, outgoing, axis, last - 1, true);
                plane(l, data, outgoing, axis, 0, false);
                plane(l, data, outgoing, axis, 1, true);
                plane(l, data, outgoing, axis, last, false);
                continue;
            }
            final int room = (int) (l.points() / l.m[axis]);
            // Tagged with the side that it is sent from.
            final Request below =
                world.Irecv(incoming0, 0, room, MPI.DOUBLE, neighbour[axis][0], 1);
            final Request above =
                world.Irecv(incoming1, 0, room, MPI.DOUBLE, neighbour[axis][1], 0);
            for (int side = 0; side < 2; side++) {
                final int count = plane(l, data, outgoing, axis, side == 1 ? last - 1 : 1, true);
                world.Send(outgoing, 0, count, MPI.DOUBLE, neighbour[axis][side], side);
                payload += 8.0 * count;
            }
            below.Wait();
            above.Wait();
            plane(l, data, incoming0, axis, 0, false);
            plane(l, data, incoming1, axis, last, false);
        }
    }

    /* ---- the four operators: what a point takes from its own place first, and then what it takes
     * from its two neighbours in the row, of the four faces and the four edges around the row too
     */

    /** Makes `left` and `right` what `line` is one point before and behind. */
    private static void shift(int m, double[] line, double[] left, double[] right) {
        System.arraycopy(line, 0, left, 1, m - 1);
        System.arraycopy(line, 1, right, 0, m - 1);
    }

    private static void addNeighbours(
        int m, double sign, double[] left, double[] right, double[] to) {
        for (int x = 1; x < m - 1; x++) to[x] += sign * (left[x] + right[x]);
    }

    private static void residualRow(int m, double[] f, double[] u, double[] down, double[] up,
        double[] front, double[] back, double[] a, double[] b, double[] c, double[] d, double[] r,
        double[] line) {
        for (int x = 0; x < m; x++) {
            final double edges = a[x] + b[x] + c[x] + d[x];
            line[x] = EDGE * (down[x] + up[x] + front[x] + back[x]) + CORNER * edges;
            r[x] = f[x] - CENTRE * u[x] - EDGE * edges;
        }
    }

    /** r = right - A u; `right` may be r itself. */
    private void residual(Level l, double[][] right, double[][] r) throws MPIException {
        final int m = l.m[0], plane = l.m[1];
        final double[][] u = l.u;
        for (int z = 1; z < l.m[2] - 1; z++)
            for (int y = 1; y < l.m[1] - 1; y++) {
                final int at = l.row(y, z);
                residualRow(m, right[at], u[at], u[at - 1], u[at + 1], u[at - plane], u[at + plane],
                    u[at - plane - 1], u[at - plane + 1], u[at + plane - 1], u[at + plane + 1],
                    r[at], line1);
                shift(m, line1, line2, line3);
                addNeighbours(m, -1, line2, line3, r[at]);
            }
        fillGhosts(l, r);
    }

    private static void smoothRow(int m, double kept, double[] smoother, double[] r, double[] down,
        double[] up, double[] front, double[] back, double[] a, double[] b, double[] c, double[] d,
        double[] u, double[] line) {
        final double c0 = smoother[0], c1 = smoother[1], c2 = smoother[2];
        for (int x = 0; x < m; x++) {
            final double faces = down[x] + up[x] + front[x] + back[x];
            line[x] = c1 * r[x] + c2 * faces;
            u[x] = kept * u[x] + c0 * r[x] + c1 * faces + c2 * (a[x] + b[x] + c[x] + d[x]);
        }
    }

    /** u = u + S r; `fresh`: u was zero. */
    private void smooth(Level l, boolean fresh) throws MPIException {
        final double[] smoother = problem < 3 ? SMOOTHER_A : SMOOTHER_B;
        final int m = l.m[0], plane = l.m[1];
        final double[][] r = l.r;
        for (int z = 1; z < l.m[2] - 1; z++)
            for (int y = 1; y < l.m[1] - 1; y++) {
                final int at = l.row(y, z);
                smoothRow(m, fresh ? 0 : 1, smoother, r[at], r[at - 1], r[at + 1], r[at - plane],
                    r[at + plane], r[at - plane - 1], r[at - plane + 1], r[at + plane - 1],
                    r[at + plane + 1], l.u[at], line1);
                shift(m, line1, line2, line3);
                addNeighbours(m, 1, line2, line3, l.u[at]);
            }
        fillGhosts(l, l.u);
    }

    private static void restrictRow(int m, double[] r, double[] down, double[] up, double[] front,
        double[] back, double[] a, double[] b, double[] c, double[] d, double[] line) {
        for (int x = 0; x < m; x++)
            line[x] = 0.25 * r[x] + 0.125 * (down[x] + up[x] + front[x] + back[x])
                + 0.0625 * (a[x] + b[x] + c[x] + d[x]);
    }

    /** What lies on a coarse point counts twice as much as what lies between. */
    private static void takeEverySecond(int m, double[] line, double[] out) {
        for (int x = 1; x < m - 1; x++)
            out[x] = 2 * line[2 * x] + line[2 * x - 1] + line[2 * x + 1];
    }

    /** The fine residual onto the coarse grid: full weighting about every second point. */
    private void restrict(Level fine, Level coarse) {
        final int plane = fine.m[1];
        final double[][] r = fine.r;
        for (int z = 1; z < coarse.m[2] - 1; z++)
            for (int y = 1; y < coarse.m[1] - 1; y++) {
                final int at = fine.row(2 * y, 2 * z);
                restrictRow(fine.m[0], r[at], r[at - 1], r[at + 1], r[at - plane], r[at + plane],
                    r[at - plane - 1], r[at - plane + 1], r[at + plane - 1], r[at + plane + 1],
                    line1);
                takeEverySecond(coarse.m[0], line1, coarse.r[coarse.row(y, z)]);
            }
    }

    private static void sumLines(int count, double[] here, double[] up, double[] back,
        double[] both, double[] line1, double[] line2, double[] line3) {
        for (int x = 0; x < count; x++) {
            line1[x] = up[x] + here[x];
            line2[x] = back[x] + here[x];
            line3[x] = both[x] + back[x] + up[x] + here[x];
        }
    }

    private static void spread(int width, double kept, double w, double[] s, double[] u) {
        final double half = w / 2;
        double next = s[0];
        for (int x = 0; x < width; x++) {
            final double here = next;
            next = s[x + 1];
            u[2 * x] = kept * u[2 * x] + w * here;
            u[2 * x + 1] = kept * u[2 * x + 1] + half * (here + next);
        }
    }

    /**
     * The coarse solution, interpolated, becomes the fine one or (`add`) its correction; ghost
     * points included.
     */
    private void prolong(Level coarse, Level fine, boolean add) {
        final double kept = add ? 1 : 0;
        final int width = coarse.m[0] - 1, plane = coarse.m[1];
        final double[][] u = coarse.u;
        for (int z = 0; z < coarse.m[2] - 1; z++)
            for (int y = 0; y < coarse.m[1] - 1; y++) {
                final int here = coarse.row(y, z), to = fine.row(2 * y, 2 * z);
                sumLines(width + 1, u[here], u[here + 1], u[here + plane], u[here + plane + 1],
                    line1, line2, line3);
                spread(width, kept, 1, u[here], fine.u[to]);
                spread(width, kept, 0.5, line1, fine.u[to + 1]);
                spread(width, kept, 0.5, line2, fine.u[to + fine.m[1]]);
                spread(width, kept, 0.25, line3, fine.u[to + fine.m[1] + 1]);
            }
    }

    /* ---- the levels that all processes compute whole */

    private void gatherBlock(Level whole) throws MPIException {
        final int nx = block.m[0] - 2, ny = block.m[1] - 2, nz = block.m[2] - 2,
                  count = nx * ny * nz;
        int out = 0;
        for (int z = 1; z <= nz; z++)
            for (int y = 1; y <= ny; y++, out += nx)
                System.arraycopy(block.r[block.row(y, z)], 1, outgoing, out, nx);
        world.Allgather(outgoing, 0, count, MPI.DOUBLE, gathered, 0, count, MPI.DOUBLE);
        payload += 8.0 * (processes - 1) * count;
        int in = 0;
        for (int p = 0; p < processes; p++) {
            final int fromX = p % grid[0] * nx, fromY = p / grid[0] % grid[1] * ny,
                      fromZ = p / grid[0] / grid[1] * nz;
            for (int z = 1; z <= nz; z++)
                for (int y = 1; y <= ny; y++, in += nx)
                    System.arraycopy(
                        gathered, in, whole.r[whole.row(fromY + y, fromZ + z)], fromX + 1, nx);
        }
    }

    private void cutBlock(Level whole) {
        for (int z = 0; z < block.m[2]; z++)
            for (int y = 0; y < block.m[1]; y++)
                System.arraycopy(whole.u[whole.row(place[1] * (block.m[1] - 2) + y,
                                     place[2] * (block.m[2] - 2) + z)],
                    place[0] * (block.m[0] - 2), block.u[block.row(y, z)], 0, block.m[0]);
    }

    private void vCycle() throws MPIException {
        for (int l = levels; l > 1; l--) {
            final boolean leaves = l == lowest;
            restrict(level[l], leaves ? block : level[l - 1]);
            if (leaves) gatherBlock(level[l - 1]);
            fillGhosts(level[l - 1], level[l - 1].r);
        }
        smooth(level[1], true);
        for (int l = 2; l <= levels; l++) {
            final Level here = level[l];
            if (l == lowest) cutBlock(level[l - 1]);
            prolong(l == lowest ? block : level[l - 1], here, l == levels);
            residual(here, l == levels ? v : here.r, here.r);
            smooth(here, false);
        }
    }

    private void iterate() throws MPIException {
        vCycle();
        residual(level[levels], v, level[levels].r);
    }

    /* ---- the problem */

    private static double squares(int m, double[] r) {
        double sum = 0;
        for (int x = 1; x < m - 1; x++) sum += r[x] * r[x];
        return sum;
    }

    private double norm() throws MPIException {
        final Level l = level[levels];
        final double[] mine = new double[1], all = new double[1];
        for (int z = 1; z < l.m[2] - 1; z++)
            for (int y = 1; y < l.m[1] - 1; y++) mine[0] += squares(l.m[0], l.r[l.row(y, z)]);
        world.Allreduce(mine, 0, all, 0, 1, MPI.DOUBLE, MPI.SUM);
        return Math.sqrt(Math.scalb(all[0], -3 * levels));
    }

    /** Keeps the ten smallest values, in order, and where they are. */
    private static void keep(double[] smallest, double[] where, double value, double at) {
        int i = CHARGES - 1;
        if (value >= smallest[i]) return;
        for (; i > 0 && smallest[i - 1] > value; i--) {
            smallest[i] = smallest[i - 1];
            where[i] = where[i - 1];
        }
        smallest[i] = value;
        where[i] = at;
    }

    /**
     * +1 at the ten largest of the random numbers that fill the cube, -1 at the ten smallest.
     * Places are x + n (y + n z) in the whole cube, which a double holds exactly.
     */
    private void placeCharges() throws MPIException {
        final Level l = level[levels];
        final long n = 1L << levels;
        final double[][] found = new double[2][CHARGES], where = new double[2][CHARGES];
        for (final double[] values : found) Arrays.fill(values, 2);
        for (int z = 0; z < l.m[2] - 2; z++)
            for (int y = 0; y < l.m[1] - 2; y++) {
                final long atY = place[1] * (l.m[1] - 2) + y, atZ = place[2] * (l.m[2] - 2) + z;
                final long first = place[0] * (l.m[0] - 2) + n * (atY + n * atZ);
                long state = skip(RANDOM_SEED, first);
                for (int x = 0; x < l.m[0] - 2; x++) {
                    state = state * RANDOM_A & RANDOM_MASK;
                    keep(found[0], where[0], uniform(state), first + x);
                    keep(found[1], where[1], -uniform(state), first + x);
                }
            }
        for (final double[] row : v) Arrays.fill(row, 0);
        final double[] values = new double[CHARGES * processes],
                       places = new double[CHARGES * processes];
        for (int sign = 0; sign < 2; sign++) {
            world.Allgather(found[sign], 0, CHARGES, MPI.DOUBLE, values, 0, CHARGES, MPI.DOUBLE);
            world.Allgather(where[sign], 0, CHARGES, MPI.DOUBLE, places, 0, CHARGES, MPI.DOUBLE);
            final double[] smallest = new double[CHARGES], at = new double[CHARGES];
            Arrays.fill(smallest, 3);
            for (int i = 0; i < values.length; i++) keep(smallest, at, values[i], places[i]);
            for (int i = 0; i < CHARGES; i++) {
                long rest = (long) at[i];
                final int[] mine = new int[AXES];
                boolean inside = true;
                for (int axis = 0; axis < AXES; axis++, rest /= n) {
                    mine[axis] = (int) (rest % n) - place[axis] * (l.m[axis] - 2) + 1;
                    inside = inside && mine[axis] >= 1 && mine[axis] < l.m[axis] - 1;
                }
                if (inside) v[l.row(mine[1], mine[2])][mine[0]] = sign == 1 ? 1 : -1;
            }
        }
        for (final double[] row : l.u) Arrays.fill(row, 0);
    }

    private void makeLevels() {
        makeShares(processes, grid);
        place[0] = rank % grid[0];
        place[1] = rank / grid[0] % grid[1];
        place[2] = rank / grid[0] / grid[1];
        final int[] stride = {1, grid[0], grid[0] * grid[1]};
        for (int axis = 0; axis < AXES; axis++)
            for (int side = 0; side < 2; side++) {
                final int next = (place[axis] + (side == 1 ? 1 : grid[axis] - 1)) % grid[axis];
                neighbour[axis][side] = rank + (next - place[axis]) * stride[axis];
            }
        levels = LEVELS[problem];
        lowest = lowestOf(grid[2]);
        level = new Level[levels + 1];
        int longest = 0, largest = 0;
        for (int l = levels; l > 0; l--) {
            level[l] = new Level();
            for (int axis = 0; axis < AXES; axis++) {
                level[l].split[axis] = l >= lowest ? grid[axis] : 1;
                level[l].m[axis] = (1 << l) / level[l].split[axis] + 2;
                if (l == lowest - 1) block.m[axis] = (1 << l) / grid[axis] + 2;
                longest = Math.max(longest, level[l].m[axis]);
            }
            level[l].allocate();
        }
        if (lowest > 1) {
            largest = (int) level[lowest - 1].points();
            block.allocate();
            gathered = new double[largest];
        }
        v = level[levels].rows();
        line1 = new double[longest];
        line2 = new double[longest];
        line3 = new double[longest];
        outgoing = new double[Math.max(longest * longest, largest)];
        incoming0 = new double[longest * longest];
        incoming1 = new double[longest * longest];
    }

    @Override
    int kernel() throws MPIException {
        final int n = 1 << LEVELS[problem], iterations = ITERATIONS[problem];
        title("Size: %4dx%4dx%4d  (class %c)%n Iterations: %3d", n, n, n, className(), iterations);
        makeLevels();
        final Level finest = level[levels];
        placeCharges();
        residual(finest, v, finest.r);
        warmUp(() -> {
            iterate();
            norm();
        });
        placeCharges();
        clockStart();
        residual(finest, v, finest.r);
        final double before = norm();
        for (int iteration = 0; iteration < iterations; iteration++) {
            iterate();
            iterationDone();
        }
        final double after = norm(), seconds = clockStop();
        if (rank == 0)
            Program.print(" L2 Norm before: %20.13e%n L2 Norm is      %20.13e%n", before, after);
        return finish(String.format("%4dx%4dx%4d", n, n, n), iterations, seconds,
            Math.scalb(58e-6 * iterations, 3 * levels), agrees(after, NORM[problem], 1e-8));
    }
}
