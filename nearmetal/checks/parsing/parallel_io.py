"""Output of ``src/parallel_io.sh``: facts of ours, and that of IOR (JSON) or mdtest (a table)."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch

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
#: What IOR writes first.
ACCESSES = ["write", "read"]
#: Our name of a parameter -> IOR's.
PARAMETERS = {
    "api": "api",
    "nodes": "nodes",
    "block": "blockSize",
    "transfer": "transferSize",
    "file_per_process": "filePerProc",
    "fsync": "fsync",
    "reordered": "reorderTasks",
}
MDTEST = {
    "launched": (
        r"^mdtest-(?P<version>\S+) was launched with (?P<processes>\d+) total task\(s\) "
        r"on (?P<nodes>\d+) node\(s\)$"
    ),
    "files": r"^(?P<tasks>\d+) tasks, (?P<files>\d+) files$",
    "-- finished at": r"-- finished at",
}


@dataclass
class ParallelIO(Launch):
    """Values of a file system, by our names."""

    #: MB/s (1e6) of IOR, op/s of mdtest.
    values: dict[str, float]


@each_launch("IOR", START, strip=False)
def parse_ior(output: Output) -> ParallelIO:
    """Every launch of IOR 4 (``-O summaryFormat=JSON``, one write and one read), in order.

    Method: IOR's bandwidth is all bytes over the time from the first open to the last close. Raises
    ParseError on truncated or inconsistent figures.
    """
    launch = ParallelIO(output.facts("file_system"), {}, {})
    output.document(lambda document: _read_ior(launch, document))
    return launch


@each_launch("mdtest", START, strip=False)
def parse_mdtest(output: Output) -> ParallelIO:
    """Every launch of mdtest 4 (``-F``, one iteration), in order.

    Method: mdtest's rate is all files over the time until the slowest process is done. Raises
    ParseError on truncated or inconsistent figures.
    """
    facts = output.facts("file_system")
    figures = output.figures(MDTEST)
    _expect_version("mdtest", figures["version"])
    processes = figures.whole("processes")
    numbers.agree("mdtest's tasks", processes, figures.whole("tasks"), 0)
    return ParallelIO(
        {**facts, "program": f"mdtest {figures['version']}"},
        {
            "processes": processes,
            "nodes": figures.whole("nodes"),
            "files": figures.whole("files") / processes,
        },
        {name: _rate(output, row) for name, row in OPERATIONS.items()},
    )


def _expect_version(program: str, version: str) -> None:
    if version.partition(".")[0] != VERSION:
        raise ParseError(
            f"this is {program} {version}, but {VERSION} is known here: load another version"
        )


def _read_ior(launch: ParallelIO, document: dict) -> None:
    """Add the values of IOR's document. Raises ParseError, and others for another document."""
    _expect_version("IOR", document["Version"])
    launch.facts["program"] = f"IOR {document['Version']}"
    [test] = document["tests"]
    asked, results = test["Parameters"], test["Results"]
    summaries = {summary["operation"]: summary for summary in document["summary"]}
    if list(summaries) != ACCESSES or [result["access"] for result in results] != ACCESSES:
        raise damaged("IOR did not write and then read once")
    tasks = numbers.whole(str(test["Options"]["tasks"]), "IOR's tasks", 1)
    # The last node may have fewer tasks.
    numbers.agree("IOR's tasks", tasks, asked["nodes"] * asked["tasksPerNode"], asked["nodes"] - 1)
    mib = tasks * asked["blockSize"] / MIB
    for result in results:
        access = result["access"]
        launch.values[f"{access}_bandwidth"] = _bandwidth(result, summaries[access], tasks, mib)
    launch.did = {name: asked[key] for name, key in PARAMETERS.items()}
    launch.did["processes"] = tasks


def _bandwidth(result: dict, summary: dict, tasks: int, mib: float) -> float:
    """1e6 byte/s. The figure must follow from bytes and time, and be that of the summary."""
    access = result["access"]
    rate, seconds = result["bwMiB"], result["totalTime"]
    if not (rate > 0 and seconds > 0):
        raise ParseError(f"IOR measured {rate} MiB/s in {seconds} s of {access}: raise the size")
    # The time has four decimals.
    numbers.agree(f"IOR's rate of {access}", rate, mib / seconds, rate * 1e-4 / seconds + 1e-4)
    numbers.agree(f"IOR's rate of {access}", rate, summary["bwMeanMIB"], 1e-4)
    numbers.agree(f"IOR's size of {access}", mib, summary["xsizeMiB"], 1e-4)
    numbers.agree(f"IOR's tasks of {access}", tasks, summary["numTasks"], 0)
    return rate * MIB / 1e6


def _rate(output: Output, row: str) -> float:
    """Files a second. Of one iteration, the most, the least and the mean are equal."""
    figures = output.only(rf"^ *{row} +(\S+) +(\S+) +(\S+) +(\S+)$")
    if not figures:
        raise damaged(f"mdtest gives {row!r} 0 times instead of once")
    what = f"mdtest's rate of {row!r}"
    for text in figures.groups():
        numbers.decimals(text, 3, what)
    most, least, mean = numbers.positives(figures.groups()[:3], what)
    numbers.agree(what, most, least, 0)
    numbers.agree(what, most, mean, 0)
    # mdtest runs one iteration, which cannot deviate.
    if figures[4] != "0.000":
        raise damaged(f"mdtest's {row!r} deviates by {figures[4]} in one iteration")
    return mean
