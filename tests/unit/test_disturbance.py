"""Evidence of a repeat: rules as data, what disturbed.awk found, and the output that counts."""

import re
import subprocess

import pytest

from nearmetal.checks import disturbance
from nearmetal.checks.disturbance import EvidenceError, measured, parse, rules
from tests.support.paths import RECORDED, SOURCES
from tests.support.said import lacking

FOUND = (RECORDED / "disturbed.txt").read_text()
OUTPUT = (RECORDED / "disturbed_output.txt").read_text()


def test_every_quantity_of_the_script_has_a_rule_and_the_other_way_round():
    script = (SOURCES / "disturbed.awk").read_text()
    said = set(re.findall(r'say(?:_growth)?\(host, "(\w+)"', script))
    assert said == set(rules())


def test_the_limits_are_those_of_the_rules():
    limits = dict(pair.split("=") for pair in disturbance.limits(rules(), "native").split())
    assert {name: float(most) for name, most in limits.items()} == {
        rule.name: rule.most for rule in rules().values() if rule.most is not None
    }


def test_recorded_evidence_names_the_causes_of_each_repeat():
    first, *others = parse(FOUND, rules())
    assert first.again and not any(one.again for one in others)
    assert first.values["waited"] == pytest.approx(0.519899)
    causes = {cause.rule: cause for cause in first.causes}
    assert set(causes) == {"foreign", "waited"}
    assert not lacking(causes["foreign"].text, "38.2 %", "reframe", "pingpong_1", "vm")
    assert not lacking(causes["waited"].text, "52 %", "vm")


def test_the_worst_node_gives_the_cause_its_number():
    text = (
        "repeat 1 n1 waited 0.2\ndisturbed 1 n1 waited 0.2 0.1\n"
        "repeat 1 n2 waited 0.4\ndisturbed 1 n2 waited 0.4 0.1\n"
    )
    ((cause,),) = [one.causes for one in parse(text, rules())]
    assert cause.value == 0.4 and not lacking(cause.text, "40 %", "n1, n2")


@pytest.mark.parametrize(
    "text",
    [
        "repeat 1 n1 waited much\n",
        "repeat 1 n1 waited nan\n",
        "repeat 1 n1 unknown_quantity 0.1\n",
        "repeat 2 n1 waited 0.1\n",
        "repeat 1 n1 waited 0.1\nagain 1\n",
        "repeat 1 n1\n",
        "anything\n",
    ],
)
def test_damaged_evidence_is_refused(text):
    with pytest.raises(EvidenceError, match=r"disturbed\.out"):
        parse(text, rules())


def test_output_of_repeats_that_ran_again_is_left_out():
    repeats = parse(FOUND, rules())
    kept = measured(OUTPUT, repeats)
    assert kept == "the launch's output\n" * 3


@pytest.mark.parametrize("lost", ["# nearmetal repeat: 2\n", "# nearmetal repeats: 4\n"])
def test_lost_marks_of_repeats_are_refused(lost):
    assert lost in OUTPUT
    with pytest.raises(EvidenceError, match="lost"):
        measured(OUTPUT.replace(lost, ""), parse(FOUND, rules()))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("stolen: {what: x, cause: y, most: high}", ("stolen.most", "high")),
        ("stolen: {what: x, cause: y, most: 0.1}", ("stolen", "why")),
        ("stolen: {what: x, cause: '{percent'}", ("stolen.cause",)),
        ("stolen: {what: x, cause: '{share}'}", ("stolen.cause", "{percent}")),
        ("stolen: {what: x, cause: y, mast: 1}", ("stolen", "mast")),
        ("stolen: [", ("YAML",)),
        ("{}", ("the file",)),
    ],
)
def test_a_wrong_rule_is_named_with_file_and_key(tmp_path, text, facts):
    path = tmp_path / "disturbance.yaml"
    path.write_text(text)
    with pytest.raises(EvidenceError) as error:
        rules(path)
    assert not lacking(str(error.value), str(path), *facts)


def decided(tmp_path, before: str, after: str, output: str, limits: str):
    """Exit status and output of disturbed.awk."""
    for name, text in (("before", before), ("after", after), ("output", output)):
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["awk", "-v", "repeat=1", "-v", f"limits={limits}", "-f", SOURCES / "disturbed.awk"]
        + [word for name in ("before", "after", "output") for word in (f"part={name}", name)],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout


def snapshot(seconds: float, **counts) -> str:
    lines = [f"n1 clock.uptime={seconds}"]
    lines += [f"n1 {key}={value}" for key, value in counts.items()]
    return "".join(f"{line}\n" for line in lines)


def test_the_script_judges_growth_by_its_limits(tmp_path):
    before = {"count.cpu.busy": 1000, "count.cpu.idle": 1000, "count.cpu.steal": 10}
    after = {"count.cpu.busy": 1150, "count.cpu.idle": 1040, "count.cpu.steal": 20}
    counters = snapshot(100, **before), snapshot(101, **after)
    status, text = decided(tmp_path, *counters, "", "stolen=0.06")
    assert status == 0 and "repeat 1 n1 stolen 0.05\n" in text
    status, text = decided(tmp_path, *counters, "", "stolen=0.04")
    assert status == 1 and "disturbed 1 n1 stolen 0.05 0.04\n" in text


def test_a_counter_that_a_node_does_not_show_is_not_judged(tmp_path):
    status, text = decided(tmp_path, snapshot(1), snapshot(2), "", "throttled=0 stolen=0")
    assert status == 0 and "throttled" not in text and "stolen" not in text


def test_waiting_is_of_the_ranks_of_the_last_repeat(tmp_path):
    usage = "# nearmetal usage: host=n1 wall={} cpu={} wait={} involuntary=0 major=0\n"
    output = (
        "# nearmetal repeat: 1\n" + usage.format(1, 0.5, 0.5) + "# nearmetal repeat: 2\n"
        "result\n" + usage.format(2, 2, 0.02) + usage.format(2, 1.9, 0.1)
    )
    status, text = decided(tmp_path, snapshot(1), snapshot(4), output, "waited=0.1")
    assert status == 0 and "repeat 1 n1 waited 0.0298507\n" in text and "interrupts" not in text


def test_foreign_processes_are_counted_from_their_first_tick(tmp_path):
    common = {"count.cpu.idle": 0, "count.cpu.steal": 0}
    before = snapshot(1, **common, **{"count.cpu.busy": 0, "process.1000.cc1": "1 50"})
    new = {"process.1000.cc1": "1 80", "process.0.make": "2 10", "count.cpu.busy": 200}
    status, text = decided(tmp_path, before, snapshot(2, **common, **new), "", "foreign=0.1")
    assert status == 1
    assert "disturbed 1 n1 foreign 0.2 0.1 1000.cc1,0.make\n" in text


def test_a_rule_may_hold_for_some_classes_of_link_alone():
    assert "retransmitted=" in disturbance.limits(rules(), "native")
    assert "retransmitted=" not in disturbance.limits(rules(), "emulated")


def test_a_short_run_and_a_jvm_are_not_judged_by_their_waiting(tmp_path):
    usage = "# nearmetal usage: host=n1 wall=2 cpu={} {}={} involuntary=0\n"
    for cpu, name, wait in ((0.9, "wait", 0.9), (2, "jvm_wait", 2), (2, "wait", -1)):
        output = "# nearmetal repeat: 1\n" + usage.format(cpu, name, wait)
        status, text = decided(tmp_path, snapshot(1), snapshot(4), output, "waited=0.1")
        assert status == 0 and "waited " not in text
        assert ("waited_jvm 0.5" in text) == (name == "jvm_wait")


def test_few_segments_say_nothing_of_retransmission(tmp_path):
    before = {"count.tcp.OutSegs": 0, "count.tcp.RetransSegs": 0}
    for sent, again, status in ((500, 50, 0), (5000, 50, 1)):
        after = {"count.tcp.OutSegs": sent, "count.tcp.RetransSegs": again}
        counters = snapshot(1, **before), snapshot(2, **after)
        assert decided(tmp_path, *counters, "", "retransmitted=0.005")[0] == status
