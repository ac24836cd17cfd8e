"""The ratio of a variable to the native one of the same session, as a variable of its own.

Drift that partitions share, such as that of the host or of a cooler day, cancels in it. Each sample
is divided by the median of the native samples.
"""

from __future__ import annotations

import statistics
from dataclasses import replace

from nearmetal.results import Case, Session, Value, base_first

SUFFIX = "_over_native"
#: Unit by whether lower is better.
UNITS = {True: "x native time", False: "x native rate"}


def is_ratio(variable: str) -> bool:
    return variable.endswith(SUFFIX)


def with_ratios(session: Session) -> Session:
    """The session with the ratios of all cases whose native counterpart it measured, undisturbed.

    Cases of `--distribute`, of `-P` and of duets have none.
    """
    native = _native(session)
    if not native:
        return session
    cases = []
    for case in session.cases:
        if native.counterpart_of(case):
            case = replace(case, values=(*own_values(case), *_ratios(case, native)))
        cases.append(case)
    return replace(session, cases=tuple(cases))


class _Native:
    """The native cases of a session."""

    def __init__(self, partition: str, cases: dict[tuple[str, str], Case]):
        self.partition, self.cases = partition, cases

    def counterpart_of(self, case: Case) -> bool:
        """Whether the case may have ratios to a native one."""
        return case.measured and _has_ratios(case) and case.partition != self.partition

    def median(self, value: Value) -> float | None:
        """The median of the native counterpart's samples; None without one."""
        case = self.cases.get((value.check, value.environ))
        native = case and case.value(value.variable)
        if not native or native.unit != value.unit or not native.samples:
            return None
        median = statistics.median(native.samples)
        if median <= 0:
            return None
        return median


def _native(session: Session) -> _Native | None:
    """None if no case of the native partition is usable. Another one never stands in for it."""
    eligible = list(filter(_has_ratios, session.cases))
    if not eligible:
        return None
    partition = base_first(session, (case.partition for case in eligible))[0]
    cases, is_native = {}, partition == "native"
    for case in eligible:
        if case.partition == partition and case.counts:
            cases[case.check, case.environ] = case
            is_native = is_native or case.link_class == "native"
    if not is_native or not cases:
        return None
    return _Native(partition, cases)


def _has_ratios(case: Case) -> bool:
    return not (case.node or case.varied or case.duet)


def _ratios(case: Case, native: _Native) -> list[Value]:
    """The ratios of a case's values, as values."""
    ratios = []
    for value in own_values(case):
        median = native.median(value)
        if median is None or not value.samples or value.lower_is_better is None:
            continue
        samples = tuple(sample / median for sample in value.samples)
        ratio = replace(
            value,
            variable=value.variable + SUFFIX,
            value=statistics.median(samples),
            unit=UNITS[value.lower_is_better],
            samples=samples,
            within=(),
        )
        ratios.append(ratio)
    return ratios


def own_values(case: Case) -> list[Value]:
    """The case's values without ratios, which a judged session has already."""
    return [value for value in case.values if not is_ratio(value.variable)]


def plain(variable: str) -> str:
    """The variable that a ratio is of."""
    return variable.removesuffix(SUFFIX)


def native_partition(session: Session) -> str:
    """The partition that ratios are to; '' if there are none."""
    native = _native(session)
    if native is None:
        return ""
    return native.partition


def fresh_ratios(
    session: Session, where: tuple[str, str, str], samples: dict[str, list[float]]
) -> dict[str, list[float]]:
    """The ratios of fresh samples of a case to the session's native median."""
    native = _native(session)
    case = session.by_where.get(where)
    ratios: dict[str, list[float]] = {}
    if not native or not case or not native.counterpart_of(case):
        return ratios
    for value in case.values:
        median = native.median(value)
        if median is not None and value.variable in samples:
            fresh = samples[value.variable]
            ratios[value.variable + SUFFIX] = [sample / median for sample in fresh]
    return ratios
