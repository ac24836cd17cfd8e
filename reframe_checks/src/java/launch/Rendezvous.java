package launch;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Where the ranks of a job learn each other's addresses and ports; rank 0 hosts it, on the job's
 * network alone.
 *
 * A rank says first that it is there ("nearmetal JOB RANK") and keeps that connection, on which it
 * is heard of from then on. MPJ Express's niodev then sends its ports by its own protocol ("Sending
 * Info", write port, read port, rank) and is answered when all have. FastMPJ has no such protocol:
 * each rank gets all addresses on its connection as soon as all ranks are there
 * ("nearmetal JOB peers ADDRESS,..."). Who is not on a node of the job is closed unread; who says
 * something else, too slowly or twice, unanswered.
 */
final class Rendezvous {
    /** A hello or a report has at most so many bytes of text, and so long to come. */
    private static final int LONGEST = 200, HELLO_MS = 5000;

    /** What is known of a rank; all of it guarded by the rendezvous. */
    private static final class Member {
        InetAddress address;
        boolean gone;
        long heard;
        Socket connection, report;
        int write, read;
    }

    final InetAddress address;
    final int port;
    private final String job;
    private final Set<InetAddress> nodes;
    private final Member[] members;
    private final ServerSocket server;
    private final boolean reports;
    private final AtomicInteger talking = new AtomicInteger();
    private boolean complete;

    /**
     * Listens on the first port of that range which is free; IOException where none is.
     *
     * @param reports whether the library reports its ports, as MPJ Express does, or is given all
     *     addresses, as FastMPJ is
     */
    Rendezvous(String job, InetAddress address, int first, int count, Set<InetAddress> nodes,
        int ranks, boolean reports) throws IOException {
        this.job = job;
        this.reports = reports;
        this.address = address;
        this.nodes = Set.copyOf(nodes);
        members = new Member[ranks];
        Arrays.setAll(members, rank -> new Member());
        server = listen(address, first, count, ranks);
        port = server.getLocalPort();
        background("rendezvous", this::serve);
    }

    private static ServerSocket listen(InetAddress address, int first, int count, int ranks)
        throws IOException {
        for (int port = first; port < first + count; port++) {
            ServerSocket socket = new ServerSocket();
            try {
                socket.setReuseAddress(true);
                socket.bind(new InetSocketAddress(address, port), 2 * ranks + 16);
                return socket;
            } catch (IOException taken) {
                socket.close();
            }
        }
        throw new IOException("the ports " + first + " to " + (first + count - 1) + " of "
            + address.getHostAddress()
            + " are all in use: give others in the partition's extras (java_ports)");
    }

    static void background(String name, Runnable work) {
        Thread thread = new Thread(work, name);
        thread.setDaemon(true);
        thread.start();
    }

    private void serve() {
        while (true) {
            try {
                Socket guest = server.accept();
                // A node has its ranks' two connections each and no reason for many more.
                if (!ofTheJob(guest.getInetAddress()) || talking.get() > 4 * members.length + 16) {
                    guest.close();
                    continue;
                }
                talking.incrementAndGet();
                background("rendezvous of " + guest.getRemoteSocketAddress(), () -> {
                    try {
                        hear(guest);
                    } catch (IOException | RuntimeException unusable) {
                        close(guest);
                    } finally {
                        talking.decrementAndGet();
                    }
                });
            } catch (IOException refused) {
                // the server's own end; a guest that went away is none
                if (server.isClosed()) return;
            }
        }
    }

    private void hear(Socket guest) throws IOException {
        long end = System.nanoTime() + HELLO_MS * 1_000_000L;
        String said = text(guest, end);
        if (reports && said.equals("Sending Info")) report(guest, end);
        else if (said.startsWith("nearmetal " + job + " "))
            join(guest, said.substring(job.length() + 11));
        else close(guest);
    }

    private void join(Socket guest, String number) throws IOException {
        int rank = number.matches("\\d{1,6}") ? Integer.parseInt(number) : -1;
        Member member;
        synchronized (this) {
            if (rank < 0 || rank >= members.length || members[rank].address != null) {
                // Its own words: it is of this job, and ought to say why it ends.
                new DataOutputStream(guest.getOutputStream())
                    .writeUTF("nearmetal " + job + " refused");
                close(guest);
                return;
            }
            member = members[rank];
            member.address = guest.getInetAddress();
            member.heard = System.nanoTime();
            member.connection = guest;
            new DataOutputStream(guest.getOutputStream()).writeUTF("nearmetal " + job);
            if (!reports && missing().isEmpty()) introduce();
        }
        guest.setSoTimeout(0);
        try {
            for (InputStream beats = guest.getInputStream(); beats.read() >= 0;)
                synchronized (this) {
                    member.heard = System.nanoTime();
                }
        } finally {
            synchronized (this) {
                member.gone = true;
            }
            close(guest);
        }
    }

    private void report(Socket guest, long end) throws IOException {
        DataInputStream numbers =
            new DataInputStream(new java.io.ByteArrayInputStream(take(guest, 12, end)));
        int write = numbers.readInt(), read = numbers.readInt(), rank = numbers.readInt();
        synchronized (this) {
            boolean sound = rank >= 0 && rank < members.length && isPort(write) && isPort(read)
                && write != read;
            if (!sound || members[rank].report != null
                || !same(guest.getInetAddress(), members[rank].address)) {
                close(guest);
                return;
            }
            Member member = members[rank];
            member.report = guest;
            member.write = write;
            member.read = read;
            member.heard = System.nanoTime();
            for (Member other : members)
                if (other.report == null) return;
            answer();
        }
    }

    /** Tells each rank the addresses of all. */
    private void introduce() {
        StringBuilder words = new StringBuilder("nearmetal " + job + " peers ");
        for (Member member : members) words.append(member.address.getHostAddress()).append(',');
        complete = true;
        for (Member member : members) {
            try {
                new DataOutputStream(member.connection.getOutputStream())
                    .writeUTF(words.toString());
            } catch (IOException lost) {
                // Its process has ended, which ends the step.
            }
        }
        close(server);
    }

    private void answer() {
        StringBuilder peers = new StringBuilder("#Peer Information");
        for (int rank = 0; rank < members.length; rank++)
            peers.append(';')
                .append(members[rank].address.getHostAddress())
                .append('@')
                .append(members[rank].read)
                .append('@')
                .append(members[rank].write)
                .append('@')
                .append(rank)
                .append("@0");
        peers.append(';');
        complete = true;
        for (Member member : members) {
            try {
                new DataOutputStream(member.report.getOutputStream()).writeUTF(peers.toString());
            } catch (IOException lost) {
                // Its process has ended, which ends the step.
            }
            close(member.report);
        }
        close(server);  // all are here: nobody else has any business
    }

    /**
     * Ranks that have not arrived, or not reported where the library does; empty once all were
     * answered.
     */
    synchronized List<Integer> missing() {
        List<Integer> ranks = new ArrayList<>();
        for (int rank = 0; rank < members.length && !complete; rank++)
            if (reports ? members[rank].report == null : members[rank].connection == null)
                ranks.add(rank);
        return ranks;
    }

    /** Each rank and when it was last heard of, in words. */
    synchronized String lastHeard() {
        List<String> words = new ArrayList<>();
        long now = System.nanoTime();
        for (int rank = 0; rank < members.length; rank++) {
            Member member = members[rank];
            words.add("rank " + rank
                + (member.address == null
                        ? " never"
                        : String.format(" (%s) %.1f s ago%s", member.address.getHostAddress(),
                              (now - member.heard) / 1e9,
                              member.gone                            ? ", its process has ended"
                                  : reports && member.report == null ? ", not yet in MPI.Init"
                                                                     : "")));
        }
        return String.join("; ", words);
    }

    private boolean ofTheJob(InetAddress guest) {
        return nodes.contains(guest) || same(guest, address);
    }

    /** On one node a name may be 127.0.1.1, where whoever connects comes from 127.0.0.1. */
    private static boolean same(InetAddress one, InetAddress other) {
        return one.equals(other)
            || other != null && other.isLoopbackAddress()
            && one.equals(InetAddress.getLoopbackAddress());
    }

    static boolean isPort(int number) {
        return number >= 1024 && number < 65536;
    }

    /**
     * Java's writeUTF of the other side: two bytes of length, and no more of them than any of ours
     * has.
     */
    static String text(Socket socket, long end) throws IOException {
        return text(socket, end, LONGEST);
    }

    /** As above, of so many bytes at most. */
    static String text(Socket socket, long end, int longest) throws IOException {
        byte[] length = take(socket, 2, end);
        int size = (length[0] & 255) << 8 | length[1] & 255;
        if (size > longest) throw new IOException("too long");
        return new String(take(socket, size, end), StandardCharsets.US_ASCII);
    }

    /** So many bytes by that time, however slowly they trickle in. */
    private static byte[] take(Socket socket, int count, long end) throws IOException {
        byte[] bytes = new byte[count];
        for (int got = 0; got < count;) {
            long left = (end - System.nanoTime()) / 1_000_000;
            if (left <= 0) throw new SocketTimeoutException();
            socket.setSoTimeout((int) left);
            int more = socket.getInputStream().read(bytes, got, count - got);
            if (more < 0) throw new EOFException();
            got += more;
        }
        return bytes;
    }

    private static void close(java.io.Closeable thing) {
        try {
            thing.close();
        } catch (IOException ignored) {
            // It is of no use any more either way.
        }
    }
}
