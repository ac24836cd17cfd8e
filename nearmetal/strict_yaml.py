"""YAML without double keys, of which PyYAML takes the last silently. Each fault is a YamlError."""

import yaml

#: libyaml's, where PyYAML has it: ten times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MERGE = "tag:yaml.org,2002:merge"


class YamlError(ValueError):
    """The text is not YAML, or a key is there twice. The message names the line."""


def load(text: str | bytes):
    """The document of a text. Raises YamlError, also where a mapping has a key twice."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        loader = LOADER(text)
        try:
            node = loader.get_single_node()
            _refuse_keys_given_twice(node, set())
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


def _refuse_keys_given_twice(node, seen: set[int]) -> None:
    """Raises YamlError. `seen` holds nodes that aliases repeat."""
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_keys_given_twice(item, seen)
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
        _refuse_keys_given_twice(value, seen)
