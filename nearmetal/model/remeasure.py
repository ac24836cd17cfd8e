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
    return ",".join(
        ":".join(
            [
                *(quote(part, safe="") for part in key),
                str(one.repeats),
                _list(one.nodes),
                _list(one.without),
            ]
        )
        for key, one in cases.items()
    )


def read(text: str) -> dict[Key, Remeasure]:
    """The cases of a text. Raises ValueError, which names the entry, if it is damaged."""
    found = {}
    for entry in text.split(","):
        fields = entry.split(":")
        try:
            *key, repeats, nodes, without = fields
            check, partition, environ, node = map(unquote, key)
            one = Remeasure(int(repeats), _nodes(nodes), _nodes(without))
            assert check and partition and environ and one.repeats > 0
        except (ValueError, AssertionError):
            raise ValueError(
                f"{entry!r} is not CHECK:PARTITION:ENVIRONMENT:NODE:REPEATS:NODES:WITHOUT"
            ) from None
        found[check, partition, environ, node] = one
    return found


def _list(nodes: tuple[str, ...]) -> str:
    return "+".join(quote(node, safe="") for node in nodes)


def _nodes(text: str) -> tuple[str, ...]:
    return tuple(unquote(node) for node in text.split("+") if node)
