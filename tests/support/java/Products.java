import java.util.Random;

/** Whether CG's product by vectors is the one element by element, for rows of 0 to 40 entries. */
public final class Products {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        final int rows = 41;
        final Random random = new Random(1);
        final int[] start = new int[rows + 1], column = new int[rows * rows];
        final double[] value = new double[rows * rows], vector = new double[rows];
        final double[] product = new double[rows];
        for (int row = 0; row < rows; row++) {
            vector[row] = random.nextDouble();
            start[row + 1] = start[row] + row;
            for (int k = start[row]; k < start[row + 1]; k++) {
                column[k] = random.nextInt(rows);
                value[k] = random.nextDouble();
            }
        }
        final CG.Product vectors =
            (CG.Product) Class.forName("CGVectors").getDeclaredConstructor().newInstance();
        vectors.multiply(rows, start, column, value, vector, product);
        for (int row = 0; row < rows; row++) {
            double sum = 0;
            for (int k = start[row]; k < start[row + 1]; k++) sum += value[k] * vector[column[k]];
            if (!(Math.abs(product[row] - sum) <= 1e-12))
                throw new AssertionError("row " + row + ": " + product[row] + ", not " + sum);
        }
        System.out.println("same products");
    }
}
