"""A site's baseline: the values of a healthy system, and their noise. Changes are reviewed commits.

Two files in reframe_checks/references/baselines (or RFM_REFERENCE_PREFIX), by baseline-schema.yaml:

- `SYSTEM.yaml` is for reviewers and for ReFrame, as a `$ref` file with the check classes at its top
  level. Its key `baseline` holds the sessions, the noise and the facts of the values.
- `SYSTEM.launches.json` holds the samples that the gate's rank test compares with. The first file
  holds its digest.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
import os
import statistics
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import orjson
import yaml

from nearmetal import results
from nearmetal.checkout import BASELINES, PACKAGE
from nearmetal.errors import NearmetalError
from nearmetal.model import metrics, naming
from nearmetal.stats import plan
from nearmetal.util import files, sanitize, strict_yaml, suggest, typed_json
from nearmetal.util.documents import faults as schema_faults
from nearmetal.util.documents import read as read_document

#: Bound of a reference: this many times the spread, and at least this fraction. ReFrame fails a
#: value beyond it. The gate judges all other values, from all samples.
BOUND = 8, 0.25
#: Largest fraction of a lower bound.
LOWEST = 0.9
#: Most bytes of the file with the samples.
MOST_SAMPLES = 256 << 20
#: End of the name of the file with the samples.
LAUNCHES = ".launches.json"
HEADER = """# The baseline of {}, written by `nearmetal baseline record`; read and commit its diff.
# At the end are ReFrame's references: [median over all repeats, lower and upper bound as
# fractions, unit].
"""
#: Facts that may differ between the sessions of a baseline: noted, not refused.
MAY_DIFFER = {"revision", "foreign_processes", "full_file_systems"}
Key = tuple[str, str, str]  #: check, partition, environment


class BaselineError(NearmetalError):
    """The baseline is not usable or not writable. The message names the file or session."""

    exit_code = 2


@dataclass(frozen=True)
class Noise:
    """Noise of a variable in its baseline. The names are keys of the file."""

    #: robust coefficient of variation of all samples
    spread: float
    #: number of repeats
    launches: int
    #: fraction of the variance between repeats; None: repeats have no parts
    between: float | None
    #: minimum detectable change as a fraction; None: too noisy to be judged
    finds: float | None


@dataclass(frozen=True)
class Entry:
    """One test case in the baseline."""

    #: the date
    recorded: str
    #: id -> start
    sessions: dict[str, str]
    #: facts of the nodes and software
    facts: dict[str, str]
    #: of the check
    parameters: dict
    #: by variable
    units: dict[str, str]
    #: median over all repeats of the anchored sessions
    values: dict[str, float]
    noise: dict[str, Noise]
    #: variable -> sessions, each with one value per repeat
    samples: dict[str, list[list[float]]]
    #: quantity of evidence -> median of the sessions, and the largest of one; {}: not recorded
    evidence: dict[str, tuple[float, float]] = field(default_factory=dict)
    #: variable -> metrics.LESS or MORE, where its unit does not say it
    better: dict[str, str] = field(default_factory=dict)
    #: number of first sessions that others are compared with; 0: all
    anchor: int = 0

    def lower_is_better(self, variable: str) -> bool | None:
        """The direction of a variable; None if it has none."""
        unit = metrics.unit(self.units[variable])
        return unit.lower_is_better_or(self.better.get(variable, metrics.UNKNOWN))

    @property
    def judged(self) -> int:
        """Number of judged variables."""
        return sum(noise.finds is not None for noise in self.noise.values())

    def is_positive(self, variable: str) -> bool:
        """Whether all samples of a variable are positive, so that changes are ratios."""
        return all(min(session, default=1) > 0 for session in self.samples.get(variable, ()))

    @property
    def anchored(self) -> dict[str, str]:
        """The sessions that others are compared with: id -> start. What was added later shows how
        days differ, and hides no slow change."""
        return dict(itertools.islice(self.sessions.items(), self.anchor or None))

    def by_day(self, variable: str) -> list[list[float]]:
        """The variable's samples, grouped by day: sessions of one day share its shift."""
        return self._grouped(variable, list(map(day_of, self.sessions.values())))

    def anchored_by_day(self, variable: str) -> list[list[float]]:
        """The samples that others are compared with, grouped by day."""
        return self._grouped(variable, list(map(day_of, self.anchored.values())))

    def by_level(self, variable: str) -> list[list[float]]:
        """The variable's samples, grouped by level: sessions of one half-hour share its shift."""
        return self._grouped(variable, levels_of(self.sessions.values()))

    def _grouped(self, variable: str, labels: Sequence[Hashable]) -> list[list[float]]:
        samples = self.samples[variable]
        if len(samples) != len(self.sessions):  # a session lacks the variable
            return samples
        groups: dict[Hashable, list[float]] = {}
        for label, values in zip(labels, samples):
            groups.setdefault(label, []).extend(values)
        return list(groups.values())

    def assumed_drift(self, variable: str) -> float:
        """The drift that is assumed of the variable, at least; 0: its days show it."""
        return plan.least_drift(len(self.by_day(variable)), len(self.by_level(variable)))


def _equally(check: str, variable: str) -> float:
    return 1.0


@dataclass(frozen=True)
class Baseline:
    system: str
    path: Path
    entries: dict[Key, Entry]
    #: all entries, where `entries` are a selection (judge/alpha_weights.py); else None
    whole: dict[Key, Entry] | None = None
    #: function: check, variable -> weight by which variables share the campaign's error
    weigh: Callable[[str, str], float] = _equally

    @property
    def sessions(self) -> dict[str, str]:
        """The recorded sessions: id -> start."""
        sessions = {}
        for entry in self.entries.values():
            sessions.update(entry.sessions)
        return sessions

    @property
    def anchored(self) -> dict[str, str]:
        """The sessions that others are compared with: id -> start."""
        sessions = {}
        for entry in self.entries.values():
            sessions.update(entry.anchored)
        return sessions

    def directed(self, session: results.Session) -> results.Session:
        """The session; values without a direction get the one of the baseline."""
        if not any(entry.better for entry in self.entries.values()):
            return session
        cases = []
        for case in session.cases:
            if entry := self.entries.get(case.key):
                values = []
                for value in case.values:
                    better = value.better or entry.better.get(value.variable, "")
                    values.append(replace(value, better=better))
                case = replace(case, values=tuple(values))
            cases.append(case)
        return replace(session, cases=tuple(cases))

    @property
    def variables(self) -> int:
        """Number of judged variables, which share the campaign's error rate."""
        return sum(entry.judged for entry in self.entries.values())

    def weight(self, keys: Iterable[Key]) -> float:
        """Sum of the weights of the judged variables of these cases."""
        total = 0.0
        for key in keys:
            for name, noise in self.entries[key].noise.items():
                if noise.finds is not None:
                    total += self.weigh(key[0], name)
        return total


@functools.lru_cache(maxsize=4096)
def day_of(start: str) -> str:
    """The day (UTC) of a session's start: `20260801` of `20260801T101500+0000`."""
    time = time_of(start)
    if time is None:
        return start[:8]
    return f"{datetime.fromtimestamp(time, timezone.utc):%Y%m%d}"


@functools.lru_cache(maxsize=4096)
def time_of(start: str) -> float | None:
    """Seconds since 1970 of a session's start; None for a text that is no time."""
    try:
        # In UTC, where a start in the year 9999 may have no date.
        return datetime.strptime(start, "%Y%m%dT%H%M%S%z").astimezone(timezone.utc).timestamp()
    except (ValueError, OverflowError):
        return None


def levels_of(starts: Collection[str]) -> list[Hashable]:
    """The level of each start: sessions that start within LEVEL_MINUTES of its first one are one
    level. A text that is no time is a level of its own."""
    times = {start: time_of(start) for start in starts}
    first = -math.inf
    levels: dict[str, Hashable] = {}
    for start, time in sorted(times.items(), key=lambda entry: (entry[1] is None, entry[1])):
        if time is None:
            levels[start] = start
            continue
        if time - first >= 60 * plan.LEVEL_MINUTES:
            first = time
        levels[start] = first
    return list(map(levels.__getitem__, starts))


def span_of(starts: Iterable[str]) -> float | None:
    """Seconds between the first and the last start; None if one of them is no time."""
    times: list[float] = []
    for start in starts:
        time = time_of(start)
        if time is None:
            return None
        times.append(time)
    if not times:
        return None
    return max(times) - min(times)


def directory() -> Path:
    """The directory of the baselines.

    It is RFM_REFERENCE_PREFIX, which ReFrame reads too. Without that, it is `baselines` beside the
    results, if `make lab-up` made that directory or there is no checkout. Else it is
    references/baselines of this checkout.
    """
    if given := os.environ.get("RFM_REFERENCE_PREFIX"):
        return Path(given)
    beside = results.default_database().with_name("baselines")
    if beside.is_dir() or not BASELINES.parent.is_dir():
        return beside
    return BASELINES


def without_direction(unit: str) -> str:
    """Why a variable of this unit is not judged."""
    return f"neither its unit {unit!r} nor a reference says whether less is better"


def line_of_direction(unit: str) -> str:
    """What gives a unit its direction."""
    file = directory() / results.FILE_OF_DIRECTIONS
    return f"write `{unit}: less` or `{unit}: more` into {file}"


def path_of(system: str, where: Path | None = None, ending: str = ".yaml") -> Path:
    """A system's file among the baselines. Raises BaselineError for a name that is no file's."""
    try:
        return (where or directory()) / naming.file_of(system, ending)
    except naming.NoFileNameError as error:
        raise BaselineError(f"the system's name: {error}") from None


def load(system: str, where: Path | None = None, any_bounds: bool = False) -> Baseline:
    """A system's baseline.

    :arg any_bounds: accept wrong bounds, for a caller that writes the file anew with right ones.
    :raises BaselineError: there is no file, it violates the schema, it has wrong bounds, or it was
        written with other samples.
    """
    path = path_of(system, where)
    again = (
        f"restore {path.name} and {system}.launches.json from git, or remove {path} and write both "
        f"anew: `nearmetal baseline record --system {system}`"
    )
    bounds_only = f"`nearmetal baseline record --system {system} --only-bounds` corrects them"
    data = _read(path, system, again)
    _check_format(data, path, bounds_only, any_bounds)
    _check_schema(data, path, again)
    meta = data["baseline"]
    samples = _read_samples(path_of(system, path.parent, LAUNCHES), meta, path, again)
    entries = {}
    for name, case in meta["cases"].items():
        key = tuple(name.split(" | "))
        references = _find(data, key, case["parameters"], system)
        fault = _contradiction(case, meta["sessions"], references, samples.get(name))
        if fault:
            raise BaselineError(f"{path}: {name}: {fault}. Fix: {again}")
        if not any_bounds:
            _check_bounds(references, case.get("better", {}), f"{path}: {name}", bounds_only)
        facts = meta["facts"].get(key[1], {})
        entries[key] = _entry(case, meta["sessions"], facts, references, samples[name])
    return Baseline(system, path, entries)


def _entry(case: dict, sessions: dict, facts: dict, references: dict, samples: dict) -> Entry:
    """A case of the file.

    :arg sessions: all of the file.
    :arg facts: those that the cases of its partition share.
    :arg samples: by variable.
    """
    units, values, evidence = {}, {}, {}
    for name, (value, _, _, unit) in references.items():
        units[name], values[name] = unit, value
    for name, (middle, most) in case.get("evidence", {}).items():
        evidence[name] = middle, most
    return Entry(
        recorded=case["recorded"],
        sessions={uuid: sessions[uuid] for uuid in case["sessions"]},
        facts={**facts, **case["facts"]},
        parameters=case["parameters"],
        units=units,
        values=values,
        noise={name: Noise(**noise) for name, noise in case["noise"].items()},
        samples=samples,
        evidence=evidence,
        better=case.get("better", {}),
        anchor=case.get("anchor", 0),
    )


def _read(path: Path, system: str, fix: str):
    try:
        files.refuse_unfit(path)
    except FileNotFoundError:
        hint, others = "", [other.stem for other in path.parent.glob("*.yaml")]
        if others:
            hint = f" ({suggest.unknown(system, others, 'baselines here are of')})"
        raise BaselineError(
            f"{path}: {system} has no baseline. Fix: `nearmetal baseline record --system {system}` "
            f"after some sessions, or set RFM_REFERENCE_PREFIX to the baselines' directory{hint}"
        ) from None
    except OSError:
        pass  # the reader says what is wrong with it
    return read_document(path, error=BaselineError, fix=fix)


def _check_schema(data, path: Path, fix: str) -> None:
    if isinstance(data, dict):
        for place in _keys_of_no_text({**dict.fromkeys(data), "baseline": data.get("baseline")}):
            raise BaselineError(f"{path}: the key {place} is no text. Fix: {fix}")
    for fault in schema_faults(data, PACKAGE / "judge" / "baseline-schema.yaml", fix):
        raise BaselineError(f"{path}: {fault.sentence(files.read(path))}")


def _keys_of_no_text(data: dict, place: str = "") -> Iterator[str]:
    """Places of keys that are no text. YAML has others, which a schema does not look at."""
    for key, value in data.items():
        if not isinstance(key, str):
            yield f"{place}{key!r}"
        if isinstance(value, dict):
            yield from _keys_of_no_text(value, f"{place}{key}.")


def _read_samples(beside: Path, meta: dict, path: Path, fix: str) -> dict:
    """The samples by case, with a verified digest. Raises BaselineError."""
    try:
        text = files.read(beside, MOST_SAMPLES)
    except OSError as error:
        raise BaselineError(f"{beside}: {error.strerror}. Fix: {fix}") from None
    if hashlib.sha256(text).hexdigest() != meta["launches_sha256"]:
        raise BaselineError(
            f"{beside}: not the samples that {path.name} was written with (SHA-256). Fix: {fix}"
        )
    try:
        return dict(typed_json.mapping(orjson.loads(text), "the file"))
    except (orjson.JSONDecodeError, typed_json.ShapeError) as error:
        raise BaselineError(f"{beside}: {error}. Fix: {fix}") from None


def _check_format(data, path: Path, fix: str, any_bounds: bool) -> None:
    """Raise BaselineError for another format. With `any_bounds`, upgrade format 1 in place."""
    meta = data.get("baseline") if isinstance(data, dict) else None
    if not isinstance(meta, dict) or meta.get("format") == naming.BASELINE_FORMAT:
        return
    if any_bounds and "format" not in meta:
        meta["format"] = naming.BASELINE_FORMAT
    elif "format" not in meta:
        raise BaselineError(
            f"{path}: baseline.format is missing: an older version wrote the file and bounded some "
            f"references on the wrong side. Fix: {fix}; read the diff and commit it"
        )
    else:
        raise BaselineError(
            f"{path}: baseline.format is {sanitize.line(meta['format'])}, but this version reads "
            f"{naming.BASELINE_FORMAT}. Fix: use the Nearmetal that wrote it"
        )


def _check_bounds(references: dict, directions: dict, where: str, fix: str) -> None:
    """Raise BaselineError if only the better side is bounded: any regression would pass."""
    for variable, (_, lower, upper, unit) in references.items():
        lower_is_better = metrics.unit(unit).lower_is_better_or(directions.get(variable, ""))
        side, worse, better = "higher", lower, upper
        if lower_is_better:
            side, worse, better = "lower", upper, lower
        if lower_is_better is not None and worse is None and better is not None:
            raise BaselineError(
                f"{where}: {variable}: [{lower}, {upper}, {unit}] bounds the wrong side: {side} is "
                f"better. Fix: {fix}"
            )


def _find(data: dict, key: Key, parameters: dict, system: str) -> dict:
    """A case's references: {variable: [value, lower, upper, unit]}; empty if there are none."""
    steps = key[0].split()[0], f"{system}:{key[1]}", key[2]
    references: dict[str, list] = {}
    place: Any = data
    for step in (*steps, *map(naming.step_of, parameters.values())):
        place = place.get(step)
        if not isinstance(place, dict):
            return {}
    for name, entry in place.items():
        if isinstance(entry, list) and entry[:1] == ["$xfail"]:
            entry = entry[2]
        if isinstance(entry, list):
            references[name] = entry
    return references


def _contradiction(case: dict, sessions: dict, references: dict, samples) -> str:
    """How a case contradicts its references, the calendar, its sessions or its samples; '' if it
    does not."""
    for name, reference in references.items():
        # Their types follow from the schema.
        if len(reference) != 4 or not isinstance(reference[0], (int, float)):
            return f"{name} has no reference"
    if set(references) != set(case["noise"]):
        return "references and noise are of different variables"
    if not _is_date(case["recorded"]):
        return f"recorded is {case['recorded']}, which is no date"
    for uuid in case["sessions"]:
        if uuid not in sessions:
            return f"session {uuid} is not among the baseline's sessions"
    if not isinstance(samples, dict) or set(samples) != set(case["noise"]):
        return "its samples are of other variables"
    for name, values in samples.items():
        fault = _of_samples(name, values, case, references[name][0])
        if fault:
            return fault
    return ""


def _of_samples(name: str, values, case: dict, recorded: float) -> str:
    """How the samples of a variable contradict its case; '' if they do not."""
    try:
        if () in typed_json.rows(values, name):
            return f"{name} has a session without samples"
    except typed_json.ShapeError as error:
        return f"its samples: {error}"
    together = list(itertools.chain(*values))
    count = case["noise"][name]["launches"]
    if len(values) != len(case["sessions"]):
        return f"{name} has samples of {len(values)} sessions, not of {len(case['sessions'])}"
    if len(together) != count:
        return f"{name} has {len(together)} samples, not {count}"
    anchored = values[: case.get("anchor") or None]
    middle = statistics.median(itertools.chain(*anchored))
    if recorded != float(f"{middle:.6g}"):
        return f"{name} is {recorded}, but the median of its samples is {middle:.6g}"
    return ""


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def save(baseline: Baseline) -> None:
    """Write both files. The samples come first, so that references are never newer than samples."""
    for path, text in documents(baseline):
        files.write(path, text)


def documents(baseline: Baseline) -> list[tuple[Path, str]]:
    """(path, text) of both files, in the order of writing."""
    entries = dict(sorted(baseline.entries.items()))
    samples = _samples_as_json(entries)
    document = {"baseline": _metadata(replace(baseline, entries=entries), samples)}
    for key, entry in entries.items():
        add_references(document, baseline.system, key, entry)
    text = yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=120,
        allow_unicode=True,
    )
    return [
        (path_of(baseline.system, baseline.path.parent, LAUNCHES), samples),
        (baseline.path, HEADER.format(baseline.system) + text),
    ]


def _samples_as_json(entries: dict[Key, Entry]) -> str:
    """The samples as JSON, with one line for each variable, for short diffs."""
    cases = []
    for key, entry in entries.items():
        lines = []
        for name, sessions in sorted(entry.samples.items()):
            lines.append(f" {json.dumps(name)}: {json.dumps(sessions)}")
        cases.append(f"{json.dumps(' | '.join(key))}: {{\n" + ",\n".join(lines) + "}")
    return "{\n" + ",\n".join(cases) + "}\n"


def _metadata(baseline: Baseline, samples: str) -> dict:
    """The key `baseline` of the file."""
    entries, sessions = baseline.entries, baseline.sessions
    common: dict[str, dict[str, str]] = {}
    for key, entry in sorted(entries.items(), key=lambda item: item[0][1]):
        # The facts that are the same in all cases of a partition.
        shared = common.setdefault(key[1], dict(entry.facts))
        for name in list(shared):
            if entry.facts.get(name) != shared[name]:
                del shared[name]
    return {
        "format": naming.BASELINE_FORMAT,
        "system": baseline.system,
        "launches_sha256": hashlib.sha256(samples.encode()).hexdigest(),
        "sessions": dict(sorted(sessions.items(), key=lambda session: session[1])),
        "facts": common,
        "cases": {" | ".join(key): _case(entry, common[key[1]]) for key, entry in entries.items()},
    }


def _case(entry: Entry, common: dict[str, str]) -> dict:
    """A case's metadata, without the facts that all cases of its partition share."""
    document: dict[str, Any] = {
        "recorded": entry.recorded,
        "sessions": list(entry.sessions),
        "parameters": entry.parameters,
        "facts": {name: value for name, value in entry.facts.items() if name not in common},
        "noise": {name: vars(noise) for name, noise in sorted(entry.noise.items())},
    }
    if entry.anchor:
        document["anchor"] = entry.anchor
    if entry.evidence:
        document["evidence"] = {name: list(ends) for name, ends in sorted(entry.evidence.items())}
    if entry.better:
        document["better"] = dict(sorted(entry.better.items()))
    return document


def add_references(document: dict, system: str, key: Key, entry: Entry) -> None:
    """Add a case's references below its class, as ReFrame reads them."""
    check, partition, environ = key
    index = ["$partition", "$environ", *entry.parameters]
    place = document.setdefault(naming.base_name(check), {"$index": index})
    for step in (f"{system}:{partition}", environ, *map(naming.step_of, entry.parameters.values())):
        place = place.setdefault(step, {})
    for name in sorted(entry.values):
        unit = entry.units[name]
        place[name] = [entry.values[name], *bounds_of(entry, name), unit]


class _Dumper(strict_yaml.DUMPER):
    """YAML without anchors, so that each line of a diff is complete."""

    def ignore_aliases(self, data):
        return True


def bounds_of(entry: Entry, variable: str) -> list[float | None]:
    """Bounds of a variable's reference."""
    return bounds(entry.lower_is_better(variable), entry.noise[variable].spread)


def bounds(lower_is_better: bool | None, spread: float) -> list[float | None]:
    """Bounds of a reference as fractions: on the worse side, or on both sides where the direction
    is unknown."""
    reach = float(f"{max(BOUND[1], BOUND[0] * spread):.3g}")
    both: list[float | None] = [-min(LOWEST, reach), reach]
    if lower_is_better is not None:
        # The better side is open.
        both[0 if lower_is_better else 1] = None
    return both
