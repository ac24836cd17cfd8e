"""The facts and the transport, from recorded real output of ``provenance.sh`` and from made-up
counters.

``recorded/provenance-host.txt`` is one virtual machine (KVM, a container in it).  The pairs
``provenance-*-before.txt`` (every fact) and ``-after.txt`` (counters only) are network namespaces
on it, before and after one TCP stream of 20 MB from node1 to node2 over ``eth0``: a veth pair,
macvlan in passthru mode, a tap device with a user-space switch between the two, a bridge (``br0``
over a veth on node1); ``loopback`` is one node talking to itself.  Only host names were set.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal.checks import provenance
from nearmetal.checks.provenance import (
    COUNTER,
    LEAST_PAYLOAD,
    MARK,
    Nodes,
    ProvenanceError,
    common,
    disturbance,
    foreign_processes,
    parse,
    transport,
    with_foreign_processes,
    without_growth,
)
from nearmetal.cluster import node as node_facts
from nearmetal.expectations import hardware
from nearmetal.model.facts import of_hypervisor
from tests.support.marked import FOREIGN, between_lines, marked
from tests.support.paths import RECORDED, SOURCES
from tests.support.said import lacking

SCRIPT, NODE = SOURCES / "provenance.sh", node_facts.SCRIPT
#: What processors tell, and what has to follow.
PROCESSORS = yaml.safe_load((RECORDED / "processors.yaml").read_text())
PAYLOAD = 20_000_000
NODE_KEYS = {
    "kernel",
    "hypervisor",
    "container",
    "dmi",
    "cpu_model",
    "cpus",
    "numa_nodes",
    "governor",
    "smt",
    "thp",
    "mem_total_kb",
    "huge_pages",
    "mitigations",
    "lo.tx_bytes",
    "lo.rx_bytes",
}
NIC_KEYS = {"driver", "mtu", "speed", "offloads", "lower", "tx_bytes", "rx_bytes"}
NAMES = ["host", *(f"{kind}-before" for kind in ("veth", "macvlan", "tap", "bridge", "loopback"))]


def recorded(name: str) -> Nodes:
    return parse((RECORDED / f"provenance-{name}.txt").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_every_fact_has_its_line(name):
    for node in recorded(name).values():
        assert set(node) >= NODE_KEYS and all(node.values())
        assert {f"nic.eth0.{key}" for key in NIC_KEYS} <= set(node)


def test_a_virtual_machine():
    host = recorded("host")["node1"]
    assert (host["hypervisor"], host["container"], host["dmi"]) == ("kvm", "docker", "unknown")
    assert (host["cpu_model"], host["cpus"], host["governor"]) == ("AMD EPYC", "2", "not exposed")
    assert host["mitigations"] == "vulnerable:2 mitigated:2" and host["thp"] == "madvise"
    assert (
        host["nic.eth0.driver"] == "virtio_net"
        and host["nic.eth0.offloads"] == "tso:on gso:on gro:on lro:off"
    )


def test_guests_say_that_their_cpu_is_emulated_and_what_their_firmware_tells_of_the_rest():
    nodes = recorded("guests")
    assert sorted(nodes) == ["vm1", "vm2"] and all(
        set(node) >= NODE_KEYS for node in nodes.values()
    )
    for node in nodes.values():
        assert (node["hypervisor"], node["accelerator"], node["nic.eth0.driver"]) == (
            "qemu",
            "tcg",
            "virtio_net",
        )
        assert node["dmi"] == "QEMU lab guest: tcg, virtio, vCPUs not pinned, small pages"


@pytest.mark.parametrize(
    "kind, carrier",
    [
        ("veth", "eth0 (veth)"),
        ("macvlan", "eth0 (macvlan passthru)"),
        ("tap", "eth0 (tap)"),
        ("bridge", "eth0 (veth)"),
    ],
)
def test_what_carried_a_stream(kind, carrier):
    result = transport(recorded(f"{kind}-before"), recorded(f"{kind}-after"), PAYLOAD)
    assert result.carriers == [carrier] and result.name == carrier
    assert (
        PAYLOAD < result.network_bytes < 1.1 * PAYLOAD
    )  # headers and acknowledgements; a bridge doesn't count twice
    assert result.loopback_bytes == result.unseen_bytes == 0
    assert result.by_host["node1"][carrier] > PAYLOAD > 20 * result.by_host["node2"][carrier]


def test_loopback():
    result = transport(recorded("loopback-before"), recorded("loopback-after"), PAYLOAD)
    assert (
        result.name == "loopback"
        and result.loopback_bytes > PAYLOAD
        and result.network_bytes < 1000
    )


def test_shared_memory():
    node = recorded("loopback-before")
    result = transport(node, node, PAYLOAD)
    assert (
        result.name == "shared memory" and result.carriers == [] and result.unseen_bytes == PAYLOAD
    )
    nodes = recorded("veth-before")
    assert transport(nodes, nodes, PAYLOAD).name == "shared memory or kernel bypass"


def test_no_driver_in_the_first_snapshot():
    before = {
        host: {key: value for key, value in node.items() if key.endswith("_bytes")}
        for host, node in recorded("veth-before").items()
    }
    assert transport(before, recorded("veth-after"), PAYLOAD).name == "eth0"


def snapshots(**sent: int | str) -> tuple[Nodes, Nodes]:
    keys = {key.replace("__", "."): value for key, value in sent.items()}
    return {"a": dict.fromkeys(keys, "100")}, {
        "a": {key: str(value) for key, value in keys.items()}
    }


def test_infiniband_and_ipoib():
    before, after = snapshots(
        ib__mlx5_0__1__xmit_bytes=PAYLOAD, nic__ib0__tx_bytes=500, nic__eth0__tx_bytes=5000
    )
    before["a"] |= {"nic.ib0.lower": "mlx5_0/1", "nic.ib0.driver": "mlx5_core"}
    assert transport(before, after, PAYLOAD).by_host == {
        "a": {"mlx5_0/1": PAYLOAD - 100, "eth0": 4900}
    }
    assert transport(before, after, PAYLOAD).name == "mlx5_0/1"


def test_the_bytes_of_a_repeat_that_ran_again_are_left_out():
    first, after = snapshots(nic__eth0__tx_bytes=3 * PAYLOAD + 100, lo__tx_bytes="unknown")
    _, last = snapshots(nic__eth0__tx_bytes=2 * PAYLOAD + 100, lo__tx_bytes=100)
    corrected = without_growth(after, first, last)
    assert corrected["a"] == {"nic.eth0.tx_bytes": str(PAYLOAD + 100), "lo.tx_bytes": "unknown"}
    assert transport(first, corrected, PAYLOAD).by_host == {"a": {"eth0": PAYLOAD}}
    assert without_growth(after, {}, last) == after


def test_a_vlan_on_a_bond_is_counted_once():
    half = PAYLOAD // 2 + 100
    before, after = snapshots(
        nic__bond0__tx_bytes=PAYLOAD + 100, nic__eth0__tx_bytes=half, nic__eth1__tx_bytes=half
    )
    before["a"] |= {
        "nic.bond0.100.tx_bytes": "100",
        "nic.bond0.100.lower": "bond0",
        "nic.bond0.lower": "eth0,eth1",
    }
    after["a"]["nic.bond0.100.tx_bytes"] = str(PAYLOAD)
    result = transport(before, after, PAYLOAD)
    assert result.network_bytes == PAYLOAD and result.name == "eth0 + eth1"


def test_the_share():
    before, after = snapshots(
        nic__eth0__tx_bytes=100 + PAYLOAD // 20, nic__eth1__tx_bytes=99 + PAYLOAD // 20
    )
    assert transport(before, after, PAYLOAD).carriers == ["eth0"]


def test_many_nodes_carry_a_little_each():
    before = {f"n{i}": {"nic.eth0.tx_bytes": "0"} for i in range(100)}
    after = {host: {"nic.eth0.tx_bytes": str(PAYLOAD // 100)} for host in before}
    assert transport(before, after, PAYLOAD).name == "eth0"


def test_unknown_and_new_counters_are_left_out():
    before, after = snapshots(ib__efa_0__1__xmit_bytes="unknown", nic__eth0__tx_bytes=100)
    after["a"]["nic.eth1.tx_bytes"] = str(PAYLOAD)
    assert transport(before, after, PAYLOAD).by_host == {"a": {"eth0": 0}}


@pytest.mark.parametrize(
    "after, payload, message",
    [
        ({}, PAYLOAD, "^a .*first .*not .*second"),
        (
            {"a": {"nic.eth0.tx_bytes": "99"}},
            PAYLOAD,
            "eth0.tx_bytes .*backwards, from 100 to 99",
        ),
        ({"a": {"nic.eth0.tx_bytes": "100"}}, LEAST_PAYLOAD - 1, "does not stand out"),
    ],
)
def test_no_transport_can_be_told(after, payload, message):
    with pytest.raises(ProvenanceError, match=message):
        transport({"a": {"nic.eth0.tx_bytes": "100"}}, after, payload)
    with pytest.raises(ProvenanceError, match="no host"):
        transport({}, {}, PAYLOAD)


def test_common():
    nodes = recorded("bridge-before")
    nodes["node2"]["kernel"] = "5.14.0"
    facts, heterogeneous = common(nodes)
    assert (
        heterogeneous[0] == "kernel" and facts["kernel"] == f"5.14.0 | {nodes['node1']['kernel']}"
    )
    assert set(heterogeneous[1:]) == {
        f"nic.br0.{key}" for key in NIC_KEYS if not key.endswith("_bytes")
    }
    assert facts["nic.br0.driver"] == "absent | bridge" and facts["cpus"] == "2"
    assert not [key for key in facts if key.endswith("_bytes")]
    assert common(recorded("veth-before"))[1] == []
    with pytest.raises(ProvenanceError):
        common({})


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "printed nothing"),
        ("slurmstepd: error: x=1\n", "printed nothing"),
        (f"{MARK}a kernel=6.1\n{MARK}a cp", "line 2 .*a cp'"),
        (f"{MARK}a kernel=", "line 1"),
        (f"Welcome{MARK}a kernel=6.1\n", "line 1"),
        (marked("a k=1\nb k=1\na k=1\n"), "line 3: a reports k twice"),
        (f"{MARK}a kernel=6.1\n", "a does not report lines"),
        (f"{MARK}a kernel=6.1\n{MARK}a lines=3\n", "a reports 3 lines, but 2 are here"),
    ],
)
def test_malformed(text, message):
    with pytest.raises(ProvenanceError, match=message):
        parse(text)


@pytest.mark.parametrize("line", FOREIGN)
def test_lines_of_others_are_no_facts(line):
    text = (RECORDED / "provenance-guests.txt").read_text()
    assert parse(between_lines(text, line)) == parse(text)


@pytest.mark.parametrize("host", ["cn-001.alpine.example.org", "other-name"])
def test_an_output_names_the_node_of_each_host(host):
    nodes = parse(marked(f"cn-001 machine.host={host}\ncn-002 machine.host=cn-002\n"))
    text = "# nearmetal rank 0: host={0} cpu=0\n# nearmetal port: 1 {0} a/1 Ethernet\nhost={1}\n"
    assert provenance.by_node(text.format(host, host), nodes) == text.format("cn-001", host)


def test_values_keep_their_spaces_and_signs():
    assert parse(marked("n1 cpu_model=A = B  c\nn1.x dmi=-\n")) == {
        "n1": {"cpu_model": "A = B  c"},
        "n1.x": {"dmi": "-"},
    }


@pytest.mark.skipif(not Path("/proc/net/dev").exists(), reason="needs Linux")
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_script_here(shell):
    if not shutil.which(shell):
        pytest.skip(f"no {shell} on this machine")
    run = [shell, str(SCRIPT)]
    full = subprocess.run(run, capture_output=True, text=True, check=True)
    counters = subprocess.run([*run, "counters"], capture_output=True, text=True, check=True)
    assert full.stderr == counters.stderr == ""
    ((host, facts),) = parse(full.stdout).items()
    assert NODE_KEYS | {"accelerator"} <= set(facts)
    assert (facts["accelerator"] == "tcg") == (facts["hypervisor"] == "qemu")
    now = parse(counters.stdout)[host]
    assert {key for key in facts if key.endswith("_bytes")} <= set(now)
    assert all(COUNTER.fullmatch(key) for key in now)
    assert facts["process_view"] in ("all", "our own alone (hidepid)")
    assert "clock.uptime" in facts and "clock.uptime" in now
    assert facts["machine.part"] in ("whole", "container") and "-" in facts["machine.boot"]
    assert {"count.cpu.busy", "count.cpu.idle", "count.cpu.steal", "count.cpu.interrupts"} <= set(
        now
    )
    assert list(now)[-1] == "lo.rx_bytes"  # disturbed.awk knows by it that a snapshot is whole
    assert subprocess.run([*run, "nonsense"], capture_output=True).returncode == 2


def quick(script: Path) -> str:
    """The text of a script that reads one process in place of all."""
    return script.read_text().replace(" /proc/[0-9]*/stat", " /proc/self/stat")


def module(number: int, size: str | None = "17179869184", **properties: str) -> str:
    """What udev keeps of a memory module; the order is a hash table's."""
    known = {"SPEED_MTS": "3200", "CONFIGURED_SPEED_MTS": "2933", "DATA_WIDTH": "64", **properties}
    known = {"VOLATILE_SIZE": "17179869184", "TYPE": "DDR4", **known}
    if size is None:
        return f"E:MEMORY_DEVICE_{number}_PRESENT=0\n"
    lines = [f"E:MEMORY_DEVICE_{number}_{key}={value}" for key, value in known.items() if value]
    return "\n".join([*lines, f"E:MEMORY_DEVICE_{number}_SIZE={size}", ""])


@pytest.mark.parametrize(
    "text, rate",
    [
        (module(0) + module(11), "46928"),
        (module(0) + module(1, None), "23464"),
        (module(0, CONFIGURED_SPEED_MTS=""), "25600"),
        (module(0) + module(1, CONFIGURED_SPEED_MTS="", SPEED_MTS=""), "unknown"),
        (module(0, DATA_WIDTH=""), "unknown"),
        (module(0, SPEED_MTS="$(id)", CONFIGURED_SPEED_MTS="1;id"), "unknown"),
        ("E:MEMORY_ARRAY_MAX_CAPACITY=1\nE:MEMORY_DEVICE_;id_SIZE=1\n", "unknown"),
        ("", "unknown"),
        (None, "unknown"),
    ],
)
def test_the_rate_of_the_memory_modules_is_udevs(tmp_path, text, rate):
    if text is not None:
        (tmp_path / "dmi").write_text(text)
    changed = quick(SCRIPT).replace("/run/udev/data/+dmi:id", str(tmp_path / "dmi"))
    assert str(tmp_path) in changed
    (tmp_path / "provenance.sh").write_text(changed)
    run = ["sh", str(tmp_path / "provenance.sh")]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    [facts] = parse(done.stdout).values()
    assert facts["memory_modules_mbps"] == rate and not done.stderr


@pytest.mark.parametrize(
    "slurm, task, node",
    [
        ("", "", "n1"),
        ("n1", "0", "n1"),
        ("n2", "", "n1"),  # of another launcher than srun, which passes on that of the first node
        ("n1.example.org", "0", "n1.example.org"),
        ("cn-001", "0", "cn-001"),  # NodeName=cn-001 NodeHostName=n1.example.org
    ],
)
def test_a_node_has_its_name_in_slurm(tmp_path, slurm, task, node):
    (tmp_path / "hostname").write_text("n1.example.org\n")
    own = os.environ | {"SLURMD_NODENAME": slurm, "SLURM_PROCID": task}
    for script in (SCRIPT, NODE):
        text = quick(script).replace("/proc/sys/kernel/hostname", str(tmp_path / "hostname"))
        (tmp_path / script.name).write_text(text)
        run = ["sh", tmp_path / script.name]
        done = subprocess.run(run, capture_output=True, text=True, check=True, env=own)
        assert list(parse(done.stdout)) == [node]


@pytest.mark.parametrize("node", PROCESSORS, ids=lambda node: node["name"])
def test_the_processors_of_today(facts_below, tmp_path, node):
    lscpu = tmp_path / "bin" / "lscpu"
    lscpu.parent.mkdir()
    lscpu.write_text(f"#!/bin/sh\ncat <<'EOF'\n{node.get('lscpu', '')}EOF\n")
    lscpu.chmod(0o755)
    if length := node.get("sve_bytes"):
        (tmp_path / "proc/sys/abi").mkdir(parents=True)
        (tmp_path / "proc/sys/abi/sve_default_vector_length").write_text(f"{length}\n")
    facts = facts_below(node["cpuinfo"])
    assert {key: facts[key] for key in node["facts"]} == node["facts"]
    assert facts["threads_per_core"].isdecimal()
    assert hardware.core_gflops({**facts, "clock_khz": "1000000"}) == node["operations"]


def test_dash_reads_all_digits_of_the_length_of_vectors(facts_below, tmp_path):
    """The kernel gives one digit a read of a number below /proc/sys. By default this one is 64."""
    (tmp_path / "proc/sys/abi").mkdir(parents=True)
    number = Path("/proc/sys/net/ipv4/ip_default_ttl")
    assert number.read_text() == "64\n"
    (tmp_path / "proc/sys/abi/sve_default_vector_length").symlink_to(number)
    assert facts_below("Features : fp asimd sve\n\n")["vector"] == "sve512"


INTEL = "model name : X\nflags : fpu vmx ept hypervisor\n\n"
AMD = "model name : Y\nflags : fpu svm npt hypervisor\n\n"
PLAIN = "model name : Z\nflags : fpu hypervisor\n\n"
BARE = "model name : Z\nflags : fpu\n\n"
LAB_GUEST = "lab guest: tcg, virtio, vCPUs {}, {} pages"


@pytest.fixture
def facts_below(tmp_path):
    """Runs provenance.sh with files of /sys and /proc made up; returns the node's facts."""
    if not shutil.which("dash"):
        pytest.skip("no dash on this machine")

    def run(cpuinfo=PLAIN, vendor="", product="", virtual="", **files):
        changed = quick(SCRIPT).replace("PATH=$PATH:", f"PATH={tmp_path}/bin:$PATH:")
        # Without systemd-detect-virt, vendor, product and the CPU say what it is.
        made_up = {
            "/proc/cpuinfo": cpuinfo,
            "/sys/class/dmi/id/sys_vendor": vendor,
            "/sys/class/dmi/id/product_name": product,
            "/sys/hypervisor/type": "",
            "/proc/sys/abi/": None,
            "/sys/module": None,
            "/sys/kernel/mm/ksm/": None,
        }
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "systemd-detect-virt").write_text(f"#!/bin/sh\necho {virtual}\n")
        (tmp_path / "bin" / "systemd-detect-virt").chmod(0o755)
        for place, text in made_up.items():
            assert place in changed, place
            changed = changed.replace(place, f"{tmp_path}{place}")
            if text is not None:
                (tmp_path / place[1:]).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / place[1:]).write_text(text)
        for place, text in files.items():
            path = tmp_path / "sys" / place.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "provenance.sh").write_text(changed)
        command = ["dash", str(tmp_path / "provenance.sh")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        [facts] = parse(done.stdout).values()
        assert not done.stderr
        return facts

    return run


@pytest.mark.parametrize(
    "node, nested",
    [
        ({"cpuinfo": INTEL, "vendor": "QEMU"}, "ept"),
        ({"cpuinfo": AMD, "vendor": "QEMU"}, "npt"),
        ({"cpuinfo": PLAIN, "vendor": "QEMU"}, "unknown"),
        ({"cpuinfo": INTEL, "vendor": "Xen"}, "unknown"),
        ({"cpuinfo": AMD.replace("Y", "TCG CPU"), "vendor": "QEMU"}, "emulated"),
        ({"cpuinfo": BARE, "vendor": "Dell"}, "none"),
    ],
)
def test_nested_paging_is_known_where_the_guest_sees_it(facts_below, node, nested):
    assert facts_below(**node)["nested_paging"] == nested


@pytest.mark.parametrize(
    "cpuinfo, accelerator", [(AMD, "kvm"), (AMD.replace("Y", "QEMU TCG CPU version 2.5+"), "tcg")]
)
def test_a_guest_by_kvm_of_an_emulated_machine_runs_by_tcg(facts_below, cpuinfo, accelerator):
    facts = facts_below(cpuinfo, "QEMU", virtual="kvm")
    assert (facts["hypervisor"], facts["accelerator"]) == ("kvm", accelerator)


def test_what_kvm_of_the_node_gives_its_guests(facts_below):
    assert facts_below(module__kvm_intel__parameters__ept="Y\n")["kvm_paging"] == "ept"
    assert facts_below(module__kvm_intel__parameters__ept="N\n")["kvm_paging"] == "shadow"


def test_a_node_without_kvm_or_without_modules(facts_below):
    assert facts_below()["kvm_paging"] == "unknown"
    assert facts_below(module__other__x="1\n")["kvm_paging"] == "none"
    assert facts_below(module__kvm_amd__parameters__npt="1\n")["kvm_paging"] == "npt"


@pytest.mark.parametrize(
    "product, pinning, pages",
    [
        (LAB_GUEST.format("pinned", "huge"), "pinned", "large"),
        (LAB_GUEST.format("not pinned", "small"), "not pinned", "small"),
        ("Standard PC", "unknown", "unknown"),
    ],
)
def test_pinning_and_pages_of_the_host_are_known_by_the_firmware(
    facts_below, product, pinning, pages
):
    facts = facts_below(vendor="QEMU", product=product)
    assert (facts["vcpu_pinning"], facts["host_pages"]) == (pinning, pages)
    bare = facts_below(BARE, "Dell", "PowerEdge")
    assert (bare["vcpu_pinning"], bare["host_pages"]) == ("none", "none")


@pytest.mark.parametrize(
    "run, sharing, fact",
    [
        ("0\n", "0\n", "off"),
        ("0\n", "12\n", "off, pages shared"),
        ("1\n", "0\n", "on"),
        ("1\n", "12\n", "on, pages shared"),
        ("", "", "unknown"),
    ],
)
def test_ksm(facts_below, run, sharing, fact):
    facts = facts_below(kernel__mm__ksm__run=run, kernel__mm__ksm__pages_sharing=sharing)
    assert facts["ksm"] == fact and facts["page_kb"].isdecimal()


def test_what_a_guest_cannot_see_is_as_the_site_says_else_unknown():
    guest = {"hypervisor": "kvm", "nested_paging": "unknown", "vcpu_pinning": "unknown"}
    assert set(of_hypervisor(guest, {}).values()) == {"unknown"}
    said = {
        "nested_paging": "shadow",
        "binding": "vcpu",
        "host_pages": "large",
        "host_ksm": "enabled",
        "write_combining": "disabled",
    }
    assert of_hypervisor(guest, said) == {
        "nested_paging": "shadow",
        "vcpu_pinning": "pinned",
        "host_pages": "large",
        "host_ksm": "enabled",
        "write_combining": "disabled",
    }
    assert of_hypervisor({**guest, "nested_paging": "ept"}, said)["nested_paging"] == "ept"
    assert set(of_hypervisor({"hypervisor": "none"}, {}).values()) == {"none"}


TICK = os.sysconf("SC_CLK_TCK")


def seen(uptime: float, host: str = "a", **ticks: tuple[int, int, float]) -> Nodes:
    """A snapshot: by command a user's number, the number of processes and their seconds."""
    lines = [f"{host} clock.uptime={uptime}", f"{host} process_view=all"]
    for command, (uid, number, seconds) in ticks.items():
        lines.append(f"{host} process.{uid}.{command}={number} {round(seconds * TICK)}")
    return parse(marked("\n".join(lines)))


def test_a_foreign_process_is_told_by_what_it_used_during_the_job():
    before = seen(100, busy=(0, 1, 500), idle=(0, 3, 70), ended=(0, 1, 40))
    after = seen(110, busy=(0, 2, 515), idle=(0, 3, 70.4), new=(0, 1, 5))
    found = foreign_processes(before, after)
    assert [(one.command, one.number, one.share) for one in found] == [
        ("busy", 2, 1.5),
        ("new", 1, 0.5),
    ]
    assert disturbance(before, after) == (
        "foreign processes on a: root busy (2 processes, 150 % of a processor), root new (50 "
        "% of a processor)"
    )


def test_the_fact_holds_names_alone_so_that_equal_nodes_have_equal_facts():
    first = with_foreign_processes(seen(100, busy=(0, 1, 500)), seen(110, busy=(0, 1, 509)))
    second = with_foreign_processes(seen(300, busy=(0, 1, 9)), seen(400, busy=(0, 2, 60)))
    facts, differing = common(first)
    assert common(second) == (facts, differing) and differing == []
    assert facts == {"process_view": "all", "foreign_processes": "root busy"}
    quiet = with_foreign_processes(seen(100), seen(110))
    assert common(quiet)[0]["foreign_processes"] == "none"


def test_of_processes_that_cannot_be_seen_the_fact_does_not_say_none():
    before = {"a": {**seen(100)["a"], "process_view": "our own alone (hidepid)"}}
    assert with_foreign_processes(before, seen(110))["a"]["foreign_processes"] == "none visible"


def test_of_a_job_that_was_ended_users_processes_are_told_by_what_they_had_used():
    before = seen(100, daemon=(0, 1, 500), stress=(1000, 2, 31), shell=(1000, 1, 0.2))
    told = disturbance(before, {})
    assert not lacking(told, "stress", "2 processes", "31 s", "before the job")
    assert "daemon" not in told and "shell" not in told


@pytest.mark.parametrize(
    "line",
    ["process.0.x=1", "process.0.x=1 2 3", "process.0.x=a b", "process.x=1 2", "process.=1 2"],
)
def test_a_damaged_line_of_a_process_names_nothing(line):
    nodes = parse(marked(f"a clock.uptime=5\na {line}\n"))
    assert foreign_processes(nodes, nodes) == [] and disturbance(nodes, {}) == ""
    assert disturbance(nodes, parse(marked(f"a clock.uptime=yes\na {line}\n"))) == ""


def test_full_file_systems_are_told():
    told = disturbance(
        parse(marked("a full_file_systems=/tmp /dev/shm\nb full_file_systems=none\n")), {}
    )
    assert told == "full file systems on a: /tmp /dev/shm"


BURN = """
import ctypes, os, sys, time
if len(sys.argv) > 2:
    ctypes.CDLL(None).prctl(15, sys.argv[2].encode(), 0, 0, 0)
print("ready", flush=True)
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end:
    pass
print("burnt", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def burning():
    """Starts processes that use a processor for so many seconds and then wait; ends them."""
    started = []

    def burn(seconds: float, name: str, new_session: bool = True, **environment):
        process = subprocess.Popen(
            [sys.executable, "-c", BURN, str(seconds), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=new_session,
            env={**os.environ, **environment},
        )
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield burn
    for process in started:
        process.kill()
        process.wait()


def snapshot(*mode, **environment) -> Nodes:
    """What the script says from a session of its own, as a job's is."""
    done = subprocess.run(
        ["sh", str(SCRIPT), *mode],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )
    return parse(done.stdout)


def test_the_script_reads_settings_of_the_kernel_and_of_mpi_libraries():
    settings = {"UCX_TLS": "tcp,self", "OMPI_MCA_btl": "^openib; x", "PASSWORD": "none of ours"}
    # What mpirun of Open MPI 4 and 5 sets for its ranks differs from job to job.
    names = ("ess_base_jobid", "ess", "orte_hnp_uri", "prte_num_nodes", "initial_wdir", "num_procs")
    settings |= {f"OMPI_MCA_{name}": "1" for name in names}
    ((_, facts),) = snapshot(**settings).items()
    for name in ("tcp_rmem", "tcp_wmem"):
        path = Path("/proc/sys/net/ipv4", name)
        assert facts[name] == (" ".join(path.read_text().split()) if path.exists() else "unknown")
    assert facts["mpi_settings"] == "OMPI_MCA_btl=^openib; x; UCX_TLS=tcp,self"
    names = ("tcp_congestion", "clock_source", "microcode", "bios", "numa_balancing", "rmem_max")
    assert not set(names) - set(facts)
    assert facts["cpus_allowed"] == str(len(os.sched_getaffinity(0)))


def test_settings_of_libraries_are_recorded_and_no_others():
    """Whatever a value holds: a line that looks like another variable, or is without end."""
    names = "FI_X I_MPI_FABRICS MPICH_X MV2_X NCCL_X OMPI_X PMIX_MCA_X PRTE_MCA_X PSM2_X PSM3_X"
    mpi = {**dict.fromkeys(names.split(), "shm:ofi"), "UCX_TLS": "rc\nFI_Y=1\033[0m"}
    programs = {"GLIBC_TUNABLES": "glibc.malloc.x=1", "LD_PRELOAD": "", "MALLOC_X": "9" * 400}
    programs |= {"KMP_AFFINITY": "none", "OMP_PLACES": "cores"}
    others = {"AWS_SECRET_KEY": "x\nOMP_STACKSIZE=secret", "GLIBC_TUNABLES_OF_MINE": "secret"}
    launcher = {"OMPI_COMM_WORLD_RANK": "3", "MV2_COMM_WORLD_RANK": "3", "I_MPI_HYDRA_X": "1"}
    ((_, facts),) = snapshot(**mpi, **programs, **others, **launcher).items()
    mpi["UCX_TLS"] = "rc?FI_Y=1?[0m"
    assert facts["mpi_settings"] == "; ".join(f"{name}={mpi[name]}" for name in sorted(mpi))
    programs["MALLOC_X"] = "9" * (300 - len("MALLOC_X=")) + "..."
    ours = (f"{name}={programs[name]}" for name in sorted(programs))
    assert facts["program_settings"] == "; ".join(ours)
    assert "secret" not in str(facts)


def test_a_job_that_failed_has_the_facts_of_its_first_snapshot():
    text = "n2 kernel=6\nn1 kernel=6\nn1 lo.tx_bytes=1\nn2 lo.tx_bytes=2\n"
    found = provenance.of_nodes(marked(text))
    assert found == {"kernel": "6", "differs_between_nodes": [], "nodes": ["n1", "n2"]}
    assert provenance.of_nodes("") == provenance.of_nodes("damaged") == {}


def processes_seen(**environment) -> set[str]:
    """Names of the processes that the script takes for foreign ones."""
    [facts] = snapshot("counters", **environment).values()
    return {one["command"] for one in filter(None, map(provenance.PROCESS.fullmatch, facts))}


def test_the_script_names_a_process_whatever_it_calls_itself(burning):
    for name in ("burner", "b) R 1 1 (", "a\nb c", "x=y z"):
        assert burning(0.1, name).stdout.readline() == "burnt\n"
    # As a fact's name allows it.
    assert processes_seen() >= {"burner", "b__R_1_1__", "a_b_c", "x_y_z"}


def test_the_jobs_own_processes_are_not_foreign(burning):
    """Also outside of its session, where their environment names the job."""
    job = {"SLURM_JOB_ID": "4711"}
    for name, theirs in (("of-the-job", job), ("left-over", {"SLURM_JOB_ID": "4710"})):
        assert burning(0.1, name, **theirs).stdout.readline() == "burnt\n"
    seen = processes_seen(**job)
    assert "left-over" in seen and "of-the-job" not in seen


CGROUPS = [
    root
    for root in (Path("/sys/fs/cgroup", name) for name in ("cpuacct", "unified", ""))
    if (root / "cgroup.procs").exists() and os.access(root, os.W_OK)
]


@pytest.mark.parametrize("keeper", ["step_extern", "step_batch", ""])
@pytest.mark.parametrize("root", CGROUPS, ids=str)
def test_the_jobs_processor_time_is_that_of_its_cgroup(root, keeper):
    """Only where a step keeps the cgroup, so that its count does not start again."""
    job = root / f"nearmetal_test_{os.getpid()}" / "job_7"
    step = job / "step_0"
    places = [job.parent, job, step, *([job / keeper] if keeper else [])]
    for place in places:
        place.mkdir()
    try:
        script = (
            'echo $$ > "$1/cgroup.procs"; i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; '
            'sh "$2" counters'
        )
        done = subprocess.run(
            ["sh", "-c", script, "sh", step, SCRIPT], capture_output=True, text=True, check=True
        )
        ((_, facts),) = parse(done.stdout).items()
        assert not done.stderr
        if keeper:
            assert 10_000 < int(facts["count.job_us"]) < 5_000_000
        else:
            assert "count.job_us" not in facts
    finally:
        for place in reversed(places):
            place.rmdir()


def counted_below(place, **files: object) -> dict[str, str]:
    """The counters of a node whose /sys is below a directory, with files `a__b` for a/b."""
    for path, number in files.items():
        file = place / "sys" / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    script = place / "provenance.sh"
    script.write_text(quick(SCRIPT).replace("/sys/", f"{place}/sys/"))
    done = subprocess.run(["sh", script, "counters"], capture_output=True, text=True, check=True)
    assert not done.stderr
    return next(iter(parse(done.stdout).values()))


def test_errors_of_all_rdma_ports_are_summed_by_what_they_say(tmp_path):
    port = "class__infiniband__mlx5_{}__ports__1__{}__{}"
    files = {
        ("counters", "symbol_error"): 1,
        ("counters", "link_downed"): 2,
        ("counters", "link_error_recovery"): 3,
        ("counters", "local_link_integrity_errors"): 4,
        ("counters", "port_xmit_discards"): 50,
        ("hw_counters", "out_of_sequence"): 600,
        ("hw_counters", "packet_seq_err"): 7000,
    }
    found = counted_below(
        tmp_path,
        **{port.format(0, *where): number for where, number in files.items()},
        **{port.format(1, *where): 10 * number for where, number in files.items()},
    )
    assert (found["count.ib_errors"], found["count.ib_discards"]) == ("110", "550")
    assert found["count.rdma_again"] == "83600"


@pytest.mark.parametrize("driver", node_facts.known()["devices"])
def test_each_driver_has_counters_of_its_own(tmp_path, driver):
    """Those of nics.yaml. Slingshot's have the time behind the number."""
    port, behind = "class/infiniband/any0/ports/1", ""
    if driver == "cxi":
        port, behind = "class/cxi/any0/device", "@1674414354.329651605"
    counters = node_facts.known()["devices"][driver]
    kinds = {"sent": 1000, "errors": 1, "discards": 20, "again": 300}
    files = {}
    for kind, number in kinds.items():
        for name in counters[kind]:
            files[f"{port}/{name}".replace("/", "__")] = f"{number}{behind}"
    facts = counted_below(tmp_path, **files)
    words = 4 if "counters/port_xmit_data" in counters["sent"] else 1
    assert facts["ib.any0.1.xmit_bytes"] == str(1000 * words * len(counters["sent"]))
    for kind, key in (
        ("errors", "ib_errors"),
        ("discards", "ib_discards"),
        ("again", "rdma_again"),
    ):
        if counters[kind]:
            assert facts[f"count.{key}"] == str(kinds[kind] * len(counters[kind]))


def test_the_memory_in_use_is_a_part_of_all(tmp_path):
    used = 1 - os.sysconf("SC_AVPHYS_PAGES") / os.sysconf("SC_PHYS_PAGES")
    # What the kernel may free is not in use.
    assert 0 < int(counted_below(tmp_path)["count.memory_used_ppm"]) <= 1e6 * (used + 0.05)


def test_a_node_without_rdma_counts_none_and_its_frequency_is_a_mean(tmp_path):
    clock = "devices__system__cpu__cpu{}__cpufreq__scaling_cur_freq"
    found = counted_below(tmp_path, **{clock.format(0): 3_000_000, clock.format(1): 2_000_000})
    assert found["count.frequency_khz"] == "2500000"
    assert not [key for key in found if key.startswith(("count.ib", "count.rdma"))]
