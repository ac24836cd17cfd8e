"""Container images: their lock, reproducible builds, and the commands of checks that use them.

These tests need no Apptainer. tests/lab/test_images.py has the tests with it.
"""

import hashlib
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from nearmetal.checks.programs import Program
from nearmetal.checks.runtime import image as of_checks
from nearmetal.checks.runtime.jvm import build_commands, directories, jvm_command, script
from nearmetal.locks import images, sif, sources
from nearmetal.locks.images_lock import label
from tests.support.paths import CHECKOUT, RECORDED
from tests.support.said import lacking

CONTAINERS = CHECKOUT / "containers"
HEADER = RECORDED / "image_header.sif"


def test_a_definition_a_stack_and_each_is_locked():
    assert images.STACKS == ["mpich", "mpj-native", "openmpi"]
    assert sorted(images.read_lock(CONTAINERS / "images.lock")) == images.STACKS


def test_locked_images_are_small_and_of_debians_packages():
    for entry in images.read_lock(CONTAINERS / "images.lock").values():
        assert entry["software"] == "debian"
        assert entry["bytes"] < 250e6


@pytest.mark.parametrize("stack", images.STACKS)
def test_what_a_definition_copies_of_spack_is_all_that_is_committed(stack):
    """A user's own installation in the checkout, `.spack-env`, must not be copied: it has many
    links."""
    names = ["common", "repo", stack]
    if stack == "mpj-native":
        names.append("openmpi/packages.yaml")
    given = [CHECKOUT / "spack-env" / name for name in names]
    committed = subprocess.run(
        ["git", "-C", CHECKOUT, "-c", f"safe.directory={CHECKOUT}", "ls-files", *given],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    of_spack = set(images.inputs(stack, "spack")) - set(images.inputs(stack, "debian"))
    assert {CHECKOUT / path for path in committed} == of_spack
    assert {path.name for path in of_spack} > {
        "spack.yaml",
        "spack.lock",
        "package.py",
        "repos.yaml",
    }


def test_images_hold_the_library_versions_of_the_spack_environments():
    locks = images.read_lock(CONTAINERS / "images.lock")
    assert locks["openmpi"]["packages"]["libopenmpi40"].startswith("5.0.7-")
    assert "4.2.1-" in locks["mpich"]["packages"]["libmpich12"]
    java = locks["mpj-native"]["packages"]
    assert java["libmpj-java"].startswith("0.44+")
    assert java["libopenmpi40"] == locks["openmpi"]["packages"]["libopenmpi40"]
    assert "openjdk-25-jre-headless" in java
    assert [locks[stack]["pmi"] for stack in images.STACKS] == ["pmi2", "pmix", "pmix"]


@pytest.mark.parametrize("mpi, java", [("libopenmpi40", "libmpj-java"), ("openmpi", "mpj-express")])
def test_an_image_says_which_libraries_it_holds_beside_that_of_its_name(mpi, java):
    """FastMPJ must not be passed on, so no image holds it."""
    entry = {"packages": {java: "0.44-1", "libc6": "2.41", mpi: "5.0.7-1"}}
    assert label("mpj-native", entry) == "mpj-native (Open MPI 5.0.7-1, MPJ Express 0.44-1)"
    assert label("openmpi", {"packages": {mpi: "5.0.7-1"}}) == "openmpi"


def test_an_image_of_another_mpj_native_is_another(monkeypatch, tmp_path):
    """The library's sources are no programs of ours: they are among the image's inputs."""
    given = {path.relative_to(CHECKOUT) for path in images.inputs("mpj-native", "debian")}
    assert Path("mpj-native/src/main/java/mpi/MPI.java") in given
    assert not any("test" in path.parts or "spack-env" in path.parts for path in given)
    assert not any("mpj-native" in path.parts for path in images.inputs("openmpi", "debian"))


def test_images_of_the_lock_have_the_names_of_their_libraries_or_say_these():
    locks = images.read_lock(CONTAINERS / "images.lock")
    java = locks["mpj-native"]["packages"]
    assert [label(stack, locks[stack]) for stack in images.STACKS] == [
        "mpich",
        f"mpj-native (Open MPI {java['libopenmpi40']}, MPJ Express {java['libmpj-java']})",
        "openmpi",
    ]


def test_the_image_in_a_result_and_in_a_reason_says_what_it_holds(site):
    of_java = of_checks.Image(environ("mpj-native"), site.partition)
    assert of_java.image.startswith("mpj-native (Open MPI 5.0.7") and "sha256:" in of_java.image
    facts = ["mpj-native.sif (Open MPI 5.0.7", "MPJ Express 0.44", "make images "]
    assert not lacking(of_java.obstacle("srun"), *facts)
    (site.root / "our images.lock").unlink()
    of_checks.locked.cache_clear()
    assert "our images/mpj-native.sif: make images " in of_java.obstacle("srun")


def test_what_a_damaged_lock_lacks_is_said(tmp_path):
    lock = tmp_path / "images.lock"
    entries = yaml.safe_load((CONTAINERS / "images.lock").read_text())
    entries["mpich"]["digest"] = "sha256:1234"
    lock.write_text(yaml.safe_dump(entries))
    with pytest.raises(images.ImagesError) as error:
        images.read_lock(lock)
    assert not lacking(
        str(error.value), str(lock), "mpich.digest", "sha256:1234", "make images-lock"
    )
    assert images.read_lock(tmp_path / "none.lock") == {}


def test_what_changed_is_said_in_words():
    old = {
        "software": "debian",
        "sources": "s" * 64,
        "inputs": "a" * 64,
        "packages": {"libc6": "1", "dropped": "1"},
    }
    [alike] = images.differences(old, old)
    assert not lacking(alike, "not reproducible", "diffoscope")
    new = {
        "software": "spack",
        "sources": "t" * 64,
        "inputs": "b" * 64,
        "packages": {"libc6": "2", "added": "3"},
    }
    *origin, added, dropped, libc6 = images.differences(old, new)
    facts = [("software", "spack"), ("sources", "t" * 12), ("definition", "b" * 12)]
    assert len(origin) == len(facts)
    for words, (kind, here) in zip(origin, facts):
        assert not lacking(words, "the lock", f"other {kind}", here)
    assert not lacking(added, "added 3", "new")
    assert not lacking(dropped, "dropped", "gone", "1")
    assert not lacking(libc6, "libc6 2 instead of 1")


def test_an_image_is_built_from_what_is_asked_for_or_else_as_locked(tmp_path, monkeypatch):
    asked = []

    class Recorder:
        def __init__(self, say):
            pass

        def image(self, stack, software, revision, epoch):
            asked.append((stack, software))
            raise images.BuildError("nothing is built here")

        def close(self):
            pass

    monkeypatch.setenv("NEARMETAL_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(images, "refuse_unsuitable_host", lambda: None)
    monkeypatch.setattr(images, "Builder", Recorder)
    locked = yaml.safe_load((CONTAINERS / "images.lock").read_text())
    locked["openmpi"]["software"] = "spack"
    del locked["mpj-native"]
    (tmp_path / "images.lock").write_text(yaml.safe_dump(locked))
    for stack, word in (
        *(("openmpi", None), ("mpich", None)),
        *(("mpj-native", None), ("mpich", "spack")),
    ):
        with pytest.raises(images.BuildError):
            images.build_all([stack], word, False, lambda text: None)
    assert asked == [
        *(("openmpi", "spack"), ("mpich", "debian")),
        *(("mpj-native", "debian"), ("mpich", "spack")),
    ]


@pytest.mark.parametrize(
    "now, anew, asked",
    [
        ("0123456789ab", True, "0123456789ab"),
        ("0123456789ab", False, "ba9876543210-dirty"),
        ("ba9876543210-dirty", True, "ba9876543210-dirty"),
    ],
)
def test_what_was_locked_of_uncommitted_changes_is_locked_anew_of_a_commit(
    tmp_path, monkeypatch, now, anew, asked
):
    said = []
    old = yaml.safe_load((CONTAINERS / "images.lock").read_text())["mpich"]
    old |= images.made_from("mpich", old["software"]) | {"revision": "ba9876543210-dirty"}
    (tmp_path / "images.lock").write_text(yaml.safe_dump({"mpich": old}))

    class Copier:
        def __init__(self, say):
            pass

        def image(self, stack, software, revision, epoch):
            image = tmp_path / "built.sif"
            image.write_text(revision)
            digest = "sha256:" + hashlib.sha256(revision.encode()).hexdigest()
            return image, old | {"revision": revision, "digest": digest}

        def close(self):
            pass

    monkeypatch.setenv("NEARMETAL_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(images, "refuse_unsuitable_host", lambda: None)
    monkeypatch.setattr(images, "Builder", Copier)
    monkeypatch.setattr(images, "revision_of", lambda paths: (now, 1))
    code = images.build_all(["mpich"], None, anew, said.append)
    assert (tmp_path / "images" / "mpich.sif").read_text() == asked
    locked = images.read_lock(tmp_path / "images.lock")["mpich"]["revision"]
    assert (code, locked) == ((0, asked) if anew else (3, old["revision"]))
    assert any("not reproducible" in line for line in said) == (old["revision"] == asked)
    warned = any("of uncommitted changes: commit mpich's sources" in line for line in said)
    assert warned == (anew and asked.endswith("-dirty"))


def test_an_image_of_other_sources_is_no_irreproducible_build():
    old = {"software": "debian", "sources": "s" * 64, "inputs": "a" * 64, "packages": {}}
    [words] = images.differences(old, {**old, "sources": "t" * 64})
    assert not lacking(words, "other sources", "reframe_checks/src", "s" * 12, "t" * 12)
    assert "reproducible" not in words


@pytest.mark.parametrize(
    "words, said",
    [(["nosuch"], "no such stack: nosuch"), (["--software", "guix"], "invalid choice")],
)
def test_bad_usage_ends_with_two(capsys, words, said):
    with pytest.raises(SystemExit) as end:
        images.main(words)
    assert end.value.code == 2 and said in capsys.readouterr().err


def test_two_builds_are_the_same_once_pinned(tmp_path):
    """Two builds differ only in the header, so the header of a real image suffices."""
    one, two = tmp_path / "one.sif", tmp_path / "two.sif"
    shutil.copyfile(HEADER, one)
    other = bytearray(HEADER.read_bytes())
    other[48:64] = bytes(range(16))
    for place in (
        64,
        72,
        *(4096 + number * 585 + 41 + half for number in range(3) for half in (0, 8)),
    ):
        struct.pack_into("<q", other, place, 1234567890)
    two.write_bytes(other)
    for path in (one, two):
        sif.pin(path, 1700000000)
    assert one.read_bytes() == two.read_bytes()
    pinned = one.read_bytes()
    assert (
        struct.unpack_from("<qq", pinned, 64) == (1700000000, 1700000000) and pinned[54] >> 4 == 4
    )
    sif.pin(one, 1700000000)
    assert one.read_bytes() == pinned
    other[200] ^= 1
    two.write_bytes(other)
    sif.pin(two, 1700000000)
    assert two.read_bytes()[48:64] != pinned[48:64]  # another image has another identity


def test_what_is_no_image_is_left_alone(tmp_path):
    path = tmp_path / "text.sif"
    path.write_bytes(b"no image" * 100)
    with pytest.raises(sif.SifError, match=r"text\.sif .*\bno SIF image\b.*\b01\b"):
        sif.pin(path, 0)
    assert path.read_bytes() == b"no image" * 100


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site's own directory of images, and a partition with Apptainer."""
    monkeypatch.setenv("NEARMETAL_IMAGES", str(tmp_path / "our images"))
    (tmp_path / "our images").mkdir()
    (tmp_path / "our images" / "openmpi.sif").write_bytes(b"")
    shutil.copyfile(CONTAINERS / "images.lock", tmp_path / "our images.lock")
    of_checks.locked.cache_clear()
    yield SimpleNamespace(
        root=tmp_path, partition=SimpleNamespace(fullname="site:cc", features=["apptainer"])
    )
    of_checks.locked.cache_clear()


def environ(image, *features):
    return SimpleNamespace(
        name=f"{image}-sif", features=["mpj", *features], extras={"image": image} if image else {}
    )


def test_why_an_environment_cannot_run_is_said(site):
    def obstacle(image, partition=site.partition):
        return of_checks.Image(environ(image), partition).obstacle("srun")

    assert obstacle("openmpi") == ""
    assert not lacking(obstacle("mpich"), "our images/mpich.sif", "make images ")
    bare = SimpleNamespace(fullname="site:cc", features=[])
    assert not lacking(obstacle("openmpi", bare), "site:cc", "Apptainer", "container_platforms")
    (site.root / "our images.lock").unlink()
    of_checks.locked.cache_clear()
    assert not lacking(obstacle("openmpi"), "our images.lock", "make images-lock")


def test_the_command_of_an_image_is_one_word_for_its_path(site):
    runtime = of_checks.Image(environ("openmpi"), site.partition)
    assert runtime.command(Program("pingpong.c")) == (
        f"apptainer exec {of_checks.OPTIONS} '{site.root}/our images/openmpi.sif' "
        "nearmetal-pingpong"
    )


def dry_run(site, *arguments) -> subprocess.CompletedProcess:
    """A dry run of a ping-pong in the image openmpi."""
    command = "-c reframe_checks --dry-run --system lab:native -n pingpong%placement=intranode"
    settings = {
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        "RFM_PREFIX": str(site.root / "results"),
        "RFM_RESOLVE_MODULE_CONFLICTS": "0",  # no modules system where the tests run
    }
    reframe = Path(sys.executable).parent / "reframe"
    return subprocess.run(
        [reframe, "--nocolor", *command.split(), "-p", "^openmpi-sif$", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )


@pytest.mark.parametrize(
    "setting, outcome, facts",
    [
        ("image=openmpi", "Reason:", ["image is 'openmpi'", "environment", "-p '.*-sif'"]),
        ("pingpong.suite=imb", "SKIP", ["IMB-MPI1", "not in", "image openmpi"]),
    ],
)
def test_what_an_image_does_not_do_is_said(site, setting, outcome, facts):
    done = dry_run(site, "-S", setting)
    [line] = [line for line in done.stdout.splitlines() if outcome in line]
    assert not lacking(line, *facts) and "OK" not in done.stdout


def test_a_run_from_an_image_of_older_sources_says_so_and_goes_on(site, monkeypatch):
    said = []
    log = SimpleNamespace(warning=said.append)
    monkeypatch.setattr("nearmetal.checks.sources.getlogger", lambda: log)
    lock = site.root / "our images.lock"
    entries = yaml.safe_load(lock.read_text())
    for digest in (sources.digest(), "0" * 64):
        assert not said
        entries["openmpi"]["sources"] = digest
        lock.write_text(yaml.safe_dump(entries))
        of_checks.locked.cache_clear()
        runtime = of_checks.Image(environ("openmpi"), site.partition)
        assert runtime.sources_of(Program("pingpong.c"), "") == digest
    [warning] = said
    facts = ["openmpi-sif", "other sources", "0" * 12, sources.digest()[:12], "make images-lock"]
    assert not lacking(warning, *facts)


def test_only_what_has_a_class_for_vectors_is_compiled_with_their_module():
    native = SimpleNamespace(name="mpj-native", features=["mpj_native"], extras={})
    *_, vectors = build_commands(native, "CG")
    assert "--add-modules jdk.incubator.vector" in vectors and "CGVectors.java" in vectors
    for program in ("PingPong", "Meet.java"):
        assert not any("incubator" in command for command in build_commands(native, program))


def test_programs_in_java_are_where_the_image_has_them():
    assert build_commands(environ("mpj-native"), "PingPong") == ["true"]
    java = "/opt/nearmetal/share/java"
    assert directories(environ("mpj-native")) == (f"{java}/classes", f"{java}/launch")
    native = environ("mpj-native", "mpj_native")
    assert directories(native) == (f"{java}/classes.native", f"{java}/library")
    stage = (CONTAINERS / "stages" / "native.sh").read_text()
    assert not lacking(stage, f"java={java}\n", '"$java/classes.native"', '"$java/library"')
    assert (
        jvm_command("PingPong", script(environ("mpj-native")))
        == "sh /opt/nearmetal/share/java/jvm.sh PingPong"
    )
    assert directories(environ("")) == ("classes.-sif", "launch.-sif")


def test_another_image_than_the_locked_one_is_refused(tmp_path):
    path = tmp_path / "x.sif"
    path.write_bytes(b"something")
    done = subprocess.run(
        [
            "sh",
            CHECKOUT / "reframe_checks/src/image.sh",
            "apptainer",
            path,
            hashlib.sha256(b"").hexdigest(),
            "none",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    found, locked = (hashlib.sha256(data).hexdigest() for data in (b"something", b""))
    assert not lacking(done.stderr, str(path), f"digest sha256:{found}", f"lock sha256:{locked}")
    done = subprocess.run(
        [
            "sh",
            CHECKOUT / "reframe_checks/src/image.sh",
            "apptainer",
            tmp_path / "y.sif",
            "",
            "none",
        ],
        capture_output=True,
        text=True,
    )
    assert (
        done.returncode == 1 and "cannot read" in done.stderr and "NEARMETAL_IMAGES" in done.stderr
    )
