"""Tests whether the gate finds real regressions and nothing else.

`make drill` records a baseline in the lab and runs campaigns without any change (A/A). Then it
introduces one regression after the other (drills.yaml) and reports what the gate named. The gate
runs as `nearmetal gate --confirm changed`, so a variable that is inconclusive after five repeats
stays inconclusive.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import yaml
from tabulate import tabulate

from bench.__main__ import interval
from nearmetal import files, results
from nearmetal.gate import baseline, confirm, record
from nearmetal.gate import render as verdicts
from nearmetal.gate.session import judge_session, typical_drift
from nearmetal.gate.verdict import GateReport, Verdict
from nearmetal.lab.namespaces import Namespaces
from nearmetal.stats import plan

CHECKOUT = Path(__file__).parents[2]
PLACE = CHECKOUT / "results" / "drill"
SYSTEM = "drill"
#: A copy of the checks with one change; exists only during a drill with a patch.
PATCHED = PLACE / "patched"
COPIED = ("nearmetal", "reframe_checks", "site-config")
LAB = [sys.executable, "-m", "nearmetal.lab"]
#: Selection of a campaign. Each drill changes some of its variables and leaves others unchanged.
SELECTION = [
    "--system",
    SYSTEM,
    "-p",
    "^(mpich|gnu)$",
    "-n",
    "pingpong",
    "-n",
    "stream%binding=bound",
    "-S",
    "repeats=5",
]
PARTITIONS = ("native", "emulated")
FOUND = ("regressed", "improved", "incomplete")


@dataclass(frozen=True)
class Outcome:
    name: str
    seconds: float
    report: GateReport
    wrong: list[str]  #: variables that were missed, or named without cause

    @property
    def named(self) -> list[str]:
        return [label(one) for one in self.report.verdicts if one.name in FOUND]


def label(one: Verdict) -> str:
    return " | ".join(filter(None, [*one.key, one.variable]))


def namespaces(*words: str) -> None:
    subprocess.run([*LAB, *words], check=True, stdout=subprocess.DEVNULL)


def write_system(**environ) -> None:
    """Write the system's file: two of the lab's partitions, and an environment that a drill
    changes."""
    data = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    data |= {
        "name": SYSTEM,
        "partitions": [p for p in data["partitions"] if p["name"] in PARTITIONS],
    }
    if environ:
        data["environments"] = [environ]
    files.write(PLACE / "systems" / f"{SYSTEM}.yaml", yaml.safe_dump(data))


def reframe() -> list[str]:
    """The command that starts ReFrame in the lab, with all its files below PLACE."""
    settings = {
        "RFM_PREFIX": PLACE,
        "RFM_REFERENCE_PREFIX": PLACE / "baselines",
        "NEARMETAL_SYSTEMS_PATH": PLACE / "systems",
        "PYTHONPATH": PATCHED if PATCHED.is_dir() else CHECKOUT,
    }
    return [
        *LAB,
        "exec",
        "env",
        *(f"{name}={value}" for name, value in settings.items()),
        "reframe",
        "--nocolor",
    ]


def campaign() -> results.Session:
    """Run the selection; returns its session, the newest in the database."""
    started = time.time()
    checks = (PATCHED if PATCHED.is_dir() else CHECKOUT) / "reframe_checks"
    done = subprocess.run(
        [*reframe(), "-c", str(checks), "-r", *SELECTION],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    session = results.load_session(PLACE / "results.db", SYSTEM)
    if session.time < started - 1:
        raise SystemExit(f"drill: ReFrame stored no session:\n{done.stdout[-2000:]}")
    return session


def judged(session: results.Session) -> GateReport:
    known = baseline.load(SYSTEM, PLACE / "baselines")
    report = judge_session(session, known)
    return confirm.measure_again(
        report,
        known,
        {},
        PLACE / "results.db",
        reframe(),
        32,
        lambda line: say(f"  {line}"),
        "changed",
    )


def say(line: str) -> None:
    print(line, flush=True)


def introduce(drill: dict) -> None:
    """Make the change."""
    if "lab" in drill:
        Namespaces().run("sh", "-eu", stdin=drill["lab"])
        namespaces("up")  # waits until Slurm has every node again
    if "environ" in drill:
        write_system(
            **fill(
                drill["environ"],
                mpich=str(other_mpich()) if "{mpich}" in str(drill["environ"]) else "",
            )
        )
    if "patch" in drill:
        patch(*drill["patch"])


def patch(name: str, old: str, new: str) -> None:
    """Copy the checks and their package to PATCHED, with the replacement in one file."""
    text = (CHECKOUT / "reframe_checks" / name).read_text()
    if old not in text:
        raise SystemExit(f"drill: {name} does not contain {old!r}: correct drills.yaml")
    for top in COPIED:
        for path in (CHECKOUT / top).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                files.copy(path, PATCHED / path.relative_to(CHECKOUT))
    files.write(PATCHED / "reframe_checks" / name, text.replace(old, new))


def heal() -> None:
    """Undo a change of the lab or of the system's file."""
    write_system()
    namespaces("down")
    namespaces("up")


def fill(value, **names):
    """The value with each {name} replaced in all its texts."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {key: fill(item, **names) for key, item in value.items()}
    return [fill(item, **names) for item in value] if isinstance(value, list) else value


def other_mpich() -> Path:
    """MPICH from the Python package index, whose version differs from that on the nodes."""
    # Not below results/: root must not start programs that the jobs' user can write.
    where = CHECKOUT / ".venv" / "drill-mpich"
    if not (where / "bin" / "mpicc").exists():
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        subprocess.run([where / "bin" / "pip", "install", "--quiet", "mpich==5.0.2"], check=True)
    return where


def wrong(drill: dict, report: GateReport) -> list[str]:
    """Variables that the gate missed, and variables that it named but the drill cannot change."""
    named = {label(one): one.name for one in report.verdicts if one.name in FOUND}
    faults = []
    for word, patterns in drill["must"].items():
        right = {name for name, found in named.items() if found == word or word == "changed"}
        faults += [
            f"not {word}: {pattern}"
            for pattern in patterns
            if not any(re.search(pattern, name) for name in right)
        ]
    faults += [
        f"{word} without cause: {name}"
        for name, word in named.items()
        if not re.search(drill["may"], name)
    ]
    shown = {fact for one in report.verdicts if one.name in FOUND for fact in one.facts or {}}
    return faults + [
        f"fact not shown: {fact}" for fact in drill.get("facts", []) if fact not in shown
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="drill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 all found and nothing else named; 1 otherwise",
    )
    parser.add_argument(
        "--baseline",
        type=int,
        default=plan.BASELINE_SESSIONS,
        help="sessions to record (default: %(default)s)",
    )
    parser.add_argument(
        "--unchanged",
        type=int,
        default=20,
        help="campaigns without a change (default: %(default)s)",
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help="run this drill; may be given several times (default: all)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="record the baseline from the last drill's sessions"
    )
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", sys.executable, "-m", "bench.drill", *sys.argv[1:]])
    drills = yaml.safe_load((Path(__file__).parent / "drills.yaml").read_text())
    if unknown := set(arguments.only or ()) - {drill["name"] for drill in drills}:
        parser.error(
            f"no drill {', '.join(unknown)}; the drills are "
            f"{', '.join(drill['name'] for drill in drills)}"
        )
    namespaces("up")
    if not arguments.keep:
        shutil.rmtree(PLACE, ignore_errors=True)
    prepare(arguments.baseline)
    alarms = [
        outcome
        for number in range(arguments.unchanged)
        if (
            outcome := try_out(
                {
                    "name": f"unchanged {number + 1} of {arguments.unchanged}",
                    "must": {},
                    "may": "(?!)",
                }
            )
        ).wrong
    ]
    outcomes = [
        try_out(drill) for drill in drills if not arguments.only or drill["name"] in arguments.only
    ]
    say("")
    if arguments.unchanged:
        say(
            f"A/A: {len(alarms)} of {arguments.unchanged} unchanged campaigns raised an alarm: "
            f"{100 * len(alarms) / arguments.unchanged:.0f} % (95 % interval "
            f"{interval(len(alarms), arguments.unchanged)} %)"
        )
    say(
        tabulate(
            [
                [
                    outcome.name,
                    "missed" if outcome.wrong else "found",
                    f"{outcome.seconds:.0f} s",
                    verdicts.some(outcome.named),
                ]
                for outcome in outcomes
            ],
            ["drill", "gate", "took", "named"],
        )
    )
    return 1 if alarms or any(outcome.wrong for outcome in outcomes) else 0


def prepare(count: int) -> None:
    """Record the baseline, from this number of sessions."""
    write_system()
    files.make_directory(PLACE / "baselines")
    sessions = (
        list(results.sessions(PLACE / "results.db"))[:count]
        if (PLACE / "results.db").exists()
        else []
    )
    for number in range(len(sessions), count):
        say(f"baseline: session {number + 1} of {count}")
        sessions.append(campaign())
    empty = baseline.Baseline(SYSTEM, PLACE / "baselines" / f"{SYSTEM}.yaml", {})
    known, notes = record.record(sessions, empty, leave_out_noisy=True)
    baseline.save(known)
    for note in notes:
        say(f"baseline: {note}")
    say(f"baseline: {known.variables} variables judged, drift {100 * typical_drift(known):.1f} %")


def try_out(drill: dict) -> Outcome:
    """Introduce a drill's change, run and judge a campaign, and undo the change."""
    started = time.monotonic()
    say(f"drill: {drill.get('what', drill['name'])}")
    try:
        introduce(drill)
        report = judged(campaign())
    finally:
        shutil.rmtree(PATCHED, ignore_errors=True)
        if drill.keys() & {"lab", "environ"}:
            heal()
    outcome = Outcome(drill["name"], time.monotonic() - started, report, wrong(drill, report))
    say(f"  {verdicts.headline(report)}")
    for one in report.verdicts:
        if one.name in FOUND:
            say(
                f"  {one.name}: {label(one)}: "
                f"{verdicts.percent(one.change) if one.change is not None else one.reason}"
            )
    for fault in outcome.wrong:
        say(f"  WRONG: {fault}")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
