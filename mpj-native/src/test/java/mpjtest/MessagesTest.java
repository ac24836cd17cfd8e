// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.rank;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.DoubleBuffer;
import java.nio.IntBuffer;
import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Request;
import mpi.Status;

/** Blocking messages in all modes, from and to all kinds of buffers. */
public final class MessagesTest {
    private MessagesTest() {}

    /** Elements 1 to 3 of an array of 5 go round the ring; the others stay. */
    private static void round(Object from, Object to, Object expected, Datatype type)
        throws MPIException {
        Request request = world.Isend(from, 1, 3, type, next(world), 5);
        Status status = world.Recv(to, 1, 3, type, previous(world), 5);
        request.Wait();
        same(expected, to);
        same(previous(world), status.source);
        same(5, status.tag);
        same(3, status.Get_count(type));
        same(3, status.Get_elements(type));
        holds(!status.Test_cancelled(), "it was not cancelled");
    }

    public static void everyBasicType() throws MPIException {
        round(new byte[] {1, -2, 3, -4, 5}, new byte[5], new byte[] {0, -2, 3, -4, 0}, MPI.BYTE);
        round(new byte[] {1, -2, 3, -4, 5}, new byte[5], new byte[] {0, -2, 3, -4, 0}, MPI.PACKED);
        round(new char[] {1, 2, '\uffff', 4, 5}, new char[5], new char[] {0, 2, '\uffff', 4, 0},
            MPI.CHAR);
        round(new short[] {1, -2, 3, 4, 5}, new short[5], new short[] {0, -2, 3, 4, 0}, MPI.SHORT);
        round(new boolean[] {true, true, false, true, true}, new boolean[5],
            new boolean[] {false, true, false, true, false}, MPI.BOOLEAN);
        round(new int[] {1, -2, 3, 4, 5}, new int[5], new int[] {0, -2, 3, 4, 0}, MPI.INT);
        round(new long[] {1, -2L << 40, 3, 4, 5}, new long[5], new long[] {0, -2L << 40, 3, 4, 0},
            MPI.LONG);
        round(new float[] {1, -2.5f, 3, 4, 5}, new float[5], new float[] {0, -2.5f, 3, 4, 0},
            MPI.FLOAT);
        round(new double[] {1, -2.5, 3, 4, 5}, new double[5], new double[] {0, -2.5, 3, 4, 0},
            MPI.DOUBLE);
    }

    private static ByteBuffer order(ByteBuffer buffer) {
        return buffer.order(ByteOrder.nativeOrder());
    }

    public static void buffersAndSegments() throws MPIException {
        for (boolean direct : new boolean[] {true, false}) {
            ByteBuffer a = order(direct ? ByteBuffer.allocateDirect(80) : ByteBuffer.allocate(80));
            ByteBuffer b = order(direct ? ByteBuffer.allocateDirect(80) : ByteBuffer.allocate(80));
            a.putDouble(8, 4.5 + rank);
            Request request = world.Isend(a, 1, 1, MPI.DOUBLE, next(world), 1);
            world.Recv(b, 2, 1, MPI.DOUBLE, previous(world), 1);
            request.Wait();
            same(4.5 + previous(world), b.getDouble(16));
            DoubleBuffer view = b.asDoubleBuffer();
            view.position(1);
            world.Sendrecv(a.asDoubleBuffer(), 1, 1, MPI.DOUBLE, next(world), 2, view, 2, 1,
                MPI.DOUBLE, previous(world), 2);
            same(4.5 + previous(world), b.getDouble(24));
            IntBuffer ints = a.asIntBuffer();
            ints.put(5, 42);
            Request received = world.Irecv(b.asIntBuffer(), 0, 1, MPI.INT, previous(world), 3);
            world.Send(ints, 5, 1, MPI.INT, next(world), 3);
            received.Wait();
            same(42, b.getInt(0));
        }
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment a = arena.allocate(1 << 20), b = arena.allocate(1 << 20);
            a.setAtIndex(ValueLayout.JAVA_LONG, 100000, 7L + rank);
            Request request = world.Isend(a, 0, 1 << 17, MPI.LONG, next(world), 4);
            Status status = world.Recv(b, 0, 1 << 17, MPI.LONG, previous(world), 4);
            request.Wait();
            same(1 << 17, status.Get_count(MPI.LONG));
            same(7L + previous(world), b.getAtIndex(ValueLayout.JAVA_LONG, 100000));
            MemorySegment heap = MemorySegment.ofArray(new long[3]);
            world.Sendrecv(
                a, 100000, 1, MPI.LONG, next(world), 4, heap, 1, 1, MPI.LONG, previous(world), 4);
            same(7L + previous(world), heap.getAtIndex(ValueLayout.JAVA_LONG, 1));
        }
    }

    public static void everyMode() throws MPIException {
        int[] from = {rank}, to = new int[4];
        MPI.Buffer_attach(new byte[1000 + MPI.BSEND_OVERHEAD]);
        Request[] requests = new Request[4];
        for (int i = 0; i < 4; i++)
            requests[i] = world.Irecv(to, i, 1, MPI.INT, previous(world), i);
        world.Barrier(); // all receives have been posted, as Rsend needs it
        world.Send(from, 0, 1, MPI.INT, next(world), 0);
        world.Bsend(from, 0, 1, MPI.INT, next(world), 1);
        world.Ssend(from, 0, 1, MPI.INT, next(world), 2);
        world.Rsend(from, 0, 1, MPI.INT, next(world), 3);
        Request.Waitall(requests);
        int p = previous(world);
        same(new int[] {p, p, p, p}, to);
        same(1000 + MPI.BSEND_OVERHEAD, MPI.Buffer_detach().length);
    }

    public static void longMessages() throws MPIException {
        for (int n : new int[] {0, 1, 1000, 8192, 8193, 100_000, 1_000_000}) {
            double[] from = new double[n + 2], to = new double[n + 2];
            for (int i = 0; i < n + 2; i++) from[i] = i + 0.5 * rank;
            Request request = world.Isend(from, 1, n, MPI.DOUBLE, next(world), 9);
            Status status = world.Recv(to, 1, n, MPI.DOUBLE, previous(world), 9);
            request.Wait();
            same(n, status.Get_count(MPI.DOUBLE));
            for (int i = 1; i <= n; i++) same(i + 0.5 * previous(world), to[i]);
            same(0.0, to[0]);
            same(0.0, to[n + 1]);
        }
    }

    public static void shorterThanTheBuffer() throws MPIException {
        int[] to = {-1, -1, -1};
        for (int room : new int[] {3, 40000}) {
            int[] large = new int[room];
            Request request = world.Isend(new int[] {5, 6}, 0, 2, MPI.INT, next(world), 0);
            Status status = world.Recv(large, 0, room, MPI.INT, previous(world), 0);
            request.Wait();
            same(2, status.Get_count(MPI.INT));
            same(1, status.Get_count(MPI.LONG));
            same(MPI.UNDEFINED, status.Get_count(Datatype3()));
            same(6, large[1]);
            same(0, large[2]);
        }
        Request request = world.Isend(to, 0, 0, MPI.INT, next(world), 0);
        same(0, world.Recv(null, 0, 0, MPI.INT, previous(world), 0).Get_count(MPI.INT));
        request.Wait();
    }

    private static Datatype Datatype3() throws MPIException {
        Datatype three = Datatype.Contiguous(3, MPI.INT);
        three.Commit();
        return three;
    }

    public static void anySourceAndTag() throws MPIException {
        Request request = world.Isend(new int[] {rank}, 0, 1, MPI.INT, next(world), 77);
        int[] to = new int[1];
        Status found = world.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG);
        same(77, found.tag);
        same(1, found.Get_count(MPI.INT));
        Status there = null;
        while (there == null) there = world.Iprobe(previous(world), 77);
        same(previous(world), there.source);
        Status status = world.Recv(to, 0, 1, MPI.INT, MPI.ANY_SOURCE, MPI.ANY_TAG);
        request.Wait();
        same(previous(world), status.source);
        same(previous(world), to[0]);
        holds(world.Iprobe(MPI.ANY_SOURCE, 77) == null, "no message is left");
    }

    public static void noProcess() throws MPIException {
        int[] value = {3};
        world.Send(value, 0, 1, MPI.INT, MPI.PROC_NULL, 0);
        Status status = world.Recv(value, 0, 1, MPI.INT, MPI.PROC_NULL, 0);
        same(MPI.PROC_NULL, status.source);
        same(0, status.Get_count(MPI.INT));
        same(3, value[0]);
        double[] large = new double[20000];
        same(MPI.PROC_NULL, world.Recv(large, 0, 20000, MPI.DOUBLE, MPI.PROC_NULL, 0).source);
    }

    public static void sendrecv() throws MPIException {
        int[] from = {rank, rank + 1}, to = new int[2];
        Status status = world.Sendrecv(
            from, 0, 2, MPI.INT, next(world), 1, to, 0, 2, MPI.INT, previous(world), 1);
        same(new int[] {previous(world), previous(world) + 1}, to);
        same(previous(world), status.source);
        status = world.Sendrecv_replace(from, 1, 1, MPI.INT, next(world), 2, previous(world), 2);
        same(new int[] {rank, previous(world) + 1}, from);
        same(1, status.Get_count(MPI.INT));
    }

    public static void packed() throws MPIException {
        byte[] packed = new byte[world.Pack_size(2, MPI.INT) + world.Pack_size(1, MPI.DOUBLE)];
        int end = world.Pack(new int[] {9, rank, 8}, 1, 2, MPI.INT, packed, 0);
        end = world.Pack(new double[] {1.5}, 0, 1, MPI.DOUBLE, packed, end);
        byte[] got = new byte[packed.length];
        world.Sendrecv(packed, 0, end, MPI.PACKED, next(world), 1, got, 0, got.length, MPI.PACKED,
            previous(world), 1);
        int[] ints = new int[2];
        double[] doubles = new double[2];
        int position = world.Unpack(got, 0, ints, 0, 2, MPI.INT);
        same(end, world.Unpack(got, position, doubles, 1, 1, MPI.DOUBLE));
        same(new int[] {previous(world), 8}, ints);
        same(new double[] {0, 1.5}, doubles);
    }

    public static void environment() throws MPIException {
        holds(MPI.Initialized() && !MPI.Finalized(), "MPI is running");
        holds(!MPI.Get_processor_name().isEmpty(), "the node has a name");
        double before = MPI.Wtime();
        holds(MPI.Wtime() >= before && MPI.Wtick() > 0 && MPI.Wtick() < 1, "time goes on");
        holds((Integer) world.Attr_get(MPI.TAG_UB) >= 32767, "tags go to 32767 at least");
        world.Attr_get(MPI.HOST);
        world.Attr_get(MPI.IO);
        Object global = world.Attr_get(MPI.WTIME_IS_GLOBAL);
        holds(global == null || global instanceof Boolean, "a flag");
    }
}
