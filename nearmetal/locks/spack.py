"""Do the environments, their locks and our recipes agree?  What changed between two locks?

make spack-check                               reads them; asks Spack too where there is one
make spack-lock                                writes the locks anew by Spack, and says what changed
make spack-lock SITE=DIRECTORY                 writes a site's own locks there, with its externals
make spack-lock ... TARGET=neoverse_v1         for that processor
python -m nearmetal.locks.spack OLD NEW        says what changed
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import archspec.cpu  # comes with ReFrame

from nearmetal.checkout import CHECKOUT
from nearmetal.util import documents
from nearmetal.util.cli_errors import HELP, OPTION, guarded

#: The environments, their locks and our recipes.
HERE = CHECKOUT / "spack-env"
SCHEMA = Path(__file__).resolve().parent / "spack-schema.yaml"
#: Versions of Spack's lock files that this reads.
LOCK_VERSIONS = (6, 7)
#: Directory of an environment's locks.
LOCKS = "locks"
OS_RELEASE = Path("/etc/os-release")
#: What may come from the machine that wrote a lock: the compiler and the C library.
EXTERNAL = {"gcc", "glibc"}
REGENERATE = "write it anew: make spack-lock"
#: What new locks are for, by architecture. A64FX and all Neoverse processors have Armv8.2.
TARGETS = {"x86_64": "x86_64_v3", "aarch64": "armv8.2a"}
#: A version, a variant or a value in a spec.
WORD = r"@[^\s~+]+|[~+][\w-]+|[\w-]+=\S+"


class LockError(ValueError):
    """A file is not usable; the message names it and says what to do."""


class NoLock(LockError):
    """An environment has no lock for an architecture; the message says what to do."""


@dataclass(frozen=True)
class Node:
    """One concrete package."""

    hash: str
    name: str
    version: str
    namespace: str
    target: str
    os: str
    parameters: dict
    dependencies: dict[str, str]  #: hashes by name
    external: str | None  #: where it is on the machine that wrote the lock
    virtuals: dict[str, str]  #: hashes of what it depends on by what that is to it, such as `mpi`

    @classmethod
    def of(cls, key: str, data: Mapping) -> Node:
        """The package at a hash of a lock."""
        target = data["arch"]["target"]
        if not isinstance(target, str):
            target = target["name"]
        dependencies, virtuals = {}, {}
        for dependency in data.get("dependencies", []):
            dependencies[dependency["name"]] = dependency["hash"]
            for virtual in dependency["parameters"]["virtuals"]:
                virtuals[virtual] = dependency["hash"]
        return cls(
            key,
            data["name"],
            str(data["version"]),
            data.get("namespace", ""),
            target,
            data["arch"]["platform_os"],
            data.get("parameters", {}),
            dependencies,
            data.get("external", {}).get("path"),
            virtuals,
        )

    @property
    def label(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True)
class Lock:
    path: Path
    spack: str
    roots: dict[str, str]  #: hashes by the text of the spec
    nodes: dict[str, Node]  #: by hash

    @property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes.values()}

    @property
    def environment(self) -> Path:
        """The directory of its environment."""
        if self.path.parent.name == LOCKS:
            return self.path.parents[1]
        return self.path.parent

    @property
    def system(self) -> str:
        """The operating system that its packages are built on, as Spack names it."""
        return self._built.os

    @property
    def target(self) -> str:
        """What its packages are built for."""
        return self._built.target

    @property
    def _built(self) -> Node:
        # Spack writes the target of its own machine for what is external.
        return min(self.nodes.values(), key=lambda node: node.external is not None)

    @property
    def machine(self) -> str:
        return machine_of(self.target)


def machine_of(target: str) -> str:
    """The architecture of a target of Spack's, as `uname -m` has it."""
    if known := archspec.cpu.TARGETS.get(target):
        return known.family.name
    return target


def lock_paths(directory: Path) -> list[Path]:
    """The locks of an environment: OS-TARGET.lock for each system, or a site's own spack.lock."""
    return sorted((directory / LOCKS).glob("*.lock")) or [directory / "spack.lock"]


def system_here() -> str:
    """The operating system of this node as Spack names it: debian13, rocky9, ubuntu24.04."""
    try:
        text = OS_RELEASE.read_text(encoding="utf-8")
    except OSError:
        return ""
    facts = dict(re.findall(r"""^(ID|VERSION_ID)=["']?([\w.-]*)""", text, re.M))
    version = facts.get("VERSION_ID", "")
    if facts.get("ID") != "ubuntu":
        version = version.split(".")[0]
    return facts.get("ID", "") + version


def choose(directory: Path, machine: str) -> Lock:
    """The lock of an environment for nodes of an architecture (`uname -m`) with this node's system.

    Without a lock for the system it is another one's, which Spack may have installed. Raises
    LockError, or NoLock.
    """
    locks = [read_lock(path) for path in lock_paths(directory)]
    fitting = [lock for lock in locks if lock.machine == machine]
    if fitting:
        system = system_here()
        return min(fitting, key=lambda lock: lock.system != system)
    raise NoLock(
        f"{locks[0].path} is for {locks[0].target}, and nodes are {machine}. Fix: on such "
        f"a node, make spack-lock SITE=DIRECTORY ENVIRONMENTS={directory.name}, and give the "
        f"environment spack_env: DIRECTORY/{directory.name}"
    )


def read_lock(path: Path) -> Lock:
    """A lock that Spack wrote. Raises LockError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        version = None
        if "_meta" in data:
            version = data["_meta"]["lockfile-version"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LockError(
            f"{path}: cannot be read as a lock of Spack's ({error}): {REGENERATE}"
        ) from None
    if version not in LOCK_VERSIONS:
        raise LockError(
            f"{path}: lock file version {version}, but {' or '.join(map(str, LOCK_VERSIONS))} is "
            "known here: use the Spack that README.md pins"
        )
    # The first one suffices: nobody corrects a lock by hand.
    for fault in documents.faults(data, documents.part(SCHEMA, "lock")):
        raise LockError(f"{path}: {fault}: {REGENERATE}")
    nodes = {key: Node.of(key, package) for key, package in data["concrete_specs"].items()}
    for key, package in data["concrete_specs"].items():
        for contradiction in _contradictions(key, package, nodes):
            raise LockError(f"{path}: concrete_specs.{key}: {contradiction}: {REGENERATE}")
    return Lock(
        path,
        data.get("spack", {}).get("version", "unknown"),
        {root["spec"]: root["hash"] for root in data["roots"]},
        nodes,
    )


def _contradictions(key: str, package: Mapping, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Where a lock calls a package otherwise in one place than in another."""
    if package["hash"] != key:
        yield f"its hash is {package['hash']}"
    for dependency in package.get("dependencies", []):
        node = nodes.get(dependency["hash"])
        if node and node.name != dependency["name"]:
            yield f"it depends on {dependency['name']}, whose hash is that of {node.name}"


def requirements(directory: Path) -> tuple[list[str], dict[str, list[str]]]:
    """The specs of an environment, and what it requires of packages, its includes' first.

    Raises LockError.
    """
    path = directory / "spack.yaml"
    environment = documents.part(SCHEMA, "environment")
    manifest = documents.read(path, environment, LockError, "correct it")["spack"]
    settings = []
    for name in manifest.get("include", []):
        included = directory / name / "packages.yaml"
        if included.exists():
            schema = documents.part(SCHEMA, "included")
            settings.append(documents.read(included, schema, LockError)["packages"])
    required: dict[str, list[str]] = {}
    for packages in [*settings, manifest.get("packages", {})]:
        for name, wanted in packages.items():
            required.setdefault(name, []).extend(wanted.get("require", []))
    return manifest.get("specs", []), required


def disagreements(directory: Path) -> list[str]:
    """A sentence for all in which an environment and its lock do not agree. Raises LockError."""
    specs, required = requirements(directory)
    faults: list[str] = []
    for lock in map(read_lock, lock_paths(directory)):
        faults += _in_one_alone(specs, lock)
        faults += _without_nodes(lock)
        faults += _unmet_by_nodes(lock, required)
    return faults


def _in_one_alone(specs: list[str], lock: Lock) -> Iterator[str]:
    """Specs that only the environment or only its lock has."""
    wanted = {parts(spec): spec for spec in specs}
    locked = {parts(spec): spec for spec in lock.roots}
    for spec in wanted.keys() - locked.keys():
        yield f"{wanted[spec]!r} is in spack.yaml alone"
    for spec in locked.keys() - wanted.keys():
        yield f"{locked[spec]!r} is in {lock.path.name} alone"


def _without_nodes(lock: Lock) -> Iterator[str]:
    """Hashes that the lock names and does not hold."""
    named = [*lock.roots.items()]
    for node in lock.nodes.values():
        named += node.dependencies.items()
    for name, key in named:
        if key not in lock.nodes:
            yield f"{name} has the hash {key}, which the lock does not hold"


def _unmet_by_nodes(lock: Lock, required: Mapping[str, list[str]]) -> Iterator[str]:
    """Packages that are not as they have to be."""
    # A target for all packages makes the binaries run on each machine of that kind.
    target = ""
    for word in required.get("all", []):
        if word.startswith("target="):
            target = word.removeprefix("target=")
            break
    if target and lock.machine != machine_of(target):
        target = lock.target  # written on another architecture
    for node in lock.nodes.values():
        if node.external and node.name not in EXTERNAL:
            yield f"{node.name} comes from {node.external} of the machine that wrote the lock"
        if not node.external and target and node.target != target:
            yield f"{node.name} is for {node.target} instead of {target}"
        for text in required.get(node.name, []):
            if words := unmet(node, text):
                yield f"{node.name} {words}"
        if node.namespace == "nearmetal" and not recipe(node.name).exists():
            yield f"{node.name} has no recipe in repo/"
    compilers = {node.label for node in lock.nodes.values() if node.name == "gcc"}
    if len(compilers) > 1:
        yield f"it has several compilers: {', '.join(sorted(compilers))}"
    for text in required.get("mpi", []):
        name = re.split(r"[@~+ ]", text)[0]
        if name not in lock.by_name:
            yield f"{name} is required of mpi, but not in the lock"


def parts(spec: str) -> frozenset[str]:
    """What a spec says, in whatever order: Spack writes them in its own."""
    words = []
    for word in re.findall(rf"{WORD}|^[\w-]+", spec):
        key, equals, values = word.partition("=")
        words.append(key + equals + ",".join(sorted(values.split(","))))
    return frozenset(words)


def recipe(name: str) -> Path:
    """Our recipe of a package."""
    packages = HERE / "repo" / "spack_repo" / "nearmetal" / "packages"
    return packages / name.replace("-", "_") / "package.py"


def unmet(node: Node, text: str) -> str:
    """In words what of a requirement, such as `@5.0.7 +cma fabrics=ucx,ofi`, a node does not meet;
    '' if it meets all."""
    for word in re.findall(WORD, text):
        key, _, values = word.partition("=")
        if word.startswith("@"):
            wanted = word[1:].lstrip("=")
            # Of a range of versions, Spack itself sees that it is met.
            if ":" not in wanted and not f"{node.version}.".startswith(f"{wanted}."):
                return f"is {node.version} instead of {wanted}"
        elif word[0] in "~+":
            if node.parameters.get(word[1:]) is not (word[0] == "+"):
                return f"lacks {word}"
        elif key != "target":
            value = node.parameters.get(key)
            # A variant with several values is a list.
            values_of_node = [str(value)]
            if isinstance(value, list):
                values_of_node = value
            if not set(values.split(",")) <= set(values_of_node):
                return f"has {key}={value} instead of {values}"
    return ""


def changes(old: Lock, new: Lock) -> list[str]:
    """What a lock has that the other has not, a sentence a package."""
    before, after, words = old.by_name, new.by_name, []
    if old.spack != new.spack:
        words.append(f"written by Spack {new.spack} instead of {old.spack}")
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            words.append(f"{name} {after[name].version} is new")
        elif name not in after:
            words.append(f"{name} {before[name].version} is gone")
        elif before[name].hash != after[name].hash:
            changed = list(_changes(before[name], after[name]))
            changed = changed or ["the same but for its recipe or what it depends on"]
            words.append(f"{name} {after[name].version}: {'; '.join(changed)}")
    return words


def _changes(old: Node, new: Node) -> Iterator[str]:
    """What a package has that it had not."""
    if old.version != new.version:
        yield f"{old.version} became {new.version}"
    for key in sorted(old.parameters.keys() | new.parameters.keys()):
        before, after = old.parameters.get(key), new.parameters.get(key)
        if before != after:
            yield f"{key}={_text(before)} became {_text(after)}"
    if old.target != new.target:
        yield f"target {old.target} became {new.target}"
    if old.os != new.os:
        yield f"system {old.os} became {new.os}"
    for name in sorted(old.dependencies.keys() ^ new.dependencies.keys()):
        if name in new.dependencies:
            yield f"now needs {name}"
        else:
            yield f"no longer needs {name}"


def _text(value) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def retarget(common: Path, target: str) -> None:
    """Let a copy of spack-env/common require a target, which may be of one processor."""
    for name, ours, wanted in (
        ("packages", TARGETS["x86_64"], target),
        ("concretizer", "granularity: generic", "granularity: microarchitectures"),
    ):
        path = common / f"{name}.yaml"
        path.write_text(path.read_text().replace(ours, wanted))


def concretize(spack: list[str], name: str, target: str) -> Path:
    """The lock that Spack writes for an environment, in a directory of its own. Raises
    LockError."""
    # Spack writes the lock beside the manifest: our own stays as it is.
    copy = Path(tempfile.mkdtemp(prefix="nearmetal-spack-")) / "spack-env"
    shutil.copytree(HERE, copy)
    if target != TARGETS["x86_64"]:
        retarget(copy / "common", target)
    # With a lock, Spack would keep what it has.
    (copy / name / "spack.lock").unlink(missing_ok=True)
    done = subprocess.run(
        [*spack, "-e", copy / name, "concretize", "--force"], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LockError(f"{name}: Spack cannot concretize it:\n{done.stdout}{done.stderr}")
    return copy / name / "spack.lock"


def compare(spack: list[str], directory: Path, write: bool, target: str) -> list[str]:
    """What Spack's lock has that the committed one has not; it takes that one's place if it is to
    be written."""
    fresh = concretize(spack, directory.name, target)
    lock = read_lock(fresh)
    old = directory / LOCKS / f"{lock.system}-{lock.target}.lock"
    if old.exists():
        words = changes(read_lock(old), lock)
    else:
        words = [f"{old.name}: {len(lock.nodes)} packages are new"]
    if write and words:  # Spack's order of the same packages varies
        old.parent.mkdir(exist_ok=True)
        shutil.copyfile(fresh, old)
    shutil.rmtree(fresh.parents[2])
    return words


def externals(lock: Lock) -> list[str]:
    """Packages of a lock that belong to the system. No cache holds them."""
    external = [node for node in lock.nodes.values() if node.external]
    return sorted(node.label for node in external)


def write_into(site: Path, spack: list[str], name: str, target: str) -> str:
    """Write a site's own environment and lock: ours, with what Spack takes from the system.

    What it includes are links to this checkout, so that an environment of the site may name the
    directory as `spack_env`. Raises LockError.

    :returns: a sentence on what the lock has.
    """
    fresh = concretize(spack, name, target)
    try:
        lock, own = read_lock(fresh), [name]
        if target != TARGETS["x86_64"]:
            own.append("common")
        for beside in filter(Path.is_dir, HERE.iterdir()):
            place = site / beside.name
            if beside.name not in own:
                if not place.exists():
                    place.symlink_to(beside)
                continue
            if place.is_symlink():
                place.unlink()
            place.mkdir(exist_ok=True)
            concretized = fresh.parents[1] / beside.name
            for path in [*concretized.glob("*.yaml"), *concretized.glob("spack.lock")]:
                shutil.copyfile(path, place / path.name)
    except OSError as error:
        raise LockError(f"{site}/{name} cannot be written: {error}") from None
    finally:
        shutil.rmtree(fresh.parents[2])
    return (
        f"{name}: {site / name} has a lock of {len(lock.nodes)} packages for {lock.target}. "
        f"The system's: {', '.join(externals(lock)) or 'none'}"
    )


def write_site(site: Path, spack: list[str], names: list[str], target: str) -> int:
    """Write environments of a site, and say what each lock has. Raises LockError."""
    try:
        site.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LockError(f"{site} cannot be made: {error}. Fix: name another directory") from None
    for name in names:
        print(write_into(site.absolute(), spack, name, target), flush=True)
    return 0


def environments() -> list[Path]:
    """The directories of our environments."""
    return sorted(path.parent for path in HERE.glob("*/spack.yaml"))


def check(directory: Path, spack: list[str] | None, write: bool, target: str) -> bool:
    """Say whether an environment agrees with its lock, and with what Spack would lock.

    :arg spack: the command of Spack; None: it is not asked.
    :arg write: whether to take over what Spack says.
    """
    words = []
    if spack:
        words = compare(spack, directory, write, target)
    faults = disagreements(directory)
    for fault in faults:
        print(f"{directory.name}: {fault}", file=sys.stderr)
    verdict = "agrees with its lock"
    if faults:
        verdict = f"does not agree with its lock; {REGENERATE}"
    for sentence in [*words, verdict]:
        print(f"{directory.name}: {sentence}")
    return not faults and (write or not words)


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 they agree, 1 they do not, 2 a file cannot be read or Spack fails, "
        "3 an unforeseen error.",
    )
    parser.add_argument(
        "locks",
        nargs="*",
        type=Path,
        metavar="LOCK",
        help="two locks: say what changed between them",
    )
    parser.add_argument(
        "--spack", type=shlex.split, metavar="COMMAND", help="ask this Spack as well"
    )
    parser.add_argument(OPTION, action="store_true", help=HELP)
    parser.add_argument("--write", action="store_true", help="take over what it says")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIRECTORY",
        help="write a site's own environments and locks there, and leave ours as they are",
    )
    names = [directory.name for directory in environments()]
    parser.add_argument(
        "--environment", action="append", choices=names, help="with --into: only this one"
    )
    parser.add_argument(
        "--target",
        default=TARGETS.get(platform.machine(), platform.machine()),
        help="what Spack's locks are for, as Spack names it, such as neoverse_v1 (default here: "
        "%(default)s)",
    )
    options = parser.parse_args(arguments)
    if len(options.locks) not in (0, 2) or ((options.write or options.into) and not options.spack):
        parser.error("give two locks, or none; --write and --into need --spack")
    if options.into and options.into.resolve() == HERE:
        parser.error("--into: name a directory of your own; --write writes our locks")
    try:
        if options.locks:
            print("\n".join(changes(*map(read_lock, options.locks))) or "nothing changed")
            return 0
        if options.into:
            chosen = options.environment or names
            return write_site(options.into, options.spack, chosen, options.target)
        code = 0
        for directory in environments():
            if not check(directory, options.spack, options.write, options.target):
                code = 1
        return code
    except LockError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(guarded(main, "locks"))
