"""`hpcg`, `ior`, `mdtest`: what their jobs launch, and the directory that they make and remove."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT
from tests.support.reframe import dry_run
from tests.support.said import lacking

SOURCES = CHECKOUT / "reframe_checks" / "src"
SITE = {
    "name": "here",
    "hostnames": [],
    "environments": [
        {"name": "openmpi", "modules": [], "features": ["mpi", "hpcg", "ior", "mdtest"]}
    ],
    "partitions": [
        {
            "name": "batch",
            "scheduler": "slurm",
            "launcher": "srun",
            "environs": ["openmpi"],
            "extras": {
                "link_class": "native",
                "link_speed_gbps": 10,
                "hypervisor": "none",
                "no_baseline": "it is new",
                "cores_per_node": 4,
                "nodes": 4,
                "storage_local": "/local/{user}",
                "storage_scratch": "/scratch",
                "ior_megabytes": 64,
            },
        }
    ],
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The job scripts of a dry run, by the check with its parameters."""
    directory = tmp_path_factory.mktemp("jobs")
    (directory / "here.yaml").write_text(yaml.safe_dump(SITE))
    checks = [f"reframe_checks/{name}.py" for name in ("hpcg", "parallel_io")]
    options = [*(word for path in checks for word in ("-c", path)), "--system=here"]
    said = dry_run(directory, directory / "prefix", *options)
    scripts = [path.read_text() for path in directory.glob("prefix/stage/here/*/*/*/rfm_job.sh")]
    assert len(scripts) == 7, said  # HPCG; both interfaces and mdtest in two directories
    return scripts


def launches(jobs, *words):
    """The launches of the only job whose launches have these words."""
    found = [re.findall(r"^ +(.*srun .*(?:xhpcg|ior|mdtest) .*)$", text, re.M) for text in jobs]
    [chosen] = [lines for lines in found if all(word in lines[0] for word in words)]
    return chosen


def test_hpcg_runs_on_each_number_of_processes_and_prints_its_report(jobs):
    lines = launches(jobs, "xhpcg")
    assert [re.search(r"--ntasks=(\d+)", line)[1] for line in lines] == ["8", "4", "2", "1"]
    assert all(line.endswith("xhpcg --nx=64 --ny=64 --nz=64 --rt=10") for line in lines)
    [script] = [text for text in jobs if "xhpcg" in text]
    after = r"xhpcg.*\n +cat HPCG-Benchmark\*.txt\n +echo\n +rm HPCG-Benchmark\*.txt hpcg\[0-9\]"
    assert len(re.findall(after, script)) == 4


def test_a_shared_directory_has_two_nodes_and_a_local_one_has_one(jobs):
    [shared] = launches(jobs, "parallel_io.sh /scratch ", "-a POSIX --posix.odirect -F")
    assert shared.startswith("sh parallel_io.sh /scratch 1024 ior_megabytes direct -o data srun")
    assert "--nodes=2 --ntasks=8" in shared and "-b 64m -t 1m -w -r -e -C" in shared
    [local] = launches(jobs, 'parallel_io.sh /local/"$USER" ', "-a POSIX --posix")
    assert "--nodes=1 --ntasks=4" in local and " 512 ior_megabytes direct " in local
    [together] = launches(jobs, "parallel_io.sh /scratch ", "-a MPIIO")
    assert " cached " in together and "-F" not in together.split()


def test_mdtest_works_on_the_files_of_another_node(jobs):
    [shared] = launches(jobs, "parallel_io.sh /scratch ", "mdtest -a")
    assert shared.endswith("mdtest -a POSIX -F -u -n 1000 -N 4") and " -d data " in shared
    [local] = launches(jobs, "parallel_io.sh /local", "mdtest -a")
    assert local.endswith("mdtest -a POSIX -F -u -n 1000")


@pytest.fixture
def directory(tmp_path):
    """A directory on a disk, and a copy of the sources."""
    shutil.copytree(SOURCES, tmp_path / "src")
    (CHECKOUT / "results").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CHECKOUT / "results") as made:
        yield tmp_path / "src", Path(made)


def script(sources, *words):
    return ["sh", str(sources / "parallel_io.sh"), *map(str, words)]


def ended(sources, *words):
    command = script(sources, *words)
    return subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)


def test_a_program_gets_a_directory_of_its_own_which_is_removed(directory):
    sources, place = directory
    words = [place, 1, "ior_megabytes", "cached", "-o", "data"]
    done = ended(sources, *words, "sh", "-c", 'echo "path $2"; touch "$2" && ls "$2"', "sh")
    assert done.returncode == 0, done.stderr
    assert re.search(rf"^path {place}/nearmetal-storage\.\w+/data$", done.stdout, re.M)
    lines = done.stdout.splitlines()
    assert lines[0] == "# nearmetal program: parallel_io 1" and lines[-1] == "# nearmetal complete"
    assert re.match(r"# nearmetal file_system: \S+ from \S+", lines[1])
    failed = ended(sources, *words, "sh", "-c", 'touch "$2"; exit 3', "sh")
    assert failed.returncode == 3 and "complete" not in failed.stdout
    assert not list(place.iterdir())


def test_a_job_that_is_ended_leaves_nothing(directory):
    sources, place = directory
    command = script(sources, place, 1, "ior_megabytes", "cached", "-o", "data", "sleep")
    # sleep refuses `-o`, so that a shell takes the arguments.
    command[-1:] = ["sh", "-c", "sleep 2", "sh"]
    job = subprocess.Popen(command, cwd=sources, start_new_session=True)
    until = time.monotonic() + 10
    while not list(place.iterdir()) and time.monotonic() < until:
        time.sleep(0.02)
    assert list(place.iterdir())
    os.killpg(job.pid, signal.SIGTERM)  # as Slurm ends a job
    assert job.wait(timeout=10) == 143
    assert not list(place.iterdir())


@pytest.mark.parametrize(
    "place, megabytes, says",
    [
        ("/no/such", 1, ("/no/such", "no directory that", "storage_*")),
        ("/dev/shm", 1, ("/dev/shm", "is memory (tmpfs)")),
        (None, 10**9, ("MB left", "1000000000 MB are wanted", "mdtest_files")),
    ],
    ids=["absent", "memory", "full"],
)
def test_a_directory_that_is_none_is_refused(directory, place, megabytes, says):
    sources, own = directory
    words = [place or own, megabytes, "mdtest_files", "cached", "-d", "data", "echo", "ran"]
    done = ended(sources, *words)
    assert done.returncode == 2 and "ran" not in done.stdout
    assert not lacking(done.stderr, "parallel_io.sh: ", *says) and not list(own.iterdir())
