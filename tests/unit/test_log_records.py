"""What ReFrame reads of a check for each record that it logs."""

from reframe.core.meta import RegressionTestMeta

from nearmetal.checks.base import NearmetalCheck


def test_it_reads_everything_but_a_deprecated_name():
    """Each reading of one walks the call stack for a warning."""
    read = dict(NearmetalCheck.loggable_attrs())
    left_out = dict(RegressionTestMeta.loggable_attrs(NearmetalCheck)).keys() - read
    variables = NearmetalCheck.var_space
    assert left_out == {name for name in variables if variables[name].is_deprecated()}
    assert {"env_vars", "samples", "facts"} <= read.keys()
