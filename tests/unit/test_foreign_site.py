"""What another site's words for environments and partitions say to our checks."""

from types import SimpleNamespace

import pytest

from nearmetal.checks import settings
from nearmetal.checks.settings import cores_of_node, nodes_of
from nearmetal.site import foreign


def environ(name="default", cc="cc", features=(), **extras):
    return SimpleNamespace(name=name, cc=cc, features=list(features), extras=extras)


def partition(*environs, name="there:batch", max_jobs=8, cores=None, local=False, **extras):
    return SimpleNamespace(
        fullname=name,
        environs=list(environs),
        extras=extras,
        features=[],
        max_jobs=max_jobs,
        processor=SimpleNamespace(num_cores=cores),
        scheduler=SimpleNamespace(is_local=local),
    )


@pytest.mark.parametrize(
    "one, found",
    [
        (environ(), {"serial", "openmp"}),
        (environ(cc="gcc-13"), {"serial", "openmp"}),
        (environ(cc="mpicc"), {"mpi"}),
        (environ(cc="/opt/intel/bin/mpiicx"), {"mpi"}),
        (environ(cc="mpifcc"), {"mpi"}),
        (environ(cc=""), set()),
        # The site's own names.
        (environ(features=["builtin"]), {"serial", "openmp"}),
        (environ(features=["serial"]), {"openmp"}),
        (environ(cc="mpicc", features=["mpi", "openmp"]), set()),
    ],
)
def test_features_by_the_compiler(one, found):
    assert foreign.features(one, partition(one)) == found
    assert foreign.features(one, partition(one, link_class="native")) == set()


def test_what_a_site_names_it_names_for_all_environments_of_the_partition():
    named, other = environ("prg", features=["serial", "openmp"]), environ("builtin")
    assert foreign.features(other, partition(named, other)) == set()


def test_reframes_own_system_gets_no_features():
    builtin = environ("builtin")
    assert foreign.features(builtin, partition(builtin, name="generic:default")) == set()
    theirs = environ("default")  # of a site's own system of this name
    assert foreign.features(theirs, partition(theirs, name="generic:default"))


@pytest.mark.parametrize(
    "wanted, found",
    [
        (["+mpi", "+mpj"], ["+mpi", "+mpj", "intel"]),
        (["+openmp +omp_flag"], ["+openmp +omp_flag", "gnu"]),
        (["+mpi +hpcc"], ["+mpi +hpcc"]),
        (["+serial"], ["+serial", "gnu", "plain"]),
        (["-mpi"], ["-mpi"]),
        (["+serial %cuda=12"], ["+serial %cuda=12"]),
        (["gnu"], ["gnu"]),
        (["*"], ["*"]),
    ],
)
def test_checks_name_the_environments_that_fit_by_their_compilers(monkeypatch, wanted, found):
    environs = environ("gnu", omp_flag="-fopenmp"), environ("plain"), environ("intel", "mpiicc")
    system = SimpleNamespace(partitions=[partition(*environs)])
    monkeypatch.setattr(foreign, "runtime", lambda: SimpleNamespace(system=system))
    assert foreign.with_names(wanted) == found


def test_a_run_says_once_what_is_not_known():
    ours = partition(environ(), name="here:cc", link_class="native")
    theirs = partition(environ("intel", "mpiicc"), environ("default"))
    assert foreign.notes([ours], False) == []
    described, by_compiler, at_once = foreign.notes([ours, theirs], False)
    assert described.startswith("there:batch: ") and "here:cc" not in described
    assert "intel (mpi: its compiler is mpiicc)" in by_compiler
    assert "there:batch" in at_once and "Fix: give --exec-policy=serial" in at_once
    assert len(foreign.notes([theirs], True)) == 2
    assert len(foreign.notes([partition(max_jobs=1)], False)) == 1


@pytest.mark.parametrize(
    "place, cores",
    [
        (partition(cores=64), 64),
        (partition(cores=64, cores_per_node=32), 32),
        (partition(), None),
        (partition(local=True), 12),
        (partition(local=True, cores=4), 4),
    ],
)
def test_cores_come_from_extras_or_from_reframes_processor(monkeypatch, place, cores):
    monkeypatch.setattr(settings, "_cores_of_this_host", lambda: 12)
    assert cores_of_node(place) == cores


def test_this_host_is_one_node_unless_extras_say_more():
    assert [nodes_of(one, 2) for one in (partition(), partition(local=True))] == [2, 1]
    assert nodes_of(partition(local=True, nodes=4), 2) == 4
