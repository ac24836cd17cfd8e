"""The script of a job: one launch, several, a duet, and jobs of components or instances."""

import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher

from nearmetal.checks import disturbance
from nearmetal.checks.parsing.duet import order, parse_duet
from nearmetal.job.job import Job
from nearmetal.job.launch import Launch, Side
from nearmetal.site import launchers  # noqa: F401 - the import registers prun and srun-mpj
from tests.support.marked import marked
from tests.support.paths import SOURCES

RUNTIME = SimpleNamespace(
    preparations=lambda launch, by_srun, tasks: [],
    trial=lambda program: f"try {program}",
)


def side(name: str = "srun", **fields) -> Side:
    launcher = getlauncher(name)()
    launcher.use_cpus_per_task = True
    return Side(**{"runtime": RUNTIME, "launcher": launcher, "program": "./x", **fields})


def job(*launches, **fields) -> Job:
    shape = SimpleNamespace(num_tasks=8, num_tasks_per_node=2, num_cpus_per_task=None)
    usual = {
        "shape": shape,
        "nodes": 4,
        "by_slurm": True,
        "sides": [side()],
        "launches": launches or [Launch(options=["--long", 7])],
        "repeats": 5,
        "spare_repeats": 2,
        "limits": "'stolen=0.1'",
        "output": "rfm_job.out",
        "everywhere": Launch(),
    }
    return Job(**{**usual, **fields})


def test_a_script_is_as_short_as_what_it_does():
    probe = "srun --mpi=none --ntasks=4 --ntasks-per-node=1 sh provenance.sh"
    assert job().script() == [
        "set -e",
        f"{probe} > provenance.before",
        "launch() {",
        "    srun ./x --long 7",
        "}",
        f"snapshot() {{ {probe} counters; }}",
        ". ./repeats.sh",
        "repeats 5 2 'stolen=0.1' rfm_job.out",
    ]


def test_what_a_job_needs_before_and_after_stands_in_its_place():
    steps = ["echo first", Launch("sh task.sh", output="tasks.out")]
    script = job(software=[". load.sh"], preparations=steps, clean_up=["rm x"]).script()
    assert script[:4] == ["set -e", ". load.sh", "echo first", "srun sh task.sh > tasks.out"]
    assert script[-1] == "rm x"


def test_a_launch_has_its_lines():
    launch = Launch(prefix="sh io.sh /d", after=["cat log"], may_fail=True)
    lines = job(launch, socket=1, sides=[side(pages="small")]).script()
    [line, after] = [line.strip() for line in lines if line.startswith("    ")]
    assert line.startswith("sh io.sh /d srun sh held.sh 1 2 env GLIBC_TUNABLES=")
    assert line.endswith(" ./pages small ./x || true") and after == "cat log"


def test_a_step_on_fewer_nodes_is_on_the_first_ones():
    small, whole = (Launch(nodes=nodes, processes=2 * nodes) for nodes in (2, 4))
    script = job(small, whole).script()
    assert "nodes_2=$(sh first_nodes.sh 2)" in script
    assert "    srun --nodes=2 --ntasks=4 --ntasks-per-node=1 --nodelist=$nodes_2 ./x" in script
    assert "    srun --nodes=4 --ntasks=8 --ntasks-per-node=1 ./x" in script
    assert "first_nodes" not in " ".join(job(whole).script())


def test_cores_of_threads_are_named_and_other_launchers_read_the_job():
    launch = Launch(nodes=1, processes=2, processes_per_node=2, cores=3)
    [line] = [line for line in job(launch).script() if line.endswith("./x")]
    assert "--ntasks-per-node=2 --cpus-per-task=3" in line
    other = job(launch, sides=[side("mpirun")]).script()
    assert "    mpirun -np 2 ./x" in other and not any("first_nodes" in line for line in other)


def test_nodes_are_asked_by_the_launcher_where_slurm_does_not_run_the_job():
    script = job(by_slurm=False, sides=[side("mpirun")], everywhere=Launch(processes=6)).script()
    assert "mpirun -np 6 sh provenance.sh > provenance.before" in script
    script = job(by_slurm=False, sides=[side("local")]).script()
    assert "sh provenance.sh > provenance.before" in script


def test_daemons_come_first_and_snapshots_run_beside_them():
    script = job(sides=[side("prun")]).script()
    assert script[1].startswith("prte --daemonize") and "srun --mpi=none --overlap" in script[3]


def test_instances_at_once_are_a_function():
    launch = Launch(nodes=2, processes=4, after=["cat x"])
    lines = job(launch, instances=2).script()
    body = lines[lines.index("launch() {") + 1 : lines.index("}")]
    assert body == [
        "    . ./instances.sh",
        "    instance() {",
        "        srun --nodes=2 --ntasks=4 --ntasks-per-node=1 --nodelist=$nodes_2 ./x",
        "        cat x",
        "    }",
        "    instances 2 2",
    ]
    assert not any("first_nodes.sh" in line for line in lines)  # instances.sh names them


def test_nodes_that_do_not_start_the_program_are_left_out():
    script = job(least_nodes=3).script()
    assert script[1:3] == [". ./starting.sh", "starting 3 try ./x"]
    assert "    srun --ntasks=$((nodes * 2)) $leave_out ./x" in [
        line.replace(" --long 7", "") for line in script
    ]
    assert "--ntasks=$nodes $leave_out --ntasks-per-node=1 sh provenance.sh" in " ".join(script)


def test_components_have_names_and_snapshots_of_their_own():
    sides = [side(component="0"), side(component="1")]
    launch = Launch(nodes=1, processes=2)
    lines = job(launch, sides=sides, components="0,1", turns=order(2), limits="").script()
    assert "nodes_1_of_1=$(sh first_nodes.sh 1 1)" in lines
    assert any("--het-group=1 --nodes=1" in line and "$nodes_1_of_1 ./x" in line for line in lines)
    assert "counters_b() { srun --het-group=1 --mpi=none" in " ".join(lines)
    assert "srun --het-group=0,1 --mpi=none --ntasks=4" in lines[3]
    assert "repeats.sh" not in " ".join(lines)


def test_software_of_b_is_verified_in_its_environment():
    other = SimpleNamespace(preparations=lambda launch, *_: [launch("meet")])
    b = side(runtime=other, env_setup=("module load b",))
    script = job(sides=[side(), b], turns=order(2)).script()
    assert script[1:5] == ["(", "module load b", "srun meet", ")"]


def duet(a: str, b: str, probe: str, setup: str = "", limits: str = "") -> list[str]:
    """The script of a duet of two commands, without a launcher."""
    sides = [side("local", program=a), side("local", program=b, env_setup=(setup,) * bool(setup))]
    made = job(Launch(), sides=sides, turns=order(2), by_slurm=False, limits=limits, output="out")
    return [line.replace("sh provenance.sh counters", probe) for line in made.script()[2:]]


def run(lines: list[str], directory, **words) -> subprocess.CompletedProcess:
    text = "\n".join(["set -e", *lines])
    return subprocess.run(["bash", "-c", text], cwd=directory, text=True, check=False, **words)


def test_what_prepares_a_launch_of_b_is_gone_when_a_runs_next(tmp_path):
    say = 'echo "$LIBRARY"'
    done = run(
        ["LIBRARY=one", *duet(say, say, "echo", "LIBRARY=two")], tmp_path, capture_output=True
    )
    launches = [launch.text for launch in parse_duet(done.stdout, 2)]
    assert launches == ["one\n", "two\n", "two\n", "one\n"]
    counters = sorted(path.name for path in tmp_path.glob("counters.*"))
    assert counters == ["counters.0.a", "counters.0.b", "counters.1.a", "counters.1.b"]


def test_a_launch_of_a_duet_that_fails_ends_the_job(tmp_path):
    done = run(duet("true", "echo b", "true", "false"), tmp_path, capture_output=True)
    assert done.returncode == 1 and done.stdout.count("duet") == 2


def test_each_launch_of_a_duet_is_judged_by_the_counters_of_the_one_before(tmp_path):
    for name in ("repeats.sh", "disturbed.awk"):
        (tmp_path / name).write_text((SOURCES / name).read_text())
    counters = "n1 clock.uptime=%d\nn1 count.cpu.busy=0\nn1 count.cpu.idle=%d\n"
    counters += "n1 count.cpu.steal=0\nn1 count.nic_errors=%d\nn1 lo.rx_bytes=0\n"
    (tmp_path / "provenance.before").write_text(marked(counters) % (1, 1, 0))
    probe = f"printf '{marked(counters)}'".replace("\n", "\\n")
    probe += " $((turn+2)) $((turn+2)) $((turn/2))"
    usage = "echo '# nearmetal usage: host=n1 wall=2 cpu=1 all=1 wait=%s'"
    lines = duet(usage % 0, usage % 1, probe, limits="waited=0.4")
    with (tmp_path / "out").open("w") as out:
        done = run([*lines, "echo finished"], tmp_path, stdout=out)
    assert done.returncode == 0 and (tmp_path / "out").read_text().endswith("finished\n")
    repeats = disturbance.parse((tmp_path / "disturbed.out").read_text(), disturbance.rules())
    assert [repeat.values["waited"] for repeat in repeats] == [0, 0.5, 0.5, 0]
    assert [bool(repeat.causes) for repeat in repeats] == [False, True, True, False]
    assert [repeat.values["nic_errors"] for repeat in repeats] == [0, 0, 1, 0]
    assert not any(repeat.again or repeat.unknown for repeat in repeats)


@pytest.mark.parametrize("line", ["%% no statement", "{{ no value }}", "{# no comment #}"])
def test_what_a_site_gives_is_never_a_template(line):
    assert line in job(preparations=[line]).script()


def test_a_launch_changes_neither_the_job_nor_its_launcher():
    made = job()
    made.line(replace(made.launches[0], processes=2))
    assert made.shape.num_tasks == 8 and made.sides[0].launcher.options == []
