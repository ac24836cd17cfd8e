# ruff: noqa: F821 -- names that ReFrame puts into the body of a class
"""Checks as other suites write them: no class of ours, one launch, one value a variable."""

import reframe as rfm
import reframe.utility.sanity as sn

VERSION = tuple(int(part) for part in rfm.VERSION.split(".")[:2])


@rfm.simple_test
class stream_like(rfm.RunOnlyRegressionTest):
    """Rates of two copies in memory, as ReFrame's tutorial has them."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    #: ReFrame before 4.10 ends with an error for a variable with a colon.
    parts = ["a:bw", "b:bw"] if VERSION >= (4, 10) else ["a_bw", "b_bw"]
    executable = "sh copy.sh"
    executable_opts = ["200"]
    reference = {
        "generic:default": {
            "copy_bw": (5000, -0.9, None, "MB/s"),
            "score": (100, -0.99, None, "score"),
            "marks": (100, None, None, "marks"),
        }
    }

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^done", self.stdout)

    @performance_function("MB/s")
    def copy_bw(self):
        return sn.extractsingle(r"copy: (\S+)", self.stdout, 1, float)

    @run_before("performance")
    def two_of_one_name(self):
        rate = sn.extractall(r"part: (\S+)", self.stdout, 1, float)
        for number, name in enumerate(self.parts):
            self.perf_variables[name] = sn.make_performance_function(rate[number], "MB/s")
        copied = sn.extractsingle(r"copy: (\S+)", self.stdout, 1, float)
        self.perf_variables["score"] = sn.make_performance_function(copied / 100, "score")
        self.perf_variables["marks"] = sn.make_performance_function(copied / 200, "marks")


@rfm.simple_test
class every_third_fails(rfm.RunOnlyRegressionTest):
    """Fails in its second run: a counter in a file of the user's."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh third.sh"

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^done", self.stdout)

    @performance_function("s")
    def elapsed(self):
        return sn.extractsingle(r"took: (\S+)", self.stdout, 1, float)


@rfm.simple_test
class one_name_for_two(rfm.RunOnlyRegressionTest):
    """Two tests with one display name: the format of the parameter hides what differs."""

    size = parameter([100, 200], fmt=lambda size: "some")
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh copy.sh"

    @run_after("init")
    def choose(self):
        self.executable_opts = [str(self.size)]

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^done", self.stdout)

    @performance_function("MB/s")
    def copy_bw(self):
        return sn.extractsingle(r"copy: (\S+)", self.stdout, 1, float)


@rfm.simple_test
class loops(rfm.RunOnlyRegressionTest):
    """Speed of a loop. Its unit has no direction, but its reference has."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh loop.sh"
    reference = {"*": {"speed": (1000, -0.999, None, "loops/ms")}}

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^speed:", self.stdout)

    @performance_function("loops/ms")
    def speed(self):
        return sn.extractsingle(r"speed: (\S+)", self.stdout, 1, float)
