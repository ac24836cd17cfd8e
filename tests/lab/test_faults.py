"""What breaks under a check ends it as a failed case that names the cause."""

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from nearmetal.lab.namespaces import Namespaces
from nearmetal.results import load_session
from tests.support.said import lacking

CHECK = ["-r", "--system", "lab:native", "-n", "pingpong%placement=internode"]
#: Command line of its program on a node.
PROGRAM = "^[^ ]*/pingpong_0 "
ONCE = ["-p", "^mpich$", "-S", "pingpong.repeats=1", "-S", "spare_repeats=0"]
#: Enough launches that the fault meets the job at work.
LONG = ["-p", "^mpich$", "-S", "pingpong.repeats=200", "-S", "pingpong.stall_timeout=5"]


def reason(done: subprocess.CompletedProcess, prefix, measured: bool = False) -> str:
    """Why the one case failed, as it stands in the results database; and that ReFrame said so
    too. It has values if it failed by them alone."""
    assert done.returncode == 1, done.stdout
    assert "Ran 1/1 test case(s) from 1 check(s) (1 failure(s)" in done.stdout
    session = load_session(prefix / "results.db")
    [case] = session.failures
    assert (case.check, case.partition) == ("pingpong %placement=internode", "native")
    assert bool(session.values) == measured
    return case.failure


@contextmanager
def at_work(lab, prefix, *options):
    """The check in the background, once its program runs on native2; yields what its end will
    be."""

    def started() -> bool:
        looked = lab("exec", "--node", "native2", f"pgrep -f '{PROGRAM}'", check=False)
        return looked.returncode == 0

    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(lab.reframe, *CHECK, *LONG, *options, prefix=prefix)
        # As long as the check runs: a busy machine takes its time to build and to start it.
        while not started():
            assert not end.done(), end.result().stdout
        yield end


@pytest.fixture
def broken(lab):
    """The lab, which the test breaks. `lab-up` heals it: a job runs on both nodes."""
    yield lab
    lab("up")
    said = lab.run("srun --quiet -p native -N2 hostname")
    assert sorted(said.split()) == ["native1", "native2"], said


@pytest.mark.whole
@pytest.mark.ci
def test_a_slurmd_killed_during_the_job(broken, prefix):
    with at_work(broken, prefix) as end:
        broken.end("slurmd", node="native2", signal="KILL")
        why = reason(end.result(), prefix)
    assert "ended as NODE_FAIL" in why and "native2" in why and "slurmd" in why


def test_a_munged_that_is_gone_from_the_login_node(broken, prefix):
    broken.end("munged")
    assert "Munge encode failed" in reason(broken.reframe(*CHECK, *ONCE, prefix=prefix), prefix)


def test_a_drained_node(broken, prefix):
    broken.run('scontrol update nodename=native2 state=drain reason="disk swap"', root=True)
    why = reason(broken.reframe(*CHECK, *ONCE, prefix=prefix), prefix)
    # It does not wait for what will not come: else its waiting time would be the reason.
    assert "DRAINED" in why and "max_pending_time" not in why


@pytest.mark.whole
@pytest.mark.ci
def test_a_rank_that_hangs(broken, prefix):
    with at_work(broken, prefix) as end:
        broken.run('pkill -STOP -f "^[^ ]*/pingpong_0 "', node="native2", root=True)
        why = reason(end.result(), prefix)
    # As often as not it hangs before MPI has started.
    assert "no answer from rank 1" in why or "MPI has not started within 5 s" in why


def test_a_job_that_somebody_cancels(lab, prefix):
    with at_work(lab, prefix) as end:
        lab.run("scancel --user nearmetal", root=True)
        assert "ended as CANCELLED" in reason(end.result(), prefix)


def test_a_compiler_that_fails(lab, prefix):
    done = lab.reframe(*CHECK, "-p", "^openmpi$", prefix=prefix, OMPI_CC="/no/such/compiler")
    why = reason(done, prefix)
    assert "build error" in why and "/no/such/compiler" in done.stdout


@pytest.mark.whole
def test_a_full_stage_directory(lab, prefix):
    lab.run("head -c 100M /dev/zero > /scratch/filler", check=False)
    try:
        stage = "--stage=/scratch/stage"
        why = reason(lab.reframe(*CHECK, *ONCE, stage, prefix=prefix), prefix)
    finally:
        lab.run("rm -rf /scratch/filler /scratch/stage")
    assert "No space left on device" in why


@pytest.mark.whole
@pytest.mark.ci
def test_a_file_system_that_fills_up_during_the_job(lab, prefix):
    try:
        with at_work(lab, prefix, "--stage=/scratch/stage", "-S", "pingpong.repeats=10") as end:
            lab.run("head -c 100M /dev/zero > /scratch/filler", check=False)
            why = reason(end.result(), prefix)
    finally:
        lab.run("rm -rf /scratch/filler /scratch/stage")
    assert not lacking(why, "file system", "/scratch/stage", "full")


def test_imbs_program_where_there_is_none(lab, prefix):
    done = lab.reframe(*CHECK, *ONCE, "-S", "pingpong.suite=imb", prefix=prefix)
    assert "build error" in reason(done, prefix) and "IMB-MPI1 is not on PATH" in done.stdout


@pytest.fixture
def neighbour(lab):
    """A person's program that uses a processor of native1, as a job's left-over would."""
    namespaces = Namespaces(lab.checkout)
    line = "while :; do :; done"
    process = subprocess.Popen(
        [*namespaces.enter("native1"), "runuser", "-u", "nearmetal", "--", "bash", "-c", line],
        stdin=subprocess.DEVNULL,
    )
    yield
    lab.run(f"pkill -9 -f '^bash -c {line}'", node="native1", root=True)
    process.wait(timeout=20)


@pytest.mark.whole
@pytest.mark.ci
def test_foreign_processes_are_a_fact_and_named_where_a_reference_is_missed(lab, prefix, neighbour):
    units = {"startup_latency": "us", "latency_1KiB": "us"}
    units |= {"bandwidth_64KiB": "Gb/s", "peak_bandwidth": "Gb/s"}
    wanted = ", ".join(f"{name}: [1000000, -0.01, 0.01, {unit}]" for name, unit in units.items())
    index = "$index: ['$partition', '$environ', placement]"
    text = f"pingpong:\n  {index}\n  lab:native: {{mpich: {{internode: {{{wanted}}}}}}}\n"
    lab.run(f"mkdir -p {prefix}/references")
    (prefix / "references" / "lab.yaml").write_text(text)
    done = lab.reframe(*CHECK, *ONCE, prefix=prefix, RFM_REFERENCE_PREFIX=f"{prefix}/references")
    why = reason(done, prefix, measured=True)
    assert "failed to meet reference" in why
    assert not lacking(why, "foreign processes", "native1", "nearmetal bash (", "% of a processor")
    [case] = load_session(prefix / "results.db").cases
    assert case.facts["foreign_processes"] == "nearmetal bash | none"
    assert "foreign_processes" in case.facts["differs_between_nodes"]


@pytest.mark.whole
@pytest.mark.ci
def test_foreign_processes_are_named_where_a_job_is_ended(lab, prefix, neighbour):
    time.sleep(2)  # so that it has used a second
    with at_work(lab, prefix) as end:
        lab.run("scancel --user nearmetal", root=True)
        why = reason(end.result(), prefix)
    assert "ended as CANCELLED" in why
    assert not lacking(why, "foreign processes", "native1", "nearmetal bash (", "before the job")
