"""Output of ``src/parallel_io.sh``: facts of ours, and that of IOR (JSON) or mdtest (a table)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    agree,
    bounded,
    decimals,
    document,
    facts_of,
    launches_of,
    positive,
    unreadable,
    whole,
)

START = r"# nearmetal program: parallel_io"
#: Version of IOR and mdtest whose output is read. Version 3 means other things by its rates.
VERSION = "4"
MIB = 1 << 20
#: Our name -> mdtest's row.
OPERATIONS = {
    "create_rate": "File creation",
    "stat_rate": "File stat",
    "open_rate": "File read",
    "remove_rate": "File removal",
}


@dataclass
class Launch:
    """One complete launch: values of a file system, by our names."""

    values: dict[str, float] = field(default_factory=dict)  #: MB/s (1e6) of IOR, op/s of mdtest
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the program reports


@bounded
def parse_ior(text: str) -> list[Launch]:
    """Every launch of IOR 4 (``-O summaryFormat=JSON``, one write and one read), in order.

    Method: IOR's bandwidth is all bytes over the time from the first open to the last close. Raises
    ParseError on truncated or inconsistent figures.
    """
    return [_parse_ior(lines) for lines in launches_of(text, START, "IOR", strip=False)]


@bounded
def parse_mdtest(text: str) -> list[Launch]:
    """Every launch of mdtest 4 (``-F``, one iteration), in order.

    Method: mdtest's rate is all files over the time until the slowest process is done. Raises
    ParseError on truncated or inconsistent figures.
    """
    return [_parse_mdtest(lines) for lines in launches_of(text, START, "mdtest", strip=False)]


def _begun(lines: list[str], program: str) -> Launch:
    if END not in lines:
        raise ParseError(
            f'the output of {program} stops without "# nearmetal complete": the job was cut off; '
            "rerun"
        )
    return Launch(facts=facts_of(lines, ("file_system",), program))


def _expect_version(program: str, version: str) -> None:
    if version.partition(".")[0] != VERSION:
        raise ParseError(
            f"this is {program} {version}, but {VERSION} is known here: load another version"
        )


def _parse_ior(lines: list[str]) -> Launch:
    launch = _begun(lines, "IOR")
    text = "\n".join(line for line in lines if not line.startswith("#"))
    try:
        found = document(text[text.index("{") : text.rindex("}") + 1], "IOR")
        _expect_version("IOR", found["Version"])
        [test] = found["tests"]
        asked, results = test["Parameters"], test["Results"]
        summary = {one["operation"]: one for one in found["summary"]}
        if [one["access"] for one in results] != ["write", "read"] or list(summary) != [
            "write",
            "read",
        ]:
            raise ParseError("IOR did not write and then read once: lines were lost; rerun")
        tasks = whole(str(test["Options"]["tasks"]), "IOR's tasks", 1)
        total = tasks * asked["blockSize"] / MIB
        for one in results:
            access = one["access"]
            launch.values[f"{access}_bandwidth"] = _bandwidth(one, summary[access], tasks, total)
        agree("IOR's tasks", tasks, asked["nodes"] * asked["tasksPerNode"], asked["nodes"] - 1)
        launch.did = {
            "api": asked["api"],
            "processes": tasks,
            "nodes": asked["nodes"],
            "block": asked["blockSize"],
            "transfer": asked["transferSize"],
            "file_per_process": asked["filePerProc"],
            "fsync": asked["fsync"],
            "reordered": asked["reorderTasks"],
        }
    except ParseError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise unreadable(text, "IOR", error) from None
    launch.facts["program"] = f"IOR {found['Version']}"
    return launch


def _bandwidth(result: dict, summary: dict, tasks: int, total: float) -> float:
    """1e6 byte/s. The figure must follow from bytes and time, and be that of the summary."""
    access = result["access"]
    rate, seconds = result["bwMiB"], result["totalTime"]
    if not (rate > 0 and seconds > 0):
        raise ParseError(f"IOR measured {rate} MiB/s in {seconds} s of {access}: raise the size")
    # The time has four decimals.
    agree(f"IOR's rate of {access}", rate, total / seconds, rate * 1e-4 / seconds + 1e-4)
    agree(f"IOR's rate of {access}", rate, summary["bwMeanMIB"], 1e-4)
    agree(f"IOR's size of {access}", total, summary["xsizeMiB"], 1e-4)
    agree(f"IOR's tasks of {access}", tasks, summary["numTasks"], 0)
    return rate * MIB / 1e6


def _parse_mdtest(lines: list[str]) -> Launch:
    launch = _begun(lines, "mdtest")
    text = "\n".join(lines)
    begun = re.findall(
        r"^mdtest-(\S+) was launched with (\d+) total task\(s\) on (\d+) node\(s\)$", text, re.M
    )
    counted = re.findall(r"^(\d+) tasks, (\d+) files$", text, re.M)
    if len(begun) != 1 or len(counted) != 1 or "-- finished at" not in text:
        raise ParseError(
            "mdtest began or ended not exactly once: it was cut off, or lines were mixed; see the "
            "job's stderr"
        )
    version, tasks, nodes = begun[0]
    _expect_version("mdtest", version)
    processes = whole(tasks, "mdtest's tasks", 1)
    agree("mdtest's tasks", processes, whole(counted[0][0], "mdtest's tasks", 1), 0)
    files = whole(counted[0][1], "mdtest's files", 1)
    launch.values = {name: _rate(text, row) for name, row in OPERATIONS.items()}
    launch.did = {
        "processes": processes,
        "nodes": whole(nodes, "mdtest's nodes", 1),
        "files": files / processes,
    }
    launch.facts["program"] = f"mdtest {version}"
    return launch


def _rate(text: str, row: str) -> float:
    """Files a second. Of one iteration, the most, the least and the mean are equal."""
    found = re.findall(rf"^ *{row} +(\S+) +(\S+) +(\S+) +(\S+)$", text, re.M)
    if len(found) != 1:
        raise ParseError(f"mdtest gives {row!r} {len(found)} times instead of once: rerun")
    *rates, deviation = found[0]
    for rate in found[0]:
        decimals(rate, 3, f"mdtest's rate of {row!r}")
    most, least, mean = (positive(rate, f"mdtest's rate of {row!r}") for rate in rates)
    agree(f"mdtest's rate of {row!r}", most, least, 0)
    agree(f"mdtest's rate of {row!r}", most, mean, 0)
    if deviation != "0.000":
        raise ParseError(f"mdtest's {row!r} deviates by {deviation} in one iteration: rerun")
    return mean
