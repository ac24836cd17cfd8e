"""A system as its file describes it, for commands beside ReFrame."""

import os
from pathlib import Path

from reframe.core.exceptions import ConfigError

from nearmetal.errors import NearmetalError
from nearmetal.site import obsolete
from nearmetal.site.site_files import merged_environments, read_environments, read_system


class NotDescribed(NearmetalError):
    """No file describes the system, so that nothing is known of its partitions."""


def described(system: str) -> tuple[Path, dict, dict]:
    """A system's file, what it holds, and the environments. Raises NearmetalError.

    A damaged file of another system is said on stderr.
    """
    found = obsolete.file_of(system)
    damaged = list(obsolete.damaged())
    for path, sentence in damaged:
        if obsolete.may_describe(path, system):
            raise NearmetalError(f"the system {system!r} may be described there: {sentence}")
        obsolete.tell_once(sentence)
    if found is None:
        looked = ", ".join(dict.fromkeys(map(str, obsolete.directories())))
        fix = "correct the name" if not damaged else f"correct {damaged[0][0]}, or the name"
        raise NotDescribed(
            f"no file describes the system {system!r}. Fix: {fix}, or add it to one "
            f"of {looked}, or set NEARMETAL_SYSTEMS_PATH"
        )
    try:
        common = read_environments(environments_file())
        document = read_system(found[0], common)
    except ConfigError as error:
        raise NearmetalError(str(error)) from None
    return found[0], document, merged_environments(document, common)


def environments_file() -> Path:
    """The file of the environments that all systems share."""
    places = [directory.parent / "environments.yaml" for directory in obsolete.directories()]
    return next((path for path in places if os.path.lexists(path)), places[-1])
