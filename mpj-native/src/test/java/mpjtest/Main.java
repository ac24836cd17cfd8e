// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import mpi.Comm;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/**
 * Runs all tests on the ranks that the launcher started, or those named as CLASS.METHOD. All ranks
 * run each test; rank 0 prints a line for each. The exit status is 1 if any failed.
 */
public final class Main {
    private static final List<Class<?>> CLASSES =
        List.of(MessagesTest.class, RequestsTest.class, DatatypesTest.class, CollectivesTest.class,
            ReductionsTest.class, GroupsTest.class, TopologiesTest.class, ObjectsTest.class,
            ErrorsTest.class, EdgesTest.class, ThreadsTest.class, PinsTest.class);

    static Intracomm world;
    static int rank, ranks;

    private Main() {}

    /** What a test calls. */
    interface Body {
        void run() throws MPIException;
    }

    /** A thread that runs a part of a test. */
    static final class Part {
        private final Thread thread;
        private volatile Throwable failure;

        Part(Thread.Builder builder, Body body) {
            thread = builder.start(() -> {
                try {
                    body.run();
                } catch (Throwable thrown) {
                    failure = thrown;
                }
            });
        }

        /** Waits for its end, and fails as it failed. */
        void end() throws InterruptedException {
            thread.join();
            if (failure != null) throw new AssertionError(failure);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String[] names = MPI.Init(arguments);
        world = MPI.COMM_WORLD;
        rank = world.Rank();
        ranks = world.Size();
        int passed = 0, failed = 0;
        for (Class<?> test : CLASSES) {
            Method[] methods = test.getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (!java.lang.reflect.Modifier.isPublic(method.getModifiers())) continue;
                String name = test.getSimpleName() + "." + method.getName();
                if (names.length > 0 && !Arrays.asList(names).contains(name)) continue;
                if (runs(name, method)) passed++;
                else failed++;
            }
        }
        if (rank == 0)
            System.out.println("# mpj-native: " + passed + " passed, " + failed + " failed on "
                + ranks + " ranks with " + MPI.Get_library_version());
        System.out.flush();
        MPI.Finalize();
        if (failed > 0) System.exit(1);
        ErrorsTest.afterFinalize();
    }

    private static boolean runs(String name, Method method)
        throws MPIException, ReflectiveOperationException {
        int[] wrong = new int[1], any = new int[1];
        try {
            method.invoke(null);
        } catch (InvocationTargetException error) {
            wrong[0] = 1;
            System.out.println("rank " + rank + " of " + name + ": " + error.getCause());
            for (StackTraceElement frame : error.getCause().getStackTrace())
                if (frame.getClassName().startsWith("mp")) System.out.println("    " + frame);
            System.out.flush();
        }
        world.Allreduce(wrong, 0, any, 0, 1, MPI.INT, MPI.SUM);
        if (rank == 0) System.out.println((any[0] == 0 ? "ok " : "FAILED ") + name);
        return any[0] == 0;
    }

    /* ---- what tests assert */

    static void same(Object expected, Object found) {
        boolean equal = switch (expected) {
            case byte[] a -> Arrays.equals(a, (byte[]) found);
            case char[] a -> Arrays.equals(a, (char[]) found);
            case short[] a -> Arrays.equals(a, (short[]) found);
            case boolean[] a -> Arrays.equals(a, (boolean[]) found);
            case int[] a -> Arrays.equals(a, (int[]) found);
            case long[] a -> Arrays.equals(a, (long[]) found);
            case float[] a -> Arrays.equals(a, (float[]) found);
            case double[] a -> Arrays.equals(a, (double[]) found);
            case Object[] a -> Arrays.deepEquals(a, (Object[]) found);
            default -> expected.equals(found);
        };
        if (!equal) throw new AssertionError("expected " + text(expected) + ", got " + text(found));
    }

    private static String text(Object value) {
        return value != null && value.getClass().isArray()
            ? Arrays.deepToString(new Object[] {value})
            : String.valueOf(value);
    }

    static void holds(boolean condition, String what) {
        if (!condition) throw new AssertionError("not so: " + what);
    }

    /** The body raises an MPIException with this text in its message. */
    static void refused(String text, Body body) throws MPIException {
        try {
            body.run();
        } catch (MPIException error) {
            if (error.getMessage() == null || !error.getMessage().contains(text))
                throw new AssertionError(
                    "the error is '" + error.getMessage() + "', without '" + text + "'");
            return;
        }
        throw new AssertionError("no MPIException with '" + text + "'");
    }

    /** The rank after this one, and the one before it, in a ring. */
    static int next(Comm comm) throws MPIException {
        return (comm.Rank() + 1) % comm.Size();
    }

    static int previous(Comm comm) throws MPIException {
        return (comm.Rank() + comm.Size() - 1) % comm.Size();
    }
}
