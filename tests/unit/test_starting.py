"""Which nodes of a job start a program: starting.sh, with what srun printed in the lab."""

import subprocess

import pytest

from nearmetal.checks import fleet
from tests.support.marked import between_lines
from tests.support.paths import SOURCES

HOSTS = [f"fleet{number}" for number in range(1, 6)]
STARTED = "".join(f"{task}: # nearmetal started {name}\n" for task, name in enumerate(HOSTS))
LACKING = STARTED.replace("2: # nearmetal started fleet3\n", "")
NO_DIRECTORY = """\
2: /usr/bin/sh: 0: cannot open starts.sh: No such file
srun: error: fleet3: task 2: Exited with exit code 2
"""
LIBRARY = LACKING + "2: # nearmetal refused fleet3 libmpich.so.12 => not found\n"
TIMED_OUT = "Socket timed out on send/recv operation"
HANGS = f"""\
srun: error: Task launch for StepId=2.0 failed on node fleet3: {TIMED_OUT}
srun: error: Application launch failed: {TIMED_OUT}
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
"""
WITHOUT = "".join(
    f"{task}: # nearmetal started {name}\n"
    for task, name in enumerate(one for one in HOSTS if one != "fleet3")
)


def starting(place, least: int, *steps: tuple[str, str]) -> subprocess.CompletedProcess:
    """The end of a script that calls `starting`. Each step of srun prints a pair of texts."""
    for name in ("starting.sh", "starting.awk"):
        (place / name).write_text((SOURCES / name).read_text())
    for number, (out, err) in enumerate(steps, 1):
        (place / f"{number}.out").write_text(out)
        (place / f"{number}.err").write_text(err)
    lines = [
        "set -e",
        f"scontrol() {{ printf '%s\\n' {' '.join(HOSTS)}; }}",
        # The subshell of a step cannot count: the file does.
        'srun() { echo "$*" >> steps; n=$(wc -l < steps); cat "$n.out"; cat "$n.err" >&2; }',
        ". ./starting.sh",
        f"starting {least} env ./program",
        'echo "$nodes $leave_out"',
    ]
    command = ["sh", "-c", "\n".join(lines)]
    return subprocess.run(
        command, cwd=place, text=True, capture_output=True, env={"SLURM_JOB_NODELIST": "fleet[1-5]"}
    )


@pytest.mark.parametrize(
    "steps, left, refused",
    [
        ([(STARTED, "")], "5 ", {}),
        ([(STARTED, "slurmstepd: error: some warning\n")], "5 ", {}),
        ([(between_lines(STARTED, "0: refused fleet1 by a banner"), "")], "5 ", {}),
        (
            [(LACKING, NO_DIRECTORY)],
            "4 --nodes=4 --exclude=fleet3",
            {"fleet3": "/usr/bin/sh: 0: cannot open starts.sh: No such file"},
        ),
        (
            [(LIBRARY, "")],
            "4 --nodes=4 --exclude=fleet3",
            {"fleet3": "libmpich.so.12 => not found"},
        ),
        ([(LACKING, "")], "4 --nodes=4 --exclude=fleet3", {"fleet3": "it said nothing"}),
        (
            [("", HANGS), (WITHOUT, "")],
            "4 --nodes=4 --exclude=fleet3",
            {"fleet3": TIMED_OUT},
        ),
        (
            [
                ("0: # nearmetal started fleet1\n", HANGS),
                (WITHOUT.replace("started fleet5", "?"), ""),
            ],
            "3 --nodes=3 --exclude=fleet3,fleet5",
            {"fleet3": TIMED_OUT, "fleet5": "it said nothing"},
        ),
    ],
)
def test_nodes_that_do_not_start_the_program_are_left_out(tmp_path, steps, left, refused):
    done = starting(tmp_path, 3, *steps)
    assert (done.returncode, done.stdout) == (0, f"{left}\n"), done.stderr
    assert fleet.refused((tmp_path / "refused").read_text()) == refused
    assert len((tmp_path / "steps").read_text().splitlines()) == len(steps)


def test_a_sweep_without_enough_nodes_ends_and_says_why(tmp_path):
    done = starting(tmp_path, 5, (LACKING, NO_DIRECTORY))
    assert done.returncode == 1
    assert "4 of 5 nodes start the program, but the check needs 5: fleet3 " in done.stderr


@pytest.mark.parametrize(
    "command, says",
    [
        (["true"], "started n1"),
        (["false"], "refused n1 its exit code is 1"),
        (["./program"], "not found"),
        (["echo", "INFO: gocryptfs not found, will not be able to use gocryptfs"], "started n1"),
        (
            ["echo", "./links: libc.so.6: version `GLIBC_2.34' not found (required by ./links)"],
            "refused n1 ./links: libc.so.6",
        ),
        (["echo", "libmpi.so.40 => not found"], "refused n1 libmpi.so.40 => not found"),
    ],
)
def test_a_node_says_whether_it_starts_a_command(command, says):
    line = ["sh", SOURCES / "starts.sh", *command]
    done = subprocess.run(
        line, text=True, capture_output=True, env={"SLURMD_NODENAME": "n1", "LC_ALL": "C"}
    )
    assert done.returncode == 0 and says in done.stdout and done.stdout.count("\n") == 1
