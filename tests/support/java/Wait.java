import mpi.MPI;
import mpi.MPIException;

/**
 * Waits for a message that nobody sends, by a short or a long receive or by a request, while
 * another thread collects garbage and says so.
 */
public final class Wait {
    private Wait() {}

    public static void main(String[] arguments) throws MPIException {
        MPI.Init(arguments);
        final Thread other = new Thread(() -> {
            for (int i = 0; i < 20; i++) System.gc();
            System.out.println("collected");
            System.out.flush();
        });
        final int[] buffer = new int[1 << 20];
        other.start();
        switch (arguments[0]) {
            case "short":
                MPI.COMM_SELF.Recv(buffer, 0, 1, MPI.INT, 0, 0);
                break;
            case "long":
                MPI.COMM_SELF.Recv(buffer, 0, buffer.length, MPI.INT, 0, 0);
                break;
            default:
                MPI.COMM_SELF.Irecv(buffer, 0, 1, MPI.INT, 0, 0).Wait();
        }
    }
}
