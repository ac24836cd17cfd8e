"""Nodes beside traffic: the program's output, what is stored, and what is said of it."""

import json
import re
import statistics

import pytest

from nearmetal.checks import fleet, fleet_values
from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.congestion import ALONE, CHANGED, SILENT, TRAFFIC, parse_congestion
from nearmetal.fleet import findings
from nearmetal.fleet.sweep import SweepError
from nearmetal.model import congestion
from nearmetal.report import fleet as fleet_page
from nearmetal.results import parse_session
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.damage import damaged
from tests.support.recorded import recorded, store
from tests.support.sweeps import beside_traffic, session_of_congestion

OUTPUT = without_usage(recorded("congestion"))
LINES = OUTPUT.splitlines()
LAUNCHES = parse_congestion(OUTPUT)
VICTIM, GENERATOR = LAUNCHES[0].victims[0], next(iter(LAUNCHES[0].rates))
SLOT = next(line for line in LINES if line.startswith(f"victim {VICTIM} latency 0 alone "))
TAIL = next(line for line in LINES if line.startswith(f"tail {VICTIM} latency alone "))
PAUSE = next(line for line in LINES if line.startswith(f"pause {VICTIM} "))
RATE = next(line for line in LINES if line.startswith(f"generator {GENERATOR} latency 0 "))


def test_every_slot_of_a_launch_is_read():
    for one in LAUNCHES:
        assert one.nodes == tuple(f"fleet{number}" for number in range(1, 9))
        assert len(one.victims) == 2 and len(one.rates) == 6 and not one.failed
        rounds = one.did["rounds"]
        assert all(len(rates) == 3 * rounds for rates in one.rates.values())
        for name in congestion.NAMES:
            for rank in one.victims:
                for state in (ALONE, TRAFFIC):
                    assert len(one.medians[name, rank, state]) == rounds
            assert set(one.ratios(name)) == set(one.victims)
            assert one.ratio_worst(name) > 0 and one.alone_us(name)[one.victims[0]] > 0
        assert one.received_gbps() > 0


def test_a_ratio_is_of_the_two_slots_of_a_round():
    """What drifts from round to round is in both of them."""
    text = "\n".join(
        re.sub(
            rf"(victim {VICTIM} latency (\d+) (alone|traffic) \d+) .*",
            lambda found: (
                f"{found[1]} {10 ** int(found[2]) * (3 if found[3] == TRAFFIC else 1)} "
                f"{7 ** int(found[2]) * (5 if found[3] == TRAFFIC else 1)}"
            ),
            line,
        )
        for line in LINES
    )
    one = parse_congestion(text)[0]
    assert one.ratios("latency")[VICTIM] == pytest.approx(3)
    assert one.ratios("latency", mean=True)[VICTIM] == pytest.approx(5)


def test_a_quantile_of_few_samples_is_absent():
    one = LAUNCHES[0]
    for (name, rank, state), tail in one.tails.items():
        assert (tail.us_99 is None) == (tail.samples < 299), (name, rank, state)
        assert tail.us_99 is None or tail.us_99 <= tail.us_worst * 1.001
    few = re.sub(r"^(tail \d+ latency traffic) \d+ \S+", r"\1 298 -", OUTPUT, flags=re.M)
    one = parse_congestion(few)[0]
    assert one.ratios_99("latency") == {} and one.fewest_samples("latency") <= 298
    assert set(one.ratios("latency")) == set(one.victims)


@pytest.mark.parametrize("rank", [VICTIM, GENERATOR])
def test_a_node_that_does_not_answer_is_to_blame_alone(rank):
    """Others could not do their slots with it."""
    other = LAUNCHES[0].victims[1]
    text = "\n".join(line for line in LINES if line.split()[1:2] != [str(rank)] or line[0] == "#")
    line = next(one for one in text.splitlines() if one.startswith(f"victim {other} latency 0 a"))
    text = text.replace(line, f"victim {other} latency 0 alone failed not done in time")
    stored = fleet_values.stored_congestion(parse_congestion(text), "incast", {})
    assert stored["dead"] == {f"fleet{rank + 1}": SILENT} and not stored["undone"]


def test_slots_that_were_not_done_blame_nobody():
    text = OUTPUT.replace(SLOT, f"{' '.join(SLOT.split()[:5])} failed not done in time")
    text = text.replace(RATE, f"{' '.join(RATE.split()[:4])} failed did not stop in time")
    stored = fleet_values.stored_congestion(parse_congestion(text), "incast", {})
    assert not stored["dead"] and set(stored["undone"]) == {
        f"fleet{VICTIM + 1}",
        f"fleet{GENERATOR + 1}",
    }
    stopped = fleet_values.stored_congestion(
        parse_congestion(text.replace(PAUSE, f"pause {VICTIM} 1.5")), "incast", {}
    )
    assert stopped["undone"] == {f"fleet{VICTIM + 1}": "it stood still for 1.5 s"}
    text = text.replace("failed not done in time", f"failed {CHANGED}")
    stored = fleet_values.stored_congestion(parse_congestion(text), "incast", {})
    assert stored["undone"] == {f"fleet{VICTIM + 1}": CHANGED}


@pytest.mark.parametrize(
    "line, changed, says",
    [
        (SLOT, f"{SLOT}\n{SLOT}", "printed twice"),
        (SLOT, SLOT.rpartition(" ")[0], "mixed or damaged"),
        (SLOT, " ".join(SLOT.split()[:5]), "mixed or damaged"),
        (SLOT, f"{SLOT} 7", "mixed or damaged"),
        (SLOT, f"{SLOT.rpartition(' ')[0]} nan", "no measurement"),
        (SLOT, f"{SLOT.rpartition(' ')[0]} 0", "no measurement"),
        (SLOT, f"victim {VICTIM} latency 99 alone 5 1 1", "was not measured"),
        (SLOT, f"victim {VICTIM} latencies 0 alone 5 1 1", "was not measured"),
        (SLOT, f"victim {GENERATOR} latency 0 alone 5 1 1", "was not measured"),
        (SLOT, f"victim {VICTIM} latency alone 0 5 1 1", "was not measured"),
        (SLOT, f"victim {VICTIM} latency 0 alone failed not done", "failed for 'not done'"),
        (SLOT, "", "has lost lines"),
        (TAIL, "", "has lost its tail"),
        (TAIL, f"{' '.join(TAIL.split()[:4])} 5 1 1", "have the tail"),
        (RATE, f"{' '.join(RATE.split()[:4])} 0 0", "traffic of 0 and 0"),
        (RATE, f"{' '.join(RATE.split()[:4])} -1 1", "traffic of -1"),
        (RATE, f"{' '.join(RATE.split()[:4])} inf 1", "no measurement"),
        (RATE, f"generator {VICTIM} latency 0 1 1", "was not measured"),
        (PAUSE, "", "lost its pause"),
        (PAUSE, f"{PAUSE} 1", "mixed or damaged"),
        (PAUSE, "pause 99 0.1", "was not measured"),
        ("# nearmetal complete", "", "stops before"),
        ("# nearmetal victims:", "# nearmetal victims: 7 7", "mixed or damaged"),
    ],
)
def test_damaged_output_is_refused(line, changed, says):
    with pytest.raises(ParseError, match=says):
        parse_congestion(OUTPUT.replace(line, changed, 1))


def test_damage_ends_as_a_sentence_or_as_figures():
    for _, text in damaged(OUTPUT, 200):
        try:
            parse_congestion(text)
        except ParseError:
            pass


def case_of(values: dict):
    [case, *_] = parse_session(session_of_congestion(values), "here").cases
    return case


def test_what_is_stored_is_what_was_measured():
    stored = fleet_values.stored_congestion(LAUNCHES, "incast", {})
    one = findings.read(case_of(stored))
    assert one.nodes == LAUNCHES[0].nodes and one.repeats == len(LAUNCHES)
    for name in congestion.NAMES:
        for place, rank in enumerate(LAUNCHES[0].victims):
            wanted = statistics.median(launch.ratios(name)[rank] for launch in LAUNCHES)
            assert one.ratios[name][place] == pytest.approx(wanted, rel=1e-3)


def test_ratios_are_printed_with_the_worst_node(run, tmp_path):
    database = store(tmp_path / "a.db", session_of_congestion(beside_traffic()))
    files = [tmp_path / "a.json", tmp_path / "a.prom"]
    code, out, _ = run(
        "fleet", "--database", database, "--json", files[0], "--openmetrics", files[1]
    )
    assert code == 0 and "no node failed" in out and "2 nodes beside incast traffic of 6" in out
    [line] = [line for line in out.splitlines() if line.startswith("latency ")]
    assert re.split(r"  +", line) == [
        "latency",
        "1.9 us",
        "1.4 x",
        "1.7 x",
        "2.1 x",
        "6.3 x",
        "n6 1.6 x",
    ]
    [line] = [line for line in out.splitlines() if line.startswith("Allreduce ")]
    assert "too few samples" in line
    [found] = json.loads(files[0].read_text())["sweeps"]
    assert found["findings"] == [] and found["beside_traffic"][0]["worst_node"] == "n6"
    [line] = [line for line in files[1].read_text().splitlines() if 'what="latency"' in line]
    assert line.startswith("nearmetal_fleet_beside_traffic{") and line.endswith(" 1.4")


def test_a_node_that_failed_is_named_and_no_other(run, tmp_path):
    values = beside_traffic(dead={"n3": SILENT})
    code, out, _ = run(
        "fleet", "--database", store(tmp_path / "a.db", session_of_congestion(values))
    )
    [line] = [line for line in out.splitlines() if line.startswith("node ")]
    assert code == 1 and "node n3" in line and SILENT in line, out
    assert "scontrol update nodename=n3" in out


def test_a_node_that_does_not_start_the_program_is_named(run, tmp_path):
    values = beside_traffic(refused={"n9": "no ./x"})
    database = store(tmp_path / "a.db", session_of_congestion(values))
    code, out, _ = run("fleet", "--database", database)
    assert code == 1 and "does not start the program: no ./x" in out, out


def test_what_was_not_done_is_said_and_nobody_is_named(run, tmp_path):
    values = beside_traffic(undone={"n3": CHANGED})
    code, out, _ = run(
        "fleet", "--database", store(tmp_path / "a.db", session_of_congestion(values))
    )
    assert code == 1 and f"not done on n3: {CHANGED}" in out and "scontrol" not in out
    assert "no node is known to have failed" in out


def test_the_page_has_the_ratios(run, tmp_path):
    database = store(tmp_path / "a.db", session_of_congestion(beside_traffic()))
    code, _, errors = run("report", "--database", database, "--output", tmp_path / "a.html")
    assert code == 0, errors
    page = (tmp_path / "a.html").read_text()
    assert "2 nodes beside incast traffic of" in page and "n6, 1.6 x" in page
    assert "No node failed." in page and fleet_page.LISTED


def ratios(*of_victims) -> dict:
    return {name: list(of_victims) for name in congestion.NAMES}


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": ["n1"]},
        {"nodes": ["$(id)", *(f"n{number}" for number in range(2, 9))]},
        {"victims": []},
        {"victims": ["n9", "n6"]},
        {"traffic": "broadcast"},
        {"repeats": 0},
        {"repeats": 10**12},
        {"ratios": {}},
        {"ratios": ratios(1.0)},
        {"ratios": ratios(1.0, -1.0)},
        {"ratios": ratios(1.0, "many")},
        {"dead": []},
        {"dead": {"$(id)": "no"}},
        {"undone": "n1"},
    ],
)
def test_damaged_values_are_named_with_their_case(run, tmp_path, changed):
    values = {**beside_traffic(), **changed}
    database = store(tmp_path / "a.db", session_of_congestion(values))
    code, _, errors = run("fleet", "--database", database)
    assert code == 3 and "congestion" in errors and "Traceback" not in errors, errors
    with pytest.raises(SweepError):
        findings.read(case_of(values))


def test_the_task_that_ended_first_is_named_and_no_other():
    """The lab's drill: the program of fleet3 was killed."""
    said = """srun: error: fleet3: task 2: Killed
srun: Terminating StepId=10.1
slurmstepd-fleet1: error: *** STEP 10.1 ON fleet1 CANCELLED AT 2026-11-26T06:43:50 ***
srun: error: fleet7: task 6: Terminated
srun: error: fleet4: task 3: Terminated
srun: Force Terminated StepId=10.1
"""
    assert fleet.last_words(said) == "srun: error: fleet3: task 2: Killed"
    assert fleet.last_words("a\n\nb\nc\nd\n") == "b / c / d" and fleet.last_words("") == ""
