"""A site's baseline: what its variables were when it was well, and how they vary.  One reviewed commit changes it.

Two files in reframe_checks/references/baselines (or RFM_REFERENCE_PREFIX), by references/baseline-schema.yaml:
`SYSTEM.yaml` is what people review and what ReFrame reads as its `$ref` file, the check classes at its top level; its key
`baseline` says from which sessions, with what noise and on what the values were measured.  `SYSTEM.launches.json` holds the
launches that the gate's rank test compares with; the first names its digest.
"""

import hashlib
import json
import os
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from nearmetal import choices, clean, files, metrics, results, strict_yaml
from nearmetal.checkout import BASELINES, PACKAGE
from nearmetal.stats import drift

#: A reference's bound, which ReFrame judges by at once, is this many times the spread, and at least the second: what is
#: beyond is broken; what is within is the gate's, which has the launches to tell.
BOUND = 8, 0.25
#: A lower bound is no lower than this fraction below.
LOWEST = 0.9
#: Of the file. Format 1, which did not say so, could bound the wrong side (nearmetal/checks/baselines.py refuses it too).
FORMAT = 2
HEADER = """# The baseline of {}, written by `nearmetal baseline record`; read and commit its diff.
# At the end are ReFrame's references: [median over all launches, lower and upper bound as fractions, unit].
"""
Key = tuple[str, str, str]  #: check, partition, environment


class BaselineError(ValueError):
    """The baseline can't be used or written; the message names the file or session and the fix."""


@dataclass(frozen=True)
class Noise:
    """How a variable varies, from its baseline's launches."""

    spread: float  #: robust coefficient of variation over all launches
    launches: int
    between: (
        float | None
    )  #: share of the variance that lies between launches; None where launches have no parts
    finds: (
        float | None
    )  #: the smallest change that the gate finds in it, as a fraction; None: too noisy to be judged


@dataclass(frozen=True)
class Entry:
    """One test case in the baseline."""

    recorded: str  #: the date
    sessions: dict[str, str]  #: id: when it started
    facts: dict[str, str]  #: what it was measured on
    parameters: dict  #: of the check
    units: dict[str, str]  #: by variable
    values: dict[str, float]  #: median over all launches
    noise: dict[str, Noise]
    launches: dict[str, list[list[float]]]  #: by variable: sessions, each a value a launch


@dataclass(frozen=True)
class Baseline:
    system: str
    path: Path
    entries: dict[Key, Entry]

    @property
    def variables(self) -> int:
        """How many variables are judged, which share the campaign's error."""
        return sum(
            noise.finds is not None
            for entry in self.entries.values()
            for noise in entry.noise.values()
        )

    @property
    def drift(self) -> float:
        """How much whole sessions differ beyond their launches, as a fraction: typical of all variables."""
        return drift.typical(
            launches for entry in self.entries.values() for launches in entry.launches.values()
        )


def directory() -> Path:
    """Where baselines are: RFM_REFERENCE_PREFIX, which ReFrame reads too; else those of this machine's lab, beside its
    results, where `make lab-up` made the directory; else this checkout's references/baselines."""
    if given := os.environ.get("RFM_REFERENCE_PREFIX"):
        return Path(given)
    labs = results.database().with_name("baselines")
    return labs if labs.is_dir() else BASELINES


def load(system: str, where: Path | None = None, any_bounds: bool = False) -> Baseline:
    """Raises BaselineError: no file, not by the schema, wrong bounds, or not the launches that it was written with.

    any_bounds: for writing the file anew, which corrects its bounds.
    """
    path = (where or directory()) / f"{system}.yaml"
    again = f"restore it from git, or write it anew: `nearmetal baseline record --system {system}`"
    bounds_only = f"`nearmetal baseline record --system {system} --only-bounds` corrects them"
    try:
        data = strict_yaml.load(path.read_bytes())
    except FileNotFoundError:
        there = [other.stem for other in path.parent.glob("*.yaml")]
        hint = f" ({choices.unknown(system, there, 'baselines here are of')})" if there else ""
        raise BaselineError(
            f"{path}: {system} has no baseline. Fix: `nearmetal baseline record --system {system}` "
            f"after some sessions{hint}"
        ) from None
    except (OSError, strict_yaml.YamlError) as error:
        raise BaselineError(f"{path}: cannot be read as YAML: {error}. Fix: {again}") from error
    _check_format(data, path, bounds_only, any_bounds)
    schema = strict_yaml.load((PACKAGE / "gate" / "baseline-schema.yaml").read_bytes())
    for fault in jsonschema.Draft202012Validator(schema).iter_errors(data):
        place = ".".join(map(str, fault.absolute_path)) or "the file"
        raise BaselineError(
            f"{path}: {place}: {fault.message[:300]}. Fix: {fault.schema.get('description', again)}"
        )
    meta = data["baseline"]
    beside = path.with_name(f"{system}.launches.json")
    try:
        text = beside.read_bytes()
    except OSError as error:
        raise BaselineError(f"{beside}: {error.strerror}. Fix: {again}") from None
    if hashlib.sha256(text).hexdigest() != meta["launches_sha256"]:
        raise BaselineError(
            f"{beside}: not the launches that {path.name} was written with (SHA-256). Fix: {again}"
        )
    launches = json.loads(text)
    entries = {}
    for name, case in meta["cases"].items():
        key = tuple(name.split(" | "))
        references = _find(data, key, case["parameters"], system)
        if set(references) != set(case["noise"]):
            raise BaselineError(
                f"{path}: {name}: references and noise are of different variables. Fix: {again}"
            )
        if not any_bounds:
            _check_bounds(references, f"{path}: {name}", bounds_only)
        fault = _contradiction(case, meta["sessions"], references, launches.get(name))
        if fault:
            raise BaselineError(f"{path}: {name}: {fault}. Fix: {again}")
        entries[key] = Entry(
            case["recorded"],
            {uuid: meta["sessions"][uuid] for uuid in case["sessions"]},
            {**meta["facts"].get(key[1], {}), **case["facts"]},
            case["parameters"],
            {variable: reference[3] for variable, reference in references.items()},
            {variable: reference[0] for variable, reference in references.items()},
            {variable: Noise(**noise) for variable, noise in case["noise"].items()},
            launches[name],
        )
    return Baseline(system, path, entries)


def _check_format(data, path: Path, fix: str, any_bounds: bool) -> None:
    """Raises BaselineError for a file of another format; gives it the present one where its bounds do not count."""
    meta = data.get("baseline") if isinstance(data, dict) else None
    if not isinstance(meta, dict) or meta.get("format") == FORMAT:
        return
    if any_bounds and "format" not in meta:
        meta["format"] = FORMAT
    elif "format" not in meta:
        raise BaselineError(
            f"{path}: baseline.format is missing: an older version wrote the file, which bounded some references "
            f"on the wrong side. Fix: {fix}; read the diff and commit it"
        )
    else:
        raise BaselineError(
            f"{path}: baseline.format is {clean.line(meta['format'])}, but this version reads {FORMAT}. "
            "Fix: use the Nearmetal that wrote it"
        )


def _check_bounds(references: dict, where: str, fix: str) -> None:
    """Raises BaselineError where only the better side of a variable is bounded: getting worse would always pass."""
    for variable, (_, lower, upper, unit) in references.items():
        lower_is_better = metrics.unit(unit).lower_is_better
        worse, better = (upper, lower) if lower_is_better else (lower, upper)
        if lower_is_better is not None and worse is None and better is not None:
            side = "lower" if lower_is_better else "higher"
            raise BaselineError(
                f"{where}: {variable}: [{lower}, {upper}, {unit}] bounds the wrong side: {side} is better. Fix: {fix}"
            )


def _find(data: dict, key: Key, parameters: dict, system: str) -> dict:
    """The reference entries of a case: {variable: [value, lower, upper, unit]}; empty where the file has none."""
    found = data.get(key[0].split()[0])
    for step in (f"{system}:{key[1]}", key[2], *map(_hashable, parameters.values())):
        found = found.get(step) if isinstance(found, dict) else None
    entries = found if isinstance(found, dict) else {}
    plain = {
        name: entry[2] if isinstance(entry, list) and entry[0] == "$xfail" else entry
        for name, entry in entries.items()
    }
    return {name: entry for name, entry in plain.items() if isinstance(entry, list)}


def _hashable(value):
    return value if isinstance(value, str | int | float | None) else str(value)


def _contradiction(case: dict, sessions: dict, references: dict, launches) -> str:
    """In words how a case differs from its launches, whose digest is known to be right; empty where it does not."""
    unknown = [uuid for uuid in case["sessions"] if uuid not in sessions]
    if unknown:
        return f"session {unknown[0]} is not among the baseline's sessions"
    if not isinstance(launches, dict) or set(launches) != set(case["noise"]):
        return "its launches are of other variables"
    for name, values in launches.items():
        together = [launch for session in values for launch in session]
        if len(values) != len(case["sessions"]):
            return f"{name} has launches of {len(values)} sessions, not of {len(case['sessions'])}"
        if len(together) != case["noise"][name]["launches"]:
            return f"{name} has {len(together)} launches, not {case['noise'][name]['launches']}"
        middle, value = statistics.median(together), references[name][0]
        if value != float(f"{middle:.6g}"):
            return f"{name} is {value}, but the median of its launches is {middle:.6g}"
    return ""


def save(baseline: Baseline) -> None:
    """Write both files, the launches first, so that a reader never finds newer references than launches."""
    entries = dict(sorted(baseline.entries.items()))
    launches = (
        "{\n"
        + ",\n".join(
            f"{json.dumps(' | '.join(key))}: {{\n"
            + ",\n".join(
                f" {json.dumps(name)}: {json.dumps(sessions)}"
                for name, sessions in sorted(entry.launches.items())
            )
            + "}"
            for key, entry in entries.items()
        )
        + "}\n"
    )
    common = {
        partition: _common([entry.facts for key, entry in entries.items() if key[1] == partition])
        for partition in sorted({key[1] for key in entries})
    }
    document = {
        "baseline": {
            "format": FORMAT,
            "system": baseline.system,
            "launches_sha256": hashlib.sha256(launches.encode()).hexdigest(),
            "sessions": dict(
                sorted(
                    {
                        uuid: when
                        for entry in entries.values()
                        for uuid, when in entry.sessions.items()
                    }.items(),
                    key=lambda item: item[1],
                )
            ),
            "facts": common,
            "cases": {
                " | ".join(key): {
                    "recorded": entry.recorded,
                    "sessions": list(entry.sessions),
                    "parameters": entry.parameters,
                    "facts": {
                        name: value
                        for name, value in entry.facts.items()
                        if name not in common[key[1]]
                    },
                    "noise": {name: vars(noise) for name, noise in sorted(entry.noise.items())},
                }
                for key, entry in entries.items()
            },
        }
    }
    for key, entry in entries.items():
        place: dict[str, Any] = document.setdefault(
            key[0].split()[0], {"$index": ["$partition", "$environ", *entry.parameters]}
        )
        for step in (f"{baseline.system}:{key[1]}", key[2], *entry.parameters.values()):
            place = place.setdefault(step, {})
        for name in sorted(entry.values):
            place[name] = [
                entry.values[name],
                *bounds(entry.units[name], entry.noise[name].spread),
                entry.units[name],
            ]
    for path, text in (
        (baseline.path.with_name(f"{baseline.system}.launches.json"), launches),
        (
            baseline.path,
            HEADER.format(baseline.system)
            + yaml.dump(
                document,
                Dumper=_Dumper,
                sort_keys=False,
                default_flow_style=None,
                width=120,
                allow_unicode=True,
            ),
        ),
    ):
        files.write(path, text)


def _common(facts: list[dict[str, str]]) -> dict[str, str]:
    """What is the same in all."""
    return {
        name: value
        for name, value in facts[0].items()
        if all(other.get(name) == value for other in facts)
    }


class _Dumper(yaml.SafeDumper):
    """Without anchors: a reader of a diff should not have to look elsewhere."""

    def ignore_aliases(self, data):
        return True


def bounds(unit: str, spread: float) -> list[float | None]:
    """Lower and upper bound of a reference as fractions: only of the worse side, of both where the unit says neither."""
    reach = float(f"{max(BOUND[1], BOUND[0] * spread):.3g}")
    lower_is_better = metrics.unit(unit).lower_is_better
    lower = None if lower_is_better else -min(LOWEST, reach)
    return [lower, None if lower_is_better is False else reach]
