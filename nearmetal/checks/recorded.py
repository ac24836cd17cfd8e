"""What is stored of a check's launches and nodes, for our checks and for those of others."""

from __future__ import annotations

import itertools
import math
import shlex
import statistics
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import reframe.core.builtins as builtin
from reframe.core.exceptions import PerformanceError, SanityError
from reframe.core.runtime import runtime

from nearmetal.checks import disturbance, failures, provenance
from nearmetal.checks.parsing import MOST_CHARACTERS, brief
from nearmetal.checks.settings import DISTURBED_ABOVE, MAX_PENDING_TIME, MAX_TIME_LIMIT
from nearmetal.checks.versions import Plugin

#: Most characters of a job's stderr that are searched for a full disk.
MOST = 1 << 20


def rounded(value: float) -> float:
    """The value to six significant digits, more than any measurement has."""
    return float(f"{value:.6g}")


class Recorded(Plugin):
    """A check that stores samples of each launch, facts of its nodes, and evidence."""

    #: Cases to measure again (nearmetal/model/remeasure.py), which `nearmetal gate --confirm`
    #: writes. The others are skipped. :type: str
    again = builtin.variable(str, value="")
    #: All further facts of the nodes. :type: dict
    facts = builtin.variable(dict, value={}, loggable=True)
    #: Performance variable -> value of every repeat. :type: dict
    samples = builtin.variable(dict, value={}, loggable=True)
    #: Performance variable -> values within every repeat, a second level of samples. :type: dict
    within = builtin.variable(dict, value={}, loggable=True)
    #: Class of the partition's link (extras): native, passthrough, ... :type: str
    link_class = builtin.variable(str, value="", loggable=True)

    #: Quantity of disturbance.yaml -> its value around every repeat of the job. :type: dict
    evidence = builtin.variable(dict, value={}, loggable=True)
    #: Disturbed repeats: number, whether another ran in its place, and [rule, value, text] of each
    #: cause. :type: list
    disturbed = builtin.variable(list, value=[], loggable=True)
    #: Sentences on repeats whose evidence was lost, so that nobody knows whether they were
    #: disturbed. :type: list of str
    unknown_evidence = builtin.variable(list, value=[], loggable=True)

    #: Messages about variables whose values are not finite.
    _refused: Sequence[str] = ()

    def keep_to_the_partitions_limits(self) -> None:
        """Ask for no more time than the partition allows: such a job would wait without end."""
        # ReFrame's variable. It is None unless the command line sets it.
        if self.max_pending_time is None:
            self.max_pending_time = MAX_PENDING_TIME.of(self.current_partition)
        limit = MAX_TIME_LIMIT.of(self.current_partition)
        if limit:
            asked, self.time_limit = self.time_limit, limit
            self.time_limit = min(asked or self.time_limit, self.time_limit)

    def use_the_c_locale(self) -> list[str]:
        """Shell lines that give a launch the locale that the check asks for in `env_vars`.

        The job has the locale C: mawk prints and reads a decimal comma where the user's has one.
        """
        asked = any(name == "LANG" or name.startswith("LC_") for name in self.env_vars)
        locale = self.env_vars.get("LC_ALL")
        self.env_vars["LC_ALL"] = "C"
        if locale:
            return [f"export LC_ALL={shlex.quote(locale)}"]
        if asked:
            return ["unset LC_ALL"]
        return []

    def over_launches(self, name: str, values, within=()) -> float:
        """Median of a variable over the launches.

        The values are recorded as the variable's samples, and their parts as a second level. A
        median withstands the one launch in hundreds that fails to be typical; a mean does not.
        """
        samples = list(map(rounded, values))
        parts = [list(map(rounded, launch)) for launch in within if launch]
        self._refuse_what_is_no_number(name, samples, *parts)
        self.samples = {**self.samples, name: samples}
        if parts:
            self.within = {**self.within, name: parts}
        return rounded(statistics.median(samples))

    def _refuse_what_is_no_number(self, name: str, *launches: list[float]) -> None:
        """Raise PerformanceError if a value is not finite.

        Readers refuse JSON with NaN or Infinity: stored, it would cost the whole session.
        """
        values = itertools.chain.from_iterable(launches)
        bad = [str(value) for value in values if not math.isfinite(value)]
        if bad:
            text = f"{name} is {', '.join(dict.fromkeys(bad))} in {len(bad)} value(s)"
            self._refused = [*self._refused, text]
            raise PerformanceError(f"{text}: see {self.stagedir}/{self.stdout}")

    def limits_of_disturbance(self) -> str:
        """The limits of the partition's class of link and its own ones, quoted for the shell."""
        own = DISTURBED_ABOVE.of(self.current_partition, {})
        try:
            rules = disturbance.with_limits(disturbance.rules(), own)
        except disturbance.EvidenceError as error:
            where = f"disturbed_above in the extras of {self.current_partition.fullname}"
            raise SanityError(f"{where}: {error}") from None
        return shlex.quote(disturbance.limits(rules, self.link_class))

    def _snapshots(self):
        try:
            return provenance.snapshots(
                self._read("provenance.before"), self._read("provenance.after")
            )
        except provenance.ProvenanceError as error:
            raise self._failure(f"provenance.before or .after: {error}") from None

    def _record_evidence(self) -> list[disturbance.Repeat]:
        """Record the evidence of all repeats. Raises EvidenceError."""
        repeats = disturbance.parse(self._read("disturbed.out"), disturbance.rules())
        self.evidence, self.disturbed, self.unknown_evidence = disturbance.stored(repeats)
        return repeats

    def _read(self, name, missing=None) -> str:
        try:
            with Path(self.stagedir, str(name)).open(errors="replace") as file:
                text = file.read(MOST_CHARACTERS + 1)
        except OSError as error:
            if missing is not None:
                return missing
            reason = f"{name} cannot be read: {error.strerror}"
            if words := self._last_words():
                reason = f"the job's last words: {words}; {reason}"
            raise self._failure(reason) from None
        if len(text) > MOST_CHARACTERS:
            raise SanityError(
                f"{name} has more than {MOST_CHARACTERS} characters: a program wrote without end. "
                f"Fix: read the beginning of {self.stagedir}/{name}, and rerun"
            )
        return text

    def _last_words(self) -> str:
        """The most informative lines that the job wrote; '' if it wrote none."""
        errors = self._read(self.stderr, missing="")
        return failures.last_words(errors, self._read(self.stdout, missing=""))

    def _failure(self, message: str) -> SanityError:
        cause = self._full_disk(message)
        message = brief(message) + failures.disturbance(self.stagedir)
        return SanityError(f"{cause}{message} (files: {self.stagedir})")

    def _full_disk(self, message: str) -> str:
        """The beginning of an error where a full disk is the cause, or ''."""
        stage = self.stagedir or runtime().stage_prefix  # where ReFrame could not even make it
        texts = []
        for name in (self.stderr, self.build_stderr):
            with suppress(OSError), open(Path(stage, str(name)), errors="replace") as file:
                texts.append(file.read(MOST))
        cause = failures.full(stage, "\n".join([*texts, message]))
        if not cause:
            return ""
        return f"{cause}; "
