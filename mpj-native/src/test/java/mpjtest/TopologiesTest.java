// SPDX-License-Identifier: BSD-3-Clause
package mpjtest;

import static mpjtest.Main.holds;
import static mpjtest.Main.rank;
import static mpjtest.Main.ranks;
import static mpjtest.Main.refused;
import static mpjtest.Main.same;
import static mpjtest.Main.world;

import mpi.CartParms;
import mpi.Cartcomm;
import mpi.GraphParms;
import mpi.Graphcomm;
import mpi.MPI;
import mpi.MPIException;
import mpi.ShiftParms;

/** Cartesian and graph topologies. */
public final class TopologiesTest {
    private TopologiesTest() {}

    public static void dimensions() throws MPIException {
        int[] dims = {0, 0};
        Cartcomm.Dims_create(6, dims);
        same(new int[] {3, 2}, dims);
        int[] partly = {0, 3};
        Cartcomm.Dims_create(6, partly);
        same(new int[] {2, 3}, partly);
        refused("not above 0", () -> Cartcomm.Dims_create(0, new int[2]));
        refused("negative", () -> Cartcomm.Dims_create(2, new int[] {-1}));
    }

    public static void ring() throws MPIException {
        Cartcomm ring = world.Create_cart(new int[] {ranks, 1}, new boolean[] {true, false}, false);
        same(MPI.CART, ring.Topo_test());
        CartParms parms = ring.Get();
        same(new int[] {ranks, 1}, parms.dims);
        same(new boolean[] {true, false}, parms.periods);
        same(new int[] {rank, 0}, parms.coords);
        same(new int[] {ranks - 1, 0}, ring.Coords(ranks - 1));
        same(0, ring.Rank(new int[] {ranks, 0})); // periodic
        ShiftParms shift = ring.Shift(0, 1);
        same((rank + 1) % ranks, shift.rank_dest);
        same((rank + ranks - 1) % ranks, shift.rank_source);
        shift = ring.Shift(1, 1);
        same(MPI.PROC_NULL, shift.rank_dest);
        same(MPI.PROC_NULL, shift.rank_source);
        Cartcomm line = ring.Sub(new boolean[] {true, false});
        same(ranks, line.Size());
        same(new int[] {ranks}, line.Get().dims);
        Cartcomm copy = (Cartcomm) ring.clone();
        same(new int[] {rank, 0}, copy.Get().coords);
        int place = world.Create_cart(new int[] {ranks}, new boolean[1], false)
                        .Map(new int[] {ranks}, new boolean[1]);
        holds(place >= 0 && place < ranks, "each rank has a place");
        refused("coordinate 1 of dimension 1", () -> ring.Rank(new int[] {0, 1}));
        refused("direction 2", () -> ring.Shift(2, 1));
        refused("2 dimensions", () -> ring.Rank(new int[1]));
        refused("2 dimensions", () -> ring.Sub(new boolean[1]));
        refused("not above 0", () -> world.Create_cart(new int[] {0}, new boolean[1], false));
        refused("1 dimensions, but 2 periods",
            () -> world.Create_cart(new int[] {1}, new boolean[2], false));
    }

    /** Two dimensions, of which the second is periodic: each rank meets its neighbours. */
    public static void grid() throws MPIException {
        int[] dims = new int[2];
        Cartcomm.Dims_create(ranks, dims);
        Cartcomm grid = world.Create_cart(dims, new boolean[] {false, true}, true);
        int me = grid.Rank(); // it may be another one than in the world
        for (int r = 0; r < ranks; r++) same(r, grid.Rank(grid.Coords(r)));
        int[] here = grid.Coords(me);
        same(grid.Rank(new int[] {here[0], dims[1] - 1}), grid.Rank(new int[] {here[0], -1}));
        for (int direction = 0; direction < 2; direction++)
            for (int by : new int[] {1, -1, 2, 0, dims[0]}) {
                ShiftParms shift = grid.Shift(direction, by);
                same(neighbour(grid, dims, here, direction, by), shift.rank_dest);
                same(neighbour(grid, dims, here, direction, -by), shift.rank_source);
                int[] got = {-1};
                grid.Sendrecv(new int[] {me}, 0, 1, MPI.INT, shift.rank_dest, 1, got, 0, 1, MPI.INT,
                    shift.rank_source, 1);
                same(shift.rank_source == MPI.PROC_NULL ? -1 : shift.rank_source, got[0]);
            }
        Cartcomm point = grid.Sub(new boolean[2]); // Open MPI gives most ranks null
        holds(point == null || point.Size() == 1, "no dimension is left");
        same(dims[1], grid.Sub(new boolean[] {false, true}).Size());
        int place = grid.Map(new int[] {1}, new boolean[1]);
        same(me == 0 ? 0 : MPI.UNDEFINED, place);
    }

    private static int neighbour(Cartcomm grid, int[] dims, int[] here, int direction, int by)
        throws MPIException {
        int[] there = here.clone();
        there[direction] += by;
        boolean outside = there[0] < 0 || there[0] >= dims[0];
        return outside ? MPI.PROC_NULL : grid.Rank(there);
    }

    /** Edges in one direction, two of them to the same node, and a node without any. */
    public static void unevenGraph() throws MPIException {
        int[] index = new int[ranks], edges = new int[2 * (ranks - 1)];
        for (int r = 1; r < ranks; r++) {
            index[r] = 2 * r;
            edges[2 * r - 2] = edges[2 * r - 1] = r - 1;
        }
        Graphcomm graph = world.Create_graph(index, edges, false);
        same(0, graph.Neighbours(0).length);
        for (int r = 1; r < ranks; r++) same(new int[] {r - 1, r - 1}, graph.Neighbours(r));
    }

    public static void ranksOutsideGetNull() throws MPIException {
        Cartcomm one = world.Create_cart(new int[] {1}, new boolean[1], false);
        same(rank == 0, one != null);
        Graphcomm alone = world.Create_graph(new int[] {0}, new int[0], false);
        same(rank == 0, alone != null);
    }

    public static void graph() throws MPIException {
        // A star: rank 0 with all others.
        int[] index = new int[ranks], edges = new int[2 * (ranks - 1)];
        for (int r = 0; r < ranks; r++) index[r] = ranks - 1 + r;
        for (int r = 1; r < ranks; r++) edges[r - 1] = r;
        Graphcomm star = world.Create_graph(index, edges, false);
        same(MPI.GRAPH, star.Topo_test());
        GraphParms parms = star.Get();
        same(index, parms.index);
        same(edges, parms.edges);
        same(ranks - 1, star.Neighbours(0).length);
        if (ranks > 1) same(new int[] {0}, star.Neighbours(1));
        Graphcomm copy = (Graphcomm) star.clone();
        same(index, copy.Get().index);
        int place = star.Map(index, edges);
        holds(place >= 0 && place < ranks, "each rank has a place");
        refused("no rank from 0", () -> star.Neighbours(ranks));
        refused("the edge to 9", () -> world.Create_graph(new int[] {1}, new int[] {9}, false));
        refused("the index 2", () -> world.Create_graph(new int[] {2}, new int[] {0}, false));
    }
}
