"""The output of a case: it is parsed, compared with the request, and refused if incomplete."""

from __future__ import annotations

import math

import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import PerformanceError, SanityError

from nearmetal.checks import disturbance, failures, provenance
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.parsing.output import chunks
from nearmetal.checks.recorded import rounded
from nearmetal.checks.runtime.jvm import facts_of_jvms
from nearmetal.checks.versions import Plugin


def all_of(runs) -> list:
    """All launches in one list. Rounds are dictionaries of launches."""
    launches: list = []
    for run in runs:
        if isinstance(run, dict):
            launches += run.values()
        else:
            launches.append(run)
    return launches


def _of_launch(function, count: int):
    """A function of a round that is one of its launch on this count."""
    return lambda launches: function(launches[count])


class Variable:
    """A variable, in the body of a check: the median over the repeats.

    :arg value: function: what was read of a repeat -> the value in `unit`.
    :arg parts: function: the same -> values of parts of the repeat, a second level of samples.
    """

    _rfm_perf_key = ""  # by this, ReFrame knows a variable

    def __init__(self, unit: str, value, parts=None):
        self.unit, self.value, self.parts = unit, value, parts

    def __set_name__(self, check, name):
        self._rfm_perf_key = name

    def __call__(self, check):
        return sn.make_performance_function(
            check.over_runs, self.unit, self._rfm_perf_key, self.value, self.parts
        )


class Output(Plugin):
    """A check whose output is parsed into `self.runs`, one for each repeat."""

    #: Curve -> message size in bytes -> value of every repeat: `{'half_round_trip_us': {1:
    #: [...]}}`. :type: dict
    curves = builtin.variable(dict, value={}, loggable=True)

    #: Recorded transport if `payload_bytes` is 0.
    no_transport = "none needed"

    def read_output(self, text: str) -> None:
        """Parse the job's output and keep the values that the performance functions need.

        Raises ParseError or SanityError if anything is incomplete.
        """
        raise NotImplementedError

    def name_variables(self) -> None:
        """Define variables that depend on the case, in `self.perf_variables`."""

    def over_runs(self, name: str, value, parts=None) -> float:
        """Median of a variable over the repeats. Its samples are recorded.

        :arg value: function: what was read of a repeat -> the value.
        :arg parts: function: the same -> values of parts of the repeat, a second level of samples.
        """
        within: list = []
        if parts:
            within = list(map(parts, self.runs))
        return self.over_launches(name, list(map(value, self.runs)), within)

    def define(self, name: str, unit: str, value, parts=None, on: int | None = None) -> None:
        """Define a variable whose name depends on the case, as a `Variable`.

        :arg on: the count of `rounds` whose launch the functions take; None: they take the round.
        """
        if on is not None:
            value, parts = _of_launch(value, on), parts and _of_launch(parts, on)
        self.perf_variables[name] = sn.make_performance_function(
            self.over_runs, unit, name, value, parts
        )

    def curve(self, value, sizes) -> dict:
        """The values of every repeat by message size.

        :arg value: function: what was read of a repeat, size in bytes -> the value.
        """
        curve = {}
        for size in sizes:
            curve[size] = [rounded(value(run, size)) for run in self.runs]
        return curve

    def requested(self) -> dict:
        """Parameters requested of each launch, under the names of its `did` (parsing/request.py).

        By default these are the options of the first launch. {} if the program does not report its
        parameters.
        """
        return request.options(self._command)

    def payload_bytes(self) -> int:
        """Bytes that the program sent between its processes; they identify the transport.

        0 if it sent none.
        """
        return 0

    def check_transport(self) -> None:
        """Raise SanityError if the bytes took another path than the check is to measure."""

    def check_pages(self) -> None:
        """Raise SanityError if the program's memory had other pages than the requested ones."""

    def expect_repeats(self, runs: list) -> None:
        """Raise SanityError unless the output holds one launch per repeat."""
        if len(runs) != self.repeats:
            raise SanityError(f"{len(runs)} launches are in the output instead of {self.repeats}")

    def rounds(
        self, launches: list, on=lambda run: run.processes, what: str = "processes"
    ) -> list[dict]:
        """Group launches by repeat, and within a repeat by `self.counts`.

        Raises SanityError if a launch ran on another count.

        :arg on: function: launch -> its count; None if the program does not report it.
        """
        wanted = self.counts * self.repeats
        if on:
            reported = list(map(on, launches))
            if reported != wanted:
                raise SanityError(
                    f"the output holds launches on {reported} {what} instead of {wanted}"
                )
        if len(launches) != len(wanted):
            raise SanityError(f"the output holds {len(launches)} launches instead of {len(wanted)}")
        return [dict(zip(self.counts, repeat)) for repeat in chunks(launches, len(self.counts))]

    def expect_what_was_asked(self) -> None:
        """Raise ParseError if a launch reports other parameters than the requested ones."""
        for run in all_of(getattr(self, "runs", ())):
            asked = self.requested()
            # A check without it would accept the output of any other request.
            if asked and not hasattr(run, "did"):
                raise ParseError(
                    f"a launch of {type(self).__name__} has no `did`: store there the parameters "
                    "that the program reports, or return {} from requested()"
                )
            if asked:
                request.expect(asked, run.did)

    @builtin.sanity_function
    def output_is_whole(self):
        try:
            # Launchers other than srun give programs the host's name alone.
            text = provenance.by_node(self._measured(self._read(self.stdout)), self._counters[0])
            self.read_output(text)
            self.expect_what_was_asked()
            self.facts = {**self.facts, **facts_of_jvms(self.runtimes, text)}
            payload = self.payload_bytes()
            self.transport = self.no_transport
            if payload:
                before, after = self._counters
                self.transport = provenance.transport(before, after, payload).name
            self.check_pages()
        except (ParseError, provenance.ProvenanceError, disturbance.EvidenceError) as error:
            raise self._failure(str(error)) from None
        self.check_transport()
        return sn.assert_true(True)

    def _measured(self, text: str) -> str:
        """The output of the repeats that count. Records the evidence of all. EvidenceError."""
        self._repeats = self._record_evidence()
        for repeat in self._repeats:
            # Counters that were lost do not say how much it sent. They need not fail the case.
            if repeat.again and not repeat.unknown:
                first, last = self._counters_around(repeat)
                before, after = self._counters
                self._counters = before, provenance.without_growth(after, first, last)
        return disturbance.measured(text, self._repeats)

    def _counters_around(self, repeat: disturbance.Repeat) -> list[provenance.Nodes]:
        """The counters before and after a repeat, without the facts. Raises ProvenanceError."""
        numbers = repeat.number - 1, repeat.number
        return [provenance.parse(self._read(f"evidence.{number}")) for number in numbers]

    @builtin.run_before("performance")
    def define_variables(self):
        self.name_variables()

    # Last: the check has then stored its curves.
    @builtin.run_before("performance", always_last=True)
    def refuse_curves_that_are_no_numbers(self):
        curves, self.curves = self.curves, {}
        for name, curve in curves.items():
            self._refuse_what_is_no_number(name, *curve.values())
        self.curves = curves

    @builtin.run_after("performance")
    def refuse_missing_values(self):
        # ReFrame only warns if a performance function raises. Without a reference, a value that is
        # not finite would pass.
        if self.is_dry_run():
            return
        values = {key.rsplit(":", 1)[-1]: entry[0] for key, entry in self.perfvalues.items()}
        unusable = sorted(set(self.perf_variables) - set(values))
        for name, value in sorted(values.items()):
            if not math.isfinite(value) or value <= 0:
                unusable.append(f"{name}={value}")
        if unusable or not values:
            named = ", ".join(unusable) or "any variable"
            refused = "".join(f"; {text}" for text in self._refused)
            raise PerformanceError(
                f"no usable value for {named}{refused}: "
                f"see {self.stagedir}/{self.stdout}{failures.disturbance(self.stagedir)}"
            )
