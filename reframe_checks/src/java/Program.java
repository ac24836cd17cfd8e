import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/**
 * What every Java program of ours says of where it runs and with what, and how it fails: the
 * counterpart of ../program.h,
 * ../mpi_program.h and ../options.h, against the mpiJava 1.2 API, so that MPJ Express and FastMPJ
 * compile it alike.
 *
 * Nothing here or in the programs is static but constants: under a thread device all ranks live in
 * one JVM. The JVM must be told to end: libraries keep threads that are no daemons, MPJ Express's
 * Abort does nothing, and its starter of threads ends with 0 after any exception.
 */
final class Program {
    static final int FAILED = 1, USAGE_ERROR = 2, WRONG_RESULT = 3, STALLED = 4;
    private static final int PLACE_BYTES = 256;
    /** How long a rank waits for its compiler at most. */
    static final long PATIENCE_NS = 5_000_000_000L;

    /** A program's work; returns its exit status. */
    interface Body {
        int run(Program program, String[] arguments) throws MPIException;
    }

    /** What cannot run, in one sentence; every rank throws it. */
    static final class Refusal extends RuntimeException {
        private static final long serialVersionUID = 1;
        final int status;

        Refusal(int status, String message) {
            super(message, null, false, false);
            this.status = status;
        }
    }

    /** An option that takes a number from `low` to `high`. */
    static final class Option {
        final String name;
        final double low, high;
        final boolean whole;
        double value;

        Option(String name, double low, double high, boolean whole, double value) {
            this.name = name;
            this.low = low;
            this.high = high;
            this.whole = whole;
            this.value = value;
        }
    }

    final String name;
    final Intracomm world;
    final int rank, ranks;
    private final String device;

    private Program(String name, String device) throws MPIException {
        this.name = name;
        this.device = device;
        world = MPI.COMM_WORLD;
        rank = world.Rank();
        ranks = world.Size();
    }

    /** Starts MPI, runs, ends MPI and, where the status is not 0, the JVM. */
    static void run(String name, String[] arguments, Body body) {
        Program program = null;
        int status;
        try {
            // of MPJ Express, whose Init takes it away
            final String device = arguments.length > 2 ? arguments[2] : "";
            final String[] own = MPI.Init(arguments);
            program = new Program(name, device);
            try {
                status = body.run(program, own == null ? arguments : own);
            } catch (Refusal refusal) {
                status = refusal.status;
                if (program.rank == 0) complain(name, refusal.getMessage());
            }
            System.out.flush();
            System.err.flush();
            MPI.Finalize();
        } catch (OutOfMemoryError error) {
            complain(name,
                "rank " + (program == null ? "?" : program.rank) + " was refused memory ("
                    + error.getMessage()
                    + "); raise -Xmx (or -XX:MaxDirectMemorySize), or take a smaller problem or "
                    + "more nodes.");
            status = USAGE_ERROR;
            Runtime.getRuntime().halt(status);
        } catch (Throwable failure) {
            complain(
                name, "rank " + (program == null ? "?" : program.rank) + " failed: " + failure);
            failure.printStackTrace();
            status = FAILED;
            Runtime.getRuntime().halt(status);
        }
        if (status != 0) System.exit(status);
    }

    static void complain(String name, String message) {
        System.out.flush();
        System.err.println(name + ": " + message);
        System.err.flush();
    }

    /** Prints and is seen: the last line of a job that hangs tells how far it got. */
    static void print(String format, Object... values) {
        System.out.print(String.format(Locale.ROOT, format, values));
        System.out.flush();
    }

    /** A number as C's %.12g writes it. */
    static String plain(double value) {
        if (value == Math.rint(value) && Math.abs(value) < 1e15) return Long.toString((long) value);
        return Double.toString(value);
    }

    /**
     * Returns false where help was asked for, and given. Throws Refusal on whatever is no option.
     */
    boolean parse(String[] arguments, String help, Option... options) {
        for (int i = 0; i < arguments.length; i++) {
            final String word = arguments[i];
            if (word.equals("--help") || word.equals("-h")) {
                if (rank == 0) print("%s", help);
                return false;
            }
            if (!word.startsWith("-"))
                throw new Refusal(USAGE_ERROR,
                    "'" + word + "' is not expected: there are only options; see --help.");
            final int equals = word.indexOf('=');
            final String key = equals < 0 ? word : word.substring(0, equals);
            final Option option = Arrays.stream(options)
                                      .filter(o -> key.equals("--" + o.name))
                                      .findFirst()
                                      .orElse(null);
            if (option == null)
                throw new Refusal(
                    USAGE_ERROR, "'" + word + "' is no option of this program; see --help.");
            if (equals < 0 && i + 1 == arguments.length)
                throw new Refusal(USAGE_ERROR, word + " needs a value; see --help.");
            final String text = equals < 0 ? arguments[++i] : word.substring(equals + 1);
            double value;
            try {
                value = Double.parseDouble(text);
            } catch (NumberFormatException none) {
                value = Double.NaN;
            }
            if (!(value >= option.low && value <= option.high)
                || option.whole && value != Math.rint(value))
                throw new Refusal(USAGE_ERROR,
                    "--" + option.name + " takes a " + (option.whole ? "whole " : "")
                        + "number from " + plain(option.low) + " to " + plain(option.high)
                        + ", not '" + text + "'.");
            option.value = value;
        }
        return true;
    }

    /* ---- where and with what */

    private static String read(String path) {
        try {
            return Files.readString(Path.of(path));
        } catch (IOException | RuntimeException none) {
            return "";
        }
    }

    /** A kernel's file of `key: value` lines; "" where it does not say. */
    private static String lineOf(String path, String key) {
        return read(path)
            .lines()
            .filter(line -> line.startsWith(key))
            .map(line -> line.substring(key.length()).strip())
            .findFirst()
            .orElse("");
    }

    /** The kernel's name of this host; "": it did not say. */
    static String host() {
        // the library's asks the resolver, which may know none
        return read("/proc/sys/kernel/hostname").strip();
    }

    /** On which CPU this thread is; -1: the kernel did not say. */
    private static int cpu() {
        final String stat = read("/proc/thread-self/stat");
        final String[] fields = stat.substring(stat.lastIndexOf(')') + 1).strip().split(" ");
        // field 39 of proc(5), which counts pid and name
        return fields.length > 36 ? Integer.parseInt(fields[36]) : -1;
    }

    /** How many CPUs this thread may use; -1: the kernel did not say. */
    private static int allowedCpus() {
        int count = 0;
        for (final String part :
            lineOf("/proc/thread-self/status", "Cpus_allowed_list:").split(",")) {
            final String[] ends = part.split("-");
            if (ends[0].isEmpty()) return -1;
            count += Integer.parseInt(ends[ends.length - 1]) - Integer.parseInt(ends[0]) + 1;
        }
        return count;
    }

    /** Of all ranks a text each, cut at PLACE_BYTES; collective. */
    String[] gather(String mine) throws MPIException {
        final byte[] own = Arrays.copyOf(mine.getBytes(StandardCharsets.UTF_8), PLACE_BYTES);
        final byte[] all = new byte[PLACE_BYTES * ranks];
        world.Allgather(own, 0, PLACE_BYTES, MPI.BYTE, all, 0, PLACE_BYTES, MPI.BYTE);
        final String[] texts = new String[ranks];
        for (int r = 0; r < ranks; r++)
            texts[r] = new String(all, r * PLACE_BYTES, PLACE_BYTES, StandardCharsets.UTF_8)
                           .replace("\0", "");
        return texts;
    }

    /** How many ranks live in this JVM; collective. */
    int ranksInThisJvm() throws MPIException {
        final String mine = ProcessHandle.current().pid() + " " + host();
        return (int) Arrays.stream(gather(mine)).filter(mine::equals).count();
    }

    /**
     * The launcher may tell (-Dnearmetal.mpi_library), since the interface has no call for the
     * library's version.
     */
    private String library() {
        final String told = System.getProperty("nearmetal.mpi_library", "");
        if (!told.isEmpty()) return told;
        final String own = System.getProperty("mpi.library.version", ""); // of mpj-native
        if (!own.isEmpty()) return own.replaceAll("\\s", " ");
        final String fast = System.getProperty("xxdev.dev", "");
        if (!fast.isEmpty()) return "FastMPJ, " + fast;
        final Map<String, String> environment = System.getenv();
        final String version =
            lineOf(environment.get("MPJ_HOME") + "/conf/mpjexpress.conf", "mpjexpress.version=");
        return (
            "MPJ Express " + (version.isEmpty() ? "of unknown version" : version) + ", " + device)
            .replaceAll("\\s", " ");
    }

    private static String machine() {
        final StringBuilder text = new StringBuilder(
            System.getProperty("java.vm.name") + " " + System.getProperty("java.vm.version"));
        final List<String> flags = ManagementFactory.getRuntimeMXBean().getInputArguments();
        for (final String flag : flags)
            if (flag.startsWith("-X")) text.append(' ').append(flag);
        return text.toString().replaceAll("\\s", " ");
    }

    /** Collective; rank 0 prints. `program` is a name and the version of its format. */
    void printProgram(String program) throws MPIException {
        Usage.begin();
        final String[] places =
            gather("host=" + host() + " cpu=" + cpu() + " allowed_cpus=" + allowedCpus());
        if (rank != 0) return;
        print("# nearmetal program: %s%n# nearmetal mpi_library: %s%n# nearmetal compiler: %s%n",
            program, library(), machine());
        for (int r = 0; r < ranks; r++) print("# nearmetal rank %d: %s%n", r, places[r]);
    }

    /* ---- what the JVM does beside the program, in ms since its start */

    /** By all compiler threads together. */
    static long compilingMs() {
        return ManagementFactory.getCompilationMXBean().getTotalCompilationTime();
    }

    static long collectingMs() {
        long sum = 0;
        for (final GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans())
            sum += bean.getCollectionTime();
        return sum;
    }

    /** Seconds at most that the launcher allows for it. */
    static double mostWarmUpSeconds() {
        try {
            return Double.parseDouble(System.getProperty("nearmetal.warm_up", "30"));
        } catch (NumberFormatException none) {
            throw new Refusal(USAGE_ERROR,
                "nearmetal.warm_up is " + System.getProperty("nearmetal.warm_up")
                    + ", no number of seconds.");
        }
    }

    /**
     * Compilations count only when they end: those that are under way, of the preparation too,
     * must not end later.
     */
    static void awaitCompiler() {
        awaitCompiler(1000); // longer than a compilation on a core that others want too
    }

    /** The same, where none of the ranks keeps a core busy. */
    static void awaitCompiler(int restMs) {
        final long start = System.nanoTime();
        long before = -1;
        for (long jit = compilingMs(); jit != before && System.nanoTime() - start < PATIENCE_NS;
            jit = compilingMs()) {
            before = jit;
            try {
                Thread.sleep(restMs);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }
}
