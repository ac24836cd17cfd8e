"""pingpong up to 1 GiB, where asked: the command, the time that it may take, and the variables."""

from types import SimpleNamespace

import pytest

from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.settings import Fact
from reframe_checks import pingpong as module
from reframe_checks.pingpong import pingpong
from tests.support.recorded import recorded

GIB = 1 << 30


class Skipped(Exception):
    pass


class Fake(SimpleNamespace):
    """A check at some point of its pipeline."""

    define, over_runs = pingpong.define, pingpong.over_runs
    _options = pingpong._options
    _imb_options = pingpong._imb_options
    _give_long_messages_time = pingpong._give_long_messages_time

    def is_dry_run(self):
        return True

    def skip(self, reason):
        raise Skipped(reason)

    def over_launches(self, name, values, within=()):
        return name, values


def fake(max_bytes: int = GIB, **attributes) -> Fake:
    usual = {
        "max_bytes": max_bytes,
        "placement": "internode",
        "display_name": "pingpong",
        "suite": "nearmetal",
        "max_time": 0.5,
        "stall_timeout": 60,
        "repeats": 3,
        "spare_repeats": 2,
        "time_limit": 600.0,
        "runtime": SimpleNamespace(java=False),
        "runtimes": (SimpleNamespace(java=False),),
        "current_partition": SimpleNamespace(extras={}),
        "perf_variables": {},
        "runs": parse_imb(recorded("pingpong_1GiB")),
    }
    return Fake(**{**usual, **attributes})


def options(check) -> dict:
    [launch] = pingpong.launches(check)
    words = [str(word) for word in launch.options if word != "PingPong"]
    return dict(zip(words[::2], words[1::2], strict=True))


def test_the_default_is_unchanged():
    check = fake(module.LARGEST)
    pingpong.configure(check)
    pingpong.name_variables(check)
    assert check.time_limit == 600 and check.perf_variables == {}
    assert options(check) == {
        "--max-time": "0.5",
        "--stall-timeout": "60",
        "--max-bytes": "4194304",
    }
    assert options(fake(module.LARGEST, suite="imb")) == {"-msglog": "0:22", "-time": "0.5"}


@pytest.mark.parametrize("java", [(True,), (False, True), (True, False)])
def test_with_java_all_sizes_are_sent_before(java):
    runtimes = tuple(SimpleNamespace(java=one) for one in java)
    assert options(fake(4 << 20, runtimes=runtimes))["--rehearsals"] == "1"


def test_one_gibibyte_has_a_command_for_each_program():
    assert options(fake()) == {
        "--max-time": "0.5",
        "--stall-timeout": "232",
        "--max-bytes": str(GIB),
        "--min-iterations": "2",
    }
    assert options(fake(suite="imb")) == {"-msglog": "0:30", "-time": "0.5", "-mem": "4"}


@pytest.mark.parametrize(
    "attributes, minutes",
    [
        ({}, 67),
        ({"max_bytes": GIB >> 2}, 24),
        ({"repeats": 1, "spare_repeats": 0}, 21),
        ({"current_partition": SimpleNamespace(extras={"max_time_limit": 1800.0})}, 30),
        ({"current_partition": SimpleNamespace(extras={"max_time_limit": 7200.0})}, 67),
        ({"time_limit": 300.0}, 5),  # of the command line
    ],
)
def test_the_time_is_bounded(attributes, minutes, monkeypatch):
    monkeypatch.setattr(module, "MAX_TIME_LIMIT", Fact("max_time_limit", float))
    check = fake(**attributes)
    pingpong.configure(check)
    assert check.time_limit // 60 == minutes


def test_java_has_no_long_messages_and_says_so():
    with pytest.raises(Skipped, match="Java measures up to 4 MiB"):
        pingpong.configure(fake(runtime=SimpleNamespace(java=True)))


@pytest.mark.parametrize(
    "longest, name",
    [(GIB, "bandwidth_1GiB"), (3 << 22, "bandwidth_8MiB"), (1 << 26, "bandwidth_64MiB")],
)
def test_the_longest_message_has_a_variable(longest, name):
    check = fake(longest)
    pingpong.name_variables(check)
    [(variable, measured)] = check.perf_variables.items()
    assert variable == name and measured.unit == "Gb/s"
    size = 1 << (longest.bit_length() - 1)
    wanted = 8 * size / check.runs[0].rows[size].latency_us / 1000
    assert measured.evaluate() == (name, [pytest.approx(wanted)])


def test_the_peak_keeps_its_meaning():
    """It is that of messages up to 4 MiB, so that a baseline holds with longer ones."""
    [launch] = parse_imb(recorded("pingpong_1GiB"))
    assert max(launch.rows) == GIB and launch.rows[GIB].repetitions == 2
    assert launch.peak_up_to(1 << 16) == 32768 and launch.peak_up_to(GIB) == 524288
