"""mpj-native: its own tests on both MPI libraries, errors without a library, and signals."""

import os
import re
import signal
import subprocess
import time

import pytest

from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.pingpong import parse_imb
from tests.support.jvm_ranks import JAVAC
from tests.support.mpj_native import JVM, LIBRARIES, NATIVE, SERIAL, Built, compiled
from tests.support.paths import JAVA, SOURCES
from tests.support.programs import MPI, hosts_named_on
from tests.support.said import lacking

VECTORS = ["--add-modules", "jdk.incubator.vector"]


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """The library with its tests, and our programs as they are for other libraries of mpiJava."""
    tests = sorted((NATIVE / "src/test/java/mpjtest").glob("*.java"))
    programs = sorted((SOURCES / "java").glob("*.java"))
    own = JAVA / "Wait.java", JAVA / "End.java"
    return compiled(tmp_path_factory.mktemp("classes"), *tests, *programs, *own)


@pytest.mark.parametrize(
    "mpi, ranks, jvm",
    [
        ("mpich", 2, JVM),
        *(
            pytest.param(*case, marks=pytest.mark.whole)
            for case in (
                ("openmpi", 1, JVM),
                ("openmpi", 2, JVM),
                ("mpich", 3, JVM),
                ("openmpi", 4, JVM),
                ("openmpi", 2, SERIAL),
            )
        ),
    ],
)
def test_every_method_does_what_the_standard_says(native, mpi, ranks, jvm):
    done = native.run(mpi, ranks, "mpjtest.Main", jvm=jvm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f" 0 failed on {ranks} ranks with " in done.stdout, done.stdout


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_heap_is_collected_around_an_array_that_is_being_sent(native, mpi, tmp_path):
    log = tmp_path / "collections"
    done = native.run(
        mpi, 1, "mpjtest.Main", "PinsTest.collectorWhileSending", jvm=[*JVM, f"-Xlog:gc:{log}"]
    )
    assert " 1 passed, 0 failed " in done.stdout, done.stdout + done.stderr
    assert "(Evacuation Failure: Pinned)" in log.read_text()


def test_jni_finds_no_fault(native):
    done = native.run(
        "openmpi",
        1,
        "mpjtest.Main",
        "PinsTest.collectorBetweenOperations",
        jvm=[*JVM, "-Xcheck:jni"],
    )
    assert " 1 passed, 0 failed " in done.stdout, done.stdout + done.stderr
    assert "in native method" not in done.stdout + done.stderr  # an error or a warning


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_random_messages_arrive_as_a_model_says(native, mpi):
    done = native.run(mpi, 2, "mpjtest.RandomMessages", "1", "20261126")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "random messages as the model says: seed=20261126 " in done.stdout


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_no_argument_crashes_the_jvm(native, mpi):
    """One rank alone calls every method with null, huge, freed and right arguments."""
    done = subprocess.run(
        native.java("mpjtest.RandomArguments", "2", "20261126"),
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"MPJ_NATIVE_LIBRARY": LIBRARIES[mpi]},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no argument crashed the JVM: seed=20261126 " in done.stdout


@pytest.mark.whole
@pytest.mark.parametrize(
    "mpi, collector",
    [("openmpi", "Serial"), ("mpich", "Parallel"), ("openmpi", "G1"), ("mpich", "Z")],
)
def test_random_messages_arrive_while_the_heap_is_collected(native, mpi, collector):
    jvm = [f"-XX:+Use{collector}GC", "-Xmx64m"]
    done = native.run(mpi, 3, "mpjtest.RandomMessages", "2", jvm=jvm)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "mpi, how",
    [
        ("openmpi", "exit"),
        ("mpich", "kill"),
        *(
            pytest.param(*case, marks=pytest.mark.whole)
            for case in (
                ("openmpi", "exception"),
                ("openmpi", "kill"),
                ("mpich", "exception"),
            )
        ),
    ],
)
def test_a_rank_that_ends_early_ends_the_others(native, mpi, how):
    done = native.run(mpi, 2, "End", how, timeout=60)
    assert "waiting" in done.stdout, done.stdout + done.stderr
    # MPICH's mpirun ends with 0 at times although a rank ended so, in C too (traps.md).
    assert done.returncode != 0 or mpi == "mpich", done.stdout + done.stderr


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_programs_of_the_checks_run_unchanged(native, mpi):
    few = ["--iterations", "20", "--max-bytes", "1024"]
    done = native.run(mpi, 2, "-Dnearmetal.warm_up=0.1", "PingPong", *few)
    assert done.returncode == 0, done.stdout + done.stderr
    [launch] = parse_imb(done.stdout)
    assert re.match(r"mpj-native \d+\.\d+\.\d+ over ", launch.facts["mpi_library"])
    done = native.run(mpi, 2, "-Dnearmetal.warm_up=0.1", "CG", "S")
    assert done.returncode == 0, done.stdout + done.stderr
    assert parse_npb(done.stdout)[0].processes == 2
    # Without the class for vectors.
    assert "# nearmetal product: elements\n" in done.stdout


@pytest.fixture(scope="module")
def vectors(native, tmp_path_factory):
    """The same programs, and CG's class for vectors."""
    built = Built(native.library, tmp_path_factory.mktemp("vectors"))
    command = [*JAVAC, *VECTORS, "-cp", f"{built.library}:{native.classes}", "-d", built.classes]
    source = SOURCES / "java" / "vectors" / "CGVectors.java"
    subprocess.run([*command, source, JAVA / "Products.java"], check=True)
    return Built(f"{built.library}:{native.classes}", built.classes)


def test_vectors_that_the_processor_lacks_are_not_tried(vectors):
    """Java computes them itself: the trial of class B took three minutes."""
    refused = subprocess.run(
        vectors.java("Products", jvm=[*VECTORS, "-XX:UseAVX=1"]), capture_output=True, text=True
    )
    assert refused.returncode == 1 and "no vectors of 256 bits" in refused.stderr, refused.stderr
    jvm = [*VECTORS, "-XX:UseAVX=1", "-Dnearmetal.warm_up=0.1"]
    done = vectors.run("openmpi", 1, "CG", "S", jvm=jvm)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "# nearmetal product: elements\n" in done.stdout


def test_cg_by_vectors_is_cg(vectors):
    products = subprocess.run(
        vectors.java("Products", jvm=VECTORS), capture_output=True, text=True, check=True
    )
    assert products.stdout == "same products\n"
    done = vectors.run("openmpi", 1, "CG", "S", jvm=[*VECTORS, "-Dnearmetal.warm_up=0.1"])
    assert done.returncode == 0 and parse_npb(done.stdout), done.stdout + done.stderr
    assert re.search("# nearmetal product: (vectors|elements)\n", done.stdout)


def test_a_rank_reports_the_kernels_name_of_its_host(native):
    ranks = [*MPI["openmpi"], "-n", "1", *native.java("-Dnearmetal.warm_up=0.1", "CG", "S")]
    own = {"MPJ_NATIVE_LIBRARY": LIBRARIES["openmpi"], "SLURMD_NODENAME": "n1"}
    assert hosts_named_on("n1.example.org", ranks, **own) == {"n1.example.org"}


@pytest.mark.parametrize(
    "library, sentences",
    [
        (
            "libabsent.so.1",
            ["libabsent.so.1 cannot be used: the loader cannot open it", "MPJ_NATIVE_LIBRARY"],
        ),
        ("libc.so.6", ["libc.so.6 cannot be used", "no function MPI_Init_thread"]),
    ],
)
def test_a_wrong_library_is_reported_in_a_sentence(native, library, sentences):
    done = subprocess.run(
        native.java("mpjtest.Main"),
        capture_output=True,
        text=True,
        env=os.environ | {"MPJ_NATIVE_LIBRARY": library},
    )
    assert done.returncode == 1 and not lacking(done.stderr, *sentences), done.stderr
    assert "ExceptionInInitializerError" not in done.stderr


@pytest.mark.parametrize(
    "mpi, how", [("openmpi", "short"), ("mpich", "long"), ("openmpi", "request")]
)
def test_a_rank_that_waits_runs_other_threads_and_ends_by_sigterm(native, mpi, how):
    """One rank alone, a singleton of MPI, waits for a message that nobody sends."""
    process = subprocess.Popen(
        native.java("Wait", how),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"MPJ_NATIVE_LIBRARY": LIBRARIES[mpi]},
    )
    try:
        # The other thread has collected garbage while the first one waits.
        assert process.stdout.readline() == "collected\n"
        before = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        assert time.monotonic() - before < 60
    finally:
        process.kill()
        process.communicate()
