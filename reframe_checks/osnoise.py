"""Time that the operating system and the hypervisor take from a program that only computes."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.output import Variable
from nearmetal.checks.parsing.osnoise import parse_noise
from nearmetal.checks.settings import setting
from nearmetal.job.launch import Launch


@rfm.simple_test
class osnoise(NearmetalCheck):
    """Detours from a fixed quantum of work on every core at once: time lost, rate, and the longest
    detour.

    Method: fixed work quanta of one microsecond. A quantum of more than twice the shortest one
    holds a detour (Beckman et al., IEEE Cluster 2006).

    Why: a hypervisor takes a core away for its own threads, its timers or another guest. All
    processes then wait for the one on that core, and bound processes cannot evade it.

    Reproduces: no figure. The HPC Cloud slides call it VMM noise (slides 5, 14 and 16). They name
    it as the reason why Bloss with bound threads loses efficiency.

    Read: `share_lost` is the part of the time in detours, as a mean over the cores.
    `worst_core_lost` is that part on the core that loses most. Many short detours are timer ticks.
    A few of milliseconds mean that something else had the core.
    """

    #: Seconds of a repeat. Default: the partition's `osnoise_seconds` (extras), or 10. :type: float
    seconds = setting(float, 10.0, extra="osnoise_seconds", least=0.1)

    valid_prog_environs = ["+serial"]
    num_tasks = 1
    num_tasks_per_node = 1
    bound_to = "none"  # the job has the node, and the program binds its threads itself
    tags = {"cpu", "noise"}

    def build(self):
        self.build_ours("osnoise.c")

    def launches(self):
        return [Launch(options=["--seconds", f"{self.seconds:g}"])]

    def read_output(self, text):
        self.runs = parse_noise(text)
        self.expect_repeats(self.runs)
        self.compiler = self.runs[0].facts["compiler"]
        # Half of the CPUs are a node without its hyper-threads.
        online = self.facts["cpus"]
        if online.isdecimal() and len(self.runs[0].cores) * 2 < int(online):
            raise SanityError(
                f"{len(self.runs[0].cores)} CPUs were measured where the node has {online}: "
                "does the scheduler or container hide the others?"
            )

    share_lost = Variable("% lost", lambda run: run.share_lost, lambda run: run.parts)
    worst_core_lost = Variable("% lost", lambda run: run.worst_share_lost)
    detour_rate = Variable("detours/s", lambda run: run.detours_per_second)
    longest_detour = Variable("us", lambda run: run.longest_us)
