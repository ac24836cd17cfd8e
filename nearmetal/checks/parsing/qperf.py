"""Output of qperf, and of ``src/tcp.sh``, which runs it."""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass, field, replace

from nearmetal.checks.parsing import ParseError, bounded, damaged, foreign, numbers
from nearmetal.checks.parsing.output import END, Launch, Output, each_launch, expect_equal
from nearmetal.checks.parsing.perftest import expect_pairs

#: Units of qperf's results, and their factors to us and Gb/s.
LATENCIES = {"ns": 1e-3}
BANDWIDTHS = {"bits/sec": 1e-9, "bytes/sec": 8e-9}
VALUE = re.compile(r"(\w+) += +(\S+)(?: (\S+))?")
#: Name of a figure -> its number and unit.
Figures = dict[str, tuple[str, str]]


@dataclass
class Qperf(Launch):
    #: Half round trip by message size.
    latency_us: dict[int, float] = field(default_factory=dict)
    #: One way at the receiver, by message size.
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)
    #: Seconds of each test.
    times: list[float] = field(default_factory=list)


@bounded
def parse_qperf(text: str) -> Qperf:
    """The results of ``qperf -t 1 -uu -ub -e 6 -vu -oo msg_size:1:4M:*2 HOST tcp_lat tcp_bw``, or
    of any other pair of a _lat and a _bw test.

    The result tcp_lat is half the round trip: qperf.c, calc_results(), divides the client's time by
    the messages that both sides received, two per round trip. The result tcp_bw is one way,
    as the receiver measures it. qperf (0.4.11) cuts -t to whole seconds, and below 1 s it never
    ends. Raises ParseError on damaged or truncated output.
    """
    run = Qperf({}, {})
    for test, figures in _tests(text):
        _add_test(run, test, figures)
    if not run.latency_us and not run.bandwidth_gbps:
        raise ParseError(
            "no result of qperf in this output: is its server running and its port (-lp) reachable?"
        )
    expect_pairs(run.latency_us, run.bandwidth_gbps)  # qperf prints no last line
    # All tests of a run have the same -t.
    if len(set(run.times)) > 1:
        raise damaged(f"qperf's tests took {sorted(set(run.times))} s instead of equal times")
    run.did = {"sizes": ",".join(map(str, run.latency_us))}
    if run.times:
        run.did["seconds"] = run.times[0]
    return run


def _add_test(run: Qperf, test: str, figures: Figures) -> None:
    quantity, measured, units = "bw", run.bandwidth_gbps, BANDWIDTHS
    if test.endswith("_lat"):
        quantity, measured, units = "latency", run.latency_us, LATENCIES
    number, unit = figures.get(quantity, ("", ""))
    size, size_unit = figures.get("msg_size", ("", ""))
    if unit not in units or size_unit != "bytes" or figures.keys() - {quantity, "msg_size", "time"}:
        raise ParseError(
            f"{test} lacks {quantity} in {' or '.join(units)}, or msg_size in bytes (it has "
            f"{figures}): run qperf with -uu -ub -vu"
        )
    count = numbers.whole(size, f"the message size of {test}", 1)
    if count in measured:
        raise ParseError(f"{test} gives {count} bytes twice: parse one run of qperf at a time")
    measured[count] = numbers.positive(number, f"{test} at {count} bytes") * units[unit]
    if "time" in figures:
        number, unit = figures["time"]
        if unit != "ns":
            raise ParseError(f"{test} gives its time in {unit or 'nothing'}: run qperf with -uu")
        run.times.append(numbers.positive(number, f"the time of {test}") / 1e9)


def _tests(text: str) -> list[tuple[str, Figures]]:
    """Each test's name and its figures. Raises ParseError for any other line between them."""
    tests: list[tuple[str, Figures]] = []
    others = ""
    for line in map(str.rstrip, text.splitlines()):
        name = re.fullmatch(r"(\w+):", line, re.ASCII)
        figure = bool(tests) and line[:1].isspace()
        if others and (name or figure):
            raise foreign(others, "qperf")
        if name:
            if not name[1].endswith(("_lat", "_bw")):
                raise damaged(f"{name[1]} is not a _lat or _bw test of qperf")
            tests.append((name[1], {}))
        elif figure:
            _add_figure(*tests[-1], line.strip())
        elif tests and line and not line.startswith("#"):
            others = others or line  # no error after qperf's output
    return tests


def _add_figure(test: str, figures: Figures, line: str) -> None:
    match = VALUE.fullmatch(line)
    if not match or match[1] in figures:
        raise ParseError(
            f"{line!r} is not a line of {test}, or appears twice: run qperf with -uu -ub -vu"
        )
    figures[match[1]] = match[2], match[3] or ""


def together(runs: list[Qperf]) -> Qperf:
    """One launch of pairs of nodes that measured at once: rates are summed, latencies are means.

    Raises ParseError if the pairs had different sizes or seconds.
    """
    expect_equal(runs, "qperf")
    latencies, rates = {}, {}
    for size in runs[0].latency_us:
        latencies[size] = statistics.fmean(run.latency_us[size] for run in runs)
        rates[size] = sum(run.bandwidth_gbps[size] for run in runs)
    return replace(runs[0], latency_us=latencies, bandwidth_gbps=rates)


@each_launch("tcp", what="launch of tcp.sh", strip=False)
def parse_tcp(output: Output) -> Qperf:
    """Every launch in the output of ``src/tcp.sh``, in order. The script prints a first and a last
    line around qperf's output. Raises ParseError."""
    output.program = "tcp.sh"
    output.facts("program")
    end = output.lines.index(END)
    for line in output.lines[end + 1 :]:
        if re.fullmatch(r"\w+_(lat|bw):", line):
            raise damaged("a test of qperf follows the end of its launch")
    run = parse_qperf("\n".join(output.lines[:end]))
    if len(run.times) != 2 * len(run.latency_us):
        raise damaged("a test of qperf does not report its time")
    return run
