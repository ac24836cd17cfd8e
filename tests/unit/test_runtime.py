"""Runtimes: which one an environment yields, what it builds and starts, and what it refuses."""

import subprocess
from types import SimpleNamespace

import pytest
from reframe.core.backends import getlauncher
from reframe.core.environments import Environment

from nearmetal.checks.programs import SUITES, Program, presence
from nearmetal.checks.runtime import both, facts_of, image, image_in, runtime_of
from nearmetal.checks.runtime.jvm import NATIVE
from nearmetal.site.launchers import SrunMpjLauncher
from tests.support.said import lacking

PINGPONG = Program("pingpong.c", "./pingpong", "PingPong")
IMB = Program(path="IMB-MPI1", java="PingPong", where="the module imb")
SETTINGS = {"device": "niodev", "heap": 64, "gc": "auto", "pages": "default", "warm_up": 30.0}


def environ(*features, **extras):
    return Environment("-".join(features) or "bare", features=[*features], extras=extras)


@pytest.fixture
def runtime(monkeypatch):
    """Gives the runtime of an environment with these features and extras."""
    stack = {"software": "debian", "inputs": "0" * 64, "packages": {}}
    record = {**stack, "digest": "sha256:" + "0" * 64, "pmi": "pmix"}
    monkeypatch.setattr(image, "locked", lambda: {"openmpi": stack})
    monkeypatch.setattr(image, "record_of", lambda path: record)
    srun = SimpleNamespace(registered_name="srun")
    partition = SimpleNamespace(
        fullname="here:cc", features=["apptainer"], extras={}, launcher_type=srun
    )

    def of(*features, settings=SETTINGS, **extras):
        installer = SimpleNamespace(stagedir="/stage")
        return runtime_of(
            environ(*features, **extras), partition, lambda _: installer, lambda _: settings
        )

    return of


@pytest.mark.parametrize(
    "features, extras, name",
    [
        (["mpi"], {}, "Bare"),
        (["mpi", "spack"], {"spack_env": "openmpi"}, "Spack"),
        (["mpi"], {"image": "openmpi"}, "Image"),
        (["mpj"], {}, "Jvm"),
        (["mpj", "spack"], {"spack_env": "fastmpj"}, "Jvm"),
    ],
)
def test_an_environment_yields_its_runtime(runtime, features, extras, name):
    assert type(runtime(*features, **extras)).__name__ == name


@pytest.mark.parametrize("extras, flag", [({}, "-fopenmp"), ({"omp_flag": "-qopenmp"}, "-qopenmp")])
def test_openmp_has_the_option_of_the_environments_compiler(runtime, extras, flag):
    system = runtime("openmp", **extras).build_system(Program("stream.c", "./stream"))
    assert flag in system.cflags and f"-DNEARMETAL_CFLAGS='\"-O2 {flag}\"'" in system.cflags
    assert "-fopenmp" in system.cflags or extras


def test_a_check_without_java_runs_bare_beside_java():
    partition = SimpleNamespace(fullname="here:cc", features=[], extras={})
    assert not runtime_of(environ("serial", "mpj"), partition).java


def test_a_program_is_compiled_taken_from_path_or_from_an_image(runtime):
    for compiles in (runtime("mpi"), runtime("mpi", "spack", spack_env="openmpi")):
        assert compiles.is_compiled(PINGPONG) and compiles.command(PINGPONG) == "./pingpong"
    assert "command -v IMB-MPI1" in runtime("mpi").build_commands(IMB)[0]
    within = runtime("mpi", image="openmpi")
    assert within.command(PINGPONG).endswith("openmpi.sif nearmetal-pingpong")
    assert within.build_commands(PINGPONG) == ["true"]


def test_the_program_of_b_is_a_file_of_its_own():
    assert PINGPONG.at("./pingpong.mpich").path == "./pingpong.mpich"
    assert IMB.at("./pingpong.mpich") == IMB


def test_programs_of_others_are_refused_in_an_image_and_in_java(runtime):
    assert runtime("mpi").skip_reason_of(IMB) == ""
    obstacle = runtime("mpi", image="openmpi").skip_reason_of(IMB)
    assert not lacking(obstacle, "not in the image openmpi")
    assert "no program in Java" in runtime("mpj").skip_reason_of(IMB)


@pytest.mark.parametrize("suite", sorted(SUITES))
def test_a_program_of_others_that_is_missing_is_named_with_where_to_get_it(suite):
    """Its name stands in backquotes, which a shell would run in double quotes."""
    program, where = SUITES[suite]
    done = subprocess.run(
        ["/bin/sh", "-c", presence(program, where)], env={}, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr == f"{program} is not on PATH: {where}\n"


def test_jvms_have_a_launcher_of_their_own_and_the_job_keeps_its(runtime):
    own = getlauncher("srun")()
    own.options = ["--cpu-bind=none"]
    launcher = runtime("mpj", settings={**SETTINGS, "device": "threads"}).launcher(own)
    assert isinstance(launcher, SrunMpjLauncher)
    assert launcher.options == ["--cpu-bind=none"] and launcher.threads
    assert own.registered_name == "srun" and runtime("mpi").launcher(own) is own
    # Of a duet, whose A is in Java and whose B is not.
    assert runtime("mpi").launcher(launcher).registered_name == "srun"


def test_mpj_native_starts_as_programs_in_c(runtime):
    own = getlauncher("srun")()
    native = runtime("mpj", "mpj_native", settings={**SETTINGS, "device": "threads"})
    assert native.launcher(own) is own and not native.one_process
    assert native.skip_reason("srun") == "" and "started with srun" in native.skip_reason("mpirun")
    build, compile_program = native.build_commands(PINGPONG)
    assert build.endswith("/mpj-native/build.sh library.mpj-mpj_native")
    assert not lacking(compile_program, "-cp library.mpj-mpj_native", "java/PingPong.java")
    for home, program in (({"JAVA_HOME": "/jdk"}, "/jdk/bin/javac"), ({}, "javac")):
        done = subprocess.run(
            ["sh", "-c", f"echo {compile_program}"], env=home, capture_output=True, text=True
        )
        assert done.stdout.startswith(f"{program} -J-XX")
    assert native.command(PINGPONG) == (
        "sh java/launch/jvm.sh --library=native --classes=classes.mpj-mpj_native "
        "--launch=library.mpj-mpj_native --heap=64 --gc=auto --pages=default --warm-up=30 PingPong"
    )
    assert native.asked() == {
        "library": "native",
        "device": "mpi",
        "pages": "default",
        "heap": "64MB",
    }
    # The results record no device that the library does not choose by itself.
    assert native.unused_settings() == ("java_device",) and not runtime("mpj").unused_settings()
    assert "java_gc" in runtime("mpi").unused_settings()


def test_only_mpj_native_sends_direct_buffers(runtime):
    settings = {**SETTINGS, "buffers": "off_heap"}
    native = runtime("mpj", "mpj_native", settings=settings)
    assert native.skip_reason("srun") == "" and native.asked()["buffers"] == "off_heap"
    assert "--buffers=off_heap PingPong" in native.command(PINGPONG)
    assert "leave java_buffers out" in runtime("mpj", settings=settings).skip_reason("srun")


@pytest.mark.parametrize("features, extras", [([], {}), (["spack"], {"spack_env": "mpj-native"})])
def test_mpj_native_needs_a_checkout(runtime, monkeypatch, tmp_path, features, extras):
    of_checkout = runtime("mpj", "mpj_native", *features, **extras)
    assert of_checkout.build_commands(PINGPONG)[0].startswith(f"sh {NATIVE}/build.sh library.")
    monkeypatch.setattr("nearmetal.checks.runtime.jvm.NATIVE", tmp_path)
    assert "use a checkout" in of_checkout.skip_reason("srun")


def test_mpj_native_of_an_image_is_not_compiled_again(runtime, monkeypatch, tmp_path):
    monkeypatch.setattr("nearmetal.checks.runtime.jvm.NATIVE", tmp_path)
    of_image = runtime("mpj", "mpj_native", image="openmpi")
    assert "checkout" not in of_image.skip_reason("srun")
    assert of_image.build_commands(PINGPONG) == ["true"]
    java = "/opt/nearmetal/share/java"
    facts = ["openmpi.sif sh", "--library=native", f"--classes={java}/classes.native"]
    assert not lacking(of_image.command(PINGPONG), *facts, f"--launch={java}/library")


def test_an_image_is_verified_for_the_launcher_that_starts_it(runtime):
    of_image = runtime("mpi", image="openmpi")
    for launcher, pmi in (("srun", "pmix"), ("mpirun", "none")):
        verified, trial = of_image.preparations(
            lambda command, launcher=launcher: f"{launcher} {command}", launcher == "srun", 2
        )
        assert verified.startswith("sh image.sh apptainer") and verified.endswith(f" {pmi}")
        assert f"timeout 120 {launcher} apptainer exec" in trial and "--ranks 2" in trial
    assert runtime("mpi").preparations(None, True, 2) == []


def test_software_of_spack_comes_and_goes_by_path(runtime):
    spack = runtime("mpi", "spack", spack_env="openmpi")
    assert spack.env_setup() == [". /stage/load.sh"] and spack.env_teardown() == ["PATH=$spackless"]
    in_java = runtime("mpj", "spack", spack_env="fastmpj")
    assert in_java.env_setup() == spack.env_setup() and runtime("mpj").env_setup() == []


def test_software_of_spack_that_nobody_installed_is_an_obstacle(runtime, monkeypatch):
    assert runtime("mpi", "spack", spack_env="openmpi").skip_reason("srun") == ""
    monkeypatch.setattr("nearmetal.checks.runtime.spack.absence", lambda *_: "not installed")
    partition = SimpleNamespace(fullname="here:cc", features=[], extras={})
    of_nobody = [environ("mpi", "spack"), partition, lambda _: None]
    assert runtime_of(*of_nobody).skip_reason("srun") == "not installed"
    in_java = [environ("mpj", "spack"), partition, lambda _: None, lambda _: SETTINGS]
    assert runtime_of(*in_java).skip_reason("srun") == "not installed"


def test_a_duet_records_what_holds_for_each(runtime):
    assert both(["x"]) == both(["x", "x"]) == "x" and both(["x", "y"]) == "A: x; B: y"
    bare, within = runtime("mpi"), runtime("mpi", image="openmpi")
    assert image_in([bare]) == image_in([bare, bare]) == ""
    assert image_in([bare, within]) == f"A: none; B: {within.image}"
    one, other = (SimpleNamespace(facts=lambda *_, name=name: {name: "1"}) for name in "ab")
    assert facts_of([one, other], PINGPONG) == {
        "a": "A: 1; B: none",
        "b": "A: none; B: 1",
    }
