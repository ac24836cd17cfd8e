"""Variables of a link that a program measures by message size."""

from nearmetal.checks.output import Variable
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

    startup_latency = Variable("us", lambda run: run.latency_us[min(run.latency_us)])
    latency_1KiB = Variable("us", lambda run: run.latency_us[1024])
    bandwidth_64KiB = Variable("Gb/s", lambda run: run.bandwidth_gbps[65536])
    peak_bandwidth = Variable("Gb/s", lambda run: max(run.bandwidth_gbps.values()))
