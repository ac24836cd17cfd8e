"""The table of published figures, distilled: what is converted, and what is left out."""

import csv
import lzma

import pytest

from bench import like, machines
from nearmetal.expectations.machines import load

COLUMNS = {
    "machine": "c5n.18xlarge",
    "provider": "AWS",
    "cpu": "Xeon Platinum 8124M",
    "nic": "EFA v2 (4 cards)",
    "nic_gbps": "400",
    "nodes": "2",
    "processes": "2",
    "benchmark": "osu_latency",
    "variable": "latency",
    "size_bytes": "1",
    "value": "20",
    "unit": "us",
    "kind": "measured",
    "mpi": "openmpi",
    "date_or_commit": "2024",
    "source_repo": "a/b",
    "source_path": "c",
    "licence": "MIT",
    "scope": "inter-node",
    "note": "",
}


def values(*rows):
    """The healthy values that rows with these columns give, by source."""
    table = machines.sources({**COLUMNS, **row} for row in rows)
    return [source.values for source in machines.distinct(table) if not source.effect]


def test_a_curve_gives_the_values_of_pingpong():
    curve = {"0": 10, "1": 20, "1024": 22, "65536": 50, "1048576": 400, "8388608": 2000}
    rows = [{"size_bytes": size, "value": str(value)} for size, value in curve.items()]
    [found] = values(*rows)
    assert found == {
        "pingpong": {
            "startup_latency": [20],
            "latency_1KiB": [22],
            "bandwidth_64KiB": [pytest.approx(10.486, abs=1e-3)],
            "peak_bandwidth": [pytest.approx(20.972, abs=1e-3)],  # 8 MiB is above ours
        }
    }


@pytest.mark.parametrize(
    "row",
    [
        {"size_bytes": "0"},
        {"scope": "intra-node"},
        {"scope": "suspected intra-node"},
        {"kind": "threshold"},
        {"note": "DO NOT USE: a copy"},
        {"note": "round figure (line rate)"},
        {"variable": "latency_max"},
        {"benchmark": "osu_bibw", "variable": "bidirectional_bandwidth", "unit": "MB/s"},
        {"benchmark": "osu_bw", "variable": "bandwidth", "unit": "MB/s"},
        {"benchmark": "osu_latency -d cuda D D"},
        {"note": "nodes on different switches"},
    ],
)
def test_what_is_something_else_is_left_out(row):
    assert values(row) == []


def test_units_and_the_best_definition_of_a_time_are_taken():
    stream = {"benchmark": "STREAM", "variable": "triad_best", "value": "350", "unit": "GB/s"}
    assert values({**stream, "scope": "node"}) == [{"stream": {"triad": [350000]}}]
    imb = {"benchmark": "IMB-MPI1 Allreduce", "scope": "collective", "processes": "64"}
    means = {**imb, "size_bytes": "8", "variable": "time_avg", "value": "9"}
    slowest = {**means, "variable": "time_max", "value": "10"}
    assert values(means, slowest) == [{"collectives": {"allreduce_8B_64": [10]}}]


def test_runs_are_of_one_source_and_copies_are_one():
    later = {"source_path": "d", "value": "21"}
    assert values({}, later) == [{"pingpong": {"startup_latency": [20, 21]}}]
    assert len(values({}, {"date_or_commit": "2025", "value": "21"})) == 2
    assert len(values({}, {"date_or_commit": "2025"})) == 1
    constrained = {"machine": "Standard_HB120-96rs_v3"}
    [source] = machines.sources([{**COLUMNS, **constrained}])
    assert source.machine == "Standard_HB120rs_v3" and source.entry["link_gbps"] == 100


def test_a_table_is_written_and_measured(tmp_path, monkeypatch, capsys):
    rows = []
    for number, machine in enumerate(("c5n.18xlarge", "hpc6a.48xlarge", "p5.48xlarge")):
        for time in ("2023", "2024"):
            value = str(18 + number + int(time) / 1000)
            rows.append({**COLUMNS, "machine": machine, "date_or_commit": time, "value": value})
    sick = {"scope": "suspected intra-node", "value": "0.5", "note": "one node"}
    path = tmp_path / "table.csv.xz"
    with lzma.open(path, "wt", newline="") as text:
        writer = csv.DictWriter(text, COLUMNS)
        writer.writeheader()
        writer.writerows([*rows, {**COLUMNS, **sick}])
    monkeypatch.setattr(machines, "FILES", tmp_path)
    assert machines.main([str(path)]) == 0
    assert len(load(tmp_path)) == len(rows)
    assert like.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert "6 healthy sources" in out and "never left the node" in out
