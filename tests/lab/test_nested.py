"""PCI passthrough without an IOMMU of the host: guests within a guest that has one of QEMU."""

import os
import re

import pytest

from nearmetal.results import load_session

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(
        not os.environ.get("NEARMETAL_TEST_NESTED"),
        reason="TCG within TCG takes seven minutes on an idle machine, and half an hour on a busy "
        "one: NEARMETAL_TEST_NESTED=yes runs it",
    ),
]
#: Guests, and jobs on them, start by a CPU that is emulated twice.
SLOW = 3600


@pytest.mark.parametrize(
    ("option", "bound_from", "driver", "reset", "link_class"),
    [
        ("vfio-nested", "e1000e", "e1000e", "pm bus", "passthrough"),
        ("vfio-nested-sriov", "no driver", "igbvf", "flr", "sriov"),
    ],
)
def test_messages_pass_between_passed_through_nics(
    other_lab, option, bound_from, driver, reset, link_class
):
    said = other_lab("up", "--vm", option, timeout=SLOW).stdout
    bound = rf"from {bound_from} to vfio-pci, IOMMU group \d+ of 1 device, reset by {reset}"
    assert len(re.findall(bound, said)) == 2, said
    assert "vm1 to vm2 over the passed-through NICs" in said
    prefix = other_lab.checkout / "results" / option
    words = ["-r", "--system", "lab:vm", "-n", "pingpong%placement=internode", "-p", "^mpich$"]
    once = ["-S", "repeats=1", "-S", "spare_repeats=0", "-S", "time_limit=30m"]
    done = other_lab.reframe(*words, *once, prefix=prefix, timeout=SLOW)
    assert done.returncode == 0, done.stdout
    [case] = load_session(prefix / "results.db").cases
    assert case.link_class == link_class and case.facts["accelerator"] == "tcg"
    assert case.facts["transport"] == f"eth0 ({driver})"
    other_lab("down")
