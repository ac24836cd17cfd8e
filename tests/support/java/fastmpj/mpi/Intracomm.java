package mpi;

/** Stand-in: what a program may ask for. */
public final class Intracomm {
    private final int rank, size;

    Intracomm(int rank, int size) {
        this.rank = rank;
        this.size = size;
    }

    public int Rank() {
        return rank;
    }

    public int Size() {
        return size;
    }
}
