"""Output of ``src/nodes.c``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    ParseError,
    backed,
    bounded,
    launches_of,
    positive,
    real,
    reported,
    whole,
)
from nearmetal.model.node_metrics import NAMES

#: Why a node has no value although nothing was printed of it.
SILENT = "the node does not answer"
#: What the program says of a value that a node does not have.
REASONS = ("a rank of the node does not answer", "not done in time", "a wrong result")


@dataclass
class Launch:
    """One complete launch."""

    nodes: tuple[str, ...]  #: hosts, in the order of their first ranks
    cpus: tuple[int, ...]  #: CPUs that each node allows the program; -1: the kernel did not say
    #: (Metric, number of a node) -> its values, one for each repeat that was done.
    values: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    #: The same -> why a repeat was not done, one for each such repeat.
    failed: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the program reports

    def of_nodes(self, metric: str) -> dict[int, float]:
        """Number of a node -> the mean of its values; nodes without a value are left out."""
        return {
            node: sum(values) / len(values)
            for (name, node), values in self.values.items()
            if name == metric
        }


def _value(metric: str, word: str) -> float:
    """A value of a metric; only noise may be 0. Raises ParseError."""
    if metric != "noise":
        return positive(word, metric.replace("_", " "))
    value = real(word, "noise")
    if not 0 <= value < 100:
        raise ParseError(f"noise is {word} percent of the time: digits were damaged; rerun")
    return value


def _parse_line(
    words: list[str], nodes: int, repeats: int
) -> tuple[tuple[int, int, str], float | str]:
    """((node, repeat, metric), the value or the reason why there is none)."""
    if len(words) < 5:
        raise ParseError(f"a node's value is {' '.join(words)!r}: words were lost; rerun")
    node, repeat = whole(words[1], "a node"), whole(words[2], "a repeat")
    if node >= nodes or repeat >= repeats or words[3] not in NAMES:
        raise ParseError(f"a node's value is {' '.join(words)!r}, which was not measured: rerun")
    if words[4] == "failed":
        reason = " ".join(words[5:])
        if reason not in REASONS:
            raise ParseError(f"a node failed for {reason!r}: words were lost; rerun")
        return (node, repeat, words[3]), reason
    if len(words) != 5:
        raise ParseError(f"a node's value is {' '.join(words)!r}: lines were mixed; rerun")
    return (node, repeat, words[3]), _value(words[3], words[4])


def _hosts(facts: dict[str, str], ranks: int) -> dict[str, int]:
    """Host -> CPUs that it allows, in the order of the hosts' first ranks."""
    hosts: dict[str, int] = {}
    for rank in range(ranks):
        found = re.fullmatch(r"host=(\S+) cpu=\S+ allowed_cpus=(-?\d+)", facts[f"rank {rank}"])
        if found:  # as `expect_ranks` wants it
            hosts.setdefault(found[1], int(found[2]))
    return hosts


def _parse_launch(lines: list[str]) -> Launch:
    names = "seconds repeats at_once megabytes nodes"
    facts, given, did, ranks = reported(lines, "nodes", names)
    hosts = _hosts(facts, ranks)
    if len(hosts) != did["nodes"]:
        raise ParseError(
            f"the ranks ran on {len(hosts)} hosts, but nodes measured {did['nodes']:g}: lines were "
            "lost; rerun"
        )
    launch = Launch(tuple(hosts), tuple(hosts.values()), facts=facts, did=did)
    repeats = whole(given["repeats"], "the number of repeats", 1)
    backed(len(NAMES) * len(hosts) * repeats, lines, "nodes")
    told: dict[tuple[int, int, str], float | str] = {}
    for line in lines:
        if line.startswith("node "):
            key, found = _parse_line(line.split(), len(hosts), repeats)
            if key in told:
                raise ParseError(f"{line!r} was printed twice: lines were mixed; rerun")
            told[key] = found
    for name in NAMES:
        for node in range(len(hosts)):
            for repeat in range(repeats):
                found = told.get((node, repeat, name), SILENT)
                if isinstance(found, str):
                    launch.failed.setdefault((name, node), []).append(found)
                else:
                    launch.values.setdefault((name, node), []).append(found)
    return launch


@bounded
def parse_nodes(text: str) -> list[Launch]:
    """Every launch in the output of ``src/nodes.c``, in order.

    A node that failed is a result. Raises ParseError on truncated or damaged output.
    """
    return [
        _parse_launch(lines) for lines in launches_of(text, r"# nearmetal program: nodes", "nodes")
    ]
