"""NWChem: the MP2 gradient of water clusters."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.application import TIME, Application, Problem
from nearmetal.checks.parsing.nwchem import parse_nwchem

#: Tolerance of the energy (Hartree), and of the gradient's norm (Hartree/Bohr). NWChem prints six
#: decimals of each component.
ENERGY, GRADIENT = 1e-6, 2e-5


class Gradient(Problem):
    """A water cluster. Its sizes are total energy and norm of the gradient by PySCF."""

    program, title = "nwchem", "NWChem"
    sizes = {
        "S": (-76.1938862779, 0.0488458),
        "W": (-228.7911600032, 0.0499656),
        "A": (-533.7252604701, 0.0596418),
    }
    quantity, unit, value = "gradient", "s", TIME

    def preparations(self, program):
        # Integrals go to each node's own disk, under a name that no other job has.
        return [
            (
                '{ printf "start water_$$\\nscratch_dir %s\\n" "${TMPDIR:-/tmp}"; '
                f"cat apps/water_{self.size}.nw; }} > water.nw"
            )
        ]

    def clean_up(self):
        return ['rm -f "${TMPDIR:-/tmp}"/water_$$.*']

    def options(self):
        return ["water.nw"]

    def read(self, text):
        launches = parse_nwchem(text)
        energy, norm = self.sizes[self.size]
        for run in launches:
            if abs(run.energy - energy) > ENERGY or abs(run.norm - norm) > GRADIENT:
                raise SanityError(
                    f"energy and norm of the gradient are {run.energy:.9f} and {run.norm:.6f} on "
                    f"{run.processes} processes instead of {energy} and {norm}: NWChem or a "
                    "library of it computes wrongly"
                )
        return launches


@rfm.simple_test
class nwchem(Application):
    """Seconds and parallel efficiency of an MP2 gradient of a water cluster with NWChem over the
    number of processes.

    Method: SCF, semi-direct MP2 and its gradient of a ring of water molecules, from scratch. PySCF
    2.14, another program, gives energy and gradient for the same atoms and basis: NWChem's must
    agree. The forces must add up to zero.

    Why: Global Arrays fetch and add small blocks of other processes' memory without their help. Of
    the applications, NWChem depends most on start-up latency, and more so on more processes.

    Reproduces: the InfiniBand post's MP2 gradient of (H2O)7, about 16 % slower than native on 64
    processes: `-S nwchem.size=A -S nwchem.processes=4,8,16,32,64`. The post does not give basis and
    geometry: ours are cc-pVDZ and a ring.

    Read: `gradient_A_8` is the wall time in s of the gradient of (H2O)7 on 8 processes, with SCF
    and without start-up. `efficiency_A_8` is the time of one process over 8 times that. It is
    relative to the fewest processes of the same round.
    """

    #: Size -> total energy and norm of the gradient by PySCF. `S`: one molecule, 6-31G*. `W`: a
    #: ring of 3, aug-cc-pVDZ. `A`: a ring of 7, cc-pVDZ.
    sizes = Gradient.sizes
    computes = Gradient
    own_extras = {"size": "nwchem_size", "ranks_per_node": "nwchem_ranks_per_node"}
    program = Gradient.program
    # A launch of A takes minutes, and even one of S sends 40000 messages each way.
    repeats = 1
    valid_prog_environs = ["+mpi +nwchem"]
