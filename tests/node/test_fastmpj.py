"""How ranks of FastMPJ meet, and how a launch of them ends: by the real launcher, in JVMs of this
machine.

FastMPJ is each site's own licensed copy. Where FMPJ_HOME names one, the tests use it. Elsewhere
they use the stand-in of tests/support/java/fastmpj, which follows FastMPJ's protocol: its
properties, ports and host file, and the ways in which it hangs.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import zipfile
from pathlib import Path

import pytest

from tests.support.jvm_ranks import JAVAC, JVM, STEP, ends
from tests.support.paths import JAVA, SOURCES

#: Launchers of other libraries in Java change seldom.
pytestmark = [pytest.mark.whole, pytest.mark.ci]

#: Package of the stand-in in each jar that the launcher asks for.
JARS = {
    "runtime": "runtime",
    "mpj": "mpi",
    "xxdev": None,
    "jhwloc": None,
    "niodev": None,
    "smdev-shared": None,
    "smdev-unshared": None,
}
#: Ports of job 7: the launcher's 16, then two for each rank of the largest step.
LAUNCHERS = 16


def shell(directory, *command):
    command = [str(word) for word in command]
    done = subprocess.run(command, check=False, cwd=directory, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The directory of FastMPJ, or of its stand-in."""
    if real := os.environ.get("FMPJ_HOME"):
        return Path(real)
    directory = tmp_path_factory.mktemp("fastmpj")
    (directory / "lib").mkdir()
    shell(directory, *JAVAC, "-d", "classes", *(JAVA / "fastmpj").rglob("*.java"))
    for name, package in JARS.items():
        with zipfile.ZipFile(directory / f"lib/{name}.jar", "w") as jar:
            for path in directory.glob(f"classes/{package}/**/*.class"):
                jar.write(path, path.relative_to(directory / "classes"))
    return directory


@pytest.fixture(scope="module")
def built(tmp_path_factory, home):
    """A directory with the launcher's classes and those of Meet."""
    directory = tmp_path_factory.mktemp("meet")
    launcher = sorted((SOURCES / "java/launch").glob("*.java"))
    shell(directory, *JAVAC, "--release", "17", "-d", "launch.classes", *launcher)
    shell(directory, *JAVAC, "-cp", home / "lib/mpj.jar", "-d", "classes", JAVA / "Meet.java")
    return directory


@pytest.fixture
def ranks(built, home):
    """Starts a rank of Meet; those that are left are ended."""
    started = []

    def start(rank, size, what="meet", *options, main="Meet", heap=16, **settings):
        environment = {
            **os.environ,
            **STEP,
            "FMPJ_HOME": str(home),
            "SLURM_NTASKS": str(size),
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_TASKS_PER_NODE": str(size),
            "SLURM_MEM_PER_NODE": "4000",
            # Whatever FastMPJ makes of it, classes are not found by it.
            "CLASSPATH": "/nowhere",
            **settings,
        }
        words = ["sh", str(JVM), "--library=fastmpj", f"--heap={heap}", *options, main, what]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(words, cwd=built, env=environment, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def all_of(ranks, size, *arguments, **settings):
    """Exit code, output and errors of each rank."""
    return [
        ends(process) for process in [ranks(r, size, *arguments, **settings) for r in range(size)]
    ]


def port_of(size, job=7, first=18000, last=24991):
    slot = LAUNCHERS + 2 * size
    return first + job % ((last - first + 1) // slot) * slot + LAUNCHERS


@pytest.mark.parametrize("size", [1, 9, pytest.param(16, marks=pytest.mark.whole)])
def test_ranks_meet_on_two_ports_each_with_a_small_heap(ranks, built, size):
    done = all_of(ranks, size)
    hosts = ",".join(["127.0.0.1"] * size)
    for rank, (code, out, err) in enumerate(done):
        assert (code, err) == (0, ""), err
        assert f"meet rank={rank} size={size} port={port_of(size)} hosts={hosts}\n" in out
    assert not list(built.glob("hosts.*"))


def test_ranks_meet_as_threads(ranks):
    code, out, err = ends(ranks(0, 1, "meet", "--device=threads", "--ranks=3"))
    assert (code, err) == (0, "")
    assert sorted(re.findall(r"meet rank=(\d) size=3", out)) == ["0", "1", "2"]


@pytest.mark.parametrize(
    "what, main, status, words",
    [
        ("throw", "Meet", 1, "rank 1 died of java.lang.IllegalStateException: as told"),
        ("meet", "NoSuch", 1, "died of java.lang.ClassNotFoundException: NoSuch"),
        ("exit", "Meet", 3, ""),
    ],
)
def test_a_thread_that_fails_ends_the_jvm_with_its_status(ranks, what, main, status, words):
    """As threads of fmpjrun, the others would wait for ever, or the end would be 0."""
    code, _, err = ends(ranks(0, 1, what, "--device=threads", "--ranks=2", main=main))
    assert code == status and words in err


def test_a_rank_that_throws_ends_its_jvm(ranks):
    ranks(0, 2, "throw")
    code, _, err = ends(ranks(1, 2, "throw"))
    assert code == 1
    assert "Meet died of java.lang.IllegalStateException" in err


def test_a_lone_rank_names_who_is_missing(ranks):
    code, _, err = ends(ranks(0, 3, "meet", "--patience=3"))
    assert code == 1
    assert "not started, [1, 2]" in err and "rank 2 never" in err


def utf(text):
    """As Java's writeUTF sends it."""
    return struct.pack(">H", len(text)) + text.encode()


@pytest.mark.parametrize(
    "further, words",
    [
        ("", "rank 0 ended, or said nothing more, before all ranks had started"),
        ("nearmetal 7.0 peers 127.0.0.1,", "addresses of 2 ranks"),
        ("nearmetal 7.0 peers 127.0.0.1,10.0.0.1,", "addresses of 2 ranks"),
        ("nearmetal 8.0 peers 127.0.0.1,127.0.0.1,", "addresses of 2 ranks"),
    ],
)
def test_a_rank_0_that_ends_or_says_otherwise_is_said(ranks, further, words):
    """The test is rank 0."""
    with socket.create_server(("127.0.0.1", port_of(2) - LAUNCHERS)) as server:
        process = ranks(1, 2)
        guest, _ = server.accept()
        with guest:
            assert guest.recv(100) == utf("nearmetal 7.0 1")
            guest.sendall(utf("nearmetal 7.0") + (utf(further) if further else b""))
    code, _, err = ends(process)
    assert code == 1 and err.startswith("mpj: rank 1 on localhost: ") and words in err


@pytest.mark.whole
def test_a_rank_that_stays_in_init_says_so(ranks):
    first, _ = (ranks(rank, 2, "late", "--patience=2") for rank in range(2))
    code, _, err = ends(first)
    assert code == 1 and "still in MPI.Init after 7 s" in err and "java_ports" in err


def test_too_little_memory_outside_of_the_heap_ends_the_rank(ranks):
    """_JAVA_OPTIONS comes after the launcher's options: the limit that a heap of 64 MB would have
    given."""
    small = {"_JAVA_OPTIONS": "-XX:MaxDirectMemorySize=64m"}
    for code, _, err in all_of(ranks, 2, "meet", **small):
        assert code == 1 and "OutOfMemoryError" in err and "java_heap_mb" in err


def test_a_port_in_use_is_named(ranks):
    with socket.create_server(("127.0.0.1", port_of(2) + 3)):
        processes = [ranks(rank, 2) for rank in range(2)]
        code, _, err = ends(processes[1])
    assert code == 1
    assert f"the port {port_of(2) + 3} of 127.0.0.1 is in use" in err and "java_ports" in err


@pytest.mark.parametrize("options", [[], ["--device=threads", "--ranks=1"]])
def test_a_hang_that_is_ended_says_where(ranks, options):
    process = ranks(0, 1, "hang", *options)
    while "meet rank=0" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, _, err = ends(process)
    assert "was ended by SIGTERM, at Meet.main(Meet.java:" in err
