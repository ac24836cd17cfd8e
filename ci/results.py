"""ReFrame's results database as plain data. Reads only; the database is ReFrame's."""

import functools
import math
import os
import sqlite3
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import orjson

from . import choices, clean, command, metrics, naming

#: Major version of the session format that this reads (ReFrame 4.x writes 4.y).
DATA_VERSION = "4"
#: What a case says it was measured on, beside the further `facts` of its nodes (reframe_checks/base.py).
FACTS = (
    "kernel",
    "hypervisor",
    "cpu_model",
    "governor",
    "smt",
    "thp",
    "nic_driver",
    "mtu",
    "mpi_library",
    "transport",
    "compiler",
    "image",
    "revision",
)
#: What is said of a result that comes without a reason.
FAILED = {"fail_deps": "what it needs failed"}
#: Key of a session's extras that names the session which it confirms.
CONFIRMS = "nearmetal_confirms"
#: What a case ran, by ReFrame's name for it and by that of published figures (published.py).
WORKLOAD = {"num_tasks": "processes", "num_nodes": "nodes", "megabytes": "megabytes"}
#: Why ReFrame ended a case when the time of its `--duration` was over.
OUT_OF_TIME = "aborted due to RunSessionTimeout"


class ResultsError(ValueError):
    """The database or a session in it can't be used; the message says what to do."""


@dataclass(frozen=True)
class Value:
    """One performance variable of one test case."""

    check: str  #: as of its Case
    environ: str
    partition: str
    variable: str
    value: float
    unit: str
    samples: tuple[float, ...] = ()  #: one a fresh launch, of which the value is the median
    within: tuple[
        tuple[float, ...], ...
    ] = ()  #: of each launch the parts that it was measured in; () where it has none
    node: str = ""  #: as of its Case

    @property
    def place(self) -> str:
        """As of its Case."""
        return place(self.partition, self.node)

    @property
    def lower_is_better(self) -> bool | None:
        """True for times and losses, False for rates, None where the unit (metrics.py) does not say."""
        return metrics.unit(self.unit).lower_is_better


@dataclass(frozen=True)
class Case:
    """One test case: a check on a partition with an environment, and with `--distribute` on a node.

    These four distinguish it from the other cases of a session. All that ReFrame ran of it are one case:
    the clones of `--repeat`, and the further runs of `--reruns` and `--duration`. Their launches are its
    samples, and where one of them failed, the case failed. Of retries (`--max-retries`) the last counts.
    """

    check: str  #: display name, e.g. `pingpong %placement=internode`; `-P` adds `%.VARIABLE=VALUE`
    partition: str
    environ: str
    values: tuple[Value, ...]
    facts: dict[
        str, str
    ]  #: what it was measured on: FACTS and those of its nodes; to be read only, as cases share it
    curves: dict[
        str, dict[int, tuple[float, ...]]
    ]  #: such as {"half_round_trip_us": {bytes: a value a launch}}
    failure: str | None  #: why it failed; None: it passed
    phase: (
        str | None
    )  #: in which phase of ReFrame's pipeline; "performance": measured whole, beyond its reference
    parameters: dict = field(
        default_factory=dict
    )  #: of the check, as its name gives them: {"placement": "internode"}
    no_baseline: str = ""  #: why the check itself needs no reference, whatever the baseline has
    ended: float = 0.0  #: when its job did, in seconds since 1970; 0: not told
    fixture: bool = (
        False  #: whether it measures nothing, but made what others need (reframe_checks/spack.py)
    )
    unreferenced: tuple[str, ...] = ()  #: variables for which it failed: the baseline lacks them
    workload: dict = field(default_factory=dict)  #: numbers by the values of WORKLOAD
    node: str = (
        ""  #: the node that `--distribute` gave it; empty: Slurm chose among the partition's
    )
    runs: int = 1  #: how often ReFrame ran it in this session

    @property
    def key(self) -> tuple[str, str, str]:
        """By what a baseline knows it, whichever node it ran on."""
        return self.check, self.partition, self.environ

    @property
    def place(self) -> str:
        """Where it ran, as tables show it: the partition, or `PARTITION@NODE` of `--distribute`."""
        return place(self.partition, self.node)

    @property
    def where(self) -> tuple[str, str, str]:
        """What distinguishes it from the other cases of a session."""
        return self.check, self.place, self.environ

    @property
    def varied(self) -> bool:
        """Whether `-P` set variables of its check, so that it is none of a baseline's cases."""
        return any(name.startswith(".") for name in self.parameters)

    @property
    def duet(self) -> bool:
        """Whether it measured A and B by turns (reframe_checks/duet)."""
        return "duet" in self.facts

    @property
    def measured(self) -> bool:
        """Whether its values may be judged: it passed, or was whole and only beyond its reference."""
        return self.failure is None or self.phase == "performance" and bool(self.values)


@dataclass(frozen=True)
class Session:
    uuid: str
    started: str  #: as ReFrame writes it, 20261121T061529+0000
    system: str
    cases: tuple[Case, ...]
    time: float = 0.0  #: of the start, seconds since 1970
    command: str = ""  #: with which ReFrame was called
    skipped: tuple[tuple[str, str, str], ...] = ()  #: cases that their check skipped
    promised: int = 0  #: cases that ReFrame selected
    directory: str = ""  #: where ReFrame was called
    confirms: str = ""  #: id of the session of which it measured some cases again (confirm.py)
    #: what it was to select, as its checks recorded it (reframe_checks/selection.py); {}: they did not
    selection: dict = field(default_factory=dict)
    host: str = ""  #: name of the host on which ReFrame was called

    @property
    def kind(self) -> str:
        """`campaign`; `confirmation` of one; `duet`, if it holds nothing else: each has its own command."""
        duet = self.cases and all(case.duet for case in self.cases if not case.fixture)
        return "confirmation" if self.confirms else "duet" if duet else "campaign"

    @property
    def values(self) -> list[Value]:
        """Of all cases that passed."""
        return [value for case in self.cases if case.failure is None for value in case.values]

    @property
    def failures(self) -> list[Case]:
        return [case for case in self.cases if case.failure is not None]


def place(partition: str, node: str) -> str:
    """A partition, or `PARTITION@NODE`."""
    return f"{partition}@{node}" if node else partition


def database() -> Path:
    """Where ReFrame keeps results: RFM_SQLITE_DB_FILE, else under RFM_PREFIX, else the checkout's results/."""
    if file := os.environ.get("RFM_SQLITE_DB_FILE"):
        return Path(file)
    checkout = Path(__file__).resolve().parent.parent
    return Path(os.environ.get("RFM_PREFIX", checkout / "results")) / "results.db"


def sessions(
    path: Path,
    newest_first: bool = False,
    kinds: tuple[str, ...] = ("campaign",),
    after: float = 0.0,
) -> Iterator[Session]:
    """Every session of these kinds with at least one case that started later, oldest first. Raises ResultsError."""
    if not path.is_file():
        raise ResultsError(f"{path}: no results database; run `reframe -c reframe_checks -r` first")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            # The order first: SQLite would sort the sessions' texts whole, all of them before the first is there.
            order = "DESC" if newest_first else "ASC"
            rows = connection.execute(
                f"SELECT rowid FROM sessions WHERE session_start_unix > ? ORDER BY session_start_unix {order}",
                (after,),
            ).fetchall()
            for row in rows:
                blob = connection.execute(
                    "SELECT json_blob FROM sessions WHERE rowid = ?", row
                ).fetchone()
                if blob is None:  # deleted meanwhile
                    continue
                session = parse_session(orjson.loads(blob[0]), path)
                if session.cases and session.kind in kinds:
                    yield session
        except (sqlite3.DatabaseError, orjson.JSONDecodeError) as error:
            raise ResultsError(f"{path}: not a results database of ReFrame's ({error})") from error


def load_session(path: Path, system: str | None = None, uuid: str | None = None) -> Session:
    """The session of that id, or the newest (on that system) that ran at least one case. Raises ResultsError."""
    kinds, others = ("campaign",) if uuid is None else ("campaign", "duet"), []
    for session in sessions(path, newest_first=True, kinds=kinds):
        named = session.uuid.startswith(uuid) if uuid else uuid is None
        if named and system in (None, session.system):
            return session
        if named and uuid:
            raise ResultsError(
                f"{path}: session {session.uuid} is of system {session.system}, not of {system}: "
                "leave one of --session and --system away"
            )
        others.append(session)
    raise ResultsError(no_session(path, system, uuid, others))


def no_session(path: Path, system: str | None, uuid: str | None, others: list[Session]) -> str:
    """What to say where no session has that id or is on that system: which ones there are."""
    if not others:
        return f"{path}: no session with a case that ran; run `reframe -c reframe_checks -r` first"
    if uuid is None:
        known = choices.unknown(system, (session.system for session in others), "the systems are")
        return f"{path}: no session on system {system or 'of an empty name'}: {known}"
    ids = [session.uuid[: max(8, len(uuid))] for session in others]
    close = choices.nearest(uuid, ids)
    return (
        f"{path}: no session {uuid or 'of an empty id'}: the newest are {', '.join(ids[:3])}"
        + (f"; did you mean {close}?" if close else "")
        + "; `reframe --list-stored-sessions` lists all"
    )


def confirmations(path: Path, session: Session) -> list[Session]:
    """What measured some of the session's cases again, in that order. Raises ResultsError."""
    return [
        one
        for one in sessions(path, kinds=("confirmation",), after=session.time)
        if one.confirms == session.uuid
    ]


def parse_session(data: dict, origin) -> Session:
    """A session's report as ReFrame stores it. Raises ResultsError."""
    info = data.get("session_info", {})
    version = str(info.get("data_version", "none"))
    if version.split(".")[0] != DATA_VERSION:
        raise ResultsError(
            f"{origin}: session format {version}, but {DATA_VERSION}.x is needed: "
            "use the ReFrame that requirements.lock pins"
        )
    found = _outcomes(data["runs"], info.get("cmdline", ""))
    every = [outcome for outcomes in found.values() for outcome in outcomes]
    systems = {case["system"] for case in every}
    # A fixture that did what it was to do says nothing; one that did not, why others could not be measured.
    done = {
        key
        for key, outcomes in found.items()
        if all(case.get("fixture") and case["result"] == "pass" for case in outcomes)
    }
    missing = max(0, info.get("num_cases", 0) - len(found))
    cases, skipped = _cases([case for key in found if key not in done for case in found[key]])
    return Session(
        clean.name(str(info["uuid"])),
        clean.name(str(info["time_start"])),
        clean.name(",".join(sorted(systems))),
        tuple(cases),
        info["time_start_unix"],
        clean.line(info.get("cmdline", "")),
        skipped,
        len(cases) + len(skipped) + missing,
        info.get("workdir", ""),
        info.get(CONFIRMS, ""),
        next((case["selection"] for case in every if case.get("selection")), {}),
        info.get("hostname") or "",
    )


@functools.lru_cache
def parameters(check: str) -> Mapping[str, str]:
    """Those in a check's display name, as text: `pingpong %placement=internode` has placement."""
    return MappingProxyType(dict(naming.PARAMETER.findall(check)))


def parse_case(case: dict) -> Case:
    name = naming.parse(clean.name(str(case["display_name"])))
    where = name.check, *(clean.name(str(case[key])) for key in ("environ", "partition"))
    samples, within = case.get("samples") or {}, case.get("within") or {}
    values = []
    for key, (value, _, _, _, unit, _) in (case.get("perfvalues") or {}).items():
        variable = key.rsplit(":", 1)[-1]
        values.append(
            Value(
                *where,
                clean.name(variable),
                value,
                clean.name(str(unit)),
                tuple(samples.get(variable, ())),
                tuple(map(tuple, within.get(variable, ()))),
                name.node,
            )
        )
    passed = case["result"] == "pass"
    return Case(
        where[0],
        where[2],
        where[1],
        tuple(values),
        _facts(orjson.dumps([case.get("facts"), list(map(case.get, FACTS))])),
        {
            curve: {int(size): tuple(launches) for size, launches in points.items()}
            for curve, points in (case.get("curves") or {}).items()
        },
        None
        if passed
        else clean.text(str(case.get("fail_reason") or FAILED.get(case["result"], case["result"]))),
        None if passed else clean.every(case.get("fail_phase")),
        clean.every({key: case.get(key, text) for key, text in parameters(where[0]).items()}),
        _own_exemption(case),
        case.get("job_completion_time_unix") or 0.0,
        bool(case.get("fixture")),
        tuple(map(clean.line, case.get("unreferenced") or ())),
        {name: case[key] for key, name in WORKLOAD.items() if case.get(key)},
        name.node,
    )


def _own_exemption(case: dict) -> str:
    """Why the check needs no reference; "" where the partition said so, which lasts until the baseline."""
    # Sessions of older versions do not say who gave the reason. There only duets had one of their own.
    duet = "duet" in (case.get("facts") or {})
    own = case.get("no_baseline_of", "check" if duet else "partition") == "check"
    return clean.line(case.get("no_baseline") or "") if own else ""


@functools.lru_cache(maxsize=4096)
def _facts(packed: bytes) -> dict[str, str]:
    """A case's facts from JSON. Equal ones are one dictionary: large databases hold few, and are read sooner and in less."""
    facts, named = orjson.loads(packed)
    return clean.every(
        {**(facts or {}), **{name: value for name, value in zip(FACTS, named) if value}}
    )


def _outcomes(runs: list[dict], line: str) -> dict[tuple[str, str, str], list[dict]]:
    """What became of each test case: once for each of ReFrame's further runs, and of retries the last.

    A run of ReFrame is a retry as long as `--max-retries` allows one and it holds nothing but what failed
    in the run before. Each of `--reruns` and `--duration` holds everything.

    :arg line: the session's command line.
    """
    found: dict[tuple[str, str, str], list[dict]] = {}
    failed: set = set()
    retries = _most_retries(line) if len(runs) > 1 else 0
    for number, run in enumerate(runs):
        cases = {(c["display_name"], c["partition"], c["environ"]): c for c in run["testcases"]}
        retry = 0 < number <= retries and set(cases) <= failed
        for key, case in cases.items():
            outcomes = found.setdefault(key, [])
            if outcomes and case.get("fail_reason") == OUT_OF_TIME:
                continue  # nothing is known of it, and its earlier runs stand
            if retry:
                outcomes.clear()
            outcomes.append(case)
        failed = {key for key, case in cases.items() if case["result"] != "pass"}
    return found


def _most_retries(line: str) -> float:
    """How many retries a session's command allows; infinitely many where it can't be told."""
    try:
        asked = command.parse(line)
    except command.CommandError:
        return math.inf
    if asked.given("mode"):  # it may hold further options
        return math.inf
    return asked.given("max_retries") or 0


def _cases(outcomes: list[dict]) -> tuple[list[Case], tuple[tuple[str, str, str], ...]]:
    """The cases that these make, and those that their check skipped."""
    grouped: dict[tuple[str, str, str], list[Case]] = {}
    skipped = []
    for outcome in outcomes:
        case = parse_case(outcome)
        if outcome["result"] == "skip":
            skipped.append(case.where)
        else:
            grouped.setdefault(case.where, []).append(case)
    return [_together(runs) for runs in grouped.values()], tuple(dict.fromkeys(skipped))


def _together(runs: Sequence[Case]) -> Case:
    """One case from all that ReFrame ran of it. All launches are its samples; where one failed, it failed."""
    if len(runs) == 1:
        return runs[0]
    failed = {number: run for number, run in enumerate(runs, 1) if run.failure is not None}
    phases = {run.phase for run in failed.values()}
    told = [f"run {number} of {len(runs)}: {run.failure}" for number, run in failed.items()]
    curves: dict[str, dict[int, tuple[float, ...]]] = {}
    for run in runs:
        for name, points in run.curves.items():
            curve = curves.setdefault(name, {})
            for size, launches in points.items():
                curve[size] = curve.get(size, ()) + launches
    return replace(
        runs[0],
        values=_all_launches(runs),
        facts=_common_facts([run.facts for run in runs if run.facts]),
        curves=curves,
        failure="; ".join(told) or None,
        phase=min(phases - {"performance"}, key=str, default=min(phases, key=str, default=None)),
        no_baseline=next((run.no_baseline for run in runs if run.no_baseline), ""),
        ended=max(run.ended for run in runs),
        unreferenced=tuple(dict.fromkeys(name for run in runs for name in run.unreferenced)),
        runs=len(runs),
    )


def _all_launches(runs: Sequence[Case]) -> tuple[Value, ...]:
    """Each variable with the launches of all runs. A run that stored none counts as one launch."""
    grouped: dict[str, list[Value]] = {}
    for run in runs:
        for value in run.values:
            grouped.setdefault(value.variable, []).append(value)
    found = []
    for values in grouped.values():
        samples = sum((value.samples or (value.value,) for value in values), ())
        parts = [value.within for value in values]
        found.append(
            replace(
                values[0],
                value=float(f"{statistics.median(samples):.6g}"),
                samples=samples,
                within=sum(parts, ()) if all(parts) else (),
            )
        )
    return tuple(found)


def _common_facts(found: Sequence[dict]) -> dict:
    """Facts of several runs: what differs as `a | b`, as a run says it of its nodes; lists together."""
    facts = {}
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        if all(isinstance(value, list) for value in values):
            facts[name] = sorted({str(item) for value in values for item in value})
        elif all(value == values[0] for value in values):
            facts[name] = values[0]
        else:
            facts[name] = " | ".join(dict.fromkeys(map(str, values)))
    return facts
