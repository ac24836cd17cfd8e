"""qperf, and ``src/tcp.sh`` around it."""

import re
from dataclasses import dataclass, field

from . import ParseError, positive


@dataclass
class Qperf:
    latency_us: dict[int, float] = field(default_factory=dict)  #: by message size: half round trip
    bandwidth_gbps: dict[int, float] = field(
        default_factory=dict
    )  #: by message size: one way, at the receiver


def parse_qperf(text: str) -> Qperf:
    """``qperf -t 1 -uu -ub -e 6 -vu -oo msg_size:1:4M:*2 HOST tcp_lat tcp_bw``: one pair of a _lat and a _bw test.

    tcp_lat is half the round trip: qperf.c, calc_results(), divides the client's time by the messages that both
    sides received, two per round trip.  tcp_bw is what the receiver got, one way.  qperf (0.4.11) cuts -t to whole
    seconds, and below 1 s it never ends.  Raises ParseError, also on a run that was cut off.
    """
    result = Qperf()
    for test, body in re.findall(r"^(\w+):\n((?:[ \t]+.*\n?)*)", text, re.MULTILINE):
        values = {
            name: (number, unit)
            for name, number, unit in re.findall(
                r"^\s+(\w+)\s+=\s+(\S+)[ \t]*(.*?)\s*$", body, re.MULTILINE
            )
        }
        name = "latency" if test.endswith("_lat") else "bw"
        number, unit = values.get(name, ("", ""))
        size, size_unit = values.get("msg_size", ("", ""))
        scale = {"ns": 1e-3, "bits/sec": 1e-9, "bytes/sec": 8e-9}.get(unit)
        if (
            not number
            or scale is None
            or size_unit != "bytes"
            or not size.isdigit()
            or int(size) == 0
        ):
            raise ParseError(
                f"{test} lacks {name} in ns or bits/sec or msg_size in bytes (it has {values}): "
                "run qperf with -uu -ub -vu"
            )
        measured = result.latency_us if name == "latency" else result.bandwidth_gbps
        if int(size) in measured:
            raise ParseError(f"{test} gives {size} bytes twice: parse one run of qperf at a time")
        measured[int(size)] = positive(number, f"{test} at {size} bytes") * scale
    if not result.latency_us and not result.bandwidth_gbps:
        raise ParseError(
            "no result of qperf in this output: is its server running and its port (-lp) reachable?"
        )
    if unpaired := set(result.latency_us) ^ set(
        result.bandwidth_gbps
    ):  # qperf marks its end by nothing else
        raise ParseError(
            f"sizes {sorted(unpaired)} have only one of latency and bandwidth: the run was cut off, or "
            "one of the two tests was not asked for; run both in one call"
        )
    return result


def parse_tcp(text: str) -> list[Qperf]:
    """Every launch in the output of ``src/tcp.sh``, which marks its begin and end around qperf's words; ParseError."""
    launches = re.split(r"^# nearmetal program: tcp.*\n", text, flags=re.MULTILINE)[1:]
    if not launches:
        raise ParseError(
            "no launch of tcp.sh in this output: see the job's stderr and whether the launcher ran"
        )
    for launch in launches:
        if "# nearmetal complete" not in launch:
            raise ParseError(
                'the output of a launch of tcp.sh stops without "# nearmetal complete": '
                "see the job's stderr and rerun"
            )
    return [parse_qperf(launch) for launch in launches]
