"""`Measured`: fresh launches, facts and evidence for checks of others, which keep their own base.

The job launches the check's own command several times, each in a directory of its own. Sanity and
performance functions read each launch alone. A value is the median of the launches.
"""

import shlex
import shutil
import sys
from pathlib import Path

import reframe.core.builtins as builtin
import reframe.utility.osext as osext
import reframe.utility.sanity as sn

from nearmetal.checkout import SOURCES
from nearmetal.checks import disturbance, provenance, remeasure
from nearmetal.checks.recorded import Recorded
from nearmetal.job.launch import PROBE
from nearmetal.model import settings

SCRIPTS = ("provenance.sh", "disturbed.awk", "repeats.sh", "measured.sh")
#: A node's facts need one task a node, which srun starts in a job of Slurm.
ON_EACH_NODE = "srun --mpi=none -N $SLURM_JOB_NUM_NODES --ntasks-per-node=1"


class Measured(Recorded):
    """A check with this class as a further base has several launches, facts and evidence."""

    #: Fresh launches of the check within one job. :type: int
    repeats = builtin.variable(int, value=5)
    #: Launches that may run again in one job because something disturbed them. :type: int
    spare_repeats = builtin.variable(int, value=2)

    @builtin.run_after("setup", always_last=True)
    def take_time_for_all_launches(self):
        remeasure.measure_again(self)
        # The check's own limit is that of one launch.
        if self.time_limit:
            self.time_limit *= self.repeats + self.spare_repeats
        self.keep_to_the_partitions_limits()

    # Last: ReFrame's line of the launch is then the body of a function of the job's script.
    @builtin.run_before("run", always_last=True)
    def launch_it_several_times(self):
        for name in SCRIPTS:
            shutil.copy(SOURCES / name, self.stagedir)
        probe = PROBE
        if remeasure.by_slurm(self):
            probe = f"{ON_EACH_NODE} {PROBE}"
        call = f"{self.repeats} {self.spare_repeats} {self.limits_of_disturbance()}"
        # A function runs in the job's shell, so that modules and variables stay as they are.
        begin = ["one_launch() {", *self.use_the_c_locale()]
        self.prerun_cmds = ["stage=$PWD", *self.prerun_cmds, *begin]
        self.postrun_cmds += [
            *("}", "there=$PWD", 'cd "$stage"', f"snapshot() {{ {probe} counters; }}"),
            *(f"{probe} > provenance.before", ". ./measured.sh"),
            f"measured {call} {self.stdout} {self.stderr}",
        ]

    @builtin.run_before("sanity", always_last=True)
    def check_each_launch(self):
        if self.is_dry_run():
            return
        try:
            of_settings = settings.fact(shlex.join(sys.argv), type(self).__name__)
            before, _ = self._snapshots()
            self.facts = {**provenance.stored(before), **of_settings}
            repeats = self._record_evidence()
            self._launches = [repeat.number for repeat in repeats if not repeat.again]
        except (provenance.ProvenanceError, disturbance.EvidenceError) as error:
            raise self._failure(f"the job did not end its launches: {error}") from None
        patterns = getattr(self, "sanity_patterns", None)
        self._sane = getattr(self, "_rfm_sanity", lambda: patterns)

        @sn.deferrable
        def every_launch_is_sane() -> bool:
            return all(self._of_each_launch(lambda: sn.evaluate(self._sane())))

        if hasattr(self, "_rfm_sanity"):
            self._rfm_sanity = every_launch_is_sane
        elif patterns is not None:
            self.sanity_patterns = every_launch_is_sane()

    def _of_each_launch(self, read) -> list:
        """What a function returns in the directory of each launch that counts."""
        results, stage = [], self._stagedir
        for number in self._launches:
            # ReFrame's sanity functions read files of the stage directory.
            self._stagedir = str(Path(stage, f"repeat.{number}"))
            try:
                with osext.change_dir(self._stagedir):
                    results.append(read())
            finally:
                self._stagedir = stage
        return results

    @builtin.run_before("performance", always_last=True)
    def take_the_median_of_each_variable(self):
        if self.is_dry_run():
            return

        def values() -> dict[str, float]:
            sn.evaluate(self._sane())  # it may keep what performance functions read
            return {name: sn.evaluate(pattern) for name, pattern in patterns.items()}

        older = getattr(self, "perf_patterns", None) or {}  # another way to name them
        patterns = {**self.perf_variables, **older}
        of_launches = self._of_each_launch(values)
        for name, pattern in patterns.items():
            samples = [launch[name] for launch in of_launches]
            median = sn.defer(self.over_launches(name, samples))
            if name in older:
                self.perf_patterns = {**self.perf_patterns, name: median}
            else:
                self.perf_variables[name] = sn.make_performance_function(median, pattern.unit)
