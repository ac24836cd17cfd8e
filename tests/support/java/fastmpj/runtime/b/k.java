package runtime.b;

import java.net.URL;
import java.nio.file.Path;
import java.util.Arrays;

/**
 * Stand-in for FastMPJ 1.0_7, which must not be handed on: what fmpjrun starts for ranks that are
 * threads. It takes the user's classes from the property user.classpath and never from CLASSPATH,
 * and ends with 0 although a thread died.
 */
public final class k {
    private k() {}

    public static void main(String[] arguments) throws Exception {
        String home = System.getenv("FMPJ_HOME"), classes = System.getProperty("user.classpath");
        if (home == null || classes == null)
            throw new IllegalStateException("FMPJ_HOME and user.classpath must be set");
        URL[] path = {
            Path.of(home, "lib/mpj.jar").toUri().toURL(), Path.of(classes).toUri().toURL()};
        String[] own = Arrays.copyOfRange(arguments, 1, arguments.length);
        m[] threads = new m[Integer.getInteger("mpj.nprocs")];
        for (int rank = 0; rank < threads.length; rank++)
            threads[rank] = new m(rank, arguments[0], path, own);
        for (m thread : threads) thread.start();
        for (m thread : threads) thread.join();
    }
}
