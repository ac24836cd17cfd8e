"""Output of fio and of osu_latency: figures, and refusals of what was cut or damaged."""

import os
import subprocess

import pytest

from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.osu import parse_osu
from nearmetal.checks.parsing.storage import JOBS, parse_storage
from nearmetal.checks.settings import directory_for_shell
from tests.support.damage import damaged
from tests.support.recorded import recorded

RANGES = [(1, 8192, 1000), (16384, 1 << 18, 160), (1 << 19, 1 << 22, 10)]
OSU, STORAGE = recorded("osu_mpich"), without_usage(recorded("storage"))


def osu(text):
    return parse_osu(text, RANGES)


def test_a_repeat_of_osu_is_the_launches_of_all_ranges():
    one, two = osu(OSU)
    assert list(one.rows) == list(two.rows) == [1 << power for power in range(23)]
    assert one.startup_latency_us == 0.36 and one.rows[1 << 22].latency_us == 431.01
    assert (one.rows[1].repetitions, one.rows[1 << 22].repetitions) == (1000, 10)
    assert one.did == {"max_bytes": 1 << 22}


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("524288 ", "# ", "sizes are missing before 1048576 bytes"),
        ("4194304 ", "# ", "sizes are missing before 4194304 bytes"),
        ("431.01", "431.0", "2 decimals"),
        ("431.01", "-431.01", "no measurement gives"),
        ("431.01", "431.01 432.00", "is not a row"),
    ],
)
def test_a_damaged_table_of_osu_is_refused(old, new, says):
    with pytest.raises(ParseError, match=says):
        osu(OSU.replace(old, new))


def test_storage_has_six_figures_a_launch():
    launches = parse_storage(STORAGE)
    assert len(launches) == 2
    for launch in launches:
        assert list(launch.jobs) == list(JOBS)
        assert launch.did == {"megabytes": 32, "seconds": 1}
        assert launch.facts["file_system"] == "ext2/ext3 from /dev/vda"
        assert launch.jobs["write_bandwidth"].bytes == 32 << 20
        assert launch.jobs["read_rate"].rate > launch.jobs["read_latency"].rate


@pytest.mark.parametrize(
    "old, new, says",
    [
        ("# nearmetal complete", "", "cut off"),
        ('"jobname" : "read_rate"', '"jobname" : "other"', "cannot be read"),
        ('"error" : 0', '"error" : 5', "failed with error 5"),
        ('"total_ios" : 32,', '"total_ios" : 31,', "write_bandwidth"),
    ],
)
def test_damaged_output_of_storage_is_refused(old, new, says):
    assert old in STORAGE
    with pytest.raises(ParseError, match=says):
        parse_storage(STORAGE.replace(old, new))


@pytest.mark.parametrize(
    "text, parse", [(OSU, osu), (STORAGE, parse_storage)], ids=["osu", "storage"]
)
def test_damage_ends_as_a_sentence_or_as_figures(text, parse):
    for _, copied in damaged(text, 60):
        try:
            parse(copied)
        except ParseError:
            pass


@pytest.mark.parametrize(
    "named, is_on_node",
    [
        ("/scratch/{user}/a b", "/scratch/ann/a b"),
        ("{stage}/fio", "/stage 1/fio"),
        ("/$(touch hacked);`touch hacked`'\"", "/$(touch hacked);`touch hacked`'\""),
    ],
)
def test_a_directory_is_one_word_of_the_shell(tmp_path, named, is_on_node):
    done = subprocess.run(
        ["sh", "-c", f"PWD='/stage 1'; printf '%s\\n' {directory_for_shell(named)}"],
        env={"USER": "ann", "PATH": os.environ["PATH"]},
        cwd=tmp_path,
        text=True,
        capture_output=True,
    )
    assert done.stdout == f"{is_on_node}\n" and not list(tmp_path.iterdir())
