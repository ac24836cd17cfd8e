// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.rank;
import static mpjtest.Main.ranks;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import mpi.Comm;
import mpi.Group;
import mpi.Intercomm;
import mpi.Intracomm;
import mpi.MPI;
import mpi.MPIException;

/** Groups, communicators, intercommunicators and attributes. */
public final class GroupsTest {
    private GroupsTest() {}

    public static void groups() throws MPIException {
        Group all = world.Group();
        same(ranks, all.Size());
        same(rank, all.Rank());
        Group first = all.Incl(new int[] {0}), rest = all.Excl(new int[] {0});
        same(1, first.Size());
        same(ranks - 1, rest.Size());
        same(rank == 0 ? 0 : MPI.UNDEFINED, first.Rank());
        same(MPI.IDENT, Group.Compare(Group.Union(first, rest), all));
        same(0, Group.Intersection(first, rest).Size());
        same(MPI.IDENT, Group.Compare(Group.Difference(all, first), rest));
        same(0, MPI.GROUP_EMPTY.Size());
        Group turned = all.Range_incl(new int[][] {{ranks - 1, 0, -1}});
        same(ranks - 1 - rank, turned.Rank());
        same(ranks == 1 ? MPI.IDENT : MPI.SIMILAR, Group.Compare(all, turned));
        same(new int[] {ranks - 1}, Group.Translate_ranks(all, new int[] {0}, turned));
        same(0, all.Range_excl(new int[][] {{0, ranks - 1, 1}}).Size());
        turned.Free();
        holds(turned.Is_null(), "a freed group is null");
        refused("has been freed", () -> turned.Size());
        refused("is not from 0", () -> all.Incl(new int[] {ranks}));
        refused("stride", () -> all.Range_incl(new int[][] {{0, 0, 0}}));
        refused("group is null", () -> Group.Union(all, null));
    }

    public static void splitAndCreate() throws MPIException {
        Intracomm half = world.Split(rank % 2, -rank);
        int size = (ranks + 1 - rank % 2) / 2;
        same(size, half.Size());
        same(size - 1 - rank / 2, half.Rank());
        int[] sum = new int[1];
        half.Allreduce(new int[] {1}, 0, sum, 0, 1, MPI.INT, MPI.SUM);
        same(size, sum[0]);
        half.Free();
        holds(half.Is_null(), "a freed communicator is null");
        refused("has been freed", () -> half.Barrier());
        Intracomm none = world.Split(rank == 0 ? MPI.UNDEFINED : 1, 0);
        same(rank == 0, none == null);
        Intracomm zero = world.Create(world.Group().Incl(new int[] {0}));
        same(rank == 0, zero != null);
        if (zero != null) same(1, zero.Size());
        refused("color -1", () -> world.Split(-1, 0));
    }

    public static void duplicates() throws MPIException {
        Intracomm copy = (Intracomm) world.clone();
        same(MPI.CONGRUENT, Comm.Compare(world, copy));
        same(MPI.IDENT, Comm.Compare(world, world));
        same(ranks == 1 ? MPI.CONGRUENT : MPI.UNEQUAL, Comm.Compare(world, MPI.COMM_SELF));
        holds(!copy.Test_inter(), "it is no intercommunicator");
        same(MPI.UNDEFINED, copy.Topo_test());
        // Messages of one do not reach the other.
        int[] to = new int[1];
        mpi.Request one = world.Isend(new int[] {1}, 0, 1, MPI.INT, rank, 0);
        mpi.Request two = copy.Isend(new int[] {2}, 0, 1, MPI.INT, rank, 0);
        copy.Recv(to, 0, 1, MPI.INT, rank, 0);
        same(2, to[0]);
        world.Recv(to, 0, 1, MPI.INT, rank, 0);
        same(1, to[0]);
        one.Wait();
        two.Wait();
        copy.Free();
        refused("cannot be freed", () -> world.Free());
    }

    public static void attributes() throws MPIException {
        int key = Comm.Keyval_create();
        Intracomm copy = (Intracomm) world.clone();
        holds(copy.Attr_get(key) == null, "it is not set");
        copy.Attr_put(key, "value");
        Intracomm next = (Intracomm) copy.clone();
        same("value", next.Attr_get(key));
        next.Attr_delete(key);
        holds(next.Attr_get(key) == null, "it has been removed");
        same("value", copy.Attr_get(key));
        refused("no attribute", () -> next.Attr_delete(key));
        refused("not of Keyval_create", () -> copy.Attr_put(5, ""));
        next.Free();
        copy.Free();
    }

    public static void errorHandlers() throws MPIException {
        same(MPI.ERRORS_RETURN, world.Errhandler_get());
        Intracomm copy = (Intracomm) world.clone();
        copy.Errhandler_set(MPI.ERRORS_ARE_FATAL);
        same(MPI.ERRORS_ARE_FATAL, copy.Errhandler_get());
        copy.Errhandler_set(MPI.ERRORS_RETURN);
        copy.Free();
    }

    public static void intercommunicators() throws MPIException {
        if (ranks < 2) return;
        Intracomm half = world.Split(rank % 2, rank);
        Intercomm inter = world.Create_intercomm(half, 0, 1 - rank % 2, 3);
        holds(inter.Test_inter(), "it is an intercommunicator");
        same(half.Size(), inter.Size());
        int remote = (ranks + rank % 2) / 2;
        same(remote, inter.Remote_size());
        same(remote, inter.Remote_group().Size());
        int[] to = new int[1];
        int peer = inter.Rank() % remote;
        if (inter.Rank() == 0)
            inter.Sendrecv(new int[] {rank}, 0, 1, MPI.INT, 0, 1, to, 0, 1, MPI.INT, 0, 1);
        if (inter.Rank() == 0) same(1 - rank, to[0]);
        refused("no rank from 0", () -> inter.Send(to, 0, 1, MPI.INT, remote, 0));
        same(peer, peer);
        Intracomm merged = inter.Merge(rank % 2 == 1);
        same(ranks, merged.Size());
        int[] order = new int[ranks];
        merged.Allgather(new int[] {rank}, 0, 1, MPI.INT, order, 0, 1, MPI.INT);
        same(0, order[0]);
        same(rank % 2 == 0, merged.Rank() < (ranks + 1) / 2);
        Intercomm copy = (Intercomm) inter.clone();
        same(remote, copy.Remote_size());
        copy.Free();
        merged.Free();
        inter.Free();
        half.Free();
    }
}
