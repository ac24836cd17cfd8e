"""`nearmetal explain` on made-up sessions of all layers: the right cause first, "don't know" rather
than a wrong one, and nothing where nothing got worse."""

import json
import re
from dataclasses import replace

import jsonschema
import pytest
import yaml

from nearmetal import results
from nearmetal.checks import disturbance
from nearmetal.cli import main
from nearmetal.judge import baseline, native_ratio, record, render
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.expected import Expectations
from nearmetal.judge.explain import rules, symptoms
from nearmetal.judge.without_baseline import judge_without_baseline
from nearmetal.model import catalogue, settings
from nearmetal.model.facts import OF_HYPERVISOR
from nearmetal.util.cli_errors import NOBODY_READS
from tests.support.command import Unread
from tests.support.judging import judge_session
from tests.support.layers import CHECKS, SIZES, session, variables
from tests.support.paths import CHECKOUT, SOURCES
from tests.support.recorded import store
from tests.support.said import lacking

RULES = rules.load()
SLOW, LOW = 1.5, 0.6
TCP = [(("tcp", "", "latency"), SLOW), (("tcp", "", "bandwidth"), LOW)]
MPI = [(("internode", "", "latency"), SLOW), (("internode", "", "bandwidth"), LOW)]
LARGE = [(("tcp", "", "bandwidth"), LOW), (("internode", "", "bandwidth"), LOW)]
WITHIN = [(("intranode", "", "latency"), SLOW), (("intranode", "", "bandwidth"), LOW)]
STREAM = [(("stream", "", ""), LOW)]
BUSY = [*WITHIN, (("stream", "", "_2"), LOW), (("npb", "", ""), LOW), (("osnoise", "", ""), 3.0)]
COLLECTIVE = [(("collectives", "openmpi", "bcast"), SLOW)]
LAUNCH = [(("launch", "", "launch_2"), 2.0)]


def parsed(data: dict) -> results.Session:
    return results.parse_session(data, "here")


@pytest.fixture(scope="module")
def past() -> list[dict]:
    return [session(number) for number in range(12)]


@pytest.fixture(scope="module")
def known(past, tmp_path_factory) -> Baseline:
    where = tmp_path_factory.mktemp("baselines")
    after, _ = record.record(list(map(parsed, past)), Baseline("lab", where / "lab.yaml", {}))
    baseline.save(after)
    return baseline.load("lab", where)


@pytest.fixture(scope="module")
def explain(past, known):
    """The likely causes of a session with these steps, facts and evidence."""
    earlier = list(map(parsed, past))

    def explained(**given):
        now = parsed(session(100, repeats=10, **given))
        report = judge_session(now, known)
        seen = symptoms.observe(report, symptoms.before(now, known, earlier), RULES.evidence)
        return rules.likely_causes(seen, RULES)

    return explained


#: Cause -> what it changes in a session.
CAUSES = {
    "congestion control": {"steps": LARGE, "facts": {"tcp_congestion": "bbr"}},
    "socket buffers": {"steps": LARGE, "facts": {"tcp_rmem": "4096 65536 65536"}},
    "MTU": {"steps": LARGE, "facts": {"nic.eth0.mtu": "1200"}},
    "offloads": {
        "steps": [*TCP, *MPI],
        "facts": {"nic.eth0.offloads": "tso:off gso:off gro:off lro:off"},
        "evidence": {"interrupts": 90000.0},
    },
    "queue or limit of the interface": {
        "steps": [*TCP, *MPI],
        "facts": {"nic.eth0.qdisc": "tbf"},
        "evidence": {"retransmitted": 0.02},
    },
    "loss": {"steps": [*TCP, *MPI, *COLLECTIVE], "evidence": {"retransmitted": 0.01}},
    "link or switch": {"steps": [*TCP, *MPI]},
    "other processes": {
        "steps": BUSY,
        "evidence": {"foreign": 0.5, "waited": 0.4},
        "facts": {"foreign_processes": "root sh"},
    },
    "ranks share a core": {"steps": WITHIN, "evidence": {"waited": 0.5, "involuntary": 900.0}},
    "fewer cores": {
        "steps": BUSY,
        "facts": {"cpus_allowed": "1"},
        "evidence": {"waited": 0.5, "involuntary": 900.0},
    },
    "hypervisor takes time": {"steps": BUSY, "evidence": {"stolen": 0.3, "waited": 0.2}},
    "governor": {"steps": [*BUSY, *STREAM], "facts": {"governor": "powersave"}},
    "page size": {"steps": STREAM, "facts": {"thp": "never"}},
    "compiler or its flags": {"steps": STREAM, "facts": {"compiler": "GCC 14.2.0 -O0"}},
    "MPI library": {"steps": [*MPI, *WITHIN], "facts": {"mpi_library": "Open MPI 4.1.6"}},
    "container image": {
        "steps": MPI,
        "facts": {"image": "openmpi sha256:2", "mpi_library": "Open MPI 4.1.6"},
    },
    "PMI of image and srun": {
        "failed": {"openmpi": "image.sh: the MPI library in it finds its peers by pmix"}
    },
    "memory pressure": {"steps": BUSY, "evidence": {"memory_used": 0.97, "memory_pressure": 0.4}},
    "remote memory": {"steps": STREAM, "evidence": {"remote_pages": 90000.0}},
    "collective algorithm": {
        "steps": COLLECTIVE,
        "facts": {"mpi_settings": "OMPI_MCA_coll_tuned_bcast_algorithm=1"},
    },
    "eager limit": {
        "steps": [(("internode", "openmpi", "bandwidth_64KiB"), LOW)],
        "facts": {"mpi_settings": "OMPI_MCA_btl_tcp_eager_limit=1024"},
    },
    "transport settings of MPI": {
        "failed": {"intranode": "the messages within a node went through loopback"},
        "facts": {"mpi_settings": "MPIR_CVAR_NOLOCAL=1; UCX_TLS=tcp,self"},
    },
    "clock source": {
        "steps": [(("osnoise", "", ""), 3.0), (("", "", "latency"), 1.3)],
        "facts": {"clock_source": "hpet"},
    },
    "slower storage": {"steps": LAUNCH, "evidence": {"io_pressure": 0.3, "major_faults": 9000.0}},
    "kernel": {"steps": [*TCP, *MPI], "facts": {"kernel": "6.19.0"}},
    "memory": {"steps": STREAM},
    "shared memory of MPI": {"steps": WITHIN},
}


@pytest.mark.parametrize("name", CAUSES)
def test_the_right_cause_comes_first(explain, name):
    found = explain(**CAUSES[name])
    assert [one.name for one in found][:1] == [name], found
    assert found[0].evidence and found[0].places == ("native",)


@pytest.mark.parametrize(
    "name, given",
    [
        ("MPI library", {"steps": [(("internode", "openmpi", "latency"), SLOW)]}),
        ("collective algorithm", {"steps": COLLECTIVE}),
        (
            "eager limit",
            {
                "steps": [(("internode", "openmpi", "bandwidth_64KiB"), LOW)],
                "curve": {size: 1.8 for size in SIZES if 4096 <= size <= 65536},
            },
        ),
    ],
)
def test_layers_tell_neighbours_apart_without_a_fact(explain, name, given):
    assert explain(**given)[0].name == name


def test_nothing_is_explained_where_nothing_got_worse(explain):
    assert explain() == ()


def test_a_changed_fact_alone_is_no_cause_where_nothing_got_worse(explain):
    assert explain(facts={"tcp_congestion": "bbr"}) == ()


def test_what_no_rule_explains_is_not_known(explain):
    (only,) = explain(steps=[(("osnoise", "", ""), 3.0), *LAUNCH])
    assert only.name == rules.UNKNOWN and only.score == 0
    assert not lacking(only.says, "don't know")
    assert any("noise" in line for line in only.evidence)


def test_facts_that_cannot_be_the_cause_are_shown_beside_what_is_not_known(explain):
    (only,) = explain(steps=STREAM, facts={"nic.eth0.offloads": "tso:off"}, evidence={"waited": 1})
    assert only.name == "ranks share a core"
    found = explain(steps=[(("osnoise", "", ""), 3.0)], facts={"tcp_congestion": "bbr"})
    assert found[0].name == rules.UNKNOWN
    assert any("tcp_congestion changed: cubic -> bbr" in one for one in found[0].evidence)


def test_one_node_of_several(explain):
    nodes = {"stream %binding=bound": ["native3"], "npb %benchmark=ep": ["native1"]}
    steps = [*STREAM]
    names = [one.name for one in explain(steps=steps, nodes=nodes)]
    assert "one node" in names[:2] and "other nodes" in names


def test_a_further_node_beside_the_earlier_ones_is_no_cause(explain):
    """Reruns of a check of others are jobs of their own, which may start on any node."""
    nodes = {"stream %binding=bound": ["native1", "native2", "native3"]}
    names = [one.name for one in explain(steps=STREAM, nodes=nodes)]
    assert "other nodes" not in names


@pytest.mark.parametrize(
    "sign, first", [("these nodes alone", "one node"), ("all nodes", "memory")]
)
def test_what_other_nodes_showed_counts(past, known, sign, first):
    now = parsed(session(100, repeats=10, steps=STREAM))
    then = symptoms.before(now, known, map(parsed, past))
    shown = {"native": {sign: "said by the gate"}}
    seen = symptoms.observe(judge_session(now, known), then, RULES.evidence, shown)
    assert rules.likely_causes(seen, RULES)[0].name == first


def test_a_value_that_deviates_as_in_the_baseline_is_not_explained(known):
    now = parsed(session(100, repeats=10))
    report = judge_session(now, known)
    deviating = [replace(one, name="deviates") for one in report.verdicts]
    assert symptoms.observe(replace(report, verdicts=tuple(deviating)), {}, RULES.evidence) == []


def test_stray_repeats_are_no_layer_that_got_worse():
    """Such repeats within a node, in a drill with MTU 576, were blamed on the MPI library."""
    slower = [(("internode", "mpich", "latency"), 1.1)]
    data = session(100, repeats=5, steps=slower, facts={"nic.eth0.mtu": "576"})
    for case in data["runs"][0]["testcases"]:
        if case["display_name"].endswith("intranode") and case["environ"] == "openmpi":
            samples = case["samples"]["latency_1KiB"]
            for most in sorted(samples)[-2:]:
                samples[samples.index(most)] *= 100
    now = parsed(data)
    report = Expectations.of("lab").apply(judge_without_baseline(now, None, {}))
    [stray] = [one for one in report.verdicts if one.name == "deviates"]
    assert "something else ran during one of them" in stray.reason
    [seen] = symptoms.observe(report, {}, RULES.evidence)
    assert seen.of("worse") == () and "within/small" in seen.layers
    suspect = replace(seen, layers={**seen.layers, "mpi/small": "suspect", "tcp/small": "same"})
    changed = replace(suspect, facts={"nic.eth0.mtu": ("1500", "576")})
    for what in (suspect, changed):
        [cause] = rules.likely_causes([what], RULES)
        assert cause.name == rules.UNKNOWN
        assert stray.reason in cause.evidence


def test_a_case_that_failed_has_the_facts_that_it_recorded(explain):
    found = explain(failed={"tcp": "the job ended"}, facts={"nic.eth0.mtu": "576"})
    assert found[0].name == "MTU" and "nic.eth0.mtu: 1500 -> 576" in found[0].evidence


def seen(place: str, **given) -> symptoms.Observed:
    layers = {"tcp/large": "worse", "memory/all": "same", **given.pop("layers", {})}
    return symptoms.Observed(place, layers, ("tcp peak_bandwidth",), **given)


def test_one_cause_of_two_partitions_is_one():
    facts = {"kernel": ("6.18", "6.19")}
    first = seen("native", facts=facts, evidence={"retransmitted": "again"})
    second = seen("emulated", facts=facts, layers={"mpi/large": "worse"})
    found = rules.likely_causes([first, second], RULES)
    assert [(one.name, one.places) for one in found] == [
        ("kernel", ("native", "emulated")),
        ("loss", ("native",)),
    ]


def test_nothing_is_known_of_two_partitions():
    layers = {"tcp/large": "unknown", "noise": "worse"}
    found = rules.likely_causes([seen(one, layers=layers) for one in ("a", "b")], RULES)
    assert [(one.name, one.places) for one in found] == [(rules.UNKNOWN, ("a", "b"))]


def test_what_speaks_against_a_rule_halves_it():
    [rule] = [one for one in RULES.rules if one.name == "congestion control"]
    facts = {"tcp_congestion": ("cubic", "bbr")}
    alone = rules.score(rule, seen("a", facts=facts))
    assert alone == rules.FACT * rule.weight
    both = rules.score(rule, seen("a", facts=facts, layers={"memory/all": "worse"}))
    assert both == pytest.approx(alone * 0.75 * rules.AGAINST)


def test_old_baselines_without_the_new_facts_give_no_false_change(past, known):
    names = ("tcp_congestion", "tcp_rmem", "mpi_settings", "cpus_allowed", "clock_source")
    names += ("nic.eth0.qdisc", "nodes")
    entries = {
        key: replace(
            entry,
            facts={name: of for name, of in entry.facts.items() if name not in names},
            evidence={},
        )
        for key, entry in known.entries.items()
    }
    old = replace(known, entries=entries)
    now = parsed(session(100, repeats=10, steps=STREAM))
    seen = symptoms.observe(judge_session(now, old), symptoms.before(now, old, ()), RULES.evidence)
    assert [one.facts for one in seen] == [{}]
    assert rules.likely_causes(seen, RULES)[0].name == "memory"


def test_evidence_of_an_earlier_session_stands_in_for_that_of_an_old_baseline(past, known):
    entries = {key: replace(entry, evidence={}) for key, entry in known.entries.items()}
    old = replace(known, entries=entries)
    now = parsed(session(100, repeats=10, steps=TCP, evidence={"retransmitted": 0.02}))
    then = symptoms.before(now, old, map(parsed, past))
    seen = symptoms.observe(judge_session(now, old), then, RULES.evidence)
    assert rules.likely_causes(seen, RULES)[0].name == "loss"


def test_a_disturbance_is_explained_by_its_cause(explain, past, known):
    data = session(100, repeats=10)
    for case in data["runs"][0]["testcases"]:
        if case["display_name"].startswith("stream"):
            text = "other processes took 40 % of the processors' time: burn on native1"
            case["disturbed"] = [[1, False, ["foreign", 0.4, text]]]
    now = parsed(data)
    seen = symptoms.observe(
        judge_session(now, known), symptoms.before(now, known, ()), RULES.evidence
    )
    (first, *_) = rules.likely_causes(seen, RULES)
    assert first.name == "other processes" and "burn on native1" in first.evidence[0]


def test_a_quantity_of_older_sessions_is_ignored(past, known):
    """`apart` was one, and could disturb a repeat."""
    data = session(100, repeats=10, steps=TCP, evidence={"apart": 0.9, "retransmitted": 0.01})
    for case in data["runs"][0]["testcases"]:
        case["disturbed"] = [[1, False, ["apart", 0.9, "the host had moved the processors"]]]
    now = parsed(data)
    seen = symptoms.observe(
        judge_session(now, known), symptoms.before(now, known, ()), RULES.evidence
    )
    assert rules.likely_causes(seen, RULES)[0].name == "loss"


@pytest.mark.parametrize(
    "link_class, first", [("native", "other processes"), ("emulated", "link or switch")]
)
def test_a_switch_that_is_a_process_of_the_machine_is_no_other_process(
    past, known, link_class, first
):
    evidence = {"unexplained_shared": 0.75}
    data = session(100, repeats=10, steps=[*TCP, *MPI], evidence=evidence)
    for case in data["runs"][0]["testcases"]:
        case["link_class"] = link_class
    now = parsed(data)
    seen = symptoms.observe(
        judge_session(now, known), symptoms.before(now, known, ()), RULES.evidence
    )
    assert rules.likely_causes(seen, RULES)[0].name == first


def test_the_baseline_holds_nodes_and_evidence(known):
    entry = known.entries["tcp", "native", "gnu"]
    assert entry.facts["nodes"] == "native1, native2"
    assert entry.evidence["retransmitted"] == (0.0001, 0.0001)


@pytest.mark.parametrize(
    "factors, said",
    [
        (dict.fromkeys(SIZES, 1.0), {}),
        (dict.fromkeys(SIZES, 2.0), {}),
        (
            {size: 2.0 for size in SIZES if size >= 65536},
            {"only from a size": "messages of 64 KiB and more alone got slower"},
        ),
        (
            {4096: 2.0, 16384: 2.0},
            {"only between sizes": "messages of 4 KiB to 16 KiB alone got slower"},
        ),
    ],
)
def test_the_sizes_that_got_slower(factors, said):
    then = {size: [10.0, 10.1, 9.9, 10.05] for size in SIZES}
    now = {size: [one * factors.get(size, 1.0) for one in of] for size, of in then.items()}
    assert symptoms.sign_of_sizes(now, then) == said


def test_every_quantity_of_evidence_has_an_entry():
    limits = disturbance.rules()
    assert set(RULES.evidence) | {"numa_misses"} == set(limits) | {"numa_misses"}
    for name, quantity in RULES.evidence.items():
        if quantity.link_classes:
            assert quantity.link_classes == limits[name].link_classes, name


def test_every_variable_of_the_checks_here_has_a_layer():
    for check in CHECKS:
        for name in variables(check):
            assert catalogue.layer(check, name) != catalogue.NONE


def recorded_facts() -> set[str]:
    """Names of facts that provenance.sh prints, that checks add, and some of MPI's variables."""
    script = (SOURCES / "provenance.sh").read_text()
    names = set(re.findall(r"\bfact ([a-z_]+) ", script))
    names |= set(re.findall(r"\bfile_fact ([a-z_]+) ", script))
    names |= {f"nic.eth0.{key}" for key in re.findall(r'fact "nic\.\$1\.(\w+)"', script)}
    names |= {f"ib.mlx5_0.1.{key}" for key in re.findall(r'fact "ib\.\$1\.\$2\.(\w+)"', script)}
    variables = ("UCX_TLS", "UCX_RNDV_THRESH", "OMPI_MCA_coll_tuned_bcast_algorithm", "UCX_X")
    names |= {f"mpi_settings.{name}" for name in variables}
    names |= {*OF_HYPERVISOR, "binding", "pages", "storage", settings.FACT}
    return names | set(results.FACTS) | {"sources", "spack.openmpi", "foreign_processes"}


def test_checks_of_others_have_a_layer_that_every_rule_of_any_layer_covers():
    assert catalogue.layer("their_check", "speed") == catalogue.OTHER
    assert catalogue.layers("their_check") == {catalogue.OTHER}
    assert rules.covers((rules.ANY,), catalogue.OTHER)


def test_every_fact_of_a_rule_is_recorded():
    known = recorded_facts()
    for rule in RULES.rules:
        for pattern in (*rule.facts, *rule.shows):
            assert any(re.fullmatch(pattern, name) for name in known), (rule.name, pattern)


def test_every_rule_says_how_it_differs_and_can_win():
    names = {rule.name for rule in RULES.rules}
    assert set(CAUSES) <= names and len(names) == len(RULES.rules)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda data: data["rules"][0].pop("says"), ["rules.0", "says"]),
        (lambda data: data["rules"][0].update(facts=["("]), ["rules.0.facts.0", "regex"]),
        (lambda data: data["rules"][0].update(moves=["tpc"]), ["congestion control", "tpc"]),
        (lambda data: data["rules"][0].update(evidence=["retry"]), ["'retry'", "evidence"]),
        (lambda data: data["rules"][1].update(name="congestion control"), ["rules.", "name"]),
        (lambda data: data["evidence"]["stolen"].update(says="{x}"), ["evidence.stolen.says"]),
        (lambda data: data["rules"][0].update(unknown=1), ["rules.0", "unknown"]),
    ],
)
def test_an_error_in_the_rules_names_file_and_key(tmp_path, change, words):
    data = yaml.safe_load(rules.RULES.read_text())
    change(data)
    path = tmp_path / "causes.yaml"
    path.write_text(yaml.safe_dump(data))
    with pytest.raises(rules.RulesError) as raised:
        rules.load(path)
    assert not lacking(str(raised.value), "causes.yaml", *words)


def test_a_key_twice_is_an_error(tmp_path):
    path = tmp_path / "causes.yaml"
    path.write_text(rules.RULES.read_text() + "\nrules: []\n")
    with pytest.raises(rules.RulesError, match="twice"):
        rules.load(path)


@pytest.fixture
def command(past, known, tmp_path, monkeypatch, capsys):
    """Runs a command on the past and one more session: exit code, output, and its JSON."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(known.path.parent))

    def run(name: str, baseline: bool = True, **given):
        if not baseline:
            monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "none"))
        database = store(tmp_path / "results.db", *past, session(100, repeats=10, **given))
        document = tmp_path / "out.json"
        words = [name, "--database", str(database), "--json", str(document)]
        monkeypatch.setattr("sys.argv", ["nearmetal", *words])
        code = main()
        return code, capsys.readouterr().out, json.loads(document.read_text())

    return run


def test_the_command_lists_causes_with_their_evidence(command):
    code, out, document = command("explain", **CAUSES["congestion control"])
    assert code == document["exit_code"] == 1
    assert not lacking(out, "congestion control", "tcp_congestion: cubic -> bbr", "native")
    assert document["causes"][0]["cause"] == "congestion control"
    assert document["causes"][0]["partitions"] == ["native"]


def test_the_command_explains_nothing_where_nothing_got_worse(command):
    code, out, document = command("explain")
    assert code == document["exit_code"] == 0 and document["causes"] == []
    assert "nothing to explain" in out


def test_the_command_compares_with_the_session_before_where_there_is_no_baseline(command):
    code, out, document = command("explain", baseline=False, **CAUSES["loss"])
    assert code == 1 and document["causes"][0]["cause"] == "loss"
    assert "retransmitted" not in out and "segments again" in out


def test_the_gate_lists_them_too(command):
    code, out, document = command("gate", **CAUSES["MTU"])
    schema = yaml.safe_load((CHECKOUT / "nearmetal/judge/gate-schema.yaml").read_text())
    jsonschema.validate(document, schema)
    assert code == 1 and document["causes"][0]["cause"] == "MTU"
    assert not lacking(out, "likely causes:", "native: MTU", "nearmetal explain")


def test_rules_that_cannot_be_read_cost_the_gate_no_verdict(command, monkeypatch):
    def damaged():
        raise rules.RulesError("causes.yaml: rules.0: damaged")

    monkeypatch.setattr(rules, "load", damaged)
    code, out, document = command("gate", **CAUSES["MTU"])
    assert code == 1 and document["causes"] == []
    assert "not explained: causes.yaml: rules.0: damaged" in out


def test_an_error_leaves_no_causes_of_yesterday(command, monkeypatch, tmp_path):
    def damaged():
        raise rules.RulesError("causes.yaml: rules.0: damaged")

    monkeypatch.setattr(rules, "load", damaged)
    (tmp_path / "out.json").write_text("{}")
    code, _, document = command("explain", **CAUSES["MTU"])
    assert code == document["exit_code"] == 3 and document["causes"] == []


def test_causes_are_written_even_if_nobody_reads_them(command, monkeypatch):
    monkeypatch.setattr("sys.stdout", Unread())
    code, _, document = command("explain", **CAUSES["MTU"])
    assert code == NOBODY_READS and document["causes"][0]["cause"] == "MTU"


def test_a_first_session_that_deviates_is_explained_by_its_layers(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "none"))
    first = session(1, repeats=10, steps=[(("intranode", "", "latency"), 100.0)])
    database = store(tmp_path / "results.db", first)
    monkeypatch.setattr("sys.argv", ["nearmetal", "explain", "--database", str(database)])
    assert main() == 1
    assert not lacking(capsys.readouterr().out, "deviates", "worse: within;", "native")


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("memory_used", 0.997, "100 %"),
        ("memory_used", 0.0523, "5.2 %"),
        ("involuntary", 12345.0, "12345"),
    ],
)
def test_evidence_is_said_without_powers_of_ten(name, value, said):
    assert said in RULES.evidence[name].in_words(0.0, value)


@pytest.mark.parametrize("score, word", [(5.0, "strong"), (2.5, "fair"), (1.0, "weak"), (0.0, "")])
def test_support_in_a_word(score, word):
    assert render.support(score) == word


def test_a_busy_user_space_switch_is_no_shared_core(explain):
    names = [one.name for one in explain(steps=[*TCP, *MPI], evidence={"waited": 0.4})]
    assert names[0] == "link or switch"


@pytest.mark.parametrize("name", CAUSES)
def test_other_nodes_and_a_new_revision_hide_no_cause(explain, name):
    given = {**CAUSES[name], "nodes": {check: ["native3", "native4"] for check in CHECKS}}
    given["facts"] = {**given.get("facts", {}), "revision": "abc", "foreign_processes": "a b"}
    names = [one.name for one in explain(**given)]
    assert name in names[:2]


def test_a_ratio_that_got_worse_stands_in_for_its_variable(known):
    """As where all partitions drift, and one of them a little more."""
    now = parsed(session(100, repeats=10, steps=MPI))
    report = judge_session(now, known)
    worse = [one for one in report.verdicts if one.name == "regressed"]
    ratios = [replace(one, variable=one.variable + native_ratio.SUFFIX) for one in worse]
    own = [replace(one, name="inconclusive") if one in worse else one for one in report.verdicts]
    [seen] = symptoms.observe(replace(report, verdicts=(*own, *ratios)), {}, RULES.evidence)
    assert [*seen.worse] == [" ".join([*one.where, one.variable]) for one in worse]
