"""One test case from the JSON that ReFrame stores. A wrong type or a contradiction is an error."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping

import orjson

from nearmetal.model import metrics, naming
from nearmetal.model.facts import DIFFERENCES, NODES
from nearmetal.results.session import FACTS, XFAIL, XPASS, Case, Cause, Disturbed, Value
from nearmetal.util import sanitize, typed_json
from nearmetal.util.typed_json import ShapeError

#: Reason of a failure that ReFrame gives no reason for, by result.
FAILED = {"fail_deps": "a dependency failed"}
#: Numbers of a case: ReFrame's name and the name in published figures (published.py).
WORKLOAD = {
    "num_tasks": "processes",
    "num_nodes": "nodes",
    "num_tasks_per_node": "processes_per_node",
    "megabytes": "megabytes",
}
#: Beginning of ReFrame's reason for a case that passes, though it is expected to fail. Its result
#: is `fail`.
UNEXPECTED = "unexpected success error: "
#: ReFrame's results of a case.
OUTCOMES = ("pass", "fail", "xfail", "xpass", "abort", "skip", "fail_deps", "<unknown>")

#: Variables that had another name: check and name then, name and unit now.
RENAMED = {("hpcc", "hpl_share"): ("hpl_of_dgemm", "% of DGEMM")}
#: Types of a cause: rule, value and text.
CAUSES = ((str, int, str), (str, float, str))
#: A value is the median of its samples: to six significant digits, or as Python computes it.
DIGITS, EXACT = 6, 1e-9
#: Display name, partition, environment and ReFrame's unique name of a test case. Two tests of one
#: display name differ in the last one, which versions before 4.0 lack.
Identity = tuple[str, str, str, str]


class Outcome:
    """A test case as ReFrame stores it after a run. Its readers raise ShapeError."""

    def __init__(self, data: Mapping, place: str):
        self.data, self.place = data, place
        has_facts, has_samples = type(data.get("facts")) is dict, type(data.get("samples")) is dict
        #: Whether a check of others stored it, or one of ours. One of both objects alone is damage.
        self.foreign = not (has_facts or has_samples)
        self.ours = has_facts and has_samples

    def at(self, key: str) -> str:
        """The place of a key, for errors."""
        return f"{self.place}.{key}"

    def expect_names(self) -> None:
        """Raise ShapeError unless the case has its names and an outcome."""
        for key in ("display_name", "name", "partition", "environ", "system"):
            typed_json.name(self.data, key, self.place)
        result = self.data.get("result")
        if result not in OUTCOMES:
            raise typed_json.wrong(self.at("result"), "an outcome of a case", result)

    @property
    def is_passed_fixture(self) -> bool:
        return bool(self.data.get("fixture")) and self.data["result"] == "pass"

    @property
    def identity(self) -> Identity:
        unique = self.data.get("unique_name")
        if not isinstance(unique, str):
            unique = ""
        place = self.data["display_name"], self.data["partition"], self.data["environ"]
        return (*place, unique)

    def is_absent(self, key: str) -> bool:
        """Whether ReFrame stored nothing: older versions, or a test that did not get so far."""
        return self.data.get(key) in (None, typed_json.UNDEFINED)

    def name(self, key: str) -> str:
        return sanitize.name(typed_json.name(self.data, key, self.place))

    def text(self, key: str) -> str:
        """A text; '' if it is absent."""
        return typed_json.text(self.data, key, self.place, "")

    def line(self, key: str) -> str:
        return sanitize.line(self.text(key))

    def lines(self, key: str) -> tuple[str, ...]:
        """A list of texts that our base check stores; () if it is absent."""
        if self.is_absent(key):
            return ()
        return tuple(map(sanitize.line, typed_json.texts(self.data, key, self.place)))

    def object(self, key: str) -> Mapping:
        """An object that our base check stores; {} in other checks, which may use the same name."""
        stored = self.data.get(key)
        if type(stored) is dict:
            return stored
        if self.foreign or (self.ours and self.is_absent(key)):
            return {}
        wanted = "an object"
        if not self.ours:
            wanted += ", though the case has facts or samples"
        raise typed_json.wrong(self.at(key), wanted, stored)

    def case(self) -> Case:
        name = naming.parse(self.name("display_name"))
        values: tuple[Value, ...] = ()
        curves: dict[str, dict[int, tuple[float, ...]]] = {}
        evidence: tuple[dict[str, float], ...] = ()
        failure, phase = self._failure()
        try:
            values = self._values(name)
            curves = self._curves()
            evidence = self._evidence()
        except typed_json.OddValueError as error:
            # Other cases are whole. Of this one, nobody knows what else is wrong.
            values, phase = (), None
            odd = f"{error}. Fix: let the check give a finite number"
            failure = "; ".join(filter(None, [odd, failure]))
        workload = {}
        for key, ours in WORKLOAD.items():
            if number := typed_json.number(self.data, key, self.place, 0):
                workload[ours] = number
        parameters = {}
        for key, text in naming.parameters(name.check).items():
            parameters[key] = self.data.get(key, text)
        return Case(
            check=name.check,
            partition=self.name("partition"),
            environ=self.name("environ"),
            values=values,
            facts=self._facts(),
            curves=curves,
            failure=failure and (sanitize.text(failure) or self.data["result"]),
            phase=phase,
            xfail=self._xfail(name.check),
            parameters=sanitize.every(parameters),
            no_baseline=self._no_baseline(),
            ended=typed_json.number(self.data, "job_completion_time_unix", self.place, 0.0),
            fixture=bool(self.data.get("fixture")),
            unreferenced=self.lines("unreferenced"),
            unexpected=self.lines("unexpected"),
            workload=workload,
            node=name.node,
            link_class=self.line("link_class"),
            disturbances=self._disturbances(),
            evidence=evidence,
            unknown_evidence=self.lines("unknown_evidence"),
            foreign=self.foreign,
            links=dict(self.object("links")),
            node_values=dict(self.object("node_values")),
            congestion=dict(self.object("congestion")),
        )

    def _failure(self) -> tuple[str | None, str | None]:
        """Reason and phase of the failure; None if it passed, or failed as expected."""
        result = self.data["result"]
        if result in ("pass", XFAIL):
            return None, None
        reason = self.text("fail_reason")
        if result == XPASS or reason.startswith(UNEXPECTED):
            reason = (
                f"{XPASS}: it passed, though it is expected to fail: "
                f"{reason.removeprefix(UNEXPECTED)}. Fix: end its xfail"
            )
        return reason or FAILED.get(result, result), self.line("fail_phase") or None

    def _xfail(self, check: str) -> str:
        """The reason of an expected failure; '' for any other outcome."""
        if self.data["result"] != XFAIL:
            return ""
        if reason := self.line("fail_reason"):
            return reason
        file = self.line("filename") or "its file"
        return (
            f"it failed as expected. ReFrame stores no reason: see the xfail of {check} in {file}"
        )

    def _facts(self) -> dict[str, str]:
        named = {}
        for key in FACTS:
            fact = self.data.get(key)
            # Attributes of these names in a check of others are its own.
            if fact and (type(fact) is str or not self.foreign):
                named[key] = fact
        try:
            return _facts(orjson.dumps({**self._nodes(), **self.object("facts"), **named}))
        except ShapeError as error:
            raise ShapeError(f"{self.at('facts')}{error}") from None

    def _nodes(self) -> dict[str, list[str]]:
        """The fact `nodes` of a check of others: the nodes of its job; {} if unknown."""
        nodes = self.data.get("job_nodelist")
        if not self.foreign or type(nodes) is not list or not nodes:
            return {}
        return {NODES: [node for node in nodes if type(node) is str]}

    def _no_baseline(self) -> str:
        """The check's reason for having no reference; "" if only the partition gives one."""
        of_check = self.data.get("no_baseline_of") == "check"
        # Older versions did not store who gave the reason. At that time, only duets gave one.
        if "no_baseline_of" not in self.data:
            of_check = "duet" in self.object("facts")
        return self.line("no_baseline") if of_check else ""

    def _disturbances(self) -> tuple[Disturbed, ...]:
        """Disturbed repeats, from lists of a number, whether it ran again, and causes."""
        if self.is_absent("disturbed"):
            return ()
        place = self.at("disturbed")
        repeats = []
        for number, stored in enumerate(typed_json.sequence(self.data["disturbed"], place)):
            here = f"{place}.{number}"
            parts = list(typed_json.sequence(stored, here))
            if list(map(type, parts[:2])) != [int, bool]:
                raise typed_json.wrong(here, "a repeat, whether it ran again, and causes", stored)
            repeat, again, *causes = parts
            repeats.append(Disturbed(repeat, again, tuple(_cause(why, here) for why in causes)))
        return tuple(repeats)

    def _evidence(self) -> tuple[dict[str, float], ...]:
        """The quantities of each repeat, from a list by quantity."""
        if self.foreign:
            return ()  # a check of others, whose `evidence` is its own
        columns = {}
        for name, values in self.object("evidence").items():
            here = f"{self.at('evidence')}.{name}"
            known = [value for value in typed_json.sequence(values, here) if value is not None]
            typed_json.numbers(known, here)
            columns[sanitize.name(name)] = values
        if len(set(map(len, columns.values()))) > 1:
            evidence = self.data["evidence"]
            raise typed_json.wrong(self.at("evidence"), "one value of each repeat", evidence)
        repeats = []
        for row in zip(*columns.values()):
            repeats.append({name: value for name, value in zip(columns, row) if value is not None})
        return tuple(repeats)

    def _curves(self) -> dict[str, dict[int, tuple[float, ...]]]:
        """Samples by message size."""
        curves = {}
        for name, curve in self.object("curves").items():
            curves[name] = typed_json.curve(curve, f"{self.at('curves')}.{name}")
        return curves

    def _values(self, name: naming.Name) -> tuple[Value, ...]:
        """The performance variables. Raises ShapeError if one contradicts its samples."""
        values = []
        all_samples = self.object("samples")
        unmeasured = set(map(sanitize.name, all_samples))
        for key, entry in typed_json.items(self.data, "perfvalues", self.place):
            value = self._value(name, key, entry)
            if value is not None:
                values.append(value)
                unmeasured.discard(sanitize.name(_variable(key)))
        _refuse_values_beside_their_samples(values, self.place)
        if unmeasured and self.data["result"] == "pass":
            names = ", ".join(sorted(unmeasured))
            raise ShapeError(f"{self.at('perfvalues')} lacks {names}, which has samples")
        return tuple(values)

    def _value(self, name: naming.Name, key: str, entry) -> Value | None:
        """One performance variable; None if the case failed before it had a value."""
        here = f"{self.at('perfvalues')}.{key}"
        # ReFrame before 4.9 stores five: value, reference, bounds and unit.
        if type(entry) is not list or len(entry) not in (5, 6):
            raise typed_json.wrong(here, "a list of five or six", entry)
        value, unit, variable = entry[0], entry[4], _variable(key)
        if value is None and self.data["result"] != "pass":
            return None
        if value is not None and typed_json.is_odd(value):
            raise typed_json.odd(f"{here}.0", value)
        # A null is left here where the case passed.
        if type(value) not in typed_json.NUMBERS:
            raise typed_json.wrong(f"{here}.0", "a number", value)
        if type(unit) is not str:
            raise typed_json.wrong(f"{here}.4", "a unit", unit)
        stored = self.object("samples").get(variable, [])
        samples = typed_json.numbers(stored, f"{self.at('samples')}.{variable}")
        all_within = self.object("within")
        within: tuple[tuple[float, ...], ...] = ()
        if variable in all_within:
            within = typed_json.rows(all_within[variable], f"{self.at('within')}.{variable}")
        # A check of others has one value a run, without samples.
        if not samples and self.foreign:
            samples = (value,)  # one launch
        renamed = RENAMED.get((naming.base_name(name.check), variable), (variable, unit))
        expected = ""
        if entry[5:] in ([XFAIL], [XPASS]):
            expected = entry[5]
        return Value(
            check=name.check,
            environ=self.name("environ"),
            partition=self.name("partition"),
            variable=sanitize.name(renamed[0]),
            value=value,
            unit=sanitize.name(renamed[1]),
            samples=samples,
            within=within,
            node=name.node,
            better=metrics.of_bounds(*entry[2:4]),
            expected=expected,
        )

    def selection(self) -> dict:
        """The requested selection, as site/selection.py recorded it; {} if it is not stored."""
        stored = self.data.get("selection")
        if self.foreign or not stored or self.is_absent("selection"):
            return {}
        place = self.at("selection")
        typed_json.mapping(stored, place)
        return {
            "system": typed_json.text(stored, "system", place, ""),
            "database": typed_json.text(stored, "database", place, ""),
            "environs": typed_json.texts(stored, "environs", place),
            "paths": typed_json.texts(stored, "paths", place),
        }


def _variable(key: str) -> str:
    """The variable of a key SYSTEM:PARTITION:VARIABLE; the variable may hold colons."""
    return key.split(":", 2)[-1]


def _cause(stored: object, place: str) -> Cause:
    """Raises ShapeError."""
    if not isinstance(stored, list) or tuple(map(type, stored)) not in CAUSES:
        raise typed_json.wrong(place, "a rule, a value and a text", stored)
    rule, value, text = stored
    return Cause(sanitize.line(rule), value, sanitize.line(text))


@functools.lru_cache(maxsize=4096)
def _facts(packed: bytes) -> dict[str, str]:
    """Facts from JSON. Equal facts share one dictionary, to save time and memory.

    Raises ShapeError.
    """
    facts = orjson.loads(packed)
    for name, value in facts.items():
        if name == NODES and type(value) is list:
            typed_json.texts(facts, name, "")
        elif name != DIFFERENCES and type(value) is not str:
            raise typed_json.wrong(f".{name}", "a text", value)
    return sanitize.every(facts)


def _refuse_values_beside_their_samples(values: list[Value], place: str) -> None:
    """Raise ShapeError unless all values are medians of their samples, or all are means."""
    sampled = [value for value in values if value.samples]
    differing = [value for value in sampled if not _is(value, statistics.median)]
    if differing and not all(_is(value, statistics.fmean) for value in sampled):
        first = differing[0]
        raise ShapeError(
            f"{place}.perfvalues: {first.variable} is {first.value!r}, which is not the median of "
            "its samples"
        )


def _is(value: Value, middle: Callable[[tuple[float, ...]], float]) -> bool:
    """Whether a value is the median or mean of its samples, rounded or not."""
    exact = middle(value.samples)
    if value.value == exact:
        return True
    is_close = functools.partial(math.isclose, value.value, rel_tol=EXACT)
    return is_close(exact) or is_close(float(f"{exact:.{DIGITS}g}"))
