"""Which nodes, switches and links of a fleet are slower than the rest. Pure functions.

The fleet is its own reference: most of its nodes, switches and links are taken for healthy. What is
found is a suspect until it is measured again beside healthy ones (`again`).

The error of a session's sweeps, plan.CAMPAIGN_ERROR, is shared equally among their matrices
(`findings.error_of`). That of a matrix is shared equally among switches, nodes and links, and
within each kind among all that are tested (Bonferroni).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.fleet.model import Fit, median, some
from nearmetal.fleet.repeats import Repeats
from nearmetal.stats.plan import CAMPAIGN_ERROR, THRESHOLD
from nearmetal.stats.ranks import QN_EFFICIENCY, SPREAD_EFFICIENCY, qn, spread

#: Standard error of a median relative to that of a mean, for normal noise.
MEDIAN_ERROR = math.sqrt(math.pi / 2)
#: Least part of a switch's nodes that are slow where the switch is to blame.
MOST_OF_A_SWITCH = 0.75
#: Least part by which a link is slow: less is the noise of single links, whose tail is not known.
LEAST_OF_A_LINK = 0.10
#: Least standard error: where most values are equal, the noise seems to be 0.
LEAST_ERROR = 1e-6
#: Number of effects above which the median deviation tells their spread, and not that of pairs.
MANY = 512
#: Fewest members of a majority.
LEAST = 3
#: Number of the quickest or of the slowest links that show the tail of the noise.
EXTREMES = 20
#: Power of the heaviest tail. Medians of three values whose tail falls with the third have 6 far
#: out, and less where hundreds of links reach (`make bench-fleet`: "heavy tails").
TAIL = 5.5
#: Part of the links that show the tail of noise that only slows, from EXTREMES to this number.
TAIL_PART, MOST_OF_TAIL = 0.1, 300
#: Largest excess of a link that counts there, in medians: a faulty link must not hide itself.
MOST_EXCESS = 4.0
OUT, INTO, BOTH = "out", "in", "both"


@dataclass(frozen=True)
class Suspect:
    """What is slower than the rest of the fleet."""

    #: switch, path (that some nodes share, of no known switch), node, link
    kind: str
    #: Those behind the switch or path; the node; the link's two ends.
    nodes: tuple[int, ...]
    #: Of the messages, as the nodes see it: OUT, INTO or BOTH; "": of no message.
    direction: str
    #: How much slower than the fleet's median, as a fraction of its time.
    change: float
    #: One-sided p-value, before the error is shared.
    p: float


@dataclass(frozen=True)
class Effects:
    """What nodes add to the times of messages of one direction, or of a metric."""

    #: (n,) logarithms; NaN: not known
    values: np.ndarray
    #: (n,) standard errors by the noise alone
    errors: np.ndarray


def sending(fit: Fit) -> Effects:
    """What nodes add to the messages that they send."""
    return Effects(fit.out, errors(fit))


def receiving(fit: Fit) -> Effects:
    """What nodes add to the messages that they receive."""
    return Effects(fit.into, errors(fit, axis=0))


def natural_variance(effects: np.ndarray, errors: np.ndarray) -> float:
    """Variance by which healthy ones differ by nature: that of the effects beyond their errors."""
    known = np.isfinite(effects) & np.isfinite(errors)
    noise = float(np.median(np.square(errors[known])))
    return max(0.0, scale(effects[known])[0] ** 2 - noise)


def scale(effects: np.ndarray) -> tuple[float, float]:
    """Robust standard deviation of effects, (n,), and its degrees of freedom."""
    if len(effects) > MANY:
        return float(spread(effects)), SPREAD_EFFICIENCY * (len(effects) - 1)
    return qn(effects), QN_EFFICIENCY * (len(effects) - 1)


def p_values(effects: np.ndarray, errors: np.ndarray, freedom: float) -> np.ndarray:
    """One-sided p-values of effects that are larger than those of the majority, (n,).

    What healthy ones differ by nature counts as noise (`natural_variance`). It is uncertain even
    where it seems to be nothing: the fewer effects, the more.

    :arg effects: (n,) logarithms, 0 for the majority; NaN: not known, with the p-value 1.
    :arg errors: (n,) standard errors, by the noise alone.
    :arg freedom: degrees of freedom of the errors.
    """
    p = np.ones(len(effects))
    known = np.isfinite(effects) & np.isfinite(errors)
    if known.sum() < LEAST:
        return p
    noise = np.square(np.maximum(errors[known], LEAST_ERROR))
    variance = noise + natural_variance(effects, errors)
    whole, own = scale(effects[known])
    # Satterthwaite, An approximate distribution of estimates of variance components, 1946.
    degrees = np.square(variance) / (whole**4 / own + np.square(noise) / freedom)
    p[known] = special.stdtr(degrees, -effects[known] / np.sqrt(variance))
    return p


def slow(effects: np.ndarray, p: np.ndarray, error: float) -> np.ndarray:
    """Which effects, (n,), are slow: significant at their share of the error, and not small."""
    known = np.isfinite(effects)
    return known & (p <= error / max(1, known.sum())) & (effects > math.log1p(THRESHOLD))


def of_links(
    fit: Fit,
    switches: Sequence[np.ndarray] = (),
    each_way: bool = True,
    error: float = CAMPAIGN_ERROR,
) -> list[Suspect]:
    """Slow switches, nodes and links of a matrix, the slowest first.

    A switch stands for its nodes where most of them are slow, and a node for its links.

    :arg switches: numbers of the nodes behind each switch, as far as they are known.
    :arg each_way: whether the two directions of a link were measured apart.
    :arg error: chance that anything healthy is called slow.
    """
    # Switches, nodes and links are tested apart.
    share = error / (3 if switches else 2)
    suspects: list[Suspect] = []
    if each_way:
        suspects += _of_a_way(OUT, sending(fit), fit, switches, share / 2)
        suspects += _of_a_way(INTO, receiving(fit), fit, switches, share / 2)
    else:
        suspects += _of_a_way(BOTH, sending(fit), fit, switches, share)
    suspects = _with_paths(_both_ways(suspects), fit)
    # Links of slow nodes are slow with them.
    named = {node for suspect in suspects for node in suspect.nodes}
    return _slowest_first(suspects + _links(fit, named, share, each_way))


def _slowest_first(suspects: Iterable[Suspect]) -> list[Suspect]:
    return sorted(suspects, key=lambda suspect: -suspect.change)


def of_nodes(effects: np.ndarray, repeats: Repeats, error: float) -> list[Suspect]:
    """Nodes that are slow by themselves, the slowest first.

    A node must be beyond what all nodes differ by (Qn), and beyond the noise of repeats that only
    slows (`Repeats.reach`). Of a single repeat, the quickest nodes show how far noise reaches.

    :arg effects: (n,) logarithms of times, 0 for the majority; NaN: not known.
    :arg error: chance that a healthy node is called slow.
    """
    known = np.isfinite(effects)
    count = int(known.sum())
    if count < LEAST:
        return []
    reach = repeats.reach(error / count)
    # One repeat shows no noise.
    reach = np.where(np.isnan(reach), _reach(-effects[effects < 0], error), reach)
    p = np.ones(len(effects))
    # The largest of n values in their own Qn: its quantiles are those of t, by simulation.
    whole = max(scale(effects[known])[0], LEAST_ERROR)
    p[known] = special.stdtr(count - 1.0, -effects[known] / whole)
    is_slow = slow(effects, p, error) & (effects > reach)
    return _slowest_first(_nodes("", effects, p, is_slow))


def _nodes(
    direction: str, effects: np.ndarray, p: np.ndarray, is_slow: np.ndarray
) -> list[Suspect]:
    """A suspect for each slow node."""
    suspects = []
    for node in map(int, np.flatnonzero(is_slow)):
        change = math.expm1(effects[node])
        suspects.append(Suspect("node", (node,), direction, change, float(p[node])))
    return suspects


def errors(fit: Fit, axis: int = 1) -> np.ndarray:
    """Standard errors of `fit.out` (axis 1) or `fit.into` (axis 0) by the noise alone, (n,)."""
    return MEDIAN_ERROR * fit.noise[0] / np.sqrt(np.maximum(fit.counts(axis), 1))


def _of_a_way(
    direction: str, way: Effects, fit: Fit, switches: Sequence[np.ndarray], error: float
) -> list[Suspect]:
    """Slow switches, and slow nodes beside the others of their switch."""
    _, freedom = fit.noise
    effects, suspects = way.values.copy(), []
    if switches:
        middle = np.array([median(effects[nodes]) for nodes in switches])
        p = p_values(middle, _errors_of_switches(way, middle, switches), freedom)
        for place in np.flatnonzero(slow(middle, p, error)):
            nodes, shift = switches[place], middle[place]
            if len(nodes) > 1 and np.mean(effects[nodes] > shift / 2) >= MOST_OF_A_SWITCH:
                members = tuple(map(int, nodes))
                change = math.expm1(shift)
                suspects.append(Suspect("switch", members, direction, change, float(p[place])))
                # Its nodes are judged beside each other from now on.
                effects[nodes] -= shift
    p = p_values(effects, way.errors, freedom)
    return suspects + _nodes(direction, effects, p, slow(effects, p, error))


def _errors_of_switches(
    way: Effects, middle: np.ndarray, switches: Sequence[np.ndarray]
) -> np.ndarray:
    """Standard errors of the switches' medians: by the noise, and by what their nodes differ."""
    beside, noise = [], []
    for nodes, own in zip(switches, middle):
        beside.append(way.values[nodes] - own)
        noise.append(median(way.errors[nodes]))
    single = np.maximum(noise, _spread(np.concatenate(beside)))
    return MEDIAN_ERROR * single / np.sqrt(list(map(len, switches)))


def _both_ways(suspects: Iterable[Suspect]) -> list[Suspect]:
    """The suspects; one that is slow in both directions is named once."""
    merged: dict[tuple, Suspect] = {}
    for suspect in suspects:
        back = suspect.nodes
        # The way back of a link has its ends in the other order.
        if suspect.kind == "link":
            back = back[::-1]
        other = merged.get((suspect.kind, back))
        if other is None:
            merged[suspect.kind, suspect.nodes] = suspect
        else:
            change, p = max(suspect.change, other.change), min(suspect.p, other.p)
            merged[suspect.kind, back] = replace(other, direction=BOTH, change=change, p=p)
    return list(merged.values())


def _with_paths(suspects: list[Suspect], fit: Fit) -> list[Suspect]:
    """The suspects; slow nodes that are quick between themselves share a slow path."""
    kept: list[Suspect] = []
    groups: list[list[Suspect]] = []
    for suspect in suspects:
        if suspect.kind != "node":
            kept.append(suspect)
            continue
        joined, others = [suspect], []
        for group in groups:
            if any(_quick(suspect, member, fit) for member in group):
                joined += group
            else:
                others.append(group)
        groups = [*others, joined]
    for group in groups:
        kept.append(group[0] if len(group) == 1 else _path(group))
    return kept


def _path(group: list[Suspect]) -> Suspect:
    """The path that slow nodes share."""
    nodes = sorted(suspect.nodes[0] for suspect in group)
    change = float(np.median([suspect.change for suspect in group]))
    p = min(suspect.p for suspect in group)
    return Suspect("path", tuple(nodes), group[0].direction, change, p)


def _quick(first: Suspect, second: Suspect, fit: Fit) -> bool:
    """Whether the two nodes are not slow between themselves, although each is slow to others."""
    if first.direction != second.direction:
        return False
    i, j = first.nodes[0], second.nodes[0]
    there = fit.out[i] + fit.into[j] + fit.residual[i, j]
    back = fit.out[j] + fit.into[i] + fit.residual[j, i]
    # fmax is NaN only where both are, and a comparison with NaN is false.
    return bool(np.fmax(there, back) < math.log1p(min(first.change, second.change)) / 2)


def _links(fit: Fit, named: set[int], error: float, each_way: bool) -> list[Suspect]:
    """Slow links between nodes that have no name yet.

    A link must be beyond the noise, as far as the quickest links show its reach (`_reach`), and as
    far as the slow ones do (`slow_reach`): other traffic slows a link, and never makes it quicker.
    """
    noise, freedom = fit.noise
    residual = fit.residual
    if named:
        residual = residual.copy()
        residual[sorted(named), :] = residual[:, sorted(named)] = np.nan
    count = int(np.isfinite(residual).sum())
    if count < LEAST:
        return []
    shown = some(residual)
    part = round(TAIL_PART * np.isfinite(shown).sum())
    tail = min(max(EXTREMES, part), MOST_OF_TAIL)
    limit = max(
        -float(special.stdtrit(freedom, error / count)) * noise,
        _reach(-residual[residual < 0], error),
        slow_reach(shown, error / count, tail, MOST_EXCESS),
        math.log1p(LEAST_OF_A_LINK),
    )
    direction = OUT if each_way else BOTH
    suspects = []
    for sender, receiver in np.argwhere(residual > limit):
        shift = float(residual[sender, receiver])
        p = float(special.stdtr(freedom, -shift / max(noise, LEAST_ERROR)))
        ends = (int(sender), int(receiver))
        suspects.append(Suspect("link", ends, direction, math.expm1(shift), p))
    return _both_ways(suspects)


def slow_reach(values: np.ndarray, chance: float, tail: int, most: float = 0.0) -> float:
    """What a single value exceeds with this chance, by the slowest of these.

    Their tail is taken for exponential, with the scale of their mean excess (Pickands, Statistical
    inference using extreme order statistics, Annals of Statistics 3, 1975).

    :arg tail: number of the slowest values.
    :arg most: largest excess that counts, in medians of all excesses; 0: any counts.
    """
    known = values[np.isfinite(values)].astype(float)
    tail = min(tail, len(known) // 2)
    if not tail:
        return 0.0
    slowest = np.partition(known, -tail - 1)[-tail - 1 :]
    start = slowest[0]
    excess = slowest[1:] - start
    if most:
        excess = np.minimum(excess, most * np.median(excess))
    return float(start + excess.mean() * max(0.0, math.log(tail / len(known) / chance)))


def _reach(quick: np.ndarray, error: float) -> float:
    """What the largest of as many values exceeds with this chance, by the tail of these, (n,).

    The smaller one of two: by a tail that falls with the power TAIL, from the largest value; and
    by the tail of the largest ones (Weissman, Estimation of parameters and large quantiles based on
    the k largest observations, JASA 73, 1978).
    """
    if len(quick) <= EXTREMES:
        return float(quick.max(initial=0.0)) * error ** (-1 / TAIL)
    largest = np.partition(quick, len(quick) - EXTREMES - 1)[-EXTREMES - 1 :].astype(float)
    least, most = largest.min(), largest.max()
    if not least:
        return 0.0
    index = float(np.log(largest / least).sum()) / EXTREMES
    index *= 1 + 0.5 / math.sqrt(EXTREMES)  # half of its standard error: the smaller one is taken
    return min(most * error ** (-1 / TAIL), least * (EXTREMES / error) ** index)


def _spread(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0
    return float(spread(known))
