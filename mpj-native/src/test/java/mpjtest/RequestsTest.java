// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.rank;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import java.lang.foreign.Arena;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Prequest;
import mpi.Request;
import mpi.Status;

/** Messages under way: all modes, all ways to wait, persistent requests. */
public final class RequestsTest {
    private RequestsTest() {}

    public static void everyMode() throws MPIException {
        int[] from = {rank}, to = new int[4];
        MPI.Buffer_attach(new byte[1000 + MPI.BSEND_OVERHEAD]);
        Request[] receives = new Request[4];
        for (int i = 0; i < 4; i++)
            receives[i] = world.Irecv(to, i, 1, MPI.INT, previous(world), i);
        world.Barrier();
        Request[] sends = {world.Isend(from, 0, 1, MPI.INT, next(world), 0),
            world.Ibsend(from, 0, 1, MPI.INT, next(world), 1),
            world.Issend(from, 0, 1, MPI.INT, next(world), 2),
            world.Irsend(from, 0, 1, MPI.INT, next(world), 3)};
        Status[] statuses = Request.Waitall(receives);
        Request.Waitall(sends);
        for (int i = 0; i < 4; i++) {
            same(i, statuses[i].tag);
            same(i, statuses[i].index);
            same(previous(world), to[i]);
            holds(sends[i].Is_null() && receives[i].Is_Null(), "completed requests are null");
        }
        MPI.Buffer_detach();
    }

    public static void testUntilDone() throws MPIException {
        long[] to = new long[20000];
        Request receive = world.Irecv(to, 0, 20000, MPI.LONG, previous(world), 0);
        long[] from = new long[20000];
        from[19999] = rank + 1;
        Request send = world.Isend(from, 0, 20000, MPI.LONG, next(world), 0);
        Status status = null;
        while (status == null) status = receive.Test();
        same(previous(world) + 1L, to[19999]);
        same(20000, status.Get_count(MPI.LONG));
        while (send.Test() == null) Thread.onSpinWait();
        same(0, send.Wait().Get_count(MPI.INT)); // a null request completes at once
        same(MPI.ANY_SOURCE, receive.Test().source);
    }

    public static void buffersThatMoveBeforeTheyAreFilled() throws MPIException {
        for (ByteBuffer buffer :
            new ByteBuffer[] {ByteBuffer.allocateDirect(24), ByteBuffer.allocate(24)}) {
            buffer.order(ByteOrder.nativeOrder());
            Request[] requests = new Request[3];
            for (int i = 0; i < 3; i++) {
                buffer.position(8 * i);
                requests[i] = world.Irecv(buffer, 0, 1, MPI.LONG, previous(world), i);
            }
            for (int i = 0; i < 3; i++)
                world.Send(new long[] {10 * rank + i}, 0, 1, MPI.LONG, next(world), i);
            buffer.clear().limit(1);
            Request.Waitall(requests);
            buffer.clear();
            for (int i = 0; i < 3; i++) same(10L * previous(world) + i, buffer.getLong(8 * i));
        }
    }

    public static void whatCannotBeDeliveredHarmsNoOther() throws MPIException {
        Datatype every = Datatype.Vector(2, 1, 2, MPI.INT);
        every.Commit();
        int[] to = new int[2];
        Request[] requests;
        try (Arena arena = Arena.ofConfined()) {
            requests =
                new Request[] {world.Irecv(arena.allocate(16), 0, 1, every, previous(world), 1),
                    world.Irecv(to, 0, 2, MPI.INT, previous(world), 2)};
        }
        for (int tag = 1; tag < 3; tag++)
            world.Send(new int[] {rank, tag}, 0, 2, MPI.INT, next(world), tag);
        refused("arena", () -> Request.Waitall(requests));
        same(new int[] {previous(world), 2}, to);
        holds(requests[0].Is_null() && requests[1].Is_null(), "both have completed");
    }

    private static Request[] both(int[] to, int tag) throws MPIException {
        return new Request[] {null, world.Irecv(to, 0, 1, MPI.INT, previous(world), tag),
            world.Irecv(to, 1, 1, MPI.INT, previous(world), tag + 1)};
    }

    private static void sendBoth(int tag) throws MPIException {
        world.Send(new int[] {10 + rank}, 0, 1, MPI.INT, next(world), tag);
        world.Send(new int[] {20 + rank}, 0, 1, MPI.INT, next(world), tag + 1);
    }

    private static void arrived(int[] to) throws MPIException {
        same(new int[] {10 + previous(world), 20 + previous(world)}, to);
    }

    public static void any() throws MPIException {
        int[] to = new int[2];
        Request[] requests = both(to, 10);
        world.Barrier();
        holds(Request.Testany(requests) == null, "nothing has been sent");
        world.Barrier();
        sendBoth(10);
        Status one = Request.Waitany(requests), two = null;
        while (two == null) two = Request.Testany(requests);
        same(3, one.index + two.index);
        same(10 + one.index - 1, one.tag);
        arrived(to);
        same(MPI.UNDEFINED, Request.Waitany(requests).index);
        same(MPI.UNDEFINED, Request.Testany(requests).index);
    }

    public static void all() throws MPIException {
        int[] to = new int[2];
        Request[] requests = both(to, 20);
        world.Barrier();
        holds(Request.Testall(requests) == null, "nothing has been sent");
        world.Barrier();
        sendBoth(20);
        Status[] statuses = null;
        while (statuses == null) statuses = Request.Testall(requests);
        arrived(to);
        same(20, statuses[1].tag);
        same(21, statuses[2].tag);
    }

    public static void some() throws MPIException {
        int[] to = new int[2];
        Request[] requests = both(to, 30);
        world.Barrier();
        same(0, Request.Testsome(requests).length);
        world.Barrier();
        sendBoth(30);
        int done = 0;
        while (done < 2) {
            Status[] statuses = done == 0 ? Request.Waitsome(requests) : Request.Testsome(requests);
            for (Status status : statuses) same(30 + status.index - 1, status.tag);
            done += statuses.length;
        }
        arrived(to);
        holds(Request.Waitsome(requests) == null, "no request is left");
        holds(Request.Testsome(requests) == null, "no request is left");
    }

    public static void cancelAndFree() throws MPIException {
        int[] to = new int[1];
        Request receive = world.Irecv(to, 0, 1, MPI.INT, previous(world), 99);
        receive.Cancel();
        receive.Cancel(); // Open MPI 4.1 crashes if it is asked twice
        holds(receive.Wait().Test_cancelled(), "a receive of nothing is cancelled");
        Request send = world.Isend(new int[] {4}, 0, 1, MPI.INT, next(world), 98);
        send.Free();
        holds(send.Is_null(), "a freed request is null");
        world.Recv(to, 0, 1, MPI.INT, previous(world), 98);
        same(4, to[0]);
    }

    public static void cancelsPersistentReceiveAtEachStart() throws MPIException {
        Prequest receive = world.Recv_init(new int[1], 0, 1, MPI.INT, previous(world), 97);
        for (int start = 0; start < 3; start++) {
            receive.Start();
            receive.Cancel();
            receive.Cancel();
            holds(receive.Wait().Test_cancelled(), "each start is cancelled by itself");
        }
        receive.Free();
    }

    public static void persistent() throws MPIException {
        int[] from = new int[2], to = new int[2];
        MPI.Buffer_attach(new byte[1000 + MPI.BSEND_OVERHEAD]);
        Prequest receive = world.Recv_init(to, 0, 2, MPI.INT, previous(world), 1);
        Prequest[] sends = {world.Send_init(from, 0, 2, MPI.INT, next(world), 1),
            world.Bsend_init(from, 0, 2, MPI.INT, next(world), 1),
            world.Ssend_init(from, 0, 2, MPI.INT, next(world), 1),
            world.Rsend_init(from, 0, 2, MPI.INT, next(world), 1)};
        for (int round = 0; round < 3; round++)
            for (Prequest send : sends) {
                from[0] = rank;
                from[1] = round;
                receive.Start();
                world.Barrier();
                Prequest.Startall(new Prequest[] {send});
                Status status = receive.Wait();
                send.Wait();
                same(new int[] {previous(world), round}, to);
                same(2, status.Get_count(MPI.INT));
                to[0] = -1;
                same(0, receive.Wait().Get_count(MPI.INT)); // inactive: it completes at once
                same(-1, to[0]);
            }
        receive.Free();
        for (Prequest send : sends) send.Free();
        holds(receive.Is_null(), "a freed request is null");
        MPI.Buffer_detach();
    }

    public static void manyUnderWay() throws MPIException {
        int n = 300;
        int[][] to = new int[n][];
        Request[] requests = new Request[2 * n];
        for (int i = 0; i < n; i++) {
            to[i] = new int[i];
            requests[i] = world.Irecv(to[i], 0, i, MPI.INT, previous(world), i);
        }
        for (int i = n - 1; i >= 0; i--) {
            int[] from = new int[i];
            java.util.Arrays.fill(from, i + rank);
            requests[n + i] = world.Isend(from, 0, i, MPI.INT, next(world), i);
        }
        Request.Waitall(requests);
        for (int i = 0; i < n; i++)
            for (int value : to[i]) same(i + previous(world), value);
    }
}
