"""Parsers read recorded real output (tests/recorded/README.md), and refuse damaged output."""

import re
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SanityError

from nearmetal.checks import recorded as reading
from nearmetal.checks.parsing import LONGEST_LINE, LONGEST_MESSAGE, MOST_LINES, ParseError
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.parsing.qperf import parse_qperf, parse_tcp
from nearmetal.checks.parsing.stream import Binding, parse_stream
from tests.support.paths import RECORDED
from tests.support.recorded import SIZES, recorded
from tests.support.said import lacking


@pytest.mark.parametrize(
    "name, library",
    [("pingpong_openmpi", "Open MPI v5.0.7"), ("pingpong_mpich", "MPICH Version:      4.2.1")],
)
def test_five_launches_of_our_pingpong(name, library):
    launches = parse_imb(recorded(name))
    assert len(launches) == 5
    for launch in launches:
        assert list(launch.rows) == SIZES and set(launch.batches) == set(SIZES)
        assert launch.facts["mpi_library"].startswith(library)
        assert launch.facts["compiler"] == "gcc 14.2.0 -O2"
        assert re.fullmatch(r"host=\S+ cpu=\d+ allowed_cpus=\d+", launch.facts["rank 1"])
        for size, row in launch.rows.items():
            batches = launch.batches[size]
            assert len(batches) == min(10, row.repetitions) and min(
                batches
            ) <= row.latency_us <= max(batches)
            # The printed MB/s (10^6 byte/s) agrees with the rate from t, within the rounding of t.
            assert launch.bandwidth_gbps(size) * 125 == pytest.approx(
                row.mbytes_per_s, rel=5e-4, abs=0.01
            )


@pytest.mark.parametrize("name", ["imb_openmpi", "imb_mpich"])
def test_imb(name):
    (launch,) = parse_imb(recorded(name))
    assert list(launch.rows) == [0, *SIZES] and not launch.facts
    # The row of 0 bytes does not count.
    assert launch.startup_latency_us == launch.rows[1].latency_us
    assert launch.rows[0].mbytes_per_s == 0


def test_figures_are_those_of_the_text():
    (launch,) = parse_imb(
        "# nearmetal program: pingpong 2\n"
        "# nearmetal mpi_library: a\n"
        "# nearmetal compiler: b\n"
        "# nearmetal rank 0: host=a cpu=0 allowed_cpus=1\n"
        "# nearmetal rank 1: host=b cpu=0 allowed_cpus=1\n"
        "# nearmetal method: warmup=1 iterations=10 min_iterations=2 volume=100 max_time=1 "
        "max_bytes=2\n"
        "# nearmetal settled: after 1 s\n"
        "# #processes = 2\n"
        "#bytes #repetitions t[usec] Mbytes/sec\n"
        "1 2 0.5000 2.00\n"
        "2 2 0.8000 2.50\n"
        "# nearmetal batches: bytes=1 us=0.4,0.6\n"
        "# nearmetal batches: bytes=2 us=0.7,0.9\n"
        "# nearmetal verified: sizes=2\n"
        "# nearmetal complete\n"
    )
    assert launch.startup_latency_us == 0.5
    assert launch.latency_us(2) == 0.8
    assert launch.peak_bandwidth_gbps == launch.bandwidth_gbps(2) == pytest.approx(0.02)
    assert launch.batches[2] == [0.7, 0.9] and launch.batch_gbps(2) == [
        pytest.approx(16 / 700),
        pytest.approx(16 / 900),
    ]
    with pytest.raises(ParseError, match="of 4 bytes"):
        launch.latency_us(4)


def test_launches_of_both_programs_and_words_around_them():
    text = (
        "Loading openmpi/5.0\n"
        + recorded("imb_openmpi")
        + "srun: done\n"
        + recorded("pingpong_mpich")
    )
    assert [bool(launch.facts) for launch in parse_imb(text)] == [False, *[True] * 5]


def without(line: str, text: str) -> str:
    changed, times = re.subn(rf"^.*{line}.*\n", "", text, count=1, flags=re.MULTILINE)
    assert times == 1
    return changed


def put(old: str, new: str, text: str) -> str:
    changed, times = re.subn(old, new, text, count=1, flags=re.MULTILINE)
    assert times == 1
    return changed


OURS, IMB, STREAM, QPERF, TCP = (
    recorded(name) for name in ("pingpong_mpich", "imb_mpich", "stream", "qperf", "tcp_native")
)


def brief(value: str | list[str]) -> str | None:
    """A parameter in the name of a test: its facts, or the length of a long text."""
    if isinstance(value, list):
        return " ".join(value)
    return None if len(value) < 60 else f"{len(value)}_characters"


@pytest.mark.parametrize(
    "text, facts",
    [
        ("", ["it is empty"]),
        ("srun: error: Unable to create step\n", ["srun: error: Unable"]),
        (recorded("pingpong_truncated"), [" 8 bytes", "cut off"]),
        (recorded("pingpong_corrupted"), ["corrupted message of 4096 bytes", "not a row"]),
        (recorded("imb_timeout"), ["4 time-out", "not a row"]),
        (recorded("imb_one_rank"), ["no row"]),
        (without("# nearmetal complete", OURS), ["4194304 bytes", "cut off"]),
        (without("All processes entering", IMB), ["4194304 bytes", "cut off"]),
        (without(r" 4194304 +10 ", IMB), ["missing", "4194304 bytes"]),
        (without(r" 1024 +1000 ", IMB), ["missing", "2048 bytes"]),
        (without(r" 1024 +1000 ", OURS), ["missing", "2048 bytes"]),
        (without(r" 1 +1000 ", OURS), ["22 sizes", "2 bytes instead of 1"]),
        (without("nearmetal batches: bytes=64 ", OURS), ["sizes=23", "batches of 22"]),
        (without("nearmetal verified", OURS), ["pingpong", "not report", "verified"]),
        (put(r"^( +64 +1000 +)\S+", r"\1nan", OURS), ["latency", "64 bytes", "is nan"]),
        (put(r"^( +64 +1000 +)\S+", r"\g<1>0.00", IMB), ["latency", "64 bytes", "is 0.00"]),
        (put(r"^( +64 +1000 +)\S+", r"\1-0.2", IMB), ["latency", "64 bytes", "is -0.2"]),
        (put(r"^( +64 +1000 +)\S+", r"\1***", IMB), ["latency", "64 bytes", "'***'"]),
        (put(r"^( +64) +1000 ", r"\1 0 ", IMB), ["'64 0 ", "not a row"]),
        (put(r"^( +64 .*)$", r"\1\nWARNING: link flapped", IMB), ["'WARNING: link flapped'"]),
        (put(r"^( +64 .*)$", r"\1\n\1", IMB), ["64 bytes after 64"]),
        (put(r" us=\S+", " us=", OURS), ["nearmetal batches: bytes=1 us='", "parts"]),
        (put(r" us=\S+", " us=1,0", OURS), ["part of 1 ", "is 0"]),
        (put(r"Mbytes/sec", "Mbytes/sec Msg/sec", IMB), ["Mbytes/sec Msg/sec'", "only header"]),
    ],
    ids=brief,
)
def test_damaged_pingpong_is_refused(text, facts):
    with pytest.raises(ParseError) as error:
        parse_imb(text)
    assert not lacking(str(error.value), *facts)


def test_a_bad_launch_among_good_ones_is_refused():
    with pytest.raises(ParseError, match="stops after"):
        parse_imb(recorded("pingpong_mpich") + recorded("pingpong_truncated"))


@pytest.mark.parametrize(
    ("parse", "launcher"),
    [(parse_imb, OURS), (parse_imb, IMB), (parse_stream, STREAM), (parse_qperf, QPERF)],
    ids=["ours", "imb", "stream", "qperf"],
)
def test_every_cut_is_noticed(parse, launcher):
    """No parser accepts output that stops early, at any line."""
    whole = parse(launcher)
    lines = launcher.rstrip().splitlines()
    ends = {
        number
        for number, line in enumerate(lines, 1)
        if line.startswith(("# nearmetal complete", "# All processes entering"))
    }
    for kept in range(len(lines)):
        if kept in ends or (launcher is QPERF and kept == len(lines) - 1):
            # A cut between two launches leaves whole launches. The last line of qperf holds only
            # the duration of its last test.
            continue
        try:
            assert parse("\n".join(lines[:kept])) != whole
        except ParseError:
            continue
        pytest.fail(f"{kept} of {len(lines)} lines passed for a whole output")


def test_stream():
    free, pinned = parse_stream(STREAM)
    assert set(free.tables) == {1, 2}
    assert free.tables[1].validated and set(free.tables[1].rates) == {
        "copy",
        "scale",
        "add",
        "triad",
    }
    assert 1e3 < free.tables[2].rates["triad"] < 1e6  # MB/s
    rates = free.tables[2].pass_rates("triad")
    assert len(rates) == 9 and max(rates) == pytest.approx(free.tables[2].rates["triad"])
    assert free.tables[2].bindings[1].allowed == 2 and free.tables[2].bindings[1].cpus == "0-1"
    assert pinned.tables[2].bindings[1] == Binding(cpu=1, allowed=1, cpus="1")
    assert pinned.facts["method"].startswith("ntimes=10")
    assert "four_times_llc=yes" in pinned.facts["arrays"]


@pytest.mark.parametrize(
    "text, facts",
    [
        ("", ["it is empty"]),
        (without("# nearmetal complete", STREAM), ['"# nearmetal complete"', "cut off"]),
        (without("Solution Validates", STREAM), ["1 threads", "lacks"]),
        (without("^Triad", STREAM), ["1 threads", "lacks"]),
        (without("function=Triad", STREAM), ["1 threads", "lacks"]),
        (without("thread=1", STREAM), ["2 threads", "lacks"]),
        (without("nearmetal threads: 1", STREAM), ["thread=0 cpu=0", "before any"]),
        (put(r"threads: 2", "threads: 1", STREAM), ["two tables", "1 threads"]),
        (put(r"threads: 2", "threads: none", STREAM), ["threads", "'none'"]),
        (put(r"thread=1 cpu", "thread=1 gpu", STREAM), ["'thread=1 gpu=0 ", "not the binding"]),
        (put(r"(Triad: +)\S+", r"\1inf", STREAM), ["rate of triad", "is inf"]),
        (put(r"(Triad: +)\S+", r"\1nan", STREAM), ["rate of triad", "is nan"]),
        (put(r"(Triad: +).*", r"\1", STREAM), ["rate of triad", "is ''"]),
        (
            put(r"Solution Validates.*", "Failed Validation: avg error 1e-3", STREAM),
            ["wrong results", "avg error 1e-3"],
        ),
    ],
    ids=brief,
)
def test_damaged_stream_is_refused(text, facts):
    with pytest.raises(ParseError) as error:
        parse_stream(text)
    assert not lacking(str(error.value), *facts)


def test_qperf():
    result = parse_qperf(QPERF)
    assert sorted(result.latency_us) == sorted(result.bandwidth_gbps) == SIZES
    assert 1 < result.latency_us[1] < 1000  # us, over the loopback
    assert 1 < result.bandwidth_gbps[4194304] < 1000  # Gb/s


def test_qperf_units():
    text = (
        "tcp_lat:\n    latency   =  50000 ns\n    msg_size  =  1 bytes\n"
        "tcp_bw:\n    bw   =  125000000 bytes/sec\n    msg_size  =  1 bytes\n"
    )
    assert parse_qperf(text).latency_us == {1: pytest.approx(50)}
    assert parse_qperf(text).bandwidth_gbps == {1: pytest.approx(1)}


@pytest.mark.parametrize(
    "text, facts",
    [
        ("", ["no result of qperf"]),
        (recorded("qperf_no_server"), ["tcp_lat", "lacks latency"]),
        (put(r" ns$", " us", QPERF), ["latency", "'us'", "qperf with -uu"]),
        (
            put(r"1048576 bytes", "1 MiB (1,048,576)", QPERF),
            ["1 MiB (1,048,576)", "qperf with -uu"],
        ),
        (put(r"latency .*", "latency   =   nan ns", QPERF), ["tcp_lat", "1 bytes", "is nan"]),
        (put(r"latency .*", "latency   =   0 ns", QPERF), ["tcp_lat", "1 bytes", "is 0,"]),
        (QPERF + QPERF, ["tcp_lat", "1 bytes twice"]),
        (QPERF[: QPERF.index("tcp_bw")], ["4194304", "only one of", "latency", "bandwidth"]),
    ],
    ids=brief,
)
def test_damaged_qperf_is_refused(text, facts):
    with pytest.raises(ParseError) as error:
        parse_qperf(text)
    assert not lacking(str(error.value), *facts)


def test_tcp_of_two_links():
    [native], [emulated] = parse_tcp(TCP), parse_tcp(recorded("tcp_emulated"))
    assert sorted(native.latency_us) == sorted(emulated.bandwidth_gbps) == [1, 1024, 65536, 4194304]
    assert emulated.latency_us[1] == pytest.approx(85.9623)
    assert emulated.bandwidth_gbps[65536] == pytest.approx(0.625999872)
    assert native.latency_us[1] < emulated.latency_us[1]


def test_tcp_launches_are_kept_apart():
    assert len(parse_tcp("srun: module loaded\n" + TCP + TCP)) == 2


@pytest.mark.parametrize(
    "text, facts",
    [
        ("", ["no launch of tcp.sh"]),
        (without("# nearmetal complete", TCP), ["tcp.sh", '"# nearmetal complete"']),
        (TCP + without("# nearmetal complete", TCP), ["tcp.sh", '"# nearmetal complete"']),
        (put(r"latency .*", "latency   =   nan ns", TCP), ["tcp_lat", "1 bytes", "is nan"]),
        (without("tcp_bw:", TCP), ["'msg_size", "not a line", "tcp_lat"]),
    ],
    ids=brief,
)
def test_damaged_tcp_is_refused(text, facts):
    with pytest.raises(ParseError) as error:
        parse_tcp(text)
    assert not lacking(str(error.value), *facts)


def test_recorded_files_tell_nothing_of_the_machine():
    for path in RECORDED.iterdir():
        assert not re.search(
            r"(?<!\w)/(tmp|work|root|home)/|https?://", path.read_text(errors="replace")
        ), path.name


@pytest.mark.parametrize(
    "text, says",
    [
        (f"a\n{'b' * LONGEST_LINE}c\n", "line 2 of the output has 131073 characters.* 131072"),
        (f"a\nb {'9' * 301} c\n", "a number in line 2 of the output has 301 digits.* 300"),
        ("\n" * (MOST_LINES + 1), f"the output has {MOST_LINES + 1} lines.* {MOST_LINES}"),
    ],
)
def test_what_no_program_prints_is_refused_with_its_measure_and_a_fix(text, says):
    with pytest.raises(ParseError, match=f"{says}.*Fix: "):
        parse_imb(text)


def test_an_error_quotes_the_beginning_and_the_end_of_a_long_line():
    said = str(ParseError(f"begin{'x' * 100_000}end"))
    assert said.startswith("begin") and said.endswith("end") and len(said) <= LONGEST_MESSAGE + 5


def test_an_output_without_end_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "MOST_CHARACTERS", 1000)
    check = SimpleNamespace(stagedir=tmp_path)
    (tmp_path / "out").write_text("x" * 1000)
    assert len(reading.Recorded._read(check, "out")) == 1000
    (tmp_path / "out").write_text("x" * 1001)
    with pytest.raises(SanityError, match=r"out has more than 1000 characters.*Fix: "):
        reading.Recorded._read(check, "out")
