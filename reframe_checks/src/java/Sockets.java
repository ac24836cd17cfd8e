import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import mpi.MPI;
import mpi.MPIException;

/**
 * The same messages between ranks 0 and 1 without the library: one plain NIO socket, blocking, with
 * buffers outside of the heap. What a message of MPI takes longer is the library's own.
 */
final class Sockets {
    private static final int PATIENCE_MS = 20_000, MOST_PORTS = 1000;
    private final SocketChannel channel;
    private final ByteBuffer sent, received;
    private final boolean first;

    private Sockets(SocketChannel channel, boolean first, int most) throws IOException {
        this.channel = channel;
        this.first = first;
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        sent = ByteBuffer.allocateDirect(most);
        received = ByteBuffer.allocateDirect(most);
    }

    /**
     * Between the addresses that the launcher says (-Dnearmetal.address and the job's ports); null
     * where it says none, as for ranks that are threads. Collective.
     */
    static Sockets connect(Program program, int most) throws MPIException {
        final String[] addresses = program.gather(System.getProperty("nearmetal.address", ""));
        if (addresses[0].isEmpty() || addresses[1].isEmpty()) return null;
        final long[] meeting = new long[2]; // the port, and what the right guest says
        Sockets sockets = null;
        String fault = "";
        try (ServerSocketChannel server = program.rank == 0 ? listen(addresses[0]) : null) {
            if (server != null) {
                meeting[0] = server.socket().getLocalPort();
                meeting[1] = new java.security.SecureRandom().nextLong();
            }
            program.world.Bcast(meeting, 0, 2, MPI.LONG, 0);
            if (meeting[0] != 0)
                sockets =
                    new Sockets(server != null ? accept(server, addresses[1], meeting[1])
                                               : call(addresses, (int) meeting[0], meeting[1]),
                        server != null, most);
        } catch (IOException error) {
            fault = error.toString();
            if (program.rank == 0 && meeting[0] == 0)
                program.world.Bcast(meeting, 0, 2, MPI.LONG, 0);
        }
        final int[] mine = {sockets == null ? 1 : 0}, any = new int[1];
        program.world.Allreduce(mine, 0, any, 0, 1, MPI.INT, MPI.MAX);
        if (any[0] == 0) return sockets;
        throw new Program.Refusal(Program.FAILED,
            "no plain socket from " + addresses[1] + " to a port of the job's at " + addresses[0]
                + (fault.isEmpty() ? "" : " (" + fault + ")")
                + ": may nodes reach each other there?");
    }

    private static ServerSocketChannel listen(String address) throws IOException {
        final int from = Integer.getInteger("nearmetal.port", 0),
                  count = Integer.getInteger("nearmetal.ports", 1);
        IOException last = new IOException("the launcher gave no ports");
        for (int port = from; port < from + Math.min(count, MOST_PORTS); port++) {
            final ServerSocketChannel server = ServerSocketChannel.open();
            try {
                return server.bind(new InetSocketAddress(InetAddress.getByName(address), port));
            } catch (IOException taken) {
                last = taken;
                server.close();
            }
        }
        throw last;
    }

    /** Whoever else calls is hung up on. */
    private static SocketChannel accept(ServerSocketChannel server, String from, long word)
        throws IOException {
        final long end = System.nanoTime() + PATIENCE_MS * 1_000_000L;
        for (int left = PATIENCE_MS; left > 0;
            left = (int) ((end - System.nanoTime()) / 1_000_000)) {
            server.socket().setSoTimeout(left);
            final Socket guest = server.socket().accept();
            if (guest.getInetAddress().equals(InetAddress.getByName(from))) {
                guest.setSoTimeout(1000);
                try {
                    final byte[] said = guest.getInputStream().readNBytes(Long.BYTES);
                    if (said.length == Long.BYTES && ByteBuffer.wrap(said).getLong() == word) {
                        guest.setSoTimeout(0);
                        return guest.getChannel();
                    }
                } catch (IOException mute) {
                    // no guest of ours
                }
            }
            guest.close();
        }
        throw new IOException("rank 1 did not call within " + PATIENCE_MS / 1000 + " s");
    }

    private static SocketChannel call(String[] addresses, int port, long word) throws IOException {
        final SocketChannel channel = SocketChannel.open();
        channel.bind(new InetSocketAddress(InetAddress.getByName(addresses[1]), 0));
        channel.socket().connect(
            new InetSocketAddress(InetAddress.getByName(addresses[0]), port), PATIENCE_MS);
        channel.socket().getOutputStream().write(
            ByteBuffer.allocate(Long.BYTES).putLong(word).array());
        return channel;
    }

    /** What is sent from now on. */
    void load(byte[] bytes) {
        sent.clear().put(bytes, 0, Math.min(bytes.length, sent.capacity()));
    }

    /** What came last. */
    void store(byte[] bytes, int count) {
        received.position(0).get(bytes, 0, count);
    }

    void roundTrips(long count, int bytes) {
        try {
            for (long i = 0; i < count; i++) {
                if (first) send(bytes);
                receive(bytes);
                if (!first) send(bytes);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void send(int bytes) throws IOException {
        sent.position(0).limit(bytes);
        while (sent.hasRemaining()) channel.write(sent);
    }

    private void receive(int bytes) throws IOException {
        received.position(0).limit(bytes);
        while (received.hasRemaining())
            if (channel.read(received) < 0) throw new IOException("the other rank hung up");
    }
}
