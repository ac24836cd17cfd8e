"""What runs on the cluster: Python 3.9, and ReFrame 4.7 or newer."""

import ast
from types import SimpleNamespace

import pytest

from nearmetal.checks import baselines
from nearmetal.site import versions
from tests.support.paths import CHECKOUT

#: What ReFrame imports in a run: checks, site, expectations, and the modules below them.
PARTS = ("nearmetal/checks", "nearmetal/site", "nearmetal/expectations", "reframe_checks")
FILES = sorted(
    path.relative_to(CHECKOUT) for part in PARTS for path in (CHECKOUT / part).rglob("*.py")
)


@pytest.mark.parametrize("path", FILES, ids=str)
def test_the_running_part_is_python_3_9(path):
    ast.parse((CHECKOUT / path).read_text(), feature_version=(3, 9))


@pytest.mark.parametrize(
    "version, old", [("4.6.4", True), ("4.7.0", False), ("4.9.3", False), ("4.11.0-dev.1", False)]
)
def test_an_older_reframe_is_refused_in_one_sentence(version, old):
    said = versions.refused(version)
    assert bool(said) == old
    assert not old or (version in said and "4.7 or newer" in said and "Fix: " in said)


@pytest.mark.parametrize(
    "word, version, found",
    [
        ("envmod", "4.9.3", "tmod4"),
        ("envmod", "4.10.4", "envmod"),
        ("tmod4", "4.7.4", "tmod4"),
        ("lmod", "4.7.4", "lmod"),
    ],
)
def test_the_modules_system_has_the_versions_name(word, version, found):
    assert versions.modules_system(word, version) == found


@pytest.mark.parametrize(
    "word, version, known",
    [("tmod32", "4.9.3", True), ("tmod32", "4.10.4", False), ("tmod4", "4.10.4", True)],
)
def test_a_modules_system_that_reframe_has_left_out_is_refused(word, version, known):
    said = versions.refused_modules_system(word, version)
    assert bool(said) != known
    assert known or all(part in said for part in (word, version, "Fix: ", "envmod"))


def test_a_reframe_without_ref_files_gets_the_baselines_references():
    """By the class, as of a clone, and by partition, environment and parameters."""
    parent = type("pingpong", (), {})
    check = type("pingpong_0", (parent,), {"placement": "internode"})()
    check.current_partition = SimpleNamespace(fullname="lab:native")
    check.current_environ = SimpleNamespace(name="openmpi")
    entry = {"latency": [10, None, 0.25, "us"], "known": ["$xfail", "why", [1, None, 0.1, "us"]]}
    data = {
        "pingpong": {
            "$index": ["$partition", "$environ", "placement"],
            "lab:native": {"openmpi": {"internode": entry}},
        }
    }
    found = baselines.recorded_references(data, check)
    assert found == {"latency": (10, None, 0.25, "us"), "known": (1, None, 0.1, "us")}
    check.placement = "intranode"
    assert baselines.recorded_references(data, check) == {}
