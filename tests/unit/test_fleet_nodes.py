"""A sweep of what each node can do: the program's output, what is stored, and who is named."""

import json
import math
import re

import numpy as np
import pytest

from nearmetal.checks import fleet_values
from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.nodes import SILENT, parse_nodes
from nearmetal.fleet import findings, nodes, outliers, repeats
from nearmetal.fleet.sweep import SweepError
from nearmetal.model import node_metrics
from nearmetal.results import CONFIRMS, parse_session
from nearmetal.util.cli_errors import NOBODY_READS
from tests.support.command import Unread, run  # noqa: F401 (a fixture)
from tests.support.damage import damaged
from tests.support.recorded import recorded, store
from tests.support.sweeps import links_of, nodes_of, session, session_of_nodes

NODES = without_usage(recorded("nodes"))
LINE = "node 3 0 memory "
FIRST = next(line for line in NODES.splitlines() if line.startswith(LINE))


def test_every_value_of_a_launch_is_read():
    launches = parse_nodes(NODES)
    assert len(launches) == 3
    for one in launches:
        assert one.nodes == tuple(f"fleet{number}" for number in range(1, 9))
        assert one.cpus == (2,) * 8
        # The machine was so busy that two processes of a node hardly ran at the same time.
        assert set(one.failed) <= {("shared_memory", n) for n in range(8)}
        every = {(name, n) for name in node_metrics.NAMES for n in range(8)}
        assert set(one.values) | set(one.failed) == every
        assert all(0 <= value < 100 for value in one.of_nodes("noise").values())
        assert all(value > 0 for value in one.of_nodes("shared_memory").values())


def test_a_node_that_does_not_answer_is_a_result():
    silent = "".join(
        line for line in NODES.splitlines(keepends=True) if not line.startswith("node 3 ")
    )
    failed = parse_nodes(silent)[0].failed
    assert all(failed[name, 3] == [SILENT] for name in node_metrics.NAMES)
    failed = NODES.replace(FIRST, f"{LINE}failed a wrong result", 1)
    one = parse_nodes(failed)[0]
    assert one.failed["memory", 3] == ["a wrong result"] and 3 not in one.of_nodes("memory")


@pytest.mark.parametrize(
    "line, says",
    [
        (f"{FIRST}\n{FIRST}", "printed twice"),
        (FIRST.rpartition(" ")[0], "mixed or damaged"),
        (f"{FIRST} 7", "mixed or damaged"),
        ("node 99 0 memory 1", "was not measured"),
        ("node 3 7 memory 1", "was not measured"),
        ("node 3 0 memories 1", "was not measured"),
        (f"{LINE}0", "no measurement"),
        (f"{LINE}failed a wrong", "failed for 'a wrong'"),
        (f"{FIRST}\nnode 3 0 noise 100", "printed twice|percent of the time"),
    ],
)
def test_damaged_output_is_refused(line, says):
    with pytest.raises(ParseError, match=says):
        parse_nodes(NODES.replace(FIRST, line, 1))


def test_lost_ranks_are_refused():
    lines = [line for line in NODES.splitlines() if " rank 15:" not in line]
    lines = [line for line in lines if " rank 14:" not in line]
    with pytest.raises(ParseError, match="7 hosts, but nodes measured 8"):
        parse_nodes("\n".join(lines))


def test_damage_ends_as_a_sentence_or_as_figures():
    for _, text in damaged(NODES, 200):
        try:
            parse_nodes(text)
        except ParseError:
            pass


def case_of(values: dict):
    [case, *_] = parse_session(session_of_nodes(values), "here").cases
    return case


def test_what_is_stored_is_what_was_measured():
    launches = parse_nodes(NODES)
    one = findings.read(case_of(fleet_values.stored_nodes(launches, {}, {})))
    assert one.nodes == launches[0].nodes and one.repeats == 3 and not one.odd
    for name in node_metrics.NAMES:
        for found, launch in zip(one.values[name], launches, strict=True):
            said = launch.of_nodes(name)
            known = [said.get(node, math.nan) for node in range(8)]
            assert found == pytest.approx(known, rel=3e-4, nan_ok=True)


def test_a_node_that_failed_in_every_repeat_and_the_cpus_of_another_are_stored():
    text = NODES.replace("node 3 0 memory ", "node 3 0 memory failed a wrong result\n#")
    text = re.sub(r"(host=fleet5 cpu=\d) allowed_cpus=2", r"\1 allowed_cpus=1", text)
    values = fleet_values.stored_nodes(parse_nodes(text), {}, {})
    assert values["dead"]["fleet4"]["memory"] == "a wrong result"
    assert values["odd"] == {"fleet5": {"cpus_allowed": ["1", "2", 7]}}
    assert np.isnan(findings.read(case_of(values)).values["memory"][:, 3]).all()


SLOW = {
    "memory": 90.0,
    "processor": 450.0,
    "noise": 40.0,
    "memory_latency": 600.0,
    "shared_memory": 4.0,
}


@pytest.mark.parametrize("metric", node_metrics.METRICS, ids=lambda one: one.name)
def test_the_slow_node_is_named_and_in_what(run, tmp_path, metric):
    values = nodes_of({(2, metric.name): SLOW[metric.name]})
    code, out, _ = run("fleet", "--database", store(tmp_path / "a.db", session_of_nodes(values)))
    [line] = [line for line in out.splitlines() if line.startswith("node ")]
    assert code == 1 and "node n3" in line and f"({metric.words})" in line, out
    assert "takes" in line and "scontrol update nodename=n3" in out


def test_a_healthy_fleet_names_nobody(run, tmp_path):
    data = session_of_nodes(nodes_of())
    code, out, _ = run("fleet", "--database", store(tmp_path / "a.db", data))
    assert code == 0 and "8 nodes, 3 repeats" in out and "no node is slower" in out, out


def test_few_sweeps_of_healthy_nodes_name_anybody():
    """Noise between repeats of 3 %, and nodes that differ by 1 %: at most 5 % of the sweeps.

    A rate of 10 % fails with 99 %.
    """
    rng, alarms = np.random.default_rng(7), 0
    for _ in range(200):
        times = np.exp(rng.normal(0, 0.01, 8) + rng.normal(0, 0.03, (5, 3, 8)))
        values = {
            name: 50 * (1 - 1 / (1.2 * one)) if name == "noise" else 1 / one
            for name, one in zip(node_metrics.NAMES, times, strict=True)
        }
        one = nodes.NodeSweep(tuple("abcdefgh"), values, 3, {}, {})
        alarms += bool(findings.of(one, findings.error_of([one])))
    assert alarms <= 0.05 * 200


@pytest.mark.parametrize("count", [8, 128])
def test_a_slow_node_is_found_beside_noise(count):
    rng, found = np.random.default_rng(3), 0
    for _ in range(20):
        times = np.exp(rng.normal(0, 0.01, count) + rng.normal(0, 0.01, (5, 3, count)))
        times[:, :, 2] *= 1.2
        values = dict(zip(node_metrics.NAMES, 1 / times, strict=True))
        one = nodes.NodeSweep(tuple(f"n{number}" for number in range(count)), values, 3, {}, {})
        found += [who.nodes for who in findings.of(one, 0.008) if who.what == "memory"] == [("n2",)]
    assert found >= 16


def test_a_node_has_one_of_its_quick_repeats():
    """Of three repeats the quickest, of five and more the second: the others may be disturbed."""
    assert [int(repeats.place(count)) for count in (1, 2, 3, 5, 9)] == [1, 1, 1, 2, 3]
    logs = np.log([[1.0, 2.0, 1.0], [3.0, 2.0, math.nan], [2.0, 2.0, math.nan]])
    one = repeats.of(logs)
    assert np.exp(one.quick) == pytest.approx([1, 2, 1]) and list(one.counts) == [3, 3, 1]
    assert one.freedom == 4


@pytest.mark.parametrize("count, values", [(16, 3), (16, 2), (64, 5)])
def test_noise_that_only_slows_seldom_reaches_further(count, values):
    rng, beyond, trials = np.random.default_rng(11), 0, 1000
    for _ in range(trials):
        one = repeats.of(rng.exponential(0.05, (values, count)))
        beyond += bool((one.quick > one.reach(0.05 / count)).any())
    assert 0.02 * trials < beyond < 0.06 * trials


def test_a_node_whose_repeats_differ_wildly_does_not_hide_another():
    logs = np.random.default_rng(12).exponential(0.01, (3, 16))
    logs[:, 5] = [0.0, 3.0, 2.0]
    logs[:, 2] += 0.2
    found = nodes.effects(np.exp(logs))
    [one] = outliers.of_nodes(found.values, found.repeats, 0.008)
    assert one.nodes == (2,)


def test_effects_of_a_single_repeat_and_of_missing_values():
    one = nodes.effects(np.array([[1.0, 1.0, 2.0, math.nan]]))
    assert np.exp(one.values[:3]) == pytest.approx([1, 1, 2]) and np.isnan(one.values[3])
    assert np.isnan(one.repeats.reach(0.01)).all()
    assert np.isnan(nodes.effects(np.full((2, 3), math.nan)).values).all()


DEAD = {"n3": dict.fromkeys(node_metrics.NAMES, SILENT)}


def test_a_node_that_failed_is_named_with_why(run, tmp_path):
    values = {(2, name): math.nan for name in node_metrics.NAMES}
    data = session_of_nodes(nodes_of(values, dead=DEAD))
    code, out, _ = run("fleet", "--database", store(tmp_path / "a.db", data))
    [line] = [line for line in out.splitlines() if line.startswith("node ")]
    assert code == 1 and "node n3" in line and f"failed: {SILENT}" in line, out


def test_a_node_that_does_not_start_the_program_is_named_with_why(run, tmp_path):
    data = session_of_nodes(nodes_of(refused={"n9": "no ./x"}))
    code, out, _ = run("fleet", "--database", store(tmp_path / "a.db", data))
    [line] = [line for line in out.splitlines() if line.startswith("node ")]
    assert code == 1 and "node n9" in line and "does not start the program: no ./x" in line, out


@pytest.mark.parametrize(
    "again, code, says",
    [
        (nodes_of({(2, "memory"): 90.0}), 1, "(memory)"),
        (nodes_of(), 0, "not confirmed by the second sweep: node n3"),
        (nodes_of({(2, "memory"): math.nan}), 2, "neither confirmed nor cleared: node n3"),
        (nodes_of(count=2), 2, "neither confirmed nor cleared: node n3"),
        (nodes_of(refused={"n3": "no ./x"}), 1, "does not start the program: no ./x"),
    ],
)
def test_only_what_both_sweeps_show_is_found(run, tmp_path, again, code, says):
    one = session_of_nodes(nodes_of({(2, "memory"): 90.0}))
    second = session_of_nodes(again, 2)
    second["session_info"][CONFIRMS] = one["session_info"]["uuid"]
    ended, out, _ = run("fleet", "--database", store(tmp_path / "a.db", one, second))
    assert ended == code and says in out, out


def test_who_is_not_confirmed_is_said_once(run, tmp_path):
    one = session_of_nodes(nodes_of({(2, "memory"): 90.0, (2, "noise"): 40.0}))
    second = session_of_nodes(nodes_of(), 2)
    second["session_info"][CONFIRMS] = one["session_info"]["uuid"]
    _, out, _ = run("fleet", "--database", store(tmp_path / "a.db", one, second))
    assert out.count("not confirmed by the second sweep: node n3") == 1, out


def test_sweeps_of_links_and_of_nodes_share_the_error(run, tmp_path):
    data = session_of_nodes(nodes_of({(2, "processor"): 450.0}, 6))
    data["runs"][0]["testcases"][1]["links"] = links_of()
    path = tmp_path / "found.json"
    database = store(tmp_path / "a.db", data)
    code, out, _ = run("fleet", "--database", database, "--json", path)
    assert code == 1 and "no node or link is slower" in out, out
    kinds = [one["findings"] for one in json.loads(path.read_text())["sweeps"]]
    assert sorted(map(len, kinds)) == [0, 1]
    sweeps = [findings.read(case) for case in parse_session(data, "here").cases[:2]]
    assert findings.error_of(sweeps) == pytest.approx(0.04 / 7)


def test_monitors_read_the_metric(run, tmp_path):
    data = session_of_nodes(nodes_of({(2, "noise"): 40.0}))
    files = [tmp_path / "metrics", tmp_path / "nhc"]
    database = store(tmp_path / "a.db", data)
    run("fleet", "--database", database, "--openmetrics", files[0], "--nhc", files[1])
    [line] = [one for one in files[0].read_text().splitlines() if 'what="noise"' in one]
    assert 'nodes="n3"' in line and 'direction=""' in line
    assert " n3 || die 1 'nearmetal fleet: takes" in files[1].read_text()


def test_an_error_leaves_no_files_of_yesterday(run, tmp_path):
    """But a slow node stays out of service."""
    database = store(tmp_path / "a.db", session_of_nodes(nodes_of({(2, "noise"): 40.0})))
    files = {form: tmp_path / form for form in ("json", "openmetrics", "nhc")}
    words = [word for form, path in files.items() for word in (f"--{form}", path)]
    assert run("fleet", "--database", database, *words)[0] == 1
    before = files["nhc"].read_text()
    code, _, err = run("fleet", "--database", database, *words, "--since", "2099-01-01")
    assert code == 2
    said = json.loads(files["json"].read_text())
    assert said["error"] in err and "since 2099" in said["error"] and not said["sweeps"]
    assert "{" not in files["openmetrics"].read_text()
    assert files["nhc"].read_text() == before


def test_files_are_written_even_if_nobody_reads_the_text(run, tmp_path, monkeypatch):
    database = store(tmp_path / "a.db", session_of_nodes(nodes_of({(2, "noise"): 40.0})))
    files = {form: tmp_path / form for form in ("json", "openmetrics", "nhc")}
    words = [word for form, path in files.items() for word in (f"--{form}", path)]
    monkeypatch.setattr("sys.stdout", Unread())
    assert run("fleet", "--database", database, *words)[0] == NOBODY_READS
    assert all("n3" in path.read_text() for path in files.values())


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": ["n1"]},
        {"nodes": "n1"},
        {"nodes": ["n 1", "n2"]},
        {"nodes": [*"abcdefga"]},
        {"repeats": 0},
        {"repeats": 4},
        {"repeats": "many"},
        {"repeats": 2.5},
        {"repeats": 10**12},
        {"memory": {}},
        {"memory": {"least": 1, "codes": "?"}},
        {"noise": fleet_values.packed([150.0] * 24)},
        {"dead": []},
        {"dead": {"n1": {"memories": "no answer"}}},
        {"dead": {"$(id)": {"memory": "no answer"}}},
        {"odd": []},
        {"switches": ["a"]},
    ],
)
def test_damaged_values_are_named_with_their_case(run, tmp_path, changed):
    values = {**nodes_of(), **changed}
    database = store(tmp_path / "a.db", session_of_nodes(values))
    code, _, errors = run("fleet", "--database", database)
    assert code == 3 and "node_values" in errors and "Traceback" not in errors, errors
    with pytest.raises(SweepError):
        findings.read(case_of(values))


def test_a_case_holds_one_kind_of_sweep():
    [case, *_] = parse_session(session(links_of()), "here").cases
    assert findings.read(case).measures == ("start-up latency", "bandwidth")
    [*_, last] = parse_session(session(links_of()), "here").cases
    assert findings.read(last) is None
