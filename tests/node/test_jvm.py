"""What the launcher of JVMs does once started; the node image has a JDK and MPJ Express."""

import re
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from nearmetal.lab.namespaces import wait_until
from tests.support.jvm_ranks import ends
from tests.support.said import lacking

#: Launchers of other libraries in Java change seldom.
pytestmark = [pytest.mark.whole, pytest.mark.ci]

#: When a rank was last heard of.
AGO = r"\(127.0.0.1\) [\d.]+ s ago"


def knock(port, text=b"", source="127.0.0.1", patience=15):
    """Says this to a rendezvous, as soon as there is one; what it answers, b'' where it closes
    without a word."""
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
    """The own addresses of all sockets in that state, as /proc/net/tcp* has them: `ADDRESS:PORT` in
    hexadecimal."""
    lines = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
    ]
    return [fields[1] for fields in lines if fields[3] == state]


def listening():
    return set(sockets(LISTEN))


def begun(port):
    """Waits until rank 0 has told its rendezvous there of niodev's ports: of its connections that
    is the second."""
    wait_until(
        lambda: sum(address.endswith(f":{port:04X}") for address in sockets(ESTABLISHED)) == 2,
        20,
        "MPI.Init of rank 0",
    )


@pytest.mark.parametrize("size", [1, 3])
def test_ranks_find_each_other(ranks, size):
    processes = [ranks(rank, size, "300000") for rank in range(size)]
    for rank, process in enumerate(processes):
        code, out, err = ends(process)
        assert (code, err) == (0, ""), err
        assert f"hello rank={rank} size={size} bytes=300000 calls=1\n" in out


def test_threads_are_ranks_with_variables_of_their_own(ranks):
    code, out, err = ends(ranks(0, 1, options=["--device=threads", "--ranks=3"]))
    assert (code, err) == (0, "") and sorted(re.findall("hello .*", out)) == [
        f"hello rank={rank} size=3 bytes=1000 calls=1" for rank in range(3)
    ]


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
    assert configuration == (
        "#Number of Processes;4;#Protocol Switch Limit;131072;#Server Name;10.0.0.1;#Server "
        "Port;18032"
    )


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
    # It says no more. The launcher waits five seconds; the machine may take longer, but not less.
    assert knock(port, b"\x00") == b"" and time.monotonic() - before > 4
    for process in (ranks(1, 2), first):
        code, out, err = ends(process)
        assert (code, err) == (0, "") and "hello rank=" in out, err


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


@pytest.mark.whole
def test_a_rank_there_twice_ends(ranks):
    ranks(0, 3)
    knock(18112)
    ranks(1, 3)
    time.sleep(2)
    code, _, err = ends(ranks(1, 3))
    assert code == 1 and not lacking(err, "mpj: rank 1 on localhost", "already"), err


def test_a_rank_that_never_comes_is_named(ranks):
    first, _ = ranks(0, 3, options=["--patience=4"]), ranks(1, 3)
    alone = ranks(1, 3, options=["--patience=2"], SLURM_JOB_ID="9")
    code, _, err = ends(first)
    assert code == 1 and not lacking(err, "rank 0 on localhost", "4 s", "MPI.Init", "[2]"), err
    assert re.search(rf"rank 0 {AGO}.* rank 1 {AGO}.* rank 2 never", err), err
    code, _, err = ends(alone)
    facts = ["rank 1 on localhost", "no rank 0", "job 9.0", "18144 to 18159", "127.0.0.1", "2 s"]
    assert code == 1 and not lacking(err, *facts), err


@pytest.mark.parametrize("how, what", [("throw", "Hello"), ("thread", "thread Thread-1")])
def test_an_exception_ends_the_jvm(ranks, how, what):
    ranks(0, 2, "hang")
    code, _, err = ends(ranks(1, 2, how))
    facts = ["rank 1 on localhost", f"{what} died", "java.lang.IllegalStateException: as told"]
    assert code == 1 and not lacking(err.splitlines()[0], *facts), err


def test_a_hang_says_where_and_who_was_last_heard_of(ranks):
    processes = [ranks(rank, 2, "hang") for rank in range(2)]
    time.sleep(6)
    for process in processes:
        process.terminate()
    errors = [ends(process)[2] for process in processes]
    place = r"SIGTERM.* Hello.main\(Hello.java:\d+\) in mpi.Comm.Recv"
    assert re.search(rf"rank 0 on localhost .*{place}.* rank 0 {AGO}.* rank 1 {AGO}", errors[0])
    assert re.search(f"rank 1 on localhost .*{place}", errors[1]), errors
    assert errors[1].count("\n") == 1


def test_two_jobs_and_a_port_in_use(ranks):
    """The first port of job 7 is somebody's who accepts and says nothing; job 443, of the same
    ports, runs beside."""
    with socket.create_server(("127.0.0.1", 18112)):
        jobs = [ranks(rank, 2, SLURM_JOB_ID=job) for job in ("7", "443") for rank in range(2)]
        for process in jobs:
            code, out, err = ends(process)
            assert code == 0 and "hello rank=" in out, err


def test_no_port_left_is_said(ranks):
    taken = [socket.create_server(("127.0.0.1", port)) for port in range(18112, 18128)]
    code, _, err = ends(ranks(0, 2))
    for server in taken:
        server.close()
    facts = ["rank 0 on localhost", "18112 to 18127", "127.0.0.1", "in use", "java_ports"]
    assert code == 1 and not lacking(err, *facts), err


@pytest.mark.parametrize(
    "settings, facts",
    [
        ({"SLURM_PROCID": "2"}, ["SLURM_PROCID is '2'", "0 to 1"]),
        ({"SLURM_STEP_NODELIST": "a["}, ["'a['", "list of nodes"]),
        (
            {"SLURMD_NODENAME": "no.such.name.invalid"},
            ["no.such.name.invalid", "no address", "/etc/hosts", "java_hosts"],
        ),
        ({"SLURMD_NODENAME": "192.0.2.1"}, ["interface", "192.0.2.1", "java_hosts"]),
        (
            {"SLURM_STEP_NODELIST": "localhost,other"},
            ["localhost", "127.0.0.1", "no other node", "/etc/hosts", "java_hosts"],
        ),
    ],
)
def test_a_rank_that_is_nowhere_is_said(ranks, settings, facts):
    code, _, err = ends(ranks(1, 2, **settings))
    assert code == 1 and err.startswith("mpj: ") and not lacking(err, *facts), err
