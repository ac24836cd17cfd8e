package launch;

import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs an MPI program of MPJ Express or FastMPJ as one rank of a Slurm step, or as all ranks of one
 * JVM, without daemons.
 *
 * `java launch.NearmetalRun Main [ARGUMENT ...]`, started by jvm.sh, with the settings
 * nearmetal.library (express or fastmpj), .device (niodev or threads), .port and .ports (the first
 * of the job's ports for the launcher and how many they are), .hosts (name of a node on the job's
 * network, {} is its own), .patience (seconds), and for threads of MPJ Express .ranks and .app
 * (their class path). FastMPJ's own settings (mpj.rank, xxdev.port, ...) come from jvm.sh, but for
 * mpj.hostfile.
 */
public final class NearmetalRun {
    /** Of a JVM that failed, whatever its program says. */
    private static final int FAILED = 1;
    private static final int BEAT_MS = 1000, MOST_RANKS = 65536;
    /** Seconds that the others leave rank 0 to name the ranks that are missing. */
    private static final int LATER = 5;
    private static volatile boolean finished;
    private static volatile Rendezvous rendezvous;
    private static String me = "this rank";
    private static Thread[] programs = {};
    /** FastMPJ's starter of threads, and the class of these. */
    private static final String THREADS_OF_FASTMPJ = "runtime.b.k",
                                THREAD_OF_FASTMPJ = "runtime.b.m";
    private static String hostFile;

    private NearmetalRun() {}

    public static void main(String[] arguments) {
        Thread.setDefaultUncaughtExceptionHandler(
            (thread, error) -> die(name(thread) + " died of " + cause(error), cause(error)));
        Runtime.getRuntime().addShutdownHook(new Thread(NearmetalRun::lastWords, "last words"));
        try {
            if (arguments.length == 0)
                throw new IllegalArgumentException("the name of a class is expected");
            Map<String, String> slurm = System.getenv();
            int patience = number("patience", setting("patience", "60"), 1, 86400);
            Rendezvous.background("patience with MPI.Init", () -> watchInit(patience));
            if (setting("device", "niodev").equals("threads")) {
                if (fast()) runThreadsOfFastMpj(arguments);
                else runThreads(arguments, number("ranks", setting("ranks", ""), 1, MOST_RANKS));
            } else if (setting("device", "niodev").equals("niodev")) {
                runRank(arguments, slurm, patience);
            } else {
                throw new IllegalArgumentException(
                    "device is '" + setting("device", "") + "'; choose from niodev, threads");
            }
        } catch (InvocationTargetException error) {
            die(arguments[0] + " died of " + cause(error), cause(error));
        } catch (ReflectiveOperationException error) {
            die("cannot start " + arguments[0] + ": " + error + "; is it compiled, and is "
                    + (fast() ? "FMPJ_HOME FastMPJ 1.0_7?" : "MPJ_HOME MPJ Express 0.44?"),
                null);
        } catch (IOException | IllegalArgumentException | InterruptedException error) {
            die(error.getMessage(), null);
        }
        finished = true;
        System.exit(0);  // also where the library has left a thread behind
    }

    /** This rank's part of a step with one JVM a task. */
    private static void runRank(String[] arguments, Map<String, String> slurm, int patience)
        throws IOException, ReflectiveOperationException, InterruptedException {
        int ranks = number("SLURM_NTASKS", slurm.get("SLURM_NTASKS"), 1, MOST_RANKS);
        int rank = number("SLURM_PROCID", slurm.get("SLURM_PROCID"), 0, ranks - 1);
        int first = number("port", setting("port", ""), 1024, 65535);
        int count = number("ports", setting("ports", "16"), 1, 65536 - first);
        String job = number("SLURM_JOB_ID", slurm.get("SLURM_JOB_ID"), 1, Integer.MAX_VALUE) + "."
            + number(
                "SLURM_STEP_ID", slurm.getOrDefault("SLURM_STEP_ID", "0"), 0, Integer.MAX_VALUE);
        String pattern = setting("hosts", "{}");
        List<String> names = nodes(slurm);
        InetAddress own = own(slurm, pattern), head = resolve(pattern.replace("{}", names.get(0)));
        if (names.size() > 1 && own.isLoopbackAddress())
            throw new IOException("the name of this node, " + node(slurm) + ", is "
                + own.getHostAddress()
                + " on itself, where no other node reaches it: mend /etc/hosts, "
                + "or give java_hosts in the "
                + "extras");
        me = "rank " + rank + " on " + node(slurm);
        JobAddress.own = own;
        // for programs that measure that network themselves
        System.setProperty("nearmetal.address", own.getHostAddress());
        if (rank == 0) {
            Set<InetAddress> allowed = new HashSet<>();
            for (String name : names)
                allowed.addAll(
                    Arrays.asList(InetAddress.getAllByName(pattern.replace("{}", name))));
            Rendezvous server = rendezvous =
                new Rendezvous(job, own, first, count, allowed, ranks, !fast());
            Rendezvous.background("patience", () -> watch(server, patience));
        }
        Socket zero = join(job, rank, head, own, first, count, patience);
        programs = new Thread[] {Thread.currentThread()};
        if (fast()) {
            meetFastMpj(zero, job, rank, ranks, own, patience);
            start(Class.forName(arguments[0]), arguments);
        } else {
            start(Class.forName(arguments[0]), arguments, String.valueOf(rank),
                configuration(ranks, head.getHostAddress(), zero.getPort()), "niodev");
        }
    }

    /** Waits for the addresses of all ranks, and writes them where FastMPJ reads them. */
    private static void meetFastMpj(Socket zero, String job, int rank, int ranks, InetAddress own,
        int patience) throws IOException {
        String start = "nearmetal " + job + " peers ", said;
        try {
            said = Rendezvous.text(
                zero, System.nanoTime() + (patience + LATER) * 1_000_000_000L, 65535);
        } catch (IOException lost) {
            throw new IOException(
                "rank 0 ended, or said nothing more, before all ranks had started");
        }
        String[] addresses = said.replace(start, "").split(",");
        if (!said.startsWith(start) || addresses.length != ranks
            || !addresses[rank].equals(own.getHostAddress()))
            throw new IOException(
                "rank 0 said '" + said + "', which are not the addresses of " + ranks + " ranks");
        zero.setSoTimeout(0);
        // Each rank listens on two ports, by its number in the job.
        int port = number("xxdev.port", System.getProperty("xxdev.port"), 1024, 65536 - 2 * ranks)
            + 2 * rank;
        requireFree(own, port);
        requireFree(own, port + 1);
        // In the job's directory, where the next launch of this job writes over what a lost one has
        // left.
        hostFile = "hosts." + job.replaceAll("\\..*", "") + "." + rank;
        Files.write(Path.of(hostFile), List.of(addresses));
        System.setProperty("mpj.hostfile", hostFile);
    }

    private static void requireFree(InetAddress own, int port) throws IOException {
        try (ServerSocket socket = new ServerSocket()) {
            socket.setReuseAddress(true);
            socket.bind(new InetSocketAddress(own, port));
        } catch (IOException taken) {
            throw new IOException("the port " + port + " of " + own.getHostAddress()
                + " is in use: give others in the partition's extras (java_ports)");
        }
    }

    private static boolean fast() {
        return setting("library", "express").equals("fastmpj");
    }

    /** What fmpjrun starts, which is told by properties alone. */
    private static void runThreadsOfFastMpj(String[] arguments)
        throws ReflectiveOperationException {
        Class.forName(THREADS_OF_FASTMPJ)
            .getMethod("main", String[].class)
            .invoke(null, (Object) arguments);
    }

    /** A rank's thread by its number, any other by its name. */
    private static String name(Thread thread) {
        return (thread.getClass().getName().equals(THREAD_OF_FASTMPJ) ? "rank " : "thread ")
            + thread.getName();
    }

    /** What FastMPJ and reflection wrapped. */
    private static Throwable cause(Throwable error) {
        boolean wrapped = error instanceof InvocationTargetException
            || error.getClass().getName().equals("runtime.A");
        return wrapped && error.getCause() != null ? cause(error.getCause()) : error;
    }

    /** What niodev takes for its configuration. */
    static String configuration(int ranks, String host, int port) {
        return "#Number of Processes;" + ranks + ";#Protocol Switch Limit;131072;#Server Name;"
            + host + ";#Server Port;" + port;
    }

    private static void start(Class<?> program, String[] arguments, String... library)
        throws ReflectiveOperationException {
        List<String> all = new ArrayList<>(List.of(library));
        all.addAll(List.of(arguments).subList(1, arguments.length));
        program.getMethod("main", String[].class).invoke(null, (Object) all.toArray(new String[0]));
    }

    /**
     * All ranks as threads of this JVM: each has library and program to itself, and shares the
     * device with the others.
     */
    private static void runThreads(String[] arguments, int ranks)
        throws IOException, ReflectiveOperationException, InterruptedException {
        List<URL> path = new ArrayList<>();
        for (String part : setting("app", "").split(java.io.File.pathSeparator))
            path.add(Path.of(part).toUri().toURL());
        programs = new Thread[ranks];
        for (int rank = 0; rank < ranks; rank++) {
            ThreadGroup group = (ThreadGroup) Class.forName("xdev.smpdev.SMPDevProcess")
                                    .getConstructor(String.class)
                                    .newInstance("MPI" + rank);
            URLClassLoader loader =
                new URLClassLoader(path.toArray(new URL[0]), NearmetalRun.class.getClassLoader());
            Class<?> program = Class.forName(arguments[0], true, loader);
            String number = String.valueOf(rank);
            programs[rank] = new Thread(group, () -> {
                try {
                    start(program, arguments, number, String.valueOf(ranks), "smpdev");
                } catch (InvocationTargetException error) {
                    die("rank " + number + " of " + arguments[0] + " died of " + error.getCause(),
                        error.getCause());
                } catch (ReflectiveOperationException error) {
                    die("cannot start " + arguments[0] + ": " + error, null);
                }
            }, number);
            programs[rank].setContextClassLoader(loader);
        }
        for (Thread thread : programs) thread.start();
        for (Thread thread : programs) thread.join();
    }

    /**
     * Finds rank 0 at one of the job's ports, says that this rank is there, and goes on saying so;
     * returns the connection.
     */
    static Socket join(String job, int rank, InetAddress host, InetAddress own, int first,
        int count, int patience) throws IOException, InterruptedException {
        long end = System.nanoTime() + patience * 1_000_000_000L;
        while (System.nanoTime() < end) {
            for (int port = first; port < first + count; port++) {
                Socket socket = new Socket();
                try {
                    socket.bind(new InetSocketAddress(own, 0));
                    socket.connect(new InetSocketAddress(host, port), 2000);
                    new DataOutputStream(socket.getOutputStream())
                        .writeUTF("nearmetal " + job + " " + rank);
                    String said = Rendezvous.text(socket, System.nanoTime() + 2_000_000_000L);
                    if (said.equals("nearmetal " + job + " refused"))
                        throw new IllegalArgumentException(
                            "rank " + rank + " is no rank of this job, or there already");
                    if (said.equals("nearmetal " + job)) {
                        socket.setTcpNoDelay(true);
                        Rendezvous.background("beat", () -> beat(socket));
                        return socket;
                    }
                } catch (IOException notIt) {
                    // Somebody else's port, or rank 0 is not there yet.
                }
                socket.close();
            }
            Thread.sleep(50);
        }
        throw new IOException("found no rank 0 of job " + job + " at the ports " + first + " to "
            + (first + count - 1) + " of " + host.getHostAddress() + " within " + patience
            + " s: did it start, and may nodes reach each "
            + "other there");
    }

    private static void beat(Socket socket) {
        try {
            while (true) {
                Thread.sleep(BEAT_MS);
                socket.getOutputStream().write(1);
            }
        } catch (IOException | InterruptedException over) {
            // Rank 0 has ended: well, which is no business of this rank, or badly, which ends the
            // step.
        }
    }

    private static void watch(Rendezvous server, int patience) {
        try {
            Thread.sleep(patience * 1000L);
        } catch (InterruptedException impossible) {
            return;
        }
        List<Integer> missing = server.missing();
        if (!missing.isEmpty())
            die("after " + patience + " s " + missing.size() + " of the ranks have not "
                    + (fast() ? "started, " : "come to MPI.Init, ") + missing
                    + "; last heard of were " + server.lastHeard(),
                null);
    }

    /**
     * A library may wait in MPI.Init without end, for ports that are closed, say. Looked at once,
     * so that it disturbs nothing.
     */
    private static void watchInit(int patience) {
        try {
            Thread.sleep((patience + LATER) * 1000L);
        } catch (InterruptedException impossible) {
            return;
        }
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet())
            for (StackTraceElement frame : entry.getValue())
                if (frame.getClassName().equals("mpi.MPI") && frame.getMethodName().equals("Init"))
                    die(name(entry.getKey()) + " is still in MPI.Init after " + (patience + LATER)
                            + " s: may nodes reach each "
                            + "other at the job's ports (java_ports), and is there memory "
                            + "enough (java_heap_mb)",
                        null);
    }

    private static List<String> nodes(Map<String, String> slurm) {
        String list = slurm.getOrDefault("SLURM_STEP_NODELIST", slurm.get("SLURM_JOB_NODELIST"));
        if (list == null || slurm.get("SLURM_PROCID") == null)
            throw new IllegalArgumentException(
                "this is no step of a Slurm job (no SLURM_PROCID, SLURM_STEP_NODELIST): "
                + "start it with srun");
        return NodeList.expand(list);
    }

    private static String node(Map<String, String> slurm) {
        return slurm.getOrDefault("SLURMD_NODENAME", "localhost");
    }

    /**
     * This node's address on the job's network, of which an interface of this node is to have it.
     */
    private static InetAddress own(Map<String, String> slurm, String pattern) throws IOException {
        String name = pattern.replace("{}", node(slurm));
        InetAddress address = resolve(name);
        if (NetworkInterface.getByInetAddress(address) == null)
            throw new IOException("this node has no interface with the address of " + name + ", "
                + address.getHostAddress()
                + ": what the extras call java_hosts is to name the node's own address");
        return address;
    }

    private static InetAddress resolve(String name) throws IOException {
        try {
            return InetAddress.getByName(name);
        } catch (IOException unknown) {
            throw new IOException("the node name " + name
                + " has no address: mend /etc/hosts or DNS, or java_hosts in the extras");
        }
    }

    private static String setting(String name, String otherwise) {
        return System.getProperty("nearmetal." + name, otherwise);
    }

    static int number(String name, String text, int least, int most) {
        try {
            int value = Integer.parseInt(text);
            if (value >= least && value <= most) return value;
        } catch (NumberFormatException none) {
            // said below
        }
        throw new IllegalArgumentException(
            name + " is '" + text + "', not a whole number from " + least + " to " + most);
    }

    private static void removeHostFile() {
        try {
            if (hostFile != null) Files.deleteIfExists(Path.of(hostFile));
        } catch (IOException left) {
            // It is a few lines, and the next launch writes over them.
        }
    }

    /** One sentence, and the end of this JVM, whatever its other threads do. */
    static void die(String sentence, Throwable error) {
        System.out.flush();
        String advice =
            error instanceof OutOfMemoryError ? ": give it more (java_heap_mb), or more nodes" : "";
        System.err.println("mpj: " + me + ": " + sentence + advice + ".");
        if (error != null) error.printStackTrace();
        System.err.flush();
        removeHostFile();
        Runtime.getRuntime().halt(FAILED);
    }

    /**
     * Before an end that the program did not come to by itself: where it was, and who was last
     * heard of.
     */
    private static void lastWords() {
        removeHostFile();
        if (finished) return;
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet()) {
            StackTraceElement[] stack = entry.getValue();
            if (entry.getKey().getName().startsWith("SIG")
                && entry.getKey().getName().endsWith(" handler")) {
                String signal = entry.getKey().getName().replace(" handler", "");
                StringBuilder words = new StringBuilder("mpj: " + me + " was ended by " + signal);
                for (Thread program : programs())
                    if (program.isAlive()) words.append(", ").append(at(program.getStackTrace()));
                System.err.println(words
                    + (rendezvous == null
                            ? "."
                            : "; last heard of were " + rendezvous.lastHeard() + "."));
                System.err.flush();
                return;
            }
            // The library ends the JVM here and there, some of it with 0.
            for (int frame = 0; frame + 1 < stack.length; frame++)
                if (stack[frame].getClassName().equals("java.lang.System")
                    && stack[frame].getMethodName().equals("exit")
                    && stack[frame + 1].getClassName().matches(
                        "(xdev|xxdev|mpjdev|mpi|mpjbuf|runtime)\\..*"))
                    die("the library gave up at " + stack[frame + 1], null);
        }
    }

    private static List<Thread> programs() {
        if (programs.length > 0 || !fast()) return List.of(programs);
        return Thread.getAllStackTraces()
            .keySet()
            .stream()
            .filter(thread -> thread.getClass().getName().equals(THREAD_OF_FASTMPJ))
            .toList();
    }

    /** The program's innermost line, and the library's call that it is in. */
    private static String at(StackTraceElement[] stack) {
        for (int frame = 0; frame < stack.length; frame++)
            if (!stack[frame].getClassName().matches(
                    "(java|jdk|sun|xdev|xxdev|mpjdev|mpi|mpjbuf|runtime|launch)\\..*"))
                return "at " + stack[frame].toString().replaceFirst("^.*/", "")
                    + (frame == 0 ? ""
                                  : " in " + stack[frame - 1].getClassName() + "."
                                + stack[frame - 1].getMethodName());
        return "outside of the program";
    }
}
