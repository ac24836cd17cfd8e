// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import mpi.Comm;
import mpi.MPI;
import mpi.MPIException;

/**
 * Prints how many bytes a round trip of 1 KiB, or of the bytes given, between two ranks allocates
 * in the steady state.
 */
public final class Allocations {
    private static final int ROUNDS = 20000;

    private Allocations() {}

    public static void main(String[] arguments) throws MPIException {
        String[] own = MPI.Init(arguments);
        int bytes = own.length > 0 ? Integer.parseInt(own[0]) : 1024;
        Comm world = MPI.COMM_WORLD;
        int rank = world.Rank(), other = 1 - rank;
        byte[] buffer = new byte[bytes];
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        long before = 0;
        for (int i = 0; i < 2 * ROUNDS; i++) {
            if (i == ROUNDS) before = threads.getCurrentThreadAllocatedBytes();
            if (rank == 0) world.Send(buffer, 0, bytes, MPI.BYTE, other, 0);
            world.Recv(buffer, 0, bytes, MPI.BYTE, other, 0);
            if (rank == 1) world.Send(buffer, 0, bytes, MPI.BYTE, other, 0);
        }
        double each = (threads.getCurrentThreadAllocatedBytes() - before) / (double) ROUNDS;
        if (rank == 0) System.out.printf("%.1f bytes for each round trip%n", each);
        MPI.Finalize();
    }
}
