"""Machines like this one: levels, the interval, and what is said of a session."""

import json
import math
import random
import re

import pytest
import yaml

from nearmetal import results
from nearmetal.cli import main
from nearmetal.expectations import machines
from nearmetal.expectations.judge import Measured, Place
from nearmetal.expectations.machines import FAMILY, LINK, MACHINE, Fingerprint, Known, Subject
from nearmetal.judge.expected import Expectations
from tests.support.recorded import session, store

STARTUP = Subject("pingpong", "startup_latency")
EFA = {"link_class": "sriov", "link_type": "efa", "link_speed_gbps": 100, "hypervisor": "nitro"}


def source(machine, value, cpu="AMD EPYC 7R13", subject=STARTUP, **entry):
    entry = {"repository": "a/b", "path": "c", "licence": "MIT", "when": "2024", **entry}
    values = {subject.check: {subject.variable: [value]}}
    of_link = {"link": "efa", "link_gbps": 100}
    entry = {**of_link, "nodes": subject.nodes, **entry, "values": values}
    return machines.source_of(machine, cpu, entry)


def case(values, check="pingpong", parameters=None, environ=("mpi",), facts=None, **extras):
    place = Place({**EFA, **extras}, frozenset({"mpi"}), frozenset(environ))
    return Measured(check, place, parameters or {}, "p", "openmpi", values, facts=facts or {})


def test_the_shipped_figures_are_small_and_each_names_its_source():
    known = machines.load()
    assert sum(path.stat().st_size for path in machines.FILES.glob("*.yaml")) < 400_000
    assert len({each.repository for each in known}) > 10 and len(known) > 150
    assert all(each.path and each.licence for each in known)


def test_a_damaged_file_is_named_with_its_line(tmp_path):
    (tmp_path / "a.yaml").write_text("machines:\n  x:\n    provider: y\n    sources: []\n")
    with pytest.raises(machines.MachinesError, match=r"a\.yaml: line 4: "):
        machines.load(tmp_path)


@pytest.mark.parametrize(
    ("model", "family"),
    [
        ("Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz", "Skylake"),
        ("Intel(R) Xeon(R) CPU E5-2683 v4 @ 2.10GHz", "Broadwell"),
        ("Intel Xeon 2640V3", "Haswell"),
        ("Intel(R) Xeon(R) Platinum 8481C", "Sapphire Rapids"),
        ("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", "Ice Lake"),
        ("AMD EPYC 7V73X 64-Core Processor", "Milan"),
        ("AMD EPYC 7742 64-Core Processor", "Rome"),
        ("AMD EPYC 9V33X 96-Core Processor", "Genoa"),
        ("AMD EPYC 9V64H Processor", "Genoa HBM"),
        ("AMD EPYC 9755 128-Core Processor", "Turin"),
        ("Intel Xeon Phi 7250", ""),
        ("AMD EPYC", ""),
        ("QEMU TCG CPU version 2.5+", ""),
    ],
)
def test_the_family_of_a_processor_follows_from_its_model(model, family):
    assert machines.family(model) == family


def test_the_nearest_level_that_judges_is_taken():
    known = Known(
        [
            source("c5n", 18, "Xeon Platinum 8124M"),
            source("c5n", 20, "Xeon Platinum 8124M", mpi="Intel MPI"),
            source("hpc6a", 15.5),
            source("p5", 20.6),
            source("far", 22, "EPYC 9654"),
        ]
    )
    for machine, processor, level in (
        ("c5n", "Skylake", MACHINE),
        ("new", "Milan", FAMILY),
        ("p5", "Milan", MACHINE),
        ("new", "Turin", LINK),
    ):
        alike = known.alike(Fingerprint(machine, processor, "efa", 100.0), STARTUP)
        assert alike.level == level and not alike.why, machine
        assert alike.deviates(0.5) and alike.deviates(200) and not alike.deviates(19)
    assert known.alike(Fingerprint("c5n", "Skylake", "", None), STARTUP) is None
    assert known.alike(Fingerprint("c5n", "Skylake", "infiniband", 100.0), STARTUP) is None


def test_a_machine_with_many_sources_is_one_machine_of_its_family():
    """Else the curves of one machine would make the interval of all others narrow."""
    many = [source("c5n", 18 + number / 10) for number in range(9)]
    others = [source("hpc6a", 15.5), source("p5", 20.6)]
    several = Known([*many, *others]).alike(Fingerprint("new", "Milan", "efa", 100.0), STARTUP)
    single = Known([many[4], *others]).alike(Fingerprint("new", "Milan", "efa", 100.0), STARTUP)
    assert several.most == pytest.approx(single.most, rel=0.02)


def test_a_machine_of_azure_is_named_by_its_processor():
    infiniband = Place({"link_type": "infiniband", "hypervisor": "hyper-v"})
    for model, place, machine in (
        ("AMD EPYC 7V73X 64-Core Processor", infiniband, "Standard_HB120rs_v3"),
        ("AMD EPYC 7V73X 64-Core Processor", Place(EFA), ""),  # may be a part of a node
        ("Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz", infiniband, ""),  # others have it too
    ):
        assert machines.fingerprint(place, {"cpu_model": model}).machine == machine


def test_few_or_scattered_figures_show_the_place_and_judge_nothing():
    known = Known([source("a", 1), source("b", 2), source("b", 30, mpi="x"), source("c", 2)])
    alike = known.alike(Fingerprint("new", "", "efa", None), STARTUP)
    assert alike.why == "too far apart to judge" and not alike.deviates(1e9)
    assert alike.place(1.5) == "1 of 4 are less"
    assert "1 to 30 us, too far apart" in alike.described()
    alone = Known([source("a", 1)]).alike(Fingerprint("a", "", "efa", None), STARTUP)
    text = "machines like this one (a, efa; sources: 1): 1 us, too few to judge"
    assert alone.described() == text


def test_the_interval_holds_95_percent_of_further_sources():
    rng = random.Random(50)
    for number in (2, 4, 16):
        within, draws = 0, 4000
        for _ in range(draws):
            # The spread of a group is itself drawn, as the prior has it.
            spread = 0.3 * math.sqrt(3 / rng.gammavariate(1.5, 2))
            logs = [rng.gauss(1, spread) for _ in range(number)]
            low, high = machines.interval(logs, 0.3)
            within += low <= rng.gauss(1, spread) <= high
        assert 0.94 < within / draws < 0.96, number


def test_memory_bandwidth_of_a_family_has_no_lower_bound():
    """A part of a node, or one socket of two, has less than the published nodes."""
    triad = Subject("stream", "triad")
    known = Known([source("a", 300e3, subject=triad), source("b", 260e3, subject=triad)])
    alike = known.alike(Fingerprint("new", "Milan", "", None), triad)
    assert alike.level == FAMILY and not alike.deviates(20e3) and alike.deviates(900e3)


def test_tcp_is_compared_in_clouds_alone_and_an_emulated_nic_may_be_slower():
    def of(**extras):
        measured = case({"startup_latency": 1}, link_type="ethernet", **extras)
        return machines.of_case(measured, "startup_latency")

    assert of(hypervisor="qemu") is None and of(hypervisor="none") is None
    assert of().deviates(1.8) and of().deviates(140)
    slow = of(link_class="emulated")
    assert (
        slow.deviates(1.8) and not slow.deviates(140) and "95 % have at least" in slow.described()
    )


def test_a_case_is_compared_as_sources_measure():
    assert machines.of_case(case({"startup_latency": 1}), "startup_latency") is not None
    for other in (
        case({"startup_latency": 1}, parameters={"placement": "intranode"}),
        case({"startup_latency": 1}, environ=("mpj",)),
        case({"startup_latency": 1}, link_type="software"),
        case({"startup_latency": 1}, check="osnoise"),
    ):
        assert machines.of_case(other, "startup_latency") is None
    rates = {"triad_1": 1.0, "triad_36": 2.0, "triad_native": 3.0}
    bound = case(rates, "stream", {"binding": "bound"}, cpu="Xeon Platinum 8124M")
    assert [name for name in rates if machines.of_case(bound, name)] == ["triad_36"]
    place = bound.place
    assert machines.fingerprint(place, {"dmi": "Amazon EC2 c5n.18xlarge"}).machine == "c5n.18xlarge"
    assert machines.fingerprint(place, {"cpu_model": "AMD EPYC 7742"}).processor == "Rome"


def site(directory, **extras):
    """A system `lab` whose partition `native` is an instance with EFA."""
    partition = {"name": "native", "scheduler": "slurm", "launcher": "srun"}
    partition["environs"] = ["mpich", "openmpi"]
    partition["extras"] = {**EFA, "instance_type": "c5n.18xlarge", "cores_per_node": 2, **extras}
    document = {"name": "lab", "hostnames": [], "partitions": [partition]}
    (directory / "lab.yaml").write_text(yaml.safe_dump(document))


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs a command: (exit code, output)."""
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path))
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "baselines"))

    def run(*words):
        monkeypatch.setattr("sys.argv", ["nearmetal", *map(str, words)])
        code = main()
        out, err = capsys.readouterr()
        assert code != 3, err
        return code, out

    return run


def test_a_session_beyond_machines_like_it_deviates_unless_the_site_says_why(command, tmp_path):
    database = store(tmp_path / "results.db", session("session_lab"))
    site(tmp_path)
    gate = ["gate", "--database", database]
    code, out = command(*gate)
    assert code == 1
    assert "machines like this one (c5n.18xlarge, efa; sources: 6): 17.3 to 22.3 us" in out
    dropped = {"least": "none", "most": "none", "reason": "it is a copy"}
    site(tmp_path, expected={"machines_like_this": dropped})
    assert "(machines_like_this)" not in command(*gate)[1]


def test_the_table_stands_before_and_after_a_run(command, tmp_path):
    site(tmp_path)
    database, document = tmp_path / "results.db", tmp_path / "like.json"
    like = ["like", "lab:native", "--database", database, "--json", document]
    code, out = command(*like)
    assert code == 0 and "no session of lab is stored" in out
    assert "aws/aws-parallelcluster (c5n.18xlarge, Open MPI," in out and "Apache-2.0" in out
    store(database, session("session_lab"))
    code, out = command(*like)
    assert code == 0 and "lab:native: c5n.18xlarge" in out and " !" in out
    [table] = json.loads(document.read_text())
    [startup] = [row for row in table["variables"] if row["variable"] == "startup_latency"]
    assert set(startup["here"]) <= {"mpich", "openmpi"} and startup["level"] == MACHINE
    assert startup["least"] < 17 < startup["most"] and startup["from"][0]["path"]


def test_a_partition_that_resembles_no_published_machine_says_why(command, tmp_path):
    database = store(tmp_path / "results.db", session("session_lab"))
    code, out = command("like", "lab:native", "--database", database)
    assert code == 0
    assert "lab:native: no instance type, processor or link that a published machine has" in out


def test_variables_that_machines_bound_count_as_judged(monkeypatch, tmp_path):
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path))
    site(tmp_path)
    recorded = results.parse_session(session("session_lab"), "here")
    bounded = Expectations.of("lab").bounded(recorded)
    for case in recorded.measured:
        if case.partition == "native":
            assert {"startup_latency", "latency_1KiB"} <= bounded[case.where]


def test_the_page_has_a_strip_with_each_source_on_hover(command, tmp_path):
    site(tmp_path)
    database = store(tmp_path / "results.db", session("session_lab"))
    page = tmp_path / "page.html"
    assert command("report", "--database", database, "--output", page)[0] == 0
    html = page.read_text()
    assert "<h2>Machines like this one</h2>" in html and "lab:native" in html
    assert re.search(r"<title>[\d.]+ us: aws/aws-parallelcluster \(c5n.18xlarge", html)
    assert re.search(r'class="beyond" cx="[\d.]+%"[^>]*><title>8.48 us here with mpich', html)
    site(tmp_path, link_type="software")
    command("report", "--database", database, "--output", page)
    assert "Machines like this one" not in page.read_text()
