"""Campaigns with known noise and steps, made from a recorded session, for tests of the gate."""

import copy
import json
import statistics
from datetime import UTC, datetime

import numpy as np

from tests.support.paths import RECORDED

LAB = json.loads((RECORDED / "session_lab.json").read_text())
#: Launches of Open MPI between emulated nodes went astray when it was recorded: of its latencies,
#: those of the others are left.
ASTRAY, LEFT = ("emulated", "openmpi"), 0.1


def campaign(number: int, cv: float = 0.02, steps=(), launches: int = 5, **facts) -> dict:
    """Session `number` of a campaign, made from the recorded session.

    :arg cv: coefficient of variation of the samples around the recorded values.
    :arg steps: ((part of a case's name, partition, environment, variable), factor) each. An empty
        text stands for all.
    :arg launches: number of samples.
    :arg facts: facts of all cases.
    """
    data, rng = copy.deepcopy(LAB), np.random.default_rng(number)
    start = 1.76e9 + 86400 * number
    data["session_info"] |= {
        "uuid": f"{number:08d}-campaign",
        "time_start_unix": start,
        "time_start": datetime.fromtimestamp(start, UTC).strftime("%Y%m%dT%H%M%S%z"),
        "cmdline": "reframe -c reframe_checks -r --system lab -n pingpong%placement=internode",
    }
    for case in data["runs"][0]["testcases"]:
        case.update(facts, no_baseline="")
        case["samples"] = {}
        for key, entry in case["perfvalues"].items():
            name = key.rsplit(":", 1)[1]
            where = case["display_name"], case["partition"], case["environ"], name
            factor = 1.0
            if where[1:3] == ASTRAY and "latency" in name:
                factor = LEFT
            for wanted, step in steps:
                if all(part in text for part, text in zip(wanted, where)):
                    factor *= step
            values = entry[0] * factor * np.exp(rng.normal(0, cv, launches))
            case["samples"][name] = [float(value) for value in values]
            entry[0] = statistics.median(case["samples"][name])
    data["session_info"]["num_cases"] = len(data["runs"][0]["testcases"])
    return data


def with_medians(data: dict) -> dict:
    """The session with each value set to the median of its changed samples."""
    for case in data["runs"][0]["testcases"]:
        for key, entry in case["perfvalues"].items():
            samples = case.get("samples", {}).get(key.rsplit(":", 1)[-1])
            if samples:
                entry[0] = statistics.median(samples)
    return data


def only(data: dict, chosen) -> dict:
    """The session with the cases for which `chosen` holds."""
    data = copy.deepcopy(data)
    data["runs"][0]["testcases"] = [case for case in data["runs"][0]["testcases"] if chosen(case)]
    return data


def disturbed(cases: list[dict], node: str = "n1", again: bool = False) -> None:
    """Note in stored cases that something else used a node in the first repeat.

    :arg again: the repeat ran again, so that its sample does not count.
    """
    for case in cases:
        case["disturbed"] = [[1, again, ["waited", 0.4, f"the ranks waited 40 % on {node}"]]]
