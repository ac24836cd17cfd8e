"""Made-up sessions, a gate's report and change points for tests of the report, all derived from the
recorded session."""

import base64
import copy
import gzip
import json
import re
import statistics

from nearmetal import results
from nearmetal.judge.history import ChangePoint
from nearmetal.judge.verdict import VERDICT_NAMES, GateReport, Verdict
from nearmetal.model import metrics, naming
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


PROCESSES = (1, 2, 4, 8)
#: Checks of `of_every_check`: variable -> (level on `native`, unit).
EVERY = {
    "namd": {
        **{f"step_stmv_{n}": (7.0 / n**0.9, "s/step") for n in PROCESSES},
        **{f"efficiency_stmv_{n}": (100 * n**-0.1, "% of ideal") for n in PROCESSES[1:]},
    },
    "vswitch": {
        **{f"mops_S_4_guests_{n}": (900 / n**0.4, "Mop/s") for n in (1, 2, 4)},
        **{f"kept_S_4_guests_{n}": (100 / n**0.4, "% of ideal") for n in (2, 4)},
        **{f"step_stmv_4_guests_{n}": (2 * n**0.4, "s/step") for n in (1, 2, 4)},
        **{f"kept_namd_stmv_4_guests_{n}": (100 / n**0.4, "% of ideal") for n in (2, 4)},
    },
    "collectives": {
        **{
            f"{name}_{size}_{n}": (level * n, "us")
            for name in ("alltoall", "allreduce", "bcast")
            for size, level in (("8B", 9.0), ("64KiB", 60.0))
            for n in PROCESSES[1:]
        },
        **{f"barrier_{n}": (5.0 * n, "us") for n in PROCESSES[1:]},
    },
    "multi_pair": {
        **{f"bandwidth_{n}": (min(12.0 * n, 50.0), "Gb/s") for n in PROCESSES},
        **{f"bidirectional_{n}": (min(20.0 * n, 90.0), "Gb/s") for n in PROCESSES},
        **{f"message_rate_{n}": (0.8 * n, "Mmsg/s") for n in PROCESSES},
    },
    "launch": {
        **{f"launch_{n}": (0.3 + 0.02 * n, "s") for n in PROCESSES},
        **{f"mpi_init_{n}": (0.1 + 0.01 * n, "s") for n in PROCESSES},
    },
    "stream_numa": {
        "copy_local": (41000, "MB/s"),
        "triad_local": (44000, "MB/s"),
        "copy_alone": (20500, "MB/s"),
        "triad_alone": (22000, "MB/s"),
        "copy_remote": (12000, "MB/s"),
        "triad_remote": (13000, "MB/s"),
        "remote_share": (59, "% of ideal"),
    },
    "osnoise": {
        "share_lost": (0.02, "% lost"),
        "worst_core_lost": (0.09, "% lost"),
        "detour_rate": (250, "detours/s"),
        "longest_detour": (31, "us"),
    },
    "fleet_links %traffic=alone": {
        "latency": (22, "us"),
        "worst_latency": (31, "us"),
        "worst_node_latency": (25, "us"),
        "latency_spread": (3, "% spread"),
        "bandwidth": (9.1, "Gb/s"),
        "worst_bandwidth": (7.4, "Gb/s"),
        "worst_node_bandwidth": (8.4, "Gb/s"),
        "bandwidth_spread": (2, "% spread"),
        "bisection": (72, "Gb/s"),
    },
    "fleet_nodes": {
        "memory": (180, "GB/s"),
        "worst_node_memory": (171, "GB/s"),
        "memory_spread": (0.8, "% spread"),
        "processor": (910, "Gflop/s"),
        "worst_node_processor": (880, "Gflop/s"),
        "processor_spread": (0.5, "% spread"),
        "noise": (0.11, "% lost"),
        "worst_node_noise": (0.4, "% lost"),
        "noise_spread": (30, "% spread"),
        "memory_latency": (104, "ns"),
        "worst_node_memory_latency": (110, "ns"),
        "memory_latency_spread": (1, "% spread"),
        "shared_memory": (0.42, "us"),
        "worst_node_shared_memory": (0.47, "us"),
        "shared_memory_spread": (2, "% spread"),
    },
    "fleet_congestion %traffic=incast": {
        "traffic_rate": (96, "Gb/s"),
        "latency": (1.9, "us"),
        "latency_ratio": (1.4, "x time alone"),
        "latency_ratio_mean": (1.7, "x time alone"),
        "latency_ratio_99": (2.1, "x time alone"),
        "latency_ratio_worst": (6.3, "x time alone"),
        "worst_node_latency_ratio": (1.6, "x time alone"),
        "bandwidth": (88, "Gb/s"),
        "bandwidth_ratio": (1.2, "x time alone"),
        "bandwidth_ratio_mean": (1.5, "x time alone"),
        "bandwidth_ratio_99": (1.5, "x time alone"),
        "bandwidth_ratio_worst": (2.2, "x time alone"),
        "worst_node_bandwidth_ratio": (1.3, "x time alone"),
        "allreduce": (5.6, "us"),
        "allreduce_ratio": (1.5, "x time alone"),
        "allreduce_ratio_mean": (1.8, "x time alone"),
        "allreduce_ratio_99": (2.8, "x time alone"),
        "allreduce_ratio_worst": (9.1, "x time alone"),
        "worst_node_allreduce_ratio": (1.5, "x time alone"),
    },
    "storage %place=local": {
        "read_latency": (80, "us"),
        "write_latency": (25, "us"),
        "read_rate": (180000, "IO/s"),
        "write_rate": (90000, "IO/s"),
        "read_bandwidth": (3100, "MB/s"),
        "write_bandwidth": (1900, "MB/s"),
    },
    "ior %place=scratch %api=mpiio": {
        "read_bandwidth": (5100, "MB/s"),
        "write_bandwidth": (3900, "MB/s"),
    },
    "mdtest %place=scratch": {
        f"{name}_rate": (9000.0, "op/s") for name in ("create", "stat", "open", "remove")
    },
    "hpcg": {
        **{f"rating_A_{n}": (1.1 * n**0.8, "Gflop/s") for n in PROCESSES},
        **{f"bandwidth_A_{n}": (8300 * n**0.8, "MB/s") for n in PROCESSES},
        **{f"efficiency_A_{n}": (100 * n**-0.2, "% of ideal") for n in PROCESSES[1:]},
    },
    "rdma %operation=read": {"startup_latency": (1.9, "us"), "peak_bandwidth": (50, "Gb/s")},
    "rdma %operation=write": {"startup_latency": (0.9, "us"), "peak_bandwidth": (52, "Gb/s")},
}


def _curve(check: str, level: float) -> dict:
    sizes = [2**power for power in range(3, 21)]
    curve = {size: (level + size / 4000, level + size / 3900) for size in sizes}
    if check == "collectives":
        return {f"{name}_us_{n}": curve for name in ("alltoall", "bcast") for n in (4, 8)}
    if check.startswith("rdma"):
        latency = "round_trip_us" if check.endswith("read") else "half_round_trip_us"
        rates = {size: (8 * size / us[0] / 1000,) for size, us in curve.items()}
        return {latency: curve, "bandwidth_gbps": rates}
    return {}


def of_every_check() -> results.Session:
    """A session with the checks of EVERY on three partitions. Its values are made up."""
    cases = []
    for place, worse in (("native", 1), ("passthrough", 1.1), ("emulated", 3)):
        for check, variables in EVERY.items():
            environ = (
                "gnu" if check.startswith(("stream", "osnoise", "rdma", "storage")) else "openmpi"
            )
            values = []
            for name, (level, unit) in variables.items():
                value = level * worse if metrics.unit(unit).lower_is_better else level / worse
                samples = tuple(value * factor for factor in (0.99, 1, 1.02))
                values.append(results.Value(check, environ, place, name, value, unit, samples))
            cases.append(
                results.Case(
                    check,
                    place,
                    environ,
                    tuple(values),
                    {},
                    _curve(check, worse),
                    None,
                    None,
                    parameters=naming.parameters(check),
                    link_class=place,
                )
            )
    return results.Session("every-check", "20261124T170000+0000", "lab", tuple(cases))


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
