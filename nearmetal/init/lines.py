"""Lines of a YAML file, each with a comment on the origin of its value."""

from dataclasses import dataclass, field

import yaml

from nearmetal.util import sanitize

#: Most columns of a comment.
WIDTH = 100


@dataclass
class Lines:
    """A file in the making."""

    lines: list[str] = field(default_factory=list)
    guesses: int = 0  #: number of the lines whose value is guessed

    def add(self, indent: int, key: str, value, origin: str, guess: str = "") -> None:
        """A key and its value on one line. With a guess, that is the comment.

        :arg indent: number of blanks; a key that begins with `- ` begins an item of a list.
        """
        self._line(indent, f"{key}: {flow(value)}", origin, guess)

    def open(self, indent: int, key: str, origin: str) -> None:
        """A key whose value follows on further lines."""
        self._line(indent, f"{key}:", origin)

    def item(self, indent: int, value, origin: str, guess: str = "") -> None:
        """A value of a list."""
        self._line(indent, f"- {flow(value)}", origin, guess)

    def _line(self, indent: int, text: str, origin: str, guess: str = "") -> None:
        note = sanitize.line(origin)
        if guess:
            self.guesses += 1
            note = f"guessed: {sanitize.line(guess)}"
        self.lines.append(f"{' ' * indent}{text}  # {note}")

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def flow(value) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(
        [value], default_flow_style=True, width=float("inf"), allow_unicode=False, sort_keys=False
    )
    return text.strip()[1:-1]


def comment(text: str) -> str:
    """Comment lines of some text."""
    lines, line = [], "#"
    for word in sanitize.line(text).split():
        if len(line) + len(word) + 1 > WIDTH and line != "#":
            lines.append(line)
            line = "#  "
        line += f" {word}"
    return "\n".join([*lines, line]) + "\n"
