// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.nio.Buffer;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntUnaryOperator;

/**
 * A communication under way (MPI-1.1, section 3.7).
 *
 * <p>A method throws an MPIException where the array of requests is null or a communication has
 * failed. Of several requests, what has completed is delivered before.
 */
public class Request {
    long handle;
    final Comm comm;
    final Object buf;
    final int offset, count;
    final int elements;
    final Datatype type;
    final boolean receives;
    /** Native memory of the message; where `staged`, a block of the pool or of a room. */
    long memory;
    private final Room room;
    final boolean staged;
    boolean active = true;
    private volatile boolean cancelled;
    /** The last call for several requests, of which this was one. */
    private long call;
    private static final AtomicLong CALLS = new AtomicLong();

    // Requests of buffers in place are listed, so that a buffer outlives its message even if the
    // program drops both.
    private static Request listed;
    private Request before, after;

    Request(Comm comm, Object buf, int offset, int count, int elements, Datatype type,
        boolean receives) throws MPIException {
        this.comm = comm;
        // The program may move a Buffer's position and limit before the message has completed.
        this.buf = buf instanceof Buffer ? Buffers.segment(buf) : buf;
        this.offset = offset;
        this.count = count;
        this.elements = elements;
        this.type = type;
        this.receives = receives;
        handle = Native.REQUEST_NULL;
        long bytes = (long) elements * type.bytes;
        boolean copied = elements == 0 || type.ofObjects() || buf.getClass().isArray()
            || receives && Buffers.guarded(bytes);
        long place = copied ? 0 : Buffers.inPlace(buf, offset, type);
        staged = place == 0;
        room = staged && receives && !type.ofObjects() ? Room.take(bytes) : null;
        memory = room != null ? room.address : staged ? Pool.take(bytes) : place;
        if (!staged) list();
    }

    /** The null request. */
    Request() {
        comm = null;
        buf = null;
        offset = count = elements = 0;
        type = null;
        receives = staged = active = false;
        room = null;
        handle = Native.REQUEST_NULL;
    }

    private void list() {
        synchronized (Request.class) {
            after = listed;
            if (listed != null) listed.before = this;
            listed = this;
        }
    }

    private void unlist() {
        synchronized (Request.class) {
            if (before != null) before.after = after;
            else if (listed == this) listed = after;
            if (after != null) after.before = before;
            before = after = null;
        }
    }

    /** Gives back the memory; the native library does not use it any more. */
    void release() {
        long place;
        synchronized (this) { // also where a program completes a request twice at once
            place = memory;
            memory = 0;
        }
        if (place == 0) return;
        if (room != null) room.give();
        else if (staged) Pool.give(place, (long) elements * type.bytes);
        else unlist();
    }

    /** Whether the native library knows nothing of the request yet. */
    boolean deferred() {
        return false;
    }

    /** Does the same as Test, for a request that the native library does not know. */
    Status tryDeferred() throws MPIException {
        throw new IllegalStateException();
    }

    /** What follows from the native library's completion of this request. */
    Status finish(Scratch scratch, long status, long left) throws MPIException {
        boolean was = active;
        handle = left;
        active = false;
        if (!was) return Status.empty();
        try {
            if (cancelled && Status.cancelled(status, scratch)) return Status.ofCancelled(status);
            if (!receives) return Status.empty(); // the native one is not defined
            long bytes = Status.bytes(status, scratch);
            if (staged) Buffers.received(buf, offset, elements, type, bytes, memory);
            return Status.of(status, bytes);
        } finally {
            cancelled = false;
            if (handle == Native.REQUEST_NULL) release();
        }
    }

    private void fail(int code, long left) throws MPIException {
        handle = left;
        active = false;
        cancelled = false;
        if (room != null) room.discard();
        if (handle == Native.REQUEST_NULL) release();
        throw MPIException.of(code);
    }

    /**
     * Waits until the communication has completed.
     *
     * @return source, tag and length of a received message
     */
    public Status Wait() throws MPIException {
        MPI.enter();
        if (deferred()) return poll(this);
        if (handle == Native.REQUEST_NULL) return Status.empty();
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, handle);
        int code = Native.call(Native.WAIT, scratch.out, scratch.status);
        if (code != 0) fail(code, Native.getHandle(scratch.out));
        return finish(scratch, scratch.status, Native.getHandle(scratch.out));
    }

    /** {@return the status if the communication has completed, else null} */
    public Status Test() throws MPIException {
        MPI.enter();
        if (deferred()) return tryDeferred();
        if (handle == Native.REQUEST_NULL) return Status.empty();
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, handle);
        int code = Native.call(Native.TEST, scratch.out, scratch.out + 8, scratch.status);
        if (code != 0) fail(code, Native.getHandle(scratch.out));
        if (Native.getInt(scratch.out + 8) == 0) return null;
        return finish(scratch, scratch.status, Native.getHandle(scratch.out));
    }

    /**
     * Asks to cancel the communication, which is completed by Wait, Test or Free all the same.
     */
    public void Cancel() throws MPIException {
        MPI.enter();
        if (handle == Native.REQUEST_NULL || !active)
            throw new MPIException("there is no communication under way to cancel");
        if (cancelled) return; // a second call crashes Open MPI 4.1 where the first one cancelled
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, handle);
        cancelled = true; // before another thread's Wait can complete it
        MPIException.check(Native.call(Native.CANCEL, scratch.out));
    }

    /**
     * Frees the request. A communication under way goes on, and its memory is not used again. What
     * such a receive gets reaches no array, only direct buffers and native segments.
     */
    public void Free() throws MPIException {
        MPI.enter();
        if (handle == Native.REQUEST_NULL)
            throw new MPIException("the request is null: it has completed or been freed");
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, handle);
        MPIException.check(Native.call(Native.REQUEST_FREE, scratch.out));
        handle = Native.REQUEST_NULL;
        if (!active) release();
        active = false;
    }

    /** {@return whether the request is null: it has completed or been freed} */
    public boolean Is_null() {
        return handle == Native.REQUEST_NULL && !deferred();
    }

    /** {@return the same, by the name that some programs use} */
    public boolean Is_Null() {
        return Is_null();
    }

    /* ---- several requests; null stands for a null request */

    private static void present(Request[] requests) throws MPIException {
        MPI.enter();
        if (requests == null) throw new MPIException("the array of requests is null");
    }

    private static boolean anyDeferred(Request[] requests) {
        for (Request request : requests)
            if (request != null && request.deferred()) return true;
        return false;
    }

    /** Waits for requests of which the native library does not know all. */
    private static Status poll(Request request) throws MPIException {
        for (int spins = 0;; spins++) {
            Status status = request.Test();
            if (status != null) return status;
            if (spins > 1000) Thread.yield();
        }
    }

    private static Status at(Status status, int index) {
        status.index = index;
        return status;
    }

    /** Writes the handles of all requests to native memory. */
    private static void put(Request[] requests, long address) throws MPIException {
        long call = CALLS.incrementAndGet();
        for (int i = 0; i < requests.length; i++) {
            Request request = requests[i];
            long handle = request == null ? Native.REQUEST_NULL : request.handle;
            if (handle != Native.REQUEST_NULL) {
                if (request.call == call)
                    throw new MPIException("request " + i + " is in the array twice");
                request.call = call;
            }
            Native.putHandle(address + (long) i * Native.HANDLE_BYTES, handle);
        }
    }

    private static void clear(long statuses, int n) {
        for (int i = 0; i < n; i++)
            Native.putInt(statuses + (long) i * Native.STATUS_BYTES + Native.ERROR_AT, 0);
    }

    /** The code of a call, where Open MPI says success although a status has an error. */
    private static int inStatus(int code, long statuses, int n) {
        for (int i = 0; i < n && code == 0; i++)
            if (Native.getInt(statuses + (long) i * Native.STATUS_BYTES + Native.ERROR_AT) != 0)
                return Native.ERR_IN_STATUS;
        return code;
    }

    private static long left(long handles, int index) {
        return Native.getHandle(handles + (long) index * Native.HANDLE_BYTES);
    }

    private static Status done(
        Request[] requests, int i, long handles, long status, Scratch scratch) throws MPIException {
        Request request = requests[i];
        if (request != null && request.deferred()) return at(request.tryDeferred(), i);
        if (request == null || request.handle == Native.REQUEST_NULL) return at(Status.empty(), i);
        return at(request.finish(scratch, status, left(handles, i)), i);
    }

    /**
     * The statuses of `n` requests that have completed, the i-th of which is at `place(i)`. All are
     * delivered before the first error is thrown: the native library has released them.
     */
    private static Status[] done(Request[] requests, int n, IntUnaryOperator place, long handles,
        long all, Scratch scratch) throws MPIException {
        Status[] statuses = new Status[n];
        RuntimeException error = null;
        for (int i = 0; i < n; i++) {
            long status = all + (long) i * Native.STATUS_BYTES;
            try {
                statuses[i] = done(requests, place.applyAsInt(i), handles, status, scratch);
            } catch (RuntimeException failed) {
                if (error == null) error = failed;
            }
        }
        if (error != null) throw error;
        return statuses;
    }

    /** The addresses of statuses that follow each other, one for each request. */
    private static long[] each(long statuses, int n) {
        long[] addresses = new long[n];
        for (int i = 0; i < n; i++) addresses[i] = statuses + (long) i * Native.STATUS_BYTES;
        return addresses;
    }

    /**
     * After an error: what has completed is delivered and released. `statuses` has 0 for a request
     * without one.
     */
    private static MPIException failed(Request[] requests, int code, long handles, long[] statuses,
        Scratch scratch) throws MPIException {
        MPIException error = null;
        for (int i = 0; i < requests.length; i++) {
            Request request = requests[i];
            if (request == null || request.handle == Native.REQUEST_NULL) continue;
            long left = left(handles, i), status = statuses[i];
            boolean told = code == Native.ERR_IN_STATUS && status != 0;
            int own = told ? Native.getInt(status + Native.ERROR_AT) : code;
            if (told && own == 0 || told && own == Native.ERR_PENDING) {
                try {
                    if (own == 0) request.finish(scratch, status, left);
                } catch (RuntimeException undelivered) {
                    if (error == null)
                        error = new MPIException(undelivered.getMessage(), undelivered);
                }
                continue;
            }
            if (told && error == null) error = MPIException.of(own);
            if (!told && left != Native.REQUEST_NULL) continue;
            request.handle = left;
            request.active = false;
            if (request.room != null) request.room.discard();
            if (left == Native.REQUEST_NULL) request.release();
        }
        if (error == null && code == Native.ERR_IN_STATUS)
            return new MPIException("a request failed, but the MPI library does not say why");
        return error == null ? MPIException.of(code) : error;
    }

    /**
     * Waits for one of the requests; its place is the status's index.
     *
     * @param array_of_requests the requests; null stands for a null one
     * @return the status of that request
     */
    public static Status Waitany(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        for (int spins = 0; anyDeferred(array_of_requests); spins++) {
            Status status = Testany(array_of_requests);
            if (status != null) return status;
            if (spins > 1000) Thread.yield();
        }
        Scratch scratch = Scratch.get();
        int n = array_of_requests.length;
        long handles = scratch.send((long) n * Native.HANDLE_BYTES);
        put(array_of_requests, handles);
        int code = Native.call(Native.WAITANY, n, handles, scratch.out, scratch.status);
        if (code != 0) throw failed(array_of_requests, code, handles, new long[n], scratch);
        int index = Native.getInt(scratch.out);
        if (index == MPI.UNDEFINED) return Status.empty();
        return done(array_of_requests, index, handles, scratch.status, scratch);
    }

    /**
     * {@return the status of one request that has completed, with its index; null if there is none}
     *
     * @param array_of_requests the requests; null stands for a null one
     */
    public static Status Testany(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        boolean waits = false;
        for (int i = 0; i < array_of_requests.length; i++) {
            Request request = array_of_requests[i];
            if (request == null || !request.deferred()) continue;
            waits = true;
            Status status = request.tryDeferred();
            if (status != null) return at(status, i);
        }
        Scratch scratch = Scratch.get();
        int n = array_of_requests.length;
        long handles = scratch.send((long) n * Native.HANDLE_BYTES);
        put(array_of_requests, handles);
        int code =
            Native.call(Native.TESTANY, n, handles, scratch.out, scratch.out + 8, scratch.status);
        if (code != 0) throw failed(array_of_requests, code, handles, new long[n], scratch);
        if (Native.getInt(scratch.out + 8) == 0) return null;
        int index = Native.getInt(scratch.out);
        if (index == MPI.UNDEFINED) return waits ? null : Status.empty();
        return done(array_of_requests, index, handles, scratch.status, scratch);
    }

    /**
     * Waits for all requests.
     *
     * @param array_of_requests the requests; null stands for a null one
     * @return one status for each request
     */
    public static Status[] Waitall(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        int n = array_of_requests.length;
        if (anyDeferred(array_of_requests)) {
            Status[] statuses = new Status[n];
            int open = n;
            for (int spins = 0; open > 0; spins++) {
                for (int i = 0; i < n; i++) {
                    if (statuses[i] != null) continue;
                    Request request = array_of_requests[i];
                    Status status = request == null ? Status.empty() : request.Test();
                    if (status == null) continue;
                    statuses[i] = at(status, i);
                    open--;
                }
                if (spins > 1000) Thread.yield();
            }
            return statuses;
        }
        Scratch scratch = Scratch.get();
        long handles = scratch.send((long) n * Native.HANDLE_BYTES),
             all = scratch.receive((long) n * Native.STATUS_BYTES);
        put(array_of_requests, handles);
        clear(all, n);
        int code = inStatus(Native.call(Native.WAITALL, n, handles, all), all, n);
        if (code != 0) throw failed(array_of_requests, code, handles, each(all, n), scratch);
        return done(array_of_requests, n, i -> i, handles, all, scratch);
    }

    /**
     * {@return the statuses of all requests if all have completed, else null}
     *
     * @param array_of_requests the requests; null stands for a null one
     */
    public static Status[] Testall(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        int n = array_of_requests.length;
        // Here a receive of objects keeps its status until the others have completed.
        for (Request request : array_of_requests)
            if (request instanceof Objects.Receive receive && receive.deferred()
                && !receive.arrived())
                return null;
        Scratch scratch = Scratch.get();
        long handles = scratch.send((long) n * Native.HANDLE_BYTES),
             all = scratch.receive((long) n * Native.STATUS_BYTES);
        put(array_of_requests, handles);
        clear(all, n);
        int code = inStatus(Native.call(Native.TESTALL, n, handles, scratch.out, all), all, n);
        if (code != 0) throw failed(array_of_requests, code, handles, each(all, n), scratch);
        if (Native.getInt(scratch.out) == 0) return null;
        return done(array_of_requests, n, i -> i, handles, all, scratch);
    }

    /**
     * Waits until at least one request has completed; null if all are null or inactive.
     *
     * @param array_of_requests the requests; null stands for a null one
     * @return the statuses of the requests that have completed
     */
    public static Status[] Waitsome(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        for (int spins = 0; anyDeferred(array_of_requests); spins++) {
            Status[] statuses = Testsome(array_of_requests);
            if (statuses != null && statuses.length > 0) return statuses;
            if (spins > 1000) Thread.yield();
        }
        return some(array_of_requests, true);
    }

    /**
     * {@return the statuses of the requests that have completed, none where none has; null if all
     * requests are null or inactive}
     *
     * @param array_of_requests the requests; null stands for a null one
     */
    public static Status[] Testsome(Request[] array_of_requests) throws MPIException {
        present(array_of_requests);
        for (int i = 0; i < array_of_requests.length; i++) {
            Request request = array_of_requests[i];
            if (request == null || !request.deferred()) continue;
            Status status = request.tryDeferred();
            if (status != null) return new Status[] {at(status, i)};
        }
        Status[] statuses = some(array_of_requests, false);
        return statuses == null && anyDeferred(array_of_requests) ? new Status[0] : statuses;
    }

    private static Status[] some(Request[] requests, boolean wait) throws MPIException {
        Scratch scratch = Scratch.get();
        int n = requests.length;
        long handles = scratch.send((long) n * Native.HANDLE_BYTES),
             all = scratch.receive((long) n * Native.STATUS_BYTES), indices = scratch.words(4L * n);
        put(requests, handles);
        clear(all, n);
        Native.putInt(scratch.out, 0);
        int code = Native.call(
            wait ? Native.WAITSOME : Native.TESTSOME, n, handles, scratch.out, indices, all);
        int completed = Native.getInt(scratch.out);
        code = inStatus(code, all, Math.max(0, completed));
        if (code != 0) {
            long[] own = new long[n];
            for (int i = 0; i < completed; i++)
                own[Native.getInt(indices + 4L * i)] = all + (long) i * Native.STATUS_BYTES;
            throw failed(requests, code, handles, own, scratch);
        }
        if (completed == MPI.UNDEFINED) return null;
        return done(
            requests, completed, i -> Native.getInt(indices + 4L * i), handles, all, scratch);
    }
}
