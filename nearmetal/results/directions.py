"""Which values of a variable are better, where its unit does not say.

The order is: the unit (nearmetal/model/metrics.py), the bounds of the reference that ReFrame
stored, then the site's lines in `better.yaml`, beside its baselines:

    score: more             # a unit
    "gromacs*:ratio": less  # CHECK:VARIABLE, with shell wildcards
"""

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from nearmetal.errors import NearmetalError
from nearmetal.model import metrics, naming
from nearmetal.results.session import Session, Value
from nearmetal.util import files, suggest

#: Name of the file, in the directory of the baselines.
FILE = "better.yaml"
WORDS = (metrics.LESS, metrics.MORE)
FIX = "write lines such as `score: more`, with a unit or CHECK:VARIABLE"


class DirectionsError(NearmetalError):
    """The file is not usable. The message names file and key."""


@dataclass(frozen=True)
class Directions:
    """The site's lines: a unit or CHECK:VARIABLE, and `less` or `more`. The first match counts."""

    lines: tuple[tuple[str, str], ...] = ()

    @classmethod
    def read(cls, path: Path) -> "Directions":
        """The lines of a file; none if there is no file. Raises DirectionsError."""
        from nearmetal.util import documents  # not at the top: PyYAML, which few commands use

        if files.is_absent(path):
            return cls()
        data = documents.read(path, error=DirectionsError, fix=FIX)
        if not isinstance(data, dict):
            raise DirectionsError(f"{path}: not a mapping. Fix: {FIX}")
        for name, word in data.items():
            if not isinstance(name, str):
                raise DirectionsError(f"{path}: the key {name!r} is not a text. Fix: {FIX}")
            if word not in WORDS:
                fault = f"{name} is {word!r}, not less or more"
                if guess := suggest.did_you_mean(word, WORDS):
                    fault += f"; {guess}"
                raise DirectionsError(f"{path}: {fault}. Fix: {FIX}")
        return cls(tuple(data.items()))

    def of_session(self, session: Session) -> Session:
        """The session, whose values have a direction where a line gives one."""
        # Copies of all values take time in large databases.
        if not self.lines:
            return session
        cases = []
        for case in session.cases:
            cases.append(replace(case, values=tuple(map(self.of, case.values))))
        return replace(session, cases=tuple(cases))

    def of(self, value: Value) -> Value:
        """The value, with the direction of the first matching line if it has none."""
        if value.lower_is_better is not None:
            return value
        for name, word in self.lines:
            if name == value.unit or _matches(name, value):
                return replace(value, better=word)
        return value


def _matches(pattern: str, value: Value) -> bool:
    """Whether a pattern CHECK:VARIABLE names the value's variable."""
    check, colon, variable = pattern.partition(":")
    if not colon or not fnmatchcase(value.variable, variable):
        return False
    return fnmatchcase(value.check, check) or fnmatchcase(naming.base_name(value.check), check)
