"""The parsers of IOR and mdtest read recorded real output, and refuse damaged output."""

import re

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.parallel_io import parse_ior, parse_mdtest
from tests.support.recorded import recorded
from tests.support.said import lacking


def test_ior_gives_both_bandwidths_of_each_launch():
    launches = parse_ior(recorded("ior"))
    assert [one.did["api"] for one in launches] == ["POSIX", "POSIX", "MPIIO"]
    assert [one.did["file_per_process"] for one in launches] == [1, 1, 0]
    for one in launches:
        assert set(one.values) == {"write_bandwidth", "read_bandwidth"}
        assert one.did | {"api": "", "file_per_process": 0} == {
            "api": "",
            "file_per_process": 0,
            "processes": 2,
            "nodes": 1,
            "block": 16 << 20,
            "transfer": 1 << 20,
            "fsync": 1,
            "reordered": 1,
        }
        assert one.facts == {"file_system": "ext2/ext3 from /dev/vda", "program": "IOR 4.0.0"}
    found = re.findall(r'"bwMiB": (\S+),', recorded("ior"))
    assert launches[0].values["write_bandwidth"] == pytest.approx(float(found[0]) * 1.048576)


def test_mdtest_gives_four_rates_of_each_launch():
    launches = parse_mdtest(recorded("mdtest"))
    assert [one.values["create_rate"] for one in launches] == [2472.322, 883.408]
    assert launches[0].values == {
        "create_rate": 2472.322,
        "stat_rate": 71968.154,
        "open_rate": 538490.692,
        "remove_rate": 15162.090,
    }
    assert launches[0].did == {"processes": 2, "nodes": 1, "files": 500}


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("# nearmetal complete", "", ("stops before", "cut off")),
        ('"Version": "4.0.0"', '"Version": "3.3.0"', ("IOR 3.3.0", "4 is known")),
        ('"bwMiB": ', '"bwMiB": 1', ("IOR's rate of write", "damaged")),
        ('"access": "write"', '"access": "read"', ("did not write and then read",)),
        ('"Results": [', '"Results": [ WARNING', ("IOR's document cannot be read",)),
        ('"totalTime": ', '"totalTime": -', ("IOR measured", "of write")),
    ],
)
def test_damaged_output_of_ior_is_refused(old, new, says):
    text = recorded("ior")
    assert old in text
    with pytest.raises(ParseError) as error:
        parse_ior(text.replace(old, new, 1))
    assert not lacking(str(error.value), *says)


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("# nearmetal complete", "", ("stops before", "cut off")),
        ("mdtest-4.0.0 was", "mdtest-3.3.0 was", ("mdtest 3.3.0", "4 is known")),
        ("-- finished at", "", ("lacks -- finished at", "cut off")),
        ("2472.322       2472.322", "2472.322       1472.322", ("File creation", "damaged")),
        ("File stat ", "File sta ", ("'File stat' 0 times",)),
        ("2472.322          0.000", "2472.322          9.000", ("deviates by 9.000",)),
        ("2 tasks, 1000 files", "3 tasks, 1000 files", ("mdtest's tasks",)),
    ],
)
def test_damaged_output_of_mdtest_is_refused(old, new, says):
    text = recorded("mdtest")
    assert old in text
    # The second launch is whole, but says another thing than the first.
    damaged = text.replace(old, new) if old.startswith("-- ") else text.replace(old, new, 1)
    with pytest.raises(ParseError) as error:
        parse_mdtest(damaged)
    assert not lacking(str(error.value), *says)


def test_a_document_that_lost_a_line_is_not_called_foreign():
    text = recorded("ior").replace("]", "", 1)
    with pytest.raises(ParseError, match="lines were lost"):
        parse_ior(text)
