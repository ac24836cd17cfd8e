"""The supported versions of ReFrame, and what differs between them in a configuration."""

import re

#: The oldest supported version.
OLDEST = (4, 7)
#: The first version that knows the modules system `envmod`, which it called `tmod4` before.
WITH_ENVMOD = (4, 10)
#: The first version that refuses a name with a digit first, also of features.
WITHOUT_FIRST_DIGITS = (4, 10, 1)
#: Modules systems that ReFrame knows until WITH_ENVMOD.
UNTIL_ENVMOD = ("tmod", "tmod31", "tmod32")


def numbers(version: str) -> tuple[int, ...]:
    """`4.10.4` as (4, 10, 4); what follows the digits is left out."""
    return tuple(map(int, re.findall(r"\d+", version.partition("-")[0])))


def refused(version: str) -> str:
    """Why a version of ReFrame is refused, with the fix; '' if it is supported."""
    if numbers(version) >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    return (
        f"ReFrame {version} is too old: Nearmetal needs {oldest} or newer. "
        f"Fix: pip install 'reframe-hpc>={oldest}'"
    )


def refused_feature(name: str, version: str) -> str:
    """Why this version of ReFrame refuses a feature, with the fix; '' if it takes it."""
    if not name[0].isdigit() or numbers(version) < WITHOUT_FIRST_DIGITS:
        return ""
    return (
        f"{name!r} has a digit first, which ReFrame {version} refuses. "
        "Fix: rename it, or `pip install 'reframe-hpc==4.9.*'` for suites that select by it"
    )


def refused_modules_system(word: str, version: str) -> str:
    """Why this version of ReFrame cannot use a modules system, with the fix; '' if it can."""
    if word not in UNTIL_ENVMOD or numbers(version) < WITH_ENVMOD:
        return ""
    return (
        f"modules_system: ReFrame {version} does not know {word!r}. Fix: write `envmod` where "
        "environment-modules are 4 or newer, else pip install 'reframe-hpc==4.9.*'"
    )


def modules_system(word: str, version: str) -> str:
    """A modules system, by its name in this version of ReFrame."""
    if word not in ("envmod", "tmod4"):
        return word
    if numbers(version) < WITH_ENVMOD:
        return "tmod4"
    return "envmod"
