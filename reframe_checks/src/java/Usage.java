import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;

/** What the kernel gave this JVM while it measured, printed at its end, as src/usage.h does. */
final class Usage {
    private static final AtomicBoolean BEGUN = new AtomicBoolean();

    /** Seconds of the living threads: on a processor, and in run queues. */
    private final double cpu, wait;
    /** Involuntary context switches. */
    private final long involuntary;
    /** Whether the kernel says all of it. */
    private final boolean known;
    private final long clock = System.nanoTime();

    private Usage() {
        long ran = 0, waited = 0, switches = 0;
        boolean told = false;
        try (DirectoryStream<Path> tasks = Files.newDirectoryStream(Path.of("/proc/self/task"))) {
            for (final Path task : tasks) {
                try {
                    final String[] words =
                        Files.readString(task.resolve("schedstat")).trim().split(" ");
                    ran += Long.parseLong(words[0]);
                    waited += Long.parseLong(words[1]);
                    for (final String line : Files.readAllLines(task.resolve("status")))
                        if (line.startsWith("nonvoluntary_ctxt_switches:"))
                            switches +=
                                Long.parseLong(line.substring(line.indexOf(':') + 1).trim());
                    told = true;
                } catch (IOException ended) {
                    continue; // the thread has ended
                }
            }
        } catch (IOException unreadable) {
            told = false;
        }
        cpu = ran * 1e-9;
        wait = waited * 1e-9;
        involuntary = switches;
        known = told;
    }

    /** Once in a JVM: its end prints one line. */
    static void begin() {
        if (!BEGUN.compareAndSet(false, true)) return;
        final Usage start = new Usage();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> start.print(new Usage()), "usage"));
    }

    /** Its threads also wait for one another, so that the wait has a name of its own. */
    private void print(Usage now) {
        System.out.printf(Locale.ROOT,
            "# nearmetal usage: host=%s wall=%.6f cpu=%.6f jvm_wait=%.6f involuntary=%d%n",
            Program.host(), (now.clock - clock) * 1e-9, Math.max(0, now.cpu - cpu),
            known && now.known ? Math.max(0, now.wait - wait) : -1,
            Math.max(0, now.involuntary - involuntary));
        System.out.flush();
    }
}
