// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import mpi.Cartcomm;
import mpi.Comm;
import mpi.Datatype;
import mpi.Errhandler;
import mpi.Graphcomm;
import mpi.Group;
import mpi.Intercomm;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;
import mpi.Op;
import mpi.Prequest;
import mpi.Request;
import mpi.Status;
import mpi.User_function;

/**
 * Random arguments for every method, on one rank: RandomArguments [SECONDS [SEED]].
 *
 * <p>Arguments are null, negative, huge, of a wrong class, freed or right. A call has to return or
 * to raise an MPIException. The JVM has to survive. Calls that would wait for ever get {@link
 * MPI#PROC_NULL} in place of a rank.
 */
public final class RandomArguments {
    /** What ends MPI or the process. */
    private static final Set<String> NEVER = Set.of("Abort", "Finalize");
    private static final Set<String> SENDS = Set.of("Send", "Ssend", "Rsend", "Bsend", "Ibsend",
        "Bsend_init", "Irsend", "Rsend_init", "Sendrecv", "Sendrecv_replace");
    private static final int SOME = 12, PER_SECOND = 64;

    private final Random random;
    private final Map<Class<?>, List<Object>> pools = new HashMap<>();
    /** Requests that complete without another call. */
    private final List<Object> complete = new ArrayList<>();
    private final List<Executable> calls = new ArrayList<>();
    private final Intracomm own;
    private Executable call;
    private Object target;
    private Object[] arguments;
    private volatile long since = System.nanoTime();
    private long done, refused, passed;

    private RandomArguments(long seed) throws MPIException {
        random = new Random(seed);
        own = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.Rank(), 0);
        for (Class<?> type : List.of(MPI.class, Comm.class, Intracomm.class, Intercomm.class,
                 Cartcomm.class, Graphcomm.class, Group.class, Request.class, Prequest.class,
                 Status.class, Datatype.class, Op.class, MPIException.class, Errhandler.class)) {
            for (Method method : type.getDeclaredMethods())
                if (Modifier.isPublic(method.getModifiers()) && !method.isBridge()
                    && !NEVER.contains(method.getName()))
                    calls.add(method);
            for (Constructor<?> made : type.getConstructors()) calls.add(made);
        }
        calls.sort(Comparator.comparing(Executable::toGenericString));
        fill();
    }

    public static void main(String[] arguments) throws Exception {
        String[] given = MPI.Init(arguments);
        double seconds = given.length > 0 ? Double.parseDouble(given[0]) : 10;
        long seed = given.length > 1 ? Long.parseLong(given[1]) : System.nanoTime();
        RandomArguments test = new RandomArguments(seed);
        test.watch(seed);
        long end = System.nanoTime() + (long) (seconds * 1e9);
        while (System.nanoTime() < end)
            for (int i = 0; i < PER_SECOND; i++) test.step(seed);
        System.out.println("# mpj-native: no argument crashed the JVM: seed=" + seed
            + " calls=" + test.done + " refused=" + test.refused + " methods=" + test.calls.size()
            + " over " + MPI.Get_library_version().split(",| MPICH ")[0]);
        System.out.flush();
        // Messages that nobody receives are still under way.
        Runtime.getRuntime().halt(0);
    }

    /** Ends the process where a call takes too long. */
    private void watch(long seed) {
        Thread thread = new Thread(() -> {
            while (System.nanoTime() - since < 30_000_000_000L) {
                try {
                    Thread.sleep(500);
                } catch (InterruptedException ended) {
                    return;
                }
            }
            System.out.println("seed " + seed + ", call " + done + " does not end: " + current());
            System.out.flush();
            Runtime.getRuntime().halt(3);
        });
        thread.setDaemon(true);
        thread.start();
    }

    /* ---- what arguments are chosen from */

    private List<Object> pool(Class<?> type) {
        return pools.computeIfAbsent(type, key -> new ArrayList<>());
    }

    private void fill() throws MPIException {
        Intracomm freed = (Intracomm) own.clone();
        freed.Free();
        Cartcomm line = own.Create_cart(new int[] {1, 1}, new boolean[] {true, false}, false);
        Graphcomm graph = own.Create_graph(new int[] {1}, new int[] {0}, false);
        pool(Comm.class).addAll(List.of(own, own.clone(), freed, line, graph, MPI.COMM_SELF));
        Group gone = own.Group();
        gone.Free();
        pool(Group.class).addAll(List.of(own.Group(), gone, MPI.GROUP_EMPTY, own.Group()));
        Datatype pairs = Datatype.Vector(2, 1, 2, MPI.INT),
                 back = Datatype.Vector(3, 1, -1, MPI.INT), none = Datatype.Contiguous(0, MPI.INT),
                 ended = Datatype.Contiguous(2, MPI.INT);
        for (Datatype type : List.of(pairs, back, none, ended)) type.Commit();
        ended.Free();
        pool(Datatype.class)
            .addAll(List.of(MPI.INT, MPI.INT, MPI.INT, MPI.BYTE, MPI.DOUBLE, MPI.LONG, MPI.CHAR,
                MPI.SHORT, MPI.BOOLEAN, MPI.FLOAT, MPI.PACKED, MPI.OBJECT, MPI.INT2, MPI.DOUBLE2,
                MPI.LB, MPI.UB, pairs, back, none, ended, Datatype.Contiguous(3, MPI.INT)));
        Op last = new Op(function(0), true);
        last.Free();
        pool(Op.class).addAll(List.of(MPI.SUM, MPI.MAX, MPI.BAND, MPI.MINLOC,
            new Op(function(1), false), new Op(function(2), true), last));
        pool(User_function.class).addAll(List.of(function(0), function(1)));
        pool(Errhandler.class).add(MPI.ERRORS_RETURN);
        pool(MPIException.class).add(new MPIException("an error"));
        Request over = own.Isend(new int[1], 0, 1, MPI.INT, MPI.PROC_NULL, 0);
        pool(Status.class).add(over.Wait());
        keep(over, true);
        keep(own.Recv_init(new int[4], 0, 4, MPI.INT, MPI.PROC_NULL, 0), true);
        keep(own.Send_init(new int[4], 0, 4, MPI.INT, 0, 0), false);
    }

    private static User_function function(int kind) {
        return new User_function() {
            @Override
            public void Call(Object in, int inoffset, Object inout, int inoutoffset, int count,
                Datatype datatype) {
                if (kind == 1) throw new IllegalArgumentException("thrown by an operation");
                // It may write anything.
                if (kind == 2 && inout instanceof int[] ints) Arrays.fill(ints, -1);
            }
        };
    }

    private void keep(Object request, boolean completes) {
        put(completes ? complete : pool(Request.class), request);
    }

    private void put(List<Object> list, Object value) {
        if (list.size() < SOME) list.add(value);
        else list.set(random.nextInt(SOME), value);
    }

    private Object one(List<?> list) {
        return list.get(random.nextInt(list.size()));
    }

    private int number() {
        if (random.nextInt(5) > 0) return random.nextInt(5);
        int[] odd = {-1, -2, -3, Integer.MAX_VALUE, Integer.MIN_VALUE, 1 << 30, 1 << 16, 100, 4097,
            MPI.PROC_NULL, MPI.ANY_SOURCE, MPI.ANY_TAG, MPI.UNDEFINED, MPI.TAG_UB, 0x70000000};
        return odd[random.nextInt(odd.length)];
    }

    private int[] numbers() {
        if (random.nextInt(12) == 0) return null;
        int[] numbers = new int[random.nextInt(4)];
        for (int i = 0; i < numbers.length; i++) numbers[i] = number();
        return numbers;
    }

    private Object buffer() {
        int size = random.nextInt(6) == 0 ? random.nextInt(3) * 40000 : random.nextInt(40);
        switch (random.nextInt(20)) {
            case 0:
                return null;
            case 1:
                return ByteBuffer.allocateDirect(size);
            case 2:
                return ByteBuffer.allocateDirect(4 * size)
                    .order(ByteOrder.nativeOrder())
                    .asIntBuffer();
            case 3:
                return IntBuffer.allocate(size).position(size / 2);
            case 4:
                return ByteBuffer.allocateDirect(size).asReadOnlyBuffer();
            case 5:
                return Arena.ofAuto().allocate(4L * size, 8);
            case 6:
                MemorySegment closed;
                try (Arena arena = Arena.ofConfined()) {
                    closed = arena.allocate(4L * size + 1);
                }
                return closed;
            case 7:
                return MemorySegment.ofArray(new int[size]).asReadOnly();
            case 8:
                return MemorySegment.ofArray(new double[size]);
            case 9:
                return new Object[] {"text", new Object(), null};
            case 10:
                return new String[size];
            case 11:
                return "no buffer";
            case 12:
                return new int[2][2];
            case 13:
                return new byte[size];
            case 14:
                return new double[size];
            case 15:
                return new boolean[size];
            case 16:
                return new long[size];
            case 17:
                return MemorySegment.NULL;
            default:
                return new int[size];
        }
    }

    private Object argument(Class<?> type, boolean waits) {
        if (type == int.class) return number();
        if (type == boolean.class) return random.nextBoolean();
        if (type == double.class) return random.nextDouble();
        if (random.nextInt(25) == 0) return null;
        if (type == Object.class) return buffer();
        if (type == int[].class) return numbers();
        if (type == byte[].class) return new byte[random.nextInt(3) * random.nextInt(3000)];
        if (type == boolean[].class) return new boolean[random.nextInt(4)];
        if (type == String.class) return "text";
        if (type == String[].class) return new String[random.nextInt(2)];
        if (type == int[][].class) {
            int[][] ranges = new int[random.nextInt(3)][];
            for (int i = 0; i < ranges.length; i++)
                ranges[i] = random.nextInt(3) == 0 ? numbers() : new int[] {number(), 0, number()};
            return ranges;
        }
        if (type == Request.class) return request(waits, false);
        if (type == Prequest.class) return request(waits, true);
        if (type.isArray()) {
            Object[] all = (Object[]) java.lang.reflect.Array.newInstance(
                type.getComponentType(), random.nextInt(4));
            for (int i = 0; i < all.length; i++) all[i] = argument(type.getComponentType(), waits);
            return all;
        }
        List<Object> fitting = pool(Comm.class.isAssignableFrom(type) ? Comm.class : type)
                                   .stream()
                                   .filter(type::isInstance)
                                   .toList();
        return fitting.isEmpty() ? null : one(fitting);
    }

    private Object request(boolean waits, boolean persistent) {
        List<Object> from = new ArrayList<>(complete);
        if (!waits) from.addAll(pool(Request.class));
        if (persistent) from.removeIf(request -> !(request instanceof Prequest));
        return from.isEmpty() ? null : one(from);
    }

    /* ---- calls */

    private void step(long seed) throws ReflectiveOperationException {
        if (random.nextInt(8) == 0) receive();
        call = (Executable) one(calls);
        String name = call.getName();
        Class<?>[] types = call.getParameterTypes();
        boolean waits = name.startsWith("Wait");
        boolean isStatic = call instanceof Constructor<?> || Modifier.isStatic(call.getModifiers());
        target = isStatic ? null : argument(call.getDeclaringClass(), waits);
        if (!isStatic && target == null) return;
        if (name.equals("Free") && (target == own || target instanceof Datatype)) return;
        arguments = new Object[types.length];
        for (int i = 0; i < types.length; i++) arguments[i] = argument(types[i], waits);
        tame(call, arguments);
        since = System.nanoTime();
        done++;
        try {
            Object result = call instanceof Method method
                ? method.invoke(target, arguments)
                : ((Constructor<?>) call).newInstance(arguments);
            passed++;
            take(name, arguments, result);
        } catch (InvocationTargetException thrown) {
            Throwable error = thrown.getCause();
            boolean allowed = error instanceof MPIException || error instanceof OutOfMemoryError;
            if (allowed) {
                refused++;
                return;
            }
            System.out.println("seed " + seed + ", call " + done + ": " + current());
            error.printStackTrace(System.out);
            System.out.flush();
            Runtime.getRuntime().halt(1);
        }
    }

    private String current() {
        StringBuilder text = new StringBuilder(call + " of " + target + " with");
        for (Object argument : arguments) {
            String said = argument instanceof Object[] all ? Arrays.deepToString(all)
                : argument instanceof int[] ints           ? Arrays.toString(ints)
                                                           : String.valueOf(argument);
            text.append(' ').append(said, 0, Math.min(said.length(), 99));
        }
        return text.toString();
    }

    /** Changes what would wait for ever, or what the standard leaves open. */
    private void tame(Executable call, Object[] arguments) {
        String name = call.getName();
        int n = arguments.length;
        if (SENDS.contains(name) || name.equals("Recv") || name.equals("Probe")) {
            boolean both = name.startsWith("Sendrecv");
            arguments[n - 2] = noRank(arguments[n - 2]);
            if (name.equals("Sendrecv")) arguments[4] = noRank(arguments[4]);
            else if (both) arguments[n - 4] = noRank(arguments[n - 4]);
        }
        // Both groups would hold this process.
        if (name.equals("Create_intercomm")) arguments[2] = 1 + random.nextInt(9);
        if (call.getDeclaringClass() == Datatype.class)
            for (int i = 0; i < n; i++)
                if (arguments[i] instanceof Integer number && number > 1 << 16)
                    arguments[i] = random.nextInt(1000);
    }

    private static Object noRank(Object rank) {
        return rank.equals(0) || rank.equals(MPI.ANY_SOURCE) ? MPI.PROC_NULL : rank;
    }

    /** Keeps a result as an argument of later calls. */
    private void take(String name, Object[] arguments, Object result) {
        switch (result) {
            case null -> {
            }
            case Comm comm -> {
                List<Object> all = pool(Comm.class);
                if (all.contains(comm)) return;
                if (all.size() < 2 * SOME) {
                    all.add(comm);
                    return;
                }
                int place = 6 + random.nextInt(all.size() - 6);
                Comm old = (Comm) all.set(place, comm);
                try {
                    if (!old.Is_null()) old.Free();
                } catch (MPIException freed) {
                    throw new AssertionError(freed);
                }
            }
            case Request request -> keep(request, arguments[4].equals(MPI.PROC_NULL));
            case Group group -> put(pool(Group.class), group);
            case Status status -> put(pool(Status.class), status);
            case Datatype type -> {
                List<Object> all = pool(Datatype.class);
                if (random.nextBoolean()) type.Commit();
                if (all.size() < 30) all.add(type);
                else all.set(21 + random.nextInt(9), type);
            }
            default -> {
            }
        }
    }

    /** Receives a message that was sent to this rank, if there is one, into any buffer. */
    private void receive() {
        Comm comm = (Comm) one(pool(Comm.class));
        if (comm.Is_null()) return;
        try {
            Status status = comm.Iprobe(MPI.ANY_SOURCE, MPI.ANY_TAG);
            if (status == null) return;
            comm.Recv(buffer(), random.nextInt(3), random.nextInt(30),
                (Datatype) one(pool(Datatype.class)), status.source, status.tag);
        } catch (MPIException refusal) {
            refused++;
        }
    }
}
