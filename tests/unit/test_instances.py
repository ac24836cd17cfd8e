"""Several instances at once, whose rates are summed, and programs that are held to one socket."""

import subprocess
from dataclasses import replace
from types import SimpleNamespace

import pytest
from reframe.core.exceptions import SanityError

from nearmetal.checks.instances import Instances
from nearmetal.checks.parsing import ParseError, hpcc, qperf, stream
from reframe_checks.stream import stream as stream_check
from reframe_checks.tcp import tcp
from tests.support.paths import SOURCES
from tests.support.recorded import recorded

SCONTROL = "#!/bin/sh\nprintf 'a\\nb\\nc\\nd\\n'\n"
NUMACTL = """#!/bin/sh
[ "$1" = --show ] && { echo "membind: $MEMORY "; exit; }
echo "$1 $2"
shift 2
exec "$@"
"""


def program(path, text):
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def run(directory, script: str, **environment):
    path = f"{directory}/bin:/usr/bin:/bin"
    return subprocess.run(
        ["bash", "-c", script],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": path, "SLURM_JOB_NODELIST": "a,b,c,d", **environment},
    )


@pytest.fixture
def job(tmp_path):
    """Runs shell commands in a job's directory with instances.sh."""
    program(tmp_path / "bin/scontrol", SCONTROL)
    (tmp_path / "instances.sh").write_text((SOURCES / "instances.sh").read_text())
    (tmp_path / "input").write_text("the input\n")
    return lambda script: run(tmp_path, f"set -e\n. ./instances.sh\n{script}")


def test_each_instance_has_nodes_and_files_of_its_own(job):
    done = job(
        "number=7\n"
        "instance() { echo $nodes_2; cat input; echo x >> output; cat output; }\n"
        "instances 2 2; instances 2 2; echo number=$number"
    )
    one = "# nearmetal instance: number={} of=2 nodes={}\n{}\nthe input\nx\n"
    both = one.format(0, "a,b", "a,b") + one.format(1, "c,d", "c,d")
    assert (done.stdout, done.stderr) == (2 * both + "number=7\n", "")


def test_instances_run_at_once(job):
    """Each waits for what the other writes."""
    done = job(
        "instance() { touch ../began.$nodes_1; until [ -e ../began.a ] && [ -e ../began.b ]; "
        "do sleep 0.01; done; echo met; }\ninstances 2 1"
    )
    assert done.stdout.count("\nmet\n") == 2


def test_an_instance_that_fails_fails_the_job(job):
    done = job("instance() { [ $nodes_1 = a ]; echo fine; }\ninstances 2 1\necho not reached")
    assert done.returncode and done.stdout.count("fine") == 1 and "reached" not in done.stdout


@pytest.fixture
def node(tmp_path):
    """Runs held.sh on a node of 2 sockets; each has 2 cores of 2 threads and a NUMA node."""
    program(tmp_path / "bin/numactl", NUMACTL)
    for cpu in range(8):
        topology = tmp_path / f"sys/node/node{cpu % 2}/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu % 2}\n")
        (topology / "core_id").write_text(f"{cpu // 2 % 2}\n")
    text = (SOURCES / "held.sh").read_text()
    assert "=/sys/devices/system" in text and "/proc/self/status" in text
    text = text.replace("=/sys/devices/system", f"={tmp_path}/sys")
    (tmp_path / "held.sh").write_text(text.replace("/proc/self/status", f"{tmp_path}/status"))

    def held(words: str, cpus: str, memory: str = "1"):
        (tmp_path / "status").write_text(f"Cpus_allowed_list:\t{cpus}\n")
        return run(tmp_path, f"sh held.sh {words}", MEMORY=memory)

    return held


def test_a_program_is_held_to_a_socket(node):
    done = node("1 2 echo ran", "1,3,5,7")
    assert done.stdout == "--physcpubind=1,3,5,7 --membind=1\nran\n" and not done.stderr
    assert node("0 2 echo ran", "0,2,4,6", "0").stdout.endswith("ran\n")


@pytest.mark.parametrize(
    "words, cpus, memory, fault",
    [
        ("2 1 echo ran", "0-7", "1", "there is no socket 2"),
        ("1 3 echo ran", "1,3,5,7", "1", "3 processes on the 2 cores of socket 1"),
        ("1 2 echo ran", "1,3", "1", "processors are 1,3 instead of 1,3,5,7"),
        ("1 2 echo ran", "0-7", "1", "processors are 0-7 instead of 1,3,5,7"),
        ("1 2 echo ran", "1,3,5,7", "0 1", "memory is not that of the NUMA nodes 1"),
    ],
)
def test_what_is_not_held_fails(node, words, cpus, memory, fault):
    done = node(words, cpus, memory)
    assert done.returncode == 1 and fault in done.stderr and "ran" not in done.stdout


def test_rates_of_streams_at_once_are_summed_by_all_their_threads():
    one, _ = stream.parse_stream(recorded("stream"))
    both = stream.together([one, one])
    assert sorted(both.tables) == [2 * count for count in sorted(one.tables)]
    for count, table in one.tables.items():
        summed = both.tables[2 * count]
        assert summed.rates == {name: 2 * rate for name, rate in table.rates.items()}
        passes = [2 * rate for rate in table.pass_rates("triad")]
        assert summed.pass_rates("triad") == passes
        assert len(summed.bindings) == 2 * count
    assert both.did == one.did and stream.together([one]) is one


def test_rates_of_pairs_at_once_are_summed_and_latencies_are_means():
    [one, *_] = qperf.parse_tcp(recorded("tcp_native"))
    slow = replace(one, latency_us={size: 3 * us for size, us in one.latency_us.items()})
    both = qperf.together([one, slow])
    for size, rate in one.bandwidth_gbps.items():
        assert both.bandwidth_gbps[size] == 2 * rate
        assert both.latency_us[size] == pytest.approx(2 * one.latency_us[size])
    with pytest.raises(ParseError, match="not the same"):
        qperf.together([one, replace(one, did={"sizes": "1"})])


def test_pairs_at_once_meet_in_their_own_directories_and_have_variables_of_their_own():
    pairs = fake(num_tasks_per_node=1, num_nodes=2, num_tasks=2, seconds=1, sizes="1,1024,65536")
    Instances.multiply_the_job(pairs)
    pairs.of_one = lambda *options, **fields: Instances.of_one(pairs, *options, **fields)
    meeting, measure = tcp.launches(pairs)
    assert (meeting.program, meeting.output, measure.program) == ("sh task.sh", "tasks.out", "")
    assert (measure.nodes, measure.processes, measure.options) == (2, 2, (1, 1, 1024, 65536))
    assert tcp.preparations(pairs) == []


def test_a_repeat_that_lacks_a_pair_is_refused():
    [one, *_] = qperf.parse_tcp(recorded("tcp_native"))
    check = fake(repeats=2, each_repeat=lambda runs: Instances.each_repeat(check, runs))
    check.expect_repeats = lambda runs: tcp.expect_repeats(check, runs)
    text = recorded("tcp_native")
    launch = text[: text.index("# nearmetal complete")] + "# nearmetal complete\n"
    launch = f"# nearmetal instance: number=0 of=2 nodes=a,b\n{launch}"
    tcp.read_output(check, 4 * launch)
    assert [run.latency_us for run in check.runs] == [one.latency_us] * 2
    with pytest.raises(SanityError, match="1 launches are in the output instead of 2"):
        tcp.read_output(check, 3 * launch)


def test_streams_with_other_threads_are_not_summed():
    first, second = (stream.parse_stream(recorded("stream"))[0] for _ in "ab")
    second.did = {**second.did, "threads": "1"}
    with pytest.raises(ParseError, match="not the same"):
        stream.together([first, second])


def test_rates_of_all_processes_of_hpcc_are_summed_and_others_are_means():
    [one] = hpcc.parse_hpcc(recorded("hpcc"))
    other = one.__class__(**{**vars(one), "values": {k: 3 * v for k, v in one.values.items()}})
    both = hpcc.together([one, other])
    for name, value in one.values.items():
        wanted = 4 * value if name in hpcc.SUMMED else 2 * value
        assert both.values[name] == pytest.approx(wanted)
    assert both.processes == both.did["processes"] == 2 * one.processes
    assert both.matrix_bytes == 2 * one.matrix_bytes
    alone = hpcc.together([one])
    assert (alone.processes, alone.matrix_bytes) == (one.processes, one.matrix_bytes)
    assert alone.values == one.values and alone.did == one.did


def fake(**attributes) -> SimpleNamespace:
    def skip(reason):
        raise SanityError(reason)

    usual = {
        "display_name": "stream",
        "instances": 2,
        "num_nodes": 1,
        "num_tasks": 1,
        "job": SimpleNamespace(launcher=SimpleNamespace(registered_name="srun", options=[])),
        "current_partition": SimpleNamespace(fullname="here:p"),
        "skip": skip,
    }
    return SimpleNamespace(**{**usual, **attributes})


def test_the_job_has_nodes_for_all_instances():
    check = fake(num_nodes=2, num_tasks=8)
    Instances.multiply_the_job(check)
    assert (check.num_nodes, check.num_tasks) == (4, 16)
    assert (check._nodes_each, check._processes_each) == (2, 8)
    mpirun = SimpleNamespace(launcher=SimpleNamespace(registered_name="mpirun"))
    with pytest.raises(SanityError, match="srun alone"):
        Instances.multiply_the_job(fake(job=mpirun))
    alone = fake(instances=1, job=mpirun)
    Instances.multiply_the_job(alone)
    assert (alone.num_nodes, alone.num_tasks) == (1, 1)


def test_launches_are_grouped_by_repeat():
    check = fake(each_repeat=lambda runs: Instances.each_repeat(check, runs))
    assert check.each_repeat([1, 2, 3, 4]) == [[1, 2], [3, 4]]
    start = "# nearmetal program: stream"
    instance = f"# nearmetal instance: number=0 of=2 nodes=a\n{start}"
    runs = stream.parse_stream(recorded("stream").replace(start, instance))
    [both] = stream_check.of_repeats(check, runs)
    assert both.tables[4].tables == [run.tables[2] for run in runs]
