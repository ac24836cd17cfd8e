"""Evidence of a repeat: rules as data, what disturbed.awk found, and the output that counts."""

import re
import subprocess
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SanityError

from nearmetal import results
from nearmetal.checks import disturbance
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.disturbance import EvidenceError, measured, parse, rules
from tests.support.campaigns import campaign
from tests.support.evidence import USAGE, WHOLE, cpu, decided, judged, snapshot
from tests.support.marked import FOREIGN, between_lines, marked
from tests.support.paths import RECORDED, SOURCES
from tests.support.said import lacking

FOUND = (RECORDED / "disturbed.txt").read_text()
OUTPUT = (RECORDED / "disturbed_output.txt").read_text()


def test_every_quantity_of_the_script_has_a_rule_and_the_other_way_round():
    script = (SOURCES / "disturbed.awk").read_text()
    said = set(re.findall(r'say(?:_growth|_time)?\(host, "(\w+)"', script))
    assert said == set(rules())


def test_the_limits_are_those_of_the_rules():
    limits = dict(pair.split("=")[:2] for pair in disturbance.limits(rules(), "native").split())
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


def test_the_script_judges_growth_by_its_limits(tmp_path):
    counters = snapshot(100), snapshot(101, **{"count.nic_errors": 3})
    assert "nic_errors" not in decided(tmp_path, *counters, "", "nic_errors=0")[1]
    counters = snapshot(100, **{"count.nic_errors": 1}), counters[1]
    status, text = decided(tmp_path, *counters, "", "nic_errors=2")
    assert status == 0 and "repeat 1 n1 nic_errors 2\n" in text
    status, text = decided(tmp_path, *counters, "", "nic_errors=1")
    assert status == 1 and "disturbed 1 n1 nic_errors 2 1\n" in text


def test_a_counter_that_a_node_does_not_show_is_not_judged(tmp_path):
    status, text = decided(tmp_path, snapshot(1), snapshot(2), "", "throttled=0")
    assert status == 0 and "throttled" not in text and "unknown" not in text


@pytest.mark.parametrize("processors", [2, 64])
def test_stolen_time_counts_where_processors_had_work(tmp_path, processors):
    """A job on 2 of 64 processors, from which the hypervisor takes a fifth."""
    used = cpu(busy=320, steal=80, idle=100 * (processors - 2) * 2)
    counters = snapshot(1, **cpu(idle=0)), snapshot(3, **used)
    status, text = decided(tmp_path, *counters, "", "stolen=0.1")
    assert status == 1 and "disturbed 1 n1 stolen 0.2 0.1\n" in text


def test_a_few_stolen_ticks_of_an_idle_node_say_nothing(tmp_path):
    counters = snapshot(1), snapshot(3, **cpu(busy=40, steal=10))
    assert decided(tmp_path, *counters, "", "stolen=0.1 stolen_worst=0.25")[0] == 0


def test_one_processor_that_is_stolen_is_seen_among_many(tmp_path):
    before = snapshot(1, **{"count.steal.0": 50}, **cpu(steal=50, idle=0))
    used = {"count.steal.0": 51, "count.steal.63": 70, **cpu(steal=121, busy=12700, idle=0)}
    status, text = decided(
        tmp_path, before, snapshot(3, **used), "", "stolen=0.1 stolen_worst=0.25"
    )
    assert status == 1 and "disturbed 1 n1 stolen_worst 0.35 0.25\n" in text


def test_a_switch_on_the_ranks_own_cores_makes_them_wait():
    assert "waited=" not in disturbance.limits(rules(), "emulated")
    assert "waited=" in disturbance.limits(rules(), "native")


def test_waiting_is_of_the_ranks_of_the_last_repeat(tmp_path):
    output = (
        "# nearmetal repeat: 1\n" + USAGE.format("n1", 1, 1, 1) + "# nearmetal repeat: 2\n"
        "result\n" + USAGE.format("n1", 2, 2, 0.02) + USAGE.format("n1", 1.9, 1.9, 0.1)
    )
    status, text = decided(tmp_path, snapshot(1), snapshot(4), output, "waited=0.1")
    assert status == 0 and "repeat 1 n1 waited 0.05\n" in text and "interrupts" not in text


def test_two_ranks_on_one_of_64_cores_are_the_ones_that_count(tmp_path):
    output = "# nearmetal repeat: 1\n" + USAGE.format("n1", 10, 10, 0) * 62
    output += USAGE.format("n1", 5, 5, 5) * 2
    most = rules()["waited"].most
    status, text = decided(tmp_path, snapshot(1), snapshot(4), output, f"waited={most}")
    assert status == 1 and f"disturbed 1 n1 waited 0.5 {most}\n" in text


@pytest.mark.parametrize(
    "value, judged", [(None, 1), ("0", 1), ("false", 1), ("1", 0), ("true", 0)]
)
def test_ranks_that_yield_wait_by_choice(tmp_path, monkeypatch, value, judged):
    if value:
        monkeypatch.setenv("OMPI_MCA_mpi_yield_when_idle", value)
    output = "# nearmetal repeat: 1\n" + USAGE.format("n1", 5, 5, 5) * 2
    limits = disturbance.limits(rules(), "native")
    status, text = decided(tmp_path, snapshot(1), snapshot(4), output, limits)
    assert status == judged and ("disturbed 1 n1 waited" in text) == judged
    assert "repeat 1 n1 waited 0.5\n" in text


def test_two_threads_on_one_of_64_cores_are_the_ones_that_count(tmp_path):
    usage = USAGE.replace(" involuntary", " worst={} involuntary")
    for worst, status in ((-1, 0), (0.5, 1)):
        output = "# nearmetal repeat: 1\n" + usage.format("n1", 630, 630, 10, worst)
        limits = f"waited={rules()['waited'].most}"
        assert decided(tmp_path, snapshot(1), snapshot(9), output, limits)[0] == status


def test_a_short_run_and_a_jvm_are_not_judged_by_their_waiting(tmp_path):
    usage = "# nearmetal usage: host=n1 wall=2 cpu={} {}={} involuntary=0\n"
    for used, name, wait in ((0.4, "wait", 0.4), (2, "jvm_wait", 2), (2, "wait", -1)):
        output = "# nearmetal repeat: 1\n" + usage.format(used, name, wait)
        status, text = decided(tmp_path, snapshot(1), snapshot(4), output, "waited=0.1")
        assert status == 0 and "waited " not in text
        assert ("waited_jvm 0.5" in text) == (name == "jvm_wait")


def test_foreign_processes_are_counted_from_their_first_tick(tmp_path):
    before = snapshot(1, **cpu(idle=0), **{"process.1000.cc1": "1 50"})
    new = {"process.1000.cc1": "1 80", "process.0.make": "2 30", **cpu(busy=200, idle=0)}
    status, text = decided(tmp_path, before, snapshot(2, **new), "", "foreign_processors=0.3")
    assert status == 1 and "repeat 1 n1 foreign 0.3 " in text
    assert re.search(
        "disturbed 1 n1 foreign_processors 0.6 0.3 (1000.cc1,0.make|0.make,1000.cc1)", text
    )


@pytest.mark.parametrize("processors", [2, 64, 200])
def test_a_process_that_spins_is_seen_on_a_node_of_any_size(tmp_path, processors):
    most = rules()["foreign_processors"].most
    used = {"process.0.spin": "1 200", **cpu(busy=200, idle=200 * (processors - 1))}
    counters = snapshot(1, **cpu(idle=0)), snapshot(3, **used)
    status, text = decided(tmp_path, *counters, "", f"foreign_processors={most}")
    assert status == 1 and "disturbed 1 n1 foreign_processors 1 " in text


@pytest.mark.parametrize(("seconds", "ticks"), [(1, 40), (60, 300)])
def test_a_daemon_that_works_now_and_then_is_no_disturbance(tmp_path, seconds, ticks):
    limits = " ".join(
        f"{name}={rules()[name].most}" for name in ("foreign_processors", "unexplained")
    )
    used = {"process.0.daemon": f"1 {ticks}", **cpu(busy=ticks)}
    status, text = decided(tmp_path, snapshot(1), snapshot(1 + seconds, **used), "", limits)
    assert status == 0 and "foreign_processors" in text


OWN = "# nearmetal repeat: 1\n# nearmetal program: x\n"
HIDDEN = WHOLE.replace("view=all", "view=our own alone (hidepid)")
UNEXPLAINED = f"unexplained={rules()['unexplained'].most}"


@pytest.mark.parametrize("facts", [WHOLE, HIDDEN])
def test_time_that_no_process_explains_is_judged(tmp_path, facts):
    """A node of 2 processors is 100 % busy, and the rank used 1.6 % of them."""
    used = cpu(busy=1000, idle=0, interrupts=10, threads=30)
    counters = snapshot(1, **cpu(idle=0, threads=0)), snapshot(6, **used)
    output = OWN + USAGE.format("n1", 0.16, 0.16, 0)
    status, text = decided(tmp_path, *counters, output, UNEXPLAINED, facts)
    assert status == 1 and "disturbed 1 n1 unexplained 1.648 0.3\n" in text
    assert ("foreign 0\n" in text) == (facts == WHOLE) == ("foreign_processors" in text)


def test_the_job_the_kernel_and_visible_processes_explain_their_time(tmp_path):
    used = {"process.0.spin": "1 400", **cpu(busy=1000, idle=0, interrupts=50, threads=60)}
    counters = snapshot(1, **cpu(idle=0, threads=0)), snapshot(6, **used)
    output = OWN + USAGE.format("n1", 3.9, 4.5, 0)
    status, text = decided(tmp_path, *counters, output, UNEXPLAINED)
    assert status == 0 and "repeat 1 n1 unexplained 0\n" in text and "busy 2\n" in text


def test_clocks_that_err_by_a_hundredth_and_launches_are_no_disturbance(tmp_path):
    """64 ranks on 64 processors for 20 seconds, and ten launches of a fifth of a second each."""
    ranks = OWN + USAGE.format("n1", 20, 20, 0) * 64
    counters = snapshot(1, **cpu(idle=0)), snapshot(21, **cpu(busy=int(128000 * 1.01), idle=0))
    assert decided(tmp_path, *counters, ranks, UNEXPLAINED)[0] == 0
    launches = OWN + "# nearmetal program: x\n" * 9 + USAGE.format("n1", 0.1, 0.1, 0) * 10
    counters = snapshot(1), snapshot(6, **cpu(busy=400))
    assert decided(tmp_path, *counters, launches, UNEXPLAINED)[0] == 0


def test_programs_that_do_not_say_their_time_are_judged_by_their_cgroup_alone(tmp_path):
    used = cpu(busy=1000, idle=0)
    counters = snapshot(1, **cpu(idle=0)), snapshot(6, **used)
    for output in ("", OWN, OWN + "# nearmetal usage: host=n1 wall=1 cpu=1 jvm_wait=0\n"):
        status, text = decided(tmp_path, *counters, output, UNEXPLAINED)
        assert status == 0 and "unexplained" not in text and "busy 2\n" in text
    before, after = ({"count.job_us": us} for us in (5_000_000, 7_000_000))
    counters = snapshot(1, **cpu(idle=0), **before), snapshot(6, **used, **after)
    status, text = decided(tmp_path, *counters, "", UNEXPLAINED)
    assert status == 1 and "disturbed 1 n1 unexplained 1.36 0.3\n" in text


def test_nodes_of_one_machine_are_judged_as_one(tmp_path):
    """Each of two nodes shows the machine's two processors, of which each rank has one."""
    facts = WHOLE + WHOLE.replace("n1", "n2")
    before = snapshot(1, **cpu(idle=0)) + snapshot(1, "n2", **cpu(idle=0))
    used = cpu(busy=1000, idle=0)
    after = snapshot(6, **used) + snapshot(6, "n2", **used)
    both = OWN + USAGE.format("n1", 4.8, 4.9, 0) + USAGE.format("n2", 4.8, 4.9, 0)
    limits = f"{UNEXPLAINED} unexplained_shared=0.5"
    status, text = decided(tmp_path, before, after, both, limits, facts)
    assert (
        status == 0 and "n1 unexplained_shared 0\n" in text and "n2 unexplained_shared 0\n" in text
    )
    apart = facts.replace("n2 machine.boot=a-1", "n2 machine.boot=b-1")
    status, text = decided(tmp_path, before, after, both, limits, apart)
    assert status == 1 and "disturbed 1 n2 unexplained 0.78 0.3\n" in text
    few = OWN + USAGE.format("n1", 1, 1, 0) + USAGE.format("n2", 1, 1, 0)
    status, text = decided(tmp_path, before, after, few, limits, facts)
    assert status == 1 and "disturbed 1 n1 unexplained_shared 1.16 0.5\n" in text


def test_a_container_is_a_part_of_its_machine(tmp_path):
    facts = WHOLE.replace("whole", "container")
    counters = snapshot(1, **cpu(idle=0)), snapshot(6, **cpu(busy=1000, idle=0))
    text = decided(tmp_path, *counters, OWN + USAGE.format("n1", 1, 1, 0), "", facts)[1]
    assert "unexplained_shared " in text and "unexplained " not in text
    assert "unexplained_shared=" not in disturbance.limits(rules(), "emulated")
    assert "unexplained_shared=" in disturbance.limits(rules(), "native")


def without(text: str, key: str) -> str:
    return "".join(line for line in text.splitlines(True) if f" {key}=" not in line)


@pytest.mark.parametrize(
    "key", ["count.cpu.busy", "count.cpu.steal", "clock.uptime", "lo.rx_bytes"]
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_counters_are_unknown_and_not_good(tmp_path, key, when):
    facts = WHOLE + WHOLE.replace("n1", "n2")
    whole = {"before": snapshot(1, "n2"), "after": snapshot(2, "n2")}
    whole[when] = without(whole[when], key)
    before, after = whole["before"] + snapshot(1), whole["after"] + snapshot(2)
    status, text = decided(tmp_path, before, after, "", "foreign_processors=0.3", facts)
    assert status == 0 and f"unknown 1 n2 {key} is missing {when} it\n" in text
    assert "n1 foreign 0\n" in text and "n2 foreign" not in text and "unexplained" not in text


def test_a_node_that_is_lost_and_a_counter_that_vanishes_are_unknown(tmp_path):
    facts = WHOLE + WHOLE.replace("n1", "n2")
    before = snapshot(1, **{"count.pgmajfault": 1}) + snapshot(1, "n2")
    text = decided(tmp_path, before, snapshot(2), "", "", facts)[1]
    assert "unknown 1 n2 clock.uptime is missing after it\n" in text
    assert "unknown 1 n1 count.pgmajfault is missing after it\n" in text


@pytest.mark.parametrize("when", ["before", "after"])
def test_lines_of_others_are_skipped_and_a_lost_line_is_not(tmp_path, when):
    parts = {"facts": marked(WHOLE), "before": marked(snapshot(1)), "after": marked(snapshot(2))}
    output = "# nearmetal repeat: 1\n" + USAGE.format("n1", 2, 2, 0)
    for line in FOREIGN:
        between = {name: between_lines(text, line) for name, text in parts.items()}
        assert judged(tmp_path, **between, output=output) == judged(
            tmp_path, **parts, output=output
        )
    parts[when] = without(parts[when], "count.cpu.interrupts")
    text = judged(tmp_path, **parts, output=output)[1]
    assert f"unknown 1 n1 lines are missing {when} it\n" in text


def test_a_long_host_name_is_that_of_its_node(tmp_path):
    """The programs report the host's name, and Slurm has a shorter one for the node."""
    facts = WHOLE + "n1 machine.host=n1.alpine.example.org\n"
    output = "# nearmetal repeat: 1\n" + USAGE.format("n1.alpine.example.org", 2, 2, 2)
    text = decided(tmp_path, snapshot(1), snapshot(2), output, "waited=0.4", facts)[1]
    assert "disturbed 1 n1 waited 0.5 0.4\n" in text and "example.org" not in text


def test_the_memory_in_use_is_that_before_the_repeat(tmp_path):
    counters = (snapshot(at, **{"count.memory_used_ppm": ppm}) for at, ppm in ((1, 980000), (2, 9)))
    text = decided(tmp_path, *counters, "", "")[1]
    assert "repeat 1 n1 memory_used 0.98\n" in text


def test_the_frequency_is_the_mean_around_the_repeat_and_the_lowest_of_the_nodes(tmp_path):
    counters = (snapshot(at, **{"count.frequency_khz": khz}) for at, khz in ((1, 3e6), (2, 2e6)))
    text = decided(tmp_path, *counters, "", "")[1]
    assert "repeat 1 n1 frequency_mhz 2500\n" in text
    text = "repeat 1 n1 frequency_mhz 2500\nrepeat 1 n2 frequency_mhz 900\nrepeat 1 n1 busy 3\n"
    [repeat] = parse(text, rules())
    assert repeat.values == {"frequency_mhz": 900, "busy": 3}


def test_a_sentence_says_of_which_repeats_nothing_is_known():
    text = "".join(
        f"repeat {number} n1 busy 1\nunknown {number} n2 count.cpu.busy is missing after it\n"
        for number in (1, 2)
    )
    repeats = parse(text + "unknown 3 n1 its clock did not advance\n", rules())
    assert [one.number for one in repeats] == [1, 2, 3]
    first, second = disturbance.not_known(repeats)
    assert not lacking(first, "repeat 1, 2 on n2", "count.cpu.busy is missing", "provenance.sh")
    assert not lacking(second, "repeat 3 on n1", "clock")


def test_a_cause_is_said_without_powers_of_ten():
    [repeat] = parse("disturbed 1 n1 involuntary 12345.6 1000\n", rules())
    assert repeat.causes[0].text == "the kernel switched ranks 12346 times a second on n1"


def run_repeats(place, snapshots: str) -> list[disturbance.Repeat]:
    """What repeats.sh records of two repeats, with this shell function as `snapshot`."""
    for name in ("repeats.sh", "disturbed.awk"):
        (place / name).write_text((SOURCES / name).read_text())
    (place / "provenance.before").write_text(marked(WHOLE + snapshot(1)))
    (place / "after").write_text(marked(snapshot(2)))
    script = f"set -e; launch() {{ :; }}; {snapshots}; . ./repeats.sh; repeats 2 1 '' out"
    with (place / "out").open("w") as out:
        subprocess.run(["sh", "-c", script], cwd=place, stdout=out, check=True)
    return parse((place / "disturbed.out").read_text(), rules())


def test_a_snapshot_that_fails_is_taken_once_more(tmp_path):
    later = "sed s/=2/=$((number+1))/ after"
    once = f"snapshot() {{ [ -e failed ] || {{ touch failed; return 1; }}; {later}; }}"
    assert not disturbance.not_known(run_repeats(tmp_path, once))


def test_a_snapshot_that_fails_ends_no_job_and_is_unknown(tmp_path):
    [text] = disturbance.not_known(run_repeats(tmp_path, "snapshot() { head -n 1 after; false; }"))[
        :1
    ]
    assert not lacking(text, "repeat 1 on n1", "count.cpu.busy is missing after it")


@pytest.mark.parametrize("damage", [lambda text: "", lambda text: text[: len(text) // 3]])
def test_a_case_with_a_lost_snapshot_has_unknown_evidence_and_does_not_fail(tmp_path, damage):
    """A rank waited in repeat 1, which ran again. A snapshot in the middle is cut off."""
    output = "# nearmetal repeat: 1\n" + USAGE.format("n1", 1, 1, 2)
    text = decided(tmp_path, snapshot(1), damage(snapshot(2)), output, "waited=0.4")[1]
    files = {
        "disturbed.out": f"{text}again 1\nrepeat 2 n1 busy 1\n",
        "evidence.0": marked(snapshot(1)),
        "evidence.1": damage(marked(snapshot(2))),
    }

    class Case:
        _measured, _record_evidence = NearmetalCheck._measured, NearmetalCheck._record_evidence
        _counters_around = NearmetalCheck._counters_around
        _read = staticmethod(files.get)

    case = Case()
    marks = "# nearmetal repeat: {}\nresult {}\n"
    said = marks.format(1, 1) + marks.format(2, 2) + "# nearmetal repeats: 2\n"
    assert case._measured(said) == "result 2\n"
    [sentence] = case.unknown_evidence
    assert "repeat 1 on n1 is not known" in sentence and case.disturbed[0][:2] == [1, True]
    assert case.evidence["busy"] == [None, 1]


def test_a_rule_may_hold_for_some_classes_of_link_alone():
    assert "retransmitted=" in disturbance.limits(rules(), "native")
    assert "retransmitted=" not in disturbance.limits(rules(), "emulated")


def test_a_site_has_limits_of_its_own_on_every_class_of_link():
    own = disturbance.with_limits(rules(), {"foreign": 0.1, "retransmitted": 0.01})
    limits = disturbance.limits(own, "emulated").split()
    assert {"foreign=0.1", "retransmitted=0.01", "stolen=0.1"} <= set(limits)
    assert "foreign=" not in disturbance.limits(rules(), "native")
    with pytest.raises(EvidenceError) as error:
        disturbance.with_limits(rules(), {"foreigns": 0.1})
    assert not lacking(str(error.value), "foreigns: no such quantity", "busy, foreign")


def test_a_check_has_the_limits_of_its_partition_and_refuses_unknown_ones():
    class Case:
        limits_of_disturbance = NearmetalCheck.limits_of_disturbance
        link_class = "native"
        current_partition = SimpleNamespace(fullname="ec2:cc", extras={})

    assert "foreign=" not in Case().limits_of_disturbance()
    Case.current_partition.extras = {"disturbed_above": {"foreign": 0.1}}
    assert " foreign=0.1 " in Case().limits_of_disturbance()
    Case.current_partition.extras = {"disturbed_above": {"foreigns": 0.1}}
    with pytest.raises(SanityError, match="disturbed_above in the extras of ec2:cc: foreigns"):
        Case().limits_of_disturbance()


def test_few_segments_say_nothing_of_retransmission(tmp_path):
    before = {"count.tcp.OutSegs": 0, "count.tcp.RetransSegs": 0}
    for sent, again, status in ((500, 50, 0), (5000, 50, 1)):
        after = {"count.tcp.OutSegs": sent, "count.tcp.RetransSegs": again}
        counters = snapshot(1, **before), snapshot(2, **after)
        assert decided(tmp_path, *counters, "", "retransmitted=0.005")[0] == status


def stored(**ours):
    """The first case of a session that stores these variables."""
    data = campaign(1)
    data["runs"][0]["testcases"][0].update(ours)
    return results.parse_session(data, "here").cases[0]


def test_stored_evidence_is_of_each_repeat():
    case = stored(
        evidence={"waited": [0.5, 0.1, 0.3], "busy": [None, 2, 4]},
        disturbed=[[1, True, ["waited", 0.5, "waited"]]],
        unknown_evidence=["repeat 1 ..."],
    )
    assert case.evidence == (
        {"waited": 0.5},
        {"waited": 0.1, "busy": 2},
        {"waited": 0.3, "busy": 4},
    )
    assert case.unknown_evidence == ("repeat 1 ...",)
    assert case.median_evidence == {"waited": 0.2, "busy": 3}
    assert stored().evidence == () and stored().median_evidence == {}


@pytest.mark.parametrize(
    "evidence", [{"waited": 0.5}, {"waited": [[1]]}, {"waited": [1, 2], "busy": [1]}, ["waited"]]
)
def test_damaged_evidence_of_a_session_is_named_by_its_place(evidence):
    with pytest.raises(results.ResultsError, match=r"runs\.0\.testcases\.0\.evidence"):
        stored(evidence=evidence)
