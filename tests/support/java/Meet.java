import java.nio.file.Files;
import java.nio.file.Path;
import mpi.MPI;

/** Ranks that meet in MPI.Init and say how; the argument is what goes wrong in the last rank. */
public class Meet {
    public static void main(String[] arguments) throws Exception {
        String what = arguments[0];
        String said = System.getProperty("mpj.rank") + " of " + System.getProperty("mpj.nprocs");
        if (what.equals("late") && !said.startsWith("0 ")) Thread.sleep(1_000_000);
        MPI.Init(arguments);
        int rank = MPI.COMM_WORLD.Rank(), size = MPI.COMM_WORLD.Size();
        String hosts = System.getProperty("mpj.hostfile");
        System.out.println("meet rank=" + rank + " size=" + size
            + " port=" + System.getProperty("xxdev.port", "none") + " hosts="
            + (hosts == null ? "none" : String.join(",", Files.readAllLines(Path.of(hosts)))));
        if (rank == size - 1) {
            if (what.equals("throw")) throw new IllegalStateException("as told");
            if (what.equals("exit")) System.exit(3);
        }
        if (what.equals("throw") || what.equals("exit") || what.equals("hang"))
            Thread.sleep(1_000_000);
        MPI.Finalize();
    }
}
