"""Numbers of processes by default: NPB's up to the paper's 128, others on two nodes."""

from types import SimpleNamespace

import pytest
import yaml

from nearmetal.aws import agreement
from nearmetal.checks.scaling import Scaling
from reframe_checks.collectives import collectives
from reframe_checks.duet.duets import npb_duet
from reframe_checks.npb import npb
from tests.support.paths import CHECKOUT


def counts(check, **extras) -> list[int]:
    """The numbers of processes of a check on a partition with these extras, and its nodes."""
    made = SimpleNamespace(
        display_name=check.__name__,
        processes="",
        ranks_per_node=0,
        default_nodes=check.default_nodes,
        _threads=1,
        runtime=SimpleNamespace(one_process=False),
        current_partition=SimpleNamespace(
            fullname="here:p", extras=extras, scheduler=SimpleNamespace(is_local=False)
        ),
    )
    Scaling.use_processes(made, 128)
    assert made.num_nodes <= extras.get("nodes", 2)
    return made.counts[::-1]


@pytest.mark.parametrize(
    "extras, most",
    [
        ({"cores_per_node": 8, "nodes": 16}, 128),
        ({"cores_per_node": 8, "nodes": 8}, 64),
        ({"cores_per_node": 18, "nodes": 16}, 128),
        ({"cores_per_node": 18, "nodes": 2}, 32),
        ({"cores_per_node": 4, "nodes": 1}, 4),
        ({"cores_per_node": 192, "nodes": 500}, 128),
        ({"cores_per_node": 8}, 16),
    ],
)
def test_npb_fills_the_nodes_there_are_up_to_128_processes(extras, most):
    found = counts(npb, **extras)
    assert found == [2**power for power in range(most.bit_length())] and found[-1] == most


def test_other_checks_and_the_duet_stay_on_two_nodes():
    for check in (collectives, npb_duet):
        assert counts(check, cores_per_node=8, nodes=16)[-1] == 16


def test_aist_runs_npb_on_all_of_its_sixteen_nodes():
    system = yaml.safe_load((CHECKOUT / "site-config/systems/aist.yaml").read_text())
    assert counts(npb, **system["partitions"][0]["extras"])[-1] == 128


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
