"""Text of sessions, jobs and users without control characters, for every output.

What a session holds was written by programs that failed, and by whoever named a check. A control
character in it could end a line, colour or clear a terminal, or make XML that no parser accepts.
"""

import contextlib
import functools
import re
import sys
from dataclasses import fields, is_dataclass, replace

#: Sequences that a terminal obeys: colours and movements (CSI), titles and links (OSC), other
#: strings, single letters.
ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c\x9d\n]*(?:\x07|\x1b\\|\x9c)"
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x90\x98\x9c\x9e\x9f\n]*(?:\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\`-~]"
)
#: What nobody sees (Unicode's Default_Ignorable_Code_Point, and marks of annotations): signs of
#: direction, joiners, blanks without width, variation selectors, tags. Joiners and selectors that
#: Persian or a picture needs are among them: with any of these, two names look like one.
INVISIBLE = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
#: Control characters, line separators, what nobody sees, and what is no character at all.
UNSAFE = re.compile(
    rf"[\x00-\x1f\x7f-\x9f\u2028\u2029{INVISIBLE}\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def _visible(match: re.Match) -> str:
    code = ord(match[0])
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    if code > 0xFF:
        return f"\\u{code:04x}"
    return f"\\x{code:02x}"


@functools.lru_cache(maxsize=1 << 16)
def name(text: str) -> str:
    """A name on one line. Control characters are written out (`\\x1b`): names stay distinct."""
    return UNSAFE.sub(_visible, text)


def text(text: str) -> str:
    """Text of several lines without terminal sequences; control characters are written out."""
    if not UNSAFE.search(text):
        return text
    plain = ESCAPES.sub("", text.replace("\r\n", "\n"))
    return "\n".join(name(line.expandtabs(4)) for line in re.split(r"[\n\r\v\f]", plain))


def line(value) -> str:
    """Text on one line: as `text`, with a blank for each end of a line."""
    return " ".join(text(str(value)).split("\n"))


def first_line(reason: str) -> str:
    """A failure's reason on one line, without the rules that ReFrame draws around output."""
    kept = []
    for row in reason.splitlines():
        if re.search(r"\w", row) and not row.startswith("---"):
            kept.append(row.strip())
    return " / ".join(kept)[:300]


def every(thing):
    """A copy of nested data, of which each text is a `line`. Numbers are not looked at."""
    if isinstance(thing, str):
        return line(thing)
    if isinstance(thing, dict):
        return {every(key): every(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        if thing and isinstance(thing[0], float):
            return thing
        return type(thing)(map(every, thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        changed = {field.name: every(getattr(thing, field.name)) for field in fields(thing)}
        return replace(thing, **changed)
    return thing


class Stream:
    """A stream for people: what is written to it has no control character but the end of a line."""

    def __init__(self, stream):
        self._stream = stream

    def write(self, written: str) -> int:
        safe = text(written)
        encoding = getattr(self._stream, "encoding", None) or "utf-8"
        # A terminal whose encoding lacks a character should not end the command.
        self._stream.write(safe.encode(encoding, "backslashreplace").decode(encoding))
        return len(written)

    def __getattr__(self, name):
        return getattr(self._stream, name)


def terminal(command):
    """Decorator of a command: what it and its errors print is for people, and so is clean."""

    @functools.wraps(command)
    def run(*arguments, **options):
        with (
            contextlib.redirect_stdout(Stream(sys.stdout)),
            contextlib.redirect_stderr(Stream(sys.stderr)),
        ):
            return command(*arguments, **options)

    return run
