"""What the texts of Slurm, of modules systems and of a node say of a cluster."""

import functools
import os
import subprocess

import pytest

from nearmetal.checks import provenance
from nearmetal.cluster import modules, node, reasons, slurm
from nearmetal.cluster.ask import ENGLISH, Answer, Asker, environment
from nearmetal.cluster.modules import Available
from nearmetal.init import inspect
from tests.support.clusters import HERE, SITES, text
from tests.support.damage import damaged


def facts_of(site: str) -> dict[str, str]:
    [facts] = provenance.parse(text(site, "node")).values()
    return facts


# Slurm


def test_nodes_have_their_cores_and_partitions():
    nodes = {one.name: one for one in slurm.nodes(text("infiniband", "scontrol_node"))}
    first = nodes["cn001"]
    assert (first.cores, first.threads, first.memory_mb) == (64, 2, 257000)
    assert first.partitions == ("batch", "debug") and first.usable
    assert nodes["fat002"].cores == 128


def test_text_of_an_administrator_changes_no_field():
    nodes = {one.name: one for one in slurm.nodes(text("infiniband", "scontrol_node"))}
    assert nodes["cn004"].partitions == ("batch", "debug") and not nodes["cn004"].usable


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        ("IDLE", True),
        ("MIXED+PLANNED", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE~", True),
        ("IDLE*", False),
        ("IDLE+DRAIN", False),
        ("DOWN+CLOUD", False),
    ],
)
def test_a_node_is_usable_by_its_state(state, usable):
    [one] = slurm.nodes(f"NodeName=a CPUTot=4 State={state} Partitions=p\n")
    assert one.usable is usable and one.cores == 4 and one.busy is state.startswith("MIX")


@pytest.mark.parametrize(
    ("fields", "cores", "kept", "memory"),
    [
        ("CPUTot=64 CPUEfctv=56 CoreSpecCount=8 CoresPerSocket=32 Sockets=2", 56, 8, 1000),
        ("CPUTot=128 CPUEfctv=112 CoresPerSocket=32 Sockets=2 ThreadsPerCore=2", 56, 8, 1000),
        ("CPUTot=64 CPUEfctv=56 CoresPerSocket=32 Sockets=2 ThreadsPerCore=2", 56, 8, 1000),
        ("CPUTot=64 CoreSpecCount=8 CoresPerSocket=32 Sockets=2", 56, 8, 1000),
        ("CPUTot=4 MemSpecLimit=100", 4, 0, 900),
        ("CPUTot=4 CPUEfctv=4 CoreSpecCount=0 MemSpecLimit=(null)", 4, 0, 1000),
    ],
)
def test_a_node_has_what_slurm_leaves_to_jobs(fields, cores, kept, memory):
    [one] = slurm.nodes(f"NodeName=a {fields} RealMemory=1000 State=IDLE Partitions=p\n")
    assert (one.cores, one.kept_cores, one.memory_mb) == (cores, kept, memory)


def test_a_partition_keeps_every_limit_that_slurm_states():
    [one] = slurm.partitions(
        "PartitionName=p MinNodes=2 MaxNodes=8 MaxCPUsPerNode=48 MaxCPUsPerSocket=UNLIMITED "
        "DefMemPerCPU=4000 MaxMemPerNode=200000 State=UP\n"
    )
    assert one.limits == {
        "MinNodes": 2,
        "MaxNodes": 8,
        "MaxCPUsPerNode": 48,
        "DefMemPerCPU": 4000,
        "MaxMemPerNode": 200000,
    }


@pytest.mark.parametrize(
    ("state", "usable"),
    [
        *(("idle", True), ("idle~", True), ("mixed-", True), ("allocated", True)),
        *(("inval", False), ("drained", False), ("drained*", False), ("draining", False)),
        *(("idle*", False), ("idle$", False), ("maint", False)),
    ],
)
def test_a_node_of_sinfo_is_usable_by_its_state(state, usable):
    _, [one] = slurm.of_sinfo(f"p|n1|1|4|1|100|{state}|1:00|up|1-4|no|UNLIMITED\n")
    assert one.usable is usable
    [one] = slurm.nodes("NodeName=a CPUTot=4 State=IDLE+INVALID_REG Partitions=p\n")
    assert not one.usable


@pytest.mark.parametrize("available", ["up", "down", "drain", "inact"])
def test_a_partition_of_sinfo_has_its_own_state_and_limits(available):
    [one], _ = slurm.of_sinfo(f"p|n1|1|4|1|100|idle|1:00|{available}|2-8|yes|3\n")
    assert one.up is (available == "up") and one.root_only and one.origin == "sinfo"
    assert one.limits == {"MinNodes": 2, "MaxNodes": 8, "MaxCPUsPerNode": 3}


def test_partitions_have_limits_states_and_accounts():
    found = {one.name: one for one in slurm.partitions(text("infiniband", "scontrol_partition"))}
    assert [found[name].time_limit for name in ("batch", "debug", "fat")] == ["2d", "30m", ""]
    assert found["batch"].up and not found["closed"].up and not found["batch"].accounts
    found = {one.name: one for one in slurm.partitions(text("guests", "scontrol_partition"))}
    assert found["private"].accounts == ("physics", "chem")


def test_sinfo_is_enough_for_partitions_and_nodes():
    partitions, nodes = slurm.of_sinfo(text("cloud", "sinfo"))
    assert [(one.name, one.time_limit) for one in partitions] == [("queue1", ""), ("queue2", "1d")]
    assert [(one.cores, one.threads, one.usable) for one in nodes[:3]] == [
        (96, 1, True),
        (96, 1, True),
        (2, 2, True),
    ]
    assert not nodes[-1].usable
    line = "n1|1|4|1|100|idle|1:00|up|1-4|no|UNLIMITED"
    both, [shared] = slurm.of_sinfo(f"a|{line}\nb|{line}\nnoise\n")
    assert len(both) == 2 and shared.partitions == ("a", "b")


@pytest.mark.parametrize(
    ("of_slurm", "of_reframe"),
    [
        ("02:00:00", "2h"),
        ("1-12:30:00", "1d12h30m"),
        ("30:00", "30m"),
        ("UNLIMITED", ""),
        ("infinite", ""),
        ("", ""),
    ],
)
def test_a_time_limit_is_reframes(of_slurm, of_reframe):
    assert slurm.time_limit(of_slurm) == of_reframe


@pytest.mark.parametrize(
    ("site", "accounting"), [("infiniband", False), ("guests", True), ("cloud", False)]
)
def test_accounting_follows_from_the_configuration(site, accounting):
    assert slurm.has_accounting(slurm.settings(text(site, "scontrol_config"))) is accounting
    assert slurm.has_accounting({}) is None


@pytest.mark.parametrize(
    ("site", "types"),
    [
        ("infiniband", ["none", "cray_shasta", "pmi2", "pmix", "pmix_v3", "pmix_v4"]),
        ("guests", ["none", "pmi2"]),
    ],
)
def test_types_of_mpi_are_listed_by_all_versions_of_slurm(site, types):
    assert slurm.mpi_types(text(site, "srun_mpi")) == types


TOPOLOGY = """\
SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n[01-03]
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[04,6],gpu-[a,b]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[01-06],gpu-[a,b] Switches=leaf[0-1]
"""


def test_nodes_have_their_leaf_switches():
    assert slurm.switches(TOPOLOGY) == {
        **dict.fromkeys(("n01", "n02", "n03"), "leaf0"),
        **dict.fromkeys(("n04", "n6", "gpu-a", "gpu-b"), "leaf1"),
    }
    assert slurm.switches("BlockName=b1 BlockIndex=0 Nodes=n[1-2] BlockSize=2\n") == {
        "n1": "b1",
        "n2": "b1",
    }
    assert slurm.switches("No topology information available\n") == {}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("(null)", []),
        ("login", ["login"]),
        ("n[09-11]", ["n09", "n10", "n11"]),
        ("r[1-2]n[1-2]x,z", ["r1n1x", "r1n2x", "r2n1x", "r2n2x", "z"]),
        ("n[1-9999999]", []),
        ("n[1-999]m[1-999]", []),
    ],
)
def test_a_host_list_has_its_names(text, names):
    assert slurm.hosts(text) == names


def test_accounts_are_listed_once():
    assert slurm.accounts(text("guests", "sacctmgr_assoc")) == ["biology"]


def test_the_default_qos_is_first():
    lines = "physics|long,normal|normal\nchem|long,debug|\n"
    assert slurm.qos(lines) == ["normal", "long", "debug"]
    assert slurm.qos(text("guests", "sacctmgr_assoc")) == []


@pytest.mark.parametrize(
    ("words", "means", "passes"),
    [
        ("AccountNotAllowed", "account", False),
        ("Job's account not permitted to use this partition (p allows a not b)", "account", False),
        ("Job's_account_not_permitted_to_use_this_partition", "account", False),
        ("Invalid account or account/partition combination specified", "account", False),
        ("Job's QOS not permitted to use this partition", "QOS", False),
        ("QOSMinGRES", "limit of your account or QOS", False),
        ("QOSMaxJobsPerUserLimit", "reach its limit", True),
        ("AssocGrpCPUMinutesLimit", "used up", False),
        ("srun: error: Unable to allocate resources: Access/permission denied", "group", False),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", "QOS", False),
        ("srun: error: Unable to allocate resources: Requested nodes are busy", "busy", True),
        ("PartitionConfig", "does not take such jobs", False),
        ("PartitionTimeLimit", "time limit", False),
        ("PartitionNodeLimit", "number of nodes", False),
        ("PartitionInactive", "no jobs now", False),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "down, drained", True),
        ("Reservation", "has not begun", True),
        ("ReservationDeleted", "not there", False),
        ("Resources", "busy", True),
        ("Priority", "busy", True),
    ],
)
def test_a_reason_of_slurm_has_its_meaning_and_its_fix(words, means, passes):
    found = reasons.reason_of(words)
    assert means in found.means and found.fix and found.passes is passes
    assert reasons.reason_of("a reason of tomorrow") is None


# Modules


def test_modules_are_names_without_directories_and_messages():
    found, unread = modules.available(
        "/opt/modules:\ngcc/\ngcc/12\n\x1b[1mgcc/13\x1b[0m(default)\nOpenMPI/4.1.5-GCC-12.3.0\n"
        "Lmod Warning: the cache is old\n_mlstatus = True\nos.environ['A']='b'\ndot\n"
    )
    assert found == [
        Available("gcc/12"),
        Available("gcc/13", True),
        Available("OpenMPI/4.1.5-GCC-12.3.0"),
        Available("dot"),
    ]
    assert unread == ["Lmod Warning: the cache is old"]


@pytest.mark.parametrize(
    ("line", "default"),
    [
        *(("gcc/13 <L>", False), ("gcc/13(default) <aL>", True), ("gcc/13 <kL:S>", False)),
        *(("gcc/13 (L,D)", True), ("gcc/13(D:latest)", True), ("gcc/13 (E)", False)),
        *(("gcc/13{fabric=ofi}", False), ("gcc/13 {D} [x] <L>", True), ("gcc/13 <D>", True)),
        *(("gcc/13(@latest)", False), ("  gcc/13(default:x) ", True)),
    ],
)
def test_a_name_and_its_default_survive_any_tag(line, default):
    assert modules.available(f"/modules:\n{line}\n") == ([Available("gcc/13", default)], [])


@pytest.mark.parametrize("line", ["gcc/13 <L", "gcc/13 ??", "module: command not found", "*/1"])
def test_a_line_that_names_no_module_is_reported(line):
    assert modules.available(f"/modules:\n{line}\ngcc/12\n") == ([Available("gcc/12")], [line])


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("openmpi", "openmpi"),
        ("openmpi", "OpenMPI/4.1.5-GCC-12.3.0"),
        ("openmpi", "openmpi4/4.1.6"),
        ("openmpi", "mpi/openmpi-x86_64"),
        ("openmpi", "openmpi@5.0.3"),
        ("openmpi", "openmpi/gcc/64/4.1.5"),
        ("openmpi", "openmpi4/gcc/4.1.2"),
        ("openmpi", "openmpi/gcc-12.2/5.0.3"),
        ("openmpi", "gcc/12.2/openmpi/4.1.6"),
        ("mpich", "mpich/ge/gcc/64/4.1.2"),
        ("mpich", "cray-mpich/8.1.29"),
        ("mpich", "mpich-ofi/4.2.1"),
        ("java", "Java/17.0.6"),
        ("java", "openjdk/17.0.8"),
        ("apptainer", "singularity-ce/4.1.0"),
        ("compiler", "PrgEnv-gnu/8.5.0"),
        ("gcc", "gnu12/12.3.0"),
        ("gcc", "GCC/12.3.0"),
        ("intelmpi", "impi/2021.9.0-intel-compilers-2023.1.0"),
        ("intelmpi", "intel-oneapi-mpi/2021.13"),
        ("intelmpi", "intelmpi"),  # ParallelCluster
        ("intelmpi", "mpi/impi_2021.4.0"),  # Azure's HPC images, as the next two
        ("mvapich", "mpi/mvapich2-2.3.6"),
        ("hpcx", "mpi/hpcx-v2.9.0"),
        ("intelmpi", "intel-mpi/2021.4.0"),  # ECMWF, as the next
        ("hpcx", "hpcx-openmpi/2.9.0"),
        ("intelmpi", "mpi/2021.11"),  # oneAPI's own directory of modules
        ("mvapich", "mpi/mvapich2-2.3.5_gcc_10.2_slurm22"),  # Brown
        ("mvapich", "mvapich/3.0"),  # Ohio Supercomputer Center
        ("mvapich", "mvapich2-gdr/2.3.7"),
        ("mvapich", "mvapich2/2.3.7"),
        ("hpcx", "hpcx-ompi/2.18"),
        ("mpich", "cray-mpich-ucx/8.1.28"),
        ("other_mpi", "spectrum-mpi/10.4"),
    ],
)
def test_software_is_recognized_by_the_names_that_sites_use(kind, name):
    found = modules.of_kinds([Available(name)])
    assert list(found) == [kind]


@pytest.mark.parametrize(
    "name",
    [
        "HDF5/1.14-gompi-2023a",
        "openmpi-settings",
        "mpi4py/3.1",
        "gdb",
        "hdf5/openmpi/1.14",
        "cray-mpich-abi/8.1.28",
        "cray-mpixlate/1.0.3",
        "libfabric-aws/1.16.0~amzn3.0",
        "libs/fftw3/openmpi/gcc/3.3.10",
    ],
)
def test_other_software_is_not(name):
    assert modules.of_kinds([Available(name)]) == {}


def test_the_default_is_preferred_and_then_the_highest_version():
    names = ["openmpi/4.1.6", "openmpi/10.0", "openmpi/9.0", "openmpi4/5"]
    found = modules.of_kinds([Available(name) for name in names])["openmpi"]
    assert [one.name for one in found] == ["openmpi/10.0", "openmpi/9.0", names[0], names[3]]
    found = modules.of_kinds([Available(names[0], True), Available(names[1])])["openmpi"]
    assert found[0].name == names[0]


def test_a_hierarchy_tells_what_to_load_first():
    assert modules.prerequisites(text("infiniband", "module_spider_openmpi_5.0.3")) == [
        "gcc/12.2.0"
    ]
    assert modules.prerequisites(text("infiniband", "module_spider_apptainer_1.2.5")) == []
    assert modules.prerequisites("Lmod has detected the following error") is None


# The node


def test_infiniband_without_a_hypervisor_is_native():
    link = node.link_of(facts_of("infiniband"))
    assert (link.nic, link.link_class, link.link_type) == ("mlx5_0/1", "native", "infiniband")
    assert (link.speed_gbps, link.rdma, link.guessed) == (100, True, ())
    assert "ConnectX-5" in link.model


def test_a_virtual_function_in_a_guest_is_sriov():
    link = node.link_of(facts_of("guests"))
    assert (link.nic, link.link_class, link.link_type) == ("ens5", "sriov", "ethernet")
    assert (link.speed_gbps, link.rdma, link.guessed) == (25, True, ())


def test_efa_has_no_rate_in_the_kernel():
    facts = facts_of("cloud")
    link = node.link_of(facts)
    assert (link.link_class, link.link_type, link.speed_gbps) == ("sriov", "efa", "unknown")
    assert not link.rdma and "link_speed_gbps" in dict(link.guessed)
    assert node.hypervisor(facts) == ("nitro", "")


def a_port(device: str, link_layer: str, driver: str, rate: str = "400 Gb/sec (4X NDR)", **more):
    facts = {"state": "4: ACTIVE", "link_layer": link_layer, "rate": rate, "driver": driver, **more}
    return {f"ib.{device}.1.{key}": value for key, value in facts.items()}


def interface(name: str, driver: str, speed: int, lower: str = "none") -> dict[str, str]:
    facts = {"driver": driver, "speed": str(speed), "lower": lower}
    return {f"nic.{name}.{key}": value for key, value in facts.items()}


def hsn(number: int) -> dict[str, str]:
    """Slingshot's interface and its device, as on Cray EX."""
    device = a_port(f"cxi{number}", "Slingshot", "unknown", "unknown", netdev="unknown")
    return device | interface(f"hsn{number}", "cxi_ss1", 200000, f"cxi{number}/1")


EDR = "100 Gb/sec (4X EDR)"
RAILS = a_port("mlx5_0", "InfiniBand", "mlx5_core") | a_port("mlx5_1", "InfiniBand", "mlx5_core")
#: Of another rate, and without a cable.
RAILS |= a_port("mlx5_2", "InfiniBand", "mlx5_core", EDR)
RAILS |= a_port("mlx5_3", "InfiniBand", "mlx5_core", state="1: DOWN")
EFA = a_port("rdmap79s0", "Unspecified", "efa") | a_port("rdmap80s0", "Unspecified", "efa")
IRDMA = interface("eth0", "ice", 100000) | a_port("irdma0", "Ethernet", "irdma", netdev="eth0")
BOND = interface("bond0", "bond", 50000, "eth0,eth1") | {"default_nic": "bond0"}
BOND |= interface("eth0", "bnxt_en", 25000) | interface("eth1", "bnxt_en", 25000)


@pytest.mark.parametrize(
    ("facts", "link_type", "nics", "speed", "rdma"),
    [
        (RAILS, "infiniband", 2, 800, True),
        (hsn(0) | hsn(1) | hsn(2) | hsn(3), "slingshot", 4, 800, False),
        (a_port("hfi1_0", "InfiniBand", "hfi1", EDR), "omnipath", 1, 100, True),
        (EFA, "efa", 2, "unknown", False),
        (IRDMA, "ethernet", 1, 100, True),
        (BOND, "ethernet", 2, 50, False),
    ],
)
def test_all_nics_like_the_link_count(facts, link_type, nics, speed, rdma):
    link = node.link_of({"hypervisor": "none"} | facts)
    assert (link.link_type, link.nics, link.speed_gbps, link.rdma) == (link_type, nics, speed, rdma)


@pytest.mark.parametrize(
    ("facts", "name", "guessed"),
    [
        ({"hypervisor": "kvm"}, "kvm", False),
        ({"hypervisor": "none"}, "none", False),
        ({"hypervisor": "none", "command.systemd-detect-virt": "none"}, "none", True),
        ({"hypervisor": "kvm", "command.systemd-detect-virt": "none"}, "kvm", True),
        ({"hypervisor": "vm-other"}, "vm-other", True),
        ({"hypervisor": "unknown"}, "unknown", True),
        ({}, "unknown", True),
    ],
)
def test_a_hypervisor_that_is_not_known_is_not_none(facts, name, guessed):
    found, guess = node.hypervisor(facts)
    assert found == name and bool(guess) is guessed


def a_nic(driver: str, **facts) -> dict[str, str]:
    return {
        "hypervisor": "kvm",
        "nic.eth0.driver": driver,
        "nic.eth0.speed": "10000",
        "nic.eth0.lower": "none",
        **{key.replace("__", "."): value for key, value in facts.items()},
    }


@pytest.mark.parametrize(
    ("facts", "link_class", "link_type", "speed", "guessed"),
    [
        (a_nic("virtio_net"), "emulated", "ethernet", 10, False),
        (a_nic("virtio_net", nic__eth0__speed="unknown"), "emulated", "ethernet", "unknown", False),
        (a_nic("e1000e"), "emulated", "ethernet", 10, True),
        (a_nic("ixgbevf"), "sriov", "ethernet", 10, False),
        (a_nic("mlx5_core", nic__eth0__pci="15b3:1017"), "passthrough", "ethernet", 10, False),
        (a_nic("mlx5_core"), "passthrough", "ethernet", 10, True),
        (a_nic("mlx5_core", hypervisor="none"), "native", "ethernet", 10, False),
        (a_nic("bnxt_en", hypervisor="unknown"), "native", "ethernet", 10, True),
        (a_nic("veth"), "native", "software", "memory", False),
        (a_nic("macvlan passthru"), "passthrough", "software", "memory", False),
        (a_nic("tap"), "emulated", "software", "memory", False),
        ({}, "native", "ethernet", "unknown", True),
    ],
)
def test_the_class_of_a_link_follows_from_driver_and_hypervisor(
    facts, link_class, link_type, speed, guessed
):
    link = node.link_of(facts)
    assert (link.link_class, link.link_type, link.speed_gbps) == (link_class, link_type, speed)
    assert ("link_class" in dict(link.guessed)) is guessed


def test_the_link_of_a_bond_is_that_of_its_nic():
    facts = a_nic("ixgbe", hypervisor="none", nic__bond0__driver="bond", default_nic="bond0")
    facts |= {"nic.bond0.speed": "20000", "nic.bond0.lower": "eth0"}
    assert node.link_of(facts).nic == "eth0"


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("40 Gb/sec (4X QDR)", (32, 40)),
        ("56 Gb/sec (4X FDR)", (54.5, 56)),
        ("200 Gb/sec (4X HDR)", (200, None)),
        ("2.5 Gb/sec (1X SDR)", (2, 2.5)),
        ("unknown", ("unknown", None)),
    ],
)
def test_the_data_rate_of_a_port_follows_from_its_coding(text, rates):
    assert node.rate(text) == rates


# Damage


PARSERS = {
    "scontrol_node": slurm.nodes,
    "scontrol_partition": slurm.partitions,
    "scontrol_config": slurm.settings,
    "sinfo": slurm.of_sinfo,
    "srun_mpi": slurm.mpi_types,
    "sacctmgr_assoc": slurm.accounts,
    "module_avail": lambda damaged: modules.of_kinds(modules.available(damaged)[0]),
    "module_spider_openmpi_5.0.3": modules.prerequisites,
}


@pytest.mark.parametrize(("name", "parser"), PARSERS.items())
def test_damaged_output_is_read_without_an_error(name, parser):
    for site in SITES:
        if (HERE / site / f"{name}.txt").exists():
            for _, copy in damaged(text(site, name), 100):
                parser(copy)


def as_printed(text: str) -> str:
    """The text as a job's inspect.sh prints it."""
    lines = text.splitlines()
    return "".join(f"{inspect.MARK}{line}\n" for line in [*lines, f"lines={len(lines)}"])


def test_damaged_facts_give_a_link_or_the_parsers_own_error():
    for site in SITES:
        for _, copy in damaged(as_printed(text(site, "node")), 200):
            found = inspect.facts_of(copy)
            if not isinstance(found, str):
                link = node.link_of(found[1])
                assert link.link_class in ("native", "passthrough", "sriov", "emulated")


# Commands


def test_a_command_is_no_step_of_a_job_that_we_are_in():
    own = {"SLURM_JOB_ID": "1", "SLURM_NNODES": "2", "SLURM_CONF": "/etc/x", "HOME": "/h"}
    assert environment(own) == {"SLURM_CONF": "/etc/x", "HOME": "/h", **ENGLISH}


def test_a_command_that_fails_is_a_sentence(tmp_path):
    asker = Asker()
    assert asker.ask(["sh", "-c", "echo first; echo last >&2; exit 2"]) == Answer()
    assert asker.ask(["no-such-command"]) == Answer()
    assert asker.ask(["sleep", "60"], 0.1) == Answer()
    failed, missing, slow = asker.unread
    assert failed.endswith(": last") and "PATH" in missing and "no answer" in slow
    assert asker.ask(["true"]).code == 0 and len(asker.unread) == 3


def test_a_command_that_waits_is_ended_with_the_reason():
    calls = iter(["", "it never starts"])
    assert Asker().run(["sleep", "60"], 30, lambda: next(calls)).why == "it never starts"
    assert Asker().run(["true"], 30, lambda: "too late").code == 0


def test_commands_answer_in_english_and_in_slurms_own_columns():
    own = {"LANG": "de_DE", "LANGUAGE": "de", "LMOD_OVERRIDE_LANG": "fr", "SQUEUE_FORMAT": "%i"}
    assert environment(own) == ENGLISH
    assert ENGLISH["LMOD_OVERRIDE_LANG"] == "en" and "SQUEUE_FORMAT" not in ENGLISH
    # Lmod 8.7.60 ends at an empty file, "[C]: in ?".
    assert not os.path.exists(ENGLISH["LMOD_SITE_MSG_FILE"])


# What a job of init prints


@functools.cache
def printed() -> str:
    """What a job prints on this host."""
    return subprocess.check_output(inspect.scripts(), text=True)


BANNER = "=====\nJob ID=4711\nSLURM_JOB_ID = 4711\n"


@pytest.mark.parametrize(
    ("before", "after"), [("", ""), (BANNER, ""), ("", BANNER), (BANNER, BANNER), ("no end", "x")]
)
def test_text_of_a_site_is_no_fact(before, after):
    lines = printed().splitlines(keepends=True)
    between = "".join([*lines[:2], BANNER, *lines[2:]])
    host, facts = inspect.facts_of(printed())
    assert "kernel" in facts and "user_namespaces" in facts
    for output in (printed(), between):
        assert inspect.facts_of(f"{before}{output}{after}") == (host, facts)


@pytest.mark.parametrize(
    ("lost", "why"), [(1, "lines of facts, and"), (-1, "does not end with our line")]
)
def test_a_lost_line_of_a_job_is_noticed(lost, why):
    lines = printed().splitlines(keepends=True)
    del lines[lost]
    assert why in inspect.facts_of("".join(lines))


def test_of_several_tasks_the_first_prints():
    env = {**os.environ, "SLURM_PROCID": "1"}
    assert subprocess.check_output(inspect.scripts(), text=True, env=env) == ""
