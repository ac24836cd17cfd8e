// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.rank;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;
import mpi.Request;
import mpi.Status;

/** Several Java threads, the collector while a rank waits, and random messages. */
public final class ThreadsTest {
    private ThreadsTest() {}

    public static void severalThreads() throws MPIException, InterruptedException {
        if (MPI.Query_thread() != MPI.THREAD_MULTIPLE) return;
        int threads = 4, rounds = 25;
        AtomicReference<Throwable> failure = new AtomicReference<>();
        List<Thread> started = new ArrayList<>();
        Intracomm[] comms = new Intracomm[threads];
        for (int t = 0; t < threads; t++) comms[t] = (Intracomm) world.clone();
        for (int t = 0; t < threads; t++) {
            int tag = t;
            Thread thread = new Thread(() -> {
                try {
                    int[] to = new int[1 + 20000 * (tag % 2)], sum = new int[1];
                    int[] from = new int[to.length];
                    for (int round = 0; round < rounds; round++) {
                        from[0] = 1000 * rank + round;
                        world.Sendrecv(from, 0, from.length, MPI.INT, next(world), tag, to, 0,
                            to.length, MPI.INT, previous(world), tag);
                        same(1000 * previous(world) + round, to[0]);
                        comms[tag].Allreduce(new int[] {1}, 0, sum, 0, 1, MPI.INT, MPI.SUM);
                        same(world.Size(), sum[0]);
                    }
                } catch (Throwable thrown) {
                    failure.compareAndSet(null, thrown);
                }
            });
            thread.start();
            started.add(thread);
        }
        for (Thread thread : started) thread.join();
        for (Intracomm comm : comms) comm.Free();
        if (failure.get() != null) throw new AssertionError(failure.get());
    }

    /** A collection ends while the main thread waits in a receive. */
    public static void collectorWhileWaiting() throws MPIException, InterruptedException {
        if (MPI.Query_thread() != MPI.THREAD_MULTIPLE) return;
        for (int n : new int[] {1, 50000}) {
            int[] to = new int[n], from = new int[n];
            from[n - 1] = 8;
            Main.Part sender = new Main.Part(Thread.ofPlatform(), () -> {
                System.gc(); // needs all threads at a safepoint, the one that receives too
                System.gc();
                world.Send(from, 0, n, MPI.INT, rank, 60);
            });
            world.Recv(to, 0, n, MPI.INT, rank, 60);
            sender.end();
            same(8, to[n - 1]);
        }
    }

    /** All ranks know all messages by the seed, and so what each receive has to get. */
    public static void randomMessages() throws MPIException {
        Random random = new Random(20030213);
        int ranks = world.Size();
        for (int round = 0; round < 20; round++) {
            List<Request> requests = new ArrayList<>();
            List<int[]> got = new ArrayList<>(), expected = new ArrayList<>();
            for (int message = 0; message < 20; message++) {
                int from = random.nextInt(ranks), to = random.nextInt(ranks);
                int length = 1 + random.nextInt(random.nextInt(10) == 0 ? 60000 : 300);
                boolean isend = random.nextBoolean();
                int seed = random.nextInt();
                int[] content = new Random(seed).ints(length).toArray();
                if (to == rank) {
                    int[] room = new int[length];
                    requests.add(world.Irecv(room, 0, length, MPI.INT, from, message));
                    got.add(room);
                    expected.add(content);
                }
                if (from == rank)
                    requests.add(isend || to == rank || length > 500
                            ? world.Isend(content, 0, length, MPI.INT, to, message)
                            : world.Issend(content, 0, length, MPI.INT, to, message));
            }
            Status[] statuses = Request.Waitall(requests.toArray(new Request[0]));
            same(requests.size(), statuses.length);
            for (int i = 0; i < got.size(); i++) same(expected.get(i), got.get(i));
        }
    }
}
