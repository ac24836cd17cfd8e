"""Parsers of multi_pair and of libfabric's ping-pong read recorded real output
(tests/recorded/README.md), and refuse damaged output."""

import re
from types import SimpleNamespace

import pytest

from nearmetal.checks import provenance
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.libfabric import parse_libfabric
from nearmetal.checks.parsing.multi_pair import doubling, parse_multi_pair
from reframe_checks.multi_pair import _busiest_percent, _seen_percent, multi_pair
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
    assert [doubling(most) for most in (1, 2, 3, 96)] == [
        [1],
        [1, 2],
        [1, 2, 3],
        [1, 2, 4, 8, 16, 32, 64, 96],
    ]


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


def snapshot(**sent: int) -> str:
    lines = []
    for host in ("n1", "n2"):
        counts = {f"{name.replace('__', '.')}": count for name, count in sent.items()}
        lines += [f"{host} {key}={count}\n" for key, count in counts.items()]
    return marked("".join(lines))


def test_what_each_nic_carried_is_that_of_the_repeats_that_count():
    """A repeat that ran again sent much, and a bond sends through its NICs."""
    sent = "nic.eth0.tx_bytes", "nic.eth1.tx_bytes", "nic.bond0.tx_bytes"
    files = {
        "disturbed.out": "repeat 1 n1 waited 0.9\ndisturbed 1 n1 waited 0.9 0.48\nagain 1\n"
        "repeat 2 n1 waited 0.01\n",
    }
    for number, bytes_sent in enumerate(((0, 0, 0), (9e9, 0, 9e9), (9.075e9, 25e6, 9.1e9))):
        counts = dict(zip(sent, map(int, bytes_sent)))
        files[f"evidence.{number}"] = snapshot(
            **{k.replace(".", "__"): v for k, v in counts.items()}
        )
    before = provenance.parse(files["evidence.0"])
    for facts in before.values():
        facts["nic.bond0.lower"] = "eth0,eth1"
    check = SimpleNamespace(_counters=(before, {}), _read=files.__getitem__)
    check.runs = [SimpleNamespace(payload_bytes=int(195e6))]
    (carried,) = multi_pair._carried(check)
    assert _busiest_percent(carried) == 75 and round(_seen_percent(carried)) == 103
    del files["evidence.2"]
    files["evidence.2"] = ""  # lost
    assert multi_pair._carried(check) == []


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
