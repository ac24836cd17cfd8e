"""Damaged program output gives the parser's own error or the same values: never a traceback, and
other values only where the output gives a figure once, so that nothing can tell.

Each case reads output as a check does: the parser, then what was asked (number of launches and
`did`). `once` lists the values that nothing else in the output confirms, as a pattern of their
names, the largest relative change that passes (None: any) and the reason. Of everything else no
change may pass, whatever the damage.

Damage that no reader can tell from a good output: a last line that ends nothing (words of a
launcher, a list of authors), facts in words (compiler, library, host names), and two copies of one
line.

More inputs: NEARMETAL_FUZZ_INPUTS=5000 .venv/bin/python -m pytest -q -s
tests/unit/test_fuzz_parsers.py
"""

import dataclasses
import importlib
import os
import pkgutil
import re
from types import SimpleNamespace

import pytest

from nearmetal.checks import disturbance, failures, parsing, provenance
from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import OTHERS, ParseError, request
from nearmetal.checks.parsing.binding import (
    bound_percent,
    differs,
    faults,
    parse_binding,
    parse_bindings,
)
from nearmetal.checks.parsing.collectives import parse_collectives
from nearmetal.checks.parsing.congestion import parse_congestion
from nearmetal.checks.parsing.duet import parse_duet
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.parsing.gromacs import parse_gromacs
from nearmetal.checks.parsing.hpcc import parse_hpcc
from nearmetal.checks.parsing.hpcg import parse_hpcg
from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.parsing.lammps import parse_lammps
from nearmetal.checks.parsing.launch import parse_launch
from nearmetal.checks.parsing.libfabric import parse_libfabric
from nearmetal.checks.parsing.links import parse_links
from nearmetal.checks.parsing.multi_pair import parse_multi_pair
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.parsing.nodes import parse_nodes
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.nwchem import parse_nwchem
from nearmetal.checks.parsing.osnoise import parse_noise
from nearmetal.checks.parsing.osu import parse_osu
from nearmetal.checks.parsing.parallel_io import parse_ior, parse_mdtest
from nearmetal.checks.parsing.perftest import parse_perftest, parse_rdma
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.parsing.qperf import parse_qperf, parse_tcp
from nearmetal.checks.parsing.spack import disagreements, parse_installed
from nearmetal.checks.parsing.storage import parse_storage
from nearmetal.checks.parsing.stream import parse_numa, parse_stream
from tests.support.damage import HOSTILE, damaged, hostile
from tests.support.limits import expect_held
from tests.support.marked import FOREIGN
from tests.support.recorded import namd, recorded

pytestmark = pytest.mark.fuzz

COUNT = int(os.environ.get("NEARMETAL_FUZZ_INPUTS", "60"))
#: Part of the length of hostile output. CRAFTED is long in every run.
PART = 1 if COUNT >= 240 else 0.05
#: Fields that are words, or say how exact a value is.
WORDS = {"facts", "settings", "library", "text", "did", "rounding", "size", "times", "cpus"}


@dataclasses.dataclass
class Case:
    name: str
    text: str
    parse: object
    asked: tuple = ()  #: names of `did` that the check compares
    once: tuple = ()  #: (pattern, relative change, reason)


def values(thing, path="") -> dict:
    """Every number of a result, by its path."""
    if dataclasses.is_dataclass(thing):
        fields = [field.name for field in dataclasses.fields(thing) if field.name not in WORDS]
        pairs = [(f"{path}.{name}", getattr(thing, name)) for name in fields]
    elif isinstance(thing, dict):
        pairs = [(f"{path}.{key}", value) for key, value in thing.items()]
    elif isinstance(thing, list | tuple):
        pairs = [(f"{path}[{place}]", value) for place, value in enumerate(thing)]
    else:
        return {path: thing}
    return {key: value for name, item in pairs for key, value in values(item, name).items()}


def as_asked(runs, good, names):
    """What the base of all checks does: the number of launches, and what each did."""
    if len(runs) != len(good):
        raise ParseError(f"{len(runs)} launches are in the output instead of {len(good)}")
    for run, wanted in zip(runs, good if names else ()):
        request.expect({name: wanted.did[name] for name in names}, run.did)


def same(once, kind, path, one, other) -> bool:
    """Whether this difference is one that nothing in the output can tell."""
    for pattern, change, _ in once:
        if not (re.fullmatch(pattern, path) or re.fullmatch(pattern, f"{kind}: {path}")):
            continue
        if change is None:
            return True
        numbers = all(isinstance(each, int | float) for each in (one, other))
        if numbers and abs(one - other) <= change * max(abs(one), abs(other)):
            return True
    return False


def first(name: str, start: str, count: int = 1) -> str:
    """The first launches of a recorded output."""
    text = recorded(name)
    places = [found.start() for found in re.finditer(start, text, re.M)]
    return text[: [*places, len(text)][count]]


NUMA = "".join(
    [
        "# nearmetal numa: nodes=2\n",
        *(
            f"# nearmetal instance: kind={kind} cpus={cpus} memory={memory} nodes=2\n"
            + re.sub(
                r"(?s)# nearmetal threads: 2.*?(?=# nearmetal complete)",
                "",
                first("stream", "^# nearmetal program"),
            )
            for kind, cpus, memory in (
                ("local", 0, 0),
                ("local", 1, 1),
                ("alone", 0, 0),
                ("remote", 0, 1),
            )
        ),
        "# nearmetal numa: complete\n",
    ]
)
OURS, IMB, NAS = "^# nearmetal program", r"^#-+\n# +Intel", "^ NAS Parallel"
ROUNDING = "a change below what the printed digits of the other figure tell"
ONCE = "printed once"
WITHIN = "any count that the method allows; the payload alone follows from it"
#: Of ten batches one in its last digits; the rest follows from their mean.
PINGPONG = (
    (r".*\.batches.*", 0.02, ROUNDING),
    (r".*\.latency_us", 0.002, ROUNDING),
    (r".*\.mbytes_per_s", None, "two decimals; bandwidths are computed from the time"),
    (r".*\.repetitions", None, WITHIN),
)
COLLECTIVES = (
    (
        r"lines_\w+: .*\.slowest_us.*",
        None,
        "whole rows of one size of two operations changed places",
    ),
    (r".*\.slowest_us.*", 0.02, ROUNDING),
    (r".*\.payload_bytes", None, WITHIN),
)
STREAM = (
    (r".*\.passes.*", 0.01, ROUNDING),
    (r".*\.rates.*", 1e-4, ROUNDING),
    (r".*\.bindings\..*", None, "-1, which means that the kernel did not say"),
)
NPB = (
    (r".*\.mops", 0.001, ROUNDING),
    (r".*\.seconds", None, "official programs print it once, in hundredths; no variable has it"),
    (r".*\.iterations.*", None, "one of many, whose sum is not quite the time"),
)
QPERF = ((r".*\.(latency_us|bandwidth_gbps).*", None, ONCE),)
RDMA = (
    (r".*\.ports.*", None, "compared by rdma with the hosts of the job and their ports"),
    (r".*\.latency_us.*", None, "printed once, between its extremes"),
    (
        r".*\.bandwidth_gbps.*",
        0.3,
        "the rate of messages has six decimals, few digits on a slow link",
    ),
)


def case(name, text, parse, asked="", once=()):
    return Case(name, text, parse, tuple(asked.split()), once)


CASES = [
    case("pingpong", first("pingpong_mpich", OURS), parse_imb, "max_time max_bytes", PINGPONG),
    case(
        "pingpong in Java",
        recorded("java_pingpong"),
        parse_imb,
        "max_time max_bytes",
        (*PINGPONG, (r".*\.sockets.*", None, ONCE)),
    ),
    case(
        "pingpong of IMB",
        recorded("imb_openmpi"),
        parse_imb,
        "arguments",
        (
            *PINGPONG,
            (
                r".*\.rows\.\d\.latency_us",
                None,
                "two decimals, as the rate beside it; no variable has 0 B",
            ),
        ),
    ),
    case(
        "collectives", recorded("collectives"), parse_collectives, "max_time max_bytes", COLLECTIVES
    ),
    case(
        "collectives in Java",
        recorded("java_collectives"),
        parse_collectives,
        "max_time max_bytes",
        COLLECTIVES,
    ),
    case(
        "collectives of IMB",
        recorded("imb_collectives"),
        parse_collectives,
        "arguments msglog time npmin",
        (*COLLECTIVES, (r".*\.slowest_us.*", 0.1, "two decimals of less than a microsecond")),
    ),
    case(
        "multi_pair",
        first("multi_pair", OURS),
        parse_multi_pair,
        "max_time max_bytes pairs",
        ((r".*\.gbps.*", 1e-4, ROUNDING), (r".*\.payload_bytes", None, ONCE)),
    ),
    case(
        "libfabric",
        recorded("libfabric"),
        parse_libfabric,
        "program provider iterations sizes",
        (
            (r".*\.(latency_us|bandwidth_gbps).*", 0.02, ROUNDING),
            (r".*\.payload_bytes", None, ONCE),
        ),
    ),
    case(
        "stream",
        first("stream", OURS),
        parse_stream,
        "ntimes elements threads",
        STREAM,
    ),
    case(
        "numa",
        NUMA,
        parse_numa,
        "ntimes",
        STREAM,
    ),
    case(
        "osnoise",
        first("osnoise", OURS),
        parse_noise,
        "seconds",
        (
            (r".*\.longest_us", None, "that of the CPU with the longest is confirmed by its bin"),
            (r".*\.lost_percent", 0.2, "the mean of the parts confirms that of the CPUs"),
            (r".*\.parts.*", None, "one of ten, whose mean is confirmed to a tenth"),
            (r".*\.(quanta|shortest_ns)", None, "their product is the time, to a third"),
        ),
    ),
    case(
        "launch",
        first("launch", OURS, 2),
        parse_launch,
        "ranks",
        ((r".*seconds", None, ONCE),),
    ),
    case("npb", first("npb", OURS, 2), parse_npb, "kernel class processes", NPB),
    case("npb in Java", first("java_npb", OURS, 2), parse_npb, "kernel class processes", NPB),
    case("npb, official", first("npb_official", NAS, 2), parse_npb, "kernel class processes", NPB),
    case("npb, multi-zone", first("npb_mz", NAS), parse_npb, "kernel class processes", NPB),
    case("npb, simulated", first("npb_simulated", NAS), parse_npb, "kernel class processes", NPB),
    case(
        "eigen",
        first("eigen", OURS, 2),
        parse_eigen,
        "processes side points threads",
        ((r".*\.seconds", None, ONCE),),
    ),
    case(
        "hpcc",
        recorded("hpcc"),
        parse_hpcc,
        "processes block",
        ((r".*\.values.*", 0.001, ROUNDING),),
    ),
    case(
        "hpcg",
        recorded("hpcg"),
        parse_hpcg,
        "processes threads nx ny nz",
        ((r".*\.(rate|mbytes_per_s|seconds)", 2e-5, ROUNDING),),
    ),
    case(
        "ior",
        recorded("ior"),
        parse_ior,
        "api processes nodes block transfer file_per_process fsync reordered",
        ((r".*\.values.*", 0.01, ROUNDING),),
    ),
    case(
        "mdtest",
        recorded("mdtest"),
        parse_mdtest,
        "processes nodes files",
        ((r"lines_\w+: .*\.values.*", None, "whole rows of two launches changed places"),),
    ),
    case(
        "gromacs",
        first("gromacs", "^ *:-.*GROMACS"),
        parse_gromacs,
        "nsteps steps atoms",
        ((r".*\.payload_bytes", None, ONCE), (r".*\.potential", 1e-4, ROUNDING)),
    ),
    case(
        "lammps",
        first("lammps", r"^LAMMPS \("),
        parse_lammps,
        "processes cells steps",
        (
            (r".*\.parts.*", None, "differences of a time that is printed once a line"),
            (r".*\.energy", 0.005, "conserved to that part; the check compares the launches"),
        ),
    ),
    case(
        "nwchem",
        first("nwchem", "Northwest Computational"),
        parse_nwchem,
        "processes",
        (
            (r".*\.seconds", None, ONCE),
            (r".*\.energy", None, "the check has the right one"),
            (r".*\.gradient.*", None, "the check has the right norm; the sum is confirmed to 1e-5"),
        ),
    ),
    case(
        "namd",
        namd(),
        parse_namd,
        "processes",
        (
            (
                r".*\.(seconds_a_step|parts.*)",
                None,
                "as many times as NAMD likes, each printed once",
            ),
            (r".*\.(atoms|step)", None, "the check compares the launches"),
            (r".*\.potential", 1e-6, ROUNDING),
        ),
    ),
    case("qperf", recorded("qperf"), lambda text: [parse_qperf(text)], "sizes", QPERF),
    case("tcp", recorded("tcp_native"), parse_tcp, "sizes seconds", QPERF),
    case(
        "rdma write",
        recorded("rdma_write"),
        parse_rdma,
        "operation sizes iterations gid_index",
        RDMA,
    ),
    case(
        "rdma read", recorded("rdma_read"), parse_rdma, "operation sizes iterations gid_index", RDMA
    ),
    case(
        "rdma send", recorded("rdma_send"), parse_rdma, "operation sizes iterations gid_index", RDMA
    ),
    case(
        "perftest",
        recorded("perftest_all"),
        parse_perftest,
        once=(
            (
                r".*\.values.*",
                None,
                "the sizes are compared by rdma, and the rate of messages has few digits",
            ),
            (r".*\.iterations.*", None, "compared by rdma with what was asked"),
            (r".*\.(operation|quantity)", None, "compared by rdma with what was asked"),
            (r".*\.columns.*", None, "words"),
        ),
    ),
]


@pytest.fixture(scope="module")
def counts():
    """What became of all inputs; shown at the end with -s."""
    total = {"inputs": 0, "refused": 0, "same": 0, "other, printed once": 0}
    yield total
    print(f"\n{total}")


def fuzz(name, text, read, once, counts):
    """Read damaged copies; `read` raises the reader's own error or gives values by their names."""
    good = read(text)
    assert good
    surprises = []
    for number, (kind, bad) in enumerate(damaged(text, COUNT)):
        counts["inputs"] += 1
        try:
            got = read(bad)
        except (ParseError, provenance.ProvenanceError) as error:
            counts["refused"] += 1
            assert str(error)
            continue
        changed = [key for key in {**good, **got} if good.get(key, "none") != got.get(key, "none")]
        counts["other, printed once" if changed else "same"] += 1
        surprises += [
            f"{name}, input {number} ({kind}): {key} is {got.get(key)} instead of {good.get(key)}"
            for key in changed
            if not same(once, kind, key, got.get(key), good.get(key))
        ]
    assert not surprises, "\n".join(surprises[:40])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_damaged_output_gives_an_error_or_the_same_values(case, counts):
    good = case.parse(case.text)

    def read(text):
        runs = case.parse(text)
        as_asked(runs, good, case.asked)
        return values(runs)

    fuzz(case.name, case.text, read, case.once, counts)


def test_damaged_settings_of_jvms(counts):
    text = recorded("java_pingpong")

    def read(bad):
        ran = parse_jvm(bad)
        launches = parse_imb(bad)
        if ran is None or len(ran.did) != len(launches):
            raise ParseError("not every launch says how its JVMs were set")
        request.expect({"device": "niodev", "gc": "serial", "pages": "default"}, ran.did[0])
        return {"warm_up": ran.warm_up, "heap": ran.did[0]["heap"]}

    once = (
        ("warm_up", None, "a line `warm_up` that is lost, or yes for no"),
        ("heap", None, "compared with what was asked, where it was"),
    )
    fuzz("jvm", text, read, once, counts)


def test_damaged_duets(counts):
    text = recorded("duet_pingpong")

    def read(bad):
        turns = parse_duet(bad, 2)
        runs = [parse_imb(turn.text) for turn in turns]
        as_asked([run for each in runs for run in each], [*GOOD_DUET], ("max_time", "max_bytes"))
        return values(runs)

    fuzz("duet", text, read, PINGPONG, counts)


GOOD_DUET = [parse_imb(turn.text)[0] for turn in parse_duet(recorded("duet_pingpong"), 2)]


@pytest.mark.parametrize("binding", ["core", "none"])
def test_damaged_bindings(binding, counts):
    def read(bad):
        places = parse_binding(bad)
        fault = differs(places, binding)
        if fault or len(places) != 2 or {place.host for place in places} != {"native1", "native2"}:
            raise ParseError(f"not as asked: {fault}")
        return {place.task: len(place.cores) for place in places}

    once = ((r"\d+", None, "a core of another number is as good"),) if binding == "core" else ()
    fuzz(f"binding {binding}", recorded(f"binding_{binding}"), read, once, counts)


def test_damaged_bindings_of_several_launches(counts):
    """As the check `affinity` reads them: a fault that damage makes up fails the case."""

    def read(bad):
        launches = parse_bindings(bad, 4)
        hosts = [sorted(place.host for place in places) for places in launches]
        if hosts != 2 * [["native1", "native1", "native2", "native2"]]:
            raise ParseError(f"not as asked: {hosts}")
        if any(faults(places, "core") for places in launches):
            raise ParseError("not bound")
        return {str(number): bound_percent(one, "core") for number, one in enumerate(launches)}

    text = recorded("affinity_openmpi_core") + recorded("affinity_srun_core")
    fuzz("bindings of several launches", text, read, (), counts)


def test_damaged_lists_of_installed_packages(counts):
    text = recorded("spack_find")
    nodes = {
        package.hash: SimpleNamespace(**dataclasses.asdict(package), virtuals={})
        for package in parse_installed(text).values()
    }
    roots = {name: key for key, name in ((node.hash, node.name) for node in nodes.values())}
    lock = SimpleNamespace(nodes=nodes, roots=roots)

    def read(bad):
        installed = parse_installed(bad)
        if disagreements(lock, installed):
            raise ParseError("; ".join(disagreements(lock, installed)))
        return {key: (package.name, package.version) for key, package in installed.items()}

    fuzz("spack", text, read, (), counts)


#: Reader -> its output: those above and those that no damage test reads.
READERS = {
    **{case.name: (case.parse, case.text) for case in CASES},
    "jvm": (parse_jvm, recorded("java_pingpong")),
    "duet": (lambda text: parse_duet(text, 2), recorded("duet_pingpong")),
    "binding": (lambda text: differs(parse_binding(text), "core"), recorded("binding_core")),
    "bindings": (lambda text: parse_bindings(text, 4), recorded("affinity_openmpi_core")),
    "spack": (parse_installed, recorded("spack_find")),
    "links": (parse_links, without_usage(recorded("links"))),
    "nodes": (parse_nodes, without_usage(recorded("nodes"))),
    "congestion": (parse_congestion, without_usage(recorded("congestion"))),
    "storage": (parse_storage, without_usage(recorded("storage"))),
    "osu": (
        lambda text: parse_osu(text, [(1, 8192, 9), (16384, 1 << 22, 9)]),
        recorded("osu_mpich"),
    ),
    "disturbance": (lambda text: disturbance.parse(text, RULES), recorded("disturbed")),
    "provenance": (
        lambda text: provenance.snapshots(text, AFTER),
        recorded("provenance-rxe-before"),
    ),
}
RULES = disturbance.rules()
OWN = ParseError, provenance.ProvenanceError, disturbance.EvidenceError


@pytest.mark.parametrize("name", READERS)
def test_hostile_output_neither_stops_nor_fills_its_reader(name):
    read, text = READERS[name]
    read(text)
    expect_held(name, hostile(text, max(len(HOSTILE), COUNT // 40), PART), read, OWN)


def replaced(name: str, old: str, new: str) -> str:
    """A reader's output with another text in one place."""
    text = READERS[name][1]
    assert old in text
    return text.replace(old, new, 1)


TASKS = [f"host task={number} cores={number} of=40000 numa=0 of_numa=1" for number in range(40_000)]
TITLE = "NAS Parallel Benchmarks 3.4"
COPIES = "".join(f"{number} {number}.00\n" for number in range(1, 60_000))
WHOLE_FILE = "Begin of Summary section.\nMessage Size: 2000000 Byte\n"
#: Reader and output: each stopped or filled it in its own way.
CRAFTED = {
    "ranks that are not there": ("launch", replaced("launch", "processes=2", "processes=20000000")),
    "repeats that are not there": ("nodes", replaced("nodes", "repeats=1", "repeats=20000000")),
    "rounds that are not there": ("links", replaced("links", "rounds=", "rounds=10000000")),
    "threads that are not there": ("stream", replaced("stream", "threads: ", "threads: 10000000")),
    "words in a head": ("perftest", replaced("perftest", "#bytes", f"#bytes {'A' * 100_000}")),
    "brackets in a head": ("perftest", replaced("perftest", "#bytes", f"#bytes {'A[' * 50_000}")),
    "a title of one word": ("npb", replaced("npb", TITLE, f"{TITLE} {'A' * 100_000}")),
    "levels of fio": ("storage", replaced("storage", '"jobs" : ', '"jobs" : ' + "[" * 100_000)),
    "levels of IOR": ("ior", replaced("ior", '"tests": ', '"tests": ' + "[" * 100_000)),
    "lines of a launch": (
        "duet",
        replaced("duet", "pair=0 variant=a\n", "pair=0 variant=a\n" + COPIES),
    ),
    "tasks of a node": ("binding", "\n".join(TASKS)),
    "rows of a table": ("osu", "# OSU MPI Latency Test\n" + COPIES),
    "sections of HPCC": ("hpcc", replaced("hpcc", "Begin of", WHOLE_FILE * 20_000 + "Begin of")),
    "blanks of NWChem": ("nwchem", replaced("nwchem", "Total times", " " * 100_000 + "x")),
    "a size beyond all numbers": (
        "lammps",
        replaced("lammps", "(0 0 0) to (", "(0 0 0) to (1e200"),
    ),
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_output_neither_stops_nor_fills_its_reader(name):
    reader, text = CRAFTED[name]
    expect_held(name, [(reader, text)], READERS[reader][0], OWN)


def test_every_parser_is_bounded():
    modules = [importlib.import_module(f"{parsing.__name__}.{found.name}") for found in MODULES]
    parsers = [
        value for one in modules for name, value in vars(one).items() if name[:6] == "parse_"
    ]
    assert len(parsers) >= 30
    assert [parser for parser in parsers if not hasattr(parser, "__wrapped__")] == []


MODULES = list(pkgutil.iter_modules(parsing.__path__))


BEFORE, AFTER = recorded("provenance-rxe-before"), recorded("provenance-rxe-after")
COUNTERS = (
    (r"\.(network|loopback)_bytes", None, "a counter is printed once"),
    (r"\.by_host.*", None, "a counter, or the name of a NIC or driver, is printed once"),
    (r"\.carriers.*", None, "the name of a NIC or driver is printed once"),
)


@pytest.mark.parametrize("which", ["before", "after"])
def test_damaged_snapshots_of_nodes(which, counts):
    def read(bad):
        texts = {"before": BEFORE, "after": AFTER, which: bad}
        first, last = provenance.snapshots(texts["before"], texts["after"])
        provenance.common(first)
        provenance.large_page_bytes(first, last)
        ports = dict.fromkeys(("vm1", "vm2"), "rxe0/1")
        provenance.rdma_transport(first, last, 33_430_530, ports, 1024)
        return values(provenance.transport(first, last, 33_430_530))

    fuzz(f"provenance {which}", {"before": BEFORE, "after": AFTER}[which], read, COUNTERS, counts)


def test_words_of_srun_and_images_are_quoted_whatever_they_are(counts):
    """stderr of srun and image.sh: words for a person, from which no value is read."""
    text = (
        "srun: error: native2: task 1: Exited with exit code 2\n"
        "image.sh: openmpi.sif has the digest sha256:12, the lock has sha256:34: make images\n"
        "slurmstepd: error: *** STEP 12.0 ON native1 CANCELLED AT 2026-11-22T10:00:00 ***\n"
    )
    for _, bad in damaged(text, COUNT):
        counts["inputs"] += 1
        words = failures.last_words(bad, "")
        assert len(words) <= 400
        assert failures.explain("pingpong", 1, ["native1"], "FAILED", 2, words)


OSU = [(1, 8192, 1000), (16384, 4194304, 100)]
MORE = [
    *(
        Case(parse.__name__, without_usage(recorded(name)), parse)
        for name, parse in (
            ("links", parse_links),
            ("nodes", parse_nodes),
            ("congestion", parse_congestion),
        )
    ),
    Case("fio", recorded("storage"), parse_storage),
    Case("osu", recorded("osu_mpich"), lambda text: parse_osu(text, OSU)),
]
#: Outputs that hold a table or a document of others. GROMACS writes its log into a file.
QUOTED = re.compile(r".*IMB|rdma .*|q?perf.*|tcp|libfabric|ior|fio|osu")
TESTED = [case for case in [*CASES, *MORE] if case.name != "gromacs"]


@pytest.mark.parametrize("case", TESTED, ids=lambda case: case.name)
def test_a_line_of_others_changes_no_value_and_is_quoted_where_it_is_refused(case):
    good, lines = values(case.parse(case.text)), case.text.splitlines(True)
    for at in range(0, len(lines) + 1, max(1, len(lines) // 40)):
        line = FOREIGN[at % len(FOREIGN)]
        text = "".join([*lines[:at], f"{line}\n", *lines[at:]])
        try:
            assert values(case.parse(text)) == good
        except ParseError as error:
            assert QUOTED.fullmatch(case.name) and 0 < at < len(lines)
            assert line[:60] in str(error) and OTHERS in str(error)


@pytest.mark.parametrize("case", TESTED, ids=lambda case: case.name)
def test_lines_of_others_around_an_output_are_skipped(case):
    good = values(case.parse(case.text))
    for line in FOREIGN:
        text = f"{line}\n{case.text.rstrip()}\n{line}\n{line}\n"
        assert values(case.parse(text)) == good, line
