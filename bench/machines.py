"""Writes references/machines/*.yaml from the table of published figures (known_machines.csv.xz).

    python -m bench.machines known_machines.csv.xz

A source is what one repository published of one machine at one time, with one link, MPI library
and condition. Its runs stand beside each other. Values are converted to our variables; rows that
no variable of ours means the same by are left out.
"""

from __future__ import annotations

import argparse
import csv
import lzma
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from nearmetal.expectations.machines import FILES, load, whole
from nearmetal.util import files, strict_yaml

HEAD = """\
# Published figures of machines. `python -m bench.machines CSV` writes this file from the table.
# A source is what one repository published of one machine at one time. Its runs stand side by side.
# The unit is that of the variable (../checks/). A collective's time is the mean over processes
# where the source prints no other; the slowest process took 1 to 20 % more. Only figures were
# taken; the licence is the repository's.
"""
#: First match of a NIC's name -> link type.
LINKS = {
    "EFA": "efa",
    "RoCE": "roce",
    "InfiniBand": "infiniband",
    "Slingshot": "slingshot",
    "Omni-Path": "omnipath",
    "Aries": "aries",
    "Ethernet|gVNIC|ENA|virtio": "ethernet",
}
#: Number of NICs in a NIC's name.
CARDS = re.compile(r"x(\d+)$|\((\d+) (?:cards|rails)\)")
#: First match of an MPI library's name -> library.
LIBRARIES = {
    "HPC-X": "HPC-X",
    "(?i)open ?mpi|OMPI": "Open MPI",
    "Cray": "Cray MPICH",
    "MVAPICH": "MVAPICH2",
    "(?i)intel ?mpi|IMPI": "Intel MPI",
    "MPT": "HPE MPT",
    "MPICH": "MPICH",
}
#: Names of one machine: the last group is not of its name.
SAME_MACHINE = re.compile(r"(n1-standard-32|archer2)(\+8xV100|:compute-node)")
#: Rows that a regular expression of the note marks as unfit, unless an effect below has them.
UNFIT = re.compile(
    "DO NOT USE|round figure|maybe copied|best of all tests|are inflated|several UCX|MLC|"
    "first sizes|size not stated|line rate"
)
#: What a source says was wrong or unusual: effect -> what a row's columns match. The bench looks
#: for these effects; references do without them.
EFFECTS = {
    "Azure agent running": {"note": "agent running"},
    "nodes on different switches": {"note": "different switches|diffswitch"},
    "hosts shared with other jobs": {
        "machine": "Standard_HB120-96rs_v3",
        "mpi": "Open MPI UCX",
        "source_repo": "converged-computing/performance-study",
    },
    "never left the node": {"scope": "suspected intra-node"},
    "called TCP": {"scope": "inter-node, transport in doubt"},
    "overlay network": {"note": "overlay"},
    "overlay network, TCP": {"benchmark": "iperf2", "unit": "Mb/s"},
    "above the memory's rate": {"note": "DO NOT USE: above", "benchmark": "STREAM"},
}
#: What sources of one time and machine differ by.
CONDITION = re.compile(r"toolchain \w+|in Singularity|both nodes on one switch|sameswitch")
LATENCY = re.compile(r"latency(_median|_mean_of_3)?")
SINGLE_PAIR = ("osu_latency", "osu_multi_lat (1 pair)", "IMB-MPI1 PingPong")
COLLECTIVE = re.compile(r"(?:osu_|IMB-MPI1 )(allreduce|alltoall|bcast|barrier)", re.I)
#: Times of a collective: the slowest process, or else the mean. Allreduce of IMB has both.
TIME = re.compile(r"\w+ (time_max|t_max|latency_avg(_median)?)|(?!allreduce)\w+ (time|t)_avg")
SIZES = {"8": "8B", "65536": "64KiB"}
KERNEL = re.compile(r"(copy|scale|add|triad)(_best|_low|_high)?")
#: Factors to MB/s and Gb/s.
MEGABYTES = {"MB/s": 1, "GB/s": 1000}
GIGABITS = {"Gb/s": 1, "Mb/s": 0.001, "MB/s": 0.008}
#: Longest message of `peak_bandwidth` in bytes, and the least longest one of a curve that has it.
LARGEST, LEAST_LARGEST = 1 << 22, 1 << 20


@dataclass
class Source:
    """What one repository published of one machine at one time."""

    machine: str
    provider: str
    cpu: str
    effect: str
    entry: dict
    values: dict = field(default_factory=dict)
    curves: dict = field(default_factory=dict)  #: times by message size, of each run

    @property
    def key(self) -> tuple:
        """What tells sources apart. Runs have a file each: the first file's path stands for all."""
        return (self.machine, self.effect, *{**self.entry, "path": ""}.items())

    def add(self, check: str, variable: str, value: float) -> None:
        runs = self.values.setdefault(check, {}).setdefault(variable, [])
        runs.append(_short(value))

    def read(self, row: dict) -> None:
        """Add a row, unless it is none of our variables."""
        value, path = float(row["value"]), row["source_path"]
        if _is_pingpong(row):
            run = row["benchmark"], path, row["note"]
            sizes = self.curves.setdefault(run, {})
            sizes.setdefault(int(row["size_bytes"]), []).append(value)
        elif variable := _collective(row):
            self.add("collectives", variable, value)
        elif named := _single(row):
            self.add(*named)
        else:
            return
        self.entry["path"] = self.entry["path"] or path


def rows(path: Path) -> Iterator[dict]:
    """The rows of the table."""
    with lzma.open(path, "rt", encoding="utf-8", newline="") as text:
        yield from csv.DictReader(text)


def sources(table: Iterable[dict]) -> list[Source]:
    """The sources in a table, with those of a known effect."""
    known: dict[tuple, Source] = {}
    for row in table:
        effect = effect_of(row)
        if row["kind"] != "threshold" and (effect or not UNFIT.search(row["note"])):
            source = _source(row, effect)
            known.setdefault(source.key, source).read(row)
    for source in known.values():
        for sizes in source.curves.values():
            _add_curve(source, sizes)
    return [source for source in known.values() if source.values]


def effect_of(row: dict) -> str:
    """The known effect that a row shows; '' for none."""
    for effect, columns in EFFECTS.items():
        if all(re.search(pattern, row[column]) for column, pattern in columns.items()):
            return effect
    return ""


def _source(row: dict, effect: str) -> Source:
    machine = SAME_MACHINE.sub(r"\1", whole(row["machine"]))
    entry = {"repository": row["source_repo"], "path": ""}
    entry.update(licence=row["licence"], when=row["date_or_commit"])
    link = _first(LINKS, row["nic"])
    if link and row["scope"] not in ("node", "core", "socket"):
        entry["link"] = link
        if row["nic_gbps"]:
            gbps = float(row["nic_gbps"])
            if cards := CARDS.search(row["nic"]):
                gbps /= int(cards[1] or cards[2])
            entry["link_gbps"] = _short(gbps)
    if library := _first(LIBRARIES, row["mpi"]):
        entry["mpi"] = library
    if row["scope"] == "collective" and row["nodes"]:
        entry["nodes"] = int(row["nodes"])
    if condition := CONDITION.search(row["note"]):
        entry["condition"] = condition[0]
    return Source(machine, row["provider"], row["cpu"], effect, entry)


def _first(names: dict[str, str], text: str) -> str:
    for pattern, name in names.items():
        if re.search(pattern, text):
            return name
    return ""


def _is_pingpong(row: dict) -> bool:
    return (
        row["benchmark"] in SINGLE_PAIR
        and row["scope"].startswith(("inter-node", "suspected intra-node"))
        and LATENCY.fullmatch(row["variable"]) is not None
        and row["size_bytes"] != ""
    )


def _add_curve(source: Source, sizes: dict[int, list[float]]) -> None:
    """A PingPong's values by message size in us, each half of a round trip."""
    # MPI libraries send up to 8 B in the same packet. 0 B has none.
    shortest = next((size for size in (1, 2, 4, 8) if size in sizes), 0)
    for value in sizes.get(shortest or -1, ()):
        source.add("pingpong", "startup_latency", value)
    for value in sizes.get(1024, ()):
        source.add("pingpong", "latency_1KiB", value)
    for value in sizes.get(65536, ()):
        source.add("pingpong", "bandwidth_64KiB", _gbps(65536, value))
    if max(sizes) < LEAST_LARGEST:
        return
    for run in range(max(map(len, sizes.values()))):
        rates = []
        for size, times in sizes.items():
            if 0 < size <= LARGEST and run < len(times):
                rates.append(_gbps(size, times[run]))
        source.add("pingpong", "peak_bandwidth", max(rates))


def _short(value: float) -> float:
    """Five digits, and an integer where it is one."""
    number = float(f"{value:.5g}")
    if number.is_integer():
        return int(number)
    return number


def _gbps(size: int, microseconds: float) -> float:
    return size * 8 / microseconds / 1000


def _collective(row: dict) -> str:
    """Our variable of a collective on all processes of several nodes; '' for none."""
    match = COLLECTIVE.fullmatch(row["benchmark"])
    several = row["processes"] and row["nodes"] not in ("", "1")
    if match is None or not several or row["scope"] != "collective":
        return ""
    name = match[1].lower()
    size = SIZES.get(row["size_bytes"], "")
    if (not size and name != "barrier") or not TIME.fullmatch(f"{name} {row['variable']}"):
        return ""
    return "_".join(filter(None, [name, size, row["processes"]]))


def _single(row: dict) -> tuple[str, str, float] | None:
    """Check, variable and value of a row that stands alone; None where none of ours is the same."""
    benchmark, variable, value = row["benchmark"], row["variable"], float(row["value"])
    if benchmark == "STREAM" and row["scope"] == "node":
        kernel = KERNEL.fullmatch(variable)
        return kernel and ("stream", kernel[1], value * MEGABYTES[row["unit"]])
    if row["scope"] != "inter-node":
        return None
    if benchmark == "iperf2 TCP, 1 stream":
        return "tcp", "peak_bandwidth", value * GIGABITS[row["unit"]]
    if benchmark == "perftest ib_send_lat" and variable == "t_typical":
        names = {"2": "startup_latency", "1024": "latency_1KiB"}
        name = names.get(row["size_bytes"])
        return name and ("rdma send", name, value)
    if benchmark == "perftest ib_write_bw" and row["size_bytes"] == "65536":
        return "rdma write", "bandwidth_64KiB", value * GIGABITS[row["unit"]]
    return None


def distinct(listed: list[Source]) -> list[Source]:
    """The sources without those that repeat another one's values of the same processor."""
    seen, kept = set(), []
    for source in listed:
        processor = source.cpu.partition(";")[0]
        data = (processor or source.machine, source.entry.get("link"), repr(source.values))
        if data not in seen:
            kept.append(source)
        seen.add(data)
    return kept


def write(listed: list[Source], directory: Path) -> None:
    """Write a file for each provider."""
    by_file: dict[str, dict] = {}
    for source in listed:
        name = re.sub(r"\W+", "-", source.provider.split(" (")[0].lower())
        machine = by_file.setdefault(name, {}).setdefault(source.machine, {})
        machine.setdefault("provider", source.provider)
        if source.cpu:
            machine.setdefault("cpu", source.cpu)
        values = {}
        for check, variables in source.values.items():
            values[check] = {variable: sorted(runs) for variable, runs in variables.items()}
        machine.setdefault("sources", []).append({**source.entry, "values": values})
    for name, machines in by_file.items():
        options = {"sort_keys": False, "width": 120, "default_flow_style": None}
        text = yaml.dump({"machines": machines}, Dumper=strict_yaml.DUMPER, **options)
        files.write(directory / f"{name}.yaml", HEAD + text)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="machines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, metavar="CSV", help="the table, compressed by xz")
    chosen = parser.parse_args(arguments)
    healthy = [source for source in sources(rows(chosen.table)) if not source.effect]
    for old in FILES.glob("*.yaml"):
        old.unlink()
    write(distinct(healthy), FILES)
    print(f"{len(load(FILES))} sources are in {FILES}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
