"""References from the system's baseline, a `$ref` file of ReFrame.

`nearmetal baseline record` writes it.
"""

import os
from pathlib import Path

import reframe.core.builtins as builtin
import reframe.core.runtime as runtime
import reframe.utility.typecheck as typ
import yaml
from reframe.core.exceptions import PerformanceError, ReframeError

from nearmetal.checkout import BASELINES
from nearmetal.checks.settings import NO_BASELINE
from nearmetal.checks.versions import HAS_REFERENCE_FILES, Plugin
from nearmetal.model import naming
from nearmetal.model.naming import BASELINE_FORMAT
from nearmetal.site import foreign
from nearmetal.util import files

#: Directory of the baselines, unless RFM_REFERENCE_PREFIX names another one.
DIRECTORY = BASELINES


def recorded_references(data: dict, check) -> dict[str, tuple]:
    """References of a case from a baseline, as ReFrame 4.10 finds them by `$index`; {} if none."""
    names = [base.__name__ for base in type(check).__mro__]  # --repeat derives classes
    place: dict = next((data[name] for name in names if name in data), {})
    known = {
        "$partition": check.current_partition.fullname,
        "$environ": check.current_environ.name,
    }
    for step in place.get("$index", ()):
        value = known.get(step) or getattr(check, step)
        place = place.get(naming.step_of(value), {})
    references = {}
    for name, reference in place.items():
        if reference[0] == "$xfail":
            reference = reference[2]
        references[name] = tuple(reference)
    return references


class Baselined(Plugin):
    """A check whose variables need a reference in the system's baseline, or a reason to have none.

    The partition's reason (extras) ends when the system has a baseline. A check's own reason does
    not, nor does that of the command line (`-S no_baseline=REASON`). A partition of another site's
    configuration has a reason until then too.
    """

    #: Reason why variables without a reference pass: the check's own, or the partition's
    #: `no_baseline` (extras). :type: str
    no_baseline = builtin.variable(str, value="", loggable=True)
    #: Origin of that reason. :values: `check`, `partition`, or nothing
    no_baseline_of = builtin.variable(str, value="", loggable=True)
    #: Variables that the baseline lacks. They fail the case. :type: list of str
    unreferenced = builtin.variable(typ.List[str], value=[], loggable=True)

    # Not after init: ReFrame would drop the check and report "Ran 0/0". Here an unreadable file
    # fails the case.
    @builtin.run_after("setup")
    def take_references_from_the_baseline(self):
        named = runtime.runtime().get_option("general/0/reference_prefix")
        named = named or os.environ.get("RFM_REFERENCE_PREFIX")  # older ReFrame lacks the option
        file = naming.file_of(self.current_system.name, ".yaml")
        self._baseline = Path(named or DIRECTORY, file)
        self._unreferenced = []
        if self.no_baseline:
            self.no_baseline_of = "check"
        if self.has_baseline():
            self._read_baseline()
        elif not self.no_baseline:
            self.no_baseline = self._reason_of_partition() or self._reason_of_configuration()
            self.no_baseline_of = "partition" * bool(self.no_baseline)

    def _reason_of_partition(self) -> str:
        return NO_BASELINE.of(self.current_partition, default="")

    def _reason_of_configuration(self) -> str:
        """Another site's configuration cannot know `no_baseline`, and has none of our baselines."""
        if foreign.is_described(self.current_partition):
            return ""
        return f"no system's file of Nearmetal describes {self.current_partition.fullname}"

    def _read_baseline(self) -> None:
        record = f"`nearmetal baseline record --system {self.current_system.name}"
        try:
            data = yaml.safe_load(files.read(self._baseline))
            if HAS_REFERENCE_FILES:
                named: dict = {"$ref": str(self._baseline)}
                self.reference = named
            else:
                self._recorded = recorded_references(data, self)
                own: dict = {self.current_partition.fullname: self._recorded}
                self.reference = own
        except Exception as error:  # a damaged file may raise anything
            raise ReframeError(
                f"{self._baseline}: not a file of references ({error}). Fix: restore it from git, "
                f"or {record}`"
            ) from error
        recorded = data.get("baseline", {"format": BASELINE_FORMAT})
        if not isinstance(recorded, dict) or recorded.get("format") != BASELINE_FORMAT:
            raise ReframeError(
                f"{self._baseline}: baseline.format is not {BASELINE_FORMAT}: an older version "
                "wrote it and bounded some references on the wrong side. Fix: "
                f"{record} --only-bounds`"
            )

    def has_baseline(self) -> bool:
        """Whether the system has a baseline, which holds the references then.

        What is no ordinary file counts as one, so that reading it fails the case.
        """
        return not files.is_absent(self._baseline)

    def expected_references(self) -> dict[str, tuple]:
        """References of variables without a baseline (nearmetal/checks/expected.py)."""
        return {}

    @builtin.run_before("performance", always_last=True)
    def look_for_references(self):
        if not self.has_baseline() and (expected := self.expected_references()):
            own: dict = {self.current_partition.fullname: expected}
            self.reference = own
        referenced = self._referenced()
        missing = sorted(set(self.perf_variables) - referenced)
        # In a dry run, a check that names its variables on the node has none yet.
        if not missing and referenced:
            return
        self.require_reference = False
        if not self.no_baseline:
            self._unreferenced = missing or ["any variable"]

    # After performance: the values are then stored, and the next baseline can use them.
    @builtin.run_after("performance")
    def refuse_a_variable_without_reference(self):
        if not self._unreferenced:
            return
        self.unreferenced = self._unreferenced
        raise PerformanceError(
            f"{self._baseline} has no reference for {', '.join(self.unreferenced)} of "
            f"{self.display_name} on {self.current_partition.fullname} with "
            f"{self.current_environ.name}. Fix: {self._fix()}"
        )

    def _fix(self) -> str:
        record = f"`nearmetal baseline record --system {self.current_system.name}`"
        if not self.has_baseline():
            return (
                f"write `no_baseline: <reason>` in the partition's extras until {record} wrote one"
            )
        obsolete = ""
        if self._reason_of_partition():
            obsolete = (
                f". `no_baseline` in the extras of {self.current_partition.fullname} excuses "
                "nothing any more, as the system has a baseline: delete it"
            )
        return (
            f"{record} adds the case once enough sessions hold it; until then "
            f"`-S {type(self).__name__}.no_baseline=<reason>` excuses it in one run{obsolete}"
        )

    def _referenced(self) -> set[str]:
        """Names of the variables of this case that have a reference: the baseline's, or without
        a baseline an expectation's."""
        if not self.has_baseline():
            return set(self.expected_references())
        if not HAS_REFERENCE_FILES:
            return set(self._recorded)
        try:
            return set(self.reference[self])
        except KeyError:
            return set()
