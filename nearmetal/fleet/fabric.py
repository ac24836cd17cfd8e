"""Whether a fabric holds all links at once. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from nearmetal.fleet.findings import AnySweep
from nearmetal.fleet.sweep import Sweep
from nearmetal.results import Case

ALONE, TOGETHER = "alone", "together"


@dataclass(frozen=True)
class Fabric:
    """The bandwidth of links together, beside that of the same links alone."""

    #: Sum over the links, both directions.
    together_gbps: float
    alone_gbps: float
    #: Number of directions that both sweeps measured.
    links: int

    @property
    def kept(self) -> float:
        """The part that is left of the sum of the links alone."""
        return self.together_gbps / self.alone_gbps

    def __str__(self) -> str:
        return (
            f"all pairs of a round at once: {100 * self.kept:.0f} % of the bandwidth of the same "
            f"{self.links} links measured alone"
        )


def beside(case: Case, cases: Mapping[tuple, tuple[Case, AnySweep]]) -> Fabric | None:
    """What is left of the links alone, where a case measured them together.

    None where no case of the session measured the same links alone.
    """
    together = cases[case.where][1]
    if case.parameters.get("traffic") != TOGETHER or not isinstance(together, Sweep):
        return None
    wanted = {**case.parameters, "traffic": ALONE}
    for other, alone in cases.values():
        same = (other.place, other.environ) == (case.place, case.environ)
        if same and other.parameters == wanted and isinstance(alone, Sweep):
            return of(alone, together)
    return None


def of(alone: Sweep, together: Sweep) -> Fabric | None:
    """The sums over the links that both sweeps measured; None if there is none."""
    # The two cases may have measured nodes in another order, or other ones.
    both = together.of_nodes(alone.nodes).gbps
    known = np.isfinite(both) & np.isfinite(alone.gbps)
    if not known.any():
        return None
    together_gbps = float(both[known].sum(dtype=float))
    alone_gbps = float(alone.gbps[known].sum(dtype=float))
    return Fabric(together_gbps, alone_gbps, int(known.sum()))
