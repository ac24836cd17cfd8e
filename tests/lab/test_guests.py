"""The lab's virtual machines, in a second checkout's lab: real guests of QEMU, by KVM or, where a
guest does not start by it, by TCG, as nodes of its Slurm."""

import re

import pytest

from nearmetal.checks import provenance
from nearmetal.lab.namespaces import Namespaces
from nearmetal.util import files
from tests.support.lab import IMAGES
from tests.support.measured import cases
from tests.support.said import lacking

#: Guests boot and measure: minutes by TCG.
pytestmark = pytest.mark.whole
QUICK = ["-S", "repeats=1", "--max-retries=2"]


@pytest.fixture(scope="module")
def guests(other_lab):
    """A lab with guests behind a virtio NIC. The first on a host makes their layer."""
    options = ["--vm", "virtio", "--vm-cpus", "1", "--vm-switches", "2"]
    said = other_lab("up", *options, timeout=900).stdout
    assert re.search(r"lab: guests run with (KVM|TCG) \(.+\)", said), said
    return other_lab


@pytest.fixture(scope="module")
def accelerator(guests):
    return Namespaces(guests.checkout).state["accelerator"]


@pytest.mark.ci
def test_status_shows_them_and_by_what_they_run(guests, accelerator):
    said = guests("status").stdout
    for number in (1, 2):
        assert re.search(
            rf"^vm{number} +vm +qemu +10\.77\.5\.{number + 1} +vm +idle$", said, re.M
        ), said
    assert f"guests: {accelerator}, virtio, vCPUs not pinned, small pages\n" in said


@pytest.mark.ci
def test_each_is_a_machine_of_its_own_and_says_what_it_runs_on(guests, accelerator):
    nodes = provenance.parse(
        guests.run("srun --quiet -p vm -N2 sh reframe_checks/src/provenance.sh")
    )
    host = provenance.parse(guests.run("sh reframe_checks/src/provenance.sh"))["login"]
    assert list(nodes) == ["vm1", "vm2"] or list(nodes) == ["vm2", "vm1"]
    for facts in nodes.values():
        assert (facts["hypervisor"], facts["accelerator"]) == {
            "kvm": ("kvm", "kvm"),
            "tcg": ("qemu", "tcg"),
        }[accelerator]
        assert ("TCG" in facts["cpu_model"]) == (accelerator == "tcg")
        assert (
            facts["dmi"] == f"QEMU lab guest: {accelerator}, virtio, vCPUs not pinned, small pages"
        )
        assert facts["kernel"] != host["kernel"] and facts["cpus"] == "1"
        assert facts["nic.eth0.driver"] == "virtio_net" and facts["ib.rxe0.1.netdev"] == "eth0"


def test_their_second_nics_are_on_a_virtual_switch_each_and_these_are_joined(guests):
    run = Namespaces(guests.checkout).run
    for switch in (1, 2):
        said = run("ip", "-brief", "link", "show", "master", f"br5x{switch}")
        ports = sorted(line.split()[0] for line in said.splitlines())
        assert ports == [f"sp5x{switch}", f"vbr5x{switch}"]
    ping = "ping -q -c 1 -w 20 -I eth1 10.77.69.3 > /dev/null && ip -o -4 address show eth1"
    assert " 10.77.69.2/24 " in guests.run(ping, node="vm1", root=True)


def test_one_is_entered_like_any_node(guests):
    assert (
        guests.run("""echo "it's  $HOME" '*'; hostname""", node="vm2")
        == "it's  /home/nearmetal *\nvm2\n"
    )
    assert guests("exec", "--node", "vm1", "--root", "exit 7", check=False).returncode == 7


def test_home_scratch_and_checkout_are_those_of_all_nodes(guests):
    guests.run(
        "echo home > ~/told; echo scratch > /scratch/told; echo checkout > results/told", node="vm1"
    )
    assert guests.run("cat ~/told /scratch/told results/told").split() == [
        "home",
        "scratch",
        "checkout",
    ]
    assert (guests.checkout / "results/told").stat().st_uid == (
        guests.checkout / "results"
    ).stat().st_uid


def test_a_locked_image_runs_there_unchanged(guests, built_image):
    stack, entry = built_image
    places = guests.checkout / "results" / "images"
    for name in (f"{stack}.sif", f"{stack}.yaml"):
        files.copy(IMAGES / name, places / name)
    files.copy(f"{IMAGES}.lock", f"{places}.lock")
    prefix = guests.checkout / "results" / "guests_in_images"
    done = guests.reframe(
        *("-r", "--system", "lab:vm", "-p", f"^{stack}-sif$"),
        *("-n", "^pingpong%placement=internode", *QUICK),
        prefix=prefix,
        timeout=900,
        NEARMETAL_IMAGES=str(places),
    )
    assert done.returncode == 0 and "Ran 1/1 test case(s)" in done.stdout, done.stdout
    [case] = cases(prefix / "results.db")
    assert (case["partition"], case["image"]) == ("vm", f"{stack} {entry['digest']}")


@pytest.mark.ci
def test_messages_and_rdma_between_them_are_measured_and_told_by_what(guests, accelerator):
    prefix = guests.checkout / "results" / "guests"
    done = guests.reframe(
        *("-r", "--system", "lab:vm", "-p", "^(openmpi|mpich|gnu)$"),
        *("-n", "pingpong%placement=internode", "-n", "rdma%operation=write", *QUICK),
        prefix=prefix,
        timeout=900,
    )
    assert done.returncode == 0 and "Ran 3/3 test case(s)" in done.stdout, done.stdout
    measured = {
        case["environ"]: case for case in cases(prefix / "results.db") if case["result"] == "pass"
    }
    assert sorted(measured) == ["gnu", "mpich", "openmpi"]
    for case in measured.values():
        assert case["partition"] == "vm" and case["facts"]["nodes"] == ["vm1", "vm2"]
        assert (case["hypervisor"], case["facts"]["accelerator"]) == (
            "kvm" if accelerator == "kvm" else "qemu",
            accelerator,
        )
        assert "eth0: virtio_net" in case["nic_driver"] and case["samples"]
    assert {environ: case["transport"] for environ, case in measured.items()} == {
        "openmpi": "eth0 (virtio_net)",
        "mpich": "eth0 (virtio_net)",
        "gnu": "rxe0/1 over eth0 (virtio_net)",
    }


def test_up_without_a_word_of_them_heals_them_and_their_second_nics(guests):
    Namespaces(guests.checkout).run("ip", "link", "delete", "br5x2")
    guests.run("pkill -9 -x slurmd", node="vm1", root=True)
    said = guests("up").stdout
    assert "vm2: no answer over its virtual switch" in said and "healthy" in said
    assert guests.run("srun --quiet -p vm -w vm1 hostname").strip() == "vm1"


def test_a_guest_that_ended_is_started_again_with_the_whole_lab(guests):
    Namespaces(guests.checkout).run("sh", "-c", "kill -9 $(cat /lab/run/vm2.qemu)")
    said = guests("up", timeout=300).stdout
    assert "vm2 is gone" in said and "starting it again" in said
    assert sorted(guests.run("srun --quiet -p vm -N2 hostname").split()) == ["vm1", "vm2"]


def test_what_the_host_lacks_is_told_and_the_lab_stays(guests):
    done = guests("up", "--vm", "vfio:ffff:ff:1f.6,ffff:ff:1f.7", check=False)
    assert done.returncode == 1
    assert not lacking(done.stdout, "no PCI device", "ffff:ff:1f.6", "`lspci -D`")
    assert guests("status").returncode == 0
    done = guests("up", "--vm-pin", "yes", check=False)
    assert done.returncode == 2 and "--vm virtio" in done.stdout


def test_without_them_the_lab_has_no_such_partition(guests):
    guests("up", "--vm", "none")
    assert "vm" not in guests.run("sinfo -ho %R; echo $NEARMETAL_LAB_VM").split()
