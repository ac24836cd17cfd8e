"""Files that are read up to a size, and written whole."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from nearmetal.errors import of_system
from nearmetal.judge.baseline import BaselineError
from nearmetal.judge.campaign import baseline_of
from nearmetal.results.directions import Directions, DirectionsError
from nearmetal.util import files


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
    with pytest.raises(ZeroDivisionError):
        files.write_parts(tmp_path / "file", (b"half" if one else 1 / one for one in (1, 0)))
    assert (tmp_path / "file").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "source"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    program = (
        "import sys; from nearmetal.util import files\n"
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


def test_mode_follows_the_umask(tmp_path):
    files.write(tmp_path / "file", "text")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~mask


def test_links_are_followed_and_stay(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "results").symlink_to("scratch/../scratch")
    (tmp_path / "scratch" / "report").symlink_to(tmp_path / "elsewhere")
    files.write(tmp_path / "results" / "report", "text")
    assert (tmp_path / "elsewhere").read_text() == "text"
    assert files.read(tmp_path / "results" / "report") == b"text"
    assert (tmp_path / "scratch" / "report").is_symlink()


def test_devices_and_open_files_are_written_into(tmp_path):
    before = os.lstat("/dev/null")
    files.write("/dev/null", "text")
    assert os.lstat("/dev/null").st_rdev == before.st_rdev
    with open(tmp_path / "file", "w") as opened:
        files.write(f"/dev/fd/{opened.fileno()}", "text")
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: run it as root, as CI does")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_pipe_of_root_is_written_into_by_another_user(stream):
    program = (
        "import os; from nearmetal.util import files; os.setuid(64771); "
        f"files.write('/dev/{stream}', 'x')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert getattr(done, stream) == "x", done.stderr


@pytest.mark.parametrize("where", ["file/inner", "file/inner/most", "directory", "circle/file"])
def test_what_is_no_place_for_a_file_is_said_with_a_fix(tmp_path, where):
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError) as error:
        files.write(tmp_path / where, "text")
    said = of_system(error.value)
    assert said.startswith(f"{tmp_path}/{where.split('/')[0]}") and "Fix: " in said


def test_an_error_names_the_path_and_not_the_part(tmp_path):
    (tmp_path / "long").mkdir()
    name = tmp_path / "long" / ("x" * 250)
    with pytest.raises(OSError, match="too long") as error:
        files.write(name, "text")
    assert error.value.filename == str(name)


def test_an_ordinary_file_is_read_up_to_the_limit(tmp_path):
    (tmp_path / "file").write_text("text")
    assert files.read(tmp_path / "file", most=4) == b"text"
    with pytest.raises(files.UnfitFileError, match=r"file: has 4 bytes, and at most 3.*Fix: "):
        files.read(tmp_path / "file", most=3)
    with pytest.raises(FileNotFoundError, match="absent/file"):
        files.read(tmp_path / "absent" / "file")
    with pytest.raises(files.UnfitFileError, match="null character"):
        files.read("a\0b")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev", "/"])
def test_what_is_no_ordinary_file_is_not_read(path):
    for reading in (files.read, files.refuse_unfit):
        with pytest.raises(files.UnfitFileError, match=f"^{path}: is .*Fix: "):
            reading(path)


@pytest.fixture
def loop(tmp_path):
    """A link to itself: nobody knows what is below it, not even root."""
    link = tmp_path / "loop"
    link.symlink_to(link)
    return link


def test_a_place_that_cannot_be_looked_at_is_no_absent_file(tmp_path, loop):
    (tmp_path / "file").touch()
    assert files.is_absent(tmp_path / "none") and files.is_absent(tmp_path / "file" / "below")
    assert not any(map(files.is_absent, (tmp_path / "file", loop, loop / "below")))


def test_a_baseline_that_cannot_be_looked_at_is_not_taken_for_none(loop, monkeypatch):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(loop))
    with pytest.raises(BaselineError):
        baseline_of("lab")


def test_directions_that_cannot_be_looked_at_are_not_taken_for_none(loop):
    with pytest.raises(DirectionsError):
        Directions.read(loop / "better.yaml")
