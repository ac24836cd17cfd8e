"""Variables of a link that a program measures by message size."""

import reframe.core.builtins as builtin

from nearmetal.checks.versions import Plugin
from nearmetal.job.launch import Launch


class Link(Plugin):
    """A check whose launches have `latency_us` and `bandwidth_gbps` by message size in bytes.

    The sizes include 1024 and 65536.
    """

    #: Name of the latency curve: it is half of the round trip, or the whole.
    latency_curve = "half_round_trip_us"

    def preparations(self):
        # Tasks find each other by this file.
        return [Launch("sh task.sh", output="tasks.out")]

    def name_variables(self):
        if self.is_dry_run():
            return
        sizes = sorted(self.runs[0].latency_us)
        self.curves = {
            self.latency_curve: self.curve(lambda run, size: run.latency_us[size], sizes),
            "bandwidth_gbps": self.curve(lambda run, size: run.bandwidth_gbps[size], sizes),
        }

    @builtin.performance_function("us")
    def startup_latency(self):
        return self.over_runs("startup_latency", lambda run: run.latency_us[min(run.latency_us)])

    @builtin.performance_function("us")
    def latency_1KiB(self):
        return self.over_runs("latency_1KiB", lambda run: run.latency_us[1024])

    @builtin.performance_function("Gb/s")
    def bandwidth_64KiB(self):
        return self.over_runs("bandwidth_64KiB", lambda run: run.bandwidth_gbps[65536])

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        return self.over_runs("peak_bandwidth", lambda run: max(run.bandwidth_gbps.values()))
