"""References from the system's baseline, in ReFrame's own `$ref` files (written by `nearmetal baseline record`)."""

from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.core.runtime as runtime
from reframe.core.exceptions import PerformanceError, ReframeError

#: Where baselines are, unless RFM_REFERENCE_PREFIX names another directory.
DIRECTORY = Path(__file__).parent / "references" / "baselines"


class Baselined(rfm.RegressionTestPlugin):
    """A variable has a reference in its system's baseline, or its partition's extras say why it has none."""

    #: Why variables without reference pass here: `no_baseline` of the partition's extras, or the check's own. :type: str
    no_baseline = builtin.variable(str, value="", loggable=True)

    # Here and not after init, where ReFrame would drop the check and say "Ran 0/0": an unreadable file fails the case.
    @builtin.run_after("setup")
    def take_references_from_the_baseline(self):
        self.no_baseline = self.no_baseline or str(
            self.current_partition.extras.get("no_baseline", "")
        )
        directory = runtime.runtime().get_option("general/0/reference_prefix") or DIRECTORY
        self._baseline = Path(directory, f"{self.current_system.name}.yaml")
        if self._baseline.is_file():
            try:
                self.reference = {"$ref": str(self._baseline)}
            except Exception as error:  # whatever the parser meets in a damaged file
                raise ReframeError(
                    f"{self._baseline}: not a file of references ({error}). Fix: restore it from git, "
                    f"or `nearmetal baseline record --system {self.current_system.name}`"
                ) from error

    @builtin.run_before("performance", always_last=True)
    def refuse_a_variable_without_reference(self):
        referenced = self._referenced()
        missing = sorted(set(self.perf_variables) - referenced)
        # In a dry run a check whose variables follow from the node has none yet, but its baseline has.
        if missing or not referenced:
            if not self.no_baseline:
                raise PerformanceError(
                    f"{self._baseline} has no reference for {', '.join(missing) or 'any variable'} of {self.display_name} on "
                    f"{self.current_partition.fullname} with {self.current_environ.name}. Fix: say `no_baseline: <reason>` in "
                    f"the partition's extras until `nearmetal baseline record --system {self.current_system.name}` wrote one"
                )
            self.require_reference = False

    def _referenced(self) -> set[str]:
        """Names of the variables that the baseline knows for this case."""
        if not self._baseline.is_file():
            return set()
        try:
            return set(self.reference[self])
        except KeyError:
            return set()
