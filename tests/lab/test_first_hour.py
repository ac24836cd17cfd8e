"""`nearmetal init` and `nearmetal doctor` on the lab, as on a cluster that they do not know."""

import pytest
import yaml

from nearmetal.util import files
from tests.support import meaning
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: Cases of each environment: a minute.
pytestmark = pytest.mark.whole

VERDICTS = ("same", "absent", "added", "different")
#: Facts of the cluster that `init` finds as a person wrote them into lab.yaml.
SAME = {"scheduler", "launcher", "access", "features", "container_platforms"}
SAME |= {f"extras.{key}" for key in ("link_class", "link_type", "link_speed_gbps")}
#: Images may be built or not. The host may be a virtual machine, and init says so of its nodes.
#: A person wrote less time than the partitions allow, and other words for a source and a NIC.
DIFFERENT = {
    "extras.max_pending_time",
    "environs",
    "extras.hypervisor",
    "extras.max_time_limit",
    "extras.nic_model",
}
DIFFERENT |= {"extras.source", "extras.no_baseline"}
#: lab.yaml leaves these out, since they are those of whatever machine carries the lab.
ADDED = {f"extras.{key}" for key in ("cpu", "nodes", "cores_per_node", "memory_gb")}
ADDED |= {"extras.guest_memory_gb"}


@pytest.mark.ci
def test_init_writes_a_file_by_which_doctor_finds_nothing_missing(lab, prefix):
    write = f"nearmetal init mine --directory {prefix}"
    refused = lab("exec", f"{write} < /dev/null", check=False)
    assert refused.returncode == 3 and "--yes" in refused.stdout
    written = lab("exec", f"{write} --yes", check=False)
    assert written.returncode == 0, written.stdout
    text = (prefix / "mine.yaml").read_text()
    ours = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    rows = meaning.compared(ours, yaml.safe_load(text))
    shown = str(meaning.table(rows))
    assert {partition for partition, *_ in rows} == {"native", "passthrough", "emulated"}
    keys = {
        verdict: {key for _, key, found, *_ in rows if found == verdict} for verdict in VERDICTS
    }
    assert keys["same"] >= SAME and not SAME & keys["different"], shown
    assert keys["different"] <= DIFFERENT and keys["added"] <= ADDED, shown
    # What is absent is chosen, not found: how jobs are sent, and how much is measured.
    assert not keys["absent"] & (SAME | ADDED), shown
    assert lab("exec", f"{write} --yes", check=False).returncode == 3

    # All nodes use this machine's memory, which no cluster's nodes do.
    heap = text.replace("      cores_per_node: ", "      java_heap_mb: 256\n      cores_per_node: ")
    files.write(prefix / "mine.yaml", heap)
    ask = f"env NEARMETAL_SYSTEMS_PATH={prefix} nearmetal doctor mine:native"
    ask += f" --directory {prefix}/doctor"
    well = lab("exec", ask, check=False, timeout=300)
    assert well.returncode == 0, well.stdout
    assert not lacking(well.stdout, "native, openmpi: launch ran", "native, mpj: pingpong")

    files.write(prefix / "mine.yaml", heap.replace("[-p native]", "[-p natve]"))
    sick = lab("exec", f"{ask} --no-jobs", check=False)
    assert sick.returncode == 2 and not lacking(
        sick.stdout, "'natve'", "did you mean native", "Fix"
    )
