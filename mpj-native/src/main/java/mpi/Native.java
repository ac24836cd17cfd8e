// SPDX-License-Identifier: BSD-3-Clause
package mpi;

import java.io.File;
import java.lang.foreign.AddressLayout;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The native library: how it is found, its functions, and native memory.
 *
 * <p>All arguments of all functions are Java longs. In the calling conventions of Linux an integer
 * argument takes a whole register, or a whole slot of the stack, of which the callee reads what it
 * needs. A call that may wait is a plain call: the JVM can collect garbage, run its other threads
 * and end meanwhile. Only calls that return at once are {@code critical}.
 */
final class Native {
    /** Names of the library, in the order in which they are looked for. */
    private static final List<String> NAMES = List.of("libmpi.so.40", "libmpi.so.12",
        "libmpich.so.12", "libmpi_abi.so.1", "libmpi_abi.so.0", "libmpi_abi.so", "libmpi.so");

    /** Most bytes of a call of memcpy. */
    private static final int PIECE = 1 << 25;

    private static final Linker LINKER = Linker.nativeLinker();
    /** All of the memory, by address. */
    static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    static final ValueLayout.OfInt INT = ValueLayout.JAVA_INT_UNALIGNED;
    static final ValueLayout.OfLong LONG = ValueLayout.JAVA_LONG_UNALIGNED;

    /** Why there is no library, in one sentence; null where there is one. */
    static final String FAILURE;
    /** Path or name of the library. */
    static final String LIBRARY;
    static final Abi ABI;
    private static final SymbolLookup SYMBOLS;

    static {
        String failure = null, library = "none";
        Abi abi = null;
        SymbolLookup symbols = null;
        try {
            setenv("UCX_ERROR_SIGNALS", "");
            library = name();
            symbols = open(library);
            abi = abi(library, symbols);
            abi.handle("COMM_WORLD");
        } catch (Abi.Unusable unusable) {
            symbols = null;
            abi = null;
            failure = library.equals("none")
                ? "there is no MPI library: " + unusable.getMessage()
                : "the MPI library " + library + " cannot be used: " + unusable.getMessage();
        }
        FAILURE = failure;
        LIBRARY = library;
        ABI = abi;
        SYMBOLS = symbols;
    }

    static final boolean WIDE = ABI == null || ABI.handleBytes == 8;
    static final int HANDLE_BYTES = WIDE ? 8 : 4;
    static final int STATUS_BYTES = ABI == null ? 32 : ABI.statusBytes;
    static final int SOURCE_AT = ABI == null ? 0 : ABI.sourceAt;
    static final int TAG_AT = ABI == null ? 0 : ABI.tagAt;
    static final int ERROR_AT = ABI == null ? 0 : ABI.errorAt;

    static final long COMM_NULL = handle("COMM_NULL"), GROUP_NULL = handle("GROUP_NULL"),
                      REQUEST_NULL = handle("REQUEST_NULL"),
                      DATATYPE_NULL = handle("DATATYPE_NULL"), BYTE = handle("BYTE");
    static final int ERR_IN_STATUS = integer("ERR_IN_STATUS"), ERR_PENDING = integer("ERR_PENDING"),
                     ERR_TRUNCATE = integer("ERR_TRUNCATE");

    static final MethodHandle INIT_THREAD = bind("MPI_Init_thread", 4),
                              FINALIZE = bind("MPI_Finalize", 0),
                              INITIALIZED = bind("MPI_Initialized", 1),
                              FINALIZED = bind("MPI_Finalized", 1), ABORT = bind("MPI_Abort", 2),
                              PROCESSOR_NAME = bind("MPI_Get_processor_name", 2),
                              LIBRARY_VERSION = bind("MPI_Get_library_version", 2),
                              ERROR_STRING = bind("MPI_Error_string", 3),
                              ERROR_CLASS = bind("MPI_Error_class", 2),
                              SET_ERRHANDLER = bind("MPI_Comm_set_errhandler", 2),
                              BUFFER_ATTACH = bind("MPI_Buffer_attach", 2),
                              BUFFER_DETACH = bind("MPI_Buffer_detach", 2);

    static final MethodHandle SEND = bind("MPI_Send", 6), BSEND = bind("MPI_Bsend", 6),
                              SSEND = bind("MPI_Ssend", 6), RSEND = bind("MPI_Rsend", 6),
                              RECV = bind("MPI_Recv", 7), ISEND = bind("MPI_Isend", 7),
                              IBSEND = bind("MPI_Ibsend", 7), ISSEND = bind("MPI_Issend", 7),
                              IRSEND = bind("MPI_Irsend", 7), IRECV = bind("MPI_Irecv", 7),
                              SEND_INIT = bind("MPI_Send_init", 7),
                              BSEND_INIT = bind("MPI_Bsend_init", 7),
                              SSEND_INIT = bind("MPI_Ssend_init", 7),
                              RSEND_INIT = bind("MPI_Rsend_init", 7),
                              RECV_INIT = bind("MPI_Recv_init", 7), START = bind("MPI_Start", 1),
                              SENDRECV = bind("MPI_Sendrecv", 12), PROBE = bind("MPI_Probe", 4),
                              IPROBE = bind("MPI_Iprobe", 5), MPROBE = bind("MPI_Mprobe", 5),
                              IMPROBE = bind("MPI_Improbe", 6), MRECV = bind("MPI_Mrecv", 5),
                              WAIT = bind("MPI_Wait", 2), TEST = bind("MPI_Test", 3),
                              WAITANY = bind("MPI_Waitany", 4), TESTANY = bind("MPI_Testany", 5),
                              WAITALL = bind("MPI_Waitall", 3), TESTALL = bind("MPI_Testall", 4),
                              WAITSOME = bind("MPI_Waitsome", 5),
                              TESTSOME = bind("MPI_Testsome", 5), CANCEL = bind("MPI_Cancel", 1),
                              REQUEST_FREE = bind("MPI_Request_free", 1),
                              TEST_CANCELLED = bindCritical("MPI_Test_cancelled", 2),
                              GET_ELEMENTS = bindCritical("MPI_Get_elements_x", 3),
                              PACK = bind("MPI_Pack", 7), UNPACK = bind("MPI_Unpack", 7),
                              PACK_SIZE = bind("MPI_Pack_size", 4);

    static final MethodHandle BARRIER = bind("MPI_Barrier", 1), BCAST = bind("MPI_Bcast", 5),
                              GATHER = bind("MPI_Gather", 8), GATHERV = bind("MPI_Gatherv", 9),
                              SCATTER = bind("MPI_Scatter", 8), SCATTERV = bind("MPI_Scatterv", 9),
                              ALLGATHER = bind("MPI_Allgather", 7),
                              ALLGATHERV = bind("MPI_Allgatherv", 8),
                              ALLTOALL = bind("MPI_Alltoall", 7),
                              ALLTOALLV = bind("MPI_Alltoallv", 9), REDUCE = bind("MPI_Reduce", 7),
                              ALLREDUCE = bind("MPI_Allreduce", 6),
                              REDUCE_SCATTER = bind("MPI_Reduce_scatter", 6),
                              SCAN = bind("MPI_Scan", 6), OP_CREATE = bind("MPI_Op_create", 3),
                              OP_FREE = bind("MPI_Op_free", 1),
                              TYPE_CONTIGUOUS = bind("MPI_Type_contiguous", 3),
                              TYPE_COMMIT = bind("MPI_Type_commit", 1),
                              TYPE_FREE = bind("MPI_Type_free", 1);

    static final MethodHandle
        COMM_RANK = bind("MPI_Comm_rank", 2),
        COMM_SIZE = bind("MPI_Comm_size", 2), COMM_REMOTE_SIZE = bind("MPI_Comm_remote_size", 2),
        COMM_GROUP = bind("MPI_Comm_group", 2),
        COMM_REMOTE_GROUP = bind("MPI_Comm_remote_group", 2),
        COMM_COMPARE = bind("MPI_Comm_compare", 3), COMM_DUP = bind("MPI_Comm_dup", 2),
        COMM_FREE = bind("MPI_Comm_free", 1), COMM_SPLIT = bind("MPI_Comm_split", 4),
        COMM_SPLIT_TYPE = bind("MPI_Comm_split_type", 5), COMM_CREATE = bind("MPI_Comm_create", 3),
        COMM_TEST_INTER = bind("MPI_Comm_test_inter", 2),
        COMM_GET_ATTR = bind("MPI_Comm_get_attr", 4),
        INTERCOMM_CREATE = bind("MPI_Intercomm_create", 6),
        INTERCOMM_MERGE = bind("MPI_Intercomm_merge", 3), GROUP_SIZE = bind("MPI_Group_size", 2),
        GROUP_RANK = bind("MPI_Group_rank", 2), GROUP_FREE = bind("MPI_Group_free", 1),
        GROUP_COMPARE = bind("MPI_Group_compare", 3), GROUP_UNION = bind("MPI_Group_union", 3),
        GROUP_INTERSECTION = bind("MPI_Group_intersection", 3),
        GROUP_DIFFERENCE = bind("MPI_Group_difference", 3), GROUP_INCL = bind("MPI_Group_incl", 4),
        GROUP_EXCL = bind("MPI_Group_excl", 4), GROUP_RANGE_INCL = bind("MPI_Group_range_incl", 4),
        GROUP_RANGE_EXCL = bind("MPI_Group_range_excl", 4),
        GROUP_TRANSLATE = bind("MPI_Group_translate_ranks", 5),
        TOPO_TEST = bind("MPI_Topo_test", 2), DIMS_CREATE = bind("MPI_Dims_create", 3),
        CART_CREATE = bind("MPI_Cart_create", 6), CARTDIM_GET = bind("MPI_Cartdim_get", 2),
        CART_GET = bind("MPI_Cart_get", 5), CART_RANK = bind("MPI_Cart_rank", 3),
        CART_COORDS = bind("MPI_Cart_coords", 4), CART_SHIFT = bind("MPI_Cart_shift", 5),
        CART_SUB = bind("MPI_Cart_sub", 3), CART_MAP = bind("MPI_Cart_map", 5),
        GRAPH_CREATE = bind("MPI_Graph_create", 6), GRAPHDIMS_GET = bind("MPI_Graphdims_get", 3),
        GRAPH_GET = bind("MPI_Graph_get", 5), GRAPH_COUNT = bind("MPI_Graph_neighbors_count", 3),
        GRAPH_NEIGHBORS = bind("MPI_Graph_neighbors", 4), GRAPH_MAP = bind("MPI_Graph_map", 5);

    /** {@code MPI_Mrecv} into a heap array: only of a message that has arrived. */
    private static final MethodHandle MRECV_HEAP = heapHandle();
    private static final MethodHandle FROM_HEAP =
        memcpy(ValueLayout.JAVA_LONG, ValueLayout.ADDRESS);
    private static final MethodHandle TO_HEAP = memcpy(ValueLayout.ADDRESS, ValueLayout.JAVA_LONG);
    private static final MethodHandle WTIME = clock("MPI_Wtime"), WTICK = clock("MPI_Wtick");

    /**
     * Whether the library may write a long message past the end of a shorter buffer: Open MPI to
     * 5.0.11 does so from its eager limit on, within a node.
     */
    static final boolean OVERRUNS =
        ABI instanceof Abi.OpenMpi || SYMBOLS != null && version(SYMBOLS).contains("Open MPI");

    private Native() {}

    /* ---- the library */

    private static String given() {
        String property = System.getProperty("mpi.library");
        return property != null ? property : System.getenv("MPJ_NATIVE_LIBRARY");
    }

    /**
     * What the user named, else a library of LD_LIBRARY_PATH, else one beside an mpicc of PATH,
     * else one that the loader finds.
     */
    private static String name() {
        String given = given();
        if (given != null && !given.isEmpty()) return given;
        List<Path> directories = new ArrayList<>(directories("LD_LIBRARY_PATH"));
        // Modules may set nothing but PATH.
        for (Path directory : directories("PATH"))
            if (Files.isExecutable(directory.resolve("mpicc")))
                for (String beside : List.of("../lib", "../lib64"))
                    directories.add(directory.resolve(beside).normalize());
        List<String> candidates = new ArrayList<>();
        for (Path directory : directories)
            for (String name : NAMES)
                if (Files.isReadable(directory.resolve(name)))
                    candidates.add(directory.resolve(name).toString());
        candidates.addAll(NAMES);
        for (String candidate : candidates) {
            try {
                open(candidate);
                return candidate;
            } catch (Abi.Unusable absent) {
                // the next one, or the sentence below
            }
        }
        throw new Abi.Unusable("none of " + String.join(", ", NAMES)
            + " is in LD_LIBRARY_PATH, beside an mpicc of PATH or where the loader looks. Load the MPI library's module, or "
            + "give its path as MPJ_NATIVE_LIBRARY or -Dmpi.library");
    }

    private static List<Path> directories(String variable) {
        String path = System.getenv(variable);
        if (path == null) return List.of();
        return Arrays.stream(path.split(File.pathSeparator))
            .filter(directory -> !directory.isEmpty())
            .map(Path::of)
            .toList();
    }

    private static SymbolLookup open(String library) {
        try {
            return library.contains("/")
                ? SymbolLookup.libraryLookup(Path.of(library), Arena.global())
                : SymbolLookup.libraryLookup(library, Arena.global());
        } catch (IllegalArgumentException absent) {
            throw new Abi.Unusable("the loader cannot open it. Give the path of an MPI library as "
                + "MPJ_NATIVE_LIBRARY or -Dmpi.library");
        }
    }

    private static Abi abi(String library, SymbolLookup symbols) {
        if (symbols.find("MPI_Init_thread").isEmpty())
            throw new Abi.Unusable("it has no function MPI_Init_thread, so it is no MPI library");
        // By its name, as the standard's interface comes with a library of its own. That library
        // may depend on the implementation's, whose symbols are then found too.
        if (Path.of(library).getFileName().toString().startsWith("libmpi_abi")) {
            if (symbols.find("MPI_Abi_get_version").isEmpty())
                throw new Abi.Unusable("its interface is older than MPI 5.0, and has other "
                    + "constants. Take the MPI library that it belongs to");
            return new Abi.Standard();
        }
        if (symbols.find("ompi_mpi_comm_world").isPresent()) return new Abi.OpenMpi(symbols);
        String version = version(symbols);
        for (String known : List.of("MPICH", "Intel", "MVAPICH", "CRAY"))
            if (version.contains(known)) return new Abi.Mpich();
        throw new Abi.Unusable("it says '" + version.lines().findFirst().orElse("")
            + "', and only Open MPI, MPICH and libmpi_abi are known");
    }

    private static String version(SymbolLookup symbols) {
        MethodHandle function =
            LINKER.downcallHandle(symbols.find("MPI_Get_library_version").orElseThrow(), shape(2));
        long text = allocate(8192), length = allocate(8);
        call(function, text, length);
        return string(text, ALL.get(INT, length));
    }

    /** Sets a variable in the process's own environment, which the JVM's does not reach. */
    private static void setenv(String name, String value) {
        try (Arena arena = Arena.ofConfined()) {
            MethodHandle function = LINKER.downcallHandle(
                LINKER.defaultLookup().find("setenv").orElseThrow(), shape(3));
            call(function, arena.allocateFrom(name).address(), arena.allocateFrom(value).address(),
                1);
        }
    }

    private static long handle(String constant) {
        return ABI == null ? 0 : ABI.handle(constant);
    }

    static int integer(String constant) {
        return ABI == null ? 0 : ABI.integer(constant);
    }

    private static FunctionDescriptor shape(int arguments) {
        MemoryLayout[] longs = new MemoryLayout[arguments];
        Arrays.fill(longs, ValueLayout.JAVA_LONG);
        return FunctionDescriptor.of(ValueLayout.JAVA_INT, longs);
    }

    private static MethodHandle bind(String name, int arguments, Linker.Option... options) {
        if (SYMBOLS == null) return null;
        return SYMBOLS.find(name)
            .map(function -> LINKER.downcallHandle(function, shape(arguments), options))
            .orElseGet(() -> absent(name, arguments));
    }

    /** What stands for a function that this library does not have: it says so. */
    private static MethodHandle absent(String name, int arguments) {
        MethodHandle thrower =
            MethodHandles.throwException(int.class, UnsupportedOperationException.class)
                .bindTo(new UnsupportedOperationException(LIBRARY + " has no " + name));
        return MethodHandles.dropArguments(
            thrower, 0, shape(arguments).toMethodType().parameterList());
    }

    private static MethodHandle bindCritical(String name, int arguments) {
        return bind(name, arguments, Linker.Option.critical(false));
    }

    private static MethodHandle heapHandle() {
        if (SYMBOLS == null) return null;
        AddressLayout address = ValueLayout.ADDRESS;
        ValueLayout.OfLong word = ValueLayout.JAVA_LONG;
        return LINKER.downcallHandle(SYMBOLS.find("MPI_Mrecv").orElseThrow(),
            FunctionDescriptor.of(ValueLayout.JAVA_INT, address, word, word, word, word),
            Linker.Option.critical(true));
    }

    private static MethodHandle memcpy(MemoryLayout to, MemoryLayout from) {
        return LINKER.downcallHandle(LINKER.defaultLookup().find("memcpy").orElseThrow(),
            FunctionDescriptor.of(ValueLayout.JAVA_LONG, to, from, ValueLayout.JAVA_LONG),
            Linker.Option.critical(true));
    }

    private static MethodHandle clock(String name) {
        if (SYMBOLS == null) return null;
        return LINKER.downcallHandle(
            SYMBOLS.find(name).orElseThrow(), FunctionDescriptor.of(ValueLayout.JAVA_DOUBLE));
    }

    /**
     * A native function {@code void f(void*, void*, int*, MPI_Datatype*)} that calls a method. The
     * collector frees it with the segment.
     */
    static MemorySegment upcall(MethodHandle method) {
        ValueLayout.OfLong word = ValueLayout.JAVA_LONG;
        return LINKER.upcallStub(
            method, FunctionDescriptor.ofVoid(word, word, word, word), Arena.ofAuto());
    }

    static MethodHandles.Lookup lookup() {
        return MethodHandles.lookup();
    }

    /* ---- memory */

    /** Native memory for good, aligned to a cache line. */
    static long allocate(long bytes) {
        return Arena.global().allocate(Math.max(bytes, 1), 64).address();
    }

    static String string(long address, int length) {
        byte[] bytes = new byte[Math.max(0, length)];
        MemorySegment.copy(ALL, ValueLayout.JAVA_BYTE, address, bytes, 0, bytes.length);
        return new String(bytes, StandardCharsets.UTF_8).replaceAll("[\\s\\x00]+$", "");
    }

    static long getHandle(long address) {
        return WIDE ? ALL.get(LONG, address) : ALL.get(INT, address);
    }

    static void putHandle(long address, long handle) {
        if (WIDE) ALL.set(LONG, address, handle);
        else ALL.set(INT, address, (int) handle);
    }

    static int getInt(long address) {
        return ALL.get(INT, address);
    }

    static void putInt(long address, int value) {
        ALL.set(INT, address, value);
    }

    /* ---- calls, by the number of arguments */

    static IllegalStateException broken(Throwable thrown) {
        return new IllegalStateException("a native call failed: " + thrown, thrown);
    }

    static int call(MethodHandle function) {
        try {
            return (int) function.invokeExact();
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a) {
        try {
            return (int) function.invokeExact(a);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b) {
        try {
            return (int) function.invokeExact(a, b);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c) {
        try {
            return (int) function.invokeExact(a, b, c);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d) {
        try {
            return (int) function.invokeExact(a, b, c, d);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d, long e) {
        try {
            return (int) function.invokeExact(a, b, c, d, e);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d, long e, long f) {
        try {
            return (int) function.invokeExact(a, b, c, d, e, f);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d, long e, long f, long g) {
        try {
            return (int) function.invokeExact(a, b, c, d, e, f, g);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(
        MethodHandle function, long a, long b, long c, long d, long e, long f, long g, long h) {
        try {
            return (int) function.invokeExact(a, b, c, d, e, f, g, h);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d, long e, long f, long g,
        long h, long i) {
        try {
            return (int) function.invokeExact(a, b, c, d, e, f, g, h, i);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int call(MethodHandle function, long a, long b, long c, long d, long e, long f, long g,
        long h, long i, long j, long k, long l) {
        try {
            return (int) function.invokeExact(a, b, c, d, e, f, g, h, i, j, k, l);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static int mrecvHeap(MemorySegment heap, long count, long type, long message, long status) {
        try {
            return (int) MRECV_HEAP.invokeExact(heap, count, type, message, status);
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    /**
     * Copies bytes between a heap array and native memory, by C's memcpy. Where another core's
     * cache holds the native memory, it is up to a quarter quicker than the JVM's own copy
     * (mpjtest.Copies). The collector waits for each piece, so it is short.
     */
    static void copy(MemorySegment heap, long at, long address, long bytes, boolean out) {
        try {
            for (long done = 0; done < bytes; done += PIECE) {
                long n = Math.min(PIECE, bytes - done), to;
                MemorySegment piece = heap.asSlice(at + done, n);
                if (out) to = (long) FROM_HEAP.invokeExact(address + done, piece, n);
                else to = (long) TO_HEAP.invokeExact(piece, address + done, n);
            }
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    private static double time(MethodHandle clock) {
        try {
            return (double) clock.invokeExact();
        } catch (Throwable thrown) {
            throw broken(thrown);
        }
    }

    static double wtime() {
        return time(WTIME);
    }

    static double wtick() {
        return time(WTICK);
    }
}
