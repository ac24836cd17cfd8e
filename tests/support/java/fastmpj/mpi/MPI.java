package mpi;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * Stand-in for FastMPJ 1.0_7's MPI.Init, which must not be handed on. By niodev a rank listens at
 * its address in the host file on the ports xxdev.port + 2 rank and + 2 rank + 1, and calls all
 * others until they answer, without end. Its thread for input wants 32 MB outside of the heap
 * beside the 33 MB of main; where it dies of them, Init waits without end.
 */
public final class MPI {
    public static Intracomm COMM_WORLD;
    private static ByteBuffer own;

    private MPI() {}

    public static String[] Init(String[] arguments) {
        int size = Integer.getInteger("mpj.nprocs");
        if (System.getProperty("xxdev.dev").equals("smdev")) {
            COMM_WORLD = new Intracomm(Integer.parseInt(Thread.currentThread().getName()), size);
            return arguments;
        }
        int rank = Integer.getInteger("mpj.rank"), first = Integer.getInteger("xxdev.port");
        try {
            List<String> hosts = Files.readAllLines(Path.of(System.getProperty("mpj.hostfile")));
            own = ByteBuffer.allocateDirect(33816892);
            boolean[] ready = new boolean[1];
            Thread input = new Thread(() -> {
                ByteBuffer.allocateDirect(33554480);
                ready[0] = true;
            });
            for (int port = first + 2 * rank; port <= first + 2 * rank + 1; port++)
                accept(new ServerSocket(port, size, InetAddress.getByName(hosts.get(rank))));
            for (int other = 0; other < size; other++) call(hosts.get(other), first + 2 * other);
            input.start();
            input.join();
            while (!ready[0]) Thread.sleep(100);
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
        COMM_WORLD = new Intracomm(rank, size);
        return arguments;
    }

    private static void accept(ServerSocket server) {
        Thread thread = new Thread(() -> {
            try {
                while (true) server.accept();
            } catch (IOException closed) {
                // The end.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private static void call(String host, int port) throws InterruptedException {
        while (true) {
            try (Socket socket = new Socket(host, port)) {
                return;
            } catch (IOException notYet) {
                Thread.sleep(20);
            }
        }
    }

    public static void Finalize() {
        // Connections end with the JVM.
    }
}
