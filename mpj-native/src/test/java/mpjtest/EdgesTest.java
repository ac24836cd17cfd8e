// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.rank;
import static mpjtest.Main.ranks;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;
import mpi.Comm;
import mpi.Datatype;
import mpi.Graphcomm;
import mpi.Intercomm;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;
import mpi.Op;
import mpi.Prequest;
import mpi.Request;
import mpi.Status;
import mpi.User_function;

/** Cases at the edge of the standard: nothing to send, nobody to send to, too much, too late. */
public final class EdgesTest {
    private EdgesTest() {}

    private static final int LARGE = 3000; // integers; above the eager limit within a node

    private static IntBuffer direct(int ints) {
        return ByteBuffer.allocateDirect(4 * ints).order(ByteOrder.nativeOrder()).asIntBuffer();
    }

    private static void ofNobody(Status status) throws MPIException {
        same(MPI.PROC_NULL, status.source);
        same(MPI.ANY_TAG, status.tag);
        same(0, status.Get_count(MPI.INT));
    }

    public static void nobody() throws MPIException {
        int none = MPI.PROC_NULL;
        int[] from = {7}, to = {5};
        MPI.Buffer_attach(new byte[1000 + MPI.BSEND_OVERHEAD]);
        world.Send(from, 0, 1, MPI.INT, none, 0);
        world.Ssend(from, 0, 1, MPI.INT, none, 0);
        world.Bsend(from, 0, 1, MPI.INT, none, 0);
        world.Rsend(from, 0, 1, MPI.INT, none, 0);
        MPI.Buffer_detach();
        ofNobody(world.Recv(to, 0, 1, MPI.INT, none, MPI.ANY_TAG));
        ofNobody(world.Irecv(to, 0, 1, MPI.INT, none, 3).Wait());
        ofNobody(world.Probe(none, 3));
        ofNobody(world.Iprobe(none, 3));
        ofNobody(world.Sendrecv(from, 0, 1, MPI.INT, none, 0, to, 0, 1, MPI.INT, none, 0));
        ofNobody(world.Sendrecv_replace(to, 0, 1, MPI.INT, none, 0, none, 0));
        Prequest receive = world.Recv_init(to, 0, 1, MPI.INT, none, 0);
        receive.Start();
        same(0, receive.Wait().Get_count(MPI.INT)); // MPICH says that it is from anybody
        receive.Free();
        same(5, to[0]);
    }

    public static void anybody() throws MPIException {
        int[] to = new int[2];
        int any = MPI.ANY_SOURCE, every = MPI.ANY_TAG;
        Status status = world.Sendrecv(
            new int[] {rank}, 0, 1, MPI.INT, next(world), 9, to, 1, 1, MPI.INT, any, every);
        same(previous(world), to[1]);
        same(previous(world), status.source);
        same(9, status.tag);
        to[1] = rank;
        status = world.Sendrecv_replace(to, 1, 1, MPI.INT, next(world), 8, any, every);
        same(previous(world), to[1]);
        same(8, status.tag);
    }

    public static void nothing() throws MPIException {
        int[] empty = {}, zeros = new int[ranks];
        world.Bcast(empty, 0, 0, MPI.INT, 0);
        world.Gather(empty, 0, 0, MPI.INT, empty, 0, 0, MPI.INT, 0);
        world.Scatter(empty, 0, 0, MPI.INT, empty, 0, 0, MPI.INT, 0);
        world.Allgather(empty, 0, 0, MPI.INT, empty, 0, 0, MPI.INT);
        world.Alltoall(empty, 0, 0, MPI.INT, empty, 0, 0, MPI.INT);
        world.Gatherv(empty, 0, 0, MPI.INT, empty, 0, zeros, zeros, MPI.INT, 0);
        world.Scatterv(empty, 0, zeros, zeros, MPI.INT, empty, 0, 0, MPI.INT, 0);
        world.Allgatherv(empty, 0, 0, MPI.INT, empty, 0, zeros, zeros, MPI.INT);
        world.Alltoallv(empty, 0, zeros, zeros, MPI.INT, empty, 0, zeros, zeros, MPI.INT);
        world.Reduce(empty, 0, empty, 0, 0, MPI.INT, MPI.SUM, 0);
        world.Allreduce(empty, 0, empty, 0, 0, MPI.INT, MPI.SUM);
        world.Scan(empty, 0, empty, 0, 0, MPI.INT, MPI.SUM);
        world.Reduce_scatter(empty, 0, empty, 0, zeros, MPI.INT, MPI.SUM);
        same(0, Request.Waitall(new Request[0]).length);
        same(MPI.UNDEFINED, Request.Waitany(new Request[0]).index);
        holds(Request.Waitsome(new Request[2]) == null, "there is no request");
        same(2, Request.Testall(new Request[2]).length);
        same(4, world.Pack(new int[] {1}, 0, 1, MPI.INT, new byte[8], 0));
        same(3, world.Pack(empty, 0, 0, MPI.INT, new byte[3], 3));
    }

    /** Parts with a gap after each, some of them empty. */
    public static void partsWithGaps() throws MPIException {
        int[] counts = new int[ranks], starts = new int[ranks];
        int[] all = new int[4 * ranks], mine = {10 * rank, 10 * rank + 1, 10 * rank + 2};
        Arrays.fill(all, -1);
        int[] expected = all.clone();
        for (int r = 0; r < ranks; r++) {
            counts[r] = r % 3;
            starts[r] = 4 * r;
            for (int i = 0; i < counts[r]; i++) expected[4 * r + i] = 10 * r + i;
        }
        int own = counts[rank];
        int[] got = all.clone();
        world.Allgatherv(mine, 0, own, MPI.INT, got, 0, counts, starts, MPI.INT);
        same(expected, got);
        IntBuffer inPlace = direct(4 * ranks);
        inPlace.put(0, all);
        world.Allgatherv(mine, 0, own, MPI.INT, inPlace, 0, counts, starts, MPI.INT);
        inPlace.get(0, got);
        same(expected, got);
        for (int root = 0; root < ranks; root++) {
            got = all.clone();
            world.Gatherv(mine, 0, own, MPI.INT, got, 0, counts, starts, MPI.INT, root);
            same(rank == root ? expected : all, got);
            int[] part = {-2, -2, -2}, wanted = part.clone();
            System.arraycopy(mine, 0, wanted, 0, own);
            world.Scatterv(expected, 0, counts, starts, MPI.INT, part, 0, own, MPI.INT, root);
            same(wanted, part);
        }
    }

    /** Every second element, in all operations that move or combine items. */
    public static void derivedTypesInCollectives() throws MPIException {
        Datatype odd = Datatype.Struct(
            new int[] {1, 1, 1}, new int[] {0, 1, 2}, new Datatype[] {MPI.LB, MPI.INT, MPI.UB});
        odd.Commit();
        int[] mine = {-5, rank, -5, 10 + rank}, gaps = new int[2 * ranks];
        Arrays.fill(gaps, -1);
        int[] each = gaps.clone();
        for (int r = 0; r < ranks; r++) each[2 * r + 1] = r;
        for (int root = 0; root < ranks; root++) {
            int[] got = gaps.clone();
            world.Gather(mine, 0, 1, odd, got, 0, 1, odd, root);
            same(rank == root ? each : gaps, got);
            int[] part = {-1, -1};
            world.Scatter(each, 0, 1, odd, part, 0, 1, odd, root);
            same(new int[] {-1, rank}, part);
            int[] sums = {-1, -1, -1, -1};
            world.Reduce(mine, 0, sums, 0, 2, odd, MPI.SUM, root);
            int sum = ranks * (ranks - 1) / 2;
            int[] whole = {-1, sum, -1, sum + 10 * ranks};
            same(rank == root ? whole : new int[] {-1, -1, -1, -1}, sums);
        }
        int[] from = gaps.clone(), to = gaps.clone(), wanted = gaps.clone();
        for (int r = 0; r < ranks; r++) {
            from[2 * r + 1] = 100 * rank + r;
            wanted[2 * r + 1] = 100 * r + rank;
        }
        world.Alltoall(from, 0, 1, odd, to, 0, 1, odd);
        same(wanted, to);
        int[] ones = new int[ranks], places = new int[ranks];
        for (int r = 0; r < ranks; r++) places[r] = r;
        Arrays.fill(ones, 1);
        to = gaps.clone();
        world.Alltoallv(from, 0, ones, places, odd, to, 0, ones, places, odd);
        same(wanted, to);
        int[] scanned = {-1, -1};
        world.Scan(mine, 0, scanned, 0, 1, odd, MPI.SUM);
        same(new int[] {-1, rank * (rank + 1) / 2}, scanned);
        int[] scattered = {-1, -1};
        world.Reduce_scatter(each, 0, scattered, 0, ones, odd, MPI.SUM);
        same(new int[] {-1, ranks * rank}, scattered);
    }

    /** Long direct buffers, which the library reads and writes in place. */
    public static void longDirectBuffersInCollectives() throws MPIException {
        IntBuffer from = direct(LARGE * ranks), to = direct(LARGE * ranks);
        for (int i = 0; i < LARGE * ranks; i++) from.put(i, rank + i);
        int sum = ranks * (ranks - 1) / 2, last = LARGE - 1;
        world.Allreduce(from, 0, to, 0, LARGE, MPI.INT, MPI.SUM);
        same(sum + ranks * last, to.get(last));
        world.Reduce(from, 0, to, 0, LARGE, MPI.INT, MPI.MAX, 0);
        if (rank == 0) same(ranks - 1 + last, to.get(last));
        world.Scan(from, 0, to, 0, LARGE, MPI.INT, MPI.SUM);
        same(rank * (rank + 1) / 2 + (rank + 1) * last, to.get(last));
        int[] counts = new int[ranks];
        Arrays.fill(counts, LARGE);
        world.Reduce_scatter(from, 0, to, 0, counts, MPI.INT, MPI.SUM);
        same(sum + ranks * (LARGE * rank + last), to.get(last));
        world.Gather(from, 0, LARGE, MPI.INT, to, 0, LARGE, MPI.INT, ranks - 1);
        if (rank == ranks - 1)
            for (int r = 0; r < ranks; r++) same(r + last, to.get(LARGE * r + last));
        world.Scatter(from, 0, LARGE, MPI.INT, to, 0, LARGE, MPI.INT, 0);
        same(LARGE * rank + last, to.get(last));
        world.Alltoall(from, 0, LARGE, MPI.INT, to, 0, LARGE, MPI.INT);
        for (int r = 0; r < ranks; r++) same(r + LARGE * rank + last, to.get(LARGE * r + last));
        int[] heap = new int[LARGE * ranks];
        world.Allgather(from, 0, LARGE, MPI.INT, heap, 0, LARGE, MPI.INT);
        for (int r = 0; r < ranks; r++) same(r + last, heap[LARGE * r + last]);
    }

    /** A message into a too short array fails alone, whatever waits for it. */
    public static void truncationInEachFamily() throws MPIException {
        for (int way = 0; way < 5; way++) {
            int[] small = new int[1], right = new int[2];
            Request[] receives = {world.Irecv(small, 0, 1, MPI.INT, previous(world), 1),
                world.Irecv(right, 0, 2, MPI.INT, previous(world), 2)};
            world.Barrier();
            // First the one that is too long: it has arrived when the other has.
            Request[] sends = {world.Isend(new int[LARGE], 0, LARGE, MPI.INT, next(world), 1),
                world.Isend(new int[] {rank, way}, 0, 2, MPI.INT, next(world), 2)};
            MPIException failed = null;
            for (int done = 0; done < 2;) {
                try {
                    done += completed(way, receives, done);
                } catch (MPIException error) {
                    failed = error;
                    done++;
                }
            }
            // Open MPI says nothing of it to a posted receive of the same process.
            boolean silent = ranks == 1 && MPI.Get_library_version().contains("Open MPI");
            holds(silent || failed != null && failed.getMessage().contains("runc"), "" + failed);
            same(new int[] {previous(world), way}, right);
            holds(receives[0].Is_null() && receives[1].Is_null(), "both have completed");
            Request.Waitall(sends);
        }
    }

    private static int completed(int way, Request[] requests, int done) throws MPIException {
        switch (way) {
            case 0:
                return requests[done].Test() == null ? 0 : 1;
            case 1:
                requests[done].Wait();
                return 1;
            case 2: {
                Status status = Request.Testany(requests);
                return status == null ? 0 : 1;
            }
            case 3:
                Request.Waitany(requests);
                return 1;
            default: {
                Status[] some = Request.Waitsome(requests);
                return some == null ? 2 : some.length;
            }
        }
    }

    public static void requestsInAnArray() throws MPIException {
        int[] to = new int[3];
        Request[] receives = {world.Irecv(to, 0, 1, MPI.INT, previous(world), 1), null,
            MPI.REQUEST_NULL, MPI.REQUEST_NULL, world.Irecv(to, 1, 1, MPI.INT, previous(world), 2)};
        Request[] twice = {receives[0], receives[0]};
        refused("request 1 is in the array twice", () -> Request.Waitall(twice));
        refused("request 1 is in the array twice", () -> Request.Testany(twice));
        Prequest idle = world.Recv_init(to, 2, 1, MPI.INT, previous(world), 3);
        receives[1] = idle;
        for (int tag = 1; tag < 3; tag++)
            world.Send(new int[] {tag}, 0, 1, MPI.INT, next(world), tag);
        Status[] statuses = Request.Waitall(receives);
        same(new int[] {1, 2, 0}, to);
        same(2, statuses[4].tag);
        same(MPI.ANY_TAG, statuses[1].tag);
        idle.Free();
    }

    /** Persistent requests of direct buffers, several at once, completed in all ways. */
    public static void persistentRequestsTogether() throws MPIException {
        IntBuffer to = direct(3 * LARGE), from = direct(3 * LARGE);
        Prequest[] receives = new Prequest[3], sends = new Prequest[3];
        for (int i = 0; i < 3; i++) {
            int n = i == 0 ? 1 : LARGE; // the first is so short that it is copied
            receives[i] = world.Recv_init(to, i * LARGE, n, MPI.INT, previous(world), i);
            sends[i] = world.Send_init(from, i * LARGE, n, MPI.INT, next(world), i);
        }
        for (int round = 0; round < 6; round++) {
            for (int i = 0; i < 3; i++) from.put(i * LARGE, 100 * rank + 10 * round + i);
            Prequest.Startall(receives);
            Prequest.Startall(sends);
            int seen = 0;
            while (seen < 3) {
                if (round % 3 == 0) {
                    Request.Waitany(receives);
                    seen++;
                } else {
                    Status[] some =
                        round % 3 == 1 ? Request.Waitsome(receives) : Request.Testsome(receives);
                    seen += some == null ? 0 : some.length;
                }
            }
            Request.Waitall(sends);
            for (int i = 0; i < 3; i++)
                same(100 * previous(world) + 10 * round + i, to.get(i * LARGE));
        }
        for (int i = 0; i < 3; i++) {
            receives[i].Free();
            sends[i].Free();
        }
    }

    public static void aReceiveThatHasItsMessageIsNotCancelled() throws MPIException {
        int[] to = new int[1];
        Request receive = world.Irecv(to, 0, 1, MPI.INT, previous(world), 4);
        world.Send(new int[] {rank}, 0, 1, MPI.INT, next(world), 4);
        // Messages of one pair keep their order: when this one is here, so is the other.
        Request send = world.Isend(new int[] {0}, 0, 1, MPI.INT, next(world), 5);
        world.Recv(new int[1], 0, 1, MPI.INT, previous(world), 5);
        send.Wait();
        receive.Cancel();
        Status status = receive.Wait();
        holds(!status.Test_cancelled(), "the message had arrived");
        same(previous(world), to[0]);
    }

    public static void bufferedSendsNeedRoom() throws MPIException {
        byte[] message = new byte[9000];
        // Of its own: after a failed one, Open MPI delivers nothing more of a communicator.
        Comm comm = (Comm) world.clone();
        MPI.Buffer_attach(new byte[6000 + MPI.BSEND_OVERHEAD]);
        for (int i = 0; i < 3; i++) {
            comm.Bsend(message, 0, 5000, MPI.BYTE, rank, 6);
            same(5000, comm.Recv(message, 0, 5000, MPI.BYTE, rank, 6).Get_count(MPI.BYTE));
        }
        refused("uffer", () -> comm.Bsend(message, 0, 9000, MPI.BYTE, rank, 6));
        same(6000 + MPI.BSEND_OVERHEAD, MPI.Buffer_detach().length);
        comm.Free();
    }

    /** An error on a communicator that was made from another one is an exception, too. */
    public static void errorsOnEachCommunicator() throws MPIException {
        Intracomm half = world.Split(rank % 2, rank), created = world.Create(world.Group());
        Comm cart = world.Create_cart(new int[] {ranks}, new boolean[1], false);
        Graphcomm graph = world.Create_graph(new int[ranks], new int[0], false);
        Comm sub = world.Create_cart(new int[] {ranks, 1}, new boolean[2], false)
                       .Sub(new boolean[] {false, true});
        for (Comm comm : new Comm[] {half, created, cart, graph, sub, (Comm) half.clone()}) {
            same(MPI.ERRORS_RETURN, comm.Errhandler_get());
            Request send = comm.Isend(new int[2], 0, 2, MPI.INT, comm.Rank(), 0);
            refused("runc", () -> comm.Recv(new int[1], 0, 1, MPI.INT, comm.Rank(), 0));
            send.Wait();
        }
        half.Errhandler_set(MPI.ERRORS_ARE_FATAL);
        same(MPI.ERRORS_ARE_FATAL, half.Split(0, 0).Errhandler_get());
        same(MPI.ERRORS_ARE_FATAL, ((Comm) half.clone()).Errhandler_get());
        half.Errhandler_set(MPI.ERRORS_RETURN);
        if (ranks < 2) return;
        Intercomm inter = world.Create_intercomm(half, 0, 1 - rank % 2, 3);
        Intracomm merged = inter.Merge(rank % 2 == 1);
        Request send = merged.Isend(new int[2], 0, 2, MPI.INT, merged.Rank(), 0);
        refused("runc", () -> merged.Recv(new int[1], 0, 1, MPI.INT, merged.Rank(), 0));
        send.Wait();
        if (inter.Rank() == 0) {
            Request other = inter.Isend(new int[2], 0, 2, MPI.INT, 0, 0);
            refused("runc", () -> inter.Recv(new int[1], 0, 1, MPI.INT, 0, 0));
            other.Wait();
        }
    }

    /** Each rank with each of the other group, whose size may differ. */
    public static void betweenAllRanksOfTwoGroups() throws MPIException {
        if (ranks < 2) return;
        boolean alone = rank == ranks - 1; // the last rank against all others
        Intracomm side = world.Split(alone ? 1 : 0, -rank);
        int leader = side.Size() - 1; // the lowest rank of the world
        Intercomm inter = world.Create_intercomm(side, leader, alone ? 0 : ranks - 1, 8);
        same(alone ? ranks - 1 : 1, inter.Remote_size());
        same(side.Size(), inter.Group().Size());
        int[] theirs = new int[inter.Remote_size()], places = new int[theirs.length];
        for (int i = 0; i < theirs.length; i++) places[i] = i;
        theirs = mpi.Group.Translate_ranks(inter.Remote_group(), places, world.Group());
        Request[] sends = new Request[theirs.length];
        for (int i = 0; i < theirs.length; i++)
            sends[i] = inter.Isend(new int[] {rank}, 0, 1, MPI.INT, i, 4);
        boolean[] seen = new boolean[theirs.length];
        int[] got = new int[1];
        for (int i = 0; i < theirs.length; i++) {
            Status status = inter.Recv(got, 0, 1, MPI.INT, MPI.ANY_SOURCE, 4);
            same(theirs[status.source], got[0]);
            seen[status.source] = true;
        }
        Request.Waitall(sends);
        for (boolean one : seen) holds(one, "each rank of the other group has sent");
        Object[] objects = {"from " + rank}, others = new Object[1];
        Request object = inter.Isend(objects, 0, 1, MPI.OBJECT, theirs.length - 1, 5);
        if (alone)
            for (int i = 0; i < theirs.length; i++) inter.Recv(others, 0, 1, MPI.OBJECT, i, 5);
        else if (inter.Rank() == side.Size() - 1) inter.Recv(others, 0, 1, MPI.OBJECT, 0, 5);
        object.Wait();
        if (alone) same("from " + theirs[theirs.length - 1], others[0]);
        Intracomm merged = inter.Merge(true); // both ask for the same place: the order is free
        same(ranks, merged.Size());
        merged.Free();
        inter.Free();
        side.Free();
    }

    /** All predefined operations on all types that have them, each with its own result. */
    public static void everyOperationOnEveryType() throws MPIException {
        Op[] operations = {MPI.MAX, MPI.MIN, MPI.SUM, MPI.PROD, MPI.LAND, MPI.LOR, MPI.LXOR,
            MPI.BAND, MPI.BOR, MPI.BXOR};
        long[] values = new long[ranks];
        for (int r = 0; r < ranks; r++) values[r] = r == 1 ? 0 : r + 2;
        for (int o = 0; o < operations.length; o++) {
            long expected = values[0];
            for (int r = 1; r < ranks; r++) expected = combined(o, expected, values[r]);
            if (o >= 4 && o < 7 && ranks == 1) expected = values[0]; // not made 0 or 1
            byte[] bytes = {(byte) values[rank]};
            char[] chars = {(char) values[rank]};
            short[] shorts = {(short) values[rank]};
            int[] ints = {(int) values[rank]};
            long[] longs = {values[rank]};
            for (Object one : new Object[] {bytes, chars, shorts, ints, longs})
                check(one, operations[o], expected, "operation " + o);
            if (o < 4) {
                check(new float[] {values[rank]}, operations[o], expected, "operation " + o);
                check(new double[] {values[rank]}, operations[o], expected, "operation " + o);
                continue;
            }
            boolean flag = values[0] != 0;
            for (int r = 1; r < ranks; r++)
                flag = switch (o) {
                    case 4, 7 -> flag& values[r] != 0;
                    case 5, 8 -> flag | values[r] != 0;
                    default -> flag ^ values[r] != 0;
                };
            boolean[] flags = new boolean[1];
            world.Allreduce(
                new boolean[] {values[rank] != 0}, 0, flags, 0, 1, MPI.BOOLEAN, operations[o]);
            same(flag, flags[0]);
        }
    }

    private static long combined(int operation, long a, long b) {
        return switch (operation) {
            case 0 -> Math.max(a, b);
            case 1 -> Math.min(a, b);
            case 2 -> a + b;
            case 3 -> a* b;
            case 4 -> a != 0 && b != 0 ? 1 : 0;
            case 5 -> a != 0 || b != 0 ? 1 : 0;
            case 6 -> (a != 0) != (b != 0) ? 1 : 0;
            case 7 -> a & b;
            case 8 -> a | b;
            default -> a ^ b;
        };
    }

    private static void check(Object from, Op operation, long expected, String what)
        throws MPIException {
        Object to = java.lang.reflect.Array.newInstance(from.getClass().getComponentType(), 1);
        Datatype type = switch (from) {
            case byte[] a -> MPI.BYTE;
            case char[] a -> MPI.CHAR;
            case short[] a -> MPI.SHORT;
            case int[] a -> MPI.INT;
            case long[] a -> MPI.LONG;
            case float[] a -> MPI.FLOAT;
            default -> MPI.DOUBLE;
        };
        world.Allreduce(from, 0, to, 0, 1, type, operation);
        double got = switch (to) {
            case byte[] a -> a[0];
            case char[] a -> a[0];
            case short[] a -> a[0];
            case int[] a -> a[0];
            case long[] a -> a[0];
            case float[] a -> a[0];
            default -> ((double[]) to)[0];
        };
        double narrow = type == MPI.BYTE ? (byte) expected
            : type == MPI.SHORT          ? (short) expected
            : type == MPI.CHAR           ? (char) expected
                                         : expected;
        holds(got == narrow, what + " on " + from.getClass() + " gave " + got + ", not " + narrow);
    }

    /** x -> a x + b, so long that libraries split the message; to each rank as root. */
    public static void ownOperationOnManyItems() throws MPIException {
        int items = 5000;
        Datatype map = Datatype.Contiguous(2, MPI.INT);
        map.Commit();
        Op compose = new Op(new User_function() {
            @Override
            public void Call(
                Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {
                int[] a = (int[]) in, b = (int[]) inout;
                for (int i = 0; i < count; i++) {
                    int p = inoffset + 2 * i, q = inoutoffset + 2 * i;
                    b[q + 1] = a[p] * b[q + 1] + a[p + 1];
                    b[q] = a[p] * b[q];
                }
            }
        }, false);
        int[] own = new int[2 * items], got = new int[2 * items], expected = new int[2 * items];
        for (int i = 0; i < items; i++) {
            own[2 * i] = rank + 2 + i % 3;
            own[2 * i + 1] = rank + i;
            int factor = 1, constant = 0;
            for (int r = ranks - 1; r >= 0; r--) {
                constant = (r + 2 + i % 3) * constant + r + i;
                factor *= r + 2 + i % 3;
            }
            expected[2 * i] = factor;
            expected[2 * i + 1] = constant;
        }
        for (int root = 0; root < ranks; root++) {
            world.Reduce(own, 0, got, 0, items, map, compose, root);
            if (rank == root) same(expected, got);
        }
        world.Allreduce(own, 0, got, 0, items, map, compose);
        same(expected, got);
        int[] counts = new int[ranks];
        Arrays.fill(counts, items / ranks);
        counts[ranks - 1] += items % ranks;
        world.Reduce_scatter(own, 0, got, 0, counts, map, compose);
        int start = 2 * rank * (items / ranks);
        same(Arrays.copyOfRange(expected, start, start + 2 * counts[rank]),
            Arrays.copyOf(got, 2 * counts[rank]));
        compose.Free();
        map.Free();
    }

    public static void whatHasBeenFreed() throws MPIException {
        Datatype pair = Datatype.Contiguous(2, MPI.INT);
        pair.Commit();
        pair.Free();
        refused("has been freed", () -> pair.Free());
        refused("has been freed", () -> pair.Commit());
        refused("has been freed", () -> Datatype.Contiguous(2, pair));
        refused("has been freed", () -> world.Send(new int[2], 0, 1, pair, MPI.PROC_NULL, 0));
        Op sum = new Op(new User_function() {
            @Override
            public void Call(
                Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {}
        }, true);
        sum.Free();
        refused("has been freed", () -> sum.Free());
        Object[] objects = {"a"};
        refused(
            "has been freed", () -> world.Allreduce(objects, 0, objects, 0, 1, MPI.OBJECT, sum));
    }

    /** The memory of another thread's arena is refused, before the native call. */
    public static void arenaOfAnotherThread() throws Exception {
        AtomicReference<MemorySegment> made = new AtomicReference<>();
        try (Arena shared = Arena.ofShared()) {
            Thread other = new Thread(() -> made.set(Arena.ofConfined().allocate(16)));
            other.start();
            other.join();
            MemorySegment segment = made.get();
            refused("confined to another thread",
                () -> world.Recv(segment, 0, 4, MPI.INT, MPI.PROC_NULL, 0));
            world.Send(shared.allocate(16), 0, 4, MPI.INT, MPI.PROC_NULL, 0);
        }
    }

    /** A chain so deep that serialization needs more than the stack fails on all ranks. */
    private static final class Link implements java.io.Serializable {
        private static final long serialVersionUID = 1;
        Link next;
    }

    public static void objectsThatAreTooDeep() throws MPIException {
        Link chain = null;
        for (int i = 0; i < 200_000; i++) {
            Link link = new Link();
            link.next = chain;
            chain = link;
        }
        Object[] deep = {rank == 0 ? chain : null}, all = new Object[ranks];
        refused(rank == 0 ? "StackOverflowError" : "another rank",
            () -> world.Bcast(deep, 0, 1, MPI.OBJECT, 0));
        refused(rank == 0 ? "StackOverflowError" : "another rank",
            () -> world.Allgather(deep, 0, 1, MPI.OBJECT, all, 0, 1, MPI.OBJECT));
        refused(rank == 0 ? "StackOverflowError" : "another rank",
            () -> world.Gather(deep, 0, 1, MPI.OBJECT, all, 0, 1, MPI.OBJECT, 0));
    }
}
