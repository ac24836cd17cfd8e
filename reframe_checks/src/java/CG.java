import java.util.Arrays;
import mpi.MPI;
import mpi.MPIException;
import mpi.Request;

/**
 * CG: the smallest eigenvalue of a large sparse matrix by inverse power iteration, each step of
 * which is 25 iterations of conjugate gradients (report, 2.5). Grid of processes, messages and
 * order of sums as in ../npb/cg.c.
 */
public final class CG extends Npb {
    private static final int CG_ITERATIONS = 25;
    private static final int[] N = {1400, 7000, 14000, 75000, 150000, 1500000, 9000000},
                               NONZEROS = {7, 8, 11, 13, 15, 21, 26},
                               ITERATIONS = {15, 15, 15, 75, 75, 100, 100};
    private static final double[] SHIFT = {10, 12, 20, 60, 110, 500, 1500};
    private static final double[] ZETA = {8.5971775078648, 10.362595087124, 17.130235054029,
        22.712745482631, 28.973605592845, 52.514532105794, 77.522164599383};
    private static final double RCOND = 0.1;
    // of both products, and what the one by vectors has to gain
    private static final double TRIAL_SECONDS = 2, TRIAL_GAIN = 0.05;

    private int n, rows, columns, myRow, myColumn, firstRow, rowCount, firstColumn, columnCount,
        across, steps;
    // 1: the grid is twice as wide as high: half of my rows are the vector that I hold
    private int half;
    private double[] x, z, p, q, r, w, other;
    private final double[] few = new double[2], fewOthers = new double[2];
    private int[] start, column;
    private double[] value;
    private Product product = CG::multiply;

    /** product = matrix vector; row i has the entries from start[i] to start[i + 1]. */
    interface Product {
        void multiply(
            int rows, int[] start, int[] column, double[] value, double[] vector, double[] product);
    }

    private CG(Program program) {
        super(program, "CG", "floating point");
    }

    public static void main(String[] arguments) {
        Program.run("npb CG", arguments, (program, own) -> new CG(program).run(own));
    }

    private int startOf(int part, int parts) {
        return (int) ((long) n * part / parts);
    }

    /**
     * No more entries than the outer products have before equal places are added up, and the
     * vectors of the iteration.
     */
    @Override
    double bytes(int problem) {
        final double width = NONZEROS[problem] + 1, longest = N[problem] >> log2(processes) / 2;
        return 12 * N[problem] * width * width / processes + 7 * 8 * longest;
    }

    @Override
    long fewest(int problem) {
        final long width = NONZEROS[problem] + 1;
        return N[problem] * width * width > Integer.MAX_VALUE ? 4 : 1;
    }

    /* ---- the matrix: sum over i of w_i v_i v_i' with sparse random v_i, and RCOND - shift on the
     * diagonal */

    /** The state of the random numbers that make the vectors. */
    private long state;

    /**
     * The i-th vector; returns how many elements it has. A value and a place a time; places beyond
     * n or already taken are passed over, and the i-th element is always 0.5.
     */
    private int nextVector(int i, int[] index, double[] element) {
        final int nonzeros = NONZEROS[problem];
        int places = 1, length = 0;
        while (places < n) places *= 2;
        while (length < nonzeros) {
            state = state * RANDOM_A & RANDOM_MASK;
            final double drawn = uniform(state);
            state = state * RANDOM_A & RANDOM_MASK;
            final int place = (int) (uniform(state) * places);
            boolean taken = place >= n;
            for (int k = 0; k < length && !taken; k++) taken = index[k] == place;
            if (taken) continue;
            index[length] = place;
            element[length++] = drawn;
        }
        boolean hasOwn = false;
        for (int k = 0; k < length; k++)
            if (index[k] == i) {
                element[k] = 0.5;
                hasOwn = true;
            }
        if (!hasOwn) {
            index[length] = i;
            element[length++] = 0.5;
        }
        return length;
    }

    /**
     * Every outer product's entries behind one another in their row, then each row sorted and
     * equal places added up. Each pass makes the vectors anew: all of class E take 3 GB.
     */
    private void makeMatrix() {
        final int[] index = new int[NONZEROS[problem] + 1], end = new int[rowCount];
        final double[] element = new double[NONZEROS[problem] + 1];
        final double ratio = Math.pow(RCOND, 1.0 / n);
        start = new int[rowCount + 1];
        for (int pass = 0; pass < 2; pass++) { // count, then fill
            double weight = 1;
            state = skip(RANDOM_SEED, 1);
            for (int i = 0; i < n; i++, weight *= ratio) {
                final int length = nextVector(i, index, element);
                for (int a = 0; a < length; a++) {
                    final int row = index[a] - firstRow;
                    if (row < 0 || row >= rowCount) continue;
                    for (int b = 0; b < length; b++) {
                        final int at = index[b] - firstColumn;
                        if (at < 0 || at >= columnCount) continue;
                        if (pass == 1) {
                            column[end[row]] = at;
                            value[end[row]] = weight * element[a] * element[b]
                                + (index[a] == i && index[b] == i ? RCOND - SHIFT[problem] : 0);
                        }
                        end[row]++;
                    }
                }
            }
            if (pass == 1) break;
            for (int row = 0; row < rowCount; row++) {
                start[row + 1] = start[row] + end[row];
                end[row] = start[row];
            }
            column = new int[start[rowCount]];
            value = new double[start[rowCount]];
        }
        final double[] sum = new double[columnCount];
        final boolean[] seen = new boolean[columnCount];
        int out = 0;
        for (int row = 0; row < rowCount; row++) {
            final int begin = out;
            for (int k = start[row]; k < end[row]; k++) {
                final int at = column[k];
                sum[at] = seen[at] ? sum[at] + value[k] : value[k];
                if (!seen[at]) column[out++] = at;
                seen[at] = true;
            }
            Arrays.sort(column, begin, out);
            for (int k = begin; k < out; k++) {
                value[k] = sum[column[k]];
                seen[column[k]] = false;
            }
            start[row] = begin;
        }
        start[rowCount] = out;
    }

    /* ---- the grid of processes */

    private void makeGrid() {
        rows = 1 << log2(processes) / 2;
        columns = processes / rows;
        myRow = rank / columns;
        myColumn = rank % columns;
        firstRow = startOf(myRow, rows);
        rowCount = startOf(myRow + 1, rows) - firstRow;
        firstColumn = startOf(myColumn, columns);
        columnCount = startOf(myColumn + 1, columns) - firstColumn;
        half = columns != rows ? 1 : 0;
        steps = log2(columns);
        // Whose vector part lies within my rows, at the same place of a pair of columns.
        across = half == 1 ? myColumn / 2 * columns + 2 * myRow + myColumn % 2
                           : myColumn * columns + myRow;
    }

    /** In the i-th step of a sum, the process whose column differs from mine in that bit. */
    private int partner(int step) {
        return myRow * columns + (myColumn ^ 1 << step);
    }

    private void swapWith(int process, double[] send, int from, int sendCount, double[] receive,
        int receiveCount) throws MPIException {
        final Request request = world.Irecv(receive, 0, receiveCount, MPI.DOUBLE, process, 0);
        world.Send(send, from, sendCount, MPI.DOUBLE, process, 0);
        request.Wait();
        payload += 8.0 * sendCount;
    }

    /** Of the first `count` numbers in `few`. */
    private void sumOverRow(int count) throws MPIException {
        for (int step = 0; step < steps; step++) {
            swapWith(partner(step), few, 0, count, fewOthers, count);
            for (int i = 0; i < count; i++) few[i] += fewOthers[i];
        }
    }

    private double sumOverRow(double mine, int count) throws MPIException {
        few[0] = mine;
        sumOverRow(count);
        return few[0];
    }

    /* ---- the iteration */

    private static double dot(double[] a, double[] b, int count) {
        double lane0 = 0, lane1 = 0, lane2 = 0, lane3 = 0;
        int i = 0;
        for (; i < count - 3; i += 4) {
            lane0 += a[i] * b[i];
            lane1 += a[i + 1] * b[i + 1];
            lane2 += a[i + 2] * b[i + 2];
            lane3 += a[i + 3] * b[i + 3];
        }
        for (; i < count; i++) lane0 += a[i] * b[i];
        return (lane0 + lane1) + (lane2 + lane3);
    }

    /**
     * Element by element: C2 unrolls it itself, and less is left over of short rows than with
     * several sums at once. The processor adds up several rows at a time.
     */
    private static void multiply(
        int rows, int[] start, int[] column, double[] value, double[] vector, double[] product) {
        for (int row = 0; row < rows; row++) {
            double sum = 0;
            for (int k = start[row]; k < start[row + 1]; k++) sum += value[k] * vector[column[k]];
            product[row] = sum;
        }
    }

    /** The product by vectors; null where the JVM, the build or the processor has none. */
    private static Product vectors() {
        try {
            return (Product) Class.forName("CGVectors").getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException | LinkageError missing) {
            return null;
        }
    }

    /**
     * Takes the product by vectors if it is quicker, on the slowest process: some processors take
     * elements by an index one after the other. The least time of each counts, which is one after
     * the JIT compiler.
     */
    private void chooseProduct() throws MPIException {
        final Product[] products = {product, vectors()};
        final double[] least = {Double.MAX_VALUE, Double.MAX_VALUE}, slowest = new double[2];
        final double begin = now();
        // Where the time is over before ten of each, up to ten times as long.
        for (int run = 0; products[1] != null; run++) {
            final double spent = now() - begin;
            if (spent > (run < 10 ? 10 * TRIAL_SECONDS : TRIAL_SECONDS)) break;
            for (int i = 0; i < 2; i++) {
                final double from = now();
                products[i].multiply(rowCount, start, column, value, x, w);
                least[i] = Math.min(least[i], now() - from);
            }
        }
        world.Allreduce(least, 0, slowest, 0, 2, MPI.DOUBLE, MPI.MAX);
        final boolean better = slowest[1] < slowest[0] * (1 - TRIAL_GAIN);
        if (better) product = products[1];
        if (rank == 0) Program.print("# nearmetal product: %s%n", better ? "vectors" : "elements");
    }

    private static void add(double[] to, int from, double[] more, int count) {
        for (int i = 0; i < count; i++) to[from + i] += more[i];
    }

    /** result = A vector, both split over the columns. */
    private void apply(double[] vector, double[] result) throws MPIException {
        product.multiply(rowCount, start, column, value, vector, w);
        // The last step of a wide grid makes only what this process and its partner pass on.
        final int left = startOf(2 * myRow + 1, 2 * rows) - firstRow;
        final boolean low = myColumn % 2 == 0;
        for (int step = steps - 1; step >= half; step--) {
            swapWith(partner(step), w, 0, rowCount, other, rowCount);
            add(w, 0, other, rowCount);
        }
        int kept = 0, count = rowCount;
        if (half == 1) {
            kept = low ? 0 : left;
            count = low ? left : rowCount - left;
            swapWith(partner(0), w, low ? left : 0, rowCount - count, other, count);
            add(w, kept, other, count);
        }
        if (across == rank) System.arraycopy(w, kept, result, 0, count);
        else swapWith(across, w, kept, count, result, columnCount);
    }

    private static void advance(
        double alpha, double[] p, double[] q, double[] z, double[] r, int count) {
        for (int i = 0; i < count; i++) {
            z[i] += alpha * p[i];
            r[i] -= alpha * q[i];
        }
    }

    private static void turn(double beta, double[] r, double[] p, int count) {
        for (int i = 0; i < count; i++) p[i] = r[i] + beta * p[i];
    }

    private static double squaredDistance(double[] a, double[] b, int count) {
        double sum = 0;
        for (int i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
        return sum;
    }

    private static void scale(double factor, double[] from, double[] to, int count) {
        for (int i = 0; i < count; i++) to[i] = factor * from[i];
    }

    /** Solves A z = x; returns the norm of the residual. */
    private double conjugateGradient() throws MPIException {
        Arrays.fill(z, 0, columnCount, 0);
        System.arraycopy(x, 0, r, 0, columnCount);
        System.arraycopy(x, 0, p, 0, columnCount);
        double rho = sumOverRow(dot(r, r, columnCount), 1);
        for (int iteration = 0; iteration < CG_ITERATIONS; iteration++) {
            apply(p, q);
            final double before = rho, alpha = rho / sumOverRow(dot(p, q, columnCount), 1);
            advance(alpha, p, q, z, r, columnCount);
            rho = sumOverRow(dot(r, r, columnCount), 1);
            turn(rho / before, r, p, columnCount);
        }
        apply(z, r);
        return Math.sqrt(sumOverRow(squaredDistance(x, r, columnCount), 1));
    }

    /** One step: x becomes z / |z|. Notes the residual and zeta. */
    private void powerStep(double[] residual, double[] zeta, int at) throws MPIException {
        residual[at] = conjugateGradient();
        few[1] = dot(z, z, columnCount);
        final double sum = sumOverRow(dot(x, z, columnCount), 2);
        scale(1 / Math.sqrt(few[1]), z, x, columnCount);
        zeta[at] = SHIFT[problem] + 1 / sum;
    }

    @Override
    int kernel() throws MPIException {
        n = N[problem];
        final int iterations = ITERATIONS[problem];
        title("Size: %10d  (class %c)%n Iterations: %5d", n, className(), iterations);
        makeGrid();
        makeMatrix();
        final int longest = Math.max(rowCount, columnCount) + 1;
        x = new double[longest];
        z = new double[longest];
        p = new double[longest];
        q = new double[longest];
        r = new double[longest];
        w = new double[longest];
        other = new double[longest];
        final double[] residual = new double[iterations], zeta = new double[iterations];
        Arrays.fill(x, 1);
        chooseProduct();
        warmUp(() -> powerStep(residual, zeta, 0));
        Arrays.fill(x, 1);
        clockStart();
        for (int iteration = 0; iteration < iterations; iteration++) {
            powerStep(residual, zeta, iteration);
            iterationDone();
        }
        final double seconds = clockStop(),
                     nonzeros = NONZEROS[problem] * (NONZEROS[problem] + 1.0);
        if (rank == 0) Program.print("   iteration           ||r||                 zeta%n");
        for (int i = 0; i < iterations && rank == 0; i++)
            Program.print("    %5d       %20.14e%20.13f%n", i + 1, residual[i], zeta[i]);
        return finish(Integer.toString(n), iterations, seconds,
            2e-6 * iterations * n * (3 + nonzeros + CG_ITERATIONS * (5 + nonzeros) + 3),
            agrees(zeta[iterations - 1], ZETA[problem], 1e-10));
    }
}
