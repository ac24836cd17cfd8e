"""Output of ``src/congestion.c``."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from functools import cached_property

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.output import Form, Launch, Output, each_launch, hosts_of
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
#: Metric, rank and state.
Key = tuple[str, int, str]


@dataclass(frozen=True)
class Slot:
    """What a victim measured in a slot."""

    samples: int
    us_median: float
    us_mean: float


@dataclass(frozen=True)
class Tail:
    """All samples of a victim."""

    samples: int
    #: None: too few samples
    us_99: float | None
    us_worst: float


@dataclass
class Congestion(Launch):
    #: Host of each rank.
    nodes: tuple[str, ...]
    #: Ranks, in the order of the shuffle.
    victims: tuple[int, ...]
    #: By round: median in us, and mean.
    medians: dict[Key, dict[int, float]] = field(default_factory=dict)
    means: dict[Key, dict[int, float]] = field(default_factory=dict)
    tails: dict[Key, Tail] = field(default_factory=dict)
    #: Rank of a generator -> Gb/s sent and received, for each slot that was done.
    rates: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    #: Rank -> its longest pause in seconds.
    pauses: dict[int, float] = field(default_factory=dict)
    #: Rank -> why, for each slot that was not done.
    failed: dict[int, list[str]] = field(default_factory=dict)

    @cached_property
    def ranks_of_victims(self) -> frozenset[int]:
        """The victims, for a look-up whose time does not grow with their number."""
        return frozenset(self.victims)

    def alone_us(self, metric: str) -> dict[int, float]:
        """Victim -> the median over its rounds without traffic."""
        medians = {}
        for rank in self.victims:
            if rounds := self.medians.get((metric, rank, ALONE)):
                medians[rank] = statistics.median(rounds.values())
        return medians

    def ratios(self, metric: str, mean: bool = False) -> dict[int, float]:
        """Victim -> time beside traffic over the time alone: the median over its rounds.

        A slot's time is the median of its samples, or their mean.

        The two slots of a round follow each other, so that drift has no part in their ratio.
        """
        slots = self.means if mean else self.medians
        ratios = {}
        for rank in self.victims:
            alone, beside = (slots.get((metric, rank, state), {}) for state in STATES)
            of_rounds = [beside[number] / alone[number] for number in alone if number in beside]
            if of_rounds:
                ratios[rank] = statistics.median(of_rounds)
        return ratios

    def ratios_99(self, metric: str) -> dict[int, float]:
        """The same of the quantiles of 99 %. {} where a victim has too few samples."""
        ratios = {}
        for rank in self.victims:
            alone, beside = (self.tails.get((metric, rank, state)) for state in STATES)
            if not (alone and beside and alone.us_99 and beside.us_99):
                return {}
            ratios[rank] = beside.us_99 / alone.us_99
        return ratios

    def ratio_worst(self, metric: str) -> float:
        """The longest time beside traffic over the longest one alone, of all victims."""
        worst = dict.fromkeys(STATES, 0.0)
        for (name, _, state), tail in self.tails.items():
            if name == metric:
                worst[state] = max(worst[state], tail.us_worst)
        return worst[TRAFFIC] / worst[ALONE]

    def fewest_samples(self, metric: str) -> int:
        """Samples of the victim and the state with the fewest."""
        fewest = 0
        for (name, _, _), tail in self.tails.items():
            if name == metric:
                fewest = min(fewest or tail.samples, tail.samples)
        return fewest

    def received_gbps(self) -> float:
        """Traffic of all generators together: the median over the slots."""
        slots = zip(*self.rates.values())
        return statistics.median(sum(received for _, received in slot) for slot in slots)

    def silent(self) -> list[int]:
        """Ranks that do not answer."""
        return [rank for rank, reasons in self.failed.items() if SILENT in reasons]

    def undone(self) -> dict[int, str]:
        """Ranks with slots that were not done, and why.

        {} where a rank does not answer: it is to blame. Ranks that had to wait for another one are
        left out: for one that received a changed message, or that the system stopped for a while.
        """
        if self.silent() or not self.failed:
            return {}
        changed = {rank: CHANGED for rank, reasons in self.failed.items() if CHANGED in reasons}
        # Whoever receives a changed message stops, and the others wait for it.
        if changed:
            return changed
        long = max(max(self.pauses.values()) / 2, LONG_PAUSE * self.slot)
        stopped = {}
        for rank, pause in self.pauses.items():
            if pause > long:
                stopped[rank] = f"it stood still for {pause:.2g} s"
        return stopped or {rank: reasons[-1] for rank, reasons in self.failed.items()}

    @property
    def slot(self) -> float:
        """Seconds of a slot."""
        return self.did["seconds"] / (len(NAMES) * len(STATES) * self.did["rounds"])


def _slot(names: list[str], values: list[str]) -> Slot:
    """Raises ParseError."""
    median, mean = numbers.positives(values[1:], "a time in us")
    return Slot(numbers.whole(values[0], "a number of samples", 1), median, mean)


def _tail(names: list[str], values: list[str]) -> Tail:
    """Raises ParseError."""
    samples = numbers.whole(values[0], "a number of samples", 1)
    unknown = values[1] == "-"
    # The program prints a dash where the samples are too few, and only there.
    if unknown != (samples < LEAST_OF_99):
        raise damaged(f"{samples} samples have the tail {values[1]!r}")
    us_99 = None if unknown else numbers.positive(values[1], "a quantile")
    return Tail(samples, us_99, numbers.positive(values[2], "a worst time"))


def _rates(names: list[str], values: list[str]) -> tuple[float, float]:
    """Gb/s sent and received by a generator. Raises ParseError."""
    sent, received = numbers.real(values[0], "a rate"), numbers.real(values[1], "a rate")
    if min(sent, received) < 0 or max(sent, received) <= 0:
        raise damaged(f"a generator had traffic of {' and '.join(values)} Gb/s")
    return sent, received


def _pause(names: list[str], values: list[str]) -> float:
    """Seconds. Raises ParseError."""
    seconds = numbers.real(values[0], "a pause")
    if seconds < 0:
        raise damaged(f"a pause is {values[0]} s")
    return seconds


LINES = {
    "victim": Form(5, 3, _slot),
    "tail": Form(4, 3, _tail, may_fail=False),
    "generator": Form(4, 2, _rates),
    "pause": Form(2, 1, _pause, may_fail=False),
}


@each_launch("congestion")
def parse_congestion(output: Output) -> Congestion:
    """Every launch in the output of ``src/congestion.c``, in order.

    A node that failed is a result. Raises ParseError on truncated or damaged output.
    """
    names = "seconds rounds traffic victims seed bytes"
    facts, words, did = output.on_nodes(names, "victims")
    nodes = hosts_of(facts)
    victims = _victims(
        facts["victims"], len(nodes), numbers.whole(words["victims"], "the victims", 2)
    )
    launch = Congestion(facts, did, nodes, victims)
    rounds = numbers.whole(words["rounds"], "the number of rounds", 1)
    # Before any list of that length is made: digits of a count may be damaged.
    output.expect_lines_for(len(NAMES) * len(STATES) * len(nodes) * rounds)
    results = output.results(LINES, lambda names: _key(names, launch, rounds), REASONS)
    _store(launch, results, rounds)
    return launch


def _victims(text: str, ranks: int, count: int) -> tuple[int, ...]:
    """Ranks of the victims. Raises ParseError."""
    victims = tuple(numbers.wholes(text.split(), "a victim"))
    if len(set(victims)) != count or len(victims) != count or max(victims) >= ranks:
        raise damaged(f"{count} victims of {ranks} ranks are {text!r}")
    return victims


def _key(names: list[str], launch: Congestion, rounds: int) -> tuple | None:
    """Kind, rank, metric, round and state of a line, as far as its kind has them.

    None if it was not measured.
    """
    kind, number, *slot = names
    rank = numbers.whole(number, "a rank")
    if rank >= len(launch.nodes):
        return None
    if kind == "pause":
        return kind, rank
    metric, *further = slot
    if metric not in NAMES or (rank in launch.ranks_of_victims) == (kind == "generator"):
        return None
    if kind != "generator" and further.pop() not in STATES:
        return None
    of_round = numbers.wholes(further, "a round")
    if any(number >= rounds for number in of_round):
        return None
    return kind, rank, metric, *of_round, *slot[1 + len(of_round) :]


def _store(launch: Congestion, results: dict[tuple, object], rounds: int) -> None:
    """Store what was printed of each slot, and why there is nothing of others. Raises
    ParseError."""
    answering = {key[1] for key in results}
    for rank in range(len(launch.nodes)):
        # A rank that prints nothing at all hangs, or its node is down.
        if rank not in answering:
            launch.failed[rank] = [SILENT]
            continue
        pause = results.get(("pause", rank))
        if not isinstance(pause, float):
            raise damaged(f"rank {rank} has lost its pause")
        launch.pauses[rank] = pause
        for metric in NAMES:
            if rank not in launch.ranks_of_victims:
                slots = _slots(results, ("generator", rank, metric), rounds)
                launch.rates.setdefault(rank, []).extend(_done(launch, rank, slots).values())
                continue
            for state in STATES:
                slots = _slots(results, ("victim", rank, metric), rounds, state)
                tail = results.get(("tail", rank, metric, state))
                _store_victim(launch, (metric, rank, state), _done(launch, rank, slots), tail)


def _slots(results: dict[tuple, object], key: tuple, rounds: int, *state: str) -> list:
    """What was printed of each round; None: nothing."""
    return [results.get((*key, number, *state)) for number in range(rounds)]


def _store_victim(launch: Congestion, key: Key, slots: dict[int, Slot], tail: object) -> None:
    if bool(slots) != isinstance(tail, Tail):
        raise damaged(f"victim {key[1]} has lost its tail of {key[0]}")
    if isinstance(tail, Tail):
        launch.tails[key] = tail
        launch.medians[key] = {number: slot.us_median for number, slot in slots.items()}
        launch.means[key] = {number: slot.us_mean for number, slot in slots.items()}


def _done(launch: Congestion, rank: int, slots: list) -> dict:
    """Round -> values of the slots that were done. Raises ParseError."""
    done = {}
    for number, slot in enumerate(slots):
        if slot is None:
            raise damaged(f"rank {rank} has lost lines of its slots")
        if isinstance(slot, str):
            launch.failed.setdefault(rank, []).append(slot)
        else:
            done[number] = slot
    return done
