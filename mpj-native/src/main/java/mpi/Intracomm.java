// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.ref.Reference;
import java.util.Arrays;

/**
 * A communicator of one group, and its collective operations (MPI-1.1, chapter 4; constructors of
 * communicators in 5.4, of topologies in 6.5).
 *
 * <p>All ranks have to call a collective operation, in the same order. Errors are as in {@link
 * Comm}. Counts that do not fit each other are an error too, where one rank can see them.
 */
public class Intracomm extends Comm {
    Intracomm(long handle) throws MPIException {
        super(handle);
    }

    @Override
    public Object clone() {
        return like(new Intracomm(duplicate()));
    }

    /* ---- other communicators */

    private Intracomm orNull(long handle) throws MPIException {
        return handle == Native.COMM_NULL ? null : from(new Intracomm(handle));
    }

    /**
     * {@return a communicator of a group of these ranks; collective} Other ranks get null.
     *
     * @param group a group of ranks of this communicator
     */
    public Intracomm Create(Group group) throws MPIException {
        Scratch scratch = enter();
        if (group == null) throw new MPIException("the group is null");
        MPIException.check(Native.call(Native.COMM_CREATE, handle, group.handle(), scratch.out));
        return orNull(Native.getHandle(scratch.out));
    }

    /**
     * {@return a communicator of the ranks with the same color, in the order of their keys;
     * collective} Ranks with the color {@link MPI#UNDEFINED} get null.
     *
     * @param color ranks with the same one get one communicator, or {@link MPI#UNDEFINED}
     * @param key order of the ranks; equal ones keep their order
     */
    public Intracomm Split(int color, int key) throws MPIException {
        Scratch scratch = enter();
        if (color < 0 && color != MPI.UNDEFINED)
            throw new MPIException("the color " + color + " is negative");
        MPIException.check(Native.call(Native.COMM_SPLIT, handle, color, key, scratch.out));
        return orNull(Native.getHandle(scratch.out));
    }

    /**
     * {@return a communicator with a Cartesian topology; collective} Ranks outside of it get null.
     *
     * @param dims processes along each dimension
     * @param periods whether each dimension is periodic
     * @param reorder whether ranks may be changed
     */
    public Cartcomm Create_cart(int[] dims, boolean[] periods, boolean reorder)
        throws MPIException {
        Scratch scratch = enter();
        Cartcomm.requireShape(dims, periods);
        Cartcomm.requireProcesses(dims, Size());
        long words = Cartcomm.shape(scratch, dims, periods);
        MPIException.check(Native.call(Native.CART_CREATE, handle, dims.length, words,
            words + 4L * dims.length, reorder ? 1 : 0, scratch.out));
        long created = Native.getHandle(scratch.out);
        return created == Native.COMM_NULL ? null : from(new Cartcomm(created));
    }

    /**
     * {@return a communicator with a graph topology; collective} Ranks outside of it get null.
     *
     * @param index for each node, the number of neighbours of all nodes up to it
     * @param edges neighbours of all nodes, one node after the other
     * @param reorder whether ranks may be changed
     */
    public Graphcomm Create_graph(int[] index, int[] edges, boolean reorder) throws MPIException {
        Scratch scratch = enter();
        Graphcomm.requireShape(index, edges, Size());
        long words = scratch.words(4L * (index.length + edges.length));
        Scratch.put(words, index);
        Scratch.put(words + 4L * index.length, edges);
        MPIException.check(Native.call(Native.GRAPH_CREATE, handle, index.length, words,
            words + 4L * index.length, reorder ? 1 : 0, scratch.out));
        long created = Native.getHandle(scratch.out);
        return created == Native.COMM_NULL ? null : from(new Graphcomm(created));
    }

    /* ---- what the operations share */

    /** Items of a part for each rank, as elements, checked. */
    private int checkAll(Object buf, int offset, int count, Datatype type, boolean written)
        throws MPIException {
        if (count < 0) throw new MPIException("the count " + count + " is negative");
        int all = Datatype.fits((long) count * Size(), "count of all ranks together");
        return written ? Buffers.checkWritable(buf, offset, all, type)
                       : Buffers.check(buf, offset, all, type);
    }

    /** Checks the parts of a buffer, one for each rank. */
    private void checkParts(Object buf, int offset, int[] counts, int[] displs, Datatype type,
        boolean written) throws MPIException {
        Datatype.usable(type);
        if (counts == null || displs == null)
            throw new MPIException("the counts or displacements are null");
        if (counts.length < Size() || displs.length < Size())
            throw new MPIException("there are " + counts.length + " counts and " + displs.length
                + " displacements for " + Size() + " ranks");
        for (int r = 0; r < Size(); r++) {
            if (counts[r] == 0) continue;
            int start = at(offset, displs[r], type);
            if (written) Buffers.checkWritable(buf, start, counts[r], type);
            else Buffers.check(buf, start, counts[r], type);
        }
    }

    /** The program may change its own arrays while they are checked and used. */
    private static int[] copy(int[] values) {
        return values == null ? null : values.clone();
    }

    private static int at(int offset, int displacement, Datatype type) throws MPIException {
        return Datatype.fits(offset + (long) displacement * type.Extent(), "start of a part");
    }

    private static boolean partsInPlace(Object buf, Datatype type) {
        return type.plain && Buffers.isNative(buf);
    }

    /**
     * Writes the counts and displacements that the native library gets, in elements; returns how
     * many elements there are.
     */
    private static long layOut(int ranks, boolean inPlace, int[] counts, int[] displs,
        Datatype type, long words) throws MPIException {
        long all = 0;
        for (int r = 0; r < ranks; r++) {
            long elements = (long) counts[r] * type.size;
            long start = inPlace ? (long) displs[r] * type.Extent() : all;
            if (counts[r] == 0 && inPlace) start = 0;
            Native.putInt(words + 4L * r, (int) elements);
            Native.putInt(words + 4L * (ranks + r), Datatype.fits(start, "start of a part"));
            all += elements;
        }
        return all;
    }

    private long sourceOfParts(Object buf, int offset, int[] counts, int[] displs, Datatype type,
        long words, Scratch scratch) throws MPIException {
        int ranks = Size();
        long items = 0;
        for (int r = 0; r < ranks; r++) items += counts[r];
        boolean pinned = Buffers.pinnable(buf, items * type.size, type, scratch);
        boolean inPlace = pinned || partsInPlace(buf, type);
        long all = layOut(ranks, inPlace, counts, displs, type, words);
        if (pinned) return scratch.pin(buf) + (long) offset * type.bytes;
        if (inPlace) return Buffers.inPlace(buf, offset, type);
        long memory = scratch.send(all * type.bytes), at = memory;
        for (int r = 0; r < ranks; r++) {
            if (counts[r] == 0 || type.size == 0) continue;
            Buffers.pack(buf, at(offset, displs[r], type), counts[r], type, at);
            at += (long) counts[r] * type.size * type.bytes;
        }
        return memory;
    }

    private long targetOfParts(Object buf, int offset, int[] counts, int[] displs, Datatype type,
        long words, Scratch scratch) throws MPIException {
        boolean inPlace = partsInPlace(buf, type);
        long all = layOut(Size(), inPlace, counts, displs, type, words);
        return inPlace ? Buffers.inPlace(buf, offset, type) : scratch.receive(all * type.bytes);
    }

    private void unpackParts(Object buf, int offset, int[] counts, int[] displs, Datatype type,
        long memory) throws MPIException {
        if (partsInPlace(buf, type)) return;
        long at = memory;
        int ranks = Size();
        for (int r = 0; r < ranks; r++) {
            if (counts[r] == 0 || type.size == 0) continue;
            Buffers.unpack(
                buf, at(offset, displs[r], type), (long) counts[r] * type.size, type, at);
            at += (long) counts[r] * type.size * type.bytes;
        }
    }

    /** Copies what was received, unless it was received in place. */
    private static void deliver(Object buf, int offset, int elements, Datatype type, long memory,
        Scratch scratch) throws MPIException {
        if (elements > 0 && memory == scratch.receive(0))
            Buffers.unpack(buf, offset, elements, type, memory);
        Reference.reachabilityFence(buf);
    }

    private static int[] ints(int length, int value) {
        int[] values = new int[length];
        Arrays.fill(values, value);
        return values;
    }

    private static int[] steps(int length, int step) {
        int[] values = new int[length];
        for (int i = 0; i < length; i++) values[i] = i * step;
        return values;
    }

    private static void sameKind(Datatype send, Datatype receive) throws MPIException {
        if (Datatype.usable(send).ofObjects() != Datatype.usable(receive).ofObjects())
            throw new MPIException("objects can only be sent to objects");
    }

    /**
     * Checks that what a rank sends to itself is as long as what it receives. Native libraries wait
     * for ever or write past the end where it is not.
     */
    private static void requireOwnPart(
        int sendcount, Datatype sendtype, int recvcount, Datatype recvtype) throws MPIException {
        long sent = (long) sendcount * sendtype.size * sendtype.bytes;
        long room = (long) recvcount * recvtype.size * recvtype.bytes;
        if (sent != room && !sendtype.ofObjects())
            throw new MPIException(
                "this rank sends itself " + sent + " bytes, but receives " + room);
    }

    /* ---- operations that move data */

    /** Returns when all ranks have called it. */
    public void Barrier() throws MPIException {
        enter();
        MPIException.check(Native.call(Native.BARRIER, handle));
    }

    /**
     * Sends the root's items to all ranks.
     *
     * @param buf array, Buffer or MemorySegment
     * @param offset first element in the buffer
     * @param count items
     * @param type datatype of the items
     * @param root rank of the root
     */
    public void Bcast(Object buf, int offset, int count, Datatype type, int root)
        throws MPIException {
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean sends = Rank() == root;
        int elements = sends ? Buffers.check(buf, offset, count, type)
                             : Buffers.checkWritable(buf, offset, count, type);
        if (type.ofObjects()) {
            Objects.bcast(this, buf, offset, count, type, root);
            return;
        }
        long memory = sends ? Buffers.source(buf, offset, count, elements, type, scratch)
                            : Buffers.target(buf, offset, elements, type, scratch);
        scratch.sent(Native.call(Native.BCAST, memory, elements, type.handle, root, handle));
        if (!sends) deliver(buf, offset, elements, type, memory, scratch);
        Reference.reachabilityFence(buf);
    }

    /**
     * Collects a part of each rank at the root, in the order of the ranks.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items that are sent
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items from each rank
     * @param recvtype datatype of the received items
     * @param root rank of the root
     */
    public void Gather(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int recvcount, Datatype recvtype, int root)
        throws MPIException {
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean receives = Rank() == root;
        int sent = Buffers.check(sendbuf, sendoffset, sendcount, sendtype);
        int room = receives ? checkAll(recvbuf, recvoffset, recvcount, recvtype, true) : 0;
        if (receives) sameKind(sendtype, recvtype);
        if (receives) requireOwnPart(sendcount, sendtype, recvcount, recvtype);
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(1, sendcount), ints(1, 0), sendtype,
                recvbuf, recvoffset, ints(Size(), recvcount), steps(Size(), recvcount), recvtype,
                true, root, -1);
            return;
        }
        long from = Buffers.source(sendbuf, sendoffset, sendcount, sent, sendtype, scratch);
        long to = receives ? Buffers.target(recvbuf, recvoffset, room, recvtype, scratch) : 0;
        scratch.sent(Native.call(Native.GATHER, from, sent, sendtype.handle, to,
            receives ? room / Size() : 0, receives ? recvtype.handle : sendtype.handle, root,
            handle));
        if (receives) deliver(recvbuf, recvoffset, room, recvtype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * The same with parts of several lengths, at displacements that count items.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items that are sent
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcounts items from each rank
     * @param displs start of each rank's part, in items from the offset
     * @param recvtype datatype of the received items
     * @param root rank of the root
     */
    public void Gatherv(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int[] recvcounts, int[] displs, Datatype recvtype, int root)
        throws MPIException {
        recvcounts = copy(recvcounts);
        displs = copy(displs);
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean receives = Rank() == root;
        int sent = Buffers.check(sendbuf, sendoffset, sendcount, sendtype);
        if (receives) checkParts(recvbuf, recvoffset, recvcounts, displs, recvtype, true);
        if (receives) sameKind(sendtype, recvtype);
        if (receives) requireOwnPart(sendcount, sendtype, recvcounts[root], recvtype);
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(1, sendcount), ints(1, 0), sendtype,
                recvbuf, recvoffset, recvcounts, displs, recvtype, true, root, -1);
            return;
        }
        int ranks = Size();
        long words = scratch.words(8L * ranks);
        long from = Buffers.source(sendbuf, sendoffset, sendcount, sent, sendtype, scratch);
        long to = receives
            ? targetOfParts(recvbuf, recvoffset, recvcounts, displs, recvtype, words, scratch)
            : 0;
        scratch.sent(Native.call(Native.GATHERV, from, sent, sendtype.handle, to, words,
            words + 4L * ranks, receives ? recvtype.handle : sendtype.handle, root, handle));
        if (receives) unpackParts(recvbuf, recvoffset, recvcounts, displs, recvtype, to);
        Reference.reachabilityFence(sendbuf);
        Reference.reachabilityFence(recvbuf);
    }

    /**
     * Sends a part of the root's items to each rank, in the order of the ranks.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items to each rank
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items that are received
     * @param recvtype datatype of the received items
     * @param root rank of the root
     */
    public void Scatter(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int recvcount, Datatype recvtype, int root)
        throws MPIException {
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean sends = Rank() == root;
        int sent = sends ? checkAll(sendbuf, sendoffset, sendcount, sendtype, false) : 0;
        int room = Buffers.checkWritable(recvbuf, recvoffset, recvcount, recvtype);
        if (sends) sameKind(sendtype, recvtype);
        if (sends) requireOwnPart(sendcount, sendtype, recvcount, recvtype);
        if (recvtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(Size(), sendcount),
                steps(Size(), sendcount), sendtype, recvbuf, recvoffset, ints(1, recvcount),
                ints(1, 0), recvtype, false, -1, root);
            return;
        }
        long from = sends
            ? Buffers.source(sendbuf, sendoffset, sendcount * Size(), sent, sendtype, scratch)
            : 0;
        long to = Buffers.target(recvbuf, recvoffset, room, recvtype, scratch);
        scratch.sent(Native.call(Native.SCATTER, from, sends ? sent / Size() : 0,
            sends ? sendtype.handle : recvtype.handle, to, room, recvtype.handle, root, handle));
        deliver(recvbuf, recvoffset, room, recvtype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * The same with parts of several lengths, at displacements that count items.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcounts items to each rank
     * @param displs start of each rank's part, in items from the offset
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items that are received
     * @param recvtype datatype of the received items
     * @param root rank of the root
     */
    public void Scatterv(Object sendbuf, int sendoffset, int[] sendcounts, int[] displs,
        Datatype sendtype, Object recvbuf, int recvoffset, int recvcount, Datatype recvtype,
        int root) throws MPIException {
        sendcounts = copy(sendcounts);
        displs = copy(displs);
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean sends = Rank() == root;
        if (sends) checkParts(sendbuf, sendoffset, sendcounts, displs, sendtype, false);
        int room = Buffers.checkWritable(recvbuf, recvoffset, recvcount, recvtype);
        if (sends) sameKind(sendtype, recvtype);
        if (sends) requireOwnPart(sendcounts[root], sendtype, recvcount, recvtype);
        if (recvtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, sendcounts, displs, sendtype, recvbuf,
                recvoffset, ints(1, recvcount), ints(1, 0), recvtype, false, -1, root);
            return;
        }
        int ranks = Size();
        long words = scratch.words(8L * ranks);
        long from = sends
            ? sourceOfParts(sendbuf, sendoffset, sendcounts, displs, sendtype, words, scratch)
            : 0;
        long to = Buffers.target(recvbuf, recvoffset, room, recvtype, scratch);
        scratch.sent(Native.call(Native.SCATTERV, from, words, words + 4L * ranks,
            sends ? sendtype.handle : recvtype.handle, to, room, recvtype.handle, root, handle));
        deliver(recvbuf, recvoffset, room, recvtype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * Collects a part of each rank at all ranks, in the order of the ranks.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items that are sent
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items from each rank
     * @param recvtype datatype of the received items
     */
    public void Allgather(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int recvcount, Datatype recvtype) throws MPIException {
        Scratch scratch = enter();
        int sent = Buffers.check(sendbuf, sendoffset, sendcount, sendtype);
        int room = checkAll(recvbuf, recvoffset, recvcount, recvtype, true);
        sameKind(sendtype, recvtype);
        requireOwnPart(sendcount, sendtype, recvcount, recvtype);
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(1, sendcount), ints(1, 0), sendtype,
                recvbuf, recvoffset, ints(Size(), recvcount), steps(Size(), recvcount), recvtype,
                true, -1, -1);
            return;
        }
        long from = Buffers.source(sendbuf, sendoffset, sendcount, sent, sendtype, scratch);
        long to = Buffers.target(recvbuf, recvoffset, room, recvtype, scratch);
        scratch.sent(Native.call(Native.ALLGATHER, from, sent, sendtype.handle, to, room / Size(),
            recvtype.handle, handle));
        deliver(recvbuf, recvoffset, room, recvtype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * The same with parts of several lengths, at displacements that count items.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items that are sent
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcounts items from each rank
     * @param displs start of each rank's part, in items from the offset
     * @param recvtype datatype of the received items
     */
    public void Allgatherv(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int[] recvcounts, int[] displs, Datatype recvtype)
        throws MPIException {
        recvcounts = copy(recvcounts);
        displs = copy(displs);
        Scratch scratch = enter();
        int sent = Buffers.check(sendbuf, sendoffset, sendcount, sendtype);
        checkParts(recvbuf, recvoffset, recvcounts, displs, recvtype, true);
        sameKind(sendtype, recvtype);
        requireOwnPart(sendcount, sendtype, recvcounts[Rank()], recvtype);
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(1, sendcount), ints(1, 0), sendtype,
                recvbuf, recvoffset, recvcounts, displs, recvtype, true, -1, -1);
            return;
        }
        int ranks = Size();
        long words = scratch.words(8L * ranks);
        long from = Buffers.source(sendbuf, sendoffset, sendcount, sent, sendtype, scratch);
        long to = targetOfParts(recvbuf, recvoffset, recvcounts, displs, recvtype, words, scratch);
        scratch.sent(Native.call(Native.ALLGATHERV, from, sent, sendtype.handle, to, words,
            words + 4L * ranks, recvtype.handle, handle));
        unpackParts(recvbuf, recvoffset, recvcounts, displs, recvtype, to);
        Reference.reachabilityFence(sendbuf);
        Reference.reachabilityFence(recvbuf);
    }

    /**
     * Sends a part to each rank and receives one of each.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcount items to each rank
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcount items from each rank
     * @param recvtype datatype of the received items
     */
    public void Alltoall(Object sendbuf, int sendoffset, int sendcount, Datatype sendtype,
        Object recvbuf, int recvoffset, int recvcount, Datatype recvtype) throws MPIException {
        Scratch scratch = enter();
        int sent = checkAll(sendbuf, sendoffset, sendcount, sendtype, false);
        int room = checkAll(recvbuf, recvoffset, recvcount, recvtype, true);
        sameKind(sendtype, recvtype);
        requireOwnPart(sendcount, sendtype, recvcount, recvtype);
        int ranks = Size();
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, ints(ranks, sendcount), steps(ranks, sendcount),
                sendtype, recvbuf, recvoffset, ints(ranks, recvcount), steps(ranks, recvcount),
                recvtype, false, -1, -1);
            return;
        }
        long from = Buffers.source(sendbuf, sendoffset, sendcount * ranks, sent, sendtype, scratch);
        long to = Buffers.target(recvbuf, recvoffset, room, recvtype, scratch);
        scratch.sent(Native.call(Native.ALLTOALL, from, sent / ranks, sendtype.handle, to,
            room / ranks, recvtype.handle, handle));
        deliver(recvbuf, recvoffset, room, recvtype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * The same with parts of several lengths, at displacements that count items.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param sendcounts items to each rank
     * @param sdispls start of the part to each rank, in items from the offset
     * @param sendtype datatype of the sent items
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcounts items from each rank
     * @param rdispls start of the part from each rank, in items from the offset
     * @param recvtype datatype of the received items
     */
    public void Alltoallv(Object sendbuf, int sendoffset, int[] sendcounts, int[] sdispls,
        Datatype sendtype, Object recvbuf, int recvoffset, int[] recvcounts, int[] rdispls,
        Datatype recvtype) throws MPIException {
        sendcounts = copy(sendcounts);
        sdispls = copy(sdispls);
        recvcounts = copy(recvcounts);
        rdispls = copy(rdispls);
        Scratch scratch = enter();
        checkParts(sendbuf, sendoffset, sendcounts, sdispls, sendtype, false);
        checkParts(recvbuf, recvoffset, recvcounts, rdispls, recvtype, true);
        sameKind(sendtype, recvtype);
        requireOwnPart(sendcounts[Rank()], sendtype, recvcounts[Rank()], recvtype);
        if (sendtype.ofObjects()) {
            Objects.move(this, sendbuf, sendoffset, sendcounts, sdispls, sendtype, recvbuf,
                recvoffset, recvcounts, rdispls, recvtype, false, -1, -1);
            return;
        }
        int ranks = Size();
        long words = scratch.words(16L * ranks), more = words + 8L * ranks;
        long from =
            sourceOfParts(sendbuf, sendoffset, sendcounts, sdispls, sendtype, words, scratch);
        long to = targetOfParts(recvbuf, recvoffset, recvcounts, rdispls, recvtype, more, scratch);
        scratch.sent(Native.call(Native.ALLTOALLV, from, words, words + 4L * ranks, sendtype.handle,
            to, more, more + 4L * ranks, recvtype.handle, handle));
        unpackParts(recvbuf, recvoffset, recvcounts, rdispls, recvtype, to);
        Reference.reachabilityFence(sendbuf);
        Reference.reachabilityFence(recvbuf);
    }

    /* ---- reductions */

    private static Op usable(Op op) throws MPIException {
        if (op == null) throw new MPIException("the operation is null");
        return op;
    }

    /**
     * Reduces the items of all ranks, one by one, to the root.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param count items
     * @param datatype datatype of the items
     * @param op the operation
     * @param root rank of the root
     */
    public void Reduce(Object sendbuf, int sendoffset, Object recvbuf, int recvoffset, int count,
        Datatype datatype, Op op, int root) throws MPIException {
        Scratch scratch = enter();
        requireRank(root, "root");
        boolean receives = Rank() == root;
        int elements = Buffers.check(sendbuf, sendoffset, count, datatype);
        if (receives) Buffers.checkWritable(recvbuf, recvoffset, count, datatype);
        usable(op);
        if (datatype.ofObjects()) {
            Objects.reduce(this, sendbuf, sendoffset, ints(1, count), recvbuf, recvoffset, datatype,
                op, root, false);
            return;
        }
        long operation = op.handleFor(datatype), type = op.typeOf(datatype);
        long from = Buffers.source(sendbuf, sendoffset, count, elements, datatype, scratch);
        long to = receives ? Buffers.target(recvbuf, recvoffset, elements, datatype, scratch) : 0;
        op.check(scratch.done(Native.call(
            Native.REDUCE, from, to, op.countOf(datatype, count), type, operation, root, handle)));
        if (receives) deliver(recvbuf, recvoffset, elements, datatype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * Reduces the items of all ranks, one by one, to all ranks.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param count items
     * @param datatype datatype of the items
     * @param op the operation
     */
    public void Allreduce(Object sendbuf, int sendoffset, Object recvbuf, int recvoffset, int count,
        Datatype datatype, Op op) throws MPIException {
        reduceToAll(
            Native.ALLREDUCE, sendbuf, sendoffset, recvbuf, recvoffset, count, datatype, op, false);
    }

    /**
     * Reduces, at each rank, the items of the ranks up to this one.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param count items
     * @param datatype datatype of the items
     * @param op the operation
     */
    public void Scan(Object sendbuf, int sendoffset, Object recvbuf, int recvoffset, int count,
        Datatype datatype, Op op) throws MPIException {
        reduceToAll(
            Native.SCAN, sendbuf, sendoffset, recvbuf, recvoffset, count, datatype, op, true);
    }

    private void reduceToAll(java.lang.invoke.MethodHandle function, Object sendbuf, int sendoffset,
        Object recvbuf, int recvoffset, int count, Datatype datatype, Op op, boolean prefix)
        throws MPIException {
        Scratch scratch = enter();
        int elements = Buffers.check(sendbuf, sendoffset, count, datatype);
        Buffers.checkWritable(recvbuf, recvoffset, count, datatype);
        usable(op);
        if (datatype.ofObjects()) {
            Objects.reduce(this, sendbuf, sendoffset, ints(1, count), recvbuf, recvoffset, datatype,
                op, -1, prefix);
            return;
        }
        long operation = op.handleFor(datatype), type = op.typeOf(datatype);
        long from = Buffers.source(sendbuf, sendoffset, count, elements, datatype, scratch);
        long to = Buffers.target(recvbuf, recvoffset, elements, datatype, scratch);
        op.check(scratch.done(
            Native.call(function, from, to, op.countOf(datatype, count), type, operation, handle)));
        deliver(recvbuf, recvoffset, elements, datatype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }

    /**
     * Reduces the items of all ranks, and gives each rank its part of the result.
     *
     * @param sendbuf array, Buffer or MemorySegment that is sent
     * @param sendoffset first element in {@code sendbuf}
     * @param recvbuf array, Buffer or MemorySegment that receives
     * @param recvoffset first element in {@code recvbuf}
     * @param recvcounts items of each rank's part
     * @param datatype datatype of the items
     * @param op the operation
     */
    public void Reduce_scatter(Object sendbuf, int sendoffset, Object recvbuf, int recvoffset,
        int[] recvcounts, Datatype datatype, Op op) throws MPIException {
        recvcounts = copy(recvcounts);
        Scratch scratch = enter();
        int ranks = Size();
        Datatype.usable(datatype);
        if (recvcounts == null || recvcounts.length < ranks)
            throw new MPIException("there are not as many counts as ranks, " + ranks);
        usable(op);
        long all = 0;
        for (int r = 0; r < ranks; r++) {
            if (recvcounts[r] < 0)
                throw new MPIException("the count " + recvcounts[r] + " is negative");
            all += recvcounts[r];
        }
        int count = Datatype.fits(all, "count of all ranks together");
        int elements = Buffers.check(sendbuf, sendoffset, count, datatype);
        int mine = recvcounts[Rank()];
        int room = Buffers.checkWritable(recvbuf, recvoffset, mine, datatype);
        if (datatype.ofObjects()) {
            Objects.reduce(this, sendbuf, sendoffset, Arrays.copyOf(recvcounts, ranks), recvbuf,
                recvoffset, datatype, op, -1, false);
            return;
        }
        long operation = op.handleFor(datatype), type = op.typeOf(datatype);
        long words = scratch.words(4L * ranks);
        for (int r = 0; r < ranks; r++)
            Native.putInt(words + 4L * r, op.countOf(datatype, recvcounts[r]));
        long from = Buffers.source(sendbuf, sendoffset, count, elements, datatype, scratch);
        long to = Buffers.target(recvbuf, recvoffset, room, datatype, scratch);
        op.check(scratch.done(
            Native.call(Native.REDUCE_SCATTER, from, to, words, type, operation, handle)));
        deliver(recvbuf, recvoffset, room, datatype, to, scratch);
        Reference.reachabilityFence(sendbuf);
    }
}
