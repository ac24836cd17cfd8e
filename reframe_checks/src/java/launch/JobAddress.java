package launch;

import java.net.InetAddress;
import java.net.InetSocketAddress;

/**
 * What niodev takes for java.net.InetSocketAddress (see Confine): where it names a port alone,
 * which is where it listens, the address is this node's on the job's network and not that of all
 * networks.
 */
public final class JobAddress extends InetSocketAddress {
    private static final long serialVersionUID = 1;
    static volatile InetAddress own;

    public JobAddress(int port) {
        super(listenOn(), port);
    }

    public JobAddress(String host, int port) {
        super(host, port);
    }

    private static InetAddress listenOn() {
        if (own == null)
            throw new IllegalStateException("niodev was not started by launch.NearmetalRun");
        return own;
    }
}
