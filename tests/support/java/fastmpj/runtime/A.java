package runtime;

/** Stand-in: what FastMPJ wraps an exception of a rank's thread into. */
public class A extends RuntimeException {
    private static final long serialVersionUID = 1;

    public A(Throwable cause) {
        super(cause);
    }
}
