"""perftest's parser and the transport of RDMA against recorded real output
(tests/recorded/README.md), whole and damaged."""

import re
import subprocess
from pathlib import Path

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.perftest import parse_perftest, parse_rdma
from nearmetal.checks.provenance import ProvenanceError, parse, rdma_transport, transport
from tests.support.paths import SOURCES
from tests.support.recorded import recorded

SCRIPT = SOURCES / "rdma.sh"
SIZES = [1, 1024, 65536, 1048576]
WRITE = recorded("rdma_write")
PORTS = {"vm1": "rxe0/1", "vm2": "rxe0/1"}


@pytest.mark.parametrize("operation, ways", [("read", 1), ("write", 2), ("send", 2)])
def test_a_launch(operation, ways):
    [run] = parse_rdma(recorded(f"rdma_{operation}"))
    assert run.operation == operation and run.mtu == 1024
    assert run.ports == [("vm1", "rxe0/1", "Ethernet"), ("vm2", "rxe0/1", "Ethernet")]
    assert (run.settings["Device"], run.settings["Connection type"], run.settings["GID index"]) == (
        "rxe0",
        "RC",
        "1",
    )
    assert list(run.latency_us) == list(run.bandwidth_gbps) == SIZES
    assert run.payload_bytes == (ways + 1) * 10 * sum(
        SIZES
    )  # ten messages of each size, and as many answers
    assert len(parse_rdma(recorded(f"rdma_{operation}") * 2)) == 2


def test_the_ports_are_told_in_any_order():
    first, second = (
        "# nearmetal port: 0 vm1 rxe0/1 Ethernet\n",
        "# nearmetal port: 1 vm2 rxe0/1 Ethernet\n",
    )
    [run] = parse_rdma(WRITE.replace(first + second, second + first))
    assert [port[0] for port in run.ports] == ["vm1", "vm2"]


def test_the_values_are_the_median_and_the_average():
    [run] = parse_rdma(WRITE)
    assert run.latency_us[1024] == 6362.76 and run.bandwidth_gbps[65536] == 0.021567


def test_all_sizes_in_one_table():
    [table] = parse_perftest(recorded("perftest_all"))
    assert (table.operation, table.quantity, table.program) == ("write", "bw", "ib_write_bw")
    assert list(table.values) == [2**power for power in range(1, 24)] and set(
        table.iterations.values()
    ) == {5}
    assert table.values[8388608] == 0.027318


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "no launch of rdma.sh in this output"),
        (
            "srun: error: vm2: task 1: Exited with exit code 2\n",
            "no launch of rdma.sh in this output",
        ),
        (WRITE[: WRITE.index("# nearmetal complete")], 'stops without "# nearmetal complete"'),
        (
            WRITE.replace("# nearmetal port: 1 vm2 rxe0/1 Ethernet\n", ""),
            "1 ports instead of",
        ),
        (re.sub(r"(?s)\n-{80,}\n.*(?=# nearmetal complete)", "\n", WRITE), "no table of perftest"),
        (
            WRITE.replace("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test"),
            "is not one of ib_{read,write,send}_{lat,bw}",
        ),
        (
            WRITE.replace("RDMA_Write BW Test", "RDMA_Read BW Test"),
            "read and write are in one launch",
        ),
        (WRITE.replace(" : rxe0", " : mlx5_0", 1), "ib_write_lat used mlx5_0 instead of rxe0"),
        (
            WRITE.replace(" Mtu             : 1024[B]\n", "", 1),
            "does not report its device and MTU",
        ),
        (
            WRITE.replace("BW average[Gb/sec]", "BW average[MiB/sec]"),
            "ib_write_bw has no column BW average[Gb/sec]",
        ),
        (
            WRITE.replace(" t_typical[usec]    t_avg[usec]", " t_avg[usec]"),
            "ib_write_lat has no column t_typical[usec]",
        ),
        (re.sub(r"\n 1024 .*\n-+", "", WRITE, count=1), "the table of ib_write_lat stops early"),
        (
            re.sub(r"\n 1024 .*(?=\n-+)", "", WRITE, count=1),
            "the table of ib_write_lat stops early",
        ),
        (
            re.sub(r"(\n 1024 .*)\S+(?=\n-+)", r"\n 1024    10   3947.32 ", WRITE, count=1),
            "the run was cut off",
        ),
        (
            WRITE.replace(" 6362.76 ", " nan ", 1),
            "of ib_write_lat at 1024 bytes is nan, which no measurement gives",
        ),
        (
            WRITE.replace(" 0.021567 ", " 0.000000 ", 1),
            "at 65536 bytes is 0.000000, which no measurement gives",
        ),
        (WRITE.replace("\n 1024 ", "\n 65536 "), "0.0917504 for it"),
        (WRITE.replace("\n 1024 ", "\n 65536 ", 1), "gives 65536 bytes twice"),
        (
            WRITE.replace("\n 1048576 ", "\n 2097152 ", 1),
            "have only one of latency and",
        ),
    ],
    ids=lambda value: "output" if "\n" in value else value,
)
def test_damaged_output_is_refused(text, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_rdma(text)


@pytest.mark.parametrize("end", ["\n 8388608", "0.027318            0.000000", "\n---"])
def test_a_table_of_all_sizes_cut_off_is_refused(end):
    text = recorded("perftest_all")
    with pytest.raises(ParseError, match=r"stops early|was cut off"):
        parse_perftest(text[: text.rindex(end)])


# The two nodes before and after the launch of rdma_write.txt.
BEFORE, AFTER = parse(recorded("provenance-rxe-before")), parse(recorded("provenance-rxe-after"))
PAYLOAD = parse_rdma(WRITE)[0].payload_bytes


def test_a_device_in_software_is_told_from_its_interface():
    assert transport(BEFORE, AFTER, PAYLOAD).name == "eth0 (virtio_net)"
    assert rdma_transport(BEFORE, AFTER, PAYLOAD, PORTS, 1024) == "rxe0/1 over eth0 (virtio_net)"


def counters(**change):
    """The recorded snapshots with some of the facts after, and the same of both nodes; None:
    neither had it."""
    before, after = (
        {host: dict(node) for host, node in nodes.items()} for nodes in (BEFORE, AFTER)
    )
    for key, value in change.items():
        key = key.replace("__", ".")
        for host in before:
            if value is None:
                before[host].pop(key, None), after[host].pop(key, None)
            else:
                before[host][key], after[host][key] = (
                    before[host].get(key, "0").replace("unknown", "0"),
                    str(value),
                )
    return before, after


def test_a_device_that_counts_its_bytes():
    nodes = counters(ib__rxe0__1__xmit_bytes=PAYLOAD, nic__eth0__tx_bytes=5000)
    assert rdma_transport(*nodes, PAYLOAD, PORTS, 1024) == "rxe0/1"


def test_a_virtual_function_without_counters():
    nodes = counters(ib__rxe0__1__xmit_packets=None, nic__eth0__tx_bytes=5000)
    assert rdma_transport(*nodes, PAYLOAD, PORTS, 1024) == "rxe0/1 (without counters)"


@pytest.mark.parametrize(
    "change, carrier",
    [
        (
            dict(ib__rxe0__1__xmit_packets=500),
            "eth0 (virtio_net)",
        ),  # plain sockets beside an idle device
        (dict(ib__rxe0__1__xmit_packets=None), "eth0 (virtio_net)"),
        (
            dict(ib__rxe0__1__xmit_bytes=100, nic__eth0__tx_bytes=5000),
            "shared memory or kernel bypass",
        ),
        (dict(ib__rxe1__1__xmit_bytes=PAYLOAD, nic__eth0__tx_bytes=5000), "rxe1/1"),
        (dict(lo__tx_bytes=PAYLOAD, nic__eth0__tx_bytes=5000), "loopback"),
    ],
)
def test_another_way_is_refused(change, carrier):
    with pytest.raises(
        ProvenanceError,
        match=re.escape(f"{carrier} carried the payload of {PAYLOAD} bytes, which rxe0/1"),
    ):
        rdma_transport(*counters(**change), PAYLOAD, PORTS, 1024)


def test_a_port_of_a_host_that_did_not_tell_of_itself():
    with pytest.raises(ProvenanceError, match="vm3 has an RDMA port"):
        rdma_transport(BEFORE, AFTER, PAYLOAD, {"vm3": "rxe0/1"}, 1024)


def rdma_sh(directory, *words):
    job = {
        "PATH": "/usr/bin:/bin",
        "SLURM_PROCID": "0",
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NODELIST": "n[1-2]",
    }
    return subprocess.run(
        ["sh", SCRIPT, *words], cwd=directory, env=job, capture_output=True, text=True
    )


@pytest.mark.skipif(
    any(Path("/sys/class/infiniband").glob("*")), reason="this machine has an RDMA device"
)
def test_a_node_without_a_device_says_so(tmp_path):
    done = rdma_sh(tmp_path, "port")
    assert done.returncode == 2 and done.stdout == ""
    assert re.fullmatch(r"rdma\.sh: \S+ has no RDMA device: is its driver loaded .*\n", done.stderr)


@pytest.mark.parametrize(
    "ports, message",
    [
        (
            "0 n1 mlx5_0/1 InfiniBand\n1 n2 mlx5_0/1 Ethernet\n",
            (
                "the nodes' RDMA ports have different link layers (n1 mlx5_0/1 InfiniBand,n2 "
                "mlx5_0/1 Ethernet): name like ones"
            ),
        ),
        (
            "0 n1 mlx5_0/1 InfiniBand\n1 n2 mlx5_0/1 InfiniBand\n",
            "ib_nothing_lat is not on PATH on ",
        ),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_sentence(tmp_path, ports, message):
    (tmp_path / "rdma.ports").write_text(ports)
    done = rdma_sh(tmp_path, "nothing", "10", "-", "1")
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1
