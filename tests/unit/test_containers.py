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

from nearmetal.checks import sources
from nearmetal.checks.programs import Program
from nearmetal.checks.runtime import image as of_checks
from nearmetal.checks.runtime.jvm import build_commands, directories, jvm_command, script
from nearmetal.locks import images, images_lock, sif
from nearmetal.locks.images_lock import label
from tests.support.paths import CHECKOUT, RECORDED
from tests.support.said import lacking

CONTAINERS = CHECKOUT / "containers"
HEADER = RECORDED / "image_header.sif"
#: The record of a built image, without what its lock has.
RECORD = {"digest": f"sha256:{1:064}", "bytes": 1, "pmi": "pmix"} | {
    "programs": "f" * 64,
    "sources": "0" * 64,
    "revision": "0123456789ab",
}


def test_a_definition_a_stack_and_each_is_locked():
    assert images.STACKS == ["mpich", "mpj-native", "openmpi"]
    assert sorted(images.read_lock(CONTAINERS / "images.lock")) == images.STACKS


def test_each_architecture_has_images_and_a_lock_of_its_own(monkeypatch):
    monkeypatch.delenv("NEARMETAL_IMAGES", raising=False)
    assert images_lock.lock_path() == CONTAINERS / "images.lock"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert images_lock.image_path("mpich") == CONTAINERS / "images-aarch64" / "mpich.sif"
    assert images_lock.lock_path() == CONTAINERS / "images-aarch64.lock"


def test_locked_images_are_of_debians_packages_and_nothing_of_ours():
    for entry in images.read_lock(CONTAINERS / "images.lock").values():
        assert entry.keys() == {"software", "inputs", "packages"}
        assert entry["software"] == "debian"


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
        "debian13-x86_64_v3.lock",
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


@pytest.mark.parametrize("mpi, java", [("libopenmpi40", "libmpj-java"), ("openmpi", "mpj-express")])
def test_an_image_says_which_libraries_it_holds_beside_that_of_its_name(mpi, java):
    """FastMPJ must not be passed on, so no image holds it."""
    entry = {"packages": {java: "0.44-1", "libc6": "2.41", mpi: "5.0.7-1"}}
    assert label("mpj-native", entry) == "mpj-native (Open MPI 5.0.7-1, MPJ Express 0.44-1)"
    assert label("openmpi", {"packages": {mpi: "5.0.7-1"}}) == "openmpi"


@pytest.mark.parametrize("software", ["debian", "spack"])
def test_a_stack_is_made_from_no_source_of_ours(software):
    def below(paths):
        return {path.relative_to(CHECKOUT).parts[0] for path in paths}

    for stack in images.STACKS:
        places = {"containers", "spack-env"} if software == "spack" else {"containers"}
        assert below(images.inputs(stack, software)) == places
    assert below(images.programs("openmpi")) == {"reframe_checks"}
    given = images.programs("mpj-native")
    assert CHECKOUT / "mpj-native/src/main/java/mpi/MPI.java" in given
    assert not any("test" in path.parts for path in given)


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
    assert not lacking(of_java.skip_reason("srun"), *facts)
    (site.root / "our images.lock").unlink()
    of_checks.locked.cache_clear()
    assert "our images/mpj-native.sif: make images " in of_java.skip_reason("srun")


def test_what_a_damaged_lock_lacks_is_said(tmp_path):
    lock = tmp_path / "images.lock"
    entries = yaml.safe_load((CONTAINERS / "images.lock").read_text())
    entries["mpich"]["inputs"] = "1234"
    lock.write_text(yaml.safe_dump(entries))
    with pytest.raises(images.ImagesError) as error:
        images.read_lock(lock)
    assert not lacking(str(error.value), str(lock), "mpich.inputs", "1234", "make images-lock")
    assert images.read_lock(tmp_path / "none.lock") == {}


def test_what_a_record_lacks_is_said(tmp_path):
    path = tmp_path / "mpich.yaml"
    for text, fact in ((None, "No such file"), ("{}", "'digest' is missing")):
        if text:
            path.write_text(text)
        with pytest.raises(images.ImagesError) as error:
            images.read_record(path)
        assert not lacking(str(error.value), str(path), fact)
        assert str(error.value).endswith("Fix: write it anew with make images")


def test_what_changed_is_said_in_words():
    old = {"software": "debian", "inputs": "a" * 64, "packages": {"libc6": "1", "dropped": "1"}}
    assert images.differences(old, {**old, "programs": "p" * 64}) == []
    new = {"software": "spack", "inputs": "b" * 64, "packages": {"libc6": "2", "added": "3"}}
    *origin, added, dropped, libc6 = images.differences(old, new)
    facts = [("software", "spack"), ("definition", "b" * 12)]
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


@pytest.fixture
def builds(tmp_path, monkeypatch):
    """Builds mpich, whose sources and packages the test sets. The lock is of other packages.

    :returns: what was built, and a function: whether to lock -> exit code and what was said.
    """
    made = SimpleNamespace(packages={"libc6": "2"}, sources="a" * 64, count=0)

    class Copier:
        def __init__(self, say):
            pass

        def image(self, stack, software, revision, epoch):
            made.count += 1
            image = tmp_path / "built.sif"
            image.write_text(made.sources)
            record = {**RECORD, "packages": made.packages, "sources": made.sources}
            return image, record | {"digest": images.digest_of(image)}

        def close(self):
            pass

    monkeypatch.setenv("NEARMETAL_IMAGES", str(tmp_path / "images"))
    monkeypatch.setattr(images, "refuse_unsuitable_host", lambda: None)
    monkeypatch.setattr(images, "Builder", Copier)
    monkeypatch.setattr(images, "programs", lambda stack: [])
    inputs = images.made_from("mpich", "debian")["inputs"]
    locked = {"software": "debian", "inputs": inputs, "packages": {"libc6": "1"}}
    (tmp_path / "images.lock").write_text(yaml.safe_dump({"mpich": locked}))

    def build(lock_anew=False) -> tuple[int, str]:
        said = []
        code = images.build_all(["mpich"], None, lock_anew, said.append)
        return code, "\n".join(said)

    return made, build


def test_an_image_of_other_packages_is_not_as_locked(builds, tmp_path):
    made, build = builds
    for _ in range(2):
        code, said = build()
        assert code == 3 and not lacking(said, "not as locked", "libc6 2 instead of 1")
    code, said = build(lock_anew=True)
    assert code == 0 and not lacking(said, ", locked", "libc6 2 instead of 1")
    [entry] = images.read_lock(tmp_path / "images.lock").values()
    assert entry.keys() == {"software", "inputs", "packages"}
    assert entry["packages"] == made.packages and made.count == 3
    assert build() == (0, "mpich: as locked") and made.count == 3


def test_an_image_of_other_sources_is_built_anew_and_as_locked(builds, tmp_path, monkeypatch):
    made, build = builds
    build(lock_anew=True)
    lock = (tmp_path / "images.lock").read_bytes()
    monkeypatch.setattr(images, "programs", lambda stack: [CHECKOUT / "README.md"])
    made.sources = "b" * 64
    code, said = build()
    assert code == 0 and said.endswith(", as locked") and made.count == 2
    assert (tmp_path / "images.lock").read_bytes() == lock
    assert images.read_record(tmp_path / "images" / "mpich.yaml")["sources"] == "b" * 64
    (tmp_path / "images" / "mpich.sif").write_text("damaged")
    assert build()[0] == 0 and made.count == 3


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
    for stack in ("openmpi", "mpj-native"):
        write_record(stack)
    of_checks.locked.cache_clear()
    of_checks.record_of.cache_clear()
    yield SimpleNamespace(
        root=tmp_path, partition=SimpleNamespace(fullname="site:cc", features=["apptainer"])
    )
    of_checks.locked.cache_clear()
    of_checks.record_of.cache_clear()


def write_record(stack, **differing):
    """The record of an image that is as locked but for some keys."""
    entry = images.read_lock(images.lock_path())[stack]
    record = {**entry, **RECORD, **differing}
    images_lock.record_path(stack).write_text(yaml.safe_dump(record))


def environ(image, *features):
    return SimpleNamespace(
        name=f"{image}-sif", features=["mpj", *features], extras={"image": image} if image else {}
    )


def test_why_an_environment_cannot_run_is_said(site):
    def obstacle(image, partition=site.partition):
        return of_checks.Image(environ(image), partition).skip_reason("srun")

    assert obstacle("openmpi") == ""
    assert not lacking(obstacle("mpich"), "our images/mpich.sif", "make images ")
    write_record("openmpi", packages={})
    of_checks.record_of.cache_clear()
    facts = ["openmpi.sif is not as locked", "adduser is gone", "make images builds it anew"]
    assert not lacking(obstacle("openmpi"), *facts)
    images_lock.record_path("openmpi").unlink()
    of_checks.record_of.cache_clear()
    assert not lacking(obstacle("openmpi"), "our images/openmpi.yaml", "Fix", "make images")
    write_record("openmpi")
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


def test_a_run_from_an_image_of_older_sources_says_so_and_goes_on(site):
    write_record("openmpi", sources=sources.digest())
    assert "other sources" not in dry_run(site).stdout
    write_record("openmpi", sources="0" * 64)
    done = dry_run(site)
    [warning] = [line for line in done.stdout.splitlines() if "other sources" in line]
    assert not lacking(warning, "openmpi-sif", "0" * 12, sources.digest()[:12], "make images")
    assert done.returncode == 0 and "Ran 1/1 test case(s)" in done.stdout


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


def test_another_image_than_the_recorded_one_is_refused(tmp_path):
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
    found, built = (hashlib.sha256(data).hexdigest() for data in (b"something", b""))
    assert not lacking(done.stderr, str(path), f"digest sha256:{found}", f"record sha256:{built}")
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
