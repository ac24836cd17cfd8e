// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.foreign.MemorySegment;
import java.lang.invoke.MethodHandle;
import java.lang.ref.Reference;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;

/**
 * A communicator, and messages between two of its ranks.
 *
 * <p>The methods are those of MPI-1.1: chapter 3 (messages, and packed ones in 3.13) and chapter 5
 * (communicators; 5.6 intercommunicators, 5.7 attributes).
 *
 * <p>Each method throws an MPIException, before the native call, where an argument is null,
 * negative or out of the buffer's bounds, no rank or tag, freed, or not committed. What the native
 * library reports is an MPIException with its text. After {@link #Errhandler_set} with {@link
 * MPI#ERRORS_ARE_FATAL} it ends all processes instead.
 *
 * <p>A buffer is an array of the datatype's basic type, a {@link java.nio.Buffer}, or a {@link
 * MemorySegment}. Offsets count elements. The library reads and writes direct buffers and native
 * segments in place.
 */
public class Comm implements Cloneable {
    /** Longer messages into arrays that cannot be pinned are matched, then received in place. */
    private static final int LONG_BYTES = 1 << 16;

    /** Keys of {@link #Attr_put} start here, above those of every native library. */
    private static final int FIRST_KEY = 0x70000000;
    private static int nextKey = FIRST_KEY;

    long handle;
    /** Ranks that messages go to, ranks of the local group, and this process's among these. */
    private final int peers, size, rank;
    private Errhandler errhandler = MPI.ERRORS_RETURN;
    private Map<Integer, Object> attributes;
    /** Where its peers are; null before the first message that depends on it. */
    private Node node;
    /** Receives of objects that have not completed, in the order of their calls. */
    final ArrayDeque<Objects.Receive> objectReceives = new ArrayDeque<>();

    Comm(long handle) throws MPIException {
        this.handle = handle;
        if (handle == Native.COMM_NULL) {
            peers = size = 0;
            rank = MPI.UNDEFINED;
            return;
        }
        long out = Scratch.get().out;
        MPIException.check(Native.call(Native.COMM_TEST_INTER, handle, out));
        boolean inter = Native.getInt(out) != 0;
        MPIException.check(Native.call(Native.COMM_RANK, handle, out));
        rank = Native.getInt(out);
        MPIException.check(Native.call(Native.COMM_SIZE, handle, out));
        size = Native.getInt(out);
        if (inter) MPIException.check(Native.call(Native.COMM_REMOTE_SIZE, handle, out));
        peers = Native.getInt(out);
    }

    /* ---- checks */

    /** This thread's memory, if the communicator can be used. */
    final Scratch enter() throws MPIException {
        MPI.enter();
        if (handle == Native.COMM_NULL)
            throw new MPIException("the communicator is null or has been freed");
        return Scratch.get();
    }

    final void requireRank(int rank, String what) throws MPIException {
        if (rank < 0 || rank >= peers)
            throw new MPIException(
                "the " + what + " " + rank + " is no rank from 0 to " + (peers - 1));
    }

    private void requireDestination(int dest, int tag) throws MPIException {
        if (dest != MPI.PROC_NULL) requireRank(dest, "destination");
        if (tag < 0 || tag > MPI.mostTag)
            throw new MPIException("the tag " + tag + " is not from 0 to " + MPI.mostTag);
    }

    private void requireSource(int source, int tag) throws MPIException {
        if (source != MPI.PROC_NULL && source != MPI.ANY_SOURCE) requireRank(source, "source");
        if (tag != MPI.ANY_TAG && (tag < 0 || tag > MPI.mostTag))
            throw new MPIException("the tag " + tag + " is not from 0 to " + MPI.mostTag);
    }

    /** The result of a native function with the arguments (handle, int*). */
    final int integer(MethodHandle function) throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(function, handle, scratch.out));
        return Native.getInt(scratch.out);
    }

    /* ---- what it is */

    /** {@return number of ranks; of an intercommunicator, of the local group} */
    public int Size() throws MPIException {
        enter();
        return size;
    }

    /** {@return this process's rank} */
    public int Rank() throws MPIException {
        enter();
        return rank;
    }

    /**
     * {@return {@link MPI#IDENT}, {@link MPI#CONGRUENT}, {@link MPI#SIMILAR} or {@link
     * MPI#UNEQUAL}}
     *
     * @param comm1 the first communicator
     * @param comm2 the second communicator
     */
    public static int Compare(Comm comm1, Comm comm2) throws MPIException {
        if (comm1 == null || comm2 == null) throw new MPIException("a communicator is null");
        comm1.enter();
        Scratch scratch = comm2.enter();
        MPIException.check(
            Native.call(Native.COMM_COMPARE, comm1.handle, comm2.handle, scratch.out));
        return Native.getInt(scratch.out);
    }

    /** {@return the group of its ranks; of an intercommunicator, the local one} */
    public Group Group() throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.COMM_GROUP, handle, scratch.out));
        return new Group(Native.getHandle(scratch.out));
    }

    /** {@return whether this is an intercommunicator} */
    public boolean Test_inter() throws MPIException {
        return integer(Native.COMM_TEST_INTER) != 0;
    }

    /** {@return whether the communicator is null or has been freed} */
    public boolean Is_null() {
        return handle == Native.COMM_NULL;
    }

    /** The handle of a duplicate. */
    final long duplicate() throws MPIException {
        Scratch scratch = enter();
        MPIException.check(Native.call(Native.COMM_DUP, handle, scratch.out));
        return Native.getHandle(scratch.out);
    }

    /** Gives a communicator that is made from this one its error handler. */
    final <T extends Comm> T from(T made) throws MPIException {
        made.Errhandler_set(errhandler); // not all libraries do
        return made;
    }

    /** Takes over what a duplicate has of its original. */
    final <T extends Comm> T like(T copy) throws MPIException {
        Comm other = from(copy);
        if (attributes != null) other.attributes = new HashMap<>(attributes);
        return copy;
    }

    /** {@return a duplicate of the communicator; collective} */
    @Override
    public Object clone() {
        return like(new Comm(duplicate()));
    }

    /** Frees the communicator; collective. */
    public void Free() throws MPIException {
        Scratch scratch = enter();
        if (handle == MPI.COMM_WORLD.handle || handle == MPI.COMM_SELF.handle)
            throw new MPIException("COMM_WORLD and COMM_SELF cannot be freed");
        Native.putHandle(scratch.out, handle);
        MPIException.check(Native.call(Native.COMM_FREE, scratch.out));
        handle = Native.COMM_NULL;
    }

    /**
     * Ends all processes of the communicator with an exit status.
     *
     * @param errorcode the exit status
     */
    public void Abort(int errorcode) throws MPIException {
        enter();
        System.out.flush();
        System.err.flush();
        MPIException.check(Native.call(Native.ABORT, handle, errorcode));
    }

    /** {@return {@link MPI#CART}, {@link MPI#GRAPH} or {@link MPI#UNDEFINED}} */
    public int Topo_test() throws MPIException {
        return integer(Native.TOPO_TEST);
    }

    /**
     * Sets what errors of native calls do: raise an MPIException, or end all processes.
     *
     * @param errhandler {@link MPI#ERRORS_RETURN} or {@link MPI#ERRORS_ARE_FATAL}
     */
    public void Errhandler_set(Errhandler errhandler) throws MPIException {
        if (errhandler == null) throw new MPIException("the error handler is null");
        enter();
        MPIException.check(Native.call(Native.SET_ERRHANDLER, handle, errhandler.handle));
        this.errhandler = errhandler;
    }

    /** {@return what errors of native calls do} */
    public Errhandler Errhandler_get() throws MPIException {
        enter();
        return errhandler;
    }

    /* ---- attributes */

    /** {@return a new key for attributes of any communicator} */
    public static synchronized int Keyval_create() {
        return nextKey++;
    }

    /**
     * Sets an attribute of this communicator, which its duplicates take over.
     *
     * @param keyval the attribute's key
     * @param value the attribute
     */
    public void Attr_put(int keyval, Object value) throws MPIException {
        enter();
        synchronized (Comm.class) {
            if (keyval < FIRST_KEY || keyval >= nextKey)
                throw new MPIException("the key " + keyval + " is not of Keyval_create");
        }
        synchronized (this) {
            if (attributes == null) attributes = new HashMap<>();
            attributes.put(keyval, value);
        }
    }

    /**
     * Removes an attribute.
     *
     * @param keyval the attribute's key
     */
    public synchronized void Attr_delete(int keyval) throws MPIException {
        enter();
        if (attributes == null || !attributes.containsKey(keyval))
            throw new MPIException("the communicator has no attribute with the key " + keyval);
        attributes.remove(keyval);
    }

    /**
     * {@return an attribute of this communicator, null if it is not set} {@link MPI#TAG_UB}, {@link
     * MPI#HOST} and {@link MPI#IO} are Integers, {@link MPI#WTIME_IS_GLOBAL} is a Boolean.
     *
     * @param keyval the attribute's key
     */
    public Object Attr_get(int keyval) throws MPIException {
        Scratch scratch = enter();
        if (keyval >= FIRST_KEY) {
            synchronized (this) {
                return attributes == null ? null : attributes.get(keyval);
            }
        }
        if (keyval != MPI.TAG_UB && keyval != MPI.HOST && keyval != MPI.IO
            && keyval != MPI.WTIME_IS_GLOBAL)
            throw new MPIException("there is no predefined attribute with the key " + keyval);
        MPIException.check(
            Native.call(Native.COMM_GET_ATTR, handle, keyval, scratch.out, scratch.out + 8));
        if (Native.getInt(scratch.out + 8) == 0) return null;
        int value = Native.getInt(Native.ALL.get(Native.LONG, scratch.out));
        if (keyval == MPI.WTIME_IS_GLOBAL) return value != 0;
        return value;
    }

    /* ---- blocking messages */

    private void send(MethodHandle mode, Object buf, int offset, int count, Datatype datatype,
        int dest, int tag) throws MPIException {
        Scratch scratch = enter();
        requireDestination(dest, tag);
        int elements = Buffers.check(buf, offset, count, datatype);
        if (datatype.ofObjects()) {
            byte[] message = Objects.bytes(buf, offset, count, datatype);
            send(mode, message, 0, message.length, MPI.BYTE, dest, tag);
            return;
        }
        long memory = Buffers.source(buf, offset, count, elements, datatype, scratch);
        scratch.sent(Native.call(mode, memory, elements, datatype.handle, dest, tag, handle));
        Reference.reachabilityFence(buf);
    }

    /**
     * Sends a message.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     */
    public void Send(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        Scratch scratch = enter();
        requireDestination(dest, tag);
        int elements = Buffers.check(buf, offset, count, datatype);
        if (datatype.ofObjects()) {
            send(Native.SEND, buf, offset, count, datatype, dest, tag);
            return;
        }
        long memory = Buffers.source(buf, offset, count, elements, datatype, scratch);
        // The method handle is a constant here, so that the JIT compiler makes a direct call.
        scratch.sent(
            Native.call(Native.SEND, memory, elements, datatype.handle, dest, tag, handle));
        Reference.reachabilityFence(buf);
    }

    /**
     * Sends a message through the buffer of {@link MPI#Buffer_attach}.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     */
    public void Bsend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        send(Native.BSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Sends a message and returns after its receive has started.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     */
    public void Ssend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        send(Native.SSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Sends a message whose receive has been posted.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     */
    public void Rsend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        send(Native.RSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Receives a message.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items at most
     * @param datatype datatype of the items
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param tag tag of the message, or {@link MPI#ANY_TAG}
     * @return source, tag and length of the message
     */
    public Status Recv(Object buf, int offset, int count, Datatype datatype, int source, int tag)
        throws MPIException {
        Scratch scratch = enter();
        requireSource(source, tag);
        int elements = Buffers.checkWritable(buf, offset, count, datatype);
        if (datatype.ofObjects())
            return Objects.receive(
                this, buf, offset, count, elements, datatype, source, tag, scratch);
        long size = elements * (long) datatype.bytes, memory;
        if (size > Buffers.MANY_BYTES && arrivesWhole(size, source)) {
            memory = scratch.receive(size);
        } else {
            if (size > Buffers.MANY_BYTES && Buffers.pinnable(buf, elements, datatype, scratch))
                return receivePinned(buf, offset, elements, datatype, source, tag, scratch);
            if (size > LONG_BYTES && Buffers.plainArray(buf, datatype) && !Op.mayCallBack())
                return receiveLong(buf, offset, elements, datatype, source, tag, scratch);
            memory = Buffers.target(buf, offset, elements, datatype, scratch);
            if (Native.OVERRUNS && memory != scratch.receive(0))
                return receiveInPlace(memory, buf, elements, datatype, source, tag, scratch);
        }
        scratch.received(Native.call(
            Native.RECV, memory, elements, datatype.handle, source, tag, handle, scratch.status));
        long bytes = Status.bytes(scratch.status, scratch);
        if (memory == scratch.receive(0))
            Buffers.received(buf, offset, elements, datatype, bytes, memory);
        Reference.reachabilityFence(buf);
        return Status.of(scratch.status, bytes);
    }

    /**
     * Whether a message has to be guarded, and comes from another node in one piece: then a copy
     * is the cheaper guard.
     */
    private boolean arrivesWhole(long bytes, int source) throws MPIException {
        if (!Native.OVERRUNS || bytes > Node.MOST_BYTES || source < 0) return false;
        if (node == null) node = new Node(peers);
        return node.elsewhere(this, source);
    }

    /** Waits for a message, of which `scratch` then knows the status; returns its bytes. */
    private long match(int elements, Datatype datatype, int source, int tag, Scratch scratch)
        throws MPIException {
        MPIException.check(
            Native.call(Native.MPROBE, source, tag, handle, scratch.out, scratch.status));
        long bytes = Status.bytes(scratch.status, scratch), room = (long) elements * datatype.bytes;
        if (bytes <= room) return bytes;
        // Open MPI would write it past the end of the buffer.
        long memory = scratch.receive(bytes), longs = (bytes + 7) / 8;
        scratch.received(
            Native.call(Native.MRECV, memory, longs, MPI.LONG.handle, scratch.out, scratch.status));
        throw MPIException.truncated(bytes, room);
    }

    /** Has the native library write the message into a pinned array, no byte past its end. */
    private Status receivePinned(Object buf, int offset, int elements, Datatype datatype,
        int source, int tag, Scratch scratch) throws MPIException {
        if (Native.OVERRUNS) match(elements, datatype, source, tag, scratch);
        long memory = scratch.pin(buf) + (long) offset * datatype.bytes;
        scratch.received(Native.OVERRUNS
                ? Native.call(
                      Native.MRECV, memory, elements, datatype.handle, scratch.out, scratch.status)
                : Native.call(Native.RECV, memory, elements, datatype.handle, source, tag, handle,
                      scratch.status));
        return Status.of(scratch.status, Status.bytes(scratch.status, scratch));
    }

    /**
     * Waits for the message, and has the native library write it into the array. The JVM cannot
     * move the array meanwhile, and no thread can wait for the collector: so it is done only for a
     * message that has arrived.
     */
    private Status receiveLong(Object buf, int offset, int elements, Datatype datatype, int source,
        int tag, Scratch scratch) throws MPIException {
        long bytes = match(elements, datatype, source, tag, scratch);
        MemorySegment array = Buffers.segment(buf).asSlice(
            (long) offset * datatype.bytes, (long) elements * datatype.bytes);
        MPIException.check(
            Native.mrecvHeap(array, elements, datatype.handle, scratch.out, scratch.status));
        return Status.of(scratch.status, bytes);
    }

    /** The same for native memory, so that no byte is written past its end. */
    private Status receiveInPlace(long memory, Object buf, int elements, Datatype datatype,
        int source, int tag, Scratch scratch) throws MPIException {
        long bytes = match(elements, datatype, source, tag, scratch);
        MPIException.check(Native.call(
            Native.MRECV, memory, elements, datatype.handle, scratch.out, scratch.status));
        Reference.reachabilityFence(buf);
        return Status.of(scratch.status, bytes);
    }

    /**
     * Sends one message and receives another.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items that are sent
     * @param sendtype datatype of the sent items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param sendtag tag of the sent message
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items at most
     * @param recvtype datatype of the received items
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param recvtag tag of the received message, or {@link MPI#ANY_TAG}
     * @return source, tag and length of the received message
     */
    public Status Sendrecv(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        int dest, int sendtag, Object recvbuf, int recvoffset, int recvcount, Datatype recvtype,
        int source, int recvtag) throws MPIException {
        Scratch scratch = enter();
        requireDestination(dest, sendtag);
        requireSource(source, recvtag);
        int sent = Buffers.check(sendbuf, sendoffset, sendcount, sendtype);
        int room = Buffers.checkWritable(recvbuf, recvoffset, recvcount, recvtype);
        if (sendtype.ofObjects() || recvtype.ofObjects()
            || Native.OVERRUNS && !Buffers.guarded((long) room * recvtype.bytes)
                && Buffers.isNative(recvbuf) && recvtype.plain) {
            Request request = Isend(sendbuf, sendoffset, sendcount, sendtype, dest, sendtag);
            try {
                return Recv(recvbuf, recvoffset, recvcount, recvtype, source, recvtag);
            } finally {
                request.Wait();
            }
        }
        long from = Buffers.source(sendbuf, sendoffset, sendcount, sent, sendtype, scratch);
        long to = Buffers.target(recvbuf, recvoffset, room, recvtype, scratch);
        scratch.received(Native.call(Native.SENDRECV, from, sent, sendtype.handle, dest, sendtag,
            to, room, recvtype.handle, source, recvtag, handle, scratch.status));
        long bytes = Status.bytes(scratch.status, scratch);
        if (to == scratch.receive(0))
            Buffers.received(recvbuf, recvoffset, room, recvtype, bytes, to);
        Reference.reachabilityFence(sendbuf);
        Reference.reachabilityFence(recvbuf);
        return Status.of(scratch.status, bytes);
    }

    /**
     * Sends what a buffer holds and receives another message into it.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param sendtag tag of the sent message
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param recvtag tag of the received message, or {@link MPI#ANY_TAG}
     * @return source, tag and length of the received message
     */
    public Status Sendrecv_replace(Object buf, int offset, int count, Datatype datatype, int dest,
        int sendtag, int source, int recvtag) throws MPIException {
        Scratch scratch = enter();
        requireDestination(dest, sendtag);
        requireSource(source, recvtag);
        int elements = Buffers.checkWritable(buf, offset, count, datatype);
        if (datatype.ofObjects())
            return Sendrecv(buf, offset, count, datatype, dest, sendtag, buf, offset, count,
                datatype, source, recvtag);
        long size = (long) elements * datatype.bytes;
        long from = scratch.send(size), to = scratch.receive(size);
        if (elements > 0) Buffers.pack(buf, offset, count, datatype, from);
        scratch.received(Native.call(Native.SENDRECV, from, elements, datatype.handle, dest,
            sendtag, to, elements, datatype.handle, source, recvtag, handle, scratch.status));
        long bytes = Status.bytes(scratch.status, scratch);
        Buffers.received(buf, offset, elements, datatype, bytes, to);
        return Status.of(scratch.status, bytes);
    }

    /**
     * Waits for a message without receiving it. Its objects are not counted.
     *
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param tag tag of the message, or {@link MPI#ANY_TAG}
     * @return source, tag and length of the message
     */
    public Status Probe(int source, int tag) throws MPIException {
        Scratch scratch = enter();
        requireSource(source, tag);
        MPIException.check(Native.call(Native.PROBE, source, tag, handle, scratch.status));
        return Status.of(scratch.status, Status.bytes(scratch.status, scratch));
    }

    /**
     * {@return the status of a message that has arrived, null if there is none}
     *
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param tag tag of the message, or {@link MPI#ANY_TAG}
     */
    public Status Iprobe(int source, int tag) throws MPIException {
        Scratch scratch = enter();
        requireSource(source, tag);
        MPIException.check(
            Native.call(Native.IPROBE, source, tag, handle, scratch.out, scratch.status));
        if (Native.getInt(scratch.out) == 0) return null;
        return Status.of(scratch.status, Status.bytes(scratch.status, scratch));
    }

    /* ---- messages under way */

    private Request start(MethodHandle mode, Request request, int peer, int tag, Scratch scratch)
        throws MPIException {
        boolean started = false;
        try {
            if (!request.receives && request.staged && request.elements > 0
                && !(request instanceof Prequest))
                Buffers.pack(
                    request.buf, request.offset, request.count, request.type, request.memory);
            MPIException.check(Native.call(mode, request.memory, request.elements,
                request.type.handle, peer, tag, handle, scratch.out));
            request.handle = Native.getHandle(scratch.out);
            started = true;
            return request;
        } finally {
            if (!started) request.release();
        }
    }

    private Request isend(MethodHandle mode, Object buf, int offset, int count, Datatype datatype,
        int dest, int tag) throws MPIException {
        Scratch scratch = enter();
        requireDestination(dest, tag);
        int elements = Buffers.check(buf, offset, count, datatype);
        if (datatype.ofObjects()) {
            byte[] message = Objects.bytes(buf, offset, count, datatype);
            return isend(mode, message, 0, message.length, MPI.BYTE, dest, tag);
        }
        return start(mode, new Request(this, buf, offset, count, elements, datatype, false), dest,
            tag, scratch);
    }

    /**
     * Starts to send a message.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, for {@link Request#Wait} or {@link Request#Test}
     */
    public Request Isend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        return isend(Native.ISEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Starts to send a message through the buffer of {@link MPI#Buffer_attach}.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, for {@link Request#Wait} or {@link Request#Test}
     */
    public Request Ibsend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        return isend(Native.IBSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Starts to send a message; it completes after its receive has started.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, for {@link Request#Wait} or {@link Request#Test}
     */
    public Request Issend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        return isend(Native.ISSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Starts to send a message whose receive has been posted.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, for {@link Request#Wait} or {@link Request#Test}
     */
    public Request Irsend(Object buf, int offset, int count, Datatype datatype, int dest, int tag)
        throws MPIException {
        return isend(Native.IRSEND, buf, offset, count, datatype, dest, tag);
    }

    /**
     * Starts to receive a message.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items at most
     * @param datatype datatype of the items
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param tag tag of the message, or {@link MPI#ANY_TAG}
     * @return the request, for {@link Request#Wait} or {@link Request#Test}
     */
    public Request Irecv(Object buf, int offset, int count, Datatype datatype, int source, int tag)
        throws MPIException {
        Scratch scratch = enter();
        requireSource(source, tag);
        int elements = Buffers.checkWritable(buf, offset, count, datatype);
        if (datatype.ofObjects())
            return new Objects.Receive(this, buf, offset, count, elements, datatype, source, tag);
        return start(Native.IRECV, new Request(this, buf, offset, count, elements, datatype, true),
            source, tag, scratch);
    }

    private Prequest init(MethodHandle mode, Object buf, int offset, int count, Datatype datatype,
        int peer, int tag, boolean receives) throws MPIException {
        Scratch scratch = enter();
        if (receives) requireSource(peer, tag);
        else requireDestination(peer, tag);
        int elements = receives ? Buffers.checkWritable(buf, offset, count, datatype)
                                : Buffers.check(buf, offset, count, datatype);
        if (datatype.ofObjects())
            throw new MPIException("objects have no persistent requests, as their size varies");
        return (Prequest) start(mode,
            new Prequest(this, buf, offset, count, elements, datatype, receives), peer, tag,
            scratch);
    }

    /**
     * A persistent request that sends what the buffer holds at its start.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, which is not started
     */
    public Prequest Send_init(Object buf, int offset, int count, Datatype datatype, int dest,
        int tag) throws MPIException {
        return init(Native.SEND_INIT, buf, offset, count, datatype, dest, tag, false);
    }

    /**
     * The same for {@link #Bsend}.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, which is not started
     */
    public Prequest Bsend_init(Object buf, int offset, int count, Datatype datatype, int dest,
        int tag) throws MPIException {
        return init(Native.BSEND_INIT, buf, offset, count, datatype, dest, tag, false);
    }

    /**
     * The same for {@link #Ssend}.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, which is not started
     */
    public Prequest Ssend_init(Object buf, int offset, int count, Datatype datatype, int dest,
        int tag) throws MPIException {
        return init(Native.SSEND_INIT, buf, offset, count, datatype, dest, tag, false);
    }

    /**
     * The same for {@link #Rsend}.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param datatype datatype of the items
     * @param dest rank of the receiver, or {@link MPI#PROC_NULL}
     * @param tag tag of the message
     * @return the request, which is not started
     */
    public Prequest Rsend_init(Object buf, int offset, int count, Datatype datatype, int dest,
        int tag) throws MPIException {
        return init(Native.RSEND_INIT, buf, offset, count, datatype, dest, tag, false);
    }

    /**
     * A persistent request that receives.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items at most
     * @param datatype datatype of the items
     * @param source rank of the sender, or {@link MPI#ANY_SOURCE} or {@link MPI#PROC_NULL}
     * @param tag tag of the message, or {@link MPI#ANY_TAG}
     * @return the request, which is not started
     */
    public Prequest Recv_init(Object buf, int offset, int count, Datatype datatype, int source,
        int tag) throws MPIException {
        return init(Native.RECV_INIT, buf, offset, count, datatype, source, tag, true);
    }

    /* ---- packed messages */

    /**
     * Packs items into {@code outbuf} from a position on; returns the position after them.
     *
     * @param inbuf what is read
     * @param offset first element in the buffer
     * @param incount items
     * @param datatype datatype of the items
     * @param outbuf what is written
     * @param position first byte in the packed buffer
     * @return the position after the items
     */
    public int Pack(Object inbuf, int offset, int incount, Datatype datatype, byte[] outbuf,
        int position) throws MPIException {
        Scratch scratch = enter();
        int elements = Buffers.check(inbuf, offset, incount, datatype);
        if (outbuf == null) throw new MPIException("the packed buffer is null");
        if (position < 0 || position > outbuf.length)
            throw new MPIException(
                "the position " + position + " is not from 0 to " + outbuf.length);
        if (datatype.ofObjects()) {
            byte[] message = Objects.bytes(inbuf, offset, incount, datatype);
            int start = Pack(new int[] {message.length}, 0, 1, MPI.INT, outbuf, position);
            return Pack(message, 0, message.length, MPI.BYTE, outbuf, start);
        }
        long from = Buffers.source(inbuf, offset, incount, elements, datatype, scratch);
        int room = outbuf.length - position;
        long to = scratch.receive(room);
        Native.putInt(scratch.out, 0);
        scratch.sent(Native.call(
            Native.PACK, from, elements, datatype.handle, to, room, scratch.out, handle));
        int packed = Native.getInt(scratch.out);
        Buffers.unpack(outbuf, position, packed, MPI.BYTE, to);
        Reference.reachabilityFence(inbuf);
        return position + packed;
    }

    /**
     * Unpacks items from {@code inbuf} from a position on; returns the position after them.
     *
     * @param inbuf what is read
     * @param position first byte in the packed buffer
     * @param outbuf what is written
     * @param offset first element in the buffer
     * @param outcount items
     * @param datatype datatype of the items
     * @return the position after the items
     */
    public int Unpack(byte[] inbuf, int position, Object outbuf, int offset, int outcount,
        Datatype datatype) throws MPIException {
        Scratch scratch = enter();
        int elements = Buffers.checkWritable(outbuf, offset, outcount, datatype);
        if (inbuf == null) throw new MPIException("the packed buffer is null");
        if (position < 0 || position > inbuf.length)
            throw new MPIException(
                "the position " + position + " is not from 0 to " + inbuf.length);
        if (datatype.ofObjects()) {
            int[] length = new int[1];
            int start = Unpack(inbuf, position, length, 0, 1, MPI.INT);
            if (length[0] < 0 || length[0] > inbuf.length - start)
                throw new MPIException("the packed buffer holds no objects at " + position);
            byte[] message = new byte[length[0]];
            int end = Unpack(inbuf, start, message, 0, length[0], MPI.BYTE);
            Objects.store(message, outbuf, offset, outcount, datatype);
            return end;
        }
        if ((long) elements * datatype.bytes > inbuf.length - position)
            throw new MPIException("the packed buffer ends before " + outcount + " items");
        int room = Math.min(inbuf.length - position, Pack_size(outcount, datatype));
        long from = scratch.send(room);
        Buffers.pack(inbuf, position, room, MPI.BYTE, from);
        long to = Buffers.target(outbuf, offset, elements, datatype, scratch);
        Native.putInt(scratch.out, 0);
        MPIException.check(Native.call(
            Native.UNPACK, from, room, scratch.out, to, elements, datatype.handle, handle));
        int used = Native.getInt(scratch.out);
        if (elements > 0 && to == scratch.receive(0))
            Buffers.unpack(outbuf, offset, elements, datatype, to);
        Reference.reachabilityFence(outbuf);
        return position + used;
    }

    /**
     * {@return bytes at most that {@link #Pack} needs for so many items}
     *
     * @param incount items
     * @param datatype datatype of the items
     */
    public int Pack_size(int incount, Datatype datatype) throws MPIException {
        Scratch scratch = enter();
        Datatype.usable(datatype);
        if (incount < 0) throw new MPIException("the count " + incount + " is negative");
        if (datatype.ofObjects())
            throw new MPIException(
                "the packed size of objects is known only after they are packed");
        int elements =
            Datatype.fits((long) incount * datatype.size, "elements of " + incount + " items");
        MPIException.check(
            Native.call(Native.PACK_SIZE, elements, datatype.handle, handle, scratch.out));
        return Native.getInt(scratch.out);
    }

    /* ---- intercommunicators */

    /**
     * {@return an intercommunicator between two groups; collective over both} This communicator
     * holds both leaders.
     *
     * @param local_comm the communicator of this side
     * @param local_leader this side's leader, a rank of {@code local_comm}
     * @param remote_leader the other side's leader, a rank of this communicator
     * @param tag tag of the message
     */
    public Intercomm Create_intercomm(Comm local_comm, int local_leader, int remote_leader, int tag)
        throws MPIException {
        Scratch scratch = enter();
        if (local_comm == null) throw new MPIException("the local communicator is null");
        local_comm.enter();
        local_comm.requireRank(local_leader, "local leader");
        if (local_comm.Rank() == local_leader) requireRank(remote_leader, "remote leader");
        if (tag < 0 || tag > MPI.mostTag)
            throw new MPIException("the tag " + tag + " is not from 0 to " + MPI.mostTag);
        MPIException.check(Native.call(Native.INTERCOMM_CREATE, local_comm.handle, local_leader,
            handle, remote_leader, tag, scratch.out));
        return local_comm.from(new Intercomm(Native.getHandle(scratch.out)));
    }
}
