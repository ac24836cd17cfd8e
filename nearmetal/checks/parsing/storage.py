"""Output of ``src/storage.sh``: facts of ours, and fio's JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    agree,
    bounded,
    document,
    facts_of,
    launches_of,
    numbers_of,
    unreadable,
)

#: Job -> the direction of its requests, and the bytes of each.
JOBS = {
    "write_bandwidth": ("write", 1 << 20),
    "read_bandwidth": ("read", 1 << 20),
    "read_latency": ("read", 4096),
    "write_latency": ("write", 4096),
    "read_rate": ("read", 4096),
    "write_rate": ("write", 4096),
}


@dataclass(frozen=True)
class Job:
    """One job of fio."""

    latency_us: float  #: mean time of a request
    rate: float  #: requests a second
    mbytes_per_s: float  #: 1e6 byte/s
    bytes: int  #: that it moved


@dataclass
class Launch:
    """One complete launch."""

    jobs: dict[str, Job] = field(default_factory=dict)  #: by name, as JOBS
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the script reports


def _job(found: dict) -> Job:
    """Raises ParseError, KeyError, TypeError."""
    name = found["jobname"]
    direction, size = JOBS[name]
    if found["error"]:
        raise ParseError(f"fio's job {name} failed with error {found['error']}: see stderr")
    one = found[direction]
    count, moved, milliseconds = one["total_ios"], one["io_bytes"], one["runtime"]
    if not (count > 0 and milliseconds > 0):
        raise ParseError(f"fio's job {name} did nothing: raise storage.seconds and rerun")
    agree(f"the bytes of {name}", moved, count * size, 0)
    agree(f"the rate of {name}", one["iops"], count / milliseconds * 1e3, 0.02 * one["iops"] + 1)
    agree(f"the latencies of {name}", one["lat_ns"]["N"], count, 0)
    if not 0 < one["lat_ns"]["min"] <= one["lat_ns"]["mean"] <= one["lat_ns"]["max"]:
        raise ParseError(f"the latencies of {name} are in no order: digits were damaged; rerun")
    return Job(one["lat_ns"]["mean"] / 1e3, one["iops"], one["bw_bytes"] / 1e6, moved)


def _parse_launch(lines: list[str]) -> Launch:
    if END not in lines:
        raise ParseError(
            'the output of storage stops without "# nearmetal complete": the job was cut off; rerun'
        )
    launch = Launch(facts=facts_of(lines, ("file_system", "method"), "storage"))
    launch.did = numbers_of(launch.facts["method"], "the method of storage", "megabytes seconds")
    text = "\n".join(line for line in lines if not line.startswith("#"))
    try:
        # fio and others may print a sentence before its document, and after it.
        found = document(text[text.index("{") : text.rindex("}") + 1], "fio")
        launch.jobs = {one["jobname"]: _job(one) for one in found["jobs"]}
    except ParseError:
        raise
    except (ValueError, LookupError, TypeError) as error:
        raise unreadable(text, "fio", error) from None
    if list(launch.jobs) != list(JOBS):
        raise ParseError(
            f"fio ran {', '.join(launch.jobs) or 'no job'} instead of {', '.join(JOBS)}: rerun"
        )
    return launch


@bounded
def parse_storage(text: str) -> list[Launch]:
    """Every launch in the output of ``src/storage.sh``, in order.

    Method: fio with direct I/O. A latency is the mean time of a request at depth 1, a rate that at
    depth 32, both of 4 KiB at random places. Bandwidths are of 1 MiB in sequence at depth 8. Raises
    ParseError on truncated or inconsistent figures.
    """
    return [
        _parse_launch(lines)
        for lines in launches_of(text, r"# nearmetal program: storage", "storage", strip=False)
    ]
