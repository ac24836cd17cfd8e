"""Which task of a launch a script is, by what each launcher sets (src/task.sh)."""

import os
import shutil
import subprocess

import pytest

from tests.support.paths import CHECKOUT
from tests.support.said import lacking

SOURCES = CHECKOUT / "reframe_checks" / "src"
HERE = os.uname().nodename
TASK = "# nearmetal task: "
#: What a batch script of Slurm has, and with it what other launchers than srun may pass on.
BATCH = {"SLURM_JOB_ID": "41234", "SLURM_PROCID": "0", "SLURMD_NODENAME": "n1"}


def sh(directory, script: str, **environment) -> subprocess.CompletedProcess:
    """Run a line of shell in a directory with our scripts, with this environment alone."""
    for name in ("task.sh", "tcp.sh", "rdma.sh"):
        shutil.copy(SOURCES / name, directory)
    return subprocess.run(
        ["sh", "-c", script],
        cwd=directory,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "launcher, environment",
    [
        ("mpirun of Open MPI", {"OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3"}),
        ("prun of PRRTE", {"PMIX_RANK": "3", "PMIX_NAMESPACE": "prterun-n1-99@2"}),
        ("mpirun of MPICH or Intel MPI", {"PMI_RANK": "3"}),
        ("mpirun_rsh of MVAPICH2", {"MV2_COMM_WORLD_RANK": "3"}),
        ("mpiexec of Cray PALS", {"PALS_RANKID": "3"}),
        ("aprun", {"ALPS_APP_PE": "3"}),
        ("flux run", {"FLUX_TASK_RANK": "3"}),
        ("jsrun", {"JSM_NAMESPACE_RANK": "3"}),
        ("srun", {"SLURM_PROCID": "3"}),
        (
            "srun --mpi=pmix in a component of a job",
            {"SLURM_PROCID": "3", "PMIX_RANK": "1", "PMIX_NAMESPACE": "slurm.pmix.7.0"},
        ),
    ],
)
def test_the_number_is_that_of_the_launcher(tmp_path, launcher, environment):
    done = sh(tmp_path, ". ./task.sh; echo $task", **{**BATCH, **environment})
    assert (done.stdout, done.stderr) == ("3\n", ""), launcher


def test_without_a_launcher_there_is_no_number(tmp_path):
    assert sh(tmp_path, "set -eu; . ./task.sh; echo ${task:-none}").stdout == "none\n"


@pytest.mark.parametrize(
    "environment, line",
    [
        ({**BATCH, "SLURM_PROCID": "1", "SLURMD_NODENAME": "n2"}, "1 n2 21234"),
        ({**BATCH, "PMI_RANK": "1"}, f"1 {HERE} 21234"),  # n1 is the first task's
        ({"PBS_JOBID": "77[3].server", "PMI_RANK": "1"}, f"1 {HERE} 20077"),
        ({"LSB_JOBID": "1234567", "OMPI_COMM_WORLD_RANK": "0"}, f"0 {HERE} 24567"),
    ],
)
def test_a_task_says_where_it_is_and_on_which_port(tmp_path, environment, line):
    assert sh(tmp_path, "sh task.sh", **environment).stdout == f"{TASK}{line}\n"


def test_a_task_without_a_jobs_number_takes_a_port_all_the_same(tmp_path):
    number, host, port = sh(tmp_path, "sh task.sh", PMI_RANK="0").stdout.split()[3:]
    assert (number, host) == ("0", HERE) and 20000 <= int(port) < 30000


def all_marked(mark: str, text: str) -> str:
    """Each line with the mark, among lines of a prolog that have none."""
    return "".join(f"1 user is here\n{mark}{line}\n" for line in text.splitlines())


def meet(directory, tasks: str, **environment) -> subprocess.CompletedProcess:
    (directory / "tasks.out").write_text(all_marked(TASK, tasks))
    return sh(directory, ". ./task.sh; meet; echo $server $tcp_port", **environment)


def test_both_tasks_know_the_host_and_port_of_task_1(tmp_path):
    tasks = "1 n2 20007\n0 n1 21234\n"  # in any order
    for number in "01":
        assert meet(tmp_path, tasks, PMI_RANK=number).stdout == "n2 20007\n"


@pytest.mark.parametrize(
    "tasks, environment, facts",
    [
        (
            "0 n1 20007\n1 n1 20007\n",
            {"PMI_RANK": "0"},
            ["both tasks", "n1", "--map-by ppr:1:node"],
        ),
        ("0 n1 20007\n", {"PMI_RANK": "0"}, ["'0'", "0,1", "launcher"]),
        ("0 n1 20007\n0 n2 20007\n", {"PMI_RANK": "0"}, ["'0,0'", "0,1", "launcher"]),
        ("0 n1 1\n1 n2 1\n2 n3 1\n", {"PMI_RANK": "0"}, ["'0,1,2'", "launcher"]),
        ("0 n1 20007\n1 n2 20007\n", {}, [HERE, "PMI_RANK", "launcher", "task.sh"]),
    ],
)
def test_tasks_that_cannot_meet_say_why(tmp_path, tasks, environment, facts):
    done = meet(tmp_path, tasks, **environment)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert not lacking(done.stderr, *facts)


@pytest.mark.parametrize("number, words", [("0", "--wait_server"), ("1", "--listen_port 20007\n")])
def test_tcp_serves_in_task_1_and_measures_in_task_0(tmp_path, number, words):
    (tmp_path / "qperf").write_text("#!/bin/sh\necho qperf $*\n")
    (tmp_path / "qperf").chmod(0o755)
    (tmp_path / "tasks.out").write_text(all_marked(TASK, "0 n1 20007\n1 n2 20007\n"))
    path = f"{tmp_path}:/usr/bin:/bin"
    done = sh(tmp_path, "sh tcp.sh 1 1024", PATH=path, OMPI_COMM_WORLD_RANK=number)
    assert done.returncode == 0 and words in done.stdout, done.stderr
    assert ("n2 tcp_lat tcp_bw" in done.stdout) == (number == "0")


@pytest.mark.parametrize("number, server", [("0", " n2"), ("1", "")])
def test_rdma_serves_in_task_1_and_measures_in_task_0(tmp_path, number, server):
    """The servers' output is not shown, so that each program notes how it was called."""
    for name in ("ib_send_lat", "ib_send_bw"):
        (tmp_path / name).write_text(f"#!/bin/sh\necho {name} $* >> called.{number}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "tasks.out").write_text(all_marked(TASK, "0 n1 20007\n1 n2 20007\n"))
    ports = "1 h2 b/2 Ethernet\n0 h1 a/1 Ethernet\n"
    (tmp_path / "rdma.ports").write_text(all_marked("# nearmetal port: ", ports))
    path = f"{tmp_path}:/usr/bin:/bin"
    done = sh(tmp_path, "sh rdma.sh send 5 - 1024", PATH=path, PMI_RANK=number)
    assert done.returncode == 0, done.stderr
    device = {"0": "--ib-dev=a --ib-port=1", "1": "--ib-dev=b --ib-port=2"}[number]
    own = f"{device} --port=20007 --size=1024 --iters=5 -F"
    assert (tmp_path / f"called.{number}").read_text() == (
        f"ib_send_lat {own}{server}\nib_send_bw {own} --report_gbits{server}\n"
    )
    assert ("# nearmetal complete" in done.stdout) == (number == "0")
