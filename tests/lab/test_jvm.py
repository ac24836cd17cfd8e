"""Programs in Java, launched by ReFrame and Slurm on the lab's nodes."""

import re
import shlex

import pytest

from tests.support.said import lacking


def say_hello(lab, prefix, *options, timeout=300):
    command = [
        "reframe",
        "--nocolor",
        "-c",
        "tests/support/java/hello_check.py",
        "-r",
        "-p",
        "^mpj$",
        *options,
    ]
    settings = f"PYTHONPATH={shlex.quote(str(lab.checkout))} RFM_PREFIX={shlex.quote(str(prefix))}"
    return lab("exec", f"{settings} {shlex.join(command)}", check=False, timeout=timeout).stdout


@pytest.mark.whole
def test_two_nodes_say_hello_on_each_class_of_links(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab")
    assert not lacking(said, "Ran 3/3", "(0 failure(s)"), said
    assert re.findall(r"hello /\w+ @lab:(\w+)\+mpj", said).count("emulated") >= 1
    for name in (
        "native",
        "passthrough",
        "emulated",
    ):  # not by way of loopback, which would be no network
        [record] = prefix.glob(f"output/lab/{name}/mpj/hello/rfm_job.out")
        said = record.read_text()
        [repeats] = re.findall(r"# nearmetal repeats: (\d+)", said)  # disturbed ones ran again
        assert said.count("hello rank=1 size=2 bytes=4000000") == int(repeats) >= 3


@pytest.mark.whole
def test_two_threads_say_hello(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab:native", "-S", "java_device=threads")
    assert not lacking(said, "Ran 1/1", "(0 failure(s)"), said


def test_a_rank_that_throws_ends_the_job_and_is_quoted(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab:native", "-S", "what=throw")
    assert re.search(r"FAILED with exit code \d+: .*rank 1 on native2: Hello died of ", said), said
