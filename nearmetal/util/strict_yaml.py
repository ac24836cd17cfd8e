"""YAML without what PyYAML takes silently: the last of two equal keys, infinity and NaN.

Also refused is a text that uses up time or memory: by aliases, by levels or by a long number.
Each fault is a YamlError.
"""

from __future__ import annotations

import math
from typing import Any

import yaml

#: libyaml's, where PyYAML has it: ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MERGE = "tag:yaml.org,2002:merge"
FLOAT, INT = "tag:yaml.org,2002:float", "tag:yaml.org,2002:int"
#: Most parts of a document, where an alias counts as often as it stands there.
MOST_PARTS = 1_000_000
#: Most levels of a document. libyaml's loader ends the process where its stack is used up.
MOST_LEVELS = 10_000
#: Most characters of a number. PyYAML's time for one in base 60 grows with the square.
MOST_DIGITS = 400


class YamlError(ValueError):
    """The text is not YAML, or holds what is refused here. The message names the line."""


def load(text: str | bytes):
    """The document of a text. Raises YamlError."""
    if isinstance(text, bytes):
        text = _decoded(text)
    try:
        _refuse_deep(text)
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            _refuse_silent_faults(node, {})
            if node is None:
                return None
            return loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YamlError(_indented_by_a_tab(text, error) or " ".join(str(error).split())) from None
    except YamlError:
        raise
    # PyYAML's constructors raise whatever Python does on a date, a number or a key that is none.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise YamlError(f"{type(error).__name__}: {error}") from None


def _decoded(text: bytes) -> str:
    """The text of UTF-8. Raises YamlError."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        raise YamlError(
            f"line {line}: the byte 0x{text[error.start]:02x} is not UTF-8. Fix: store the file "
            "as UTF-8 (`iconv -f latin1 -t utf-8`)"
        ) from None


def _indented_by_a_tab(text: str, error: yaml.YAMLError) -> str:
    """The fault of a line that a tab indents, where YAML's reader stopped; '' if none does."""
    mark = getattr(error, "problem_mark", None)
    lines = text.split("\n")
    if mark is None or mark.line >= len(lines):
        return ""
    line = lines[mark.line]
    if "\t" not in line[: len(line) - len(line.lstrip())]:
        return ""
    return f"line {mark.line + 1}: a tab indents it, which YAML refuses. Fix: write blanks"


def _refuse_deep(text: str) -> None:
    """Raises YamlError."""
    if len(text) <= MOST_LEVELS:
        return
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_LEVELS:
            raise YamlError(f"it has more than {MOST_LEVELS} levels. Fix: write fewer")


def _refuse_silent_faults(node, known: dict[int, int]) -> int:
    """The number of the node's parts. Raises YamlError.

    :arg known: this number of each node that aliases may repeat; 0: the node is not yet counted.
    """
    if id(node) in known:
        if not known[id(node)]:
            raise YamlError("an alias stands within its own anchor. Fix: remove the alias")
        return known[id(node)]
    known[id(node)] = 0
    count = 1
    if isinstance(node, yaml.ScalarNode):
        _refuse_no_number(node)
    elif isinstance(node, yaml.SequenceNode):
        count += sum(_refuse_silent_faults(item, known) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        _refuse_same_keys(node)
        count += sum(_refuse_silent_faults(value, known) for _, value in node.value)
    if count > MOST_PARTS:
        raise YamlError(f"its aliases make more than {MOST_PARTS} parts. Fix: write fewer")
    known[id(node)] = count
    return count


def _refuse_same_keys(node) -> None:
    keys = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue  # a list or mapping is no key, which PyYAML refuses
        name = key.tag, key.value
        if name in keys and key.tag != MERGE:
            raise YamlError(
                f"line {key.start_mark.line + 1}: the key {key.value!r} is there twice. "
                "Fix: remove one of them"
            )
        keys.add(name)


def _refuse_no_number(node) -> None:
    """Raise YamlError for a number that is not finite, or is too long."""
    if node.tag in (FLOAT, INT) and len(node.value) > MOST_DIGITS:
        raise YamlError(
            f"line {node.start_mark.line + 1}: a number has {len(node.value)} characters, and at "
            f"most {MOST_DIGITS} are read. Fix: shorten it"
        )
    if node.tag != FLOAT:
        return
    text = node.value.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
    try:
        finite = math.isfinite(float(text))
    except ValueError:  # in base 60
        return
    if not finite:
        raise YamlError(
            f"line {node.start_mark.line + 1}: {node.value} is not a finite number. Fix: give one"
        )
