"""Damaged copies of a text for fuzz tests. The seed is fixed, so every run has the same copies."""

import random
import re
from collections.abc import Iterator

#: Texts that a broken program, disk or editor puts in place of a value.
INTRUDERS = (
    "nan", "NaN", "inf", "-inf", "Infinity", "0", "-1", "1e999", "", " ", "\0", "\x1b[31m", "\ud800", "\ufffd",  # noqa: E501
    "null", "[]", "{}", "true", "None", "9" * 400, "%", "#", "'", '"', "\n", "\t",
)  # fmt: skip


def damaged(text: str, count: int, seed: int = 17) -> Iterator[tuple[str, str]]:
    """Yield `count` damaged copies of a text, each with the kind of its damage."""
    source = random.Random(seed)
    kinds = (
        cut_off, line_lost, line_twice, lines_swapped, lines_mixed, digit_changed, digit_lost,
        character_changed, number_replaced, word_replaced,
    )  # fmt: skip
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind.__name__, kind(text, source)


def cut_off(text: str, source: random.Random) -> str:
    return text[: source.randrange(len(text) + 1)]


def line_lost(text: str, source: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[source.randrange(len(lines))]
    return "".join(lines)


def line_twice(text: str, source: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        place = source.randrange(len(lines))
        lines.insert(source.randrange(len(lines) + 1), lines[place])
    return "".join(lines)


def lines_swapped(text: str, source: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        one, other = source.randrange(len(lines)), source.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


def lines_mixed(text: str, source: random.Random) -> str:
    """Put a line into the middle of another, as if two processes wrote at once."""
    lines = text.splitlines(keepends=True)
    if len(lines) > 1:
        place = source.randrange(len(lines) - 1)
        cut = source.randrange(len(lines[place]) + 1)
        lines[place : place + 2] = [lines[place][:cut] + lines[place + 1] + lines[place][cut:]]
    return "".join(lines)


def digit_changed(text: str, source: random.Random) -> str:
    return _replace(text, [i for i, c in enumerate(text) if c.isdigit()], source, "0123456789")


def digit_lost(text: str, source: random.Random) -> str:
    return _replace(text, [i for i, c in enumerate(text) if c.isdigit()], source, [""])


def character_changed(text: str, source: random.Random) -> str:
    return _replace(text, range(len(text)), source, INTRUDERS)


def number_replaced(text: str, source: random.Random) -> str:
    return _replace_span(text, r"\d+(?:\.\d+)?", source)


def word_replaced(text: str, source: random.Random) -> str:
    return _replace_span(text, r"\w+", source)


def _replace(text: str, places, source: random.Random, by) -> str:
    if not places:
        return text
    place = source.choice(places)
    return text[:place] + source.choice(by) + text[place + 1 :]


def _replace_span(text: str, pattern: str, source: random.Random, by=INTRUDERS) -> str:
    spans = [found.span() for found in re.finditer(pattern, text)]
    if not spans:
        return text
    start, end = source.choice(spans)
    return text[:start] + source.choice(by) + text[end:]


def damaged_bytes(data: bytes, count: int, seed: int = 17) -> Iterator[tuple[str, bytes]]:
    """Yield `count` damaged copies of a binary file, each with the kind of its damage."""
    source = random.Random(seed)
    kinds = (file_cut_off, bit_changed, block_zeroed, block_moved, file_longer)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        yield kind.__name__, kind(data, source)


def file_cut_off(data: bytes, source: random.Random) -> bytes:
    return data[: source.randrange(len(data) + 1)]


def bit_changed(data: bytes, source: random.Random) -> bytes:
    place = source.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << source.randrange(8)]) + data[place + 1 :]


def block_zeroed(data: bytes, source: random.Random, size: int = 512) -> bytes:
    place = source.randrange(-(-len(data) // size)) * size
    length = min(size, len(data) - place)
    return data[:place] + bytes(length) + data[place + length :]


def block_moved(data: bytes, source: random.Random, size: int = 512) -> bytes:
    blocks = [data[at : at + size] for at in range(0, len(data), size)]
    blocks[source.randrange(len(blocks))] = blocks[source.randrange(len(blocks))]
    return b"".join(blocks)


def file_longer(data: bytes, source: random.Random) -> bytes:
    return data + source.randbytes(source.randrange(1, 5000))


#: Lengths of a line, below and above the longest that parsers read; lines of a long text; and how
#: often a token or line is repeated.
LENGTHS, LINES, REPEATED = (100_000, 200_000), 200_000, 50_000
#: What a long line and many short lines consist of.
LETTERS = ("A", " ", "9", "\t", "#", ",", "=", "A ", "9 ", "9.9 ", "a=1 ", "[", "{", ":", "%", "é")
#: Numbers of which no output holds as many things, and numbers too long to read.
ABSURD = ("20000000", "100000000000000000", "1e300", "9" * 10_000, "0." + "9" * 10_000, "0e999")
#: Beginnings of deep documents.
DEEP = ("[", '{"a":', '[{"a":', "(", "- ", "? ")


def hostile(text: str, count: int, part: float = 1, seed: int = 17) -> Iterator[tuple[str, str]]:
    """Yield `count` copies of a text that may stop or fill its reader, each with its kind.

    :arg part: of the lengths and numbers above.
    """
    source = random.Random(seed)
    for number in range(count):
        kind = HOSTILE[number % len(HOSTILE)]
        yield kind.__name__, kind(text, source, part)


def line_long(text: str, source: random.Random, part: float) -> str:
    return _insert_line(text, source, _filled(source, part))


def line_extended(text: str, source: random.Random, part: float) -> str:
    return _repeat_span(text, r".*\S", source, lambda line: _filled(source, part))


def lines_many(text: str, source: random.Random, part: float) -> str:
    return _insert_line(text, source, "\n".join([source.choice(LETTERS)] * round(LINES * part)))


def token_repeated(text: str, source: random.Random, part: float) -> str:
    return _repeat_span(text, r"\w+|[^\w\n]", source, lambda token: token * round(REPEATED * part))


def line_repeated(text: str, source: random.Random, part: float) -> str:
    return _repeat_span(text, r".+\n", source, lambda line: line * round(REPEATED * part))


def count_absurd(text: str, source: random.Random, part: float) -> str:
    return _replace_span(text, r"\d+(?:\.\d+)?", source, ABSURD)


def nested_deep(text: str, source: random.Random, part: float) -> str:
    return _replace_span(text, r"\w+", source, [opening * round(LINES * part) for opening in DEEP])


def _filled(source: random.Random, part: float) -> str:
    """A line without its end."""
    length = round(source.choice(LENGTHS) * part)
    return (source.choice(LETTERS) * length)[:length]


def _insert_line(text: str, source: random.Random, line: str) -> str:
    lines = text.splitlines(keepends=True)
    lines.insert(source.randrange(len(lines) + 1), f"{line}\n")
    return "".join(lines)


def _repeat_span(text: str, pattern: str, source: random.Random, more) -> str:
    """The text with `more` of what the pattern finds behind it."""
    spans = [found.span() for found in re.finditer(pattern, text)]
    if not spans:
        return text
    start, end = source.choice(spans)
    return text[:end] + more(text[start:end]) + text[end:]


HOSTILE = (
    line_long, line_extended, lines_many, token_repeated, line_repeated, count_absurd, nested_deep,
)  # fmt: skip
