"""`nearmetal expect`: bounds with their reasons, and what of a session deviates."""

import re

import pytest
import yaml

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge.expected import Expectations
from nearmetal.site import system
from tests.support.recorded import session, store

EXTRAS = {"link_class": "native", "link_type": "ethernet", "link_speed_gbps": 10}


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs the command: (exit code, output, errors)."""
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path))

    def run(*words):
        monkeypatch.setattr("sys.argv", ["nearmetal", "expect", *map(str, words)])
        code = main()
        return (code, *capsys.readouterr())

    return run


def describe(directory, system="here", environs=("gnu",), **extras):
    """Write a system's file with one partition, `batch`."""
    partition = {"name": "batch", "scheduler": "slurm", "launcher": "srun"}
    partition["environs"] = list(environs)
    partition["extras"] = {**EXTRAS, "hypervisor": "none", **extras}
    document = {"name": system, "hostnames": [], "partitions": [partition]}
    (directory / f"{system}.yaml").write_text(yaml.safe_dump(document))


@pytest.mark.parametrize("damage", ["name: x\ndescr: 2026-02-30\n", "name: [", "- a\n", ""])
def test_a_damaged_file_stops_only_what_it_may_describe(command, tmp_path, damage):
    describe(tmp_path)
    path = tmp_path / "other.yaml"
    path.write_text(damage)
    code, out, err = command("here")
    assert code == 0 and out.startswith("here:batch")
    assert err.startswith(f"nearmetal: {path}: cannot be read as YAML: ") and "Fix: " in err
    assert len(err.splitlines()) == 1
    code, _, err = command("nowhere")
    assert code == 3 and "no file describes the system 'nowhere'" in err
    code, _, err = command("other")
    assert code == 3 and f"'other' may be described there: {path}: " in err


@pytest.mark.parametrize("key", ["hostnames: 5", "partitions: 5", "partitions: [{extras: 5}]"])
def test_what_a_file_says_of_baselines_is_read_whatever_else_it_holds(tmp_path, monkeypatch, key):
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path))
    (tmp_path / "other.yaml").write_text(f"name: other\n{key}\n")
    assert system.obsolete_keys("other") == [] and system.name_of_host("no-such-host-1") == ""


def test_a_partitions_bounds_are_listed_with_reason_and_source(command):
    code, out, _ = command("cag:passthrough")
    assert code == 0 and "cag:native" not in out
    line = r"share_passthrough: pingpong placement=internode: peak_bandwidth: at least 3.6 Gb/s"
    assert re.search(line + r".*\n    why: .*7\.2 of 10 Gb/s.*\n    source: Exposito", out)
    code, out, _ = command("cag")
    assert code == 0 and "cag:native" in out and "cag:passthrough" in out


def test_what_is_not_known_here_is_said(command, tmp_path):
    describe(tmp_path, link_speed_gbps="unknown")
    code, out, _ = command("here")
    assert code == 0 and "  link_rate: link_speed_gbps is 'unknown'" in out
    assert "  memory_rate: memory_gbps is not known" in out
    describe(tmp_path, memory_gbps=100)
    out = command("here")[1]
    assert "stream: the case: most_of('triad_*') at least 40000 (400 * memory_gbps)" in out


def test_a_sites_own_bound_is_listed_with_its_reason(command, tmp_path):
    describe(tmp_path, expected={"link_rate": {"most": 20, "reason": "two links"}})
    code, out, _ = command("here:batch")
    assert code == 0 and "at most 20 Gb/s" in out and "the site's bound: two links" in out
    describe(tmp_path, expected={"link_rates": {"most": 20, "reason": "two links"}})
    code, _, error = command("here:batch")
    assert code == 3 and "here:batch: extras.expected" in error and "link_rate?" in error
    assert str(tmp_path / "here.yaml") in error


def test_bounds_without_a_possible_value_fail_with_the_keys_of_the_file(command, tmp_path):
    change = {"tcp_share_native": {"least": 15, "reason": "two ports are bonded here"}}
    describe(tmp_path, expected=change)
    code, out, error = command("here")
    assert code == 3 and not out
    where = f"{tmp_path}/here.yaml: here:batch: extras"
    for words in (
        "peak_bandwidth has no possible value: tcp_share_native expects at least 15",
        "link_rate expects at most 10.2",
        f"{where}.expected.tcp_share_native or {where}.link_speed_gbps",
    ):
        assert words in error, error
    change = {"latency_native": {"most": 0.4, "reason": "the link is in memory"}}
    describe(tmp_path, expected=change, environs=["openmpi"], cores_per_node=2)
    code, _, error = command("here")
    assert code == 3 and "startup_latency has no possible value" in error, error


def test_what_a_site_dropped_is_listed(command, tmp_path):
    describe(tmp_path, expected={"optimized": {"matches": "none", "reason": "a debugger"}})
    out = command("here")[1]
    assert "optimized: *: the case: no bound" in out and "the site's bound: a debugger" in out


def test_a_processor_that_an_expectation_is_about_is_listed(command):
    out = command("cag:native")[1]
    assert "stream_hbv3: stream (processor .*EPYC 7V73X.*): the case" in out


def test_a_file_that_cannot_be_read_is_no_unknown_system(command, tmp_path):
    (tmp_path / "here.yaml").write_text("name: [here\n")
    code, _, error = command("here")
    assert code == 3 and f"{tmp_path}/here.yaml: cannot be read as YAML" in error
    (tmp_path / "here.yaml").unlink()
    (tmp_path / "ec2.yaml").write_text("name: [ec2\n")
    code, _, error = command("ec2")  # the shipped file would not be the site's
    assert code == 3 and f"{tmp_path}/ec2.yaml: cannot be read as YAML" in error


def test_an_unknown_system_or_partition_is_bad_usage(command):
    for place, word in (("nowhere", "nowhere"), ("cag:pass", "'pass' is unknown")):
        code, _, error = command(place)
        assert code == 3 and word in error and "Fix: " in error


def test_a_session_is_held_against_the_expectations(command, tmp_path):
    database = store(tmp_path / "results.db", session("session_lab"))
    code, out, _ = command("lab", "--judge", "--database", database)
    assert code == 1 and "6 measured cases, 4 deviations" in out, out
    data = session("session_lab")
    for case in data["runs"][0]["testcases"]:
        if case["partition"] == "native":
            slow = [1000 * one for one in case["samples"]["startup_latency"]]
            case["samples"]["startup_latency"] = slow
            [entry] = [v for k, v in case["perfvalues"].items() if k.endswith("startup_latency")]
            entry[0] *= 1000
    database = store(tmp_path / "sick.db", data)
    code, out, _ = command("lab", "--judge", "--database", database)
    # The native values are the odd ones: 1 KiB contradicts them, too.
    assert code == 1 and "(passthrough_beside_native)" in out
    assert "pingpong %placement=internode on native with mpich" in out
    parsed = results.parse_session(data, "here")
    found = Expectations.of("lab").deviations(parsed)
    assert {one.case.partition for one in found} == {"native", "emulated"}
