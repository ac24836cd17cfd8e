"""Files written below a directory of another user, who plants links, FIFOs and directories."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from nearmetal import files, results
from nearmetal.commands.common import write
from nearmetal.commands.report import save
from nearmetal.gate import baseline
from nearmetal.report import page as report
from tests.support.campaigns import campaign
from tests.support.lab import make_images

STRANGER = 64771

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root and another user: run it as root, as CI does"
)


@pytest.fixture
def theirs(open_path):
    """A directory of another user's, below one that this user can enter."""
    directory = open_path / "results"
    directory.mkdir()
    os.chown(directory, STRANGER, STRANGER)
    return directory


@pytest.fixture
def secret(open_path):
    """A file of root's that the other user wants written."""
    path = open_path / "secret"
    path.write_text("root's")
    return path


def owner(path) -> int:
    return path.lstat().st_uid


def test_a_file_is_written_whole_with_the_directories_above_it(tmp_path):
    files.write(tmp_path / "a" / "b" / "file", "first")
    files.write(tmp_path / "a" / "b" / "file", b"second")
    assert (tmp_path / "a" / "b" / "file").read_text() == "second"
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["file"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        files.write(tmp_path / "file", "\udcff")
    with pytest.raises(FileNotFoundError):
        files.copy(tmp_path / "nothing", tmp_path / "file")
    (tmp_path / "source").mkdir()
    with pytest.raises(IsADirectoryError):
        files.copy(tmp_path / "source", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "source"]


def test_mode_follows_the_umask(tmp_path):
    files.write(tmp_path / "file", "text")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_links_in_a_directory_of_ones_own_are_followed(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to("scratch/../scratch")
    (tmp_path / "scratch" / "report").symlink_to(tmp_path / "elsewhere")
    files.write(tmp_path / "results" / "report", "text")
    assert (tmp_path / "elsewhere").read_text() == "text"
    assert (tmp_path / "scratch" / "report").is_symlink()


def test_a_circle_of_links_is_refused(tmp_path):
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    with pytest.raises(OSError, match="circle"):
        files.write(tmp_path / "one" / "file", "text")


def test_standard_output_and_devices_are_written_into(tmp_path):
    before = os.lstat("/dev/null")
    files.write("/dev/null", "text")
    assert os.lstat("/dev/null").st_rdev == before.st_rdev
    done = subprocess.run(
        [sys.executable, "-c", "from nearmetal import files; files.write('/dev/stdout', 'text')"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "text", done.stderr


@pytest.mark.parametrize("where", ["file/inner", "directory"])
def test_what_is_no_place_for_a_file_is_said(tmp_path, where):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    with pytest.raises(OSError, match=f"{tmp_path}/{where}: .*directory.*Fix"):
        files.write(tmp_path / where, "text")


def test_an_error_names_the_whole_path():
    with pytest.raises(OSError, match="'/proc/nothing/file'"):
        files.write("/proc/nothing/file", "text")


@as_root
def test_what_root_writes_belongs_to_the_directorys_owner(theirs):
    files.write(theirs / "new" / "file", "text")
    assert owner(theirs / "new") == owner(theirs / "new" / "file") == STRANGER


@as_root
@pytest.mark.parametrize("name", ["report", "new/report"])
def test_a_planted_link_is_refused_and_its_target_stays(theirs, secret, name):
    planted = theirs / name.split("/")[0]
    planted.symlink_to(secret if name == "report" else secret.parent)
    os.chown(planted, STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(files.UnsafePathError, match=f"{theirs}/{name}.*link.*Fix: remove"):
        files.write(theirs / name, "text")
    assert secret.read_text() == "root's"
    assert not (secret.parent / "report").exists()


@as_root
def test_a_link_of_roots_in_a_users_directory_is_refused_too(theirs, secret):
    """Its user may have renamed it."""
    (theirs / "report").symlink_to(secret)
    with pytest.raises(files.UnsafePathError):
        files.write(theirs / "report", "text")


@as_root
def test_a_planted_hard_link_is_replaced_and_its_other_name_stays(theirs, secret):
    os.link(secret, theirs / "report")
    files.write(theirs / "report", "text")
    assert secret.read_text() == "root's" and owner(secret) == 0
    assert (theirs / "report").read_text() == "text"


@as_root
def test_a_planted_fifo_is_refused_at_once(theirs):
    os.mkfifo(theirs / "report")
    with pytest.raises(files.UnsafePathError, match="not an ordinary file"):
        files.write(theirs / "report", "text")
    assert stat.S_ISFIFO((theirs / "report").lstat().st_mode)


@as_root
def test_a_planted_link_in_a_directory_for_all_is_refused(tmp_path, secret):
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "report").symlink_to(secret)
    os.chown(shared / "report", STRANGER, STRANGER, follow_symlinks=False)
    with pytest.raises(files.UnsafePathError):
        files.write(shared / "report", "text")
    assert secret.read_text() == "root's"


SWAP = """
import os, sys
os.chdir(sys.argv[1])
while True:
    for name, target in (("report", sys.argv[2]), ("sub", os.path.dirname(sys.argv[2]))):
        try:
            os.symlink(target, "planted")
            os.rename("planted", name)
            for part in os.listdir("."):
                if part.endswith(".part"):
                    os.unlink(part)
                    os.symlink(target, part)
            os.unlink(name)
            if name == "sub":
                os.mkdir(name)
                os.rmdir(name)
        except OSError:
            for left in ("planted", name):
                try:
                    os.unlink(left)
                except OSError:
                    pass
"""


@contextlib.contextmanager
def attack(program: str, *arguments):
    """A program that runs as the other user meanwhile."""
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", program, *map(str, arguments)],
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
    )
    try:
        time.sleep(0.2)  # it has started; what follows needs no more than that
        yield
        assert process.poll() is None, "the attack ended by itself"
    finally:
        process.kill()
        process.wait()


@as_root
def test_links_that_come_and_go_are_never_followed(theirs, secret):
    before = sorted(path.name for path in secret.parent.iterdir())
    written = 0
    with attack(SWAP, theirs, secret):
        for _ in range(500):
            for name in ("report", "sub/report"):
                with contextlib.suppress(OSError):
                    files.write(theirs / name, "text")
                    written += 1
    assert written, "no write came through, so that nothing was tried"
    assert secret.read_text() == "root's" and owner(secret) == 0
    assert sorted(path.name for path in secret.parent.iterdir()) == before
    assert owner(secret.parent) == 0


@as_root
def test_what_root_left_is_handed_over_but_for_files_with_other_names(theirs, secret):
    (theirs / "stage" / "case").mkdir(parents=True)
    (theirs / "stage" / "case" / "out").write_text("output")
    (theirs / "results.db").write_text("sessions")
    (theirs / "link").symlink_to(secret)
    os.link(secret, theirs / "hard")
    assert files.hand_over(theirs, STRANGER, STRANGER) == [str(theirs / "hard")]
    for name in ("stage", "stage/case", "stage/case/out", "results.db"):
        assert owner(theirs / name) == STRANGER
    assert (theirs / "results.db").read_text() == "sessions"
    assert owner(secret) == 0 and (theirs / "hard").samefile(secret)
    assert sorted(p.name for p in theirs.iterdir()) == ["hard", "link", "results.db", "stage"]


HARD = """
import os, sys
os.chdir(sys.argv[1])
while True:
    for act in (lambda: os.link(sys.argv[2], "hard"), lambda: os.unlink("hard")):
        try:
            act()
        except OSError:
            pass
"""


@as_root
def test_a_hard_link_that_comes_and_goes_is_not_handed_over(theirs, secret):
    """The kernel lets a user link a file that the user can write, whatever it forbids."""
    secret.chmod(0o666)
    with attack(HARD, theirs, secret):
        for _ in range(500):
            files.hand_over(theirs, STRANGER, STRANGER)
            assert owner(secret) == 0


@as_root
def test_a_tree_too_deep_is_left_and_named(theirs):
    inner = theirs
    for _ in range(files.DEEPEST + 5):
        inner = inner / "d"
    inner.mkdir(parents=True)
    kept = files.hand_over(theirs, STRANGER, STRANGER)
    assert len(kept) == 1 and kept[0].startswith(f"{theirs}/d/d/")


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    program = (
        "import sys; from nearmetal import files\n"
        "with files._sink(sys.argv[1]) as sink:\n"
        "    sink.write(b'half'); print(flush=True); sys.stdin.read()"
    )
    (tmp_path / "file").write_text("old")
    process = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "file"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.wait(60)
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@as_root
def test_the_report_and_its_part_are_not_written_through_links(theirs, secret):
    (theirs / "report.html.part").symlink_to(secret)
    save(theirs / "report.html", page())
    assert secret.read_text() == "root's" and owner(theirs / "report.html") == STRANGER
    (theirs / "report.html").unlink()
    (theirs / "report.html").symlink_to(secret)
    with pytest.raises(report.ReportError, match=r"report.html.*link.*--output"):
        save(theirs / "report.html", page())
    assert secret.read_text() == "root's"


def page() -> str:
    session = results.parse_session(campaign(1), "a test")
    return report.render([session], None, [], [])


@as_root
@pytest.mark.parametrize("kind", ["json", "junit", "markdown", "openmetrics"])
def test_verdicts_are_not_written_through_links(theirs, secret, kind):
    (theirs / kind).symlink_to(secret)
    with pytest.raises(files.UnsafePathError):
        write(theirs / kind, lambda: "text")
    write(theirs / "new" / kind, lambda: "text")
    assert secret.read_text() == "root's" and owner(theirs / "new" / kind) == STRANGER


@as_root
@pytest.mark.parametrize("name", ["lab.yaml", "lab.launches.json", ".lab.yaml.partial"])
def test_a_baseline_is_not_written_through_links(theirs, secret, name):
    (theirs / name).symlink_to(secret)
    with contextlib.suppress(files.UnsafePathError):
        baseline.save(baseline.Baseline("lab", theirs / "lab.yaml", {}))
    assert secret.read_text() == "root's"


@as_root
def test_an_image_and_its_lock_are_not_written_through_links(theirs, secret):
    (theirs / "images").symlink_to(secret.parent)
    (theirs / "mpich.sif").symlink_to(secret)
    done = make_images("mpich", directory=theirs / "images")
    assert done.returncode == 1 and "link" in done.stdout, done.stdout
    with pytest.raises(files.UnsafePathError):
        files.copy(__file__, theirs / "mpich.sif")
    assert secret.read_text() == "root's"


# Reading.


def linked(directory, target, owner: int):
    """A link in the directory, of this owner."""
    path = directory / "link"
    path.symlink_to(target)
    os.chown(path, owner, owner, follow_symlinks=False)
    return path


def test_an_ordinary_file_is_read_up_to_the_limit(tmp_path):
    (tmp_path / "file").write_text("text")
    assert files.read(tmp_path / "file", most=4) == b"text"
    with pytest.raises(files.UnsafePathError, match=r"file: has 4 bytes, and at most 3.*Fix: "):
        files.read(tmp_path / "file", most=3)
    with pytest.raises(FileNotFoundError, match="absent/file"):
        files.read(tmp_path / "absent" / "file")
    with pytest.raises(files.UnsafePathError, match="null character"):
        files.read("a\0b")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev", "/"])
def test_what_is_no_ordinary_file_is_not_read(path):
    with pytest.raises(files.UnsafePathError, match=f"^{path}: is .*Fix: "):
        files.read(path)


@as_root
@pytest.mark.parametrize(
    "of_link, of_file, is_read",
    [
        (0, 0, True),
        (0, STRANGER, True),
        (STRANGER, STRANGER, True),
        (STRANGER, 0, False),
        (STRANGER, STRANGER + 1, False),
    ],
)
@pytest.mark.parametrize("through_directory", [True, False])
def test_a_link_is_followed_to_a_file_of_its_owner(
    theirs, secret, of_link, of_file, is_read, through_directory
):
    os.chown(secret, of_file, of_file)
    path = linked(theirs, secret.parent if through_directory else secret, of_link)
    path = path / secret.name if through_directory else path
    if is_read:
        assert files.read(path) == b"root's"
        return
    for reading in (files.read, files.refuse_unsafe):
        with pytest.raises(files.UnsafePathError, match=r"link of another user.*Fix: remove"):
            reading(path)


@as_root
def test_an_ordinary_user_reads_through_links_of_root_and_of_ones_own(theirs, secret):
    for owner_of_link in (0, STRANGER):
        path = linked(theirs, secret, owner_of_link)
        line = f"from nearmetal import files; print(files.read({str(path)!r}))"
        words = ["setpriv", f"--reuid={STRANGER}", "--clear-groups", sys.executable, "-c", line]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert "root's" in done.stdout, done.stderr
        path.unlink()
