"""Do the environments, their locks and our recipes agree?  What changed between two locks?

make spack-check                               reads them; asks Spack too where there is one
make spack-lock                                writes the locks anew by Spack, and says what changed
make spack-lock SITE=DIRECTORY                 writes a site's own locks there, with its externals
python -m nearmetal.locks.spack OLD NEW        says what changed
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import yaml

from nearmetal.checkout import CHECKOUT, PACKAGE
from nearmetal.util.cli_errors import guarded

#: The environments, their locks and our recipes.
HERE = CHECKOUT / "spack-env"
#: Versions of Spack's lock files that this reads.
LOCK_VERSIONS = (6, 7)
#: What may come from the machine that wrote a lock: the compiler and the C library.
EXTERNAL = {"gcc", "glibc"}
REGENERATE = "write it anew: make spack-lock"


class LockError(ValueError):
    """A file is not usable; the message names it and says what to do."""


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


@dataclass(frozen=True)
class Lock:
    path: Path
    spack: str
    roots: dict[str, str]  #: hashes by the text of the spec
    nodes: dict[str, Node]  #: by hash


def read_lock(path: Path) -> Lock:
    """Raises LockError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        version = data["_meta"]["lockfile-version"] if "_meta" in data else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise LockError(
            f"{path}: cannot be read as a lock of Spack's ({error}): {REGENERATE}"
        ) from None
    if version not in LOCK_VERSIONS:
        raise LockError(
            f"{path}: lock file version {version}, but {' or '.join(map(str, LOCK_VERSIONS))} is "
            "known here: use the Spack that README.md pins"
        )
    for fault in _schema().iter_errors(data):
        place = ".".join(map(str, fault.absolute_path)) or "the file"
        raise LockError(f"{path}: {place}: {fault.message[:200]}: {REGENERATE}")
    nodes = {key: _node(key, value) for key, value in data["concrete_specs"].items()}
    for key, node in data["concrete_specs"].items():
        _refuse_what_contradicts(path, key, node, nodes)
    return Lock(
        path,
        data.get("spack", {}).get("version", "unknown"),
        {root["spec"]: root["hash"] for root in data["roots"]},
        nodes,
    )


@functools.cache
def _schema() -> jsonschema.Draft202012Validator:
    """What is read of a lock."""
    return jsonschema.Draft202012Validator(
        yaml.safe_load((PACKAGE / "locks" / "spack-schema.yaml").read_text())
    )


def _refuse_what_contradicts(path: Path, key: str, data: dict, nodes: dict[str, Node]) -> None:
    """Raises LockError where a package is called otherwise in one place than in another."""
    if data["hash"] != key:
        raise LockError(f"{path}: concrete_specs.{key}: its hash is {data['hash']}: {REGENERATE}")
    for one in data.get("dependencies", []):
        node = nodes.get(one["hash"])
        if node and node.name != one["name"]:
            raise LockError(
                f"{path}: concrete_specs.{key}: it depends on {one['name']}, whose hash is that of "
                f"{node.name}: {REGENERATE}"
            )


def _node(key: str, data: dict) -> Node:
    arch = data["arch"]
    target = arch["target"]
    return Node(
        key,
        data["name"],
        str(data["version"]),
        data.get("namespace", ""),
        target if isinstance(target, str) else target["name"],
        arch["platform_os"],
        data.get("parameters", {}),
        {one["name"]: one["hash"] for one in data.get("dependencies", [])},
        data.get("external", {}).get("path"),
        {
            virtual: one["hash"]
            for one in data.get("dependencies", [])
            for virtual in one["parameters"]["virtuals"]
        },
    )


def requirements(directory: Path) -> tuple[list[str], dict[str, list[str]]]:
    """The specs of an environment, and what it requires of packages, its includes' first. Raises
    LockError."""
    try:
        manifest = _mapping(yaml.safe_load((directory / "spack.yaml").read_bytes()), "spack")
        scopes = [directory / name / "packages.yaml" for name in manifest.get("include", [])]
        read = [yaml.safe_load(path.read_bytes()) for path in scopes if path.exists()]
        packages = [_mapping(one, "packages") for one in read]
        return _texts(manifest, "specs"), _required([*packages, manifest.get("packages", {})])
    # PyYAML's constructors raise whatever Python does on a date, a number or a key that is none.
    except (
        *(OSError, yaml.YAMLError),
        *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    ) as error:
        raise LockError(
            f"{directory}/spack.yaml or what it includes cannot be read: {error!r}"
        ) from None


def _mapping(data, key: str) -> dict:
    """A mapping's key, which holds a mapping. Raises ValueError."""
    if not isinstance(data, dict) or not isinstance(data.get(key), dict):
        raise ValueError(f"{key}: is no mapping")
    return data[key]


def _texts(data: dict, key: str) -> list[str]:
    """A mapping's key, which holds texts. Raises ValueError."""
    found = data.get(key, [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise ValueError(f"{key}: {found!r} is no list of texts")
    return found


def _required(packages: list[dict]) -> dict[str, list[str]]:
    """What several settings require of packages, by name. Raises ValueError."""
    required: dict[str, list[str]] = {}
    for settings in packages:
        for name in settings:
            wanted = _mapping(settings, name)
            required.setdefault(name, []).extend(_texts(wanted, "require"))
    return required


def disagreements(directory: Path) -> list[str]:
    """A sentence for all in which an environment and its lock do not agree. Raises LockError."""
    specs, required = requirements(directory)
    lock = read_lock(directory / "spack.lock")
    found = []
    wanted, written = ({parts(spec): spec for spec in texts} for texts in (specs, lock.roots))
    for alone, file in (
        (wanted.keys() - written.keys(), "spack.yaml"),
        (written.keys() - wanted.keys(), "spack.lock"),
    ):
        found += [f"{(wanted | written)[spec]!r} is in {file} alone" for spec in alone]
    found += [
        f"{what} has the hash {key}, which the lock does not hold"
        for what, key in [
            *lock.roots.items(),
            *(
                (name, key)
                for node in lock.nodes.values()
                for name, key in node.dependencies.items()
            ),
        ]
        if key not in lock.nodes
    ]
    target = next(
        (
            word.removeprefix("target=")
            for word in required.get("all", [])
            if word.startswith("target=")
        ),
        None,
    )
    for node in lock.nodes.values():
        if node.external and node.name not in EXTERNAL:
            found.append(
                f"{node.name} comes from {node.external} of the machine that wrote the lock"
            )
        if not node.external and target and node.target != target:
            found.append(f"{node.name} is for {node.target} instead of {target}")
        found += [
            f"{node.name} {words}"
            for text in required.get(node.name, [])
            if (words := unmet(node, text))
        ]
        if node.namespace == "nearmetal" and not recipe(node.name).exists():
            found.append(f"{node.name} has no recipe in repo/")
    names = {node.name for node in lock.nodes.values()}
    found += [
        f"{name} is required of {virtual}, but not in the lock"
        for virtual, wanted in required.items()
        for text in wanted
        if virtual == "mpi"
        for name in [re.split(r"[@~+ ]", text)[0]]
        if name not in names
    ]
    return found


def parts(spec: str) -> frozenset[str]:
    """What a spec says, in whatever order: Spack writes them in its own."""
    words = re.findall(r"[~+][\w-]+|[\w-]+=\S+|^[\w-]+|@[^\s~+]+", spec)
    return frozenset(
        "=".join([key, ",".join(sorted(values.split(",")))]) if values else key
        for key, _, values in (word.partition("=") for word in words)
    )


def recipe(name: str) -> Path:
    return (
        HERE
        / "repo"
        / "spack_repo"
        / "nearmetal"
        / "packages"
        / name.replace("-", "_")
        / "package.py"
    )


def unmet(node: Node, text: str) -> str:
    """In words what of a requirement, such as `@5.0.7 +cma fabrics=ucx,ofi`, a node does not meet;
    '' if it meets all."""
    for word in re.findall(r"@[^\s~+]+|[~+][\w-]+|[\w-]+=\S+", text):
        if word.startswith("@"):
            wanted = word[1:].lstrip("=")
            if ":" not in wanted and not (node.version + ".").startswith(wanted + "."):
                return f"is {node.version} instead of {wanted}"
        elif word[0] in "~+":
            if node.parameters.get(word[1:]) is not (word[0] == "+"):
                return f"lacks {word}"
        else:
            key, values = word.split("=", 1)
            has = node.parameters.get(key)
            if key != "target" and not set(values.split(",")) <= set(
                has if isinstance(has, list) else [str(has)]
            ):
                return f"has {key}={has} instead of {values}"
    return ""


def changes(old: Lock, new: Lock) -> list[str]:
    """What a lock has that the other has not, a sentence a package."""

    def by_name(lock):
        return {node.name: node for node in lock.nodes.values()}

    before, after, words = by_name(old), by_name(new), []
    if old.spack != new.spack:
        words.append(f"written by Spack {new.spack} instead of {old.spack}")
    for name in sorted(before.keys() | after.keys()):
        a, b = before.get(name), after.get(name)
        if a is None or b is None:
            words.append(f"{name} {(b or a).version} is {'new' if b else 'gone'}")
        elif a.hash != b.hash:
            what = [f"{a.version} became {b.version}"] if a.version != b.version else []
            what += [
                f"{key}={_text(a.parameters.get(key))} became {_text(b.parameters.get(key))}"
                for key in sorted(a.parameters.keys() | b.parameters.keys())
                if a.parameters.get(key) != b.parameters.get(key)
            ]
            what += [
                f"{kind} {x} became {y}"
                for kind, x, y in (("target", a.target, b.target), ("system", a.os, b.os))
                if x != y
            ]
            what += [
                f"{'now needs' if dep in b.dependencies else 'no longer needs'} {dep}"
                for dep in sorted(a.dependencies.keys() ^ b.dependencies.keys())
            ]
            words.append(
                f"{name} {b.version}: "
                f"{'; '.join(what) or 'the same but for its recipe or what it depends on'}"
            )
    return words


def _text(value) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def concretize(spack: list[str], name: str) -> Path:
    """The lock that Spack writes for an environment, in a directory of its own. Raises
    LockError."""
    copy = Path(tempfile.mkdtemp(prefix="nearmetal-spack-")) / "spack-env"
    shutil.copytree(HERE, copy)
    (copy / name / "spack.lock").unlink(missing_ok=True)
    done = subprocess.run(
        [*spack, "-e", copy / name, "concretize", "--force"], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise LockError(f"{name}: Spack cannot concretize it:\n{done.stdout}{done.stderr}")
    return copy / name / "spack.lock"


def compare(spack: list[str], directory: Path, write: bool) -> list[str]:
    """What Spack's lock has that the committed one has not; it takes that one's place if it is to
    be written."""
    fresh, old = concretize(spack, directory.name), directory / "spack.lock"
    words = (
        changes(read_lock(old), read_lock(fresh))
        if old.exists()
        else [f"{len(read_lock(fresh).nodes)} packages are new"]
    )
    if write and words:  # Spack's order of the same packages varies
        shutil.copyfile(fresh, old)
    shutil.rmtree(fresh.parents[2])
    return words


def externals(lock: Lock) -> list[str]:
    """Packages of a lock that belong to the system. No cache holds them."""
    return sorted(f"{node.name}@{node.version}" for node in lock.nodes.values() if node.external)


def write_into(site: Path, spack: list[str], name: str) -> str:
    """Write a site's own environment and lock: ours, with what Spack takes from the system.

    What it includes are links to this checkout, so that an environment of the site may name the
    directory as `spack_env`. Raises LockError.

    :returns: a sentence on what the lock has.
    """
    fresh = concretize(spack, name)
    try:
        lock, target = read_lock(fresh), site / name
        for beside in filter(Path.is_dir, HERE.iterdir()):
            link = site / beside.name
            if beside.name != name and not link.exists():
                link.symlink_to(beside)
        if target.is_symlink():
            target.unlink()
        target.mkdir(exist_ok=True)
        for path in [*(HERE / name).glob("*.yaml"), fresh]:
            shutil.copyfile(path, target / path.name)
    except OSError as error:
        raise LockError(f"{site}/{name} cannot be written: {error}") from None
    finally:
        shutil.rmtree(fresh.parents[2])
    return (
        f"{name}: {target} has a lock of {len(lock.nodes)} packages. "
        f"The system's: {', '.join(externals(lock)) or 'none'}"
    )


def write_site(site: Path, spack: list[str], names: list[str]) -> int:
    """Write environments of a site, and say what each lock has. Raises LockError."""
    try:
        site.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LockError(f"{site} cannot be made: {error}. Fix: name another directory") from None
    for name in names:
        print(write_into(site.absolute(), spack, name), flush=True)
    return 0


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
    parser.add_argument(
        "--debug", action="store_true", help="with an unforeseen error, print the traceback as well"
    )
    parser.add_argument("--write", action="store_true", help="take over what it says")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="DIRECTORY",
        help="write a site's own environments and locks there, and leave ours as they are",
    )
    names = sorted(path.parent.name for path in HERE.glob("*/spack.yaml"))
    parser.add_argument(
        "--environment", action="append", choices=names, help="with --into: only this one"
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
            return write_site(options.into, options.spack, options.environment or names)
        bad = 0
        for directory in sorted(path.parent for path in HERE.glob("*/spack.yaml")):
            words = compare(options.spack, directory, options.write) if options.spack else []
            found = disagreements(directory)
            for sentence in found:
                print(f"{directory.name}: {sentence}", file=sys.stderr)
            agreed = (
                f"does not agree with its lock; {REGENERATE}" if found else "agrees with its lock"
            )
            for sentence in [*words, agreed]:
                print(f"{directory.name}: {sentence}")
            bad += bool(found or (words and not options.write))
        return 1 if bad else 0
    except LockError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(guarded(main, "locks"))
