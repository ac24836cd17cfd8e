"""Numbers of processes by default: NPB's up to the paper's 128 or two nodes, others on two."""

import re
from types import SimpleNamespace

import pytest
import yaml

from nearmetal.aws import agreement
from nearmetal.checks import capacity
from nearmetal.checks.scaling import MOST_PROCESSES, Scaling
from reframe_checks import npb as npb_module
from reframe_checks.collectives import collectives
from reframe_checks.duet.duets import npb_duet
from reframe_checks.npb import npb, npb_base
from tests.support.paths import CHECKOUT
from tests.support.reframe import dry_run
from tests.support.systems import a_system


def made(check, fits=lambda count: True, **extras) -> SimpleNamespace:
    """A check whose processes are set, on a partition with these extras."""
    made = SimpleNamespace(
        display_name=check.__name__,
        processes=extras.pop("processes", ""),
        ranks_per_node=extras.pop("ranks_per_node", 0),
        default_nodes=check.default_nodes,
        default_processes=check.default_processes,
        _threads=1,
        runtime=SimpleNamespace(one_process=False),
        current_partition=SimpleNamespace(
            fullname="here:p", extras=extras, scheduler=SimpleNamespace(is_local=False)
        ),
    )
    Scaling.use_processes(made, MOST_PROCESSES, "square numbers", fits)
    return made


def counts(check, **extras) -> list[int]:
    """The numbers of processes of a check. They need no more nodes than there are."""
    check = made(check, **extras)
    assert check.num_nodes <= extras.get("nodes", 2)
    return check.counts[::-1]


@pytest.mark.parametrize(
    "extras, most",
    [
        ({"cores_per_node": 8, "nodes": 16}, 128),
        ({"cores_per_node": 8, "nodes": 8}, 64),
        ({"cores_per_node": 4, "nodes": 1}, 4),
        ({"cores_per_node": 64, "nodes": 500}, 128),
        ({"cores_per_node": 128, "nodes": 500}, 256),
        ({"cores_per_node": 8}, 16),
        ({"ranks_per_node": 12, "nodes": 6}, 64),
    ],
)
def test_npb_fills_the_nodes_there_are_up_to_128_processes_or_two_nodes(extras, most):
    found = counts(npb, **extras)
    assert found == [2**power for power in range(most.bit_length())] and found[-1] == most


@pytest.mark.parametrize(
    "extras, wanted, per_node",
    [
        ({"cores_per_node": 18, "nodes": 16}, [1, 8, 16, 32, 64, 128], 16),
        ({"cores_per_node": 36, "nodes": 2}, [1, 16, 32, 64], 32),
        ({"cores_per_node": 48, "nodes": 1}, [1, 16, 32], 32),
        ({"cores_per_node": 96}, [1, 32, 64, 128], 64),
        ({"cores_per_node": 192, "nodes": 500}, [1, 64, 128, 256], 128),
        ({"cores_per_node": 192, "processes": "192,384"}, [192, 384], 192),
    ],
)
def test_nodes_without_a_power_of_two_have_one_half_and_whole_nodes(extras, wanted, per_node):
    check = made(npb, **extras)
    assert (check.counts[::-1], check.per_node) == (wanted, per_node)


def is_square(count: int) -> bool:
    return round(count**0.5) ** 2 == count


@pytest.mark.parametrize("cores, most", [(8, 16), (16, 25), (64, 121), (128, 256), (192, 256)])
def test_square_numbers_leave_the_node_too(cores, most):
    check = made(npb, is_square, cores_per_node=cores, nodes=2)
    assert check.counts[0] == most > check.per_node
    assert all(map(is_square, check.counts))


def test_a_dry_run_on_large_nodes_leaves_them_and_skips_what_their_memory_cannot_hold(tmp_path):
    system = a_system(cores_per_node=192, nodes=2, memory_gb=768)
    [wide] = system["partitions"]
    narrow = {"cores_per_node": 48, "memory_gb": 8, "npb_class": "D"}
    system["partitions"].append({**wide, "name": "narrow", "extras": {**wide["extras"], **narrow}})
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(system))
    words = ("-c", "reframe_checks", "--system=here", "-n", "^npb%benchmark=(cg|ft)")
    shown = dry_run(tmp_path, tmp_path / "runs", *words)
    assert re.findall(r"P: mops_B_(\d+):", shown) == 2 * ["256", "128", "64", "1"], shown
    assert re.findall(r"P: mops_D_(\d+):", shown) == ["64", "32", "16", "1"], shown
    assert "benchmark=ft needs 64.0 GiB a node, but one of here:narrow has 8 (`memory_gb`" in shown
    [job] = (tmp_path / "runs").rglob("narrow/openmpi/npb_*/rfm_job.sh")
    assert "#SBATCH --time=49:2:12\n" in job.read_text()


def test_the_fewest_processes_decide_on_memory():
    extras = {"memory_gb": 100, "guest_memory_gb": 60}
    check = made(npb, cores_per_node=4, nodes=64, processes="8,16", **extras)
    check.num_components, check.benchmark, check.npb_class = 1, "ft", "D"
    check.job = SimpleNamespace(launcher=SimpleNamespace(registered_name="srun"))
    check.bytes_of_node = lambda: npb_base.bytes_of_node(check)
    assert check.bytes_of_node() == 2**36 / 2 and capacity.skip_reason(check) == ""
    check.counts = [16, 4]
    assert "needs 64.0 GiB a node, but one of here:p has 60" in capacity.skip_reason(check)


def test_the_time_follows_class_processes_and_rate(monkeypatch):
    monkeypatch.setitem(npb_module.NEEDS, "cg", {"rate": 100, "operations": {"D": 4_000_000}})
    check = SimpleNamespace(
        benchmark="cg", npb_class="D", counts=[4, 1], repeats=3, spare_repeats=1, _threads=1
    )
    assert npb_base.seconds_of_computing(check) == 4 * 1.25 * 40_000
    check.pairs, check._threads = 14, 2
    assert npb_base.seconds_of_computing(check) == 28 * 1.25 * 20_000


def test_other_checks_and_the_duet_stay_on_two_nodes():
    for check in (collectives, npb_duet):
        assert counts(check, cores_per_node=8, nodes=16)[-1] == 16


@pytest.mark.parametrize(
    "name, partition, most", [("aist", 0, 128), ("ec2", 0, 32), ("ec2", 3, 128)]
)
def test_npb_runs_on_all_of_the_papers_sixteen_nodes(name, partition, most):
    """EC2's are a partition of their own, `cc-16`, with the paper's 8 processes on each."""
    system = yaml.safe_load((CHECKOUT / f"site-config/systems/{name}.yaml").read_text())
    assert counts(npb, **system["partitions"][partition]["extras"])[-1] == most


@pytest.mark.parametrize("system", ["lab", "guests"])
def test_the_lab_says_its_numbers_itself(system):
    """The lab names its numbers of processes, so that its runs take no longer."""
    text = yaml.safe_load((CHECKOUT / f"site-config/systems/{system}.yaml").read_text())
    for partition in text["partitions"]:
        extras = partition["extras"]
        assert "processes" in extras or "vswitch_processes" in extras


def test_a_queue_with_other_nodes_than_the_system_is_a_fault():
    system = yaml.safe_load((CHECKOUT / "site-config/systems/ec2.yaml").read_text())
    text = (CHECKOUT / "site-config/aws/cluster.yaml").read_text()
    described = {
        "InstanceType": "c4.8xlarge",
        "VCpuInfo": {"DefaultCores": 18},
        "MemoryInfo": {"SizeInMiB": 61440},
        "NetworkInfo": {"NetworkCards": [{}], "NetworkPerformance": "10 Gigabit"},
        "Hypervisor": "xen",
    }
    queues = agreement.queues(yaml.safe_load(text))
    only = {"cc": queues["cc"]}
    system["partitions"] = [one for one in system["partitions"] if one["name"] == "cc"]
    types = {"c4.8xlarge": described}
    assert list(agreement.faults(only, types, system, "ec2.yaml")) == []
    system["partitions"][0]["extras"]["nodes"] = 16
    [(_, fault)] = agreement.faults(only, types, system, "ec2.yaml")
    assert "MaxCount is 2, but ec2.yaml has 16 nodes. Fix: write the same" in fault
