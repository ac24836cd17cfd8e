// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;

/**
 * Messages of serialized objects ({@link MPI#OBJECT}). A message is one native message: how many
 * objects, then the objects.
 */
final class Objects {
    private Objects() {}

    /** The places of the elements of items in an array. */
    private static int[] places(int offset, int count, Datatype type) {
        int[] places = new int[count * type.size];
        int used = 0;
        for (int item = 0; item < count; item++) {
            int start = offset + item * type.Extent();
            if (type.runs == null)
                for (int e = 0; e < type.size; e++) places[used++] = start + e;
            else
                for (int r = 0; r < type.runs.length; r += 2)
                    for (int e = 0; e < type.runs[r + 1]; e++)
                        places[used++] = start + type.runs[r] + e;
        }
        return places;
    }

    /** Serializes checked items. */
    static byte[] bytes(Object buf, int offset, int count, Datatype type) throws MPIException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
            int[] places = places(offset, count, type);
            stream.writeInt(places.length);
            for (int place : places) stream.writeObject(((Object[]) buf)[place]);
        } catch (IOException | RuntimeException error) {
            throw new MPIException("the objects cannot be serialized: " + error, error);
        }
        return bytes.toByteArray();
    }

    /** Finds classes where the program's are, which need not be where this library's are. */
    private static final class Input extends ObjectInputStream {
        Input(InputStream stream) throws IOException {
            super(stream);
        }

        @Override
        protected Class<?> resolveClass(ObjectStreamClass described)
            throws IOException, ClassNotFoundException {
            ClassLoader loader = Thread.currentThread().getContextClassLoader();
            try {
                return Class.forName(described.getName(), false, loader);
            } catch (ClassNotFoundException primitive) {
                return super.resolveClass(described);
            }
        }
    }

    /** Puts the objects of a message where the items are; returns how many there were. */
    static int store(byte[] message, Object buf, int offset, int count, Datatype type)
        throws MPIException {
        if (message.length == 0) return 0;
        try (ObjectInputStream stream = new Input(new ByteArrayInputStream(message))) {
            int objects = stream.readInt();
            int[] places = places(offset, count, type);
            if (objects > places.length)
                throw new MPIException("the message has " + objects
                    + " objects, more than the receiver's " + places.length);
            for (int i = 0; i < objects; i++) ((Object[]) buf)[places[i]] = stream.readObject();
            return objects;
        } catch (MPIException known) {
            throw known;
        } catch (IOException | ClassNotFoundException | RuntimeException error) {
            throw new MPIException("the objects of a message cannot be read: " + error, error);
        }
    }

    /** Receives the message that a probe has matched: its native handle is at `scratch.out`. */
    private static Status matched(Scratch scratch, Object buf, int offset, int count, Datatype type)
        throws MPIException {
        int bytes = (int) Status.bytes(scratch.status, scratch);
        long memory = scratch.receive(bytes);
        MPIException.check(
            Native.call(Native.MRECV, memory, bytes, Native.BYTE, scratch.out, scratch.status));
        byte[] message = new byte[bytes];
        Buffers.unpack(message, 0, bytes, MPI.BYTE, memory);
        Status status = Status.of(scratch.status, bytes);
        return Status.ofObjects(status, store(message, buf, offset, count, type));
    }

    static Status receive(Comm comm, Object buf, int offset, int count, Datatype type, int source,
        int tag, Scratch scratch) throws MPIException {
        MPIException.check(
            Native.call(Native.MPROBE, source, tag, comm.handle, scratch.out, scratch.status));
        return matched(scratch, buf, offset, count, type);
    }

    /**
     * A receive of objects, whose number of bytes only the message says. It looks for the message
     * when it is tested, and leaves it to an earlier receive of the communicator that fits it.
     */
    static final class Receive extends Request {
        private final int source, tag;
        private boolean open = true;
        private Status arrived;

        Receive(Comm comm, Object buf, int offset, int count, int elements, Datatype type,
            int source, int tag) throws MPIException {
            super(comm, buf, offset, count, elements, type, true);
            this.source = source;
            this.tag = tag;
            synchronized (comm.objectReceives) {
                comm.objectReceives.add(this);
            }
        }

        @Override
        boolean deferred() {
            return open;
        }

        /** Whether the message is there; it is received if it is. */
        boolean arrived() throws MPIException {
            synchronized (comm.objectReceives) {
                return arrived != null || look();
            }
        }

        private boolean look() throws MPIException {
            Scratch scratch = Scratch.get();
            while (true) {
                MPIException.check(Native.call(
                    Native.IPROBE, source, tag, comm.handle, scratch.out, scratch.status));
                if (Native.getInt(scratch.out) == 0) return false;
                Status found = Status.of(scratch.status, 0);
                Receive earlier = earlierThatFits(found);
                if (earlier == null) {
                    MPIException.check(Native.call(Native.IMPROBE, found.source, found.tag,
                        comm.handle, scratch.out + 8, scratch.out, scratch.status));
                    if (Native.getInt(scratch.out + 8) == 0) return false;
                    comm.objectReceives.remove(this);
                    arrived = matched(scratch, buf, offset, count, type);
                    return true;
                }
                if (!earlier.look()) return false;
            }
        }

        private Receive earlierThatFits(Status found) {
            for (Receive earlier : comm.objectReceives) {
                if (earlier == this) return null;
                if (earlier.fits(found)) return earlier;
            }
            return null;
        }

        private boolean fits(Status found) {
            return arrived == null && (source == MPI.ANY_SOURCE || source == found.source)
                && (tag == MPI.ANY_TAG || tag == found.tag);
        }

        @Override
        Status tryDeferred() throws MPIException {
            if (!arrived()) return null;
            open = false;
            release();
            return arrived;
        }

        @Override
        public void Cancel() throws MPIException {
            throw new MPIException("a receive of objects cannot be cancelled");
        }

        @Override
        public void Free() throws MPIException {
            throw new MPIException("a receive of objects cannot be freed before it completes");
        }
    }

    /* ---- collective operations, all by an exchange of bytes between all ranks */

    /** Sends bytes to each rank (null: none) and returns those from each. */
    private static byte[][] exchange(Intracomm comm, byte[][] messages) throws MPIException {
        int ranks = comm.Size();
        int[] counts = new int[ranks], starts = new int[ranks], from = new int[ranks],
              fromStarts = new int[ranks];
        long total = 0, fromTotal = 0;
        for (int r = 0; r < ranks; r++) {
            counts[r] = messages[r] == null ? 0 : messages[r].length;
            starts[r] = Datatype.fits(total, "bytes of the objects");
            total += counts[r];
        }
        byte[] all = new byte[Datatype.fits(total, "bytes of the objects")];
        for (int r = 0; r < ranks; r++)
            if (counts[r] > 0) System.arraycopy(messages[r], 0, all, starts[r], counts[r]);
        comm.Alltoall(counts, 0, 1, MPI.INT, from, 0, 1, MPI.INT);
        for (int r = 0; r < ranks; r++) {
            fromStarts[r] = Datatype.fits(fromTotal, "bytes of the objects");
            fromTotal += from[r];
        }
        byte[] got = new byte[Datatype.fits(fromTotal, "bytes of the objects")];
        comm.Alltoallv(all, 0, counts, starts, MPI.BYTE, got, 0, from, fromStarts, MPI.BYTE);
        byte[][] received = new byte[ranks][];
        for (int r = 0; r < ranks; r++)
            received[r] = java.util.Arrays.copyOfRange(got, fromStarts[r], fromStarts[r] + from[r]);
        return received;
    }

    private static byte[][] same(Intracomm comm, byte[] message) throws MPIException {
        byte[][] messages = new byte[comm.Size()][];
        java.util.Arrays.fill(messages, message);
        return messages;
    }

    static void bcast(Intracomm comm, Object buf, int offset, int count, Datatype type, int root)
        throws MPIException {
        boolean sends = comm.Rank() == root;
        byte[][] got = exchange(comm, same(comm, sends ? bytes(buf, offset, count, type) : null));
        if (!sends) store(got[root], buf, offset, count, type);
    }

    /**
     * Any of the operations that move items from ranks to ranks.
     *
     * @param toAll whether every rank gets the same items of this one
     * @param to the only rank that gets any, or -1
     * @param from the only rank that sends any, or -1
     */
    static void move(Intracomm comm, Object sendbuf, int sendoffset, int[] sendcounts,
        int[] senddispls, Datatype sendtype, Object recvbuf, int recvoffset, int[] recvcounts,
        int[] recvdispls, Datatype recvtype, boolean toAll, int to, int from) throws MPIException {
        int ranks = comm.Size(), rank = comm.Rank();
        byte[][] messages = new byte[ranks][];
        for (int r = 0; r < ranks; r++) {
            if (to >= 0 && r != to || from >= 0 && rank != from) continue;
            int piece = toAll ? 0 : r;
            messages[r] = bytes(sendbuf, sendoffset + senddispls[piece] * sendtype.Extent(),
                sendcounts[piece], sendtype);
        }
        byte[][] got = exchange(comm, messages);
        for (int r = 0; r < ranks; r++) {
            if (got[r].length == 0) continue;
            int piece = from >= 0 ? 0 : r;
            store(got[r], recvbuf, recvoffset + recvdispls[piece] * recvtype.Extent(),
                recvcounts[piece], recvtype);
        }
    }

    /**
     * A reduction of items from the ranks up to `last`, in their order; only ranks in `receivers`
     * get a result.
     */
    static void reduce(Intracomm comm, Object sendbuf, int sendoffset, int[] parts, Object recvbuf,
        int recvoffset, Datatype type, Op op, int only, boolean prefix) throws MPIException {
        op.requireObjects();
        int ranks = comm.Size(), rank = comm.Rank();
        byte[][] messages = new byte[ranks][];
        int start = sendoffset;
        for (int r = 0; r < ranks; r++) {
            int part = parts.length == 1 ? parts[0] : parts[r];
            if ((only < 0 || r == only) && (!prefix || r >= rank))
                messages[r] = bytes(sendbuf, start, part, type);
            if (parts.length > 1) start += part * type.Extent();
        }
        byte[][] got = exchange(comm, messages);
        if (only >= 0 && rank != only) return;
        int part = parts.length == 1 ? parts[0] : parts[rank];
        int last = prefix ? rank : ranks - 1;
        int room = Math.max(1, part * type.size);
        Datatype objects = MPI.OBJECT;
        Object[] result = new Object[room], next = new Object[room];
        store(got[last], result, 0, part * type.size, objects);
        for (int r = last - 1; r >= 0; r--) {
            store(got[r], next, 0, part * type.size, objects);
            op.apply(next, result, part * type.size, objects);
        }
        int[] places = places(recvoffset, part, type);
        for (int i = 0; i < places.length; i++) ((Object[]) recvbuf)[places[i]] = result[i];
    }
}
