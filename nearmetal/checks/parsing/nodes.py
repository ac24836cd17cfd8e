"""Output of ``src/nodes.c``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.output import (
    Form,
    Launch,
    Output,
    each_launch,
    ranks_of,
    words_of,
)
from nearmetal.model.node_metrics import NAMES

#: Why a node has no value although nothing was printed of it.
SILENT = "the node does not answer"
#: What the program says of a value that a node does not have.
REASONS = ("a rank of the node does not answer", "not done in time", "a wrong result")


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

    def key_of(names: list[str]) -> tuple | None:
        node, repeat = numbers.wholes(names[1:3], "a node or repeat")
        if node < len(hosts) and repeat < repeats and names[3] in NAMES:
            return names[3], node, repeat
        return None

    results = output.results(LINES, key_of, REASONS)
    for name, node, repeat in itertools.product(NAMES, range(len(hosts)), range(repeats)):
        result = results.get((name, node, repeat), SILENT)
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


def _value(names: list[str], values: list[str]) -> float:
    """A value of a metric; only noise may be 0. Raises ParseError."""
    metric, word = names[3], values[0]
    if metric != "noise":
        return numbers.positive(word, metric.replace("_", " "))
    percent = numbers.real(word, "noise")
    if not 0 <= percent < 100:
        raise damaged(f"noise is {word} percent of the time")
    return percent


LINES = {"node": Form(4, 1, _value)}
