// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.ObjectStreamClass;
import java.util.Arrays;

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
            stream.flush();
            return bytes.toByteArray();
        } catch (IOException | RuntimeException | StackOverflowError | OutOfMemoryError
            | LinkageError error) {
            throw new MPIException("the objects cannot be serialized: " + error, error);
        }
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
        } catch (IOException | ClassNotFoundException | RuntimeException | StackOverflowError
            | OutOfMemoryError | LinkageError error) {
            throw new MPIException("the objects of a message cannot be read: " + error, error);
        }
    }

    /** Receives the message that a probe has matched: its native handle is at `scratch.out`. */
    private static Status matched(Scratch scratch, Object buf, int offset, int count, Datatype type)
        throws MPIException {
        int bytes = Datatype.fits(Status.bytes(scratch.status, scratch), "bytes of the objects");
        long memory = scratch.receive(bytes);
        MPIException.check(
            Native.call(Native.MRECV, memory, bytes, Native.BYTE, scratch.out, scratch.status));
        byte[] message = new byte[bytes];
        Buffers.unpack(message, 0, bytes, MPI.BYTE, memory);
        Status status = Status.of(scratch.status, bytes);
        return Status.ofObjects(status, store(message, buf, offset, count, type));
    }

    static Status receive(Comm comm, Object buf, int offset, int count, int elements, Datatype type,
        int source, int tag, Scratch scratch) throws MPIException {
        boolean waits;
        synchronized (comm.objectReceives) {
            waits = !comm.objectReceives.isEmpty();
        }
        // An earlier Irecv that fits gets the message.
        if (waits) return new Receive(comm, buf, offset, count, elements, type, source, tag).Wait();
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
        /** Why the message that arrived cannot be read. */
        private MPIException failure;

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
                return arrived != null || failure != null || look();
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
                    try {
                        arrived = matched(scratch, buf, offset, count, type);
                    } catch (MPIException error) {
                        failure = error;
                    } catch (VirtualMachineError error) {
                        failure = new MPIException("the objects do not fit: " + error, error);
                    }
                    return true;
                }
                if (!earlier.look()) return false;
            }
        }

        private Receive earlierThatFits(Status found) {
            if (source == MPI.PROC_NULL) return null;
            for (Receive earlier : comm.objectReceives) {
                if (earlier == this) return null;
                if (earlier.fits(found)) return earlier;
            }
            return null;
        }

        private boolean fits(Status found) {
            return (source == MPI.ANY_SOURCE || source == found.source)
                && (tag == MPI.ANY_TAG || tag == found.tag);
        }

        @Override
        Status tryDeferred() throws MPIException {
            if (!arrived()) return null;
            open = false;
            release();
            if (failure != null) throw failure;
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

    /** What a rank sends to each rank (null: nothing). */
    private interface Serialized {
        byte[][] messages() throws MPIException;
    }

    private static final String ELSEWHERE =
        "another rank cannot serialize its objects, or has no memory for those of others";

    /** Throws on all ranks, where one has a failure. */
    private static void agree(Intracomm comm, MPIException failure) throws MPIException {
        int[] failed = {failure == null ? 0 : 1};
        comm.Allreduce(failed, 0, failed, 0, 1, MPI.INT, MPI.MAX);
        if (failure != null) throw failure;
        if (failed[0] != 0) throw new MPIException(ELSEWHERE);
    }

    private static byte[] allocate(int bytes) throws MPIException {
        try {
            return new byte[bytes];
        } catch (OutOfMemoryError error) {
            throw new MPIException("no memory for " + bytes + " bytes of objects", error);
        }
    }

    /**
     * Sends bytes to each rank and returns those from each. Throws on all ranks where one fails.
     */
    private static byte[][] exchange(Intracomm comm, Serialized serialized) throws MPIException {
        int ranks = comm.Size();
        int[] counts = new int[ranks], starts = new int[ranks], from = new int[ranks],
              fromStarts = new int[ranks];
        MPIException failure = null;
        byte[] all = {}, got = {};
        try {
            byte[][] messages = serialized.messages();
            for (int r = 0; r < ranks; r++)
                counts[r] = messages[r] == null ? 0 : messages[r].length;
            all = allocate(starts(counts, starts));
            for (int r = 0; r < ranks; r++)
                if (counts[r] > 0) System.arraycopy(messages[r], 0, all, starts[r], counts[r]);
        } catch (MPIException error) {
            failure = error;
            Arrays.fill(counts, 0);
        }
        comm.Alltoall(counts, 0, 1, MPI.INT, from, 0, 1, MPI.INT);
        try {
            got = allocate(starts(from, fromStarts));
        } catch (MPIException error) {
            failure = error;
        }
        agree(comm, failure);
        comm.Alltoallv(all, 0, counts, starts, MPI.BYTE, got, 0, from, fromStarts, MPI.BYTE);
        return split(got, from, fromStarts);
    }

    /** Where messages of so many bytes start one after the other; returns all bytes. */
    private static int starts(int[] counts, int[] starts) throws MPIException {
        long total = 0;
        for (int r = 0; r < counts.length; r++) {
            starts[r] = (int) total;
            total = Datatype.fits(total + counts[r], "bytes of the objects");
        }
        return (int) total;
    }

    private static byte[][] split(byte[] all, int[] counts, int[] starts) {
        byte[][] messages = new byte[counts.length][];
        for (int r = 0; r < counts.length; r++)
            messages[r] = Arrays.copyOfRange(all, starts[r], starts[r] + counts[r]);
        return messages;
    }

    /** Sends the same items to all ranks and returns those of each. Fails as `exchange` does. */
    private static byte[][] gather(Intracomm comm, Object buf, int offset, int count, Datatype type)
        throws MPIException {
        int ranks = comm.Size();
        int[] mine = {0}, counts = new int[ranks], starts = new int[ranks];
        byte[] message = {}, all = {};
        MPIException failure = null;
        try {
            message = bytes(buf, offset, count, type);
            mine[0] = message.length;
        } catch (MPIException error) {
            failure = error;
        }
        comm.Allgather(mine, 0, 1, MPI.INT, counts, 0, 1, MPI.INT);
        try {
            all = allocate(starts(counts, starts));
        } catch (MPIException error) {
            failure = error;
        }
        agree(comm, failure);
        comm.Allgatherv(message, 0, mine[0], MPI.BYTE, all, 0, counts, starts, MPI.BYTE);
        return split(all, counts, starts);
    }

    static void bcast(Intracomm comm, Object buf, int offset, int count, Datatype type, int root)
        throws MPIException {
        boolean sends = comm.Rank() == root;
        int[] length = {0};
        byte[] message = {};
        MPIException failure = null;
        try {
            if (sends) {
                message = bytes(buf, offset, count, type);
                length[0] = message.length;
            }
        } catch (MPIException error) {
            failure = error;
        }
        comm.Bcast(length, 0, 1, MPI.INT, root);
        try {
            if (!sends) message = allocate(length[0]);
        } catch (MPIException error) {
            failure = error;
        }
        agree(comm, failure);
        comm.Bcast(message, 0, length[0], MPI.BYTE, root);
        if (!sends) store(message, buf, offset, count, type);
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
        byte[][] got = toAll && to < 0
            ? gather(comm, sendbuf, sendoffset, sendcounts[0], sendtype)
            : exchange(comm,
                  () -> {
                      byte[][] messages = new byte[ranks][];
                      for (int r = 0; r < ranks; r++) {
                          if (to >= 0 && r != to || from >= 0 && rank != from) continue;
                          int piece = toAll ? 0 : r;
                          int start = sendoffset + senddispls[piece] * sendtype.Extent();
                          messages[r] = bytes(sendbuf, start, sendcounts[piece], sendtype);
                      }
                      return messages;
                  });
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
        boolean same = only < 0 && !prefix && parts.length == 1;
        byte[][] got =
            same ? gather(comm, sendbuf, sendoffset, parts[0], type) : exchange(comm, () -> {
                byte[][] messages = new byte[ranks][];
                int start = sendoffset;
                for (int r = 0; r < ranks; r++) {
                    int part = parts.length == 1 ? parts[0] : parts[r];
                    if ((only < 0 || r == only) && (!prefix || r >= rank))
                        messages[r] = bytes(sendbuf, start, part, type);
                    if (parts.length > 1) start += part * type.Extent();
                }
                return messages;
            });
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
