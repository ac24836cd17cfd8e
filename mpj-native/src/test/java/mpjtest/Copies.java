// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import java.util.Locale;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/**
 * Half round trips in us of messages that stay the same, or that are written anew before they are
 * sent: Copies same|fresh [heap|direct]. The counterpart in C is ../../c/copies.c.
 *
 * <p>Of a message that stays the same, the receiver's cache keeps the lines. In C the library reads
 * them there. The copy of an array is written for each message, as a fresh message is.
 */
public final class Copies {
    private static final int MOST = 1 << 22, ROUNDS = 25, PASSES = 3;
    private static final int[] SIZES = {1, 1024, 4096, 16384, 65536, 262144, 1 << 20, MOST};

    private final Intracomm world = MPI.COMM_WORLD;
    private final int rank, other;
    private final boolean fresh;
    private final Object sent, received;
    private final MemorySegment memory;

    private Copies(boolean fresh, boolean direct) throws MPIException {
        rank = world.Rank();
        other = 1 - rank;
        this.fresh = fresh;
        byte[] array = new byte[MOST];
        memory = direct ? Arena.global().allocate(MOST, 64) : MemorySegment.ofArray(array);
        sent = direct ? memory : array;
        received = direct ? Arena.global().allocate(MOST, 64) : new byte[MOST];
    }

    public static void main(String[] arguments) throws MPIException {
        MPI.Init(arguments);
        boolean fresh = arguments[0].equals("fresh");
        boolean direct = arguments.length > 1 && arguments[1].equals("direct");
        String times = new Copies(fresh, direct).measured();
        if (MPI.COMM_WORLD.Rank() == 0)
            System.out.println("Java, " + (fresh ? "fresh" : "same") + ", "
                + (direct ? "direct" : "heap") + ":" + times);
        MPI.Finalize();
    }

    private void trips(int count, int bytes) throws MPIException {
        MemorySegment message = memory.asSlice(0, bytes);
        for (int i = 0; i < count; i++) {
            if (fresh) message.fill((byte) i);
            if (rank == 0) world.Send(sent, 0, bytes, MPI.BYTE, other, 1);
            world.Recv(received, 0, bytes, MPI.BYTE, other, 1);
            if (rank == 1) world.Send(sent, 0, bytes, MPI.BYTE, other, 1);
        }
    }

    /** The medians of the last pass; the ones before are for the JIT compiler. */
    private String measured() throws MPIException {
        StringBuilder text = new StringBuilder();
        for (int pass = 1; pass <= PASSES; pass++) {
            text.setLength(0);
            for (int bytes : SIZES) {
                int trips = Math.clamp(30_000_000 / (bytes + 10_000), 5, 2000);
                double[] us = new double[ROUNDS];
                for (int round = 0; round < ROUNDS; round++) {
                    world.Barrier();
                    long start = System.nanoTime();
                    trips(trips, bytes);
                    us[round] = (System.nanoTime() - start) / 2e3 / trips;
                }
                Arrays.sort(us);
                text.append(String.format(Locale.ROOT, " %d=%.2f", bytes, us[ROUNDS / 2]));
            }
        }
        return text.toString();
    }
}
