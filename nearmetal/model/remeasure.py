"""Cases to measure again in one run of ReFrame, as the text of `-S again=...`.

An entry is CHECK:PARTITION:ENVIRONMENT:NODE:REPEATS:NODES:WITHOUT. Its texts are quoted as in a
URL, so that no shell reads them otherwise. Lists of nodes are joined by `+`, entries by `,`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

#: Check, partition, environment, and the node that `--distribute` gave, or "".
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Remeasure:
    """How a case is measured again."""

    repeats: int
    #: its nodes; (): Slurm chooses
    nodes: tuple[str, ...] = ()
    #: nodes that it may not have
    without: tuple[str, ...] = ()


def write(cases: Mapping[Key, Remeasure]) -> str:
    """The cases as text."""
    entries = []
    for key, again in cases.items():
        texts = [quote(part, safe="") for part in key]
        texts += [str(again.repeats), _list(again.nodes), _list(again.without)]
        entries.append(":".join(texts))
    return ",".join(entries)


def read(text: str) -> dict[Key, Remeasure]:
    """The cases of a text. Raises ValueError, which names the entry, if it is damaged."""
    cases = {}
    for entry in text.split(","):
        fields = entry.split(":")
        try:
            *key, repeats, nodes, without = fields
            check, partition, environ, node = map(unquote, key)
            again = Remeasure(int(repeats), _nodes(nodes), _nodes(without))
            assert check and partition and environ and again.repeats > 0
        except (ValueError, AssertionError):
            raise ValueError(
                f"{entry!r} is not CHECK:PARTITION:ENVIRONMENT:NODE:REPEATS:NODES:WITHOUT"
            ) from None
        cases[check, partition, environ, node] = again
    return cases


def _list(nodes: tuple[str, ...]) -> str:
    return "+".join(quote(node, safe="") for node in nodes)


def _nodes(text: str) -> tuple[str, ...]:
    return tuple(unquote(node) for node in text.split("+") if node)
