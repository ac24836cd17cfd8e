# ruff: noqa: F821 -- names that ReFrame puts into the body of a class
"""A check of others with the mixin: each launch writes one line and a file of its own."""

import reframe as rfm
import reframe.utility.sanity as sn

from nearmetal.checks import Measured


@rfm.simple_test
class older_loops(rfm.RunOnlyRegressionTest, Measured):
    """The same, in the older way to name variables and sanity."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh loop.sh"
    reference = {"*": {"speed": (0, None, None, "loops/ms")}}

    @run_before("sanity")
    def set_sanity(self):
        self.sanity_patterns = sn.assert_eq(sn.count(sn.findall(r"^speed:", self.stdout)), 1)

    @run_before("performance")
    def set_performance(self):
        speed = sn.extractsingle(r"speed: (\S+)", self.stdout, 1, float)
        self.perf_patterns = {"speed": speed}


@rfm.simple_test
class loops(rfm.RunOnlyRegressionTest, Measured):
    """Speed of a loop, and its turns, which the program appends to a file."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh loop.sh"
    time_limit = "1m"
    prerun_cmds = ["echo before the launches"]
    postrun_cmds = ["echo 3 >> turns.log"]
    #: Number of a launch that fails.
    failing = variable(int, value=0)

    @run_before("run")
    def fail_in_one(self):
        if self.failing:
            self.prerun_cmds += ["count=$PWD/count; : > $count"]
            self.executable = "echo >> $count; wc -l < $count; sh loop.sh"

    @sanity_function
    def validate(self):
        launches = sn.count(sn.findall(r"^speed:", self.stdout))
        return sn.all(
            [
                sn.assert_eq(launches, 1),
                sn.assert_not_found(rf"^{self.failing}$", self.stdout),
            ]
        )

    @performance_function("loops/ms")
    def speed(self):
        return sn.extractsingle(r"speed: (\S+)", self.stdout, 1, float)

    @performance_function("turns")
    def turns(self):
        return sn.extractsingle(r"(\d+)\n", "turns.log", 1, float) * sn.count(
            sn.findall(r"3", "turns.log")
        )
