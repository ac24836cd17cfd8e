// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import mpi.Comm;
import mpi.Datatype;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;
import mpi.Prequest;
import mpi.Request;
import mpi.Status;

/**
 * Random patterns of messages against a model, on any number of ranks: RandomMessages [SECONDS
 * [SEED]].
 *
 * <p>The seed decides all messages, so each rank knows what it has to get. A round is messages
 * under way at once, messages that block, or collective operations. Each has random sizes,
 * datatypes, communicators, modes, buffers and wildcards. A receive must get a message that it
 * matches, whole, and in the order of MPI. Bytes around a message must stay. Another thread makes
 * garbage meanwhile, so that the collector moves arrays.
 *
 * <p>The exit status is 1, with the seed and the round in a sentence, where a message is wrong.
 */
public final class RandomMessages {
    private static final int MODES = 5, BUFFERED = 1 << 14, TAGS = 3;
    private static final byte UNTOUCHED = 0x5a;
    private static final int[] SIZES = {0, 1, 7, 100, 1024, 5000, 1 << 16, 1 << 18, 1 << 20};
    private static final Datatype[] KINDS = {
        MPI.BYTE, MPI.SHORT, MPI.CHAR, MPI.INT, MPI.FLOAT, MPI.LONG, MPI.DOUBLE};
    private static final int[] WIDTHS = {1, 2, 2, 4, 4, 8, 8};

    /** Elements of a kind, from rank to rank of a communicator. `id` decides the content. */
    private record Message(
        long id, int source, int dest, int tag, int comm, int kind, int elements, int mode) {}

    /** What is received, and how: source and tag may be wildcards. */
    private record Receive(
        int comm, int source, int tag, int kind, int elements, boolean blocks, boolean variant) {
        boolean matches(Message message) {
            return message.comm == comm && (source == MPI.ANY_SOURCE || source == message.source)
                && (tag == MPI.ANY_TAG || tag == message.tag);
        }
    }

    private final Random local;
    private final Intracomm[] comms;
    private final int rank, ranks;
    private final Datatype[] gapped = new Datatype[KINDS.length];
    private Random model;
    private long round, messages, bytes;

    private RandomMessages(long seed) throws MPIException {
        Intracomm world = MPI.COMM_WORLD;
        rank = world.Rank();
        ranks = world.Size();
        local = new Random(seed * 31 + rank);
        // The last one has the ranks the other way round.
        comms = new Intracomm[] {world, (Intracomm) world.clone(), world.Split(0, -rank)};
        for (int kind = 0; kind < KINDS.length; kind++) {
            gapped[kind] = Datatype.Vector(2, 1, 2, KINDS[kind]);
            gapped[kind].Commit();
        }
        MPI.Buffer_attach(new byte[1 << 22]);
    }

    public static void main(String[] arguments) throws MPIException {
        String[] own = MPI.Init(arguments);
        double seconds = own.length > 0 ? Double.parseDouble(own[0]) : 10;
        long[] seed = {own.length > 1 ? Long.parseLong(own[1]) : System.nanoTime()};
        MPI.COMM_WORLD.Bcast(seed, 0, 1, MPI.LONG, 0);
        RandomMessages test = new RandomMessages(seed[0]);
        makeGarbage();
        try {
            test.run(seed[0], seconds);
        } catch (RuntimeException | AssertionError error) {
            System.out.println(
                "rank " + test.rank + ", seed " + seed[0] + ", round " + test.round + ": " + error);
            for (StackTraceElement frame : error.getStackTrace())
                System.out.println("    " + frame);
            System.out.flush();
            Runtime.getRuntime().halt(1);
        }
        MPI.Finalize();
    }

    private static void makeGarbage() {
        Thread thread = new Thread(() -> {
            byte[][] kept = new byte[64][];
            for (int i = 0;; i++) {
                kept[i % kept.length] = new byte[1 << 14 + i % 3];
                if (i % 16 == 0) Thread.yield();
                if (i % 64 == 0) {
                    try {
                        Thread.sleep(1);
                    } catch (InterruptedException ended) {
                        return;
                    }
                }
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    private void run(long seed, double seconds) throws MPIException {
        long start = System.nanoTime();
        int[] go = {1};
        for (round = 0;; round++) {
            if (round % 16 == 0) {
                go[0] = System.nanoTime() - start < seconds * 1e9 ? 1 : 0;
                comms[0].Bcast(go, 0, 1, MPI.INT, 0);
                if (go[0] == 0) break;
            }
            model = new Random(seed + 1000003 * round);
            model.nextInt();
            switch (model.nextInt(4)) {
                case 0 -> blocking();
                case 1 -> collectives();
                default -> underWay();
            }
            comms[0].Barrier(); // no message of the next round meets a wildcard of this one
        }
        if (rank == 0)
            System.out.println("# mpj-native: random messages as the model says: seed=" + seed
                + " rounds=" + round + " messages=" + messages + " megabytes=" + (bytes >> 20)
                + " ranks=" + ranks + " over " + MPI.Get_library_version().split(",| MPICH ")[0]);
        System.out.flush();
    }

    /* ---- contents */

    private static byte content(long id, long place) {
        long mixed = (place + 1) * 0x9E3779B97F4A7C15L ^ id * 0xC2B2AE3D27D4EB4FL;
        return (byte) (mixed >>> 29);
    }

    /** A buffer, and where the elements of a message are in it. */
    private final class Place {
        final Object buf;
        final MemorySegment memory;
        final int offset, items, elements, width;
        final boolean gaps;
        final Datatype type;

        /** `elements` is what it has room for. */
        Place(int kind, int elements) {
            this.elements = elements;
            width = WIDTHS[kind];
            gaps = elements % 2 == 0 && local.nextInt(4) == 0;
            type = gaps ? gapped[kind] : KINDS[kind];
            items = gaps ? elements / 2 : elements;
            offset = local.nextInt(3);
            int length = offset + 2 + (gaps ? items * 3 : elements);
            switch (local.nextInt(4)) {
                case 0 -> {
                    ByteBuffer buffer = ByteBuffer.allocateDirect(length * width);
                    memory = MemorySegment.ofBuffer(buffer);
                    buf = buffer;
                }
                case 1 -> buf = memory = Arena.ofAuto().allocate((long) length * width, 8);
                default -> {
                    buf = array(kind, length);
                    memory = heap(buf);
                }
            }
            memory.fill(UNTOUCHED);
        }

        long at(int element) {
            return (offset + (gaps ? element / 2 * 3L + element % 2 * 2 : element)) * width;
        }

        void fill(long id) {
            for (int e = 0; e < elements; e++)
                for (int b = 0; b < width; b++)
                    memory.set(ValueLayout.JAVA_BYTE, at(e) + b, content(id, (long) e * width + b));
        }

        boolean holds(long id, int received) {
            for (int e = 0; e < received; e++)
                for (int b = 0; b < width; b++)
                    if (memory.get(ValueLayout.JAVA_BYTE, at(e) + b)
                        != content(id, (long) e * width + b))
                        return false;
            return true;
        }

        void requireRestUntouched(int received) {
            long next = 0;
            for (int e = 0; e <= received; e++) {
                long until = e < received ? at(e) : memory.byteSize();
                for (long b = next; b < until; b++)
                    if (memory.get(ValueLayout.JAVA_BYTE, b) != UNTOUCHED)
                        throw new AssertionError("byte " + b + " beside a message of " + received
                            + " elements of " + width + " bytes was written");
                next = until + width;
            }
        }
    }

    private static Object array(int kind, int length) {
        return switch (kind) {
            case 0 -> new byte[length];
            case 1 -> new short[length];
            case 2 -> new char[length];
            case 3 -> new int[length];
            case 4 -> new float[length];
            case 5 -> new long[length];
            default -> new double[length];
        };
    }

    private static MemorySegment heap(Object array) {
        return switch (array) {
            case byte[] a -> MemorySegment.ofArray(a);
            case short[] a -> MemorySegment.ofArray(a);
            case char[] a -> MemorySegment.ofArray(a);
            case int[] a -> MemorySegment.ofArray(a);
            case float[] a -> MemorySegment.ofArray(a);
            case long[] a -> MemorySegment.ofArray(a);
            default -> MemorySegment.ofArray((double[]) array);
        };
    }

    /** Around one of the sizes; long ones are rare. */
    private int elements(int kind) {
        int most = model.nextInt(4) == 0 ? SIZES.length : model.nextInt(SIZES.length) + 1;
        int size = SIZES[model.nextInt(most)];
        return Math.max(0, size / WIDTHS[kind] + model.nextInt(5) - 2);
    }

    private Message message(int source, int dest, int comm, int kind) {
        return new Message(model.nextLong(), source, dest, model.nextInt(TAGS), comm, kind,
            elements(kind), model.nextInt(MODES));
    }

    private int me(int comm) {
        return comm == 2 ? ranks - 1 - rank : rank;
    }

    private Place filled(Message message) {
        Place place = new Place(message.kind, message.elements);
        place.fill(message.id);
        messages++;
        bytes += (long) message.elements * place.width;
        return place;
    }

    private void require(Message message, Place place, Status status) throws MPIException {
        if (status.source != message.source || status.tag != message.tag
            || status.Get_elements(place.type) != message.elements
            || !place.holds(message.id, message.elements))
            throw new AssertionError("not received as sent: " + message + ", but from "
                + status.source + " with tag " + status.tag + " and "
                + status.Get_elements(place.type) + " elements");
        place.requireRestUntouched(message.elements);
    }

    /* ---- messages under way at once */

    private void underWay() throws MPIException {
        int count = 1 + model.nextInt(4 * ranks);
        // What the receives of a rank leave open on a communicator: nothing, source, tag, or both.
        int[][] open = new int[ranks][comms.length], kinds = new int[ranks][comms.length];
        for (int dest = 0; dest < ranks; dest++)
            for (int comm = 0; comm < comms.length; comm++) {
                open[dest][comm] = Math.max(0, model.nextInt(6) - 2);
                kinds[dest][comm] = model.nextInt(KINDS.length);
            }
        List<Message> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            int dest = model.nextInt(ranks), comm = model.nextInt(comms.length);
            int kind = open[dest][comm] == 0 ? model.nextInt(KINDS.length) : kinds[dest][comm];
            all.add(message(model.nextInt(ranks), dest, comm, kind));
        }
        List<Message> mine = new ArrayList<>(), sends = new ArrayList<>();
        for (Message message : all) {
            if (message.source == me(message.comm)) sends.add(message);
            if (message.dest == me(message.comm)) mine.add(message);
        }
        List<Receive> receives = receives(mine, open);
        List<Request> requests = new ArrayList<>();
        List<Place> places = new ArrayList<>(), kept = new ArrayList<>();
        int posted = 0;
        int pending = (int) receives.stream().filter(receive -> !receive.blocks).count();
        for (int sent = 0; sent < sends.size() || posted < pending;) {
            if (posted == pending || sent < sends.size() && local.nextBoolean()) {
                Message message = sends.get(sent++);
                Place place = filled(message);
                kept.add(place);
                Request request = started(message, place);
                if (request != null) {
                    requests.add(request);
                    places.add(null);
                }
            } else {
                Receive receive = receives.get(posted++);
                Place place = new Place(receive.kind, receive.elements);
                requests.add(started(receive, place));
                places.add(place);
            }
        }
        Status[] got = new Status[receives.size()];
        Place[] into = new Place[receives.size()];
        for (int i = pending; i < receives.size(); i++) {
            Receive receive = receives.get(i);
            into[i] = new Place(receive.kind, receive.elements);
            got[i] = received(receive, into[i]);
        }
        Status[] statuses = completed(requests.toArray(new Request[0]));
        for (int i = 0, r = 0; i < statuses.length; i++)
            if (places.get(i) != null) {
                into[r] = places.get(i);
                got[r++] = statuses[i];
            }
        for (Request request : requests)
            if (request instanceof Prequest) request.Free();
        requireOrder(mine, receives, into, got);
    }

    /** One receive for each message; those that do not block come first. */
    private List<Receive> receives(List<Message> mine, int[][] open) {
        List<Message> shuffled = new ArrayList<>(mine);
        Collections.shuffle(shuffled, local);
        List<boolean[]> flags = new ArrayList<>();
        for (int i = 0; i < shuffled.size(); i++)
            flags.add(new boolean[] {local.nextInt(3) == 0, local.nextBoolean()});
        flags.sort((a, b) -> Boolean.compare(a[0], b[0]));
        Map<List<Integer>, ArrayDeque<Message>> queues = new HashMap<>();
        Map<Integer, Integer> most = new HashMap<>();
        for (Message message : mine) {
            queues.computeIfAbsent(key(message), key -> new ArrayDeque<>()).add(message);
            most.merge(message.comm, message.elements, Math::max);
        }
        List<Receive> receives = new ArrayList<>();
        for (int i = 0; i < shuffled.size(); i++) {
            // The first receive of a source and tag gets the first message of them.
            Message next = queues.get(key(shuffled.get(i))).remove();
            int left = open[next.dest][next.comm];
            receives.add(new Receive(next.comm, (left & 1) != 0 ? MPI.ANY_SOURCE : next.source,
                (left & 2) != 0 ? MPI.ANY_TAG : next.tag, next.kind,
                left == 0 ? next.elements + local.nextInt(3) : most.get(next.comm), flags.get(i)[0],
                flags.get(i)[1]));
        }
        return receives;
    }

    private static List<Integer> key(Message message) {
        return List.of(message.comm, message.source, message.tag);
    }

    /** Starts to send; null where the message was sent at once. */
    private Request started(Message message, Place place) throws MPIException {
        Comm comm = comms[message.comm];
        boolean small = (long) message.elements * place.width <= BUFFERED;
        switch (message.mode) {
            case 0:
                if (!small) break;
                comm.Bsend(
                    place.buf, place.offset, place.items, place.type, message.dest, message.tag);
                return null;
            case 1:
                if (!small) break;
                return comm.Ibsend(
                    place.buf, place.offset, place.items, place.type, message.dest, message.tag);
            case 2:
                return comm.Issend(
                    place.buf, place.offset, place.items, place.type, message.dest, message.tag);
            case 3:
                Prequest request = comm.Send_init(
                    place.buf, place.offset, place.items, place.type, message.dest, message.tag);
                request.Start();
                return request;
            default:
                break;
        }
        return comm.Isend(
            place.buf, place.offset, place.items, place.type, message.dest, message.tag);
    }

    private Request started(Receive receive, Place place) throws MPIException {
        Comm comm = comms[receive.comm];
        if (receive.variant)
            return comm.Irecv(
                place.buf, place.offset, place.items, place.type, receive.source, receive.tag);
        Prequest request = comm.Recv_init(
            place.buf, place.offset, place.items, place.type, receive.source, receive.tag);
        request.Start();
        return request;
    }

    private Status received(Receive receive, Place place) throws MPIException {
        Comm comm = comms[receive.comm];
        int source = receive.source, tag = receive.tag;
        Status probed = null;
        if (receive.variant) {
            if (local.nextBoolean()) probed = comm.Probe(source, tag);
            while (probed == null) probed = comm.Iprobe(source, tag);
            source = probed.source;
            tag = probed.tag;
        }
        Status status = comm.Recv(place.buf, place.offset, place.items, place.type, source, tag);
        if (probed != null && probed.Get_elements(place.type) != status.Get_elements(place.type))
            throw new AssertionError("a probe saw " + probed.Get_elements(place.type)
                + " elements of a message of " + status.Get_elements(place.type));
        return status;
    }

    /** Statuses of all requests, completed in one of the ways of the interface. */
    private Status[] completed(Request[] requests) throws MPIException {
        Status[] statuses = new Status[requests.length];
        switch (local.nextInt(6)) {
            case 0:
                return Request.Waitall(requests);
            case 1:
                Status[] all = null;
                while (all == null) all = Request.Testall(requests);
                return all;
            case 2:
                for (int i = 0; i < requests.length; i++) {
                    Status one = Request.Waitany(requests);
                    statuses[one.index] = one;
                }
                return statuses;
            case 3:
                for (int left = requests.length; left > 0;) {
                    Status[] some = local.nextBoolean() ? Request.Waitsome(requests)
                                                        : Request.Testsome(requests);
                    for (Status one : some) statuses[one.index] = one;
                    left -= some.length;
                }
                return statuses;
            case 4:
                for (int left = requests.length; left > 0;) {
                    int i = local.nextInt(requests.length);
                    if (statuses[i] != null) continue;
                    statuses[i] = requests[i].Test();
                    if (statuses[i] != null) left--;
                }
                return statuses;
            default:
                for (int i = requests.length - 1; i >= 0; i--) statuses[i] = requests[i].Wait();
                return statuses;
        }
    }

    /** Each receive got a message of its own, and none that an earlier receive had to get. */
    private void requireOrder(List<Message> mine, List<Receive> receives, Place[] into,
        Status[] got) throws MPIException {
        List<Message> left = new ArrayList<>(mine);
        Message[] found = new Message[receives.size()];
        for (int i = 0; i < found.length; i++) {
            Receive receive = receives.get(i);
            for (Message message : left)
                if (receive.matches(message) && got[i].source == message.source
                    && got[i].tag == message.tag
                    && got[i].Get_elements(into[i].type) == message.elements
                    && into[i].holds(message.id, message.elements)) {
                    found[i] = message;
                    break;
                }
            if (found[i] == null)
                throw new AssertionError("nobody sent what " + receive + " got from "
                    + got[i].source + " with tag " + got[i].tag + " and "
                    + got[i].Get_elements(into[i].type) + " elements; left are " + left);
            left.remove(found[i]);
            into[i].requireRestUntouched(found[i].elements);
            for (int earlier = 0; earlier < i; earlier++)
                if (found[earlier].comm == found[i].comm && found[earlier].source == found[i].source
                    && mine.indexOf(found[i]) < mine.indexOf(found[earlier])
                    && receives.get(earlier).matches(found[i]))
                    throw new AssertionError(
                        found[i] + " was overtaken by " + found[earlier] + " at " + receive);
        }
    }

    /* ---- messages that block, in one order on all ranks */

    private void blocking() throws MPIException {
        for (int i = model.nextInt(4 * ranks); i >= 0; i--) {
            Message message = message(model.nextInt(ranks), model.nextInt(ranks),
                model.nextInt(comms.length), model.nextInt(KINDS.length));
            int how = model.nextInt(4);
            int own = me(message.comm);
            if (own != message.source && own != message.dest) continue;
            if (how == 0) exchange(message);
            else if (message.source == message.dest) toMyself(message);
            else if (how == 1 && message.elements < 1000) objects(message);
            else if (own == message.source) send(message, filled(message));
            else receive(message, new Place(message.kind, message.elements + local.nextInt(4)));
        }
    }

    private void send(Message message, Place place) throws MPIException {
        Comm comm = comms[message.comm];
        boolean small = (long) message.elements * place.width <= BUFFERED;
        if (message.mode == 0 && small)
            comm.Bsend(place.buf, place.offset, place.items, place.type, message.dest, message.tag);
        else if (message.mode == 1)
            comm.Ssend(place.buf, place.offset, place.items, place.type, message.dest, message.tag);
        else comm.Send(place.buf, place.offset, place.items, place.type, message.dest, message.tag);
    }

    private void receive(Message message, Place place) throws MPIException {
        Receive receive = new Receive(message.comm, message.source, message.tag, message.kind,
            place.elements, true, local.nextBoolean());
        require(message, place, received(receive, place));
    }

    private void toMyself(Message message) throws MPIException {
        Place from = filled(message), to = new Place(message.kind, message.elements);
        Comm comm = comms[message.comm];
        Request request =
            comm.Irecv(to.buf, to.offset, to.items, to.type, message.source, message.tag);
        send(message, from);
        require(message, to, request.Wait());
    }

    /** A message each way. */
    private void exchange(Message message) throws MPIException {
        Message back = new Message(message.id + 1, message.dest, message.source, message.tag + 1,
            message.comm, message.kind, message.elements, message.mode);
        boolean forth = me(message.comm) == message.source;
        boolean both = message.source == message.dest;
        Message out = forth ? message : back, in = both ? out : forth ? back : message;
        Place from = filled(out), to = new Place(in.kind, in.elements);
        Comm comm = comms[message.comm];
        Status status;
        if (local.nextBoolean()) {
            status = comm.Sendrecv(from.buf, from.offset, from.items, from.type, out.dest, out.tag,
                to.buf, to.offset, to.items, to.type, in.source, in.tag);
        } else {
            to = from;
            status = comm.Sendrecv_replace(
                from.buf, from.offset, from.items, from.type, out.dest, out.tag, in.source, in.tag);
        }
        require(in, to, status);
    }

    private void objects(Message message) throws MPIException {
        Object[] sent = new Object[message.elements];
        for (int i = 0; i < sent.length; i++) sent[i] = message.id + " " + i;
        Comm comm = comms[message.comm];
        messages++;
        if (me(message.comm) == message.source) {
            comm.Send(sent, 0, sent.length, MPI.OBJECT, message.dest, message.tag);
            return;
        }
        Object[] got = new Object[message.elements];
        Status status = comm.Recv(got, 0, got.length, MPI.OBJECT, message.source, message.tag);
        if (!Arrays.equals(sent, got) || status.Get_count(MPI.OBJECT) != sent.length)
            throw new AssertionError("objects not received as sent: " + message);
    }

    /* ---- collective operations */

    private void collectives() throws MPIException {
        for (int i = model.nextInt(6); i >= 0; i--) {
            int comm = model.nextInt(comms.length), kind = model.nextInt(KINDS.length);
            long id = model.nextLong();
            switch (model.nextInt(4)) {
                case 0 -> broadcast(comms[comm], me(comm), model.nextInt(ranks), kind, id);
                case 1 -> toAll(comms[comm], me(comm), kind, id);
                case 2 -> gather(comms[comm], me(comm), kind, id);
                default -> sum(comms[comm], me(comm), id);
            }
            messages++;
        }
    }

    private void broadcast(Intracomm comm, int own, int root, int kind, long id)
        throws MPIException {
        Place place = new Place(kind, elements(kind));
        if (own == root) place.fill(id);
        comm.Bcast(place.buf, place.offset, place.items, place.type, root);
        if (!place.holds(id, place.elements)) throw new AssertionError("a wrong Bcast");
        place.requireRestUntouched(place.elements);
    }

    /** Rank s sends counts[s][d] elements to rank d, one after the other. */
    private void toAll(Intracomm comm, int own, int kind, long id) throws MPIException {
        int[] sent = new int[ranks], got = new int[ranks], from = new int[ranks],
              into = new int[ranks];
        int sending = 0, receiving = 0;
        for (int s = 0; s < ranks; s++)
            for (int d = 0; d < ranks; d++) {
                int count = elements(kind) / ranks;
                if (s == own) sent[d] = count;
                if (d == own) got[s] = count;
            }
        for (int r = 0; r < ranks; r++) {
            from[r] = sending;
            into[r] = receiving;
            sending += sent[r];
            receiving += got[r];
        }
        int width = WIDTHS[kind];
        Object out = array(kind, sending), in = array(kind, receiving);
        MemorySegment outMemory = heap(out), inMemory = heap(in);
        for (int d = 0; d < ranks; d++)
            for (int b = 0; b < sent[d] * width; b++)
                outMemory.set(ValueLayout.JAVA_BYTE, (long) from[d] * width + b,
                    content(id + own * 1000L + d, b));
        comm.Alltoallv(out, 0, sent, from, KINDS[kind], in, 0, got, into, KINDS[kind]);
        for (int s = 0; s < ranks; s++)
            for (int b = 0; b < got[s] * width; b++)
                if (inMemory.get(ValueLayout.JAVA_BYTE, (long) into[s] * width + b)
                    != content(id + s * 1000L + own, b))
                    throw new AssertionError("a wrong Alltoallv");
    }

    private void gather(Intracomm comm, int own, int kind, long id) throws MPIException {
        int count = elements(kind) / ranks;
        Place out = new Place(kind, count);
        out.fill(id + own);
        Object all = array(kind, count * ranks);
        comm.Allgather(out.buf, out.offset, out.items, out.type, all, 0, count, KINDS[kind]);
        MemorySegment memory = heap(all);
        int width = WIDTHS[kind];
        for (int r = 0; r < ranks; r++)
            for (int b = 0; b < count * width; b++)
                if (memory.get(ValueLayout.JAVA_BYTE, (long) r * count * width + b)
                    != content(id + r, b))
                    throw new AssertionError("a wrong Allgather");
    }

    private void sum(Intracomm comm, int own, long id) throws MPIException {
        int count = elements(3);
        int[] out = new int[count], sum = new int[count], scanned = new int[count];
        for (int e = 0; e < count; e++) out[e] = content(id + own, e);
        comm.Allreduce(out, 0, sum, 0, count, MPI.INT, MPI.SUM);
        comm.Scan(out, 0, scanned, 0, count, MPI.INT, MPI.SUM);
        for (int e = 0; e < count; e++) {
            int whole = 0, until = 0;
            for (int r = 0; r < ranks; r++) {
                whole += content(id + r, e);
                if (r <= own) until += content(id + r, e);
            }
            if (sum[e] != whole || scanned[e] != until)
                throw new AssertionError("a wrong Allreduce or Scan");
        }
    }
}
