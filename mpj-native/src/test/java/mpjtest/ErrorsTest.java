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
import mpi.Cartcomm;
import mpi.Comm;
import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Prequest;
import mpi.Request;

/** Wrong arguments raise an MPIException before the native library sees them. */
public final class ErrorsTest {
    private ErrorsTest() {}

    private static final int[] INTS = new int[4];

    public static void buffers() throws MPIException {
        refused("elements 2 to 5 are not all in the buffer, which has 4",
            () -> world.Send(INTS, 2, 4, MPI.INT, 0, 0));
        refused("elements -1 to 0", () -> world.Recv(INTS, -1, 2, MPI.INT, 0, 0));
        refused("the count -1 is negative", () -> world.Send(INTS, 0, -1, MPI.INT, 0, 0));
        refused("the buffer is null", () -> world.Send(null, 0, 1, MPI.INT, 0, 0));
        refused("a buffer of INT is a int[], Buffer or MemorySegment, not a long[]",
            () -> world.Send(new long[4], 0, 1, MPI.INT, 0, 0));
        refused("not a String", () -> world.Send("text", 0, 1, MPI.BYTE, 0, 0));
        refused("the datatype is null", () -> world.Send(INTS, 0, 1, null, 0, 0));
        refused(
            "more than 2147483647", () -> world.Send(INTS, 0, Integer.MAX_VALUE, MPI.INT2, 0, 0));
        refused("read-only",
            () -> world.Recv(ByteBuffer.allocate(4).asReadOnlyBuffer(), 0, 1, MPI.INT, 0, 0));
        refused("which has 1", () -> world.Send(ByteBuffer.allocateDirect(7), 0, 2, MPI.INT, 0, 0));
        refused("another byte order",
            () -> world.Send(ByteBuffer.allocateDirect(8).asIntBuffer(), 0, 1, MPI.INT, 0, 0));
        MemorySegment closed;
        try (Arena arena = Arena.ofConfined()) {
            closed = arena.allocate(8);
        }
        MemorySegment late = closed;
        refused("arena of the buffer has been closed", () -> world.Send(late, 0, 1, MPI.INT, 0, 0));
        refused("are not all in the buffer",
            () -> world.Alltoall(INTS, 0, 4, MPI.INT, INTS, 1, 4, MPI.INT));
        refused("counts or displacements are null",
            () -> world.Alltoallv(INTS, 0, null, INTS, MPI.INT, INTS, 0, INTS, INTS, MPI.INT));
        refused("0 counts and 0 displacements",
            () -> world.Allgatherv(INTS, 0, 0, MPI.INT, INTS, 0, new int[0], new int[0], MPI.INT));
        refused("objects can only be sent to objects",
            () -> world.Allgather(INTS, 0, 0, MPI.INT, new Object[ranks], 0, 1, MPI.OBJECT));
        refused("position 9", () -> world.Pack(INTS, 0, 1, MPI.INT, new byte[8], 9));
        refused("ends before", () -> world.Unpack(new byte[3], 0, INTS, 0, 1, MPI.INT));
    }

    public static void ranksAndTags() throws MPIException {
        refused("the destination " + ranks + " is no rank from 0 to " + (ranks - 1),
            () -> world.Send(INTS, 0, 1, MPI.INT, ranks, 0));
        refused("the source -77", () -> world.Recv(INTS, 0, 1, MPI.INT, -77, 0));
        refused("the root -1", () -> world.Bcast(INTS, 0, 1, MPI.INT, -1));
        refused("the tag -5", () -> world.Isend(INTS, 0, 1, MPI.INT, 0, -5));
        refused("the tag -5", () -> world.Irecv(INTS, 0, 1, MPI.INT, 0, -5));
    }

    /** Arguments with which native libraries crash or wait for ever. */
    public static void hugeAndUneven() throws MPIException {
        refused("more than the " + ranks,
            () -> world.Create_cart(new int[] {1 << 16, 1 << 16}, new boolean[2], false));
        refused("more than the " + ranks,
            () -> world.Create_graph(new int[ranks + 1], new int[0], false));
        refused(
            "does not divide 4", () -> Cartcomm.Dims_create(4, new int[] {1 << 16, 1 << 16, 0}));
        refused("sends itself 8 bytes, but receives 4",
            () -> world.Allgather(INTS, 0, 2, MPI.INT, new int[ranks], 0, 1, MPI.INT));
        int[] none = new int[ranks], one = new int[ranks];
        one[rank] = 1;
        refused("sends itself 0 bytes, but receives 4",
            () -> world.Alltoallv(INTS, 0, none, none, MPI.INT, INTS, 0, one, none, MPI.INT));
        Datatype gaps = Datatype.Vector(2, 1, 2, MPI.INT);
        gaps.Commit();
        refused("not all in the buffer",
            () -> world.Send(INTS, Integer.MAX_VALUE, 1, gaps, MPI.PROC_NULL, 0));
        refused("more than an int", () -> Datatype.Contiguous(Integer.MAX_VALUE, MPI.INT2));
    }

    public static void truncation() throws MPIException {
        for (int n : new int[] {1, 30000}) {
            int room = n;
            Request request = world.Isend(new int[2 * n], 0, 2 * n, MPI.INT, rank, 3);
            MPIException caught = null;
            try {
                world.Recv(new int[room], 0, room, MPI.INT, rank, 3);
            } catch (MPIException error) {
                caught = error;
            }
            holds(caught != null && caught.getMessage().toLowerCase().contains("trunc"),
                "the native text says that the message was truncated: " + caught);
            holds(caught.Get_error_class() > 0 && caught.Get_error_code() > 0, "it has a class");
            request.Wait();
        }
        Request[] both = {
            world.Irecv(INTS, 0, 1, MPI.INT, rank, 4), world.Isend(INTS, 0, 2, MPI.INT, rank, 4)};
        // Open MPI 5.0.7 says nothing of a short message to a posted receive of the same process.
        boolean says = !MPI.Get_library_version().contains("Open MPI");
        if (says) refused("runc", () -> Request.Waitall(both));
        else Request.Waitall(both);
        Request receive = world.Irecv(INTS, 0, 1, MPI.INT, rank, 5);
        world.Isend(INTS, 0, 2, MPI.INT, rank, 5).Wait();
        if (says) refused("runc", () -> receive.Wait());
        else receive.Wait();
    }

    /** A message may be longer than the receive of another rank, by any way and to any buffer. */
    public static void tooLong() throws MPIException {
        if (ranks == 1) return; // Open MPI says nothing of it in one process
        int[] sizes = {16, 1000, 5000, 70000, 1 << 21};
        for (int way = 0; way < 9; way++)
            for (int room : sizes)
                for (int size : sizes) {
                    Request request =
                        world.Isend(new byte[size], 0, size, MPI.BYTE, next(world), way);
                    MPIException caught = null;
                    try {
                        receiveIn(way, room);
                    } catch (MPIException error) {
                        caught = error;
                    }
                    holds(size > room == (caught != null), size + " bytes into " + room);
                    holds(caught == null || caught.getMessage().contains("runc"), "" + caught);
                    request.Wait();
                }
    }

    private static void receiveIn(int way, int room) throws MPIException {
        int from = previous(world);
        byte[] array = new byte[room];
        ByteBuffer direct = ByteBuffer.allocateDirect(room + 4096).limit(room);
        switch (way) {
            case 0 -> world.Recv(array, 0, room, MPI.BYTE, from, way);
            case 1 -> world.Irecv(array, 0, room, MPI.BYTE, from, way).Wait();
            case 2 ->
                world.Sendrecv(
                    array, 0, 0, MPI.BYTE, MPI.PROC_NULL, 0, array, 0, room, MPI.BYTE, from, way);
            case 3 -> world.Sendrecv_replace(array, 0, room, MPI.BYTE, MPI.PROC_NULL, 0, from, way);
            case 4 -> world.Recv(direct, 0, room, MPI.BYTE, from, way);
            case 5 ->
                world.Sendrecv(
                    array, 0, 0, MPI.BYTE, MPI.PROC_NULL, 0, direct, 0, room, MPI.BYTE, from, way);
            case 6 -> {
                Prequest request = world.Recv_init(array, 0, room, MPI.BYTE, from, way);
                request.Start();
                try {
                    request.Wait();
                } finally {
                    if (!request.Is_null()) request.Free(); // Open MPI frees it after an error
                }
            }
            case 7 ->
                Request.Waitsome(new Request[] {world.Irecv(array, 0, room, MPI.BYTE, from, way)});
            // Open MPI may write a long message past the end of a longer direct buffer.
            default ->
                world.Irecv(room > 1000 ? array : direct, 0, room, MPI.BYTE, from, way).Wait();
        }
        for (int i = room; i < direct.capacity(); i++)
            holds(direct.limit(direct.capacity()).get(i) == 0, "the bytes after the buffer stay");
    }

    public static void requests() throws MPIException {
        Request done = world.Isend(INTS, 0, 1, MPI.INT, MPI.PROC_NULL, 0);
        done.Wait();
        refused("null", () -> done.Free());
        refused("no communication under way", () -> done.Cancel());
        refused("array of requests is null", () -> Request.Waitall(null));
        Prequest persistent = world.Send_init(INTS, 0, 1, MPI.INT, MPI.PROC_NULL, 0);
        persistent.Start();
        refused("under way already", () -> persistent.Start());
        persistent.Wait();
        persistent.Free();
        refused("has been freed", () -> persistent.Start());
        refused("a request of the array is null", () -> Prequest.Startall(new Prequest[1]));
        refused("no buffer is attached", () -> MPI.Buffer_detach());
        MPI.Buffer_attach(new byte[1000]);
        refused("attached already", () -> MPI.Buffer_attach(new byte[1000]));
        MPI.Buffer_detach();
        MPI.Buffer_attach(ByteBuffer.allocateDirect(2000));
        same(2000, MPI.Buffer_detach().length);
        holds(MPI.REQUEST_NULL.Is_null(), "REQUEST_NULL is null");
        same(1, Request.Waitall(new Request[] {MPI.REQUEST_NULL}).length);
        refused("a communicator is null", () -> Comm.Compare(world, null));
        refused("called already", () -> MPI.Init(new String[0]));
    }

    /** The native library takes over no signal of the JVM's: a null check in compiled code. */
    public static void nullChecks() {
        int caught = 0;
        for (int i = 0; i < 200_000; i++) {
            int[] array = i % 1000 == 999 ? null : INTS;
            try {
                array[0]++;
            } catch (NullPointerException expected) {
                caught++;
            }
        }
        same(200, caught);
    }

    static void afterFinalize() throws MPIException {
        holds(MPI.Finalized(), "MPI has ended");
        refused("Finalize has been called", () -> world.Barrier());
        refused("called already", () -> MPI.Init(new String[0]));
    }
}
