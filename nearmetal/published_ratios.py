"""Published ratios, such as overheads over bare metal, beside those of a session.

Pure functions. A ratio of the session is one of medians, between two of its cases.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nearmetal import published
from nearmetal.published import Figure
from nearmetal.results import Case, Session, Value, base_first, parameters


def _time_ratio(value: Value, base: Value) -> float:
    """Time over the base's time, of times or of rates."""
    if value.lower_is_better:
        return value.value / base.value
    return base.value / value.value


#: What a figure's variable says of two values of one quantity: its name -> function of both. Groups
#: name the quantity; without one, it is the time or rate of the program.
KINDS: tuple[tuple[str, Callable[[Value, Value], float]], ...] = (
    ("elapsed_ratio", _time_ratio),
    ("overhead", lambda value, base: 100 * (_time_ratio(value, base) - 1)),
    ("speedup", lambda value, base: 1 / _time_ratio(value, base)),
    ("(parallel_efficiency)_loss", lambda value, base: base.value - value.value),
    ("(latency)_overhead", lambda value, base: 100 * (value.value / base.value - 1)),
    (r"(\w+)_overhead", lambda value, base: value.value - base.value),
    (r"(\w+)_gain", lambda value, base: 100 * (value.value / base.value - 1)),
    (r"(\w+)_ratio", lambda value, base: value.value / base.value),
)
#: The session's name of a quantity, where the figures have another.
NAMES = {"parallel_efficiency": "efficiency", "latency": "startup_latency"}
PROCESSES = re.compile(r"(\d+) processes")
#: What a figure of a cluster that is no other's ratio is relative to.
WHOLE = "theoretical peak"


@dataclass(frozen=True)
class Here:
    """A session's own ratio."""

    place: str
    environ: str
    variable: str
    value: float  #: in the figure's unit


@dataclass(frozen=True)
class Beside:
    """A published ratio, and those of the session that it may be read beside."""

    figure: Figure
    here: tuple[Here, ...]


def beside(session: Session | None, figures: Iterable[Figure]) -> list[Beside]:
    """The published ratios of the checks that a session measured, each with the session's own.

    A figure whose ratio the session cannot show, such as one of two settings of a hypervisor, has
    none.
    """
    cases = [case for case in session.cases if case.measured] if session else []
    checks = {_check(case) for case in cases}
    return [
        Beside(figure, tuple(_here(figure, session, cases)))
        for figure in figures
        if figure.relative_to is not None and figure.check in checks and session
    ]


def _check(case: Case) -> str:
    return case.check.split(" ", 1)[0]


def _here(figure: Figure, session: Session, cases: list[Case]) -> Iterable[Here]:
    own = [case for case in cases if _check(case) == figure.check and not case.disturbed]
    if figure.relative_to == WHOLE:
        for case in own:
            for value in case.values:
                if value.variable == figure.variable:
                    yield Here(case.place, case.environ, value.variable, value.value)
        return
    kind = next(
        ((found, ratio) for name, ratio in KINDS if (found := re.fullmatch(name, figure.variable))),
        None,
    )
    if kind is None:
        return
    match, ratio = kind
    quantity = NAMES.get(match[1], match[1]) if match.re.groups else None
    for case, other, processes in _counterparts(figure, session, own):
        for value in case.values:
            base = _base(value, other, processes)
            if base is None or not _same(figure, case, value, quantity) or base.value <= 0:
                continue
            yield Here(case.place, case.environ, value.variable, ratio(value, base))


def _counterparts(
    figure: Figure, session: Session, cases: list[Case]
) -> Iterable[tuple[Case, Case, str]]:
    """Cases, and those that a figure's ratio has them compared with; processes of the latter."""
    relative = str(figure.relative_to)
    link_class = relative.rsplit(maxsplit=1)[-1]
    of_native = figure.partition == "native"
    for case in cases:
        if found := PROCESSES.fullmatch(relative):
            yield case, case, found[1]
        elif relative == "small pages" and parameters(case.check).get("page_size") == "large":
            for other in cases:
                small = parameters(other.check).get("page_size") == "small"
                if small and (other.place, other.environ) == (case.place, case.environ):
                    yield case, other, ""
        elif link_class in ("native", "passthrough"):
            for other in cases:
                same = (other.check, other.environ) == (case.check, case.environ)
                fits = _is(session, other, link_class) and _is(session, case, "native") == of_native
                if same and other.place != case.place and fits:
                    yield case, other, ""


def _is(session: Session, case: Case, link_class: str) -> bool:
    """Whether a case ran on a partition of this class."""
    if case.link_class:
        return case.link_class == link_class
    first = base_first(session, (one.partition for one in session.cases))[0]
    return case.partition == link_class or (link_class == "native" and case.partition == first)


def _base(value: Value, other: Case, processes: str) -> Value | None:
    """The other case's value of the variable, or of the same one with these processes."""
    name = value.variable
    if processes:
        name = re.sub(r"_\d+(x\d+)?$", f"_{processes}", name)
    return next(
        (one for one in other.values if (one.variable, one.unit) == (name, value.unit)), None
    )


def _same(figure: Figure, case: Case, value: Value, quantity: str | None) -> bool:
    """Whether a variable is of the figure's quantity and workload."""
    name, _, known = published.workload(
        figure.check, parameters(case.check), value.variable, case.workload
    )
    if quantity is None:
        if name == "efficiency" or "processes" not in known:
            return False
    elif name != quantity:
        return False
    given = {key: one for key, one in figure.parameters.items() if key in published.WORKLOAD}
    return all(str(one).lower() == str(known.get(key)).lower() for key, one in given.items())
