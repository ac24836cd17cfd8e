"""Does `nearmetal explain` name the right cause?

Each cause of causes.yaml is introduced alone, twice by default. One campaign follows, and the gate
judges it against a baseline of the same lab. Before them, campaigns without a change show whether
something is explained that did not happen.

A third of the causes is held out of the making of the rules: nobody may change a rule after a look
at what these show. The split follows from the names alone.
"""

import hashlib
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from tabulate import tabulate

from bench.__main__ import interval
from bench.drill import __main__ as drill
from nearmetal import results
from nearmetal.judge import render
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.explain.rules import UNKNOWN
from nearmetal.judge.verdict import GateReport, Likely
from nearmetal.lab.namespaces import LabError
from nearmetal.locks import images_lock
from nearmetal.util import files, own

CAUSES = Path(__file__).with_name("causes.yaml")
#: Checks of a campaign: one of each layer.
CHECKS = (
    *("tcp", "pingpong", "collectives", "stream%binding=bound", "osnoise", "launch"),
    "npb%benchmark=ep",
)
ENVIRONS = "^(openmpi|mpich|gnu)$"
PARTITION = "native"
#: Sessions of the baseline, and repeats of each session: together the fewest of a baseline.
SESSIONS, REPEATS = 4, 5
#: TCP with two sizes: each takes some two seconds of a repeat.
QUICK = ("-S", "tcp.sizes=1024,65536")
#: Answers, from the best.
FIRST, THIRD, LATER, DONT_KNOW, WRONG, SILENT, MOVED, FAILED = ANSWERS = (
    *("right", "among three", "later", "don't know", "wrong", "not found", "not comparable"),
    "failed",
)
#: Least part of the drills whose right cause comes first.
ACCEPTED = 0.9


@dataclass(frozen=True)
class Outcome:
    name: str
    held_out: bool
    answer: str  #: one of ANSWERS
    named: tuple[str, ...]  #: causes in their order
    seconds: float


def held_out(names: Iterable[str]) -> list[str]:
    """The third of the names with the smallest digests, in the order of their digests."""
    order = sorted(names, key=lambda name: hashlib.sha256(name.encode()).hexdigest())
    return order[: len(order) // 3]


def load() -> list[dict]:
    """The drills of causes.yaml."""
    return yaml.safe_load(CAUSES.read_text())


def run(
    only: list[str] | None, unchanged: int, times: int, keep: bool, say, spread: float = 0.0
) -> int:
    """0 if the explanation is as good as promised.

    :arg spread: least number of seconds between the starts of the baseline's sessions.
    """
    chosen, held = choose(only)
    say(f"held out of the making of the rules: {', '.join(held)}")
    chosen, left_out = possible(chosen)
    for name in left_out:
        say(f"left out, since this machine cannot have it: {name}")
    record(chosen, keep, spread)
    explained = [quiet(number, unchanged, say) for number in range(unchanged)]
    outcomes = [try_out(one, one["name"] in held, say) for one in chosen for _ in range(times)]
    say("")
    say(summary(outcomes, explained))
    return 0 if accepted(outcomes, explained) else 1


def run_again(only: list[str] | None, say) -> int:
    """As `run`, of the campaigns that the last run kept, by the present rules and without the lab.

    A campaign that was measured twice counts once.
    """
    chosen, held = choose(only)
    outcomes = []
    for one in chosen:
        if kept(one["name"]).exists():
            started = time.monotonic()
            report = report_of(kept(one["name"]))
            outcomes.append(judged(one, one["name"] in held, report, started, say))
    if not outcomes:
        raise SystemExit(f"drill: no campaign of these is kept in {kept('').parent}; run it first")
    say("")
    say(summary(outcomes, []))
    return 0 if accepted(outcomes, []) else 1


def choose(only: list[str] | None) -> tuple[list[dict], list[str]]:
    """The drills of these names, or all, and the names that are held out."""
    drills = load()
    names = [one["name"] for one in drills]
    if unknown := set(only or ()) - set(names):
        raise SystemExit(f"drill: no cause {', '.join(unknown)}; they are {', '.join(names)}")
    os.environ["NEARMETAL_SYSTEMS_PATH"] = str(drill.PLACE / "systems")
    os.environ["RFM_REFERENCE_PREFIX"] = str(drill.PLACE / "baselines")
    return [one for one in drills if not only or one["name"] in only], held_out(names)


def possible(drills: list[dict]) -> tuple[list[dict], list[str]]:
    """The drills that this machine can have, and the names of the others."""
    found, left_out = [], []
    for one in drills:
        try:
            if "needs" in one:
                drill.Namespaces().run("sh", "-eu", stdin=filled(one)["needs"])
            found.append(one)
        except LabError:
            left_out.append(one["name"])
    return found, left_out


def filled(one: dict) -> dict:
    """A drill with all {names} of its scripts and its environment replaced."""
    software = {
        name: str(drill.other_mpi(name))
        for name in ("mpich", "openmpi")
        if f"{{{name}}}" in str(one.get("environ"))
    }
    images = str(images_lock.directory())
    named = {name: one.get(name, "") for name in ("switches", "controller")}
    return drill.fill(one, images=images, **named, **software)


def selection(one: dict) -> dict:
    """What a drill's campaign runs: checks, partition and environments."""
    return {
        "checks": list(one.get("checks", CHECKS)),
        "partition": one.get("partition", PARTITION),
        "environs": one.get("environs", ENVIRONS),
    }


def record(drills: Sequence[dict], keep: bool, spread: float = 0.0) -> None:
    """Record the baseline from sessions of each selection.

    Their database is kept, since the gate also looks at the sessions between: a drill's campaign
    may not see those of other drills.
    """
    if not keep:
        shutil.rmtree(drill.PLACE, ignore_errors=True)
    elif recorded().exists():
        copy(recorded(), drill.PLACE / "results.db")
    drill.prepare(SESSIONS, REPEATS, selections(drills), QUICK, spread)
    copy(drill.PLACE / "results.db", recorded())


def copy(source: Path, path: Path) -> None:
    """Copy a database of the drill, with a missing directory above it."""
    with own.as_owner(drill.PLACE):
        files.copy(source, path)


def recorded() -> Path:
    """The database with the baseline's sessions alone."""
    return drill.PLACE / "recorded.db"


def kept(name: str) -> Path:
    """The database with the baseline's sessions and the last campaign of a drill."""
    return drill.PLACE / "campaigns" / f"{name}.db"


def selections(drills: Sequence[dict]) -> list[dict]:
    """The selections whose cases are those of all drills, one for each partition and environment
    pattern."""
    found: dict[tuple[str, str], dict] = {}
    for one in (selection(each) for each in drills):
        key = one["partition"], one["environs"]
        checks = [*found.get(key, {"checks": []})["checks"], *one["checks"]]
        found[key] = {**one, "checks": list(dict.fromkeys(checks))}
    return list(found.values())


def quiet(number: int, unchanged: int, say: Callable[[str], None]) -> bool:
    """Whether a campaign without a change is explained."""
    say(f"unchanged {number + 1} of {unchanged}")
    report = explained_now({"name": "unchanged"})
    for one in report.causes:
        say(f"  {render.likely_line(one)}")
    return names_a_cause(report)


def names_a_cause(report: GateReport) -> bool:
    """Whether the explanation is more than "don't know"."""
    return any(one.name != UNKNOWN for one in report.causes)


def explained_now(one: dict) -> GateReport:
    """The report on a campaign of the lab as it is now, with its likely causes."""
    copy(recorded(), drill.PLACE / "results.db")
    drill.campaign(REPEATS, selection(one), QUICK)
    copy(drill.PLACE / "results.db", kept(one["name"]))
    return report_of(kept(one["name"]))


def report_of(path: Path) -> GateReport:
    """The report on the newest session of a database, with its likely causes."""
    database = results.Database(path)
    # Of a kept campaign: reports of later runs lie beside it.
    session = next(results.sessions(database, newest_first=True))
    campaign = Campaign.of(session, database)
    report = campaign.verdicts()
    return replace(report, causes=campaign.causes(report, campaign.on_other_nodes(report)))


def try_out(one: dict, held: bool, say: Callable[[str], None]) -> Outcome:
    """Introduce a cause, run a campaign, undo the cause, and judge the explanation.

    A cause that cannot be introduced, or did not last, is said, and the drill goes on with the
    next.
    """
    say(f"cause: {one['what']}{' (held out)' if held else ''}")
    started, ready = time.monotonic(), filled(one)
    try:
        drill.introduce(ready)
        report = explained_now(one)
        if differs(report):
            say(f"  measured once more: {render.headline(report)}")
            report = explained_now(one)
        if "lasts" in ready:
            drill.Namespaces().run("sh", "-eu", stdin=ready["lasts"])
    except (
        LabError,
        OSError,
        SystemExit,
        subprocess.SubprocessError,
        results.ResultsError,
    ) as error:
        say(f"  {FAILED}: {error}")
        return Outcome(one["name"], held, FAILED, (), time.monotonic() - started)
    finally:
        shutil.rmtree(drill.PATCHED, ignore_errors=True)
        if "undo" in ready:
            drill.Namespaces().run("sh", "-eu", stdin=ready["undo"])
        if ready.keys() & {"lab", "environ", "site"}:
            drill.heal()
    return judged(one, held, report, started, say)


def differs(report: GateReport) -> bool:
    """Whether the machine is not that of the baseline: no cause is named, and the gate decides less
    than half of the variables. A guest of a busy host may get other cores for minutes."""
    names = Counter(one.name for one in report.verdicts)
    decided = names["ok"] + names["watched"]
    return not names_a_cause(report) and names["inconclusive"] > decided


def judged(one: dict, held: bool, report: GateReport, started: float, say) -> Outcome:
    """How well the report explains a drill."""
    place = one.get("partition", PARTITION)
    causes = [cause for cause in report.causes if place in cause.places]
    found = MOVED if differs(report) else answer(one["causes"], causes)
    say(f"  {found}: {render.headline(report)}")
    for cause in causes[:3]:
        say(f"  {render.likely_line(cause)}")
    named = tuple(cause.name for cause in causes)
    return Outcome(one["name"], held, found, named, time.monotonic() - started)


def answer(right: Sequence[str], causes: Sequence[Likely]) -> str:
    """How good the explanation is, given the rules that are right."""
    names = [one.name for one in causes]
    if not names:
        return SILENT
    if names[0] == UNKNOWN:
        return DONT_KNOW
    if names[0] in right:
        return FIRST
    if set(names[:3]) & set(right):
        return THIRD
    return LATER if set(names) & set(right) else WRONG


def summary(outcomes: Sequence[Outcome], explained: Sequence[bool]) -> str:
    """The table of the drills, and the counts."""
    lines = []
    if explained:
        count, all_of = sum(explained), len(explained)
        lines.append(
            f"A/A: {count} of {all_of} unchanged campaigns were explained: "
            f"{100 * count / all_of:.0f} % (95 % interval {interval(count, all_of)} %)"
        )
    rows = [
        [
            one.name,
            "yes" if one.held_out else "",
            one.answer,
            f"{one.seconds:.0f} s",
            ", ".join(one.named[:3]),
        ]
        for one in outcomes
    ]
    lines.append(tabulate(rows, ["cause", "held out", "answer", "took", "named"]))
    for what, part in (
        ("all", outcomes),
        ("held out", [one for one in outcomes if one.held_out]),
    ):
        counts = Counter(one.answer for one in part)
        said = ", ".join(f"{counts[word]} {word}" for word in ANSWERS if counts[word])
        if part:
            comparable = len(part) - counts[MOVED]
            share = f"{100 * counts[FIRST] / comparable:.0f} %" if comparable else "not known"
            lines.append(f"{what}: {said} of {len(part)}; right first: {share}")
            if counts[MOVED]:
                lines[-1] += f" of {comparable}"
    if any(one.answer == MOVED for one in outcomes):
        lines.append(
            "not comparable: the gate decided less than half of the variables, so the machine is "
            "not that of the baseline. Run these again without --keep, when nothing else runs"
        )
    return "\n".join(lines)


def accepted(outcomes: Sequence[Outcome], explained: Sequence[bool]) -> bool:
    """Whether the right cause is first often enough, among three in all, and A/A is not explained.

    A cause that the gate does not find has no explanation, and counts as one that is not right. One
    that is not comparable shows nothing, and leaves the promise open.
    """
    if any(explained) or any(one.answer not in (FIRST, THIRD, DONT_KNOW) for one in outcomes):
        return False
    parts = [list(outcomes), [one for one in outcomes if one.held_out]]
    return all(sum(one.answer == FIRST for one in part) >= ACCEPTED * len(part) for part in parts)
