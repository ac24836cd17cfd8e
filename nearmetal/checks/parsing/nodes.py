"""Output of ``src/nodes.c``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.output import (
    Launch,
    Output,
    each_launch,
    ranks_of,
    reason_of,
    words_of,
)
from nearmetal.model.node_metrics import NAMES

#: Why a node has no value although nothing was printed of it.
SILENT = "the node does not answer"
#: What the program says of a value that a node does not have.
REASONS = ("a rank of the node does not answer", "not done in time", "a wrong result")
#: Number of a node, repeat and metric.
Key = tuple[int, int, str]


@dataclass
class OnNodes(Launch):
    #: Hosts, in the order of their first ranks.
    nodes: tuple[str, ...]
    #: CPUs that each node allows the program; -1: the kernel did not say.
    cpus: tuple[int, ...]
    #: (Metric, number of a node) -> its values, one for each repeat that was done.
    values: dict[tuple[str, int], list[float]] = field(default_factory=dict)
    #: The same -> why a repeat was not done, one for each such repeat.
    failed: dict[tuple[str, int], list[str]] = field(default_factory=dict)

    def of_nodes(self, metric: str) -> dict[int, float]:
        """Number of a node -> the mean of its values; nodes without a value are left out."""
        means = {}
        for (name, node), values in self.values.items():
            if name == metric:
                means[node] = sum(values) / len(values)
        return means


@each_launch("nodes")
def parse_nodes(output: Output) -> OnNodes:
    """Every launch in the output of ``src/nodes.c``, in order.

    A node that failed is a result. Raises ParseError on truncated or damaged output.
    """
    facts, words, did = output.on_nodes("seconds repeats at_once megabytes nodes")
    hosts = _hosts(facts)
    # Facts of ranks are words, which nothing else confirms.
    if len(hosts) != did["nodes"]:
        raise damaged(f"the ranks ran on {len(hosts)} hosts, but nodes measured {did['nodes']:g}")
    launch = OnNodes(facts, did, tuple(hosts), tuple(hosts.values()))
    repeats = numbers.whole(words["repeats"], "the number of repeats", 1)
    # Before any list of that length is made: digits of a count may be damaged.
    output.expect_lines_for(len(NAMES) * len(hosts) * repeats)
    results = _results(output, len(hosts), repeats)
    for name in NAMES:
        for node in range(len(hosts)):
            for repeat in range(repeats):
                result = results.get((node, repeat, name), SILENT)
                if isinstance(result, str):
                    launch.failed.setdefault((name, node), []).append(result)
                else:
                    launch.values.setdefault((name, node), []).append(result)
    return launch


def _hosts(facts: dict[str, str]) -> dict[str, int]:
    """Host -> CPUs that it allows, in the order of the hosts' first ranks."""
    ranks = ranks_of(facts)
    hosts: dict[str, int] = {}
    for rank in range(len(ranks)):
        words = words_of(ranks[f"rank {rank}"], "the place of a rank", "host cpu allowed_cpus")
        hosts.setdefault(words["host"], int(words["allowed_cpus"]))
    return hosts


def _results(output: Output, nodes: int, repeats: int) -> dict[Key, float | str]:
    """What was printed of each value: the value, or the reason why there is none."""
    results: dict[Key, float | str] = {}
    for line in output.lines:
        if not line.startswith("node "):
            continue
        key, result = _parse_line(line, nodes, repeats)
        if key in results:
            raise damaged(f"{line!r} was printed twice")
        results[key] = result
    return results


def _parse_line(line: str, nodes: int, repeats: int) -> tuple[Key, float | str]:
    words = line.split()
    if len(words) < 5:
        raise damaged(f"a node's value is {line!r}")
    node, repeat, metric = (
        numbers.whole(words[1], "a node"),
        numbers.whole(words[2], "a repeat"),
        words[3],
    )
    if node >= nodes or repeat >= repeats or metric not in NAMES:
        raise damaged(f"a node's value is {line!r}, which was not measured")
    key = node, repeat, metric
    if words[4] == "failed":
        return key, reason_of(words[5:], REASONS)
    if len(words) != 5:
        raise damaged(f"a node's value is {line!r}")
    return key, _value(metric, words[4])


def _value(metric: str, word: str) -> float:
    """A value of a metric; only noise may be 0. Raises ParseError."""
    if metric != "noise":
        return numbers.positive(word, metric.replace("_", " "))
    percent = numbers.real(word, "noise")
    if not 0 <= percent < 100:
        raise damaged(f"noise is {word} percent of the time")
    return percent
