"""`nearmetal init` and `nearmetal doctor` on the lab, as on a cluster that they do not know."""

import pytest
import yaml

from nearmetal import files
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: Cases of each environment: a minute.
pytestmark = pytest.mark.whole


def test_init_writes_a_file_by_which_doctor_finds_nothing_missing(lab, prefix):
    write = f"nearmetal init mine --directory {prefix}"
    refused = lab("exec", f"{write} < /dev/null", check=False)
    assert refused.returncode == 3 and "--yes" in refused.stdout
    written = lab("exec", f"{write} --yes", check=False)
    assert written.returncode == 0, written.stdout
    text = (prefix / "mine.yaml").read_text()
    found = {one["name"]: one["extras"] for one in yaml.safe_load(text)["partitions"]}
    ours = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    for partition in ours["partitions"]:
        if partition["name"] in found:
            extras = found[partition["name"]]
            assert extras["link_class"] == partition["extras"]["link_class"], partition["name"]
            assert extras["link_speed_gbps"] == "memory"
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
