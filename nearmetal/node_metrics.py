"""What `fleet_nodes` measures of each node (src/nodes.c): names, words and units."""

from __future__ import annotations

from dataclasses import dataclass

#: Least percent of noise that is stored: less is as good as none.
LEAST_NOISE = 1e-4


@dataclass(frozen=True)
class Metric:
    """A metric of a node."""

    name: str  #: in the program's output, in a database, and of the performance variable
    words: str  #: as people read it
    unit: str  #: nearmetal/metrics.py


METRICS = (
    Metric("memory", "memory", "GB/s"),
    Metric("processor", "processor", "Gflop/s"),
    Metric("noise", "noise", "% lost"),
    Metric("memory_latency", "memory latency", "ns"),
    Metric("shared_memory", "shared memory", "us"),
)
NAMES = tuple(metric.name for metric in METRICS)
