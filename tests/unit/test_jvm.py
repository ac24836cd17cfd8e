"""Launches of Java programs: the options of srun, the command line of each JVM, and errors.

These tests start no JVM: their `java` only prints its arguments. tests/node/test_jvm.py starts real
JVMs.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.runtime.jvm import jvm_command
from nearmetal.site.launchers import step_options
from tests.support.jvm_ranks import JVM, STEP
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

# Command lines


def test_srun_starts_a_jvm_a_task():
    assert step_options(8, 4, False) == [
        "--mpi=none",
        "--kill-on-bad-exit=1",
        "--nodes=2",
        "--ntasks=8",
        "--ntasks-per-node=4",
    ]
    assert step_options(2, 1, False)[2:] == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
    ]
    assert step_options(2, 1, False, 2)[2:] == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=2",
    ]
    assert step_options(1, 4, False)[2:] == [
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
    ]


def test_srun_starts_one_jvm_for_all_threads():
    assert step_options(4, 4, True)[2:] == [
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
        "--cpus-per-task=4",
    ]


def test_the_launcher_is_known_to_reframe():
    from reframe.core.backends import getlauncher

    launcher = getlauncher("srun-mpj")()
    launcher.options = ["--cpu-bind=cores"]
    job = SimpleNamespace(num_tasks=2, num_tasks_per_node=1, num_cpus_per_task=None)
    assert launcher.run_command(job) == (
        "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 "
        "--cpu-bind=cores"
    )


def test_the_command_of_a_task():
    assert (
        jvm_command("Hello", heap=256, gc="", hosts="{}-ib")
        == "sh java/launch/jvm.sh --heap=256 '--hosts={}-ib' Hello"
    )
    with pytest.raises(ValueError, match=r"'Hello; rm'.* class"):
        jvm_command("Hello; rm")


class Site:
    """A directory with empty libraries, and with programs that print their arguments."""

    def __init__(self, directory):
        self.directory, self.settings = directory, dict(STEP)
        for library, jars in {
            "mpj": ["mpj", "smpdev", "xdev", "mpjbuf", "mpiExp", "mpi", "mpjdev", "log4j-1.2"],
            "fmpj": [
                "runtime",
                "mpj",
                "xxdev",
                "jhwloc",
                "niodev",
                "smdev-shared",
                "smdev-unshared",
            ],
        }.items():
            for name in jars:
                self.add(f"{library}/lib/{name}.jar", "")
        self.add(
            "bin/java",
            '#!/bin/sh\necho "tool: $JAVA_TOOL_OPTIONS $CLASSPATH"\nprintf "%s\\n" "$@"\n',
        ).chmod(0o755)
        self.add("bin/nproc", "#!/bin/sh\necho 4\n").chmod(0o755)
        (directory / "launch.classes").mkdir()
        self.settings |= {
            "MPJ_HOME": f"{directory}/mpj",
            "FMPJ_HOME": f"{directory}/fmpj",
            "PATH": f"{directory}/bin:/usr/bin:/bin",
        }

    def add(self, name, text):
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def __call__(self, *arguments, **settings):
        environment = {
            name: value for name, value in (self.settings | settings).items() if value is not None
        }
        return subprocess.run(
            ["sh", str(JVM), *arguments],
            cwd=self.directory,
            capture_output=True,
            text=True,
            env=environment,
        )

    def started(self, *arguments, **settings) -> list[str]:
        """Settings of the JVM as jvm.sh prints them, java's environment, then java's arguments."""
        done = self(*arguments, **settings)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return done.stdout.replace(str(self.directory), "").splitlines()


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


COMMON = [
    "-Xms100m",
    "-Xmx100m",
    "-XX:+AlwaysPreTouch",
    "-XX:-UsePerfData",
    "-Dnearmetal.warm_up=30",
    "-XX:+UseSerialGC",
]


def test_mpj_express_between_nodes(site):
    said, _, *started = site.started("--heap=100", "Hello", "two words", "3")
    assert (
        said == "# nearmetal jvm: library=express device=niodev heap=100MB gc=serial pages=default"
    )
    assert started == [
        *COMMON,
        "-Dnearmetal.device=niodev",
        "-Dnearmetal.port=18112",
        "-Dnearmetal.ports=16",
        "-Dnearmetal.hosts={}",
        "-Dnearmetal.patience=60",
        "-cp",
        "launch.classes:/mpj/lib/mpj.jar:/mpj/lib/log4j-1.2.jar:classes",
        "launch.NearmetalRun",
        "Hello",
        "two words",
        "3",
    ]


def test_mpj_express_within_a_jvm(site):
    assert site.started("--heap=100", "--device=threads", "--ranks=2", "Hello")[2:] == [
        *COMMON,
        "-Dnearmetal.device=threads",
        "-Dnearmetal.ranks=2",
        "-Dnearmetal.patience=60",
        "-Dnearmetal.app=classes:/mpj/lib/mpi.jar:/mpj/lib/mpjdev.jar",
        "-cp",
        "launch.classes:"
        + ":".join(
            f"/mpj/lib/{jar}.jar" for jar in ("smpdev", "xdev", "mpjbuf", "mpiExp", "log4j-1.2")
        ),
        "launch.NearmetalRun",
        "Hello",
    ]


def test_mpj_native(site):
    """It needs neither a library's directory nor ports."""
    options = ("--library=native", "--heap=100", "--launch=launch.classes")
    said, _, *started = site.started(*options, "Hello", "3", MPJ_HOME=None, FMPJ_HOME=None)
    assert said == "# nearmetal jvm: library=native device=mpi heap=100MB gc=g1 pages=default"
    assert started == [
        *COMMON[:-1],
        "-XX:+UseG1GC",
        "-XX:-UseCountedLoopSafepoints",
        "-Dmpi.threads=single",
        "--enable-native-access=ALL-UNNAMED",
        "-cp",
        "launch.classes:classes",
        "Hello",
        "3",
    ]


def test_mpj_native_with_direct_buffers(site):
    options = ("--library=native", "--heap=100", "--launch=launch.classes", "--buffers=off_heap")
    said, _, *started = site.started(*options, "Hello")
    assert said.endswith(" gc=g1 pages=default buffers=off_heap")
    assert "-Dnearmetal.buffers=off_heap" in started
    assert parse_jvm(said).did[0]["buffers"] == "off_heap"


@pytest.mark.parametrize("here", [True, False])
def test_the_module_of_vectors_is_asked_for_where_the_nodes_jdk_has_it(site, here):
    options = ("--library=native", "--heap=100", "--launch=launch.classes")
    assert "--add-modules" not in site.started(*options, "CG", "S")
    site.add("classes/CGVectors.class", "")
    java = site.directory / "bin" / "java"
    there = f'[ "$1" != --describe-module ] || exit {0 if here else 1}\n'
    java.write_text(java.read_text().replace("\n", f"\n{there}", 1))
    started = site.started(*options, "CG", "S")
    assert ("--add-modules" in started) == here
    assert "--add-modules" not in site.started(*options, "EP", "S")


def test_fastmpj_between_nodes(site):
    started = site.started("--library=fastmpj", "--heap=100", "--hosts={}-ib", "Hello", "3")
    jars = ("runtime", "mpj", "xxdev", "jhwloc", "niodev")
    assert started[2:] == [
        *COMMON,
        "-XX:MaxDirectMemorySize=128m",
        "-Dnearmetal.library=fastmpj",
        "-Dnearmetal.device=niodev",
        "-Dnearmetal.port=18140",
        "-Dnearmetal.ports=16",
        "-Dnearmetal.hosts={}-ib",
        "-Dnearmetal.patience=60",
        "-Dmpj.rank=0",
        "-Dmpj.nprocs=2",
        "-Dxxdev.dev=niodev",
        "-Dxxdev.psl=65536",
        "-Dxxdev.port=18156",
        "-Djava.library.path=/fmpj/lib",
        "-cp",
        ":".join(["launch.classes", *(f"/fmpj/lib/{jar}.jar" for jar in jars), "classes"]),
        "launch.NearmetalRun",
        "Hello",
        "3",
    ]


def test_fastmpj_within_a_node(site):
    """FastMPJ ignores CLASSPATH, so a property names the user's classes."""
    options = ("--library=fastmpj", "--device=threads", "--ranks=2", "--heap=100")
    started = site.started(*options, "Hello", "3")
    jars = ("runtime", "jhwloc", "smdev-shared")
    assert started[2:] == [
        *COMMON,
        "-Dnearmetal.library=fastmpj",
        "-Dnearmetal.device=threads",
        "-Dnearmetal.patience=60",
        "-Dmpj.rank=0",
        "-Dmpj.nprocs=2",
        "-Dxxdev.dev=smdev",
        "-Dxxdev.psl=65536",
        "-Duser.classpath=classes",
        "-Djava.library.path=/fmpj/lib",
        "-cp",
        ":".join(["launch.classes", *(f"/fmpj/lib/{jar}.jar" for jar in jars)]),
        "launch.NearmetalRun",
        "Hello",
        "3",
    ]


def test_fastmpj_may_use_as_much_outside_of_the_heap_as_within(site):
    def direct(heap):
        started = site.started("--library=fastmpj", f"--heap={heap}", "Hello")
        return [word for word in started if "MaxDirect" in word]

    assert direct(16) == direct(128) == ["-XX:MaxDirectMemorySize=128m"]
    assert direct(300) == ["-XX:MaxDirectMemorySize=300m"]


def test_fastmpj_has_two_ports_for_each_rank(site):
    """The ports of jobs with consecutive numbers do not overlap. Nor do those of a job's launcher
    and of its ranks."""

    def ports(job, ranks):
        words = site.started(
            "--library=fastmpj", "Hello", SLURM_JOB_ID=str(job), SLURM_NTASKS=str(ranks)
        )
        [launcher] = [int(word.split("=")[1]) for word in words if "nearmetal.port=" in word]
        [first] = [int(word.split("=")[1]) for word in words if "xxdev.port=" in word]
        return range(launcher, launcher + 16), range(first, first + 2 * ranks)

    for ranks in (1, 2, 9, 64, 1000):
        taken = [port for job in (1, 2, 3) for part in ports(job, ranks) for port in part]
        assert len(set(taken)) == len(taken) == 3 * (16 + 2 * ranks)
        assert min(taken) >= 18000 and max(taken) <= 24991


def test_a_jvm_is_set_by_its_part_of_the_job(site):
    def heap(**settings):
        started = site.started("Hello", **settings)
        return next(word for word in started if word.startswith("-Xmx")), [
            word for word in started if word.endswith("GC")
        ]

    assert heap() == ("-Xmx250m", ["-XX:+UseSerialGC"])  # half of 1000 MB, for two JVMs
    assert heap(SLURM_STEP_TASKS_PER_NODE="1(x3)", SLURM_MEM_PER_NODE="8000") == (
        "-Xmx4000m",
        ["-XX:+UseParallelGC"],
    )
    shared = {"SLURM_MEM_PER_NODE": None, "SLURM_MEM_PER_CPU": "500", "SLURM_CPUS_ON_NODE": "16"}
    assert heap(SLURM_STEP_TASKS_PER_NODE="4(x2),1", **shared)[0] == "-Xmx1000m"
    whole = int(re.search(r"MemTotal: +(\d+)", Path("/proc/meminfo").read_text())[1]) // 1024
    assert heap(SLURM_MEM_PER_NODE="0")[0] == f"-Xmx{whole // 2 // 2}m"


def test_pages_and_collector_as_told(site):
    started = site.started("--heap=64", "--gc=parallel", "--pages=transparent", "Hello")
    assert {"-XX:+UseParallelGC", "-XX:+UseTransparentHugePages"} <= set(started)
    assert "-XX:+UseLargePages" in site.started("--heap=64", "--pages=explicit", "Hello")


def test_jobs_have_ports_of_their_own(site):
    def port(job, *options):
        [port] = [
            int(word.split("=")[1])
            for word in site.started(*options, "Hello", SLURM_JOB_ID=str(job))
            if word.startswith("-Dnearmetal.port=")
        ]
        return port

    assert (port(1), port(2), port(436), port(437)) == (18016, 18032, 24976, 18000)
    assert (port(1, "--ports=30000-30031"), port(2, "--ports=30000-30031")) == (30016, 30000)


@pytest.mark.parametrize(
    "options, settings, facts",
    [
        ([], {}, ["name of the class"]),
        (["--gc=g2", "Hello"], {}, ["--gc=g2", "option"]),
        (
            ["--heap=600", "Hello"],
            {},
            ["600 MB", "500 MB", "1000 MB a node", "2 JVMs", "more memory", "java_heap_mb"],
        ),
        (["--heap=x", "Hello"], {}, ["--heap=x", "16 to 99999999"]),
        (["--ports=80-90", "Hello"], {}, ["--ports=80 ", "1024 to 65520"]),
        (["--ports=18000-18010", "Hello"], {}, ["--ports=18010", "18015 to 65535"]),
        (["Hello"], {"SLURM_JOB_ID": None}, ["SLURM_JOB_ID", "srun"]),
        (["Hello"], {"MPJ_HOME": None}, ["MPJ_HOME", "not set", "module", "env_vars"]),
        (["Hello"], {"MPJ_HOME": "/nowhere"}, ["MPJ_HOME=/nowhere", "lib/mpj.jar"]),
        (
            ["--library=fastmpj", "Hello"],
            {"FMPJ_HOME": "/nowhere"},
            ["FMPJ_HOME=/nowhere", "lib/runtime.jar"],
        ),
        (
            ["--library=fastmpj", "--ports=18000-18031", "Hello"],
            {"SLURM_NTASKS": "9"},
            ["--ports=18000-18031", "32 ports", "9 ranks", "34", "java_ports"],
        ),
        (["--library=fastmpj", "Hello"], {"SLURM_NTASKS": None}, ["SLURM_NTASKS", "1 to 65536"]),
        (["--warm-up=soon", "Hello"], {}, ["--warm-up=soon", "seconds"]),
        (
            ["Hello"],
            {"JAVA_HOME": "/nowhere"},
            ["/nowhere/bin/java", os.uname().nodename, "module", "JAVA_HOME", "env_vars"],
        ),
        (["--launch=nowhere", "Hello"], {}, ["nowhere", "launcher's classes", "built"]),
    ],
)
def test_what_cannot_be_started_is_said(site, options, settings, facts):
    done = site(*options, **settings)
    assert done.returncode == 2 and not lacking(done.stderr, *facts), done.stderr
    assert done.stderr.startswith("mpj: ") and done.stderr.count("\n") == 1


# Job scripts of ReFrame


@pytest.fixture
def dry(tmp_path):
    """A function that runs tests/support/java/hello_check.py dry on an invented site.

    It returns ReFrame's output, and the lines of the job script that start JVMs.
    """
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/here.yaml").write_text(
        "name: here\nhostnames: []\nenvironments:\n- {name: mpj, modules: []}\npartitions:\n- {name: batch, scheduler: slurm, "  # noqa: E501
        "launcher: srun, environs: [mpj, fastmpj], extras: {link_class: native, link_speed_gbps: 10, hypervisor: none, "  # noqa: E501
        "cores_per_node: 2, "
        'no_baseline: it is new, java_hosts: "{}-ib", java_ports: 30000-30999, java_heap_mb: 256}}\n'  # noqa: E501
    )

    def run(environ, *options, **settings):
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "from reframe.frontend.cli import main; main()",
                "--nocolor",
                "-c",
                CHECKOUT / "tests/support/java/hello_check.py",
                "--dry-run",
                "--system",
                "here",
                "-p",
                environ,
                *options,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if not key.endswith("MPJ_HOME")}
            | settings
            | {
                "RFM_CONFIG_PATH": f"{CHECKOUT}/site-config",
                "NEARMETAL_SYSTEMS_PATH": f"{tmp_path}/systems",
                "RFM_PREFIX": str(tmp_path),
                "RFM_RESOLVE_MODULE_CONFLICTS": "0",
                "PYTHONPATH": str(CHECKOUT),
            },
        )
        scripts = tmp_path.glob("stage/here/batch/*/hello/rfm_job.sh")
        lines = [line for path in scripts for line in path.read_text().splitlines()]
        calls = [line for line in lines if line.startswith("repeats ")]
        assert all(call.startswith("repeats 5 ") for call in calls)
        return done.stdout, [line.strip() for line in lines if "jvm.sh" in line]

    return run


def test_every_launch_is_of_all_ranks_and_fastmpj_is_skipped_where_the_site_has_none(dry):
    said, lines = dry("mpj|fastmpj")
    assert lines == [
        (
            "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 "
            "sh java/launch/jvm.sh --library=express --classes=classes.mpj "
            "--launch=launch.mpj --heap=256 --device=niodev --gc=auto --pages=default "
            "--warm-up=30 --ports=30000-30999 '--hosts={}-ib' Hello 4000000"
        )
    ]
    [skipped] = [line for line in said.splitlines() if "SKIP" in line]
    assert not lacking(skipped, "FMPJ_HOME is not set", "licensed", "env_vars", "fastmpj")
    assert "Ran 1/2 test case(s)" in said


def test_threads_are_one_task(dry):
    _, lines = dry(
        "mpj", "-S", "java_device=threads", "-S", "java_heap_mb=64", "-S", "java_gc=parallel"
    )
    assert len(lines) == 1 and all(
        line.startswith(
            "srun --mpi=none --kill-on-bad-exit=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 "
            "--cpus-per-task=2 sh java/launch/jvm.sh --library=express --classes=classes.mpj "
            "--launch=launch.mpj --heap=64 --device=threads --gc=parallel "
        )
        for line in lines
    )


def test_fastmpj_is_launched_as_the_other_library_is(dry):
    said, lines = dry("fastmpj", FMPJ_HOME="/opt/fastmpj")
    assert "Ran 1/1 test case(s)" in said
    step = "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 sh "
    assert len(lines) == 1
    assert all(line.startswith(step) and "--library=fastmpj" in line for line in lines)


def test_a_setting_that_nobody_knows_is_said(dry):
    said, _ = dry("mpj", "-S", "java_device=smp")
    [reason] = [line for line in said.splitlines() if "Reason:" in line]
    assert not lacking(reason, "hello.java_device is 'smp'", "command line", "niodev, threads")
