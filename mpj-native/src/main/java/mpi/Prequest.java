// SPDX-License-Identifier: BSD-3-Clause
package mpi;

/**
 * A persistent request: a communication that can be started again and again (MPI-1.1, section 3.9).
 *
 * <p>Its start throws an MPIException where it is under way already, or has been freed.
 */
public class Prequest extends Request {
    Prequest(Comm comm, Object buf, int offset, int count, int elements, Datatype type,
        boolean receives) throws MPIException {
        super(comm, buf, offset, count, elements, type, receives);
        active = false;
    }

    /** Starts the communication. */
    public void Start() throws MPIException {
        MPI.enter();
        if (handle == Native.REQUEST_NULL) throw new MPIException("the request has been freed");
        if (active) throw new MPIException("the communication is under way already");
        if (!receives && staged && elements > 0) Buffers.pack(buf, offset, count, type, memory);
        Scratch scratch = Scratch.get();
        Native.putHandle(scratch.out, handle);
        MPIException.check(Native.call(Native.START, scratch.out));
        handle = Native.getHandle(scratch.out);
        active = true;
    }

    /**
     * Starts all communications, in their order.
     *
     * @param array_of_requests the requests; null stands for a null one
     */
    public static void Startall(Prequest[] array_of_requests) throws MPIException {
        if (array_of_requests == null) throw new MPIException("the array of requests is null");
        for (Prequest request : array_of_requests) {
            if (request == null) throw new MPIException("a request of the array is null");
            request.Start();
        }
    }
}
