"""Made-up sessions, a gate's report and change points for tests of the report, all derived from the
recorded session."""

import base64
import copy
import gzip
import json
import re
import statistics

from nearmetal import results
from nearmetal.gate.verdict import VERDICT_NAMES, GateReport, Verdict
from nearmetal.history import ChangePoint
from tests.support.large_database import TEMPLATE, made_up

STREAM = {
    f"{function}_{threads}": level * min(threads, 4) ** 0.8
    for threads in (1, 2, 4, 8)
    for function, level in (("copy", 20300), ("scale", 17000), ("add", 22700), ("triad", 21600))
}
OTHERS = {  # check: (environments, unit of each variable, level of each variable)
    "pingpong %placement=intranode": (
        ("openmpi", "mpich"),
        ("us", "us", "Gb/s", "Gb/s"),
        {
            "startup_latency": 0.21,
            "latency_1KiB": 0.42,
            "bandwidth_64KiB": 60,
            "peak_bandwidth": 85,
        },
    ),
    "tcp": (
        ("gnu",),
        ("us", "us", "Gb/s", "Gb/s"),
        {
            "startup_latency": 27.2,
            "latency_1KiB": 29,
            "bandwidth_64KiB": 8.7,
            "peak_bandwidth": 14.6,
        },
    ),
    "stream %binding=bound": (("gnu",), ("MB/s",) * len(STREAM), STREAM),
    "stream %binding=unbound": (
        ("gnu",),
        ("MB/s",) * len(STREAM),
        {name: level * 0.93 for name, level in STREAM.items()},
    ),
    "npb %benchmark=cg": (
        ("openmpi", "mpich"),
        ("Mop/s",) * 3 + ("% of ideal",) * 2,
        {
            **{f"mops_S_{count}": 410 * count**0.8 for count in (1, 2, 4)},
            **{f"efficiency_S_{count}": 100 * count**-0.2 for count in (2, 4)},
        },
    ),
}

#: A name that is markup, a template and the end of a string at once.
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&{{ 7*7 }}"


def campaign(testcases: list[dict]) -> list[dict]:
    """The recorded cases, and cases of other checks on the same partitions."""
    made = copy.deepcopy(testcases)
    for check, (environs, units, levels) in OTHERS.items():
        for environ in environs:
            for model in [case for case in testcases if case["environ"] == "mpich"]:
                worse = {
                    "native": 1,
                    "passthrough": 1.07,
                    "emulated": 7 if check == "tcp" else 1.15,
                }[model["partition"]]
                case = copy.deepcopy(model) | {
                    "display_name": check,
                    "name": check,
                    "environ": environ,
                }
                case["samples"] = {
                    name: [level * worse if unit == "us" else level / worse] * 3
                    for (name, level), unit in zip(levels.items(), units)
                }
                case["perfvalues"] = {
                    f"lab:{case['partition']}:{name}": [samples[0], 0, None, None, unit, "pass"]
                    for (name, samples), unit in zip(case["samples"].items(), units)
                }
                made.append(case)
    return made


def sessions(
    count: int = 24, launches: int = 7, whole: bool = True, step_at: int = 16
) -> list[results.Session]:
    """Made-up sessions. From number `step_at` on, the kernel is another, and mpich's latency on
    `emulated` is 12 % higher."""
    template = TEMPLATE.read_bytes()
    made = []
    for number in range(count):
        data = made_up(template, number, launches, whole, campaign)
        for case in data["runs"][0]["testcases"]:
            if number >= step_at:
                case["kernel"] = case["facts"]["kernel"] = "6.19.0-made-up"
                if (case["partition"], case["environ"]) == (
                    "emulated",
                    "mpich",
                ) and "startup_latency" in case["samples"]:
                    case["samples"]["startup_latency"] = [
                        1.12 * sample for sample in case["samples"]["startup_latency"]
                    ]
                    case["perfvalues"]["lab:emulated:startup_latency"][0] *= 1.12
        made.append(results.parse_session(data, "made up"))
    return made


def judged(session: results.Session) -> GateReport:
    """A report that has every verdict."""
    special = {
        ("pingpong %placement=internode", "emulated", "mpich", "startup_latency"): dict(
            name="regressed",
            change=0.123,
            interval=(0.094, 0.151),
            p=2e-7,
            facts={"kernel": ("6.18.44-fc-v595", "6.19.0-made-up")},
        ),
        ("tcp", "emulated", "gnu", "peak_bandwidth"): dict(
            name="regressed", change=-0.062, interval=(-0.081, -0.044), p=4e-6
        ),
        ("tcp", "native", "gnu", "latency_1KiB"): dict(
            name="improved", change=-0.081, interval=(-0.1, -0.06), p=1e-6
        ),
        ("stream %binding=bound", "native", "gnu", "triad_4"): dict(
            name="inconclusive", change=-0.031, interval=(-0.07, 0.012), p=0.02, wanted=14
        ),
        ("stream %binding=bound", "emulated", "gnu", "triad_8"): dict(
            name="not judged", reason="the baseline has no such variable"
        ),
    }
    rows = []
    for value in session.values:
        given = special.get(
            (value.check, value.partition, value.environ, value.variable),
            dict(name="ok", change=0.004, interval=(-0.012, 0.018), p=0.4),
        )
        baseline = (
            value.value / (1 + given.get("change", 0)) if given["name"] != "not judged" else None
        )
        rows.append(
            Verdict(
                value.check,
                value.partition,
                value.environ,
                value.variable,
                value.unit,
                value=value.value,
                finds=0.05,
                baseline=baseline,
                repeats=len(value.samples),
                **given,
            )
        )
    rows.append(
        Verdict(
            "",
            "",
            "",
            "",
            "",
            "incomplete",
            reason="2 of the 41 cases that ReFrame selected are not in the session",
        )
    )
    rows.sort(key=lambda one: VERDICT_NAMES.index(one.name))
    return GateReport(session, tuple(rows), ("skipped by its check: tcp | emulated | gnu",))


def moved(sessions: list[results.Session], step_at: int = 16) -> list[ChangePoint]:
    """The change point of `sessions` at the step."""
    key = "pingpong %placement=internode", "emulated", "mpich", "startup_latency"
    levels = [
        value.value
        for session in sessions
        for value in session.values
        if (value.check, value.partition, value.environ, value.variable) == key
    ]
    before, after = statistics.median(levels[:step_at]), statistics.median(levels[step_at:])
    there = sessions[step_at]
    return [
        ChangePoint(
            *key,
            "us",
            there.uuid,
            there.started,
            before,
            after,
            after / before - 1,
            3e-9,
            {"kernel": ("6.18.44-fc-v595", "6.19.0-made-up")},
        )
    ]


def data(page: str) -> dict:
    """The plots' data in a page."""
    packed = re.search(r'<script type="application/octet-stream" id="data">([^<]*)</script>', page)[
        1
    ]
    return json.loads(gzip.decompress(base64.b64decode(packed)))
