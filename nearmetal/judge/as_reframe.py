"""ReFrame's references from history, for suites that judge by them alone.

A reference is the median of all samples. Its bound is on the worse side, as in a baseline
(`baseline.bounds`).
"""

import itertools
import pprint
import statistics
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from nearmetal.judge import baseline
from nearmetal.judge.baseline import BaselineError, Entry, Key, Noise
from nearmetal.model.naming import parse
from nearmetal.results import Case, Session
from nearmetal.stats import ranks
from nearmetal.util.suggest import shorten

#: Least number of samples of a reference.
LEAST = 10
HEADER = """# ReFrame's references on {system}, written by `nearmetal baseline record --as reframe`.
# Each is the median of {least} samples or more of {count} sessions, {first} to {last}, with bounds
# as fractions and the unit. {how}
"""
OF_YAML = "Checks take them with `reference = {{'$ref': '{name}'}}` (ReFrame 4.10)."
OF_PYTHON = "A check takes `REFERENCES[CHECK][ENVIRONMENT]` as its `reference`."


def entries(sessions: Iterable[Session]) -> tuple[dict[Key, Entry], list[str]]:
    """An entry of each case with enough samples, and notes on what is left out.

    Failed and disturbed cases are left out of their session, and cases that `-P` varied. Nodes of
    `--distribute` count as their partition.

    :raises BaselineError: no variable has enough samples.
    """
    held: dict[Key, Entry] = {}
    passed_over: set[str] = set()
    # The newest session decides a variable's unit.
    for session in sorted(sessions, key=lambda session: session.order, reverse=True):
        for case in session.cases:
            if not case.counts or case.varied:
                passed_over.add(parse(case.check).plain)
                continue
            entry = held.setdefault(case.key, _empty(case))
            entry.sessions[session.uuid] = session.started
            for value in case.values:
                unit = entry.units.setdefault(value.variable, value.unit)
                if value.better:
                    entry.better.setdefault(value.variable, value.better)
                samples = entry.samples.setdefault(value.variable, [])
                if value.unit == unit and value.samples and not value.expected:
                    samples.append(list(value.samples))
    kept, few = {}, []
    for key, entry in sorted(held.items()):
        for name in _summarize(entry):
            few.append(f"{' | '.join(key)}: {name}")
        if entry.values:
            kept[key] = entry
    if not kept:
        raise BaselineError(
            f"no variable has {LEAST} samples. Fix: take more sessions with an earlier --since, or "
            f"run with more repeats (--reruns={LEAST - 1})"
        )
    notes = []
    if few:
        notes.append(f"left out, with fewer than {LEAST} samples: {shorten(few)}")
    if passed_over:
        names = shorten(sorted(passed_over))
        notes.append(f"left out where they failed or were disturbed: {names}")
    return kept, notes


def _empty(case: Case) -> Entry:
    today = date.today().isoformat()
    return Entry(today, {}, {}, case.parameters, units={}, values={}, noise={}, samples={})


def _summarize(entry: Entry) -> list[str]:
    """Set value and noise of each variable; returns those that have too few samples."""
    few = []
    for name, sessions in entry.samples.items():
        together = list(itertools.chain(*sessions))
        if len(together) < LEAST:
            few.append(name)
            continue
        spread = 0.0
        if min(together) > 0:
            spread = float(ranks.spread(np.log(together)[None])[0])
        entry.values[name] = float(f"{statistics.median(together):.6g}")
        entry.noise[name] = Noise(spread, len(together), None, None)
    return few


def text(system: str, cases: dict[Key, Entry], path: Path) -> str:
    """The file: dictionaries of Python if its name ends with .py, else YAML for `$ref`."""
    taken: dict[str, str] = {}
    counts = []
    for entry in cases.values():
        taken.update(entry.sessions)
        counts += [noise.launches for noise in entry.noise.values()]
    starts = sorted(taken.values())
    is_python = path.suffix == ".py"
    head = HEADER.format(
        system=system,
        least=min(counts),
        count=len(taken),
        first=starts[0],
        last=starts[-1],
        how=OF_PYTHON if is_python else OF_YAML.format(name=path.name),
    )
    if is_python:
        body = pprint.pformat(_dictionaries(system, cases), width=96, sort_dicts=False)
        return f"{head}\nREFERENCES = {body}\n"
    document: dict = {}
    for key, entry in cases.items():
        baseline.add_references(document, system, key, entry)
    return head + yaml.safe_dump(
        document, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True
    )


def _dictionaries(system: str, cases: dict[Key, Entry]) -> dict:
    """Check -> environment -> a dictionary that a check takes as its `reference`."""
    names: dict = {}
    for (check, partition, environ), entry in cases.items():
        place = names.setdefault(check, {}).setdefault(environ, {})
        place[f"{system}:{partition}"] = {
            name: (value, *baseline.bounds_of(entry, name), entry.units[name])
            for name, value in sorted(entry.values.items())
        }
    return names
