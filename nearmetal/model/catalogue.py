"""The facts of each check: reframe_checks/references/checks/NAME.yaml, one file a check.

They say what a variable is: its unit, meaning, layer, aspect, physical limit and plot. They also
have the keys of a partition's extras that only this check reads, and its smoke case. A duet takes
the facts of its check.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearmetal.checkout import REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.model import naming
from nearmetal.util import documents

FILES = REFERENCES / "checks"
#: Names of the recorded facts of cases.
FACTS = REFERENCES / "facts.yaml"
SCHEMA = Path(__file__).with_name("catalogue-schema.yaml")
#: The layer or aspect of a variable that has none.
NONE = "none"
#: The layer of what other people's checks measure.
OTHER = "other checks"
#: Ending of a duet's name; its variables are NAME_a, NAME_b and NAME_ratio.
DUET = "_duet"
OF_DUET = re.compile(r"_(a|b|ratio)$")
#: What a placeholder in a name stands for, and examples of it.
FORMS = {"N": r"\d+(?:x\d+)?", "CLASS": r"\w+", "SIZE": r"\d+[KMG]iB", "NAME": r".+"}
EXAMPLES = {
    "N": ("1", "2", "4", "16", "128"),
    "CLASS": ("S", "A", "B"),
    "SIZE": ("16MiB", "1GiB"),
    "NAME": ("eth0",),
}
PLACEHOLDER = re.compile(r"(?<![A-Za-z])(N|CLASS|SIZE|NAME)(?![A-Za-z])")


class CatalogueError(NearmetalError):
    """A check's file of facts is not usable. The message names file, key and fix."""


@dataclass(frozen=True)
class Limit:
    """What bare metal cannot exceed. Texts are expressions, as of expectations."""

    most: str | float
    of: str = "value"  #: what has this limit
    best: bool = False  #: of a case's variables with this name, the largest stands for all
    aspect: str = ""  #: where it is not the variable's


@dataclass(frozen=True)
class Plot:
    """How the report draws a variable. Those of one title share a plot."""

    page: str
    title: str
    x: str = "partition"  #: title of the axis
    at: str = ""  #: the place on a category axis
    by: str = ""  #: the parameter whose value is that place
    log: bool = False


@dataclass(frozen=True)
class Variable:
    """What a variable of a case is."""

    unit: str
    means: str
    layer: str
    aspect: str
    limit: Limit | None = None
    plot: Plot | None = None
    numbers: tuple[str, ...] = ()  #: what each N of its name stands for


@dataclass(frozen=True)
class Smoke:
    """A run of some seconds. A value may depend on the condition `nodes=NUMBER`."""

    feature: str  #: of the environments that it is run with
    settings: Mapping[str, Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def on(self, nodes: int) -> Smoke:
        """The run on a partition of this many nodes."""
        known = {"nodes": str(nodes)}
        return Smoke(
            self.feature, _all_chosen(self.settings, known), _all_chosen(self.parameters, known)
        )


@dataclass(frozen=True)
class Check:
    """A check's file."""

    path: Path
    parameters: Mapping[str, list[str]] = field(default_factory=dict)
    variables: Mapping[str, Mapping] = field(default_factory=dict)
    method: str = ""
    smoke: Smoke | None = None
    extras: Mapping[str, Mapping] = field(default_factory=dict)  #: each with its JSON Schema
    shared_expectations: Sequence[str] = ()
    expectations: Mapping[str, Mapping] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def units(self) -> dict[str, str]:
        """The unit of each variable, by its name with placeholders."""
        return {name: entry["unit"] for name, entry in self.variables.items()}

    def variable(self, name: str, parameters: Mapping[str, str]) -> Variable | None:
        """The facts of a variable of a case with these parameters; None for an unknown one."""
        # The first name that fits counts: the file lists `kept_namd_CLASS_N` before `kept_CLASS_N`.
        for declared, entry in self.variables.items():
            match = _pattern(declared).fullmatch(name)
            if match is not None:
                kinds = PLACEHOLDER.findall(declared)
                return _resolved(entry, parameters, list(zip(kinds, match.groups())))
        return None

    def layers(self, parameters: Mapping[str, str]) -> set[str]:
        """The layers of all variables of a case with these parameters."""
        layers: set[str] = set()
        for entry in self.variables.values():
            layers.update(_possible(entry["layer"], parameters))
        return layers - {NONE}

    def labels(self, plot: Plot) -> list[str]:
        """The categories of a plot's x axis in their order; [] for numbers or partitions."""
        if plot.by:
            return list(self.parameters[plot.by])
        labels = []
        for entry in self.variables.values():
            drawn = entry.get("plot", {})
            if drawn.get("title") == plot.title and "at" in drawn:
                labels.append(drawn["at"])
        return labels


def _resolved(entry: Mapping, parameters: Mapping[str, str], stands: list) -> Variable:
    """The facts where conditions and placeholders are known.

    :arg stands: placeholders of the name, each with what it stands for.
    """
    # The first of several placeholders of one kind counts.
    known = {**dict(reversed(stands)), **parameters}
    conditional = dict(entry)
    plot = conditional.pop("plot", None)
    fields = _all_chosen(conditional, known)
    if fields.get("limit") is not None:
        fields["limit"] = Limit(**fields["limit"])
    if plot is not None:
        title = plot["title"]
        for kind in ("CLASS", "N"):
            title = title.replace(f"{{{kind}}}", known.get(kind, ""))
        fields["plot"] = Plot(**{**plot, "title": title})
    numbers = tuple(text for kind, text in stands if kind == "N")
    return Variable(**fields, numbers=numbers)


def _all_chosen(values: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The value of each key, by the conditions that hold."""
    return {key: _chosen(value, known) for key, value in values.items()}


def _chosen(value: Any, known: Mapping[str, str]) -> Any:
    """The value of the first condition that holds; a value without conditions as it is."""
    if not isinstance(value, Mapping) or "most" in value:
        return value
    for condition, chosen in value.items():
        name, _, wanted = condition.partition("=")
        if condition == "else" or known.get(name) == wanted:
            return chosen
    return None


def _possible(value: Any, parameters: Mapping[str, str]) -> Iterator[str]:
    """The values that conditions allow where nothing is known of placeholders."""
    if not isinstance(value, Mapping):
        yield value
        return
    for condition, chosen in value.items():
        name, _, wanted = condition.partition("=")
        if name in parameters and parameters[name] != wanted:
            continue
        yield chosen
        if name in parameters:
            return


@functools.cache
def _pattern(declared: str) -> re.Pattern:
    """The expression of the names that a declared name stands for, a group a placeholder."""
    parts = PLACEHOLDER.split(declared)
    # Placeholders stand between the other parts.
    for place in range(1, len(parts), 2):
        parts[place] = f"({FORMS[parts[place]]})"
    parts[::2] = map(re.escape, parts[::2])
    return re.compile("".join(parts))


def is_named(name: str, declared: str) -> bool:
    """Whether a name is one that a declared name stands for."""
    return _pattern(declared).fullmatch(name) is not None


def examples(declared: str) -> list[str]:
    """Names that a declared name stands for: `triad_1`, `triad_2`, .. of `triad_N`."""
    expanded = [declared]
    for kind in PLACEHOLDER.findall(declared):
        expanded = [
            PLACEHOLDER.sub(text, name, count=1) for name in expanded for text in EXAMPLES[kind]
        ]
    return expanded


@functools.cache
def names() -> tuple[str, ...]:
    """Names of the checks that have a file."""
    return tuple(sorted(path.stem for path in FILES.glob("*.yaml")))


@functools.cache
def check(name: str) -> Check | None:
    """The facts of a check, a duet's being its check's; None without a file.

    Raises CatalogueError.
    """
    # Names come from databases, too: only listed files are read.
    stem = name.removesuffix(DUET)
    if stem not in names():
        return None
    return load(FILES / f"{stem}.yaml")


def checks() -> list[Check]:
    """The facts of all checks. Raises CatalogueError."""
    return list(filter(None, map(check, names())))


@functools.cache
def extras() -> dict[str, Mapping]:
    """Keys of a partition's extras that single checks read, each with its JSON Schema.

    Raises CatalogueError.
    """
    keys: dict[str, Mapping] = {}
    for known in checks():
        keys.update(known.extras)
    return keys


@functools.lru_cache(maxsize=65536)
def variable(display_name: str, name: str) -> Variable | None:
    """The facts of a variable of a case; None where no file has it. Raises CatalogueError.

    :arg display_name: the check's name with its parameters, `npb %benchmark=ep`.
    """
    base = naming.base_name(display_name)
    known = check(base)
    if known is None:
        return None
    parameters = naming.parameters(display_name)
    if base in names():
        return known.variable(name, parameters)
    # Of a duet. A check may measure a variable that ends so, too.
    side = OF_DUET.search(name)
    of_check = known.variable(OF_DUET.sub("", name), parameters)
    if of_check is not None and side and side[1] == "ratio":
        # B over A, which is not in the unit of either.
        return Variable("", "Median of B over A.", NONE, NONE)
    return of_check


def layer(display_name: str, name: str) -> str:
    """The layer of a variable; NONE without one, OTHER where no file has the variable."""
    known = variable(display_name, name)
    if known is None:
        return OTHER
    return known.layer


def layers(display_name: str = "") -> set[str]:
    """The layers of a check's variables; without a name, of all checks."""
    if not display_name:
        return set().union(*(known.layers({}) for known in checks()))
    known = check(naming.base_name(display_name))
    if known is None:
        return {OTHER}
    return known.layers(naming.parameters(display_name))


@functools.cache
def facts() -> tuple[str, ...]:
    """Names of the recorded facts of cases, with placeholders. Raises CatalogueError."""
    return tuple(documents.read(FACTS, error=CatalogueError)["facts"])


def load(path: Path) -> Check:
    """The facts of a file. Raises CatalogueError."""
    data = documents.read(path, SCHEMA, CatalogueError, "correct it")
    if "smoke" in data:
        data["smoke"] = Smoke(**data["smoke"])
    return Check(path, **data)
