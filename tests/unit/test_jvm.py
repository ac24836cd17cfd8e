"""How programs in Java are launched: what is started, by whom the rendezvous is answered, and how a launch that fails ends.

The tests marked `node` run in the lab, whose node image has a JDK and MPJ Express, as tests/node/test_kernels.py.
"""

import os
import re
import shlex
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from nearmetal.checks.mpj import jvm_command
from nearmetal.lab.room import wait_until
from nearmetal.site import srun_mpj
from tests.support.jvm_ranks import JVM, STEP, built, ends, ranks  # noqa: F401 - fixtures
from tests.support.paths import CHECKOUT

# What is started


def test_srun_starts_a_jvm_a_task():
    assert srun_mpj.step_options(8, 4, False) == [
        "--mpi=none",
        "--kill-on-bad-exit=1",
        "--nodes=2",
        "--ntasks=8",
        "--ntasks-per-node=4",
    ]
    assert srun_mpj.step_options(2, 1, False)[2:] == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
    ]
    assert srun_mpj.step_options(2, 1, False, 2)[2:] == [
        "--nodes=2",
        "--ntasks=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=2",
    ]
    assert srun_mpj.step_options(1, 4, False)[2:] == [
        "--nodes=1",
        "--ntasks=1",
        "--ntasks-per-node=1",
    ]


def test_srun_starts_one_jvm_for_all_threads():
    assert srun_mpj.step_options(4, 4, True)[2:] == [
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
    assert (
        launcher.run_command(job)
        == "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 --cpu-bind=cores"
    )


def test_the_command_of_a_task():
    assert (
        jvm_command("Hello", heap=256, gc="", hosts="{}-ib")
        == "sh java/launch/jvm.sh --heap=256 '--hosts={}-ib' Hello"
    )
    with pytest.raises(ValueError, match="'Hello; rm' is no name of a class"):
        jvm_command("Hello; rm")


class Site:
    """A directory with libraries that hold nothing, and programs that say how they were called."""

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
        """The arguments of what was started, in order; a line for the settings comes before."""
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
    """User classes come by a property: FastMPJ ignores CLASSPATH."""
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
    """Parts of two jobs with neighbouring numbers do not overlap, nor do a job's launcher and its ranks."""

    def ports(job, ranks):
        words = site.started(
            "--library=fastmpj", "Hello", SLURM_JOB_ID=str(job), SLURM_NTASKS=str(ranks)
        )
        [launcher] = [int(word.split("=")[1]) for word in words if "nearmetal.port=" in word]
        [first] = [int(word.split("=")[1]) for word in words if "xxdev.port=" in word]
        return range(launcher, launcher + 16), range(first, first + 2 * ranks)

    for count in (1, 2, 9, 64, 1000):
        taken = [port for job in (1, 2, 3) for part in ports(job, count) for port in part]
        assert len(set(taken)) == len(taken) == 3 * (16 + 2 * count)
        assert min(taken) >= 18000 and max(taken) <= 24991


def test_a_jvm_is_set_by_its_part_of_the_job(site):
    def heap(**settings):
        started = site.started("Hello", **settings)
        return next(word for word in started if word.startswith("-Xmx")), [
            word for word in started if word.endswith("GC")
        ]

    assert heap() == ("-Xmx250m", ["-XX:+UseSerialGC"])  # half of 1000 MB / 2
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
    "options, settings, sentence",
    [
        ([], {}, "the name of the class to run is expected."),
        (
            ["--gc=g1", "Hello"],
            {},
            "--gc=g1 is no option of jvm.sh, or has a value that it does not know.",
        ),
        (
            ["--heap=600", "Hello"],
            {},
            (
                "a heap of 600 MB is above the 500 MB that a JVM has of this allocation (1000 MB a node, 2 "
                "JVMs on it): ask for more memory or give a smaller java_heap_mb."
            ),
        ),
        (["--heap=x", "Hello"], {}, "--heap=x is no whole number from 16 to 99999999."),
        (["--ports=80-90", "Hello"], {}, "--ports=80 is no whole number from 1024 to 65520."),
        (
            ["--ports=18000-18010", "Hello"],
            {},
            "--ports=18010 is no whole number from 18015 to 65535.",
        ),
        (
            ["Hello"],
            {"SLURM_JOB_ID": None},
            "this is no step of a Slurm job (no SLURM_JOB_ID): start it with srun.",
        ),
        (
            ["Hello"],
            {"MPJ_HOME": None},
            "MPJ_HOME is not set: load the library's module, or give its path in this environment's env_vars.",
        ),
        (
            ["Hello"],
            {"MPJ_HOME": "/nowhere"},
            "MPJ_HOME=/nowhere has no lib/mpj.jar: it is to be the directory of MPJ's installation.",
        ),
        (
            ["--library=fastmpj", "Hello"],
            {"FMPJ_HOME": "/nowhere"},
            "FMPJ_HOME=/nowhere has no lib/runtime.jar: it is to be the directory of FMPJ's installation.",
        ),
        (
            ["--library=fastmpj", "--ports=18000-18031", "Hello"],
            {"SLURM_NTASKS": "9"},
            (
                "--ports=18000-18031 are 32 ports, but FastMPJ takes two for each of 9 ranks beside the launcher's 16, 34: "
                "give more in the partition's extras (java_ports)."
            ),
        ),
        (
            ["--library=fastmpj", "Hello"],
            {"SLURM_NTASKS": None},
            "--SLURM_NTASKS= is no whole number from 1 to 1000.",
        ),
        (["--warm-up=soon", "Hello"], {}, "--warm-up=soon is no number of seconds."),
        (
            ["Hello"],
            {"JAVA_HOME": "/nowhere"},
            (
                f"there is no /nowhere/bin/java on {os.uname().nodename}: load the module of a JDK "
                "(17 or newer) or set JAVA_HOME in this environment's env_vars."
            ),
        ),
        (
            ["--launch=nowhere", "Hello"],
            {},
            "nowhere, where the launcher's classes are to be, is no directory: was the check built?",
        ),
    ],
)
def test_what_cannot_be_started_is_said(site, options, settings, sentence):
    done = site(*options, **settings)
    assert (done.returncode, done.stderr) == (2, f"mpj: {sentence}\n")


# What ReFrame makes of it


@pytest.fixture
def dry(tmp_path):
    """Dry runs of tests/support/java/hello_check.py on a site of its own: what is said, and the job's lines that start JVMs."""
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/here.yaml").write_text(
        "name: here\nhostnames: []\nenvironments:\n- {name: mpj, modules: []}\npartitions:\n- {name: batch, scheduler: slurm, "
        "launcher: srun, environs: [mpj, fastmpj], extras: {link_class: native, link_speed_gbps: 10, hypervisor: none, "
        "cores_per_node: 2, "
        'no_baseline: it is new, java_hosts: "{}-ib", java_ports: 30000-30999, java_heap_mb: 256}}\n'
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
        return done.stdout, [
            line for path in scripts for line in path.read_text().splitlines() if "jvm.sh" in line
        ]

    return run


def test_every_launch_is_of_all_ranks(dry):
    said, lines = dry("mpj")
    assert "Ran 1/1 test case(s)" in said
    assert (
        lines
        == [
            (
                "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 sh java/launch/jvm.sh "
                "--library=express --classes=classes.mpj --launch=launch.mpj --heap=256 --device=niodev --gc=auto "
                "--pages=default --warm-up=30 --ports=30000-30999 '--hosts={}-ib' Hello 4000000"
            )
        ]
        * 3
    )


def test_threads_are_one_task(dry):
    _, lines = dry(
        "mpj", "-S", "java_device=threads", "-S", "java_heap_mb=64", "-S", "java_gc=parallel"
    )
    assert len(lines) == 3 and all(
        line.startswith(
            "srun --mpi=none --kill-on-bad-exit=1 --nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=2 sh java/launch/jvm.sh "
            "--library=express --classes=classes.mpj --launch=launch.mpj --heap=64 --device=threads --gc=parallel "
        )
        for line in lines
    )


def test_fastmpj_is_skipped_where_the_site_has_none(dry):
    said, lines = dry("fastmpj")
    assert (
        "FMPJ_HOME is not set. FastMPJ is each site's own licensed copy: give its directory" in said
        and not lines
    )
    assert "Ran 0/1 test case(s)" in said


def test_fastmpj_is_launched_as_the_other_library_is(dry):
    said, lines = dry("fastmpj", FMPJ_HOME="/opt/fastmpj")
    assert "Ran 1/1 test case(s)" in said
    step = "srun --mpi=none --kill-on-bad-exit=1 --nodes=2 --ntasks=2 --ntasks-per-node=1 sh "
    assert len(lines) == 3
    assert all(line.startswith(step) and "--library=fastmpj" in line for line in lines)


@pytest.mark.parametrize(
    "option, sentence",
    [
        (
            "java_device=smp",
            "hello.java_device is 'smp' (command line): choose from niodev, threads",
        ),
        ("java_gc=g1", "hello.java_gc is 'g1' (command line): choose from auto, serial, parallel"),
        (
            "java_pages=huge",
            "hello.java_pages is 'huge' (command line): choose from default, transparent, explicit",
        ),
    ],
)
def test_a_setting_that_nobody_knows_is_said(dry, option, sentence):
    assert sentence in dry("mpj", "-S", option)[0]


# What it does once started

node = pytest.mark.node


def knock(port, text=b"", source="127.0.0.1", patience=15):
    """Says this to a rendezvous, as soon as there is one; what it answers, b'' where it closes without a word."""
    for _ in range(100):
        try:
            with socket.create_connection(
                ("127.0.0.1", port), patience, source_address=(source, 0)
            ) as guest:
                guest.sendall(text)
                return guest.recv(1000)
        except ConnectionRefusedError:
            time.sleep(0.1)
        except (ConnectionResetError, BrokenPipeError):
            return b""
    raise AssertionError(f"nobody listens on port {port}")


def utf(text):
    return struct.pack(">H", len(text)) + text.encode()


ESTABLISHED, LISTEN = "01", "0A"


def sockets(state):
    """The own addresses of all sockets in that state, as /proc/net/tcp* has them: `ADDRESS:PORT` in hexadecimal."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
    ]
    return [fields[1] for fields in lines if fields[3] == state]


def listening():
    return set(sockets(LISTEN))


def begun(port):
    """Waits until rank 0 has told its rendezvous there of niodev's ports: of its connections that is the second."""
    wait_until(
        lambda: sum(address.endswith(f":{port:04X}") for address in sockets(ESTABLISHED)) == 2,
        20,
        "MPI.Init of rank 0",
    )


@node
@pytest.mark.parametrize("size", [1, 2, 3])
def test_ranks_find_each_other(ranks, size):
    processes = [ranks(rank, size, "300000") for rank in range(size)]
    for rank, process in enumerate(processes):
        code, out, err = ends(process)
        assert (code, err) == (0, ""), err
        assert f"hello rank={rank} size={size} bytes=300000 calls=1\n" in out


@node
def test_threads_are_ranks_with_variables_of_their_own(ranks):
    code, out, err = ends(ranks(0, 1, options=["--device=threads", "--ranks=3"]))
    assert (code, err) == (0, "") and sorted(re.findall("hello .*", out)) == [
        f"hello rank={rank} size=3 bytes=1000 calls=1" for rank in range(3)
    ]


@node
def test_lists_of_nodes(built):
    lists = {
        "native1": "native1",
        "native[1-2]": "native1 native2",
        "a,b-1.x": "a b-1.x",
        "r[1-2]n[3-4]": "r1n3 r1n4 r2n3 r2n4",
        "cn[008-010,3],gpu[1]": "cn008 cn009 cn010 cn3 gpu1",
    }
    wrong = [
        "",
        "a,",
        "a[",
        "a]",
        "a[1-2",
        "a[[1]]",
        "a[2-1]",
        "a[x]",
        "a[]",
        "a b",
        "a;b",
        "a[1-999999999]",
        "a[0-999]b[0-999]",
    ]
    done = subprocess.run(
        ["java", "-cp", "launch.classes", "launch.Pure", *lists, *wrong],
        cwd=built,
        capture_output=True,
        text=True,
    )
    *lines, configuration = done.stdout.splitlines()
    assert lines == [
        *lists.values(),
        *(f"! '{text}' is no list of nodes as Slurm writes them" for text in wrong),
    ]
    assert (
        configuration
        == "#Number of Processes;4;#Protocol Switch Limit;131072;#Server Name;10.0.0.1;#Server Port;18032"
    )


@node
def test_strangers_malformed_and_second_ones_harm_nothing(ranks):
    first, port = ranks(0, 2), 18112
    assert knock(port, utf("nearmetal 7.0 1"), source="127.0.0.2") == b""  # not of the job
    assert (
        knock(port, utf("Sending Info") + struct.pack(">iii", 26000, 26001, 1), source="127.0.0.2")
        == b""
    )
    assert knock(port, b"GET / HTTP/1.0\r\n\r\n") == b""
    assert knock(port, b"\xff\xff" + b"x" * 70000) == b""
    assert knock(port, utf("nearmetal 8.0 1")) == b""  # of another job
    for number in ("2", "-1", "x", "0", "99999999999"):
        assert knock(port, utf(f"nearmetal 7.0 {number}")) == utf("nearmetal 7.0 refused")
    begun(port)  # what else says that it is rank 0 comes too late
    for numbers in [
        (26000, 26001, 1),
        (26000, 26001, 0),  # not announced, there already
        (80, 26001, 0),
        (26000, 26000, 0),
        (26000, 70000, 0),
        (26000, 26001, -1),
    ]:
        assert knock(port, utf("Sending Info") + struct.pack(">iii", *numbers)) == b""
    before = time.monotonic()
    assert knock(port, b"\x00") == b"" and 4 < time.monotonic() - before < 8  # says no more
    for process in (ranks(1, 2), first):
        code, out, err = ends(process)
        assert (code, err) == (0, "") and "hello rank=" in out, err


@node
def test_nothing_listens_beyond_the_jobs_network(ranks):
    before = listening()
    first = ranks(0, 2)
    knock(18112)
    begun(18112)
    opened = listening() - before
    # The rendezvous, and two ports of niodev.
    assert len(opened) == 3 and all("0100007F:" in address for address in opened), opened
    second = ranks(1, 2, "hang")
    first.kill()
    second.kill()


@node
def test_a_rank_there_twice_ends(ranks):
    ranks(0, 3)
    knock(18112)
    ranks(1, 3)
    time.sleep(2)
    code, _, err = ends(ranks(1, 3))
    assert (
        code == 1
        and err == "mpj: rank 1 on localhost: rank 1 is no rank of this job, or there already.\n"
    )


@node
def test_a_rank_that_never_comes_is_named(ranks):
    first, _ = ranks(0, 3, options=["--patience=4"]), ranks(1, 3)
    code, _, err = ends(first)
    assert code == 1 and re.fullmatch(
        r"mpj: rank 0 on localhost: after 4 s 1 of the ranks have not come to MPI.Init, \[2\]; last heard of were rank 0 "
        r"\(127.0.0.1\) [\d.]+ s ago; rank 1 \(127.0.0.1\) [\d.]+ s ago; rank 2 never\.\n",
        err,
    ), err
    code, _, err = ends(ranks(1, 3, options=["--patience=2"], SLURM_JOB_ID="9"))
    assert code == 1 and err == (
        "mpj: rank 1 on localhost: found no rank 0 of job 9.0 at the ports 18144 to 18159 of "
        "127.0.0.1 within 2 s: did it start, and may nodes reach each other there.\n"
    )


@node
@pytest.mark.parametrize(
    "how, sentence",
    [
        (
            "throw",
            "mpj: rank 1 on localhost: Hello died of java.lang.IllegalStateException: as told.",
        ),
        (
            "thread",
            "mpj: rank 1 on localhost: thread Thread-1 died of java.lang.IllegalStateException: as told.",
        ),
    ],
)
def test_an_exception_ends_the_jvm(ranks, how, sentence):
    ranks(0, 2, "hang")
    code, _, err = ends(ranks(1, 2, how))
    assert code == 1 and err.splitlines()[0] == sentence


@node
def test_a_hang_says_where_and_who_was_last_heard_of(ranks):
    processes = [ranks(rank, 2, "hang") for rank in range(2)]
    time.sleep(6)
    for process in processes:
        process.terminate()
    errors = [ends(process)[2] for process in processes]
    assert re.match(
        r"mpj: rank 0 on localhost was ended by SIGTERM, at Hello.main\(Hello.java:\d+\) in mpi.Comm.Recv; "
        r"last heard of were rank 0 \(127.0.0.1\) [\d.]+ s ago; rank 1 \(127.0.0.1\) [\d.]+ s ago",
        errors[0],
    ), errors
    assert re.fullmatch(
        r"mpj: rank 1 on localhost was ended by SIGTERM, at Hello.main\(Hello.java:\d+\) in mpi.Comm.Recv\.\n",
        errors[1],
    ), errors


@node
def test_two_jobs_and_a_port_in_use(ranks):
    """The first port of job 7 is somebody's who accepts and says nothing; job 443, of the same ports, runs beside."""
    with socket.create_server(("127.0.0.1", 18112)):
        jobs = [ranks(rank, 2, SLURM_JOB_ID=job) for job in ("7", "443") for rank in range(2)]
        for process in jobs:
            code, out, err = ends(process)
            assert code == 0 and "hello rank=" in out, err


@node
def test_no_port_left_is_said(ranks):
    taken = [socket.create_server(("127.0.0.1", port)) for port in range(18112, 18128)]
    code, _, err = ends(ranks(0, 2))
    for server in taken:
        server.close()
    assert code == 1 and err == (
        "mpj: rank 0 on localhost: the ports 18112 to 18127 of 127.0.0.1 are all in use: give others "
        "in the partition's extras (java_ports).\n"
    )


@node
@pytest.mark.parametrize(
    "settings, sentence",
    [
        ({"SLURM_PROCID": "2"}, "SLURM_PROCID is '2', not a whole number from 0 to 1"),
        ({"SLURM_STEP_NODELIST": "a["}, "'a[' is no list of nodes as Slurm writes them"),
        (
            {"SLURMD_NODENAME": "no.such.name.invalid"},
            (
                "the node name no.such.name.invalid has no address: mend /etc/hosts or DNS, "
                "or java_hosts in the extras"
            ),
        ),
        (
            {"SLURMD_NODENAME": "192.0.2.1"},
            (
                "this node has no interface with the address of 192.0.2.1, 192.0.2.1: what the extras "
                "call java_hosts is to name the node's own address"
            ),
        ),
        (
            {"SLURM_STEP_NODELIST": "localhost,other"},
            (
                "the name of this node, localhost, is 127.0.0.1 on itself, where no other "
                "node reaches it: mend /etc/hosts, or give java_hosts in the extras"
            ),
        ),
    ],
)
def test_a_rank_that_is_nowhere_is_said(ranks, settings, sentence):
    code, _, err = ends(ranks(1, 2, **settings))
    assert code == 1 and err == f"mpj: this rank: {sentence}.\n"


# In jobs of Slurm


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


@pytest.mark.lab
def test_two_nodes_say_hello_on_each_class_of_links(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab")
    assert "Ran 3/3 test case(s) from 1 check(s) (0 failure(s)" in said, said
    assert re.findall(r"hello /\w+ @lab:(\w+)\+mpj", said).count("emulated") >= 1
    for name in (
        "native",
        "passthrough",
        "emulated",
    ):  # not by way of loopback, which would be no network
        [record] = prefix.glob(f"output/lab/{name}/mpj/hello/rfm_job.out")
        assert record.read_text().count("hello rank=1 size=2 bytes=4000000") == 3


@pytest.mark.lab
def test_two_threads_say_hello(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab:native", "-S", "java_device=threads")
    assert "Ran 1/1 test case(s) from 1 check(s) (0 failure(s)" in said, said


@pytest.mark.lab
def test_a_rank_that_throws_ends_the_job_and_is_quoted(lab, prefix):
    said = say_hello(lab, prefix, "--system", "lab:native", "-S", "what=throw")
    assert re.search(
        r"ended as FAILED with exit code \d+: its last words: mpj: rank 1 on native2: Hello died of ",
        said,
    ), said
