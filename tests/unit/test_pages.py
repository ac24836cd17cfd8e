"""Pages of a program's memory: the command, what the kernel gave, and what cannot have them."""

import re
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SanityError

from nearmetal.checks import pages, provenance
from nearmetal.checks.duet.variants import PageSizes
from nearmetal.checks.pages import Pages
from nearmetal.job.launch import Side, with_pages
from reframe_checks.collectives import collectives
from reframe_checks.hpcc import hpcc
from reframe_checks.npb import CLASSES, NEEDS, array_bytes, npb
from reframe_checks.pingpong import pingpong
from tests.support.paths import SOURCES

MIB = 1 << 20


class Skipped(Exception):
    pass


class Fake(SimpleNamespace):
    """A check at some point of its pipeline."""

    def skip(self, reason):
        raise Skipped(reason)


def fake(kind=pingpong, **attributes) -> Fake:
    usual = {
        "display_name": kind.__name__,
        "pages": "large",
        "max_bytes": 4 * MIB,
        "num_tasks": 2,
        "counts": [2, 1],
        "benchmark": "ft",
        "npb_class": "A",
        "runtimes": [SimpleNamespace(java=False)],
        "current_environ": SimpleNamespace(cc="mpicc"),
        "postbuild_cmds": [],
        "repeats": 5,
    }
    made = Fake(**{**usual, **attributes})
    made.have_pages_chosen = lambda: Pages.have_pages_chosen(made)
    made.buffer_bytes = lambda: kind.buffer_bytes(made)
    return made


def snapshots(**given):
    """Counters of hosts before and after; a host's bytes in large pages, and its machine."""
    before = {host: {provenance.LARGE_PAGES: "100", "machine.boot": "one"} for host in given}
    after = {host: {provenance.LARGE_PAGES: str(100 + size)} for host, size in given.items()}
    return before, after


def test_a_program_is_run_as_it_is_unless_pages_are_asked_for():
    assert with_pages("default", "./x") == "./x"
    for kind in ("small", "large"):
        words = with_pages(kind, "./x --max-time 1").split()
        assert words[0] == "env" and words[2:] == ["./pages", kind, "./x", "--max-time", "1"]
    # So that pages are the one difference between the two.
    assert with_pages("small", "x").replace("small", "large") == with_pages("large", "x")


@pytest.mark.parametrize(
    "kind, check, needed",
    [
        (pingpong, {}, 2 * 2 * 4 * MIB),
        (pingpong, {"max_bytes": MIB}, 0),
        (collectives, {"max_bytes": MIB, "counts": [4, 2]}, 4 * 8 * MIB + 2 * 4 * MIB),
        (collectives, {"max_bytes": MIB, "counts": [2, 1]}, 2 * 4 * MIB),
        (collectives, {"max_bytes": 65536}, 0),
        (npb, {}, 2 * 2 * 16 * 2**23),
        (npb, {"npb_class": "S", "counts": [4, 2]}, 8 * MIB),
        (npb, {"npb_class": "S", "benchmark": "cg"}, 0),
        (npb, {"npb_class": "C", "benchmark": "ep"}, 0),
    ],
)
def test_buffers_that_are_too_small_to_tell_do_not_count(kind, check, needed):
    assert fake(kind, **check).buffer_bytes() == needed


def test_arrays_grow_with_the_class():
    for benchmark, needs in NEEDS.items():
        sizes = [array_bytes(benchmark, npb_class) for npb_class in CLASSES]
        assert sizes == sorted(sizes) and (sizes[0] > 0 or benchmark == "ep")
        operations = [needs["operations"][npb_class] for npb_class in CLASSES]
        assert operations == sorted(operations)


#: Of our programs: the row of a class, its bytes, and its operations as the program counts them.
KERNELS = [
    (
        "cg",
        r"\{(\d+), (\d+), (\d+), \d+, ",
        lambda n, nonzeros, steps: 0.85 * 12 * n * (nonzeros + 1) ** 2,
        lambda n, width, steps: 2 * steps * n * (131 + 26 * width * (width + 1)),
    ),
    ("ep", r"\{(\d+), -?\d\.", lambda m: 0, lambda m: 2 ** (m + 1)),
    ("is", r"\{(\d+),\s+\d+,\s+\d+,\s+\{", lambda k: 8 * 2**k, lambda k: 10 * 2**k),
    (
        "mg",
        r"\{(\d+), (\d+), 0\.",
        lambda levels, steps: 24 * 8**levels,
        lambda levels, steps: 58 * steps * 8**levels,
    ),
]


@pytest.mark.parametrize("benchmark, row, memory, operations", KERNELS)
def test_sizes_are_those_of_our_programs(benchmark, row, memory, operations):
    rows = re.findall(row, (SOURCES / "npb" / f"{benchmark}.c").read_text())
    assert len(rows) == len(CLASSES)
    for npb_class, found in zip(CLASSES, rows):
        numbers = list(map(int, re.findall(r"\d+", str(found))))
        assert array_bytes(benchmark, npb_class) == pytest.approx(memory(*numbers))
        counted = 1e6 * NEEDS[benchmark]["operations"][npb_class]
        assert counted == pytest.approx(operations(*numbers), rel=1e-3)


@pytest.mark.parametrize(
    "kind, given, words",
    [
        ("large", 50, ""),
        ("large", 49, "fragmented"),
        ("small", 25, ""),
        ("small", 26, "who else ran"),
        ("default", 0, ""),
    ],
)
def test_what_the_kernel_gave_is_held_against_the_request(kind, given, words):
    why = pages.fault(kind, given * MIB, 100 * MIB, "node1", "the buffers have")
    assert (words in why) if words else why == ""
    assert not why or why.startswith(f"node1 gave {given * MIB / 1e6:.0f} MB in large pages")


def test_nodes_that_are_parts_of_one_machine_count_once():
    before, after = snapshots(a=5 * MIB, b=4 * MIB)
    assert provenance.large_page_bytes_of_machines(before, after) == 5 * MIB
    before["b"]["machine.boot"] = "other"
    assert provenance.large_page_bytes_of_machines(before, after) == 9 * MIB


def test_java_and_small_problems_are_skipped_with_the_reason():
    java = fake(runtimes=[SimpleNamespace(java=False), SimpleNamespace(java=True)])
    with pytest.raises(Skipped, match="java_pages"):
        Pages.have_pages_chosen(java)
    with pytest.raises(Skipped, match="smaller than 4 MiB"):
        Pages.have_pages_chosen(fake(npb, benchmark="ep"))
    check = fake()
    Pages.have_pages_chosen(check)
    assert check.postbuild_cmds == ["mpicc -std=c11 -O2 pages.c -o pages"]


@pytest.mark.parametrize(
    "kind, given, words",
    [("large", 79, "fragmented"), ("large", 80, ""), ("small", 41, "who else")],
)
def test_a_case_fails_where_the_kernel_gave_other_pages(kind, given, words):
    """Five repeats of 32 MiB, whose pages the kernel of the one machine counts for both nodes."""
    check = fake(pages=kind, max_bytes=8 * MIB, _counters=snapshots(a=given * MIB, b=given * MIB))
    if not words:
        Pages.check_pages(check)
        return
    with pytest.raises(SanityError, match=f"pages={kind}: the kernel gave .*{words}"):
        Pages.check_pages(check)


@pytest.mark.parametrize(
    "kind, given, words",
    [
        ("large", 9, "HPL alone needs"),
        ("large", 10, ""),
        ("small", 1, ""),
        ("small", 2, "who else"),
    ],
)
def test_hpcc_holds_each_node_against_its_part_of_the_matrix(kind, given, words):
    """A matrix of 40 MiB on two nodes."""
    check = fake(
        hpcc,
        page_size=kind,
        num_nodes=2,
        runs=[SimpleNamespace(matrix_bytes=40 * MIB)],
        _counters=snapshots(node1=given * MIB, node2=given * MIB),
    )
    if not words:
        hpcc.check_pages(check)
        return
    with pytest.raises(SanityError, match=f"node1 gave .*{words}"):
        hpcc.check_pages(check)


def test_a_check_whose_pages_nobody_chose_needs_no_counters():
    Pages.check_pages(fake(pages="default", _counters=({}, {})))


def test_a_duet_runs_its_program_with_the_pages_of_each():
    kind = PageSizes(["small", "large"])
    check = fake(pages="default")
    assert kind.skip_reason(check) == "" and kind.setting == "pages"
    a, b = kind.sides(Side(None, None, "./x"))
    assert (a.pages, b.pages) == ("small", "large") and a.program == b.program == "./x"
    kind.build(check)
    assert check.postbuild_cmds
    with pytest.raises(SanityError, match="leave pages out"):
        kind.skip_reason(fake(pages="small"))
    with pytest.raises(SanityError, match="'huge' is unknown"):
        PageSizes(["small", "huge"]).skip_reason(check)
