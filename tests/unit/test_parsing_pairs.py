"""Parsers of multi_pair and of libfabric's ping-pong read recorded real output
(tests/recorded/README.md), and refuse damaged output."""

import re

import pytest

from nearmetal.checks import disturbance, provenance
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.libfabric import parse_libfabric
from nearmetal.checks.parsing.multi_pair import MultiPair, doubling, parse_multi_pair
from reframe_checks.multi_pair import multi_pair
from tests.support.marked import marked
from tests.support.recorded import recorded
from tests.support.said import lacking

PAIRS, FABRIC = recorded("multi_pair"), recorded("libfabric")


def test_pairs():
    for run in parse_multi_pair(PAIRS):
        assert list(run.gbps) == [(1, 1), (1, 2), (2, 1), (2, 2)]
        for sizes in run.gbps.values():
            assert list(sizes) == [8**power for power in range(1, 8)]
        assert 0 < run.mmsg_per_s(1) < 1000
        assert run.payload_bytes > 100e6 and len(run.hosts) == 4


def test_numbers_of_pairs_double_up_to_all():
    assert doubling(1) == [1] and doubling(96) == [1, 2, 4, 8, 16, 32, 64, 96]


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "", ["no multi_pair", "it is empty"]),
        (lambda text: text[: text.rindex("# nearmetal verified")], ["cut off"]),
        (lambda text: re.sub(r"(?m)^ +64 .*\n", "", text, count=1), ["27 rows", "28"]),
        (
            lambda text: re.sub(r"(?m)(^ +8 +1 +1 +64 +)\d+", r"\g<1>7", text),
            ["the rate of 1 pairs"],
        ),
        (lambda text: re.sub(r"payload_bytes: \d+", "payload_bytes: 5", text), ["but sent 5"]),
        (lambda text: re.sub(r"pairs=2", "pairs=4", text), ["8 processes", "4 ranks"]),
    ],
)
def test_damaged_output_of_pairs_is_refused(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_multi_pair(damage(PAIRS))
    assert not lacking(str(error.value), *facts)


def test_what_each_nic_carried_is_that_of_the_repeats_that_count():
    """A repeat that ran again sent much, and a bond sends through its NICs."""
    judged = "disturbed 1 n1 waited 0.9 0.48\nagain 1\nrepeat 2 n1 waited 0.01\n"
    files = {"disturbed.out": f"repeat 1 n1 waited 0.9\n{judged}"}
    for number, (eth0, eth1) in enumerate(((0, 0), (9000, 0), (9075, 25))):
        lines = ""
        for host in ("n1", "n2"):
            for nic, sent in (("eth0", eth0), ("eth1", eth1), ("bond0", eth0 + eth1)):
                lines += f"{host} nic.{nic}.tx_bytes={sent}000000\n"
        files[f"evidence.{number}"] = marked(lines)
    before = provenance.parse(files["evidence.0"])
    for facts in before.values():
        facts["nic.bond0.lower"] = "eth0,eth1"

    class Check:
        _counters_around = multi_pair._counters_around
        _counters = (before, {})
        _read = staticmethod(files.__getitem__)

    def repeats():
        return disturbance.parse(files["disturbed.out"], disturbance.rules())

    check = Check()
    check._repeats = repeats()
    check.runs = [MultiPair({}, {}, (), payload_bytes=160_000_000)]
    multi_pair._read_nics(check)
    assert (check.runs[0].busiest_percent, check.runs[0].nic_percent) == (75, 125)
    check.runs, files["evidence.2"] = [MultiPair({}, {}, (), payload_bytes=160_000_000)], ""
    files["disturbed.out"] += "unknown 2 n1 count.cpu.busy is missing after it\n"
    check._repeats = repeats()
    multi_pair._read_nics(check)
    assert not check.runs[0].nic_percent


def test_libfabric():
    for run in [*parse_libfabric(FABRIC), *parse_libfabric(recorded("libfabric_shm"))]:
        assert list(run.latency_us) == [1, 1024, 65536, 4194304]
        for size, latency in run.latency_us.items():
            assert run.bandwidth_gbps[size] == pytest.approx(size * 8e-3 / latency, rel=0.02)


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "srun: error\n", ["no launch of libfabric.sh", "srun: error"]),
        (lambda text: text.replace("# nearmetal complete\n", ""), ["cut off"]),
        (lambda text: re.sub(r"(?m)^1k .*\n", "", text), ["65536 100", "follows 1024 bytes"]),
        (lambda text: text.replace(" =100", " +7"), ["lost answers"]),
        (
            lambda text: re.sub(r"(?m)^(64k .*) +\S+( +\S+)$", r"\1 900.00\2", text),
            ["the rate of 65536 bytes"],
        ),
    ],
)
def test_damaged_output_of_libfabric_is_refused(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_libfabric(damage(FABRIC))
    assert not lacking(str(error.value), *facts)
