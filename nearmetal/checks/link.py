"""Variables of a link that a program measures by message size."""

import reframe.core.builtins as builtin

from nearmetal.checks.recorded import rounded
from nearmetal.checks.versions import Plugin


class Link(Plugin):
    """A check whose launches have `latency_us` and `bandwidth_gbps` by message size in bytes.

    The sizes include 1024 and 65536.
    """

    #: Name of the latency curve: it is half of the round trip, or the whole.
    latency_curve = "half_round_trip_us"

    @builtin.run_before("run")
    def have_tasks_find_each_other(self):
        self.prerun_cmds += [self.launch_of_all(self.job.launcher, "sh task.sh > tasks.out")]

    @builtin.run_before("performance")
    def keep_curves(self):
        if not self.is_dry_run():
            self.curves = {
                self.latency_curve: self._curve("latency_us"),
                "bandwidth_gbps": self._curve("bandwidth_gbps"),
            }

    def _curve(self, name):
        return {
            size: [rounded(getattr(launch, name)[size]) for launch in self.launches]
            for size in sorted(getattr(self.launches[0], name))
        }

    @builtin.performance_function("us")
    def startup_latency(self):
        return self.over_launches(
            "startup_latency", [p.latency_us[min(p.latency_us)] for p in self.launches]
        )

    @builtin.performance_function("us")
    def latency_1KiB(self):
        return self.over_launches("latency_1KiB", [p.latency_us[1024] for p in self.launches])

    @builtin.performance_function("Gb/s")
    def bandwidth_64KiB(self):
        return self.over_launches(
            "bandwidth_64KiB", [p.bandwidth_gbps[65536] for p in self.launches]
        )

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        return self.over_launches(
            "peak_bandwidth", [max(p.bandwidth_gbps.values()) for p in self.launches]
        )
