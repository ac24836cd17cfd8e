"""Expectations as ReFrame's references without a baseline, and absolute bounds beside one."""

import functools
import math

import reframe.core.builtins as builtin
import reframe.utility.typecheck as typ
from reframe.core.exceptions import PerformanceError, ReframeError

from nearmetal.checks.versions import Plugin
from nearmetal.expectations import entries, judge
from nearmetal.expectations.judge import Bounds, Measured, Place
from nearmetal.model import naming
from nearmetal.site import system

#: Read once: a run has one set of files.
load = functools.cache(entries.load)


def as_reference(bounds: Bounds, unit: str) -> tuple:
    """Bounds as ReFrame's reference: the limit itself, and fractions of it."""
    least, most = bounds.least, bounds.most
    if least is not None and least > 0:
        upper = None
        if most is not None:
            upper = most / least - 1
        return least, 0, upper, unit
    if most is not None and most > 0 and least is None:
        return most, None, 0, unit
    return 0, least, most, unit  # of a reference 0, ReFrame takes bounds as they are


@functools.cache
def described(place: str) -> str:
    """Where a partition is described, `FILE: SYSTEM:PARTITION`; without a file, its name."""
    path = system.path_of(place.partition(":")[0])
    if path is None:
        return place
    return f"{path}: {place}"


class Expected(Plugin):
    """A check whose values are held against expectations.

    Without a baseline they are the references. Beside one they are absolute bounds. Stands before
    Baselined among a check's bases.
    """

    #: Sentences on values beyond expectations, where these alone failed it. :type: list of str
    unexpected = builtin.variable(typ.List[str], value=[], loggable=True)

    # Here, so that a wrong expression or bound fails the case before its job.
    @builtin.run_after("setup")
    def read_expectations(self):
        self._described = described(self.current_partition.fullname)
        try:
            self._expectations = load()
            own = self.current_partition.extras.get(entries.OVERRIDES)
            if own is not None:
                place = f"{self._described}: extras.{entries.OVERRIDES}"
                self._expectations = entries.overridden(self._expectations, own, place)
        except entries.ExpectationError as error:
            raise ReframeError(str(error)) from None
        self.expected_references()

    def expected_references(self) -> dict[str, tuple]:
        """ReFrame's reference of each variable that an expectation bounds before it is measured.

        :raises ReframeError: no value is within the bounds of a variable.
        """
        units = {name: function.unit for name, function in self.perf_variables.items()}
        try:
            bounds = judge.references(self._expectations.values(), self._subject({}, units), units)
        except entries.ExpectationError as error:
            raise ReframeError(str(error)) from None
        return {name: as_reference(limits, units[name]) for name, limits in bounds.items()}

    def check_against_expectations(self, check) -> None:
        """Run ReFrame's check of references; its failure says what one may expect.

        :raises PerformanceError: a value is beyond its reference, or beyond an expectation.
        """
        try:
            check()
        except PerformanceError as error:
            deviations = self._deviations()
            if not deviations:
                raise
            if self.has_baseline():
                raise PerformanceError("; ".join([str(error), *deviations])) from None
            # ReFrame's text says the same in numbers alone.
            self.unexpected = deviations
            raise PerformanceError("; ".join(deviations)) from None
        if deviations := self._deviations():
            self.unexpected = deviations
            raise PerformanceError("; ".join(deviations))

    def _deviations(self) -> list[str]:
        if self.is_dry_run():
            return []
        values, units = {}, {}
        for key, entry in self.perfvalues.items():
            name = key.rsplit(":", 1)[-1]
            units[name] = entry[4]
            # A value that is missing fails the case by itself.
            if isinstance(entry[0], (int, float)) and math.isfinite(entry[0]):
                values[name] = entry[0]
        case = self._subject(values, units)
        return list(map(str, judge.deviations(self._expectations.values(), case)))

    def expected_facts(self) -> dict[str, str]:
        """Facts by the names that expectations use."""
        return self.facts

    def _subject(self, values: dict, units: dict) -> Measured:
        """The case as expectations see it."""
        partition, environ = self.current_partition, self.current_environ
        place = Place(
            partition.extras,
            frozenset(partition.features),
            frozenset(environ.features),
            self._described,
        )
        name = self.display_name
        return Measured(
            naming.base_name(name),
            place,
            dict(naming.parameters(name)),
            partition.name,
            environ.name,
            values,
            {key: tuple(samples) for key, samples in self.samples.items() if samples},
            self.expected_facts(),
            units,
        )
