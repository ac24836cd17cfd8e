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


@pytest.mark.whole
@pytest.mark.ci
def test_every_method_works_between_two_nodes(lab, prefix):
    """Receives from another node take another way through mpj-native than those within one."""
    native = shlex.quote(f"{lab.checkout}/mpj-native")
    script = f"""
        cd {shlex.quote(str(prefix))}
        sh {native}/build.sh library
        javac -cp library -d classes {native}/src/test/java/mpjtest/*.java
        run() {{
            MPJ_NATIVE_LIBRARY=libmpi.so.40 srun --quiet -p native -N2 --mpi=pmix "$@"
        }}
        java="java -Xmx96m -XX:+UseG1GC --enable-native-access=ALL-UNNAMED -cp library:classes"
        run -n 2 $java mpjtest.Main
        run -n 3 $java mpjtest.RandomMessages 2 20261128
    """
    said = lab("exec", f"sh -eu -c {shlex.quote(script)}", check=False, timeout=300).stdout
    assert " 0 failed on 2 ranks with Open MPI " in said, said
    assert "random messages as the model says: seed=20261128 " in said, said
