"""Output of ``src/storage.sh``: facts of ours, and fio's JSON."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch

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

    #: Mean time of a request.
    latency_us: float
    #: Requests a second.
    rate: float
    #: 1e6 byte/s
    mbytes_per_s: float
    #: Bytes that it moved.
    bytes: int


@dataclass
class Storage(Launch):
    #: By name, as JOBS.
    jobs: dict[str, Job]


@each_launch("storage", strip=False)
def parse_storage(output: Output) -> Storage:
    """Every launch in the output of ``src/storage.sh``, in order.

    Method: fio with direct I/O. A latency is the mean time of a request at depth 1, a rate that at
    depth 32, both of 4 KiB at random places. Bandwidths are of 1 MiB in sequence at depth 8. Raises
    ParseError on truncated or inconsistent figures.
    """
    facts = output.facts("file_system", "method")
    did = output.method(facts, "megabytes seconds")
    output.program = "fio"
    jobs = output.document(_jobs)
    if list(jobs) != list(JOBS):
        raise damaged(f"fio ran {', '.join(jobs) or 'no job'} instead of {', '.join(JOBS)}")
    return Storage(facts, did, jobs)


def _jobs(document: dict) -> dict[str, Job]:
    return {job["jobname"]: _job(job) for job in document["jobs"]}


def _job(job: dict) -> Job:
    """Raises ParseError, KeyError, TypeError."""
    name = job["jobname"]
    direction, size = JOBS[name]
    if job["error"]:
        raise ParseError(f"fio's job {name} failed with error {job['error']}: see stderr")
    requests = job[direction]
    count, moved, milliseconds = requests["total_ios"], requests["io_bytes"], requests["runtime"]
    rate, latency = requests["iops"], requests["lat_ns"]
    if not (count > 0 and milliseconds > 0):
        raise ParseError(f"fio's job {name} did nothing: raise storage.seconds and rerun")
    numbers.agree(f"the bytes of {name}", moved, count * size, 0)
    # fio's runtime has whole milliseconds.
    numbers.agree(f"the rate of {name}", rate, count / milliseconds * 1e3, 0.02 * rate + 1)
    numbers.agree(f"the latencies of {name}", latency["N"], count, 0)
    if not 0 < latency["min"] <= latency["mean"] <= latency["max"]:
        raise damaged(f"the latencies of {name} are in no order")
    return Job(latency["mean"] / 1e3, rate, requests["bw_bytes"] / 1e6, moved)
