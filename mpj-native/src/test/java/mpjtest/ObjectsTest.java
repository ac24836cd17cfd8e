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

import java.util.List;
import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Op;
import mpi.Request;
import mpi.Status;
import mpi.User_function;

/** Serialized objects. */
public final class ObjectsTest {
    private ObjectsTest() {}

    public static void messages() throws MPIException {
        Object[] from = {null, "of " + rank, List.of(1, 2), null}, to = new Object[5];
        Request request = world.Isend(from, 1, 3, MPI.OBJECT, next(world), 1);
        Status status = world.Recv(to, 1, 4, MPI.OBJECT, previous(world), 1);
        request.Wait();
        same(new Object[] {null, "of " + previous(world), List.of(1, 2), null, null}, to);
        same(3, status.Get_count(MPI.OBJECT));
        world.Sendrecv(
            from, 1, 1, MPI.OBJECT, next(world), 2, to, 0, 1, MPI.OBJECT, previous(world), 2);
        same("of " + previous(world), to[0]);
        world.Sendrecv_replace(from, 1, 1, MPI.OBJECT, next(world), 3, previous(world), 3);
        same("of " + previous(world), from[1]);
    }

    public static void receivesUnderWay() throws MPIException {
        Object[] to = new Object[3];
        int[] number = new int[1];
        Request[] requests = {world.Irecv(to, 0, 1, MPI.OBJECT, previous(world), 1),
            world.Irecv(to, 1, 1, MPI.OBJECT, previous(world), 1),
            world.Irecv(number, 0, 1, MPI.INT, previous(world), 2)};
        holds(!requests[0].Is_null(), "it is under way");
        world.Barrier();
        holds(Request.Testall(requests) == null, "nothing has been sent");
        holds(Request.Testany(requests) == null, "nothing has been sent");
        same(0, Request.Testsome(requests).length);
        world.Barrier();
        // A blocking send to itself would wait, as the native library knows of no receive yet.
        Request[] sends = {world.Isend(new Object[] {"first"}, 0, 1, MPI.OBJECT, next(world), 1),
            world.Isend(new Object[] {"second"}, 0, 1, MPI.OBJECT, next(world), 1),
            world.Isend(new int[] {6}, 0, 1, MPI.INT, next(world), 2)};
        // Waiting for the later one does not give it the earlier message.
        same(1, requests[1].Wait().Get_count(MPI.OBJECT));
        Status[] statuses = Request.Waitall(requests);
        same(new Object[] {"first", "second", null}, to);
        same(6, number[0]);
        same(3, statuses.length);
        Request one = world.Irecv(to, 2, 1, MPI.OBJECT, previous(world), 3);
        Request third = world.Isend(new Object[] {"third"}, 0, 1, MPI.OBJECT, next(world), 3);
        same(0, Request.Waitany(new Request[] {one}).index);
        same("third", to[2]);
        third.Wait();
        Request.Waitall(sends);
    }

    public static void messagesKeepTheirOrder() throws MPIException {
        Object[] to = new Object[2];
        Request first = world.Irecv(to, 0, 1, MPI.OBJECT, previous(world), 1);
        Request[] sends = {world.Isend(new Object[] {"first"}, 0, 1, MPI.OBJECT, next(world), 1),
            world.Isend(new Object[] {"second"}, 0, 1, MPI.OBJECT, next(world), 1)};
        Request nobody = world.Irecv(to, 0, 1, MPI.OBJECT, MPI.PROC_NULL, 1);
        nobody.Wait();
        world.Recv(to, 1, 1, MPI.OBJECT, previous(world), 1);
        first.Wait();
        Request.Waitall(sends);
        same(new Object[] {"first", "second"}, to);
    }

    public static void aReceiveThatFailsHasEnded() throws MPIException {
        Request receive = world.Irecv(new Object[1], 0, 1, MPI.OBJECT, previous(world), 1);
        Request send = world.Isend(new Object[] {1, 2}, 0, 2, MPI.OBJECT, next(world), 1);
        refused("more than the receiver's 1", receive::Wait);
        holds(receive.Is_null(), "it has completed");
        same(0, receive.Wait().Get_count(MPI.INT));
        send.Wait();
    }

    public static void collectivesFailOnAllRanks() throws MPIException {
        Object[] good = {"good"}, bad = {Thread.currentThread()};
        Object[] mine = rank == ranks - 1 ? bad : good, to = new Object[ranks];
        String why = rank == ranks - 1 ? "cannot be serialized" : "another rank";
        refused(why, () -> world.Bcast(mine, 0, 1, MPI.OBJECT, ranks - 1));
        refused(why, () -> world.Allgather(mine, 0, 1, MPI.OBJECT, to, 0, 1, MPI.OBJECT));
        refused(why, () -> world.Gather(mine, 0, 1, MPI.OBJECT, to, 0, 1, MPI.OBJECT, 0));
        Object[] parts = new Object[ranks];
        parts[0] = mine[0];
        refused(why, () -> world.Alltoall(parts, 0, 1, MPI.OBJECT, to, 0, 1, MPI.OBJECT));
    }

    public static void collectives() throws MPIException {
        Object[] all = new Object[ranks], expected = new Object[ranks];
        for (int r = 0; r < ranks; r++) expected[r] = "of " + r;
        Object[] mine = {"of " + rank};
        world.Allgather(mine, 0, 1, MPI.OBJECT, all, 0, 1, MPI.OBJECT);
        same(expected, all);
        for (int root = 0; root < ranks; root++) {
            Object[] gathered = new Object[ranks], got = new Object[1], told = {null};
            world.Gather(mine, 0, 1, MPI.OBJECT, gathered, 0, 1, MPI.OBJECT, root);
            if (rank == root) same(expected, gathered);
            world.Scatter(expected, 0, 1, MPI.OBJECT, got, 0, 1, MPI.OBJECT, root);
            same(mine, got);
            if (rank == root) told[0] = "root";
            world.Bcast(told, 0, 1, MPI.OBJECT, root);
            same("root", told[0]);
        }
        Object[] from = new Object[ranks], to = new Object[ranks];
        for (int r = 0; r < ranks; r++) from[r] = rank + " to " + r;
        world.Alltoall(from, 0, 1, MPI.OBJECT, to, 0, 1, MPI.OBJECT);
        for (int r = 0; r < ranks; r++) same(r + " to " + rank, to[r]);
        int[] ones = new int[ranks], turned = new int[ranks];
        for (int r = 0; r < ranks; r++) {
            ones[r] = 1;
            turned[r] = ranks - 1 - r;
        }
        world.Alltoallv(from, 0, ones, turned, MPI.OBJECT, to, 0, ones, turned, MPI.OBJECT);
        for (int r = 0; r < ranks; r++) same(r + " to " + (ranks - 1 - rank), to[ranks - 1 - r]);
        world.Allgatherv(mine, 0, 1, MPI.OBJECT, all, 0, ones, turned, MPI.OBJECT);
        for (int r = 0; r < ranks; r++) same("of " + r, all[ranks - 1 - r]);
        world.Gatherv(mine, 0, 1, MPI.OBJECT, to, 0, ones, turned, MPI.OBJECT, 0);
        if (rank == 0) same("of 0", to[ranks - 1]);
        world.Scatterv(expected, 0, ones, turned, MPI.OBJECT, to, 0, 1, MPI.OBJECT, 0);
        same("of " + (ranks - 1 - rank), to[0]);
    }

    private static Op concatenation() throws MPIException {
        return new Op(new User_function() {
            @Override
            public void Call(
                Object in, int inoffset, Object inout, int inoutoffset, int count, Datatype type) {
                for (int i = 0; i < count; i++)
                    ((Object[]) inout)[inoutoffset + i] =
                        ((Object[]) in)[inoffset + i] + "" + ((Object[]) inout)[inoutoffset + i];
            }
        }, false);
    }

    public static void reductions() throws MPIException {
        StringBuilder all = new StringBuilder(), until = new StringBuilder();
        for (int r = 0; r < ranks; r++) {
            all.append(r);
            if (r <= rank) until.append(r);
        }
        Op op = concatenation();
        Object[] from = {String.valueOf(rank)}, to = new Object[1];
        world.Allreduce(from, 0, to, 0, 1, MPI.OBJECT, op);
        same(all.toString(), to[0]);
        world.Scan(from, 0, to, 0, 1, MPI.OBJECT, op);
        same(until.toString(), to[0]);
        to[0] = null;
        world.Reduce(from, 0, to, 0, 1, MPI.OBJECT, op, 0);
        same(rank == 0 ? all.toString() : "null", String.valueOf(to[0]));
        Object[] parts = new Object[ranks];
        int[] ones = new int[ranks];
        for (int r = 0; r < ranks; r++) {
            parts[r] = rank + "" + r + " ";
            ones[r] = 1;
        }
        StringBuilder column = new StringBuilder();
        for (int r = 0; r < ranks; r++) column.append(r).append(rank).append(' ');
        world.Reduce_scatter(parts, 0, to, 0, ones, MPI.OBJECT, op);
        same(column.toString(), to[0]);
        refused("not defined for objects",
            () -> world.Allreduce(from, 0, to, 0, 1, MPI.OBJECT, MPI.SUM));
    }

    public static void derivedAndPacked() throws MPIException {
        Datatype every = Datatype.Vector(2, 1, 2, MPI.OBJECT);
        every.Commit();
        Object[] from = {"a", "b", "c"}, to = new Object[3];
        world.Sendrecv(from, 0, 1, every, next(world), 1, to, 0, 2, MPI.OBJECT, previous(world), 1);
        same(new Object[] {"a", "c", null}, to);
        byte[] packed = new byte[1000];
        int end = world.Pack(from, 0, 1, every, packed, 0);
        end = world.Pack(new int[] {3}, 0, 1, MPI.INT, packed, end);
        Object[] back = new Object[3];
        int[] number = new int[1];
        int position = world.Unpack(packed, 0, back, 0, 1, every);
        same(end, world.Unpack(packed, position, number, 0, 1, MPI.INT));
        same(new Object[] {"a", null, "c"}, back);
        same(3, number[0]);
    }

    public static void wrongOnes() throws MPIException {
        Object[] thread = {Thread.currentThread()};
        refused("cannot be serialized", () -> world.Send(thread, 0, 1, MPI.OBJECT, rank, 0));
        refused("known only after", () -> world.Pack_size(1, MPI.OBJECT));
        refused("no persistent requests", () -> world.Send_init(thread, 0, 1, MPI.OBJECT, rank, 0));
        Request request = world.Isend(new Object[] {1, 2}, 0, 2, MPI.OBJECT, rank, 9);
        refused("more than the receiver's 1",
            () -> world.Recv(new Object[1], 0, 1, MPI.OBJECT, rank, 9));
        request.Wait();
    }
}
