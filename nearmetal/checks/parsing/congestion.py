"""Output of ``src/congestion.c``."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cached_property

from nearmetal.checks.parsing import (
    ParseError,
    backed,
    bounded,
    hosts_of,
    launches_of,
    positive,
    real,
    reported,
    whole,
)
from nearmetal.model.congestion import NAMES

STATES = ALONE, TRAFFIC = "alone", "traffic"
#: Samples that a quantile of 99 % needs (src/congestion.c).
LEAST_OF_99 = 299
#: Bytes that a victim sends in an exchange of `bandwidth`: 8 messages to each of two neighbours.
EXCHANGE_BYTES = 2 * 8 * 131072
#: Part of a slot after which a pause of a rank is longer than what is left for late ones.
LONG_PAUSE = 0.25
#: Why a node has no value although nothing was printed of it.
SILENT = "the node does not answer"
#: What the program says of a slot that has no value.
CHANGED = "a message arrived changed"
REASONS = (CHANGED, "not done in time", "did not stop in time")


@dataclass(frozen=True)
class Tail:
    """All samples of a victim."""

    samples: int
    us_99: float | None  #: None: too few samples
    us_worst: float


@dataclass
class Launch:
    """One complete launch."""

    nodes: tuple[str, ...]  #: host of each rank
    victims: tuple[int, ...]  #: ranks, in the order of the shuffle
    #: (Metric, rank, state) -> round -> median in us, and mean.
    medians: dict[tuple[str, int, str], dict[int, float]] = field(default_factory=dict)
    means: dict[tuple[str, int, str], dict[int, float]] = field(default_factory=dict)
    tails: dict[tuple[str, int, str], Tail] = field(default_factory=dict)
    #: Rank of a generator -> Gb/s sent and received, for each slot that was done.
    rates: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    pauses: dict[int, float] = field(default_factory=dict)  #: rank -> longest one in seconds
    #: Rank -> why, for each slot that was not done.
    failed: dict[int, list[str]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the program reports

    @cached_property
    def ranks_of_victims(self) -> frozenset[int]:
        """The victims, for a look-up whose time does not grow with their number."""
        return frozenset(self.victims)

    def alone_us(self, metric: str) -> dict[int, float]:
        """Victim -> the median over its rounds without traffic."""
        return {
            rank: statistics.median(self.medians[metric, rank, ALONE].values())
            for rank in self.victims
            if self.medians.get((metric, rank, ALONE))
        }

    def ratios(self, metric: str, mean: bool = False) -> dict[int, float]:
        """Victim -> time beside traffic over the time alone: the median over its rounds.

        A slot's time is the median of its samples, or their mean.

        The two slots of a round follow each other, so that drift has no part in their ratio.
        """
        found = {}
        for rank in self.victims:
            slots = self.means if mean else self.medians
            alone, beside = (slots.get((metric, rank, state), {}) for state in STATES)
            both = [beside[number] / alone[number] for number in alone if number in beside]
            if both:
                found[rank] = statistics.median(both)
        return found

    def ratios_99(self, metric: str) -> dict[int, float]:
        """The same of the quantiles of 99 %. {} where a victim has too few samples."""
        found = {}
        for rank in self.victims:
            tails = [self.tails.get((metric, rank, state)) for state in STATES]
            us = [tail.us_99 for tail in tails if tail and tail.us_99]
            if len(us) < len(STATES):
                return {}
            found[rank] = us[1] / us[0]
        return found

    def ratio_worst(self, metric: str) -> float:
        """The longest time beside traffic over the longest one alone, of all victims."""
        worst = {
            state: max(
                tail.us_worst
                for (name, _, of), tail in self.tails.items()
                if (name, of) == (metric, state)
            )
            for state in STATES
        }
        return worst[TRAFFIC] / worst[ALONE]

    def fewest_samples(self, metric: str) -> int:
        """Samples of the victim and the state with the fewest."""
        return min(
            (tail.samples for (name, _, _), tail in self.tails.items() if name == metric),
            default=0,
        )

    def received_gbps(self) -> float:
        """Traffic of all generators together: the median over the slots."""
        slots = zip(*self.rates.values())
        return statistics.median(sum(received for _, received in slot) for slot in slots)

    def silent(self) -> list[int]:
        """Ranks that do not answer."""
        return [rank for rank, why in self.failed.items() if SILENT in why]

    def undone(self) -> dict[int, str]:
        """Ranks with slots that were not done, and why.

        {} where a rank does not answer: it is to blame. Ranks that had to wait for another one are
        left out: for one that received a changed message, or that the system stopped for a while.
        """
        if self.silent() or not self.failed:
            return {}
        changed = {rank: CHANGED for rank, why in self.failed.items() if CHANGED in why}
        longest = max(self.pauses.values())
        stopped = {
            rank: f"it stood still for {pause:.2g} s"
            for rank, pause in self.pauses.items()
            if pause > max(longest / 2, LONG_PAUSE * self.slot)
        }
        return changed or stopped or {rank: why[-1] for rank, why in self.failed.items()}

    @property
    def slot(self) -> float:
        """Seconds of a slot."""
        return self.did["seconds"] / (len(NAMES) * len(STATES) * self.did["rounds"])


def _slot(words: list[str]) -> tuple[int, float, float]:
    """(samples, median and mean in us) of a slot. Raises ParseError."""
    if len(words) != 3:
        raise ParseError(f"a slot of a victim has {' '.join(words)!r}: lines were mixed; rerun")
    median, mean = (positive(word, "a time in us") for word in words[1:])
    return whole(words[0], "a number of samples", 1), median, mean


def _tail(words: list[str]) -> Tail:
    """The tail of a victim. Raises ParseError."""
    if len(words) != 3:
        raise ParseError(f"a tail of a victim has {' '.join(words)!r}: lines were mixed; rerun")
    samples = whole(words[0], "a number of samples", 1)
    if (words[1] == "-") != (samples < LEAST_OF_99):
        raise ParseError(f"{samples} samples have the tail {words[1]!r}: lines were mixed; rerun")
    us_99 = None if words[1] == "-" else positive(words[1], "a quantile")
    return Tail(samples, us_99, positive(words[2], "a worst time"))


def _rates(words: list[str]) -> tuple[float, float]:
    """Gb/s sent and received by a generator. Raises ParseError."""
    if len(words) != 2:
        raise ParseError(f"traffic of a generator is {' '.join(words)!r}: words were lost; rerun")
    rates = real(words[0], "a rate"), real(words[1], "a rate")
    if min(rates) < 0 or max(rates) <= 0:
        raise ParseError(f"a generator had traffic of {' and '.join(words)} Gb/s: rerun")
    return rates


def _pause(words: list[str]) -> float:
    """Seconds. Raises ParseError."""
    if len(words) != 1 or real(words[0], "a pause") < 0:
        raise ParseError(f"a pause is {' '.join(words)!r}: lines were mixed; rerun")
    return float(words[0])


#: First word of a line -> number of words that say what it is of, and reader of the others.
LINES = {
    "victim": (5, _slot),
    "tail": (4, _tail),
    "generator": (4, _rates),
    "pause": (2, _pause),
}


def _parse_line(words: list[str], launch: Launch, rounds: int) -> tuple[tuple, object]:
    """(what a line is of, its values or the reason why there are none). Raises ParseError."""
    kind = words[0]
    count, read = LINES[kind]
    named, values = words[:count], words[count:]
    if not values:
        raise ParseError(f"a line is {' '.join(words)!r}: words were lost; rerun")
    rank = whole(named[1], "a rank")
    if rank >= len(launch.nodes) or not (kind == "pause" or _is_slot(named, launch, rounds)):
        raise ParseError(f"a line is {' '.join(words)!r}, which was not measured: rerun")
    key = kind, rank, *named[2:]
    if values[0] != "failed" or kind in ("tail", "pause"):
        return key, read(values)
    reason = " ".join(values[1:])
    if reason not in REASONS:
        raise ParseError(f"a slot failed for {reason!r}: words were lost; rerun")
    return key, reason


def _is_slot(named: list[str], launch: Launch, rounds: int) -> bool:
    """Whether a line's first words are of a slot, or of the tail of slots."""
    kind, rank, metric, *further = named
    role = "generator" if kind == "generator" else "victim"
    of_rank = "victim" if int(rank) in launch.ranks_of_victims else "generator"
    numbers = further[: 1 - (kind == "tail")]
    states = further[len(numbers) :]
    return (
        role == of_rank
        and metric in NAMES
        and all(number.isdecimal() and int(number) < rounds for number in numbers)
        and set(states) <= set(STATES)
    )


def _victims(text: str, ranks: int, count: int) -> tuple[int, ...]:
    """Ranks of the victims. Raises ParseError."""
    found = tuple(whole(word, "a victim") for word in text.split())
    if len(set(found)) != count or len(found) != count or max(found) >= ranks:
        raise ParseError(f"{count} victims of {ranks} ranks are {text!r}: words were lost; rerun")
    return found


def _keep(launch: Launch, told: dict[tuple, object], rounds: int) -> None:
    """Store what was told of each slot, and why there is nothing of others. Raises ParseError."""
    answering = {key[1] for key in told}
    for rank in range(len(launch.nodes)):
        if rank not in answering:
            launch.failed[rank] = [SILENT]
            continue
        pause = told.get(("pause", rank))
        if not isinstance(pause, float):
            raise ParseError(f"rank {rank} has lost its pause: rerun")
        launch.pauses[rank] = pause
        for metric in NAMES:
            numbers = [str(number) for number in range(rounds)]
            if rank in launch.ranks_of_victims:
                for state in STATES:
                    slots = [told.get(("victim", rank, metric, one, state)) for one in numbers]
                    done = _done(launch, rank, slots)
                    tail = told.get(("tail", rank, metric, state))
                    if bool(done) != isinstance(tail, Tail):
                        raise ParseError(f"victim {rank} has lost its tail of {metric}: rerun")
                    if isinstance(tail, Tail):
                        key = metric, rank, state
                        launch.tails[key] = tail
                        launch.medians[key] = {number: one[1] for number, one in done.items()}
                        launch.means[key] = {number: one[2] for number, one in done.items()}
            else:
                slots = [told.get(("generator", rank, metric, one)) for one in numbers]
                launch.rates.setdefault(rank, []).extend(_done(launch, rank, slots).values())


def _done(launch: Launch, rank: int, slots: list) -> dict[int, tuple]:
    """Round -> values of the slots that were done. Raises ParseError."""
    if None in slots:
        raise ParseError(f"rank {rank} has lost lines of its slots: rerun")
    found = {number: one for number, one in enumerate(slots) if isinstance(one, tuple)}
    reasons = [one for one in slots if isinstance(one, str)]
    if reasons:
        launch.failed.setdefault(rank, []).extend(reasons)
    return found


def _parse_launch(lines: list[str]) -> Launch:
    names = "seconds rounds traffic victims seed bytes"
    facts, given, did, ranks = reported(lines, "congestion", names, ("victims",))
    nodes = hosts_of(facts, ranks)
    count = whole(given["victims"], "the number of victims", 2)
    launch = Launch(nodes, _victims(facts["victims"], ranks, count), facts=facts, did=did)
    rounds = whole(given["rounds"], "the number of rounds", 1)
    backed(len(NAMES) * len(STATES) * ranks * rounds, lines, "congestion")
    told: dict[tuple, object] = {}
    for line in lines:
        words = line.split()
        if words and words[0] in LINES:
            key, found = _parse_line(words, launch, rounds)
            if key in told:
                raise ParseError(f"{line!r} was printed twice: lines were mixed; rerun")
            told[key] = found
    _keep(launch, told, rounds)
    return launch


@bounded
def parse_congestion(text: str) -> list[Launch]:
    """Every launch in the output of ``src/congestion.c``, in order.

    A node that failed is a result. Raises ParseError on truncated or damaged output.
    """
    starts = r"# nearmetal program: congestion"
    return [_parse_launch(lines) for lines in launches_of(text, starts, "congestion")]
