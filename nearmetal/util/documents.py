"""Reads a document: YAML, checked by a schema, refused with its file, line and fix."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from nearmetal.errors import NearmetalError
from nearmetal.util import files, strict_yaml, suggest

if TYPE_CHECKING:
    import jsonschema

#: Most characters of a message: jsonschema quotes the whole value.
MOST_CHARACTERS = 300


class DocumentError(NearmetalError):
    """A document is not usable. The message names the file, the line and the fix."""


@dataclass(frozen=True)
class Fault:
    """What is wrong in a document."""

    keys: tuple  #: from the root to the faulty value
    message: str  #: without its full stop
    fix: str = ""
    key: str | int | None = None  #: the faulty key or item of that value, if one is

    def __str__(self) -> str:
        """`extras.cores: the key is unknown. Fix: remove it`."""
        return self._at(".".join(map(str, self.keys)) or "the file")

    def _at(self, place: str) -> str:
        return with_fix(f"{place}: {self.message}", self.fix)

    def sentence(self, text: str | bytes, place: str = "") -> str:
        """The fault with its line: `line 7: extras.cores: ...`.

        :arg text: of the document.
        :arg place: words for the keys.
        """
        keys = self.keys
        if self.key is not None:
            keys = (*keys, self.key)
        described = str(self)
        if place:
            described = self._at(place)
        return f"line {line_of(text, keys)}: {described}"


def read(
    path: Path,
    schema: Path | Mapping | None = None,
    error: type[Exception] = DocumentError,
    fix: str = "",
) -> Any:
    """The document of a YAML file.

    :arg schema: or the file that holds it. Its `description` is the fix of a fault.
    :arg error: the type to raise.
    :arg fix: of a fault for which the schema has no fix.
    :raises error: names the file, and the line, key and fix of the first fault.
    """
    text, document = load(path, error, fix)
    if schema is not None:
        for fault in faults(document, schema, fix):
            raise error(f"{path}: {fault.sentence(text)}")
    return document


def load(
    path: Path,
    error: type[Exception] = DocumentError,
    fix: str = "",
    text: str | bytes | None = None,
) -> tuple[str | bytes, Any]:
    """The text and the document of a YAML file. Raises as `read` does.

    :arg text: of a file that is not written yet.
    """
    try:
        if text is None:
            text = files.read(path)
        return text, strict_yaml.load(text)
    except (OSError, strict_yaml.YamlError) as fault:
        why = getattr(fault, "strerror", None) or fault
        raise error(f"{path}: {with_fix(f'cannot be read as YAML: {why}', fix)}") from None


def with_fix(sentence: str, fix: str) -> str:
    """A sentence and its fix, unless it has one or there is none."""
    if not fix or "Fix: " in sentence:
        return sentence
    stop = "."
    if sentence.endswith((".", "?")):
        stop = ""
    return f"{sentence}{stop} Fix: {fix}"


def part(schema: Path, name: str) -> Mapping[str, Any]:
    """A definition of a file of schemas, as a schema."""
    return {"$defs": read(schema)["$defs"], "$ref": f"#/$defs/{name}"}


def faults(document: Any, schema: Path | Mapping, fix: str = "") -> Iterator[Fault]:
    """What of a document its schema does not allow, as `read` takes them."""
    for error in _validator(schema).iter_errors(document):
        yield from _faults(error, fix)


def line_of(text: str | bytes, keys: Sequence) -> int:
    """The line, from 1, of the value at some keys, or of the nearest one above it."""
    node = yaml.compose(text, strict_yaml.LOADER)
    line = 1
    for key in keys:
        child = _child(node, key)
        if child is None:
            break
        node, line = child
    return line


def _child(node: yaml.Node | None, key) -> tuple[yaml.Node, int] | None:
    """The node below a node at a key, and its line."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        child = node.value[key]
        return child, child.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        return None
    for name, child in node.value:
        if name.value == str(key):
            return child, name.start_mark.line + 1
    for name, child in node.value:
        if name.tag == strict_yaml.MERGE:
            # `<<: *one` or `<<: [*one, *other]`
            merges = [child]
            if isinstance(child, yaml.SequenceNode):
                merges = child.value
            for merged in merges:
                if below := _child(merged, key):
                    return below
    return None


def _validator(schema: Path | Mapping) -> jsonschema.Draft202012Validator:
    if isinstance(schema, Path):
        return _validator_of_file(schema)
    import jsonschema  # not at the top: it takes a while, and most documents are our own

    formats = jsonschema.FormatChecker([])
    formats.checks("regex", (re.error, OverflowError, RecursionError))(_is_expression)
    return jsonschema.Draft202012Validator(schema, format_checker=formats)


@functools.cache
def _validator_of_file(path: Path) -> jsonschema.Draft202012Validator:
    return _validator(read(path))


def _is_expression(pattern: object) -> bool:
    """Raises what `re` does on a pattern that is none, or is too large."""
    return not isinstance(pattern, str) or bool(re.compile(pattern))


def _faults(error: jsonschema.ValidationError, fix: str) -> Iterator[Fault]:
    """The faults of an error of jsonschema, in words that name the nearest known name."""
    # From the root, also for a fault below `anyOf`.
    keys = tuple(error.absolute_path)
    schema: Mapping[str, Any] = {}
    if isinstance(error.schema, Mapping):  # or true, or false
        schema = error.schema
    fix = schema.get("description", fix)
    known = schema.get("properties", {})
    if error.validator == "required":
        for key in schema["required"]:
            if error.message.startswith(f"{key!r} "):
                fix = known.get(key, {}).get("description", fix)
                yield Fault(keys, f"{key!r} is missing", fix)
    elif error.validator == "additionalProperties" and known and "patternProperties" not in schema:
        for key in error.instance:  # type: ignore[union-attr]
            if key not in known:
                message = suggest.unknown_value("the key", key, known)
                yield Fault(keys, message, "correct or remove the key", str(key))
    elif error.validator == "enum":
        yield Fault(keys, suggest.unknown_value("the value", error.instance, schema["enum"]), fix)
    else:
        yield Fault(keys, error.message[:MOST_CHARACTERS], fix)
