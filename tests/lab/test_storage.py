"""`storage` on the lab: it measures a disk, refuses memory and a full one, and leaves nothing."""

import pytest
import yaml

from nearmetal.results import load_session
from nearmetal.util import files
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

pytestmark = pytest.mark.whole
QUICK = ["-S", "repeats=2", "-S", "storage.megabytes=32", "-S", "storage.seconds=1"]


def run(lab, prefix, directory, *words):
    """The check, where a site's file names this directory."""
    system = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    native = system["partitions"][0]
    native["extras"]["storage_shared"] = directory
    system |= {"name": "site", "partitions": [native]}
    files.write(prefix / "systems" / "site.yaml", yaml.safe_dump(system))
    words = ["-r", "--system", "site", "-n", "^storage", "--keep-stage-files", *QUICK, *words]
    return lab.reframe(*words, prefix=prefix, NEARMETAL_SYSTEMS_PATH=str(prefix / "systems"))


@pytest.mark.ci
def test_it_measures_the_stage_directory_and_leaves_nothing(lab, prefix):
    done = run(lab, prefix, "{stage}")
    assert done.returncode == 0 and "Ran 1/1" in done.stdout, done.stdout
    session = load_session(prefix / "results.db")
    [case] = session.cases
    values = {value.variable: value for value in case.values}
    assert set(values) == {
        f"{direction}_{quantity}"
        for direction in ("read", "write")
        for quantity in ("latency", "rate", "bandwidth")
    }
    assert all(len(value.samples) == 2 for value in values.values())
    assert " from /dev/" in case.facts["storage"]
    assert not list(prefix.rglob("nearmetal-storage.*"))


@pytest.mark.parametrize(
    "directory, words, says",
    [
        ("/scratch", [], ("/scratch", "is memory (tmpfs)")),
        ("/no/such", [], ("/no/such", "no directory that nearmetal may write", "storage_*")),
        ("/etc", [], ("/etc", "no directory that nearmetal may write")),
        ("{stage}", ["-S", "storage.megabytes=100000000"], ("MB left", "storage_megabytes")),
    ],
    ids=["memory", "absent", "of the system", "full"],
)
def test_it_refuses_what_is_no_storage_of_the_users(lab, prefix, directory, words, says):
    done = run(lab, prefix, directory, *words)
    assert done.returncode == 1
    [case] = load_session(prefix / "results.db").failures
    assert not lacking(case.failure, *says)
