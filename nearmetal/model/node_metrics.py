"""What `fleet_nodes` measures of each node (src/nodes.c)."""

from __future__ import annotations

from dataclasses import dataclass

#: Least percent of noise that is stored: less is as good as none.
LEAST_NOISE = 1e-4
#: Kinds of values: work in a second, seconds of the same work, percent of the time that is lost.
RATE, TIME, LOST = "rate", "time", "lost"


@dataclass(frozen=True)
class Metric:
    """A metric of a node."""

    name: str  #: in the program's output, in a database, and of the performance variable
    words: str  #: as people read it
    kind: str  #: RATE, TIME or LOST


METRICS = (
    Metric("memory", "memory", RATE),
    Metric("processor", "processor", RATE),
    Metric("noise", "noise", LOST),
    Metric("memory_latency", "memory latency", TIME),
    Metric("shared_memory", "shared memory", TIME),
)
NAMES = tuple(metric.name for metric in METRICS)
