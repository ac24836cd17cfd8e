"""Units of performance variables: better direction, conversion, and printed name.

This table is the only place that knows units. A unit that it lacks has no direction, so that
nothing is judged by it. `tests/test_metrics.py` fails for a check whose unit is not here.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Which values of a unit are better; "" where the unit alone does not say.
LESS, MORE, UNKNOWN = "less", "more", ""


def of_bounds(lower: float | None, upper: float | None) -> str:
    """The better values by a reference's bounds: the side that only one bound leaves open."""
    if (lower is None) == (upper is None):
        return UNKNOWN
    return LESS if lower is None else MORE


@dataclass(frozen=True)
class Unit:
    name: str  #: as a check's performance function gives it
    better: str  #: LESS, MORE or UNKNOWN
    quantity: str  #: units of one quantity convert into each other
    scale: float = 1.0  #: in the quantity's base unit, such as 1e-6 for us in seconds
    symbol: str | None = None  #: as reports print it; None: its name

    @property
    def lower_is_better(self) -> bool | None:
        """None where the unit does not say."""
        return self.lower_is_better_or(UNKNOWN)

    def lower_is_better_or(self, better: str) -> bool | None:
        """The same, with LESS or MORE where the unit does not say."""
        return {LESS: True, MORE: False}.get(self.better or better)

    @property
    def printed(self) -> str:
        return self.name if self.symbol is None else self.symbol


#: Decimal prefixes of rates, and the binary ones of bytes.
PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _rates(quantity: str, stem: str, scale: float = 1.0) -> list[Unit]:
    """A rate with each decimal prefix, such as B/s, kB/s, MB/s."""
    return [
        Unit(prefix + stem, MORE, quantity, scale * factor) for prefix, factor in PREFIXES.items()
    ]


TABLE = [
    # Times
    Unit("ns", LESS, "time", 1e-9),
    Unit("us", LESS, "time", 1e-6, "µs"),
    Unit("ms", LESS, "time", 1e-3),
    Unit("s", LESS, "time"),
    Unit("min", LESS, "time", 60.0),
    Unit("h", LESS, "time", 3600.0),
    Unit("s/step", LESS, "time of a step"),
    # Losses
    Unit("% lost", LESS, "lost share"),
    Unit("% spread", LESS, "spread"),
    Unit("points", LESS, "lost efficiency"),
    Unit("detours/s", LESS, "disturbance"),
    Unit("x sockets", LESS, "cost over plain sockets"),
    Unit("x time alone", LESS, "time beside traffic"),
    # Ratios to the native partition (nearmetal/gate/relative.py)
    Unit("x native time", LESS, "time over native"),
    Unit("x native rate", MORE, "rate over native"),
    # Shares of what is possible
    Unit("% of ideal", MORE, "efficiency"),
    Unit("% of peak", MORE, "share of peak"),
    Unit("% of DGEMM", MORE, "share of DGEMM"),
    # Gains of more processes (nearmetal/speedup.py)
    Unit("x fewest processes", MORE, "speed-up"),
    # Rates
    Unit("IO/s", MORE, "requests"),
    *_rates("bandwidth", "B/s", 8.0),
    *[Unit(f"{p}B/s", MORE, "bandwidth", 8 * factor) for p, factor in BINARY.items()],
    *_rates("bandwidth", "b/s"),
    *_rates("bandwidth", "bit/s"),
    *_rates("bandwidth", "bps"),
    *_rates("floating-point rate", "flop/s"),
    *_rates("floating-point rate", "flops"),
    *_rates("floating-point rate", "Flop/s"),
    *_rates("floating-point rate", "Flops"),
    *_rates("floating-point rate", "FLOPS"),
    *_rates("floating-point rate", "FLOP/s"),
    *_rates("operations", "op/s"),
    *_rates("operations", "ops/s"),
    *_rates("operations", "OPS"),
    *_rates("updates", "UP/s"),
    *[
        Unit(f"{name}/s", MORE, name)
        for name in (
            "timesteps",
            "steps",
            "iterations",
            "updates",
            "cells",
            "messages",
            "packets",
            "requests",
            "transactions",
            "samples",
            "images",
            "tokens",
        )
    ],
    Unit("ns/day", MORE, "simulated time"),
    # Numbers whose variable, and not whose unit, says what is better
    Unit("B", UNKNOWN, "message size"),
    Unit("1", UNKNOWN, "ratio", symbol=""),
    Unit("%", UNKNOWN, "ratio", 0.01),
]
UNITS = {unit.name: unit for unit in TABLE}


def unit(name) -> Unit:
    """The unit of that name; one without direction where the table lacks it."""
    return UNITS.get(str(name)) or Unit(str(name), UNKNOWN, str(name))


def printed(name) -> str:
    """A unit's name as reports print it: `µs` for us, nothing for 1."""
    return unit(name).printed
