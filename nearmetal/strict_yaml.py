"""YAML without what PyYAML takes silently: the last of two equal keys, infinity and NaN.

Each fault is a YamlError.
"""

from __future__ import annotations

import math
from typing import Any

import yaml

#: libyaml's, where PyYAML has it: ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
MERGE, FLOAT = "tag:yaml.org,2002:merge", "tag:yaml.org,2002:float"


class YamlError(ValueError):
    """The text is not YAML, or holds what is refused here. The message names the line."""


def load(text: str | bytes):
    """The document of a text. Raises YamlError."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            _refuse_silent_faults(node, set())
            return None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise YamlError(" ".join(str(error).split())) from None
    except YamlError:
        raise
    # PyYAML's constructors raise whatever Python does on a date, a number or a key that is none.
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise YamlError(f"{type(error).__name__}: {error}") from None


def _refuse_silent_faults(node, seen: set[int]) -> None:
    """Raises YamlError. `seen` holds nodes that aliases repeat."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_silent_faults(item, seen)
    if isinstance(node, yaml.ScalarNode) and node.tag == FLOAT:
        _refuse_no_number(node)
    if not isinstance(node, yaml.MappingNode):
        return
    keys = set()
    for key, value in node.value:
        name = (key.tag, key.value) if isinstance(key, yaml.ScalarNode) else None
        if name in keys and key.tag != MERGE:
            raise YamlError(
                f"line {key.start_mark.line + 1}: the key {key.value!r} is there twice. "
                "Fix: remove one of them"
            )
        keys.add(name or id(key))
        _refuse_silent_faults(value, seen)


def _refuse_no_number(node) -> None:
    text = node.value.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan")
    try:
        finite = math.isfinite(float(text))
    except ValueError:  # in base 60
        return
    if not finite:
        raise YamlError(
            f"line {node.start_mark.line + 1}: {node.value} is not a finite number. Fix: give one"
        )
