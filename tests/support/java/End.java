import java.io.IOException;
import mpi.MPI;
import mpi.MPIException;

/** Rank 1 ends without Finalize, in the way of the argument, while rank 0 waits for its message. */
public final class End {
    private End() {}

    public static void main(String[] arguments)
        throws MPIException, IOException, InterruptedException {
        MPI.Init(arguments);
        if (MPI.COMM_WORLD.Rank() == 0) {
            System.out.println("waiting");
            System.out.flush();
            MPI.COMM_WORLD.Recv(new int[1 << 20], 0, 1 << 20, MPI.INT, 1, 0);
        }
        switch (arguments[0]) {
            case "exit":
                System.exit(3);
                break;
            case "exception":
                throw new IllegalStateException("rank 1 has no more to say");
            default:
                final String own = Long.toString(ProcessHandle.current().pid());
                new ProcessBuilder("kill", "-9", own).inheritIO().start().waitFor();
        }
    }
}
