"""Sessions of all layers with known noise, steps, facts and evidence, for tests of explanations."""

import copy
import statistics
from datetime import UTC, datetime

import numpy as np

from nearmetal.model import naming
from tests.support.campaigns import LAB

TIMES = {"startup_latency": 20.0, "latency_1KiB": 25.0}
RATES = {"bandwidth_64KiB": 8.0, "peak_bandwidth": 14.0}
LINK = {**dict.fromkeys(TIMES, "us"), **dict.fromkeys(RATES, "Gb/s")}
#: check: (environments, unit and level of each variable)
CHECKS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, float]]]] = {
    "pingpong %placement=internode": (("openmpi", "mpich"), {}),
    "pingpong %placement=intranode": (("openmpi", "mpich"), {}),
    "tcp": (("gnu",), {}),
    "stream %binding=bound": (
        ("gnu",),
        {"triad_1": ("MB/s", 20000.0), "triad_2": ("MB/s", 36000.0)},
    ),
    "osnoise": (("gnu",), {"share_lost": ("% lost", 0.4)}),
    "collectives": (
        ("openmpi", "mpich"),
        {
            f"{name}_{size}_2": ("us", 30.0)
            for name in ("alltoall", "allreduce", "bcast")
            for size in ("8B", "64KiB")
        },
    ),
    "launch": (("openmpi", "mpich"), {"launch_2": ("s", 0.5), "mpi_init_2": ("s", 0.2)}),
    "npb %benchmark=ep": (("openmpi",), {"mops_S_2": ("Mop/s", 60.0)}),
    "npb %benchmark=cg": (("openmpi",), {"mops_S_2": ("Mop/s", 400.0)}),
}
FACTS = {
    "tcp_congestion": "cubic",
    "tcp_rmem": "4096 131072 6291456",
    "mpi_settings": "none",
    "cpus_allowed": "2",
    "clock_source": "tsc",
    "nic.eth0.qdisc": "noqueue",
    "foreign_processes": "none",
}
#: Evidence of a quiet repeat.
EVIDENCE = {
    "foreign": 0.001,
    "unexplained_shared": 0.003,
    "waited": 0.01,
    "involuntary": 3.0,
    "stolen": 0.0,
    "retransmitted": 0.0001,
    "io_pressure": 0.001,
    "memory_pressure": 0.0,
    "memory_used": 0.05,
    "remote_pages": 0.0,
    "major_faults": 1.0,
}
SIZES = tuple(4**power for power in range(12))  # 1 B to 4 MiB


def variables(check: str) -> dict[str, tuple[str, float]]:
    """Unit and level of each variable of a check."""
    levels = {**TIMES, **RATES}
    if "intranode" in check:
        levels = {name: level / 50 for name, level in TIMES.items()}
        levels |= {name: level * 5 for name, level in RATES.items()}
    return CHECKS[check][1] or {name: (unit, levels[name]) for name, unit in LINK.items()}


def session(number: int, cv: float = 0.01, steps=(), repeats: int = 5, **given) -> dict:
    """Session `number` on one partition.

    :arg steps: ((part of a case's name, environment, variable), factor) each; an empty text stands
        for all.
    :arg given: `facts` and `evidence` of all cases, `nodes` (check -> names), `curve` (size ->
        factor of the time), `failed` (part of a case's name -> text).
    """
    rng = np.random.default_rng(number)
    start = 1.76e9 + 86400 * number
    data = copy.deepcopy(LAB)
    data["session_info"] |= {
        "uuid": f"{number:08d}-layers",
        "time_start_unix": start,
        "time_start": datetime.fromtimestamp(start, UTC).strftime("%Y%m%dT%H%M%S%z"),
        "cmdline": "reframe -c reframe_checks -r --system lab",
    }
    [template] = [
        case
        for case in data["runs"][0]["testcases"]
        if (case["partition"], case["environ"]) == ("native", "mpich")
    ]
    cases = [
        _case(template, check, environ, rng, cv, steps, repeats, given)
        for check, (environs, _) in CHECKS.items()
        for environ in environs
    ]
    data["runs"][0]["testcases"] = cases
    data["session_info"]["num_cases"] = len(cases)
    return data


def _case(template, check, environ, rng, cv, steps, repeats, given) -> dict:
    case = copy.deepcopy(template)
    case |= {"display_name": check, "name": check.replace(" ", ""), "environ": environ}
    case |= {"no_baseline": "", "samples": {}, "within": {}, "perfvalues": {}, "curves": {}}
    case |= naming.PARAMETER.findall(check)
    case["facts"] = {**case["facts"], **FACTS, **given.get("facts", {})}
    case["facts"]["nodes"] = given.get("nodes", {}).get(check, ["native1", "native2"])
    case |= {name: value for name, value in given.get("facts", {}).items() if name in case}
    case["evidence"] = {
        name: [value] * repeats for name, value in {**EVIDENCE, **given.get("evidence", {})}.items()
    }
    case["mtu"] = "eth0: 1500"
    for name, (unit, level) in variables(check).items():
        factor = 1.0
        for wanted, step in steps:
            if all(part in text for part, text in zip(wanted, (check, environ, name))):
                factor *= step
        samples = [float(one) for one in level * factor * np.exp(rng.normal(0, cv, repeats))]
        case["samples"][name] = samples
        key = f"lab:native:{name}"
        case["perfvalues"][key] = [statistics.median(samples), 0, None, None, unit, "pass"]
    if check.startswith("pingpong"):
        curve = given.get("curve", {}) if "internode" in check else {}
        case["curves"]["half_round_trip_us"] = {
            str(size): [
                float(20 * (1 + size / 65536) * curve.get(size, 1.0) * np.exp(one))
                for one in rng.normal(0, cv, repeats)
            ]
            for size in SIZES
        }
    for part, text in given.get("failed", {}).items():
        if part in f"{check} {environ}":
            case |= {"result": "fail", "fail_phase": "sanity", "fail_reason": text, "mtu": ""}
            case |= {"perfvalues": {}, "samples": {}, "curves": {}}
    return case
