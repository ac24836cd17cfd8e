"""Programs as the tests of this directory build and start them."""

from tests.support.jvm_ranks import built, ranks
from tests.support.programs import mpi

__all__ = ["built", "mpi", "ranks"]
