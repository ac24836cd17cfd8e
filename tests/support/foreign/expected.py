# ruff: noqa: F821 -- names that ReFrame puts into the body of a class
"""Checks with expected failures, by references and by their sanity (ReFrame 4.9)."""

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import xfail


class expected(rfm.RunOnlyRegressionTest):
    """Rates of two copies in memory, which a site knows to be slow or broken."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "sh copy.sh"
    executable_opts = ["200"]

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^done", self.stdout)

    @performance_function("MB/s")
    def copy_bw(self):
        return sn.extractsingle(r"copy: (\S+)", self.stdout, 1, float)

    @performance_function("MB/s")
    def part_bw(self):
        return sn.extractsingle(r"part: (\S+)", self.stdout, 1, float)


@rfm.simple_test
class slow_as_expected(expected):
    """One variable misses its reference, as its ticket says; the other one meets its own."""

    reference = {
        "*": {
            "copy_bw": xfail("ticket 17: the memory is slow", (1e9, -0.1, None, "MB/s")),
            "part_bw": (1, -0.9, None, "MB/s"),
        }
    }


@rfm.simple_test
class quick_after_all(expected):
    """One variable meets the reference that it is expected to miss."""

    reference = {"*": {"copy_bw": xfail("ticket 18: slow", (1, -0.9, None, "MB/s"))}}


@rfm.xfail("ticket 19: no memory is left")
@rfm.simple_test
class broken_as_expected(expected):
    """Fails its sanity, as its ticket says."""

    executable_opts = ["--broken"]

    @sanity_function
    def validate(self):
        return sn.assert_found(r"^never", self.stdout)


@rfm.xfail("ticket 20: no memory is left")
@rfm.simple_test
class mended_after_all(expected):
    """Passes its sanity, though its ticket says otherwise."""
