"""Writes a large results database with made-up values, for tests of speed and of the report.

    python -m tests.support.large_database FILE --values 1000000 --launches 5

The sessions have the cases of tests/recorded/session_lab.json. Each sample is the recorded median
times lognormal noise of 3 %. With --whole, each case also has the curves and the parts of samples
that the checks store. Prints the numbers of sessions, of samples, and of all values.
"""

import argparse
import functools
import sqlite3
import statistics
import sys
from pathlib import Path

import numpy as np
import orjson

from tests.support.paths import RECORDED

TEMPLATE = RECORDED / "session_lab.json"
DAY = 86400
NOISE, PARTS = 0.03, 10
SIZES = [2**exponent for exponent in range(23)]


def made_up(template: bytes, number: int, launches: int, whole: bool = False, cases=None) -> dict:
    """Session `number` as ReFrame stores it.

    :arg launches: number of samples of a variable.
    :arg whole: whether cases have curves and parts too.
    :arg cases: function that changes the template's test cases before values are made up.
    """
    data = orjson.loads(template)
    random = np.random.default_rng(number)
    info = data["session_info"]
    info |= {
        "uuid": f"{number:08x}-made-up",
        "time_start_unix": info["time_start_unix"] + number * DAY,
        "time_end_unix": info["time_end_unix"] + number * DAY,
    }
    info["time_start"] = (
        np.datetime64(int(info["time_start_unix"]), "s").item().strftime("%Y%m%dT%H%M%S+0000")
    )
    testcases = data["runs"][0]["testcases"]
    if cases:
        testcases[:] = cases(testcases)
        info["num_cases"] = len(testcases)
    for case in testcases:
        around = {name: statistics.median(samples) for name, samples in case["samples"].items()}
        for name, level in around.items():
            samples = (level * np.exp(NOISE * random.standard_normal(launches))).round(4)
            case["samples"][name] = samples.tolist()
            case["perfvalues"][f"{case['system']}:{case['partition']}:{name}"][0] = float(
                np.median(samples)
            )
            if whole:
                case.setdefault("within", {})[name] = (
                    (samples[:, None] * np.exp(0.05 * random.standard_normal((launches, PARTS))))
                    .round(4)
                    .tolist()
                )
        if whole and "startup_latency" in around:
            case["curves"] = {"half_round_trip_us": curve(around, random, launches)}
    return data


def of_cases(count: int):
    """Function for `made_up`: `count` cases, as of one check with a parameter of many values."""
    return functools.partial(_clones, count, " %tag={}")


def of_nodes(count: int):
    """Function for `made_up`: the check of one environment on each of `count` nodes, as with
    `--distribute`."""
    return functools.partial(_clones_of_one, count, " %.part=lab:native %.nid=n{}")


def _clones(count: int, suffix: str, testcases: list[dict]) -> list[dict]:
    """The test cases under as many names as make `count` of them."""
    made = []
    for number in range(-(-count // len(testcases))):
        made += [_named(case, suffix.format(number)) for case in testcases]
    return made[:count]


def _clones_of_one(count: int, suffix: str, testcases: list[dict]) -> list[dict]:
    return _clones(count, suffix, testcases[:1])


def _named(case: dict, suffix: str) -> dict:
    """A copy of the test case whose name has a suffix."""
    name = case["display_name"] + suffix
    copied = {key: dict(case[key]) for key in ("samples", "facts")}
    copied["perfvalues"] = {key: list(entry) for key, entry in case["perfvalues"].items()}
    return {**case, **copied, "display_name": name, "name": name}


def of_sessions(path: Path, sessions: int, cases, launches: int = 7) -> Path:
    """Write a database of so many sessions of cases that `of_cases` or `of_nodes` makes."""
    template = TEMPLATE.read_bytes()
    return store(path, (made_up(template, at, launches, cases=cases) for at in range(sessions)))


def curve(around: dict[str, float], random, launches: int) -> dict[str, list[float]]:
    """Samples of the time by message size, from the model latency + size / bandwidth."""
    latency, gbps = around["startup_latency"], around["peak_bandwidth"]
    return {
        str(size): (
            (latency + 8 * size / gbps / 1000) * np.exp(NOISE * random.standard_normal(launches))
        )
        .round(4)
        .tolist()
        for size in SIZES
    }


def store(path: Path, sessions) -> Path:
    """Write a database with these sessions, as ReFrame does."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS sessions(uuid TEXT PRIMARY KEY, session_start_unix REAL, "
            "session_end_unix REAL, json_blob TEXT, report_file TEXT)"
        )
        connection.execute(
            "CREATE TABLE IF NOT EXISTS testcases("
            "name TEXT, system TEXT, partition TEXT, environ TEXT, "
            "job_completion_time_unix REAL, session_uuid TEXT, uuid TEXT)"
        )
        for data in sessions:
            info = data["session_info"]
            connection.execute(
                "INSERT INTO sessions VALUES(?, ?, ?, ?, ?)",
                (
                    info["uuid"],
                    info["time_start_unix"],
                    info["time_end_unix"],
                    orjson.dumps(data).decode(),
                    "",
                ),
            )
            columns = ("name", "system", "partition", "environ", "job_completion_time_unix")
            connection.executemany(
                "INSERT INTO testcases VALUES(?, ?, ?, ?, ?, ?, ?)",
                (
                    (*map(case.get, columns), info["uuid"], case.get("uuid"))
                    for run in data.get("runs", [])
                    for case in run["testcases"]
                ),
            )
    return path


def large(path: Path, values: int, launches: int, whole: bool = False) -> tuple[int, int, int]:
    """Write at least `values` samples. Returns the numbers of sessions, of samples, and of all
    values."""
    template = TEMPLATE.read_bytes()
    each = [
        len(case["samples"]) * launches for case in orjson.loads(template)["runs"][0]["testcases"]
    ]
    count = -(-values // sum(each))
    store(path, (made_up(template, number, launches, whole) for number in range(count)))
    extra = len(each) * (len(SIZES) + 4 * PARTS) * launches if whole else 0
    return count, count * sum(each), count * (sum(each) + extra)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--values", type=int, default=1_000_000)
    parser.add_argument("--launches", type=int, default=5)
    parser.add_argument("--whole", action="store_true")
    arguments = parser.parse_args()
    if arguments.file.exists():
        sys.exit(f"{arguments.file}: exists already; name a new file")
    print(
        "{} sessions, {} samples, {} numbers".format(
            *large(arguments.file, arguments.values, arguments.launches, arguments.whole)
        )
    )
