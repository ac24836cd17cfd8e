import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/**
 * CG's product with four elements at a time. C2 makes none of its own from a loop that takes its
 * elements by an index. The module may change with the JDK, so this class is compiled by itself,
 * and CG does without it where it is missing. Eight at a time took more than twice as long.
 */
final class CGVectors implements CG.Product {
    private static final VectorSpecies<Double> FOUR = DoubleVector.SPECIES_256;

    /**
     * Java computes longer vectors than the processor's element by element, which takes minutes.
     */
    CGVectors() {
        if (DoubleVector.SPECIES_PREFERRED.length() < FOUR.length())
            throw new UnsupportedOperationException("the processor has no vectors of 256 bits");
    }

    private static double row(int from, int to, int[] column, double[] value, double[] vector) {
        DoubleVector lanes = DoubleVector.zero(FOUR);
        int k = from;
        for (; k < to - 3; k += 4) {
            final DoubleVector taken = DoubleVector.fromArray(FOUR, vector, 0, column, k);
            lanes = taken.fma(DoubleVector.fromArray(FOUR, value, k), lanes);
        }
        double sum = lanes.reduceLanes(VectorOperators.ADD);
        for (; k < to; k++) sum += value[k] * vector[column[k]];
        return sum;
    }

    @Override
    public void multiply(
        int rows, int[] start, int[] column, double[] value, double[] vector, double[] product) {
        for (int row = 0; row < rows; row++)
            product[row] = row(start[row], start[row + 1], column, value, vector);
    }
}
