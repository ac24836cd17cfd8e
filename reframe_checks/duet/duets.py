"""Two environments, partitions, bindings or kinds of pages compared in one job, more finely than in
two campaigns.

    reframe -c reframe_checks/duet -r --system lab:native -n pingpong_duet -S environs=openmpi,mpich
    reframe -c reframe_checks/duet -r --system lab -n pingpong_duet -p '^mpich$' \\
        -S partitions=native,emulated
    reframe -c reframe_checks/duet -r --system lab:native -n stream_duet -S bindings=bound,unbound
    reframe -c reframe_checks/duet -r --system lab:native -n pingpong_duet -S page_sizes=small,large
    nearmetal duet

Duets are no part of the campaign of `-c reframe_checks`. A check becomes a duet by the lines below.
"""

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks.duet.base import Duet

from ..collectives import collectives
from ..launch import launch
from ..npb import npb
from ..pingpong import pingpong
from ..stream import OPENMP, stream_base

SOURCES = "../src"


@rfm.simple_test
class pingpong_duet(Duet, pingpong):
    """PingPong of A and of B, interleaved: two MPI libraries, or two kinds of link.

    Method: duet benchmarking (Bulej et al., ICPE 2020), one after the other because two at once
    would share the link.
    """

    sourcesdir = SOURCES
    placement = builtin.parameter(["internode", "intranode"], loggable=True)
    by_default = "environs", ["openmpi", "mpich"]
    kinds = ["environs", "partitions", "page_sizes"]
    time_limit = "30m"


@rfm.simple_test
class stream_duet(Duet, stream_base):
    """STREAM of A and of B, interleaved: threads bound to cores and unbound, two compilers, or two
    kinds of node.

    Method: duet benchmarking (Bulej et al., ICPE 2020), one after the other because two at once
    would share the memory.
    """

    sourcesdir = SOURCES
    by_default = "bindings", ["bound", "unbound"]
    kinds = ["environs", "partitions", "bindings"]
    binding = "bound"
    environment_by_binding = OPENMP
    time_limit = "30m"


@rfm.simple_test
class npb_duet(Duet, npb):
    """A kernel of NPB on A and on B, interleaved: the loss of parallel efficiency to the link or
    the library.

    Method: duet benchmarking (Bulej et al., ICPE 2020), a round of all numbers of processes on A,
    then on B. `efficiency_B_8_a` less `efficiency_B_8_b` is the loss in points, as in the HPC Cloud
    slides.
    """

    sourcesdir = SOURCES
    by_default = "environs", ["openmpi", "mpich"]
    default_nodes = 2  # as many as the pairs have time for
    kinds = ["environs", "partitions", "page_sizes"]


@rfm.simple_test
class collectives_duet(Duet, collectives):
    """Collectives of A and of B, interleaved: two MPI libraries, or two kinds of link.

    Method: duet benchmarking (Bulej et al., ICPE 2020), one after the other because two at once
    would share the link.
    """

    sourcesdir = SOURCES
    by_default = "environs", ["openmpi", "mpich"]
    kinds = ["environs", "partitions", "page_sizes"]


@rfm.simple_test
class launch_duet(Duet, launch):
    """Launches of A and of B, interleaved: what a container costs before the program computes.

    Method: duet benchmarking (Bulej et al., ICPE 2020), a round of all numbers of processes on A,
    then on B.
    """

    sourcesdir = SOURCES
    by_default = "environs", ["openmpi", "openmpi-sif"]
    kinds = ["environs", "partitions"]
