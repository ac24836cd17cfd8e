"""Output of qperf, and of ``src/tcp.sh``, which runs it."""

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    bounded,
    facts_of,
    foreign,
    launches_of,
    positive,
    whole,
)


@dataclass
class Qperf:
    """One complete launch."""

    latency_us: dict[int, float] = field(default_factory=dict)  #: half round trip by message size
    bandwidth_gbps: dict[int, float] = field(
        default_factory=dict
    )  #: one way at the receiver, by message size
    times: list[float] = field(default_factory=list)  #: seconds of each test
    did: dict = field(default_factory=dict)  #: parameters that the program reports


@bounded
def parse_qperf(text: str) -> Qperf:
    """The results of ``qperf -t 1 -uu -ub -e 6 -vu -oo msg_size:1:4M:*2 HOST tcp_lat tcp_bw``, or
    of any other pair of a _lat and a _bw test.

    The result tcp_lat is half the round trip: qperf.c, calc_results(), divides the client's time by
    the messages that both sides received, two per round trip. The result tcp_bw is one way,
    as the receiver measures it. qperf (0.4.11) cuts -t to whole seconds, and below 1 s it never
    ends. Raises ParseError on damaged or truncated output.
    """
    result = Qperf()
    for test, values in _tests(text):
        quantity = "latency" if test.endswith("_lat") else "bw"
        number, quantity_unit = values.get(quantity, ("", ""))
        size, size_unit = values.get("msg_size", ("", ""))
        scale = {"ns": 1e-3, "bits/sec": 1e-9, "bytes/sec": 8e-9}.get(quantity_unit)
        known = {quantity, "msg_size", "time"}
        if not number or scale is None or size_unit != "bytes" or set(values) - known:
            raise ParseError(
                f"{test} lacks {quantity} in ns or bits/sec, or msg_size in bytes (it has "
                f"{values}): run qperf with -uu -ub -vu"
            )
        if (scale == 1e-3) != (quantity == "latency"):
            raise ParseError(
                f"{test} gives its {quantity} in {quantity_unit}: lines were damaged; rerun"
            )
        measured = result.latency_us if quantity == "latency" else result.bandwidth_gbps
        count = whole(size, f"the message size of {test}", 1)
        if count in measured:
            raise ParseError(f"{test} gives {count} bytes twice: parse one run of qperf at a time")
        measured[count] = positive(number, f"{test} at {count} bytes") * scale
        if "time" in values:
            result.times.append(_seconds(test, *values["time"]))
    if not result.latency_us and not result.bandwidth_gbps:
        raise ParseError(
            "no result of qperf in this output: is its server running and its port (-lp) reachable?"
        )
    if unpaired := set(result.latency_us) ^ set(result.bandwidth_gbps):  # qperf prints no last line
        raise ParseError(
            f"sizes {sorted(unpaired)} have only one of latency and bandwidth: the run was cut "
            "off, or one of the two tests was not requested; run both with one command"
        )
    if len(set(result.times)) > 1:
        raise ParseError(
            f"qperf's tests took {sorted(set(result.times))} s instead of equal times: digits "
            "were damaged; rerun"
        )
    result.did = {
        "sizes": ",".join(map(str, result.latency_us)),
        **({"seconds": result.times[0]} if result.times else {}),
    }
    return result


VALUE = re.compile(r"(\w+) += +(\S+)(?: (\S+))?")


def _tests(text: str) -> list[tuple[str, dict[str, tuple[str, str]]]]:
    """Each test's name and its figures with their units. Raises ParseError for any other line
    between them."""
    tests: list[tuple[str, dict]] = []
    others = ""
    for line in map(str.rstrip, text.splitlines()):
        name = re.fullmatch(r"(\w+):", line, re.ASCII)
        if name:
            _expect_none(others)
            if not name[1].endswith(("_lat", "_bw")):
                raise ParseError(
                    f"{name[1]} is not a _lat or _bw test of qperf: lines were damaged; rerun"
                )
            tests.append((name[1], {}))
        elif tests and line.strip() and not line.startswith("#"):
            if not line[0].isspace():
                others = others or line  # no error after qperf's output
                continue
            _expect_none(others)
            value = VALUE.fullmatch(line.strip())
            if not value or value[1] in tests[-1][1]:
                raise ParseError(
                    f"{line.strip()!r} is not a line of {tests[-1][0]}, or appears twice: run "
                    "qperf with -uu -ub -vu"
                )
            tests[-1][1][value[1]] = value[2], value[3] or ""
    return tests


def _expect_none(others: str) -> None:
    if others:
        raise foreign(others, "qperf")


def _seconds(test: str, number: str, time_unit: str) -> float:
    if time_unit != "ns":
        raise ParseError(f"{test} gives its time in {time_unit or 'nothing'}: run qperf with -uu")
    return positive(number, f"the time of {test}") / 1e9


@bounded
def parse_tcp(text: str) -> list[Qperf]:
    """Every launch in the output of ``src/tcp.sh``, in order. The script prints a first and a last
    line around qperf's output. Raises ParseError."""
    launches = launches_of(text, r"# nearmetal program: tcp", "launch of tcp.sh", strip=False)
    runs = []
    for lines in launches:
        if END not in lines:
            raise ParseError(
                'the output of a launch of tcp.sh stops without "# nearmetal complete": '
                "see the job's stderr and rerun"
            )
        facts_of(lines, ("program",), "tcp.sh")
        after = lines[lines.index(END) + 1 :]
        if any(re.fullmatch(r"\w+_(lat|bw):", line) for line in after):
            raise ParseError(
                "a test of qperf follows the end of its launch: lines were lost; rerun"
            )
        run = parse_qperf("\n".join(lines[: lines.index(END)]))
        missing = [size for size in run.latency_us if len(run.times) != 2 * len(run.latency_us)]
        if missing:
            raise ParseError("a test of qperf does not report its time: lines were lost; rerun")
        runs.append(run)
    return runs
