import mpi.MPI;

/**
 * Each rank sends its number to the next in a ring; the argument is how many bytes go along, or
 * what is to go wrong.
 */
public class Hello {
    static int calls;  // its own in each rank, also where these are threads

    public static void main(String[] arguments) throws Exception {
        String[] own = MPI.Init(arguments);
        int rank = MPI.COMM_WORLD.Rank(), size = MPI.COMM_WORLD.Size();
        String what = own.length > 0 ? own[0] : "1000";
        if (what.equals("throw") && rank == size - 1) throw new IllegalStateException("as told");
        if (what.equals("thread") && rank == size - 1)
            new Thread(() -> { throw new IllegalStateException("as told"); }).start();
        if (!what.matches("\\d+") && (rank > 0 || what.equals("hang")))
            MPI.COMM_WORLD.Recv(new byte[1], 0, 1, MPI.BYTE, 0, 99);
        int bytes = what.matches("\\d+") ? Integer.parseInt(what) : 1;
        byte[] to = new byte[bytes], from = new byte[bytes];
        java.util.Arrays.fill(to, (byte) (rank + 1));
        if (size > 1)
            MPI.COMM_WORLD.Sendrecv(to, 0, bytes, MPI.BYTE, (rank + 1) % size, 7, from, 0, bytes,
                MPI.BYTE, (rank + size - 1) % size, 7);
        for (byte value : from)
            if (size > 1 && value != (rank + size - 1) % size + 1)
                throw new IllegalStateException("a wrong byte");
        System.out.println(
            "hello rank=" + rank + " size=" + size + " bytes=" + bytes + " calls=" + ++calls);
        MPI.Finalize();
    }
}
