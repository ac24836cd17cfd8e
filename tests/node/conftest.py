"""Programs as the tests of this directory build and start them. Each is built once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from nearmetal.checks.programs import flags_of
from tests.support.jvm_ranks import built, ranks
from tests.support.programs import MPI, build, run, slepc

__all__ = ["built", "ranks"]
SERIAL = ("stream", "osnoise", "pages")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Our C programs, by MPI library or `serial`, and name."""
    directory = tmp_path_factory.mktemp("programs")
    names = [source.removesuffix(".c") for source in flags_of()]
    of_mpi = [name for name in names if name not in (*SERIAL, "eigen")]
    keys = [(library, name) for library in MPI for name in of_mpi]
    keys += [("serial", name) for name in SERIAL]

    def built_as(key):
        library, name = key
        return build(library, f"{name}.c", directory / f"{library}-{name.replace('/', '-')}")

    with ThreadPoolExecutor(2) as pool:
        eigen = pool.submit(build, "openmpi", "eigen.c", directory / "eigen", *slepc())
        done = dict(zip(keys, pool.map(built_as, keys)))
        return {**done, ("openmpi", "eigen"): eigen.result()}


@pytest.fixture
def launch(programs):
    """Runs a program of an MPI library to its end."""

    def start(library, processes, name, *options, **environment):
        program = programs[library, name]
        return run([*MPI[library], "-n", processes, program, *options], **environment)

    return start
