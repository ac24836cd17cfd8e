"""The Spack environments, their locks and our recipes agree. The changes between two locks are
reported. These tests need no Spack."""

import copy
import json
import os
import runpy  # noqa: TID251 - Spack loads its recipes by path
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from nearmetal.locks import spack as locks
from tests.support.paths import CHECKOUT, SPACK_LOCK
from tests.support.said import lacking

ENVIRONMENTS_DIR = CHECKOUT / "spack-env"
ENVIRONMENTS = sorted(path.parent.name for path in ENVIRONMENTS_DIR.glob("*/spack.yaml"))
PACKAGES = ENVIRONMENTS_DIR / "repo" / "spack_repo" / "nearmetal" / "packages"


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_an_environment_agrees_with_its_lock(name):
    assert locks.disagreements(ENVIRONMENTS_DIR / name) == []


def test_what_agrees_is_a_line_each(capsys):
    assert locks.main([]) == 0
    assert capsys.readouterr().out == "".join(
        f"{name}: agrees with its lock\n" for name in ENVIRONMENTS
    )


def test_all_environments_are_there():
    assert ENVIRONMENTS == ["apps", "fastmpj", "mpich", "mpj-native", "openmpi"]


def test_all_locks_are_of_one_spack_and_the_same_libraries():
    """With other libraries, the figures of two environments would not be comparable."""
    read = [locks.read_lock(ENVIRONMENTS_DIR / name / SPACK_LOCK) for name in ENVIRONMENTS]
    assert {lock.spack for lock in read} == {"1.1.0"}
    for name in ("openmpi", "ucx", "libfabric", "gcc", "glibc", "mpj-express", "openjdk"):
        assert (
            len(
                {node.version for lock in read for node in lock.nodes.values() if node.name == name}
            )
            == 1
        ), name


def test_versions_are_those_of_the_lab():
    """The lab and the images have Debian's packages. The locks have the same versions, but not
    Debian's patches."""
    versions = {
        node.name: node.version
        for name in ENVIRONMENTS
        for node in locks.read_lock(ENVIRONMENTS_DIR / name / SPACK_LOCK).nodes.values()
    }
    assert {
        name: versions[name]
        for name in (
            "openmpi",
            "mpich",
            "pmix",
            "ucx",
            "libfabric",
            "hpcc",
            "hpcg",
            "ior",
            "slepc",
            "nwchem",
            "gromacs",
        )
    } == {
        "openmpi": "5.0.7",
        "mpich": "4.2.1",
        "pmix": "5.0.7",
        "ucx": "1.18.1",
        "libfabric": "2.1.0",
        "hpcc": "1.5.0",
        "hpcg": "3.1",  # Debian has neither; reframe_checks reads the output of these
        "ior": "4.0.0",
        "slepc": "3.22.2",
        "nwchem": "7.2.3",
        "gromacs": "2025.2",
    }


def test_no_lock_holds_what_a_site_has_alone():
    for name in ENVIRONMENTS:
        for node in locks.read_lock(ENVIRONMENTS_DIR / name / SPACK_LOCK).nodes.values():
            assert not node.external or node.name in ("gcc", "glibc"), (name, node.name)
            assert node.name != "fastmpj"


def test_no_recipe_is_of_sources_of_this_checkout():
    """So these change no lock."""
    recipes = {path.parent.name: path.read_text() for path in PACKAGES.glob("*/package.py")}
    assert len(recipes) == 5
    for name, text in recipes.items():
        assert "has_code = False" not in text and "__file__" not in text, name


class Recipe:
    """One of our recipes, loaded from its path as Spack does it."""

    def __init__(self, path: Path):
        vars(self).update(runpy.run_path(str(path)))


class Built:
    """A stage, a specification or a dependency, as Spack gives it to a recipe."""

    def __init__(self, **values):
        vars(self).update(values)


def test_java_is_new_enough_for_mpj_native():
    for name in ("mpj-native", "fastmpj"):
        nodes = locks.read_lock(ENVIRONMENTS_DIR / name / SPACK_LOCK).nodes.values()
        [jdk] = [node for node in nodes if node.name == "openjdk"]
        assert jdk.namespace == "nearmetal" and int(jdk.version.split(".")[0]) >= 22


@pytest.fixture
def fastmpj(monkeypatch, tmp_path):
    """FastMPJ's recipe. The parts of Spack that it uses are replaced."""
    declared = {}

    class Executable:
        def __init__(self, path):
            self.path = path

        def __call__(self, *arguments, input):
            command = [self.path, *map(str, arguments)]
            subprocess.run(command, cwd=tmp_path, stdin=input, check=True)

    package = types.ModuleType("spack.package")
    vars(package).update(
        Package=object,
        InstallError=RuntimeError,
        EnvironmentModifications=object,
        Executable=Executable,
        join_path=lambda *parts: str(Path(*map(str, parts))),
        install_tree=shutil.copytree,
        license=lambda *_, **__: None,
        depends_on=lambda *_, **__: None,
        version=lambda name, **options: declared.update({name: options}),
    )
    package.__all__ = [name for name in vars(package) if not name.startswith("_")]
    monkeypatch.setitem(sys.modules, "spack", types.ModuleType("spack"))
    monkeypatch.setitem(sys.modules, "spack.package", package)
    recipe = Recipe(PACKAGES / "fastmpj" / "package.py")
    recipe.declared = declared
    return recipe


def installed_by(recipe, tmp_path, java):
    """Install FastMPJ with a shell script as `java`. Returns the prefix."""
    (tmp_path / "jdk/bin").mkdir(parents=True)
    (tmp_path / "jdk/bin/java").write_text(f"#!/bin/sh\n{java}\n")
    (tmp_path / "jdk/bin/java").chmod(0o755)
    (tmp_path / "stage").mkdir()
    package = recipe.Fastmpj()
    archive = tmp_path / recipe.INSTALLER
    package.stage = Built(source_path=str(tmp_path / "stage"), archive_file=str(archive))
    jdk = Built(prefix=Built(bin=str(tmp_path / "jdk/bin")))
    package.install({"openjdk": jdk}, tmp_path / "prefix")
    return tmp_path / "prefix"


def test_the_recipe_of_fastmpj_runs_the_installer_that_was_published(fastmpj, tmp_path):
    """The script reads its answers as IzPack's console mode does: each question reads a block. The
    answer 1 is also the name of the directory."""
    name = "fastmpj_for_tcpip_and_shared_memory.jar"
    assert fastmpj.declared == {"1.0_7": {"expand": False}}
    assert fastmpj.Fastmpj().url_for_version("1.0_7") == f"file://{os.getcwd()}/{name}"
    questions = "for i in $(seq 30); do [ $(head -c 8192 | head -n 1) = 1 ] || exit 1; done"
    jars = " ".join(f"stage/1/lib/{jar}.jar" for jar in fastmpj.JARS)
    asked = f'echo "$@" > asked; {questions}; mkdir -p stage/1/lib; touch {jars}'
    prefix = installed_by(fastmpj, tmp_path, asked)
    assert sorted(path.stem for path in prefix.glob("lib/*.jar")) == sorted(fastmpj.JARS)
    said = (tmp_path / "asked").read_text()
    assert f"-jar {tmp_path}/{name} -console" in said and "-Duser.home=" in said


def test_an_installer_that_installs_nothing_is_said(fastmpj, tmp_path):
    with pytest.raises(RuntimeError, match=r"installed no lib/runtime.jar.*FMPJ_HOME"):
        installed_by(fastmpj, tmp_path, "mkdir -p stage/1/lib")


@pytest.fixture
def damaged_environment(tmp_path):
    """A function that damages openmpi's lock in a copy of the environments. It returns the copy of
    openmpi's environment."""
    import shutil

    copied = tmp_path / "spack-env"
    shutil.copytree(ENVIRONMENTS_DIR, copied)

    def damage(change):
        path = copied / "openmpi" / SPACK_LOCK
        data = json.loads(path.read_text())
        change(data, {node["name"]: node for node in data["concrete_specs"].values()})
        path.write_text(json.dumps(data))
        return copied / "openmpi"

    return damage


def test_a_spec_is_the_same_in_whatever_order():
    theirs = "npb@3.4.1+a~b classes=W,S implementation=mpi"
    assert locks.parts("npb@3.4.1 implementation=mpi classes=S,W +a ~b") == locks.parts(theirs)
    assert (
        len({locks.parts(text) for text in ("a@1", "a@2", "a@1 +x", "a@1~x", "a@1 x=1", "a")}) == 6
    )


@pytest.mark.parametrize(
    "change, facts",
    [
        (
            lambda data, nodes: nodes["openmpi"].update(version="5.0.8"),
            ["openmpi is 5.0.8", "5.0.7"],
        ),
        (
            lambda data, nodes: nodes["openmpi"]["parameters"].update(fabrics=["ucx"]),
            ["openmpi", "fabrics=['ucx']", "ucx,ofi"],
        ),
        (lambda data, nodes: nodes["ucx"]["parameters"].update(verbs=False), ["ucx lacks +verbs"]),
        (
            lambda data, nodes: nodes["hwloc"]["arch"].update(target="zen2"),
            ["hwloc", "zen2", "x86_64_v3"],
        ),
        (
            lambda data, nodes: nodes["pmix"].update(external={"path": "/opt/pmix"}),
            ["pmix", "/opt/pmix", "machine"],
        ),
        (lambda data, nodes: data["roots"][0].update(spec="mpich"), ["spack.yaml alone"]),
        (
            lambda data, nodes: nodes["openmpi"]["dependencies"][0].update(hash="x" * 32),
            ["x" * 32, "the lock does not"],
        ),
    ],
)
def test_what_does_not_agree_is_said(damaged_environment, change, facts):
    found = locks.disagreements(damaged_environment(change))
    assert [words for words in found if not lacking(words, *facts)], found


def test_a_lock_has_one_compiler(damaged_environment):
    def with_another(data, nodes):
        other = copy.deepcopy(nodes["gcc"])
        other.update(version="13.3.0", hash="n" * 32)
        data["concrete_specs"]["n" * 32] = other

    directory = damaged_environment(with_another)
    assert locks.disagreements(directory) == ["it has several compilers: gcc@13.3.0, gcc@14.2.0"]


def for_graviton(data, nodes):
    for node in nodes.values():
        if "external" not in node:
            node["arch"]["target"] = {"name": "neoverse_v1"}


def test_nodes_take_the_lock_of_their_architecture(damaged_environment):
    directory = damaged_environment(for_graviton)
    assert locks.disagreements(directory) == []
    with pytest.raises(locks.NoLock) as error:
        locks.choose(directory, "x86_64")
    facts = [str(directory), "neoverse_v1", "x86_64", "make spack-lock SITE=", "spack_env: "]
    assert not lacking(str(error.value), *facts)
    (directory / SPACK_LOCK).rename(directory / "locks" / "debian13-neoverse_v1.lock")
    shutil.copy(ENVIRONMENTS_DIR / "openmpi" / SPACK_LOCK, directory / SPACK_LOCK)
    chosen = {machine: locks.choose(directory, machine) for machine in ("x86_64", "aarch64")}
    assert [lock.target for lock in chosen.values()] == ["x86_64_v3", "neoverse_v1"]
    assert chosen["aarch64"].path.name == "debian13-neoverse_v1.lock"
    assert chosen["aarch64"].environment == directory


def test_nodes_take_the_lock_of_their_system(damaged_environment, tmp_path, monkeypatch):
    def for_rocky(data, nodes):
        for node in nodes.values():
            node["arch"]["platform_os"] = "rocky9"

    directory = damaged_environment(for_rocky)
    rocky = directory / "locks" / "rocky9-x86_64_v3.lock"
    (directory / SPACK_LOCK).rename(rocky)
    shutil.copy(ENVIRONMENTS_DIR / "openmpi" / SPACK_LOCK, directory / SPACK_LOCK)
    monkeypatch.setattr(locks, "OS_RELEASE", tmp_path / "os-release")
    # A system without a lock of its own asks for what another lock names.
    for release, lock in (
        ('ID="rocky"\nVERSION_ID="9.6"\n', rocky),
        ('ID=debian\nVERSION_ID="13"\n', directory / SPACK_LOCK),
        ('ID=debian\nVERSION_ID="12"\n', directory / SPACK_LOCK),
    ):
        locks.OS_RELEASE.write_text(release)
        assert locks.choose(directory, "x86_64").path == lock


@pytest.mark.parametrize(
    "release, system",
    [
        ('VERSION_ID="13"\nVERSION="13 (trixie)"\nID=debian\n', "debian13"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="8.10"\n', "rocky8"),
        ('ID="amzn"\nVERSION_ID="2023"\n', "amzn2023"),
        ('ID=ubuntu\nVERSION_ID="24.04"\n', "ubuntu24.04"),
    ],
)
def test_systems_have_the_names_that_spack_gives(tmp_path, monkeypatch, release, system):
    monkeypatch.setattr(locks, "OS_RELEASE", tmp_path / "os-release")
    assert locks.system_here() == ""
    locks.OS_RELEASE.write_text(release)
    assert locks.system_here() == system


def test_a_new_lock_takes_its_place_beside_the_others(tmp_path, monkeypatch, capsys):
    """The stand-in of Spack writes a lock of Rocky Linux."""
    program = tmp_path / "spack"
    shutil.copytree(ENVIRONMENTS_DIR, tmp_path / "spack-env")
    monkeypatch.setattr(locks, "HERE", tmp_path / "spack-env")
    of_rocky = (ENVIRONMENTS_DIR / "openmpi" / SPACK_LOCK).read_text().replace("debian13", "rocky9")
    (tmp_path / "fresh").write_text(of_rocky)
    program.write_text(f'#!/bin/sh\ncp {tmp_path}/fresh "$2"/spack.lock\n')
    program.chmod(0o755)
    directory = tmp_path / "spack-env" / "openmpi"
    assert locks.check(directory, [str(program)], write=True, target="x86_64_v3")
    assert "rocky9-x86_64_v3.lock: 46 packages are new" in capsys.readouterr().out
    assert (directory / "locks" / "rocky9-x86_64_v3.lock").read_text() == of_rocky
    assert (directory / SPACK_LOCK).read_text() != of_rocky and not (
        directory / "spack.lock"
    ).exists()


def test_locks_for_a_processor_are_written_with_its_target(tmp_path):
    """The stand-in of Spack writes down what it was to concretize."""
    program, site = tmp_path / "spack", tmp_path / "site"
    lock = ENVIRONMENTS_DIR / "openmpi" / SPACK_LOCK
    does = f'cat "$2"/../common/*.yaml > {tmp_path}/common; cp {lock} "$2"/spack.lock'
    program.write_text(f'#!/bin/sh\n{does}; mkdir "$2"/.spack-env\n')
    program.chmod(0o755)
    words = ["--spack", str(program), "--into", str(site), "--environment", "openmpi"]
    assert locks.main([*words, "--target", "a64fx"]) == 0
    common = (tmp_path / "common").read_text()
    assert "[target=a64fx]" in common and "granularity: microarchitectures" in common
    assert "[target=a64fx]" in (site / "common" / "packages.yaml").read_text()
    assert (site / "repo").is_symlink() and not (site / "common").is_symlink()


@pytest.mark.parametrize(
    "text, facts",
    [
        ("", ["cannot be read", "make spack-lock"]),
        ("[1", ["cannot be read", "make spack-lock"]),
        ('{"_meta": {"lockfile-version": 3}}', ["version 3", "6 or 7"]),
    ],
)
def test_a_lock_that_is_none_is_refused(tmp_path, capsys, text, facts):
    path = tmp_path / "spack.lock"
    path.write_text(text)
    assert locks.main([str(path), str(path)]) == 2
    assert not lacking(capsys.readouterr().err, str(path), *facts)


def test_what_changed_is_said_in_words(tmp_path, capsys):
    old = ENVIRONMENTS_DIR / "openmpi" / SPACK_LOCK
    data = json.loads(old.read_text())
    before = copy.deepcopy(data)
    nodes = data["concrete_specs"]
    key, openmpi = next((key, node) for key, node in nodes.items() if node["name"] == "openmpi")
    openmpi["version"], openmpi["parameters"]["romio"] = "5.0.8", not openmpi["parameters"]["romio"]
    openmpi["hash"] = "n" * 32
    nodes[openmpi["hash"]] = nodes.pop(key)
    gone = next(key for key, node in nodes.items() if node["name"] == "numactl")
    del nodes[gone]
    assert before != data
    (tmp_path / "new.lock").write_text(json.dumps(data))
    assert locks.main([str(old), str(tmp_path / "new.lock")]) == 0
    said = capsys.readouterr().out
    [changed] = [line for line in said.splitlines() if line.startswith("openmpi ")]
    romio = openmpi["parameters"]["romio"]
    assert not lacking(changed, "5.0.7 became 5.0.8", f"romio={not romio} became {romio}")
    [removed] = [line for line in said.splitlines() if line.startswith("numactl ")]
    assert not lacking(removed, "gone")
    assert locks.main([str(old), str(old)]) == 0 and capsys.readouterr().out == "nothing changed\n"


def test_two_locks_or_none():
    with pytest.raises(SystemExit) as end:
        locks.main(["one.lock"])
    assert end.value.code == 2


@pytest.mark.parametrize("script", ["containers/stages/spack.sh", "site-config/aws/spack.sh"])
def test_scripts_take_the_locks_of_the_targets(script):
    text = (CHECKOUT / script).read_text()
    targets = (
        f"x86_64) target={locks.TARGETS['x86_64']} ;;",
        f"*) target={locks.TARGETS['aarch64']} ;;",
    )
    assert not lacking(text, *targets)
