package launch;

import java.io.DataOutputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.NetworkInterface;
import java.net.Socket;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Runs an MPI program of MPJ Express as one rank of a Slurm step, or as all ranks of one JVM, without its daemons.
 *
 * `java launch.NearmetalRun Main [ARGUMENT ...]`, started by jvm.sh, with the settings nearmetal.device (niodev or threads),
 * .port and .ports (the first of the job's ports and how many they are), .hosts (name of a node on the job's network, {} is its
 * own), .patience (seconds), and for threads .ranks and .app (their class path). `--address` prints this node's address there.
 */
public final class NearmetalRun {
    /** Of a JVM that failed, whatever its program says. */
    private static final int FAILED = 1;
    private static final int BEAT_MS = 1000, MOST_RANKS = 1000;
    private static volatile boolean finished;
    private static volatile Rendezvous rendezvous;
    private static String me = "this rank";
    private static Thread[] programs = {};

    private NearmetalRun() { }

    public static void main(String[] arguments) {
        Thread.setDefaultUncaughtExceptionHandler(
            (thread, error) -> die("thread " + thread.getName() + " died of " + error, error));
        Runtime.getRuntime().addShutdownHook(new Thread(NearmetalRun::lastWords, "last words"));
        try {
            if (arguments.length == 0) throw new IllegalArgumentException("the name of a class is expected");
            Map<String, String> slurm = System.getenv();
            if (arguments[0].equals("--address")) {
                System.out.println(own(slurm, setting("hosts", "{}")).getHostAddress());
            } else if (setting("device", "niodev").equals("threads")) {
                runThreads(arguments, number("ranks", setting("ranks", ""), 1, MOST_RANKS));
            } else if (setting("device", "niodev").equals("niodev")) {
                runRank(arguments, slurm);
            } else {
                throw new IllegalArgumentException("device is '" + setting("device", "") + "'; choose from niodev, threads");
            }
        } catch (InvocationTargetException error) {
            die(arguments[0] + " died of " + error.getCause(), error.getCause());
        } catch (ReflectiveOperationException error) {
            die("cannot start " + arguments[0] + ": " + error + "; is it compiled, and is MPJ_HOME MPJ Express 0.44?", null);
        } catch (IOException | IllegalArgumentException | InterruptedException error) {
            die(error.getMessage(), null);
        }
        finished = true;
        System.exit(0);  // also where the library has left a thread behind
    }

    /** This rank's part of a step with one JVM a task. */
    private static void runRank(String[] arguments, Map<String, String> slurm)
            throws IOException, ReflectiveOperationException, InterruptedException {
        int ranks = number("SLURM_NTASKS", slurm.get("SLURM_NTASKS"), 1, MOST_RANKS);
        int rank = number("SLURM_PROCID", slurm.get("SLURM_PROCID"), 0, ranks - 1);
        int first = number("port", setting("port", ""), 1024, 65535);
        int count = number("ports", setting("ports", "16"), 1, 65536 - first);
        int patience = number("patience", setting("patience", "60"), 1, 86400);
        String job = number("SLURM_JOB_ID", slurm.get("SLURM_JOB_ID"), 1, Integer.MAX_VALUE) + "."
            + number("SLURM_STEP_ID", slurm.getOrDefault("SLURM_STEP_ID", "0"), 0, Integer.MAX_VALUE);
        String pattern = setting("hosts", "{}");
        List<String> names = nodes(slurm);
        InetAddress own = own(slurm, pattern), head = resolve(pattern.replace("{}", names.get(0)));
        if (names.size() > 1 && own.isLoopbackAddress())
            throw new IOException("the name of this node, " + node(slurm) + ", is " + own.getHostAddress()
                                  + " on itself, where no other node reaches it: mend /etc/hosts, or give java_hosts in the "
                                  + "extras");
        me = "rank " + rank + " on " + node(slurm);
        JobAddress.own = own;
        System.setProperty("nearmetal.address", own.getHostAddress());  // for programs that measure that network themselves
        if (rank == 0) {
            Set<InetAddress> allowed = new HashSet<>();
            for (String name : names) allowed.addAll(Arrays.asList(InetAddress.getAllByName(pattern.replace("{}", name))));
            Rendezvous server = rendezvous = new Rendezvous(job, own, first, count, allowed, ranks);
            Rendezvous.background("patience", () -> watch(server, patience));
        }
        int port = join(job, rank, head, own, first, count, patience);
        programs = new Thread[] {Thread.currentThread()};
        start(Class.forName(arguments[0]), arguments,
              String.valueOf(rank), configuration(ranks, head.getHostAddress(), port), "niodev");
    }

    /** What niodev takes for its configuration. */
    static String configuration(int ranks, String host, int port) {
        return "#Number of Processes;" + ranks + ";#Protocol Switch Limit;131072;#Server Name;" + host
            + ";#Server Port;" + port;
    }

    private static void start(Class<?> program, String[] arguments, String... library) throws ReflectiveOperationException {
        List<String> all = new ArrayList<>(List.of(library));
        all.addAll(List.of(arguments).subList(1, arguments.length));
        program.getMethod("main", String[].class).invoke(null, (Object) all.toArray(new String[0]));
    }

    /** All ranks as threads of this JVM: each has library and program to itself, and shares the device with the others. */
    private static void runThreads(String[] arguments, int ranks)
            throws IOException, ReflectiveOperationException, InterruptedException {
        List<URL> path = new ArrayList<>();
        for (String part : setting("app", "").split(java.io.File.pathSeparator)) path.add(Path.of(part).toUri().toURL());
        programs = new Thread[ranks];
        for (int rank = 0; rank < ranks; rank++) {
            ThreadGroup group = (ThreadGroup) Class.forName("xdev.smpdev.SMPDevProcess").getConstructor(String.class)
                .newInstance("MPI" + rank);
            URLClassLoader loader = new URLClassLoader(path.toArray(new URL[0]), NearmetalRun.class.getClassLoader());
            Class<?> program = Class.forName(arguments[0], true, loader);
            String number = String.valueOf(rank);
            programs[rank] = new Thread(group, () -> {
                try {
                    start(program, arguments, number, String.valueOf(ranks), "smpdev");
                } catch (InvocationTargetException error) {
                    die("rank " + number + " of " + arguments[0] + " died of " + error.getCause(), error.getCause());
                } catch (ReflectiveOperationException error) {
                    die("cannot start " + arguments[0] + ": " + error, null);
                }
            }, number);
            programs[rank].setContextClassLoader(loader);
        }
        for (Thread thread : programs) thread.start();
        for (Thread thread : programs) thread.join();
    }

    /** Finds rank 0 at one of the job's ports, says that this rank is there, and goes on saying so; returns the port. */
    static int join(String job, int rank, InetAddress host, InetAddress own, int first, int count, int patience)
            throws IOException, InterruptedException {
        long end = System.nanoTime() + patience * 1_000_000_000L;
        while (System.nanoTime() < end) {
            for (int port = first; port < first + count; port++) {
                Socket socket = new Socket();
                try {
                    socket.bind(new InetSocketAddress(own, 0));
                    socket.connect(new InetSocketAddress(host, port), 2000);
                    new DataOutputStream(socket.getOutputStream()).writeUTF("nearmetal " + job + " " + rank);
                    String said = Rendezvous.text(socket, System.nanoTime() + 2_000_000_000L);
                    if (said.equals("nearmetal " + job + " refused"))
                        throw new IllegalArgumentException("rank " + rank + " is no rank of this job, or there already");
                    if (said.equals("nearmetal " + job)) {
                        socket.setTcpNoDelay(true);
                        Rendezvous.background("beat", () -> beat(socket));
                        return port;
                    }
                } catch (IOException notIt) {
                    // Somebody else's port, or rank 0 is not there yet.
                }
                socket.close();
            }
            Thread.sleep(50);
        }
        throw new IOException("found no rank 0 of job " + job + " at the ports " + first + " to " + (first + count - 1) + " of "
                              + host.getHostAddress() + " within " + patience + " s: did it start, and may nodes reach each "
                              + "other there");
    }

    private static void beat(Socket socket) {
        try {
            while (true) {
                Thread.sleep(BEAT_MS);
                socket.getOutputStream().write(1);
            }
        } catch (IOException | InterruptedException over) {
            // Rank 0 has ended: well, which is no business of this rank, or badly, which ends the step.
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
            die("after " + patience + " s " + missing.size() + " of the ranks have not come to MPI.Init, " + missing
                + "; last heard of were " + server.lastHeard(), null);
    }

    private static List<String> nodes(Map<String, String> slurm) {
        String list = slurm.getOrDefault("SLURM_STEP_NODELIST", slurm.get("SLURM_JOB_NODELIST"));
        if (list == null || slurm.get("SLURM_PROCID") == null)
            throw new IllegalArgumentException(
                "this is no step of a Slurm job (no SLURM_PROCID, SLURM_STEP_NODELIST): start it with srun");
        return NodeList.expand(list);
    }

    private static String node(Map<String, String> slurm) {
        return slurm.getOrDefault("SLURMD_NODENAME", "localhost");
    }

    /** This node's address on the job's network, of which an interface of this node is to have it. */
    private static InetAddress own(Map<String, String> slurm, String pattern) throws IOException {
        String name = pattern.replace("{}", node(slurm));
        InetAddress address = resolve(name);
        if (NetworkInterface.getByInetAddress(address) == null)
            throw new IOException("this node has no interface with the address of " + name + ", " + address.getHostAddress()
                                  + ": what the extras call java_hosts is to name the node's own address");
        return address;
    }

    private static InetAddress resolve(String name) throws IOException {
        try {
            return InetAddress.getByName(name);
        } catch (IOException unknown) {
            throw new IOException(
                "the node name " + name + " has no address: mend /etc/hosts or DNS, or java_hosts in the extras");
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
        throw new IllegalArgumentException(name + " is '" + text + "', not a whole number from " + least + " to " + most);
    }

    /** One sentence, and the end of this JVM, whatever its other threads do. */
    static void die(String sentence, Throwable error) {
        System.out.flush();
        String advice = error instanceof OutOfMemoryError ? ": give it more (java_heap_mb), or more nodes" : "";
        System.err.println("mpj: " + me + ": " + sentence + advice + ".");
        if (error != null) error.printStackTrace();
        System.err.flush();
        Runtime.getRuntime().halt(FAILED);
    }

    /** Before an end that the program did not come to by itself: where it was, and who was last heard of. */
    private static void lastWords() {
        if (finished) return;
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet()) {
            StackTraceElement[] stack = entry.getValue();
            if (entry.getKey().getName().startsWith("SIG") && entry.getKey().getName().endsWith(" handler")) {
                String signal = entry.getKey().getName().replace(" handler", "");
                StringBuilder words = new StringBuilder("mpj: " + me + " was ended by " + signal);
                for (Thread program : programs) if (program.isAlive()) words.append(", ").append(at(program.getStackTrace()));
                System.err.println(words + (rendezvous == null ? "." : "; last heard of were " + rendezvous.lastHeard() + "."));
                System.err.flush();
                return;
            }
            // The library ends the JVM here and there, some of it with 0.
            for (int frame = 0; frame + 1 < stack.length; frame++)
                if (stack[frame].getClassName().equals("java.lang.System") && stack[frame].getMethodName().equals("exit")
                        && stack[frame + 1].getClassName().matches("(xdev|mpjdev|mpi|mpjbuf|runtime)\\..*"))
                    die("the library gave up at " + stack[frame + 1], null);
        }
    }

    /** The program's innermost line, and the library's call that it is in. */
    private static String at(StackTraceElement[] stack) {
        for (int frame = 0; frame < stack.length; frame++)
            if (!stack[frame].getClassName().matches("(java|jdk|sun|xdev|mpjdev|mpi|mpjbuf|launch)\\..*"))
                return "at " + stack[frame].toString().replaceFirst("^.*/", "") + (frame == 0 ? "" : " in "
                    + stack[frame - 1].getClassName() + "." + stack[frame - 1].getMethodName());
        return "outside of the program";
    }
}
