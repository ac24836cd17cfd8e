"""A sentence names why a job failed. The output is that of real jobs in the lab."""

import pytest

from nearmetal.checks import failures
from nearmetal.checks.failures import STATES, explain, full, last_words
from tests.support.said import lacking

HUNG = """pingpong: rank 0 has had no answer from rank 1 for 5 s at messages of 4194304 bytes: that rank hangs, or the network between them lost it.
srun: error: native1: task 0: Exited with exit code 4
srun: Terminating StepId=42.4
"""  # noqa: E501
LOST = """srun: got SIGCONT
srun: forcing job termination
srun: error: Node failure on native2
slurmstepd-native1: error: *** STEP 32.4 ON native1 CANCELLED AT 2026-11-21T07:17:30 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***
srun: error: native1: task 0: Terminated
"""  # noqa: E501


#: osu_latency between two nodes of the lab.
EARLY = """[native2:1290 :0:1290] Caught signal 11 (Segmentation fault: address not mapped to object at address 0xe0)
==== backtrace (tid:   1290) ====
 3  /lib/x86_64-linux-gnu/libc.so.6(+0x3fd70) [0x7f77e4a54d70]
 4  /lib/x86_64-linux-gnu/libmpi.so.40(mca_pml_ob1_recv_frag_callback_match+0xaa) [0x7f77e4e9273a]
10  /lib/x86_64-linux-gnu/libmpi.so.40(ompi_mpi_init+0x435) [0x7f77e4c9cad5]
srun: error: native2: task 1: Segmentation fault (core dumped)
"""  # noqa: E501


def test_a_known_bug_of_open_mpi_is_named_with_its_fix():
    said = explain("pingpong", 12, ["native2"], "FAILED", 14, last_words(EARLY, ""), EARLY)
    assert not lacking(said, "Open MPI 5.0", "MPI_Init", "#12495", "--max-retries=2")
    assert "Caught signal 11" in said and "#12495" not in explain("tcp", 1, [], "FAILED", 1, EARLY)


def test_the_programs_sentence_stands_alone():
    assert last_words(HUNG, "a table\n") == HUNG.splitlines()[0]


def test_stdout_speaks_where_stderr_holds_only_the_schedulers_words():
    stderr = "srun: error: native1: task 0: Exited with exit code 1\n"
    assert last_words(stderr, "one\n\ntwo\nthree\nfour\n") == "two / three / four"


def test_what_every_jvm_with_vectors_says_is_left_out():
    stderr = "WARNING: Using incubator modules: jdk.incubator.vector\nCG: out of memory\n"
    assert last_words(2 * stderr, "") == "CG: out of memory / CG: out of memory"


def test_of_many_words_the_first_and_the_last_stay():
    assert last_words("one\ntwo\nthree\nfour\n", "") == "one / two / ... / four"
    assert len(last_words("x" * 10000, "")) == 400


def test_a_lost_node_is_named():
    said = explain("pingpong", 32, ["native1", "native2"], "NODE_FAIL", 1, last_words(LOST, ""))
    assert not lacking(said, "job 32", "native1, native2", "NODE_FAIL", "exit code 1")
    assert not lacking(said, "a node was lost", "munged", "Node failure on native2")


@pytest.mark.parametrize("state", STATES)
def test_every_state_has_a_sentence_without_words(state):
    said = explain("pingpong", 7, [], state, 0, "")
    assert state in said and "{" not in said


def test_a_program_may_write_braces():
    assert "{x} {0}" in explain("pingpong", 7, [], "TIMEOUT", 0, "said {x} {0}")


def test_a_job_that_said_nothing():
    said = explain("pingpong", 7, [], "FAILED", 9, "")
    assert not lacking(said, "job 7", "no node", "FAILED", "exit code 9", "said nothing")


@pytest.mark.parametrize("code, words", [(132, ""), (1, "srun: error: n1: Illegal instruction")])
def test_a_program_for_another_cpu_is_named(code, words):
    assert "another CPU" in explain("pingpong", 7, ["n1"], "FAILED", code, words)


WRITES = "cp: error writing '/scratch/x': "


@pytest.mark.parametrize(
    "text, named",
    [
        (f"one\n{WRITES}No space left on device\nthree\nfour\n", f"({WRITES}No space"),
        (f"{WRITES}Disk quota exceeded\n", f"({WRITES}Disk quota"),
    ],
)
def test_a_disk_that_was_full_is_named_by_the_line_that_says_so(tmp_path, text, named):
    assert not lacking(full(tmp_path, text), "a disk was full", named, "Fix: free space")


def test_a_file_system_that_is_full_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "LEAST_SPACE", 1 << 60)
    said = full(tmp_path / "not" / "yet")
    assert not lacking(said, f"the file system of {tmp_path}/not/yet is full", "RFM_PREFIX")


@pytest.mark.parametrize("text", ["", "a table", "unshare failed: No space left on device"])
def test_no_disk_is_named_where_none_is_full(tmp_path, text):
    assert full(tmp_path, text) == ""


def test_a_full_directory_for_temporary_files_is_not_the_results(tmp_path, monkeypatch):
    monkeypatch.setattr(failures, "TEMPORARY", ("/scratch",))
    said = full(tmp_path, f"{WRITES}No space left on device")
    assert not lacking(said, "/scratch on a node", "TMPDIR") and "RFM_PREFIX" not in said


def test_what_slurm_ended_after_a_failure_is_left_out():
    others = "srun: error: n2: tasks 1-3: Killed\n"
    assert last_words(f"srun: error: n1: task 0: Exited with exit code 17\n{others}", "") == ""
    assert last_words(others, "") == others.strip()


def test_words_are_cut_between_words():
    assert last_words("word " * 1000, "").endswith("word ...")


def test_without_accounting_the_last_words_come_first():
    said = explain("tcp", 7, ["n1"], "COMPLETED", None, "no libx.so", accounting=False)
    assert not lacking(said, "job 7 on n1 ended early", "its last words: no libx.so")
    assert "None" not in said
    said = explain("tcp", 7, ["n1"], "CANCELLED", None, "", accounting=False)
    assert "sacct" not in said and "slurmctld's log" in said


def test_a_job_that_reframe_cancelled_was_cancelled_by_nobody_else():
    said = explain("tcp", 7, [], "CANCELLED", 0, "", why="it waited for longer than 5 s")
    assert "it waited for longer" in said and "somebody" not in said
