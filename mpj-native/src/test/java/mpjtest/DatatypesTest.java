// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.next;
import static mpjtest.Main.previous;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import mpi.Datatype;
import mpi.MPI;
import mpi.MPIException;
import mpi.Status;

/** Derived datatypes: their elements, their bounds, and messages of them. */
public final class DatatypesTest {
    private DatatypesTest() {}

    private static final int[] NUMBERS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

    /** The elements of items of a type, as a receiver of plain integers gets them. */
    private static void sends(Datatype type, int offset, int count, int... expected)
        throws MPIException {
        type.Commit();
        int[] to = new int[expected.length];
        Status status = world.Sendrecv(NUMBERS, offset, count, type, next(world), 1, to, 0,
            to.length, MPI.INT, previous(world), 1);
        same(expected, to);
        same(expected.length, status.Get_elements(MPI.INT));
        same(count, status.Get_count(type));
        // And back into the same places.
        int[] back = new int[NUMBERS.length], wanted = new int[NUMBERS.length];
        for (int place : expected) wanted[place] = place;
        world.Sendrecv(to, 0, to.length, MPI.INT, next(world), 1, back, offset, count, type,
            previous(world), 1);
        same(wanted, back);
    }

    private static void bounds(Datatype type, int size, int lower, int upper) throws MPIException {
        same(size, type.Size());
        same(lower, type.Lb());
        same(upper, type.Ub());
        same(upper - lower, type.Extent());
    }

    public static void contiguous() throws MPIException {
        Datatype type = Datatype.Contiguous(3, MPI.INT);
        bounds(type, 3, 0, 3);
        sends(type, 1, 2, 1, 2, 3, 4, 5, 6);
    }

    public static void vector() throws MPIException {
        Datatype type = Datatype.Vector(2, 2, 3, MPI.INT);
        bounds(type, 4, 0, 5);
        sends(type, 1, 2, 1, 2, 4, 5, 6, 7, 9, 10);
        Datatype outer = Datatype.Vector(2, 1, 2, Datatype.Contiguous(2, MPI.INT));
        bounds(outer, 4, 0, 6);
        sends(outer, 0, 1, 0, 1, 4, 5);
        sends(Datatype.Vector(2, 1, -2, MPI.INT), 4, 1, 4, 2);
    }

    public static void hvector() throws MPIException {
        Datatype type = Datatype.Hvector(2, 1, 3, Datatype.Contiguous(2, MPI.INT));
        bounds(type, 4, 0, 5);
        sends(type, 0, 1, 0, 1, 3, 4);
    }

    public static void indexed() throws MPIException {
        Datatype two = Datatype.Contiguous(2, MPI.INT);
        Datatype type = Datatype.Indexed(new int[] {1, 2}, new int[] {2, 0}, two);
        bounds(type, 6, 0, 6);
        sends(type, 1, 1, 5, 6, 1, 2, 3, 4);
        sends(Datatype.Hindexed(new int[] {1, 1}, new int[] {1, 5}, two), 0, 1, 1, 2, 5, 6);
    }

    public static void struct() throws MPIException {
        Datatype type = Datatype.Struct(new int[] {1, 2, 1, 1}, new int[] {-1, 1, 4, 7},
            new Datatype[] {MPI.LB, MPI.INT, MPI.INT, MPI.UB});
        bounds(type, 3, -1, 7);
        sends(type, 1, 2, 2, 3, 5, 10, 11, 13);
        Datatype pair = Datatype.Contiguous(2, type); // markers hold for what is derived
        bounds(pair, 6, -1, 15);
    }

    public static void columnsOfAMatrix() throws MPIException {
        double[] matrix = new double[100], to = new double[100];
        for (int i = 0; i < 100; i++) matrix[i] = i;
        Datatype column = Datatype.Vector(10, 1, 10, MPI.DOUBLE);
        column.Commit();
        world.Sendrecv(matrix, 3, 1, column, next(world), 1, to, 4, 1, column, previous(world), 1);
        for (int i = 0; i < 10; i++) same(i * 10 + 3.0, to[i * 10 + 4]);
        boolean[] flags = new boolean[10], got = new boolean[10];
        flags[2] = flags[4] = true;
        Datatype every = Datatype.Vector(5, 1, 2, MPI.BOOLEAN);
        every.Commit();
        world.Sendrecv(flags, 0, 1, every, next(world), 1, got, 1, 1, every, previous(world), 1);
        same(new boolean[] {false, false, false, true, false, true, false, false, false, false},
            got);
    }

    public static void collectivesOfGaps() throws MPIException {
        Datatype odd = Datatype.Struct(
            new int[] {1, 1, 1}, new int[] {0, 1, 2}, new Datatype[] {MPI.LB, MPI.INT, MPI.UB});
        odd.Commit();
        int ranks = world.Size();
        int[] all = new int[2 * ranks];
        world.Allgather(new int[] {-1, world.Rank()}, 0, 1, odd, all, 0, 1, odd);
        for (int r = 0; r < ranks; r++) {
            same(0, all[2 * r]);
            same(r, all[2 * r + 1]);
        }
        int[] line = {5, world.Rank() == 0 ? 6 : 0, 5, world.Rank() == 0 ? 7 : 0};
        world.Bcast(line, 0, 2, odd, 0);
        same(new int[] {5, 6, 5, 7}, line);
        int[] counts = new int[ranks], starts = new int[ranks];
        for (int r = 0; r < ranks; r++) {
            counts[r] = 1;
            starts[r] = ranks - 1 - r;
        }
        int[] turned = new int[2 * ranks];
        world.Allgatherv(new int[] {world.Rank()}, 0, 1, MPI.INT, turned, 0, counts, starts, odd);
        for (int r = 0; r < ranks; r++) same(r, turned[2 * (ranks - 1 - r) + 1]);
        int[] sum = new int[2];
        world.Allreduce(new int[] {9, 1}, 0, sum, 0, 1, odd, MPI.SUM);
        same(new int[] {0, ranks}, sum);
    }

    public static void withoutElements() throws MPIException {
        Datatype none = Datatype.Struct(new int[0], new int[0], new Datatype[0]);
        none.Commit();
        same(0, none.Size() + none.Extent());
        int[] one = {7};
        Status status =
            world.Sendrecv(one, 0, 100, none, world.Rank(), 0, one, 0, 100, none, world.Rank(), 0);
        same(7, one[0]);
        same(0, status.Get_count(none) + status.Get_elements(none));
        Datatype spaced = Datatype.Struct(
            new int[] {1, 1, 1}, new int[] {0, 0, 3}, new Datatype[] {none, MPI.INT, MPI.UB});
        same(3, spaced.Extent());
    }

    public static void wrongOnes() throws MPIException {
        Datatype uncommitted = Datatype.Contiguous(2, MPI.INT);
        refused("not committed", () -> world.Send(NUMBERS, 0, 1, uncommitted, 0, 0));
        uncommitted.Commit();
        uncommitted.Free();
        refused("has been freed", () -> world.Send(NUMBERS, 0, 1, uncommitted, 0, 0));
        refused("marker", () -> world.Send(NUMBERS, 0, 1, MPI.UB, 0, 0));
        refused("same basic type",
            ()
                -> Datatype.Struct(
                    new int[] {1, 1}, new int[] {0, 1}, new Datatype[] {MPI.INT, MPI.LONG}));
        refused("negative", () -> Datatype.Contiguous(-1, MPI.INT));
        refused("negative", () -> Datatype.Vector(1, -1, 1, MPI.INT));
        refused("old datatype is null", () -> Datatype.Vector(1, 1, 1, null));
        refused("1 block lengths, but 2 displacements",
            () -> Datatype.Indexed(new int[1], new int[2], MPI.INT));
        refused("more than an int", () -> Datatype.Vector(3, 1, 1 << 30, MPI.INT));
        refused("cannot be freed", () -> MPI.INT.Free());
    }
}
