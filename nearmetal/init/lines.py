"""Lines of a YAML file, each with a comment on the origin of its value."""

from dataclasses import dataclass, field

import yaml

from nearmetal.util import sanitize


@dataclass(frozen=True)
class Line:
    text: str
    origin: str
    guessed: bool = False

    def __str__(self) -> str:
        mark = "guessed: " if self.guessed else ""
        return f"{self.text}  # {mark}{sanitize.line(self.origin)}"


@dataclass
class Lines:
    """A file in the making."""

    lines: list[Line] = field(default_factory=list)

    def add(self, indent: int, key: str, value, origin: str, guess: str = "") -> None:
        """A key and its value on one line. With a guess, that is the comment.

        :arg indent: number of blanks; a key that begins with `- ` begins an item of a list.
        """
        text = f"{' ' * indent}{key}: {flow(value)}"
        self.lines.append(Line(text, guess or origin, bool(guess)))

    def open(self, indent: int, key: str, origin: str) -> None:
        """A key whose value follows on further lines."""
        self.lines.append(Line(f"{' ' * indent}{key}:", origin))

    def item(self, indent: int, value, origin: str, guess: str = "") -> None:
        """A value of a list."""
        self.lines.append(Line(f"{' ' * indent}- {flow(value)}", guess or origin, bool(guess)))

    @property
    def guesses(self) -> int:
        return sum(line.guessed for line in self.lines)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)


def flow(value) -> str:
    """A value as YAML on one line."""
    text = yaml.safe_dump(
        [value], default_flow_style=True, width=float("inf"), allow_unicode=False, sort_keys=False
    )
    return text.strip()[1:-1]


def comment(text: str) -> str:
    """Comment lines of some text, each of at most 100 columns."""
    lines, line = [], "#"
    for word in sanitize.line(text).split():
        if len(line) + len(word) + 1 > 100 and line != "#":
            lines.append(line)
            line = "#  "
        line += f" {word}"
    return "\n".join([*lines, line]) + "\n"
