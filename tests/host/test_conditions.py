"""Hosts and places that cannot carry the lab, each real: refused in one sentence at once."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal.lab import conditions
from nearmetal.lab.namespaces import Namespaces
from tests.support.paths import CHECKOUT

STRANGER = 64771
LAB = CHECKOUT / "nearmetal" / "lab"
PACKAGES = next((CHECKOUT / ".venv" / "lib").glob("python3*/site-packages"))

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="makes mounts and users' files: run it as root, as CI does"
)


def copied(place: Path) -> Path:
    """A copy of what the lab's user reads of the checkout."""
    checkout = place / "checkout"
    for name in conditions.READ:
        source, target = CHECKOUT / name, checkout / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.sif"))
        else:
            shutil.copy(source, target)
    return checkout


@pytest.fixture
def place(open_path):
    """A directory that every user can enter."""
    return open_path


def run(*command, before: str = "", **environment) -> subprocess.CompletedProcess:
    """A command after a shell line, in a mount namespace of its own."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-ec", f'{before}\nexec "$@"', "run", *map(str, command)],
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={**os.environ, **environment},
    )


def up(checkout: Path, before: str = "", **environment) -> subprocess.CompletedProcess:
    start = f"{before}\ncd {shlex.quote(str(checkout))}"
    return run(sys.executable, "-m", "nearmetal.lab", "up", before=start, **environment)


def refused(done: subprocess.CompletedProcess, *facts: object) -> None:
    """One line with these facts, and exit code 1."""
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and len(lines) == 1, done.stdout
    assert lines[0].startswith(("lab: ", "images: "))
    for fact in facts:
        assert str(fact) in lines[0]


@pytest.fixture
def started(place):
    """No checkout below this test's place has started a lab; other labs of the host do not
    count."""
    yield
    checkouts = {path.parent for path in place.rglob("nearmetal")}
    assert [path for path in checkouts if Namespaces(path).directory.exists()] == []


def test_a_checkout_below_a_closed_directory(place, started):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    checkout = copied(closed)
    refused(up(checkout), f"lab: {closed} cannot be entered", f"chmod o+x {closed}")
    assert not (checkout / "results").exists()


@pytest.mark.skipif(
    Path("/root").stat().st_mode & 0o001 == 1, reason="this host lets every user enter /root"
)
def test_a_checkout_below_roots_home(started):
    with pytest.raises(conditions.LabError, match=r"^/root cannot be entered"):
        conditions.refuse_checkout(Path("/root"), STRANGER, STRANGER)


@pytest.mark.parametrize("name", ["pyproject.toml", "reframe_checks", "nearmetal/lab/enter.sh"])
def test_a_clone_made_under_a_private_umask(place, started, name):
    checkout = copied(place)
    subprocess.run(["chmod", "-R", "go-rwx", checkout / name], check=True)
    refused(up(checkout), checkout / name, "umask 077", f"chmod -R go+rX {checkout}")
    with pytest.raises(conditions.LabError, match=f"chmod -R go.rX {checkout}"):
        conditions.refuse_private_checkout(checkout)


def test_editors_files_and_byte_code_of_roots_are_no_reason(place):
    checkout = copied(place)
    for name in ("nearmetal/.cli.py.swp", "nearmetal/__pycache__/cli.pyc"):
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).touch(mode=0o600)
    conditions.refuse_checkout(checkout, STRANGER, STRANGER)
    conditions.refuse_private_checkout(checkout)


@pytest.mark.parametrize("command", ["lab", "images", "host.sh"])
def test_an_ordinary_user_without_sudo(place, started, command):
    checkout = copied(place)
    os.chown(checkout, STRANGER, STRANGER)
    words = {
        "lab": ["/usr/bin/python3", "-B", "-m", "nearmetal.lab", "up"],
        "images": ["/usr/bin/python3", "-B", "-m", "nearmetal.locks.images"],
        "host.sh": ["/bin/sh", checkout / "nearmetal" / "lab" / "host.sh"],
    }[command]
    done = subprocess.run(
        words,
        text=True,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        # A PATH without sudo, whatever this host has.
        env={"PATH": str(tools(place)), "PYTHONPATH": str(packages(place))},
    )
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1, done.stdout
    assert "needs root" in done.stdout and "no sudo" in done.stdout


def tools(place: Path) -> Path:
    """A directory of programs without sudo and Apptainer."""
    directory = place / "bin"
    directory.mkdir()
    for name in ("sh", "id", "findmnt", "dirname", "grep", "cat", "test", "python3"):
        (directory / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
    return directory


def packages(place: Path) -> Path:
    """The virtual environment's packages, where every user can read them."""
    directory = place / "packages"
    directory.mkdir()
    for source in PACKAGES.iterdir():
        if source.name.startswith(
            ("archspec", "jinja2", "markupsafe", "yaml", "jsonschema", "attr")
        ):
            shutil.copytree(source, directory / source.name)
        elif source.name.startswith(("referencing", "rpds", "typing_extensions")):
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, directory / source.name)
    (directory / "nearmetal").symlink_to(place / "checkout" / "nearmetal")
    return directory


@pytest.mark.parametrize("option", ["ro", "noexec"])
def test_a_file_system_mounted_otherwise(place, started, option):
    checkout = copied(place)
    mount = f'mount --bind "{checkout}" "{checkout}"; mount -o remount,bind,{option} "{checkout}"'
    refused(up(checkout, mount), checkout, f"mounted {option}")
    done = run("sh", checkout / "nearmetal" / "lab" / "host.sh", before=mount)
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1, done.stdout
    assert str(checkout) in done.stdout and "move the checkout" in done.stdout


@pytest.mark.parametrize("character", [" ", ":", "'", ",", "$"])
def test_a_path_that_some_program_would_split(place, started, character):
    checkout = copied(place / f"a{character}b")
    refused(up(checkout), checkout, repr(character), "move it")


@pytest.mark.parametrize("character", [" ", ":"])
def test_host_sh_refuses_such_a_path_before_it_installs_anything(place, character):
    checkout = copied(place / f"a{character}b")
    done = run("sh", checkout / "nearmetal" / "lab" / "host.sh")
    assert done.returncode == 1 and len(done.stdout.splitlines()) == 1, done.stdout
    assert str(checkout) in done.stdout


def test_a_disk_with_too_little_space(place, started):
    cache = place / "cache"
    cache.mkdir()
    mount = f'mount -t tmpfs -o size=50m,mode=755 small "{cache}"'
    done = up(copied(place), mount, NEARMETAL_CACHE=str(cache))
    refused(done, cache, "50 MB free", f"{conditions.IMAGE_MB} MB", "NEARMETAL_CACHE")


@pytest.mark.parametrize("option", ["ro", "noexec", "nodev"])
def test_a_cache_where_no_image_can_be_made(place, started, option):
    cache = place / "cache"
    cache.mkdir()
    mount = f'mount -t tmpfs -o {option} other "{cache}"'
    done = up(copied(place), mount, NEARMETAL_CACHE=str(cache))
    refused(done, cache, f"mounted {option}", "NEARMETAL_CACHE")


def test_a_cache_below_a_path_that_mount_would_split(place, started):
    done = up(copied(place), NEARMETAL_CACHE=str(place / "a,b"))
    refused(done, place / "a,b", "','", "NEARMETAL_CACHE")


def test_a_state_directory_that_is_read_only(place, started):
    done = up(copied(place), "mount -t tmpfs -o ro other /run")
    refused(done, "/run is not writable", "/run/nearmetal")


OVERLAYS = """
mount -t tmpfs t /mnt
for n in 1 2; do
    mkdir -p /mnt/l$n/{l} /mnt/u$n /mnt/w$n /mnt/m$n
    lower=$([ $n = 1 ] && echo /mnt/l1 || echo /mnt/m1)
    mount -t overlay -o "lowerdir=$lower,upperdir=/mnt/u$n,workdir=/mnt/w$n" o /mnt/m$n
done
"""


@pytest.mark.parametrize("place_in, upper", [("/mnt/m2", False), ("/mnt/m1", True)])
def test_a_file_system_that_no_overlay_takes(place_in, upper):
    """The kernel takes no overlay over two others, and none as an upper directory."""
    program = (
        "import conditions, sys; from pathlib import Path\n"
        "try: conditions.refuse_overlay(Path(sys.argv[1]), upper=bool(sys.argv[2]))\n"
        "except conditions.LabError as error: print(error)"
    )
    words = [sys.executable, "-c", program, place_in, "upper" if upper else ""]
    said = run(*words, before=OVERLAYS, PYTHONPATH=str(LAB)).stdout
    assert place_in in said and "NEARMETAL_CACHE" in said and len(said.splitlines()) == 1


def test_a_file_system_that_overlays_take(tmp_path):
    conditions.refuse_overlay(tmp_path)
    conditions.refuse_overlay(tmp_path, upper=True)
    assert not list(tmp_path.iterdir())


def test_a_kernel_without_user_namespaces():
    """In a user namespace that may have none below it, as a kernel may be set."""
    program = (
        "import conditions\n"
        "try: conditions.refuse_without_user_namespaces(conditions.NOBODY, conditions.NOBODY)\n"
        "except conditions.LabError as error: print(error)\n"
        "else: print('fine')"
    )
    for line, words in (
        ("true", "fine"),
        ("echo 0 > /proc/sys/user/max_user_namespaces", "sysctl user.max_user_namespaces"),
    ):
        # Its first program has no rights there: it was started before the users were mapped.
        inner = f'{line} && exec "$@"'
        waiting = [
            "unshare",
            "--user",
            "sh",
            "-c",
            'read go && exec sh -ec "$@"',
            "sh",
            inner,
            "sh",
        ]
        process = subprocess.Popen(
            [*waiting, sys.executable, "-c", program],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(LAB)},
        )
        own = os.readlink("/proc/self/ns/user")
        while os.readlink(f"/proc/{process.pid}/ns/user") == own:
            assert process.poll() is None
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{kind}").write_text("0 0 70000")
        said, _ = process.communicate("go\n", timeout=60)
        assert words in said
