"""What `fleet_congestion` measures of nodes beside traffic of others (src/congestion.c)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """A measurement of the victims."""

    name: str  #: in the program's output, in a database, and of the performance variable
    words: str  #: as people read it
    unit: str  #: of the value without traffic


METRICS = (
    Metric("latency", "latency", "us"),
    Metric("bandwidth", "bandwidth", "Gb/s"),
    Metric("allreduce", "Allreduce", "us"),
)
NAMES = tuple(metric.name for metric in METRICS)
#: Kinds of traffic, by their number in the program.
KINDS = ("incast", "all_to_all", "random")


def ratios(name: str) -> dict[str, str]:
    """Variables of a metric that are ratios -> of what they are, in words."""
    return {
        f"{name}_ratio": "median",
        f"{name}_ratio_mean": "mean",
        f"worst_node_{name}_ratio": "worst node",
        f"{name}_ratio_99": "99 %",
        f"{name}_ratio_worst": "worst",
    }
