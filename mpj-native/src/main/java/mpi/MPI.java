// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * Start and end of MPI, and its constants (MPI-1.1, chapter 7; buffers for {@link Comm#Bsend} in
 * 3.6).
 *
 * <p>A method throws an MPIException before {@link #Init} and after {@link #Finalize}, and where
 * the native library is missing or unknown.
 */
public class MPI {
    /** Constants of the native library, whose values differ between libraries. */
    public static final int ANY_SOURCE = Native.integer("ANY_SOURCE"),
                            ANY_TAG = Native.integer("ANY_TAG"),
                            PROC_NULL = Native.integer("PROC_NULL"),
                            UNDEFINED = Native.integer("UNDEFINED"),
                            BSEND_OVERHEAD = Native.integer("BSEND_OVERHEAD");
    /** Results of comparisons. */
    public static final int IDENT = Native.integer("IDENT"),
                            CONGRUENT = Native.integer("CONGRUENT"),
                            SIMILAR = Native.integer("SIMILAR"),
                            UNEQUAL = Native.integer("UNEQUAL");
    /** Topologies. */
    public static final int CART = Native.integer("CART"), GRAPH = Native.integer("GRAPH");
    /** Keys of predefined attributes. */
    public static final int TAG_UB = Native.integer("TAG_UB"), HOST = Native.integer("HOST"),
                            IO = Native.integer("IO"),
                            WTIME_IS_GLOBAL = Native.integer("WTIME_IS_GLOBAL");
    /** Levels of {@link #Query_thread}, lowest first. */
    public static final int THREAD_SINGLE = Native.integer("THREAD_SINGLE"),
                            THREAD_FUNNELED = Native.integer("THREAD_FUNNELED"),
                            THREAD_SERIALIZED = Native.integer("THREAD_SERIALIZED"),
                            THREAD_MULTIPLE = Native.integer("THREAD_MULTIPLE");

    /** Basic datatypes. */
    public static final Datatype BYTE = new Datatype(Datatype.Kind.BYTE, "BYTE", "INT8_T", 1),
                                 CHAR = new Datatype(Datatype.Kind.CHAR, "UINT16_T", "", 1),
                                 SHORT = new Datatype(Datatype.Kind.SHORT, "INT16_T", "", 1),
                                 BOOLEAN = new Datatype(Datatype.Kind.BOOLEAN, "C_BOOL", "", 1),
                                 INT = new Datatype(Datatype.Kind.INT, "INT32_T", "", 1),
                                 LONG = new Datatype(Datatype.Kind.LONG, "INT64_T", "", 1),
                                 FLOAT = new Datatype(Datatype.Kind.FLOAT, "FLOAT", "", 1),
                                 DOUBLE = new Datatype(Datatype.Kind.DOUBLE, "DOUBLE", "", 1),
                                 PACKED = new Datatype(Datatype.Kind.PACKED, "PACKED", "", 1),
                                 OBJECT = new Datatype(Datatype.Kind.OBJECT, "", "", 1);
    /** Pairs for {@link #MINLOC} and {@link #MAXLOC}. */
    public static final Datatype SHORT2 = new Datatype(Datatype.Kind.SHORT, "INT16_T", "", 2),
                                 INT2 = new Datatype(Datatype.Kind.INT, "INT32_T", "", 2),
                                 LONG2 = new Datatype(Datatype.Kind.LONG, "INT64_T", "", 2),
                                 FLOAT2 = new Datatype(Datatype.Kind.FLOAT, "FLOAT", "", 2),
                                 DOUBLE2 = new Datatype(Datatype.Kind.DOUBLE, "DOUBLE", "", 2);
    /** Markers for the bounds of {@link Datatype#Struct}. */
    public static final Datatype LB = new Datatype(Datatype.Kind.LB, "", "", 0),
                                 UB = new Datatype(Datatype.Kind.UB, "", "", 0);
    static final long pairOfInts = Native.ABI == null ? 0 : Native.ABI.handle("2INT");

    /** Name and version of this library. pom.xml has the same version. */
    public static final String LIBRARY = "mpj-native 1.0.0";

    /** Operations of reductions. */
    public static final Op MAX = new Op("MAX", null), MIN = new Op("MIN", null),
                           SUM = new Op("SUM", null), PROD = new Op("PROD", null),
                           LAND = new Op("LAND", null), BAND = new Op("BAND", null),
                           LOR = new Op("LOR", null), BOR = new Op("BOR", null),
                           LXOR = new Op("LXOR", null), BXOR = new Op("BXOR", null),
                           MAXLOC = new Op("MAXLOC", new Op.Location(false)),
                           MINLOC = new Op("MINLOC", new Op.Location(true));

    /** What errors of native calls do. */
    public static final Errhandler ERRORS_ARE_FATAL = new Errhandler("ERRORS_ARE_FATAL"),
                                   ERRORS_RETURN = new Errhandler("ERRORS_RETURN");

    /** The group of no process. */
    public static final Group GROUP_EMPTY =
        new Group(Native.ABI == null ? 0 : Native.ABI.handle("GROUP_EMPTY"));

    /** The request of no communication: it has completed. */
    public static final Request REQUEST_NULL = new Request();
    /** No communicator. */
    public static final Comm COMM_NULL = null;
    /** No group. */
    public static final Group GROUP_NULL = null;

    /** All processes, after {@link #Init}. */
    public static Intracomm COMM_WORLD;
    /** This process alone, after {@link #Init}. */
    public static Intracomm COMM_SELF;

    static int mostTag;

    private static final int BEFORE = 0, STARTING = 1, RUNNING = 2, AFTER = 3;
    private static volatile int state = BEFORE;
    private static int provided;
    /** The only thread that may call MPI; null where all may. */
    private static Thread only;
    private static byte[] attached;

    private MPI() {}

    /** Throws unless MPI is running and this thread may use it. */
    static void enter() throws MPIException {
        if (state != RUNNING) refuse();
        if (only != null && Thread.currentThread() != only)
            throw new MPIException("the MPI library allows calls from the thread of MPI.Init only");
    }

    /** Throws unless this thread is in MPI.Init. */
    private static void refuse() throws MPIException {
        if (state == BEFORE) throw new MPIException("MPI.Init has not been called");
        if (state == AFTER) throw new MPIException("MPI.Finalize has been called");
        if (!Thread.holdsLock(MPI.class)) throw new MPIException("MPI.Init has not returned yet");
    }

    /**
     * Starts MPI, for several threads where the native library allows it; returns {@code args}.
     *
     * @param args arguments of the program
     * @return the same arguments
     */
    public static synchronized String[] Init(String[] args) throws MPIException {
        if (Native.FAILURE != null) throw new MPIException(Native.FAILURE);
        if (state != BEFORE) throw new MPIException("MPI.Init has been called already");
        Scratch scratch = Scratch.get();
        MPIException.check(Native.call(Native.INIT_THREAD, 0, 0, wantedThreads(), scratch.out));
        provided = Native.getInt(scratch.out);
        if (provided < THREAD_SERIALIZED) only = Thread.currentThread();
        state = STARTING;
        long world = Native.ABI.handle("COMM_WORLD"), self = Native.ABI.handle("COMM_SELF");
        for (long comm : new long[] {world, self})
            MPIException.check(Native.call(Native.SET_ERRHANDLER, comm, ERRORS_RETURN.handle));
        COMM_WORLD = new Intracomm(world);
        COMM_SELF = new Intracomm(self);
        Node.find(world, scratch);
        Object most = COMM_WORLD.Attr_get(TAG_UB);
        mostTag = most == null ? 32767 : (Integer) most;
        // For programs that are written for any library of this interface.
        System.setProperty("mpi.library.version", LIBRARY + " over " + Get_library_version());
        state = RUNNING; // last: other threads may wait for it
        return args;
    }

    private static int wantedThreads() throws MPIException {
        String wanted = System.getProperty("mpi.threads", "multiple");
        return switch (wanted) {
            case "single" -> THREAD_SINGLE;
            case "serialized" -> THREAD_SERIALIZED;
            case "multiple" -> THREAD_MULTIPLE;
            default ->
                throw new MPIException("the property mpi.threads is '" + wanted
                    + "', not single, serialized or multiple");
        };
    }

    /** Ends MPI. */
    public static synchronized void Finalize() throws MPIException {
        enter();
        MPIException.check(Native.call(Native.FINALIZE));
        state = AFTER;
    }

    /** {@return whether {@link #Init} has been called} */
    public static boolean Initialized() {
        return state >= RUNNING;
    }

    /** {@return whether {@link #Finalize} has been called} */
    public static boolean Finalized() {
        return state == AFTER;
    }

    /** {@return what the native library allows of threads, such as {@link #THREAD_MULTIPLE}} */
    public static int Query_thread() throws MPIException {
        enter();
        return provided;
    }

    /** {@return name and version of the native library, in one line} */
    public static String Get_library_version() throws MPIException {
        if (Native.FAILURE != null) throw new MPIException(Native.FAILURE);
        Scratch scratch = Scratch.get();
        long text = scratch.words(8192);
        MPIException.check(Native.call(Native.LIBRARY_VERSION, text, scratch.out));
        return Native.string(text, Native.getInt(scratch.out)).replaceAll("\\s+", " ");
    }

    /** {@return the name of this process's node} */
    public static String Get_processor_name() throws MPIException {
        enter();
        Scratch scratch = Scratch.get();
        long text = scratch.words(8192);
        MPIException.check(Native.call(Native.PROCESSOR_NAME, text, scratch.out));
        return Native.string(text, Native.getInt(scratch.out));
    }

    /** {@return seconds since some time in the past} */
    public static double Wtime() {
        if (state != RUNNING) return System.nanoTime() * 1e-9;
        return Native.wtime();
    }

    /** {@return seconds between two ticks of {@link #Wtime}} */
    public static double Wtick() {
        if (state != RUNNING) return 1e-9;
        return Native.wtick();
    }

    /**
     * Gives buffered sends as much memory as the array has. The memory is native; the array only
     * says how much, and is what {@link #Buffer_detach} returns.
     *
     * @param buffer memory for messages; it only says how much
     */
    public static synchronized void Buffer_attach(byte[] buffer) throws MPIException {
        enter();
        if (buffer == null) throw new MPIException("the buffer is null");
        if (attached != null) throw new MPIException("a buffer is attached already");
        long memory = Pool.take(buffer.length);
        int code = Native.call(Native.BUFFER_ATTACH, memory, buffer.length);
        if (code != 0) Pool.give(memory, buffer.length);
        MPIException.check(code);
        attached = buffer;
    }

    /**
     * The same for a buffer's capacity, as programs for MPJ Express give it. Then {@link
     * #Buffer_detach} returns an array of that length.
     *
     * @param buffer memory for messages; it only says how much
     */
    public static void Buffer_attach(ByteBuffer buffer) throws MPIException {
        if (buffer == null) throw new MPIException("the buffer is null");
        Buffer_attach(new byte[buffer.capacity()]);
    }

    /**
     * Waits until all buffered messages have been sent; returns the attached array.
     *
     * @return the array
     */
    public static synchronized byte[] Buffer_detach() throws MPIException {
        enter();
        if (attached == null) throw new MPIException("no buffer is attached");
        Scratch scratch = Scratch.get();
        MPIException.check(Native.call(Native.BUFFER_DETACH, scratch.out, scratch.out + 8));
        byte[] buffer = attached;
        Pool.give(Native.ALL.get(Native.LONG, scratch.out), buffer.length);
        attached = null;
        Reference.reachabilityFence(buffer);
        return buffer;
    }
}
