"""The modules system, and the modules that Nearmetal can use. Pure functions but for `Modules`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nearmetal.cluster.ask import Asker
from nearmetal.util import documents, suggest

SOFTWARE = Path(__file__).resolve().parent / "software.yaml"
#: Oldest version of environment-modules that ReFrame supports.
OLDEST = (4, 1)
#: Most lines of a list that are quoted where they are not understood.
MOST_UNREAD = 3
#: Oldest JDK that mpj-native runs on: `java.lang.foreign` is final there.
NATIVE_JDK = 22
#: Kinds of software.yaml that environments load.
LOADED = (
    *("openmpi", "mpich", "intelmpi", "mvapich", "hpcx"),
    *("mpj", "fastmpj", "gcc", "java", "apptainer"),
)
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NAME = r"[\w.+-][\w.+/@~^%=-]*"
#: What follows a name: `(default)`, `(D:latest)`, ` <aL>`, `{fabric=ofi}`, ` [L]`.
TAG = r"\([^()]*\)|<[^<>]*>|\{[^{}]*\}|\[[^\[\]]*\]"
#: A module in a terse list.
LISTED = re.compile(rf"({NAME})((?:\s*(?:{TAG}))*)")
#: Words of a tag by which a site marks its default version.
DEFAULT = {"default", "D"}
#: Lines of a terse list that name no module: directories, sections, code for Python.
NO_NAME = re.compile(r".*[:/]|-{3,}.*-{3,}|import \w+|_mlstatus = .*|os\.environ\b.*|")
#: What may stand before a version: the compiler that built it, `/gcc`, `/gcc/64`, `/gcc-12.2`.
COMPILERS = (
    r"(?:/(?:gcc|gnu|ge|intel|oneapi|aocc|nvhpc|nvidia|pgi|clang|llvm|cce)[\w.+-]*(?:/64)?)*"
)
#: What may follow a name: `/5.0.3`, `@5.0.3`, `-5.0.3-gcc-13`, `_2021.4.0`, `/gcc/64/4.1.5`.
VERSION = COMPILERS + r"(?:[/@_-]v?\d.*)?"
#: A directory before a name that says whose module it is: `hdf5/openmpi/1.14` is HDF5.
OTHERS = r"(?!(?:.*/)?(?:p?hdf\d?|p?netcdf|fftw|boost|petsc|slepc|scalapack|hypre|mumps)[^/]*/)"
NEEDS = "You will need to load all module(s) on any one of the lines below"
#: What a modules system prints where it cannot load a module.
REFUSED = re.compile(
    r"Lmod has detected the following error|\bERROR\b|^Error:|_mlstatus = False|"
    r"Unable to locate a modulefile",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Available:
    """A module in a list of modules."""

    name: str
    default: bool = False  #: the site marks this version as its default


def available(text: str) -> tuple[list[Available], list[str]]:
    """The modules of `module -t avail` or `-t spider`, and the lines that are not understood.

    The modules are in their order, each once. Left out are directories (`/opt/modules:`) and names
    without a version that Lmod lists before their versions (`gcc/`).
    """
    modules: dict[str, Available] = {}
    unread: list[str] = []
    for line in map(str.strip, ESCAPE.sub("", text).splitlines()):
        if NO_NAME.fullmatch(line):
            continue
        listed = LISTED.fullmatch(line)
        if not listed:
            unread.append(line)
            continue
        is_default = not DEFAULT.isdisjoint(re.findall(r"[^\s,:(){}<>\[\]]+", listed[2]))
        modules.setdefault(listed[1], Available(listed[1], is_default))
    # Lmod's spider lists `gcc` beside `gcc/12`.
    for parent in {name.rpartition("/")[0] for name in modules}:
        modules.pop(parent, None)
    return list(modules.values()), unread


def prerequisites(text: str) -> list[str] | None:
    """The modules that a module of a hierarchy needs first, from `module spider NAME/VERSION`.

    The first of the possible combinations. [] if the module needs none, None if the text does not
    describe one module.
    """
    lines = ESCAPE.sub("", text).splitlines()
    for number, line in enumerate(lines):
        if NEEDS in line:
            below = list(filter(None, map(str.split, lines[number + 1 :])))
            if below:
                return below[0]
            return None
    if re.search(r"can be loaded directly", text):
        return []
    return None


def software() -> dict[str, re.Pattern]:
    """Kind of software -> pattern of the names of its modules, of software.yaml."""
    patterns = {}
    for kind, names in documents.read(SOFTWARE).items():
        pattern = rf"{OTHERS}(?:.*/)?(?:{'|'.join(names)}){VERSION}"
        patterns[kind] = re.compile(pattern, re.IGNORECASE)
    return patterns


def of_kinds(modules: list[Available]) -> dict[str, list[Available]]:
    """The modules of each kind of software, the preferred one first.

    Preferred are the site's default, then the plainest name, then the highest version.
    """
    patterns = software()
    by_kind: dict[str, list[Available]] = {kind: [] for kind in patterns}
    for module in modules:
        for kind, pattern in patterns.items():
            if pattern.fullmatch(module.name):
                by_kind[kind].append(module)
                # `openmpi/gcc/4.1.5` is no GCC: a kind of software.yaml goes before those below it.
                break
    for listed in by_kind.values():
        # Python sorts are stable: the last key decides first.
        listed.sort(key=lambda module: natural(module.name), reverse=True)
        listed.sort(key=lambda module: (not module.default, len(stem(module.name))))
    return {kind: listed for kind, listed in by_kind.items() if listed}


def stem(name: str) -> str:
    """A module's name without its version, which follows the last `/` or `@`."""
    return re.split(r"[@/](?=[^/@]*$)", name)[0]


def jdk(text: str) -> int | None:
    """The JDK's major version in the name of a module or a version; None if it has none.

    `Java/21.0.2`, `openjdk@21.0.3_9`, `java/1.8.0_292`, `25.0.1`.
    """
    match = re.search(r"(?:^|[@/-])v?(\d+)(?:\.(\d+))?", text)
    if not match:
        return None
    # Java 8 and older call themselves 1.8.
    if match[1] == "1" and match[2]:
        return int(match[2])
    return int(match[1])


def natural(text: str) -> list[tuple[int, str]]:
    """A key by which version 12 follows version 9."""
    parts = re.findall(r"(\d+)|(\D+)", text)
    return [(int(digits or -1), other) for digits, other in parts]


@dataclass
class Modules:
    """The modules system of this login node."""

    kind: str  #: as ReFrame calls it: lmod, envmod, spack or nomod
    origin: str  #: by what it was recognized
    command: tuple[str, ...] = ()
    note: str = ""  #: what ReFrame would miss; '' if nothing

    @classmethod
    def found(cls, environment: Mapping[str, str], asker: Asker) -> Modules:
        """The modules system that this process's environment has."""
        # First: a host may have both systems, and this is the one of the shell.
        if lmod := environment.get("LMOD_CMD"):
            return cls("lmod", "LMOD_CMD is set", (lmod, "python"))
        command = shutil.which("modulecmd") or environment.get("MODULES_CMD")
        if command:
            return cls._of_environment_modules(command, environment, asker)
        # Spack last: many sites have it beside their modules.
        if shutil.which("spack"):
            return cls("spack", "spack is on PATH, and there is no `module`", ("spack",))
        return cls("nomod", "neither LMOD_CMD nor `modulecmd` nor spack was found")

    @classmethod
    def _of_environment_modules(cls, command, environment, asker) -> Modules:
        answer = asker.run([command, "python", "-V"])
        version = re.search(r"Modules Release (\d+)\.(\d+)", answer.both)
        if not version or (int(version[1]), int(version[2])) < OLDEST:
            note = (
                f"{command} is no environment-modules of version {OLDEST[0]}.{OLDEST[1]} or "
                "later, which ReFrame needs. Fix: load software in `prepare_cmds`"
            )
            return cls("nomod", f"{command} python -V", note=note)
        note = ""
        if not shutil.which("modulecmd"):
            note = (
                "ReFrame needs `modulecmd` on PATH. Fix: add a link to "
                f"{environment.get('MODULES_CMD')} of this name to a directory of PATH"
            )
        return cls("envmod", f"{command} python -V", (command, "python"), note)

    def names(self, asker: Asker) -> list[Available]:
        """The modules that can be loaded, in a hierarchy also those below others."""
        if self.kind == "spack":
            return self._listed(["find", "--format", "{name}@{version}"], asker)
        if not self.command:
            return []
        modules = self._listed(["-t", "avail"], asker)
        if self.kind == "lmod":
            known = {module.name for module in modules}
            for module in self._listed(["-t", "spider"], asker):
                if module.name not in known:
                    modules.append(module)
        return modules

    def _listed(self, words: list[str], asker: Asker) -> list[Available]:
        """The modules that a command lists. A line that names none is in `asker.unread`."""
        answer = asker.ask([*self.command, *words])
        text = answer.both
        if self.kind == "spack":
            text = answer.output
        modules, unread = available(text)
        if unread:
            lines = suggest.shorten([repr(line[:80]) for line in unread], MOST_UNREAD)
            asker.unread.append(
                f"`module {' '.join(words)}`: no name of a module was understood in {lines}. Fix: "
                "if one names a module that you need, add it to `modules` of `environments` by hand"
            )
        return modules

    def needed(self, name: str, asker: Asker) -> list[str]:
        """The modules to load for a module: those before it in a hierarchy, and itself."""
        if self.kind != "lmod":
            return [name]
        answer = asker.run([*self.command, "spider", name])
        first = prerequisites(answer.both)
        if first is None and (why := self.refusal([name], asker)):
            asker.unread.append(
                f"`module spider {name}` does not tell what to load first, and alone it cannot be "
                f"loaded ({why}). Fix: add what it needs to `modules` before {name}"
            )
        return [*(first or []), name]

    def refusal(self, names: list[str], asker: Asker) -> str:
        """Why these modules cannot be loaded together, in that order; '' if they can."""
        if not names or not self.command:
            return ""
        words = [*self.command, "load"]
        if self.kind == "spack":
            # Without it, `spack load` only works within its shell function.
            words.append("--sh")
        answer = asker.run([*words, *names])
        if answer.why:
            return answer.why
        if answer.code == 0 and not REFUSED.search(answer.both):
            return ""
        # ReFrame unloads what this shell has loaded and they conflict with.
        if "conflict" in answer.both.lower():
            return ""
        lines = list(filter(None, map(str.strip, answer.errors.splitlines())))
        return " ".join(lines[:2])[:200] or "the modules system refuses them"
