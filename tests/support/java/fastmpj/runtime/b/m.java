package runtime.b;

import java.lang.reflect.InvocationTargetException;
import java.net.URL;
import java.net.URLClassLoader;

/** Stand-in: the thread of a rank, with classes of its own. */
public final class m extends Thread {
    private final String main;
    private final URL[] path;
    private final String[] arguments;

    m(int rank, String main, URL[] path, String[] arguments) {
        this.main = main;
        this.path = path;
        this.arguments = arguments;
        setName(String.valueOf(rank));
    }

    @Override
    public void run() {
        try {
            Class.forName(main, true, new URLClassLoader(path))
                .getMethod("main", String[].class)
                .invoke(null, (Object) arguments);
        } catch (ReflectiveOperationException error) {
            throw new runtime.A(error);
        }
    }
}
