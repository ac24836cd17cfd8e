"""perftest's parser and the RDMA transport, on recorded real output (tests/recorded/README.md) and
on damaged output."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.perftest import parse_perftest, parse_rdma
from nearmetal.checks.provenance import ProvenanceError, parse, rdma_transport, transport
from tests.support.paths import SOURCES
from tests.support.recorded import recorded
from tests.support.said import lacking

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
    # Ten messages of each size: one way in the bandwidth test, `ways` in the latency test.
    assert run.payload_bytes == (ways + 1) * 10 * sum(SIZES)
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
    "text, facts",
    [
        ("", ["no launch of rdma.sh", "it is empty"]),
        (
            "srun: error: vm2: task 1: Exited with exit code 2\n",
            ["no launch of rdma.sh", "srun: error: vm2"],
        ),
        (WRITE[: WRITE.index("# nearmetal complete")], ["rdma.sh", '"# nearmetal complete"']),
        (
            WRITE.replace("# nearmetal port: 1 vm2 rxe0/1 Ethernet\n", ""),
            ["1 ports", "rdma.ports"],
        ),
        (
            re.sub(r"(?s)\n-{80,}\n.*(?=# nearmetal complete)", "\n", WRITE),
            ["no table of perftest"],
        ),
        (
            WRITE.replace("RDMA_Write BW Test", "RDMA_Write Bidirectional BW Test"),
            ["'RDMA_Write Bidirectional BW Test'", "ib_{read,write,send}_{lat,bw}"],
        ),
        (
            WRITE.replace("RDMA_Write BW Test", "RDMA_Read BW Test"),
            ["read and write", "one launch"],
        ),
        (WRITE.replace(" : rxe0", " : mlx5_0", 1), ["ib_write_lat", "mlx5_0 instead of rxe0"]),
        (
            WRITE.replace(" Mtu             : 1024[B]\n", "", 1),
            ["ib_write_lat", "not report", "MTU"],
        ),
        (
            WRITE.replace("BW average[Gb/sec]", "BW average[MiB/sec]"),
            ["ib_write_bw", "no column BW average[Gb/sec]", "--report_gbits"],
        ),
        (
            WRITE.replace(" t_typical[usec]    t_avg[usec]", " t_avg[usec]"),
            ["ib_write_lat", "no column t_typical[usec]", "(-n)"],
        ),
        (re.sub(r"\n 1024 .*\n-+", "", WRITE, count=1), ["ib_write_lat", "stops early"]),
        (
            re.sub(r"\n 1024 .*(?=\n-+)", "", WRITE, count=1),
            ["ib_write_lat", "stops early"],
        ),
        (
            re.sub(r"(\n 1024 .*)\S+(?=\n-+)", r"\n 1024    10   3947.32 ", WRITE, count=1),
            ["'1024    10   3947.32'", "ib_write_lat", "cut off"],
        ),
        (
            WRITE.replace(" 6362.76 ", " nan ", 1),
            ["ib_write_lat", "1024 bytes", "is nan", "no measurement"],
        ),
        (
            WRITE.replace(" 0.021567 ", " 0.000000 ", 1),
            ["ib_write_bw", "65536 bytes", "is 0.000000", "no measurement"],
        ),
        (
            WRITE.replace("\n 1024 ", "\n 65536 "),
            ["ib_write_bw", "65536 bytes", "0.001432", "0.0917504"],
        ),
        (WRITE.replace("\n 1024 ", "\n 65536 ", 1), ["ib_write_lat", "65536 bytes twice"]),
        (
            WRITE.replace("\n 1048576 ", "\n 2097152 ", 1),
            ["[1048576, 2097152]", "only one of", "latency", "bandwidth"],
        ),
    ],
    ids=lambda value: "output" if isinstance(value, str) else " ".join(value),
)
def test_damaged_output_is_refused(text, facts):
    with pytest.raises(ParseError) as error:
        parse_rdma(text)
    assert not lacking(str(error.value), *facts)


@pytest.mark.parametrize("end", ["\n 8388608", "0.027318            0.000000", "\n---"])
def test_a_table_of_all_sizes_cut_off_is_refused(end):
    text = recorded("perftest_all")
    with pytest.raises(ParseError, match=r"stops early|was cut off"):
        parse_perftest(text[: text.rindex(end)])


# Snapshots of the two nodes before and after the launch in rdma_write.txt.
BEFORE, AFTER = parse(recorded("provenance-rxe-before")), parse(recorded("provenance-rxe-after"))
PAYLOAD = parse_rdma(WRITE)[0].payload_bytes


def test_a_device_in_software_is_told_from_its_interface():
    assert transport(BEFORE, AFTER, PAYLOAD).name == "eth0 (virtio_net)"
    assert rdma_transport(BEFORE, AFTER, PAYLOAD, PORTS, 1024) == "rxe0/1 over eth0 (virtio_net)"


def counters(**change):
    """The recorded snapshots with other counters after the launch, the same on both nodes. None
    removes a counter from both snapshots."""
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
    with pytest.raises(ProvenanceError) as error:
        rdma_transport(*counters(**change), PAYLOAD, PORTS, 1024)
    assert not lacking(str(error.value), f"{carrier} carried", f"{PAYLOAD} bytes", "rxe0/1")


def test_a_port_of_a_host_that_did_not_tell_of_itself():
    with pytest.raises(ProvenanceError, match="vm3 has an RDMA port"):
        rdma_transport(BEFORE, AFTER, PAYLOAD, {"vm3": "rxe0/1"}, 1024)


def rdma_sh(directory, *words):
    shutil.copy(SCRIPT.with_name("task.sh"), directory)
    job = {"PATH": "/usr/bin:/bin", "SLURM_PROCID": "0", "SLURM_JOB_ID": "1"}
    return subprocess.run(
        ["sh", SCRIPT, *words], cwd=directory, env=job, capture_output=True, text=True
    )


@pytest.mark.skipif(
    any(Path("/sys/class/infiniband").glob("*")), reason="this machine has an RDMA device"
)
def test_a_node_without_a_device_says_so(tmp_path):
    done = rdma_sh(tmp_path, "port")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("rdma.sh: ") and done.stderr.count("\n") == 1
    assert not lacking(done.stderr, os.uname().nodename, "no RDMA device", "/sys/class/infiniband")


@pytest.mark.parametrize(
    "ports, facts",
    [
        (
            "0 n1 mlx5_0/1 InfiniBand\n1 n2 mlx5_0/1 Ethernet\n",
            ["n1 mlx5_0/1 InfiniBand", "n2 mlx5_0/1 Ethernet", "link layers", "rdma_device"],
        ),
        (
            "0 n1 mlx5_0/1 InfiniBand\n1 n2 mlx5_0/1 InfiniBand\n",
            ["ib_nothing_lat", "PATH", os.uname().nodename, "perftest"],
        ),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_sentence(tmp_path, ports, facts):
    marked = "".join(f"# nearmetal port: {line}\n" for line in ports.splitlines())
    (tmp_path / "rdma.ports").write_text(f"Welcome to the node\n{marked}")
    done = rdma_sh(tmp_path, "nothing", "10", "-", "1")
    assert done.returncode == 2 and not lacking(done.stderr, *facts)
    assert done.stderr.count("\n") == 1
