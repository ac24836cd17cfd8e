"""What is expected of a directory follows from the class of its device, which the site names."""

import pytest
import yaml

from nearmetal.checkout import PACKAGE
from nearmetal.checks.settings import DIRECTORIES
from nearmetal.expectations import entries, judge
from nearmetal.expectations.judge import Bounds, Measured, Place
from nearmetal.model import catalogue

SHIPPED = entries.load()
#: Published values, or those of a data sheet, by class of device.
USUAL = {
    "nvme": {"read_latency": 92, "write_latency": 21, "read_bandwidth": 3500, "read_rate": 3e5},
    "sata_ssd": {"read_latency": 153, "read_bandwidth": 540, "read_rate": 95e3},
    "hdd": {"read_latency": 11560, "read_bandwidth": 175, "write_bandwidth": 175},
    "virtio_ssd": {"read_latency": 95, "read_rate": 6e4},
    "ebs_gp3": {"read_latency": 700, "read_rate": 3000, "read_bandwidth": 131},
    "nfs": {"read_latency": 300},
}


def a_directory(device, values, place="local", features=frozenset(), **extras):
    extras = {f"storage_{place}_device": device, **extras} if device else extras
    return Measured("storage", Place(extras, features), {"place": place}, values=values)


def names(case, session=None):
    others = None if session is None else judge.Others(session)
    found = judge.deviations(SHIPPED.values(), case, others)
    return sorted(one.expectation.name for one in found)


@pytest.mark.parametrize("device", USUAL)
def test_published_values_of_a_class_are_within_its_expectations(device):
    assert names(a_directory(device, USUAL[device])) == []


@pytest.mark.parametrize(
    "device, values, expected",
    [
        (None, {"read_latency": 2.0}, ["storage_no_cache"]),
        (None, {"read_latency": 900.0, "read_bandwidth": 12.0}, []),
        ("nvme", {"read_latency": 900.0}, ["nvme_latency"]),
        ("nvme", {"read_bandwidth": 20000.0}, ["nvme_link"]),
        ("nvme", {"read_bandwidth": 600.0}, ["nvme_read_bandwidth"]),
        ("nvme", {"write_latency": 200.0}, ["nvme_write_latency"]),
        ("nvme", {"read_latency": 100.0, "read_rate": 11000.0}, ["ssd_queue"]),
        ("sata_ssd", {"read_bandwidth": 3500.0}, ["sata_link"]),
        ("sata_ssd", {"read_bandwidth": 100.0, "read_rate": 9e3}, ["sata_bandwidth", "sata_rate"]),
        ("sata_ssd", {"read_latency": 5000.0}, ["sata_latency"]),
        ("hdd", {"read_latency": 90.0}, ["hdd_no_cache"]),
        ("hdd", {"read_latency": 5e4, "write_bandwidth": 9.0}, ["hdd_bandwidth", "hdd_latency"]),
        ("virtio_ssd", {"read_latency": 950.0}, ["virtio_latency"]),
        ("ebs_gp3", {"read_rate": 100.0, "read_latency": 4e4}, ["gp3_latency", "gp3_rate"]),
        ("ebs_gp3", {"write_bandwidth": 20.0}, ["gp3_bandwidth"]),
    ],
)
def test_what_another_device_would_be(device, values, expected):
    assert names(a_directory(device, values)) == expected


def test_a_read_over_nfs_takes_no_less_than_half_of_a_message():
    tcp = Measured("tcp", Place({}), values={"startup_latency": 40.0})
    cached = a_directory("nfs", {"read_latency": 12.0}, "shared")
    assert names(cached, [cached, tcp]) == ["nfs_beside_tcp"]
    assert names(a_directory("nfs", {"read_latency": 300.0}, "shared"), [tcp]) == []
    rdma = a_directory("nfs", {"read_latency": 12.0}, "shared", frozenset({"rdma"}))
    assert names(rdma, [rdma, tcp]) == []


def test_each_directory_has_a_device_of_its_own():
    slow = {"read_latency": 9000.0}
    assert names(a_directory("hdd", slow, "scratch", storage_local_device="nvme")) == []
    assert names(a_directory("nvme", slow, "scratch", storage_local_device="hdd")) == [
        "nvme_latency"
    ]
    # The list of a partition has those of all of its directories.
    place = Place({"storage_local_device": "nvme", "storage_shared_device": "nfs"})
    chosen = {name for name, one in SHIPPED.items() if judge.selects(one, place)}
    assert {"nvme_latency", "nfs_beside_tcp"} <= chosen and "hdd_latency" not in chosen


def test_bounds_of_a_device_are_references_before_the_run():
    case = a_directory("nvme", {})
    found = judge.references(SHIPPED.values(), case, ["read_latency", "write_bandwidth"])
    assert found == {"read_latency": Bounds(5, 300), "write_bandwidth": Bounds(None, 16069.08)}


def test_places_and_classes_are_those_of_the_checks_and_of_systems():
    assert tuple(DIRECTORIES) == judge.PLACES
    expected = yaml.safe_load((PACKAGE / "expectations/schema.yaml").read_text())
    where = expected["$defs"]["expectation"]["properties"]["where"]["properties"]["device"]
    extras = catalogue.check("storage").extras
    for place in judge.PLACES:
        assert extras[judge.DEVICE.format(place=place)]["enum"] == where["items"]["enum"]
    used = {name for one in SHIPPED.values() for name in one.where.get("device", ())}
    assert used == set(where["items"]["enum"]) == set(USUAL)
