"""A sweep of all nodes: the program's output, what a database holds of it, and who is named."""

import base64
import functools
import json
import math
import re
import shlex
import sys
import zlib
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal import results
from nearmetal.checks import fleet_values
from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.links import SILENT, Link, Links, parse_links
from nearmetal.checks.provenance import odd_facts
from nearmetal.fleet import sweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import SweepError
from nearmetal.model.round_robin import COVERED, pairs, rounds_in, rounds_of
from nearmetal.report import fleet as fleet_page
from nearmetal.results import parse_session
from tests.support.campaigns import campaign
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.damage import damaged
from tests.support.paths import CHECKOUT
from tests.support.recorded import recorded, store
from tests.support.sweeps import links_of, nodes_of, session, session_of_nodes

LINKS = without_usage(recorded("links"))


@pytest.mark.parametrize("nodes", range(2, 20))
def test_each_pair_of_nodes_is_in_one_round(nodes):
    rounds = nodes + nodes % 2 - 1
    found = pairs(nodes, rounds)
    assert len(found) == len(set(found)) == nodes * (nodes - 1) // 2
    for count in range(1, rounds + 1):
        some = pairs(nodes, count)
        ends = [node for pair in some for node in pair]
        assert all(count - 1 <= ends.count(node) <= count for node in range(nodes))


def test_every_link_of_a_launch_is_read():
    [one, *_] = launches = parse_links(LINKS)
    count = len(one.nodes)
    assert len(launches) == 3 and count == len(set(one.nodes)) > 3 and not one.failed
    assert len(one.links) == count * (count - 1) // 2
    assert all(0 < link.latency_us < 1e4 and link.gbps > 0 for [link] in one.links.values())


def line_of(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("link "))


def test_a_link_that_failed_is_a_result():
    line = line_of(LINKS)
    _, first, second, repeat, *_ = line.split()
    pair = int(first), int(second)
    said = f"link {first} {second} {repeat} failed no answer"
    silent = parse_links(LINKS.replace(f"{line}\n", "", 1))[0]
    assert silent.failed == {pair: [SILENT]} and pair not in silent.links
    failed = parse_links(LINKS.replace(line, f"{said}\n{said}", 1))[0]
    assert failed.failed == {pair: ["no answer"]}
    # The partner of a pair that was done may miss its end.
    for both in (f"{said}\n{line}", f"{line}\n{said}"):
        assert isinstance(parse_links(LINKS.replace(line, both, 1))[0].links[pair][0], Link)


@pytest.mark.parametrize(
    "change, says",
    [
        (lambda line: f"{line}\n{line}", "printed twice"),
        (lambda line: line.rpartition(" ")[0], "mixed or damaged"),
        (lambda line: f"{line} 7", "mixed or damaged"),
        (lambda line: line.replace("link 0", "link 99", 1), "was not measured"),
        (lambda line: " ".join([*line.split()[:4], "-1", "1", "1"]), "no measurement"),
        (lambda line: " ".join([*line.split()[:4], "failed", "no", "ans"]), "failed for 'no ans'"),
    ],
)
def test_damaged_output_is_refused(change, says):
    line = next(line for line in LINKS.splitlines() if line.startswith("link 0 "))
    with pytest.raises(ParseError, match=says):
        parse_links(LINKS.replace(line, change(line), 1))


def test_damage_ends_as_a_sentence_or_as_figures():
    for _, text in damaged(LINKS, 200):
        try:
            parse_links(text)
        except ParseError:
            pass


def test_what_is_stored_is_what_was_measured():
    launches = parse_links(LINKS)
    data = session(fleet_values.stored_links(launches, {}, {}))
    [case, *_] = parse_session(data, "here").cases
    one = sweep.read(case)
    assert one.nodes == launches[0].nodes and one.repeats == 3 and not one.dead
    for (first, second), found in launches[0].links.items():
        middle = sorted(launch.links[first, second][0].latency_us for launch in launches)[1]
        assert one.latency_us[first, second] == one.latency_us[second, first]
        assert one.latency_us[first, second] == pytest.approx(middle, rel=3e-4)
        back = sorted(launch.links[first, second][0].gbps_back for launch in launches)[1]
        assert one.gbps[second, first] == pytest.approx(back, rel=3e-4) and found


def test_stored_values_are_those_of_before_to_a_small_part_of_a_percent():
    values = [1e-3, 7.5, math.nan, 8e4, 20.0]
    found = sweep.unpacked(fleet_values.packed(values), len(values), "here")
    assert found == pytest.approx(values, rel=3e-4, nan_ok=True)
    assert np.isnan(sweep.unpacked(fleet_values.packed([math.nan] * 3), 3, "here")).all()


SLOW = {pair: (40, 4.5, 4.5) for pair in pairs(6, 5) if 2 in pair}
DEAD = {pair: (float("nan"),) * 3 for pair in pairs(6, 5) if 2 in pair}
NAMES = {f"n{a + 1} n{b + 1}": ["no answer"] for a, b in DEAD}


OTHERS = ["n1", "n2", "n7", "n4", "n5", "n6"]
REFUSED = {"n9": "no ./x"}
LATE = {f"n{i} n{j}": ["latency not done in time"] for i in range(1, 7) for j in range(i + 1, 7)}


@pytest.mark.parametrize(
    "links, code, says",
    [
        (links_of(), 0, ["6 nodes, 3 repeats", "no node or link is slower"]),
        (links_of(SLOW), 1, ["node n3", "(start-up latency)", "sends and receives with"]),
        (links_of(DEAD, dead=NAMES), 1, ["node n3", "5 links failed", "no answer"]),
        (links_of(dead={"n2 n5": ["no answer"]}), 1, ["link n2 - n5", "it failed", "no answer"]),
        (links_of(dead=LATE), 1, ["links  ", "15 failed, of most nodes: latency not done in time"]),
        (links_of({(0, 3): (20, 3, 9)}), 1, ["link n1 - n4", "sends with", "(bandwidth)"]),
        (links_of(refused=REFUSED), 1, ["node n9", "does not start the program: no ./x", "n9 s"]),
    ],
)
def test_the_command_names_who_is_slow(run, tmp_path, links, code, says):
    database = store(tmp_path / "results.db", session(links))
    ended, out, _ = run("fleet", "--database", database)
    assert ended == code and all(text in out for text in says), out


FEW = [
    (session(links_of({(0, 2): (20, 1.5, 9), (1, 2): (20, 1.5, 9)}, count=3)), "n3", "receives"),
    (session_of_nodes(nodes_of({(2, "memory"): 175.0}, count=3)), "n3", "memory"),
]


@pytest.mark.parametrize("data, node, way", FEW, ids=["links", "nodes"])
def test_a_fleet_too_small_to_name_a_node_is_not_healthy(run, tmp_path, data, node, way):
    database = store(tmp_path / "results.db", data)
    code, out, _ = run("fleet", "--database", database, "--json", tmp_path / "fleet.json")
    assert code == 2 and "too few nodes to name one: 3 were measured, and 4 are needed" in out
    [line] = [line for line in out.splitlines() if "Farthest behind" in line]
    assert re.search(rf"Farthest behind: {node} \+\d+ % \(.*{re.escape(way)}", line), line
    [sweep] = json.loads((tmp_path / "fleet.json").read_text())["sweeps"]
    assert sweep["too_few_nodes"] and sweep["findings"] == []
    page = tmp_path / "report.html"
    run("report", "--database", database, "--output", page)
    [box] = re.findall(r'<p class="note[^>]*>Too few nodes to name one[^<]*', page.read_text())
    assert "good" not in box and "Farthest behind: " in box


@pytest.mark.parametrize(
    "links",
    [
        links_of(nodes=["n1"]),
        links_of(nodes="n1"),
        links_of(gbps="?"),
        links_of(gbps={"least": 9, "codes": "?"}),
        links_of(gbps={"least": 9, "codes": base64.b64encode(b"x").decode()}),
        links_of(gbps={"least": 9, "codes": base64.b64encode(zlib.compress(b"1234")).decode()}),
        links_of(gbps={"least": 9, "codes": base64.b64encode(zlib.compress(b"123")).decode()}),
        links_of(gbps={**fleet_values.packed([9] * 15), "least": 0}),
        links_of(rounds=4),
        links_of(rounds=0),
        links_of(rounds=-1),
        links_of(rounds=10**12),
        links_of(repeats="many"),
        links_of(dead=[]),
        links_of() | {"nodes": ["n1", "n2", "n3", "n4", "n5", "n1"]},
        links_of(dead={"n1 n2": []}),
        links_of(dead={"n1 n2": 5}),
        links_of(dead={"n1 n2": None}),
        links_of(dead={"n1 $(id)": ["no answer"]}),
        links_of(nodes=["n1", "n2", "n 3", "n4", "n5", "n6"]),
        links_of(switches=["a", "b"]),
        links_of(switches="a"),
        links_of(refused=[]),
        links_of(refused={"$(id)": "no ./x"}),
        links_of(odd=[]),
        links_of(odd={"n1": []}),
        links_of(odd={"n1": {"kernel": ["5", "6"]}}),
        links_of(odd={"n1": {"kernel": ["5", "6", "many"]}}),
    ],
)
def test_damaged_values_are_named_with_their_case(run, tmp_path, links):
    database = store(tmp_path / "results.db", session(links))
    code, _, errors = run("fleet", "--database", database)
    assert code == 3 and "links" in errors and "Traceback" not in errors, errors
    [case, *_] = parse_session(session(links), "here").cases
    with pytest.raises(SweepError):
        sweep.read(case)


def codes(data: bytes, **changed) -> dict:
    """Stored values of these bytes."""
    return {"least": 9, "codes": base64.b64encode(zlib.compress(data)).decode(), **changed}


MANY = [f"n{number}" for number in range(sweep.MOST_LINKED + 1)]


@pytest.mark.parametrize(
    "links, says",
    [
        (links_of(gbps=codes(bytes(1 << 24))), "characters for 30 bytes"),
        (links_of(gbps=codes(bytes(1 << 16))), "holds more than 15 values"),
        (links_of(gbps=codes(bytes(28))), "holds 14 values instead of 15"),
        (links_of(gbps=codes(bytes(30), least=1e300)), "least is 1e[+]300"),
        (links_of(nodes=MANY), "5 rounds of 20001 nodes"),
        (links_of(nodes=MANY[:12000], rounds=11999), "11999 rounds of 12000 nodes"),
        (links_of(repeats=10**18), "repeats is 1000000000000000000, not a whole number from 1"),
        (links_of(rounds=4.5), "rounds is 4.5, not a whole number"),
        (links_of(dead={"n1 n2": 5}), "dead.n1 n2 is 5, not a list"),
        (links_of(dead=functools.reduce(lambda deep, _: [deep], range(2000), [])), "not an object"),
    ],
)
def test_values_that_would_fill_the_memory_are_refused_before_they_do(links, says):
    [case, *_] = parse_session(session(links), "here").cases
    with pytest.raises(SweepError, match=says):
        sweep.read(case)


ODD = {"n3": {"memory_modules_mbps": ["2 x 2400", "4 x 2400", 5]}}


def test_facts_of_nodes_that_differ_from_those_of_most():
    nodes = {
        f"n{number}": {"kernel": "6.1", "smt": "on", "lo.tx_bytes": "7"} for number in range(5)
    }
    nodes["n1"]["kernel"] = "6.2"
    del nodes["n4"]["smt"]
    nodes["n2"]["lo.tx_bytes"] = "8"
    nodes["n0"]["bios"] = nodes["n1"]["bios"] = "a"
    assert odd_facts(nodes) == {
        "n1": {"kernel": ("6.2", "6.1", 4), "bios": ("a", "absent", 3)},
        "n4": {"smt": ("absent", "on", 4)},
        "n0": {"bios": ("a", "absent", 3)},
    }
    nodes["n2"]["bios"] = "b"
    assert "bios" not in odd_facts(nodes)["n1"]


def test_facts_that_differ_and_how_to_drain_are_printed(run, tmp_path):
    database = store(tmp_path / "results.db", session(links_of(SLOW, odd=ODD)))
    _, out, _ = run("fleet", "--database", database)
    assert "5 of 6 nodes have memory_modules_mbps 4 x 2400, n3 has 2 x 2400" in out
    [command] = [line for line in out.splitlines() if "scontrol" in line]
    words = shlex.split(command)
    assert words[:4] == ["scontrol", "update", "nodename=n3", "state=drain"]
    assert words[4].startswith("reason=nearmetal fleet: sends and receives with ")


def test_a_healthy_node_is_not_drained(run, tmp_path):
    database = store(tmp_path / "results.db", session(links_of({(0, 3): (20, 3, 9)})))
    code, out, _ = run("fleet", "--database", database)
    assert code == 1 and "scontrol" not in out


def test_since_when_a_node_is_slow(run, tmp_path):
    shown = [SLOW, None, SLOW, SLOW, None, SLOW, SLOW]
    sweeps = [session(links_of(odd), number) for number, odd in enumerate(shown, 1)]
    sweeps[4]["runs"][0]["testcases"][0]["links"] = links_of(gbps="?")
    database = store(tmp_path / "results.db", *sweeps)
    code, out, errors = run("fleet", "--database", database)
    starts = [results.date(one["session_info"]["time_start"]) for one in sweeps]
    # The sweep that cannot be read tells nothing.
    assert code == 1 and starts[2] in out, out
    assert not [start for start in starts[:2] if start in out]
    assert sweeps[4]["session_info"]["uuid"] in errors and "left out" in errors


def test_a_sweep_without_a_node_tells_nothing_of_it(run, tmp_path):
    other = ["n1", "n2", "n9", "n4", "n5", "n6"]
    slow = {(2, 4): (20, 3, 9)}
    sweeps = [
        session(links_of(slow), 1),
        session(links_of(nodes=other), 2),
        session(links_of(slow), 3),
    ]
    database = store(tmp_path / "results.db", *sweeps)
    _, out, _ = run("fleet", "--database", database)
    assert results.date(sweeps[0]["session_info"]["time_start"]) in out, out


def second(links: dict, of: dict, number: int = 2) -> dict:
    data = session(links, number)
    data["session_info"][results.CONFIRMS] = of["session_info"]["uuid"]
    return data


@pytest.mark.parametrize(
    "first, again, code, says",
    [
        (SLOW, SLOW, 1, ["node n3", "sends and receives"]),
        (
            SLOW,
            None,
            0,
            ["not confirmed by the second sweep: node n3", "no node or link is slower"],
        ),
        (SLOW, DEAD, 2, ["neither confirmed nor cleared: node n3"]),
        ({(0, 3): (20, 3, 9)}, {(0, 3): (20, 3, 9)}, 1, ["link n1 - n4", "sends"]),
        ({(0, 3): (20, 3, 9)}, {(1, 4): (20, 3, 9)}, 0, ["not confirmed", "link n1 - n4"]),
    ],
)
def test_only_what_both_sweeps_show_is_found(run, tmp_path, first, again, code, says):
    one = session(links_of(first))
    database = store(tmp_path / "results.db", one, second(links_of(again), one))
    ended, out, _ = run("fleet", "--database", database)
    assert ended == code and all(text in out for text in says), out


@pytest.mark.parametrize("again, code", [(NAMES, 1), ({}, 0)])
def test_links_that_failed_may_work_in_the_second_sweep(run, tmp_path, again, code):
    one = session(links_of(DEAD, dead=NAMES))
    other = second(links_of(DEAD if again else None, dead=again), one)
    database = store(tmp_path / "results.db", one, other)
    ended, out, _ = run("fleet", "--database", database)
    assert ended == code and ("5 links failed" in out) == bool(code), out


@pytest.mark.parametrize(
    "first, again, code, says",
    [
        (links_of(refused=REFUSED), links_of(refused=REFUSED), 1, "does not start the program"),
        (links_of(refused=REFUSED), links_of(), 1, "left out of the second sweep"),
        (
            links_of(refused=REFUSED),
            links_of(nodes=["n1", "n2", "n3", "n4", "n5", "n9"]),
            0,
            "not confirmed by the second sweep: node n9",
        ),
        (links_of(DEAD, dead=NAMES), links_of(nodes=OTHERS), 1, "left out of the second sweep"),
        (links_of(SLOW), links_of(nodes=OTHERS), 2, "neither confirmed nor cleared: node n3"),
        # What is slow in one sweep and fails in the other is not well.
        (links_of(SLOW), links_of(DEAD, dead=NAMES), 1, "5 links failed"),
        (links_of(DEAD, dead=NAMES), links_of(SLOW), 1, "sends and receives"),
        (links_of(SLOW), links_of(nodes=OTHERS, refused={"n3": "no ./x"}), 1, "no ./x"),
        (
            links_of({(0, 3): (math.nan,) * 3}, dead={"n1 n4": ["timeout"]}),
            links_of({(0, 3): (math.nan,) * 3}),
            1,
            "not measured by the second sweep",
        ),
    ],
)
def test_a_second_sweep_clears_no_node_that_it_leaves_out(run, tmp_path, first, again, code, says):
    one = session(first)
    database = store(tmp_path / "results.db", one, second(again, one))
    ended, out, _ = run("fleet", "--database", database)
    assert ended == code and says in out, out


def test_the_nodes_of_the_second_sweep_may_be_others_and_in_another_order(run, tmp_path):
    one = session(links_of(SLOW))
    slow = {pair: (40, 4.5, 4.5) for pair in pairs(6, 5) if 0 in pair}
    names = ["n3", "n1", "n2", "n4", "n9", "n5"]
    database = store(tmp_path / "results.db", one, second(links_of(slow, nodes=names), one))
    code, out, _ = run("fleet", "--database", database)
    assert code == 1 and "node n3" in out and "not confirmed" not in out, out


def stores(path: Path, database: Path, data: dict) -> str:
    """A command that stands for ReFrame: it stores a session."""
    path.write_text(
        "import json, sys; from pathlib import Path\n"
        "from tests.support.large_database import store\n"
        f"store(Path({str(database)!r}), [json.loads({json.dumps(data)!r})])\n"
    )
    return f"env PYTHONPATH={CHECKOUT} {sys.executable} {path}"


def test_confirm_runs_the_sweep_again(run, tmp_path):
    one = session(links_of(SLOW))
    database = store(tmp_path / "results.db", one)
    reframe = stores(tmp_path / "reframe.py", database, second(links_of(), one))
    code, out, said = run("fleet", "--database", database, "--confirm", "--reframe", reframe)
    assert code == 0 and "not confirmed" in out and "a second sweep begins" in said, said
    code, out, _ = run("fleet", "--database", database)
    assert code == 0 and "not confirmed" in out


def test_a_second_sweep_that_is_missing_is_no_confirmation(run, tmp_path):
    database = store(tmp_path / "results.db", session(links_of(SLOW)))
    code, _, said = run("fleet", "--database", database, "--confirm", "--reframe", "true")
    assert code == 2 and "could not be measured again" in said, said


def test_a_second_sweep_of_before_does_not_stand_in_for_one_that_failed(run, tmp_path):
    one = session(links_of(SLOW))
    database = store(tmp_path / "results.db", one, second(links_of(), one))
    reframe = stores(tmp_path / "reframe.py", database, second({}, one, 3))
    code, _, said = run("fleet", "--database", database, "--confirm", "--reframe", reframe)
    assert code == 2 and "has no second sweep" in said, said


def test_nothing_is_measured_again_where_nothing_is_slow(run, tmp_path):
    database = store(tmp_path / "results.db", session(links_of()))
    code, _, said = run("fleet", "--database", database, "--confirm", "--reframe", "false")
    assert (code, said) == (0, "")


def test_programs_read_what_was_found(run, tmp_path):
    links = links_of(SLOW | {(0, 3): (20, 3, 9)}, dead={"n2 n5": ["no answer"]}, odd=ODD)
    database = store(tmp_path / "results.db", session(links))
    files = {name: tmp_path / name for name in ("json", "openmetrics", "nhc")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    assert run("fleet", "--database", database, *options)[0] == 1

    [one] = json.loads(files["json"].read_text())["sweeps"]
    kinds = {(found["kind"], tuple(found["nodes"]), found["what"]) for found in one["findings"]}
    assert kinds >= {
        ("node", ("n3",), "start-up latency"),
        ("node", ("n3",), "bandwidth"),
        ("link", ("n2", "n5"), "failed"),
    }
    assert one["odd_facts"]["n3"]["memory_modules_mbps"]["nodes_with_most"] == 5

    families = text_string_to_metric_families(files["openmetrics"].read_text())
    samples = [sample for family in families for sample in family.samples]
    slow = {
        (one.labels["nodes"], one.labels["what"]): one.value
        for one in samples
        if one.name == "nearmetal_fleet_slow"
    }
    assert slow["n3", "bandwidth"] == pytest.approx(1, rel=0.1)
    assert math.isnan(slow["n2,n5", "failed"])
    assert [one.value for one in samples if one.name == "nearmetal_fleet_nodes"] == [6]

    lines = files["nhc"].read_text().splitlines()
    assert len(lines) == 2 and lines[1].startswith(" n3 || die 1 'nearmetal fleet: ")
    assert not set(lines[1].split("'")[1]) & set('$`\\"|;&<>')


def test_a_session_without_a_sweep_says_how_to_make_one(run, tmp_path):
    database = store(tmp_path / "results.db", campaign(1))
    code, _, errors = run("fleet", "--database", database)
    assert code == 3 and "-n fleet_links" in errors


def test_the_sweeps_of_a_session_share_the_error(run, tmp_path):
    """A node that one sweep names by a small margin has no name beside five other sweeps."""
    rng = np.random.default_rng(1)
    times = {pair: 20 * math.exp(rng.normal(0, 0.05)) for pair in pairs(12, 11)}
    slow = {pair: (us * (1.13 if 2 in pair else 1), 9, 9) for pair, us in times.items()}
    alone = session(links_of(slow, 12))
    together = session(links_of(slow, 12))
    for case in together["runs"][0]["testcases"][1:]:
        case["links"] = links_of(count=12)
    ended, out, _ = run("fleet", "--database", store(tmp_path / "alone.db", alone))
    assert ended == 1 and "node n3" in out, out
    ended, out, _ = run("fleet", "--database", store(tmp_path / "together.db", together))
    assert ended == 0 and out.count("no node or link is slower") == 6, out


def test_variables_tell_the_worst_node_and_the_spread():
    links = {
        pair: [Link(20 + place / 10, 9 + place / 10, 8 + place / 10)]
        for place, pair in enumerate(pairs(6, 5))
    }
    for pair in [pair for pair in links if 2 in pair]:
        links[pair] = [Link(40, 9, 4) if pair[0] == 2 else Link(40, 4, 9)]
    launch = Links({}, {}, tuple("abcdef"), links)
    us = fleet_values.of_nodes(launch, "latency_us", "latency_us")
    assert max(us) == 40 and sorted(us)[-3] < 22
    # Node 2 receives at 4 Gb/s, and sends at 9.
    gbps = fleet_values.of_nodes(launch, "gbps", "gbps_back")
    assert min(gbps) == 4 and sorted(gbps)[1] > 8
    times = [20 * math.exp(0.05 * z) for z in np.random.default_rng(1).standard_normal(2000)]
    assert fleet_values.spread(times) == pytest.approx(5, rel=0.1)


def test_large_fleets_measure_a_selection_of_pairs():
    assert rounds_of(128, [], rounds_in(60, 16, 1)) == (15, True)
    assert rounds_of(128, [], rounds_in(60, 1024, 1)) == (128, True)
    assert rounds_of(128, [], rounds_in(60, 1024, 512)) == (11, True)


def test_a_selection_of_pairs_covers_all_pairs_of_switches():
    switches = [f"s{number // 8}" for number in range(256)]
    found = Counter()
    rounds, covers = rounds_of(2, switches, 255)
    for pair in pairs(256, rounds):
        found[frozenset(switches[node] for node in pair)] += 1
    assert covers and 2 < rounds < 128
    assert min(found[frozenset(two)] for two in combinations(set(switches), 2)) >= COVERED
    assert rounds_of(2, switches, 5) == (5, False)
    # Two switches of one node each have one pair.
    assert rounds_of(128, ["a", "b", "c", "c"], 3) == (3, True)


def test_switches_are_stored_where_slurm_knows_them():
    launches = parse_links(LINKS)
    names = launches[0].nodes
    known = {name: f"leaf{place // 2}" for place, name in enumerate(names)}
    assert fleet_values.stored_links(launches, {}, {})["switches"] == []
    assert fleet_values.stored_links(launches, {}, {names[0]: "a"})["switches"] == []
    [case, *_] = parse_session(
        session(fleet_values.stored_links(launches, {}, known)), "here"
    ).cases
    assert sweep.read(case).switches == tuple(known.values())


def test_a_slow_switch_is_named_by_its_name(run, tmp_path):
    behind = {8, 9, 10, 11}
    slow = {pair: (20, 4.5, 4.5) for pair in pairs(24, 23) if len(behind & set(pair)) == 1}
    links = links_of(slow, 24, switches=[f"leaf{node // 4}" for node in range(24)])
    database = store(tmp_path / "results.db", session(links))
    code, out, _ = run("fleet", "--database", database)
    lines = [line for line in out.splitlines() if "(bandwidth)" in line]
    assert code == 1 and len(lines) == 1 and lines[0].startswith("switch leaf2 "), out
    assert "scontrol" not in out


def test_what_is_left_of_the_links_alone_is_said(run, tmp_path):
    data = session(links_of())
    alone, together = data["runs"][0]["testcases"][:2]
    for case, traffic, links in (
        (alone, "alone", links_of()),
        (together, "together", links_of(dict.fromkeys(pairs(6, 5), (20, 4.5, 4.5)))),
    ):
        case["links"] = links
        case["display_name"] = f"fleet_links %traffic={traffic}"
        case["partition"], case["environ"] = "native", "mpich"
    database = store(tmp_path / "results.db", data)
    files = {name: tmp_path / name for name in ("json", "openmetrics")}
    options = [word for name, path in files.items() for word in (f"--{name}", path)]
    _, out, _ = run("fleet", "--database", database, *options)
    assert out.count("all pairs of a round at once: 50 % of the bandwidth") == 1, out
    kept = [one["kept_of_alone"] for one in json.loads(files["json"].read_text())["sweeps"]]
    assert kept == [None, pytest.approx(0.5, rel=0.01)]
    assert "nearmetal_fleet_kept_of_alone" in files["openmetrics"].read_text()


def test_the_heat_map_holds_nodes_of_a_switch_together():
    slow = {pair: (20, 4.5, 4.5) for pair in pairs(12, 11) if 7 in pair}
    names = ["a", "b", "c"] * 4
    shown = {}
    for switches in (names, []):
        [case, *_] = parse_session(session(links_of(slow, 12, switches=switches)), "here").cases
        one = sweep.read(case)
        [shown[bool(switches)]] = fleet_page.drawn([Swept(case, one, [])])
    assert shown[True]["by_switch"] and not shown[False]["by_switch"]
    sides = shown[True]["maps"][1]["sides"]
    assert [names[int(node[1:]) - 1] for node in sides] == sorted(names)
    assert sides[4] == "n8" == shown[False]["maps"][1]["sides"][0]
    assert [one["slowest"][0]["node"] for one in shown.values()] == ["n8", "n8"]
