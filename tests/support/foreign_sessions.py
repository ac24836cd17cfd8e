"""Sessions that checks of others stored, recorded with three versions of ReFrame, and such made
from them (tests/support/foreign/checks.py)."""

import copy
import json
from datetime import UTC, datetime

import numpy as np

from tests.support.paths import RECORDED

VERSIONS = ("4.7.4", "4.9.3", "4.10.4")
#: Reference of each variable: value, lower and upper bound as fractions, unit.
REFERENCES = {
    "copy_bw": (5000, -0.9, None, "MB/s"),
    "a:bw": (0, None, None, "MB/s"),
    "b:bw": (0, None, None, "MB/s"),
    "score": (100, -0.99, None, "score"),
    "marks": (100, None, None, "marks"),
}


def recorded_sessions(version: str) -> list[dict]:
    """All recorded sessions of a version, in the order of their storage."""
    return json.loads((RECORDED / f"foreign_{version}.json").read_text())


def by_command(version: str, words: str) -> dict:
    """The first recorded session whose command line holds these words."""
    return next(
        one for one in recorded_sessions(version) if words in one["session_info"]["cmdline"]
    )


def suites(system: str) -> list[dict]:
    """Sessions of other suites on a system: 20 launches, some more, and some with a sabotage."""
    stored = json.loads((RECORDED / "foreign_suites.json").read_text())
    return [one for one in stored if one["runs"][0]["testcases"][0]["system"] == system]


def expected(number: int = 0, *names: str, runs: int = 20, **factors: float) -> dict:
    """Session `number` of checks with expected failures, of noisy values, times a factor each.

    :arg names: of the checks; none: all.
    """
    data = json.loads((RECORDED / "foreign_expected.json").read_text())
    first, rng = data["runs"][0], np.random.default_rng(number)
    first["testcases"] = [one for one in first["testcases"] if not names or one["name"] in names]
    _start(data["session_info"], number, f"reframe -c expected.py -r --reruns={runs - 1}")
    data["session_info"]["num_cases"] = len(first["testcases"])
    data["runs"] = []
    for index in range(runs):
        run = copy.deepcopy(first)
        run["run_index"] = index
        for case in run["testcases"]:
            for key, entry in case["perfvalues"].items():
                if entry[0] is not None:
                    factor = factors.get(key.rpartition(":")[2], 1.0)
                    entry[0] = float(5000 * factor * np.exp(rng.normal(0, 0.02)))
        data["runs"].append(run)
    return data


def _start(info: dict, number: int, line: str) -> None:
    start = 1.76e9 + 86400 * number
    info |= {
        "uuid": f"{number:08d}-foreign",
        "time_start_unix": start,
        "time_start": datetime.fromtimestamp(start, UTC).strftime("%Y%m%dT%H%M%S%z"),
        "cmdline": line,
    }


def campaign(number: int, version: str = "4.10.4", runs: int = 20, **factors: float) -> dict:
    """Session `number` with `--reruns`, of values near the references, times a factor each."""
    data = by_command(version, "--reruns=9")
    first, rng = data["runs"][0], np.random.default_rng(number)
    line = f"reframe -c checks.py -r -n stream_like --reruns={runs - 1}"
    _start(data["session_info"], number, line)
    data["runs"] = []
    for index in range(runs):
        run = copy.deepcopy(first)
        run["run_index"] = index
        [case] = run["testcases"]
        for key, entry in case["perfvalues"].items():
            name = key.removeprefix("generic:default:")
            typical = 5000 if entry[4] == "MB/s" else 100
            factor = factors.get(name.replace(":", "_"), 1.0)
            entry[0] = float(typical * factor * np.exp(rng.normal(0, 0.02)))
        data["runs"].append(run)
    return data
