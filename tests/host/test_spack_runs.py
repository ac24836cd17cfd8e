"""Checks from Spack: which cases have what installed first, what is compared with the lock, and
what is said without Spack."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from reframe.core import runtime
from reframe.core.environments import Environment

from nearmetal import results
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.spack import Installed, disagreements, measured, parse_installed
from nearmetal.checks.spack_install import (
    ENVIRONMENTS_DIR,
    commands_to_write,
    differs,
    directory,
    locks,
    stage,
)
from nearmetal.checks.spack_store import absence
from tests.support.paths import CHECKOUT, RECORDED, SPACK_LOCK
from tests.support.recorded import session
from tests.support.reframe import REFRAME
from tests.support.said import lacking

ENVIRONMENTS = yaml.safe_load((CHECKOUT / "site-config" / "environments.yaml").read_text())
FROM_SPACK = [environment for environment in ENVIRONMENTS if "spack" in environment["features"]]


def lock_of(name: str):
    return locks.read_lock(ENVIRONMENTS_DIR / name / SPACK_LOCK)


def as_installed(lock) -> dict[str, Installed]:
    return {
        node.hash: Installed(node.name, node.version, node.hash) for node in lock.nodes.values()
    }


# The lock and what is installed


@pytest.mark.parametrize(
    "name, packages",
    [
        ("openmpi", ["openmpi"]),
        ("mpich", ["mpich"]),
        ("fastmpj", ["mpj-express", "openjdk"]),
        ("mpj-native", ["mpj-express", "openjdk", "openmpi"]),
    ],
)
def test_results_are_told_with_what_was_asked_for(name, packages):
    assert [node.name for node in measured(lock_of(name))] == packages


def test_results_are_told_with_the_mpi_that_nobody_asked_for_by_name():
    lock = lock_of("apps")
    assert "openmpi" in {node.name for node in measured(lock)} - {
        spec.split("@")[0] for spec in lock.roots
    }


def test_what_is_as_the_lock_says_agrees():
    lock = lock_of("openmpi")
    assert disagreements(lock, as_installed(lock)) == []
    assert (
        disagreements(lock, {node.hash: as_installed(lock)[node.hash] for node in measured(lock)})
        == []
    )


def test_what_is_missing_or_another_is_said():
    lock = lock_of("openmpi")
    installed, [openmpi] = as_installed(lock), measured(lock)
    del installed[openmpi.hash]
    other = "x" * 32
    installed[other] = Installed("openmpi", "5.0.8", other)
    installed["y" * 32] = Installed("stranger", "1", "y" * 32)
    missing, another, stranger = disagreements(lock, installed)
    assert not lacking(missing, f"openmpi@5.0.7/{openmpi.hash}", "lock", "is not installed")
    assert not lacking(another, f"openmpi@5.0.8/{other}", f"5.0.7/{openmpi.hash}")
    assert not lacking(stranger, f"stranger@1/{'y' * 32}", "lock has none")


def test_what_spack_found_is_read():
    found = parse_installed((RECORDED / "spack_find.txt").read_text())
    assert found["m2wa4jjgqzftpxhd63ek5dzv4ttjjisd"] == Installed(
        "nearmetal-benchmarks", "0.1.0", "m2wa4jjgqzftpxhd63ek5dzv4ttjjisd"
    )
    assert [one.name for one in found.values()] == [
        "compiler-wrapper",
        "gcc",
        "gcc-runtime",
        "glibc",
        "nearmetal-benchmarks",
        "openmpi",
    ]


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "environment is not installed"),
        ("\n", "environment is not installed"),
        ("==> In environment openmpi\n", "is not a package"),
        (f"pmix 5.0.7 {'a' * 7}\n", "is not a package"),
        (f"pmix {'a' * 32}\n", "is not a package"),
    ],
)
def test_what_spack_did_not_say_whole_is_refused(text, words):
    with pytest.raises(ParseError, match=words):
        parse_installed(text)


# What a job does


@pytest.mark.parametrize("environment", FROM_SPACK, ids=lambda environment: environment["name"])
def test_environments_have_what_their_locks_give(environment):
    names = {node.name for node in measured(lock_of(environment["extras"]["spack_env"]))}
    gives = {
        "npb_mz": "npb-mz",
        "osu": "osu-micro-benchmarks",
        "mdtest": "ior",
        **{
            name: name
            for name in (
                "openmpi",
                "mpich",
                "npb",
                "hpcc",
                "hpcg",
                "ior",
                "slepc",
                "lammps",
                "nwchem",
                "gromacs",
            )
        },
    }
    features = set(environment["features"])
    if "mpj" in features:  # mpj-native calls Open MPI
        of_java = {"mpj_express": "mpj-express", "mpj_native": "openmpi"}
        [library] = of_java.keys() & features
        assert {of_java[library], "openjdk"} <= names
    else:
        assert gives.keys() & features == {key for key, name in gives.items() if name in names}


def test_an_environment_is_one_of_ours_or_a_sites_own():
    assert (
        directory(Environment("here", extras={"spack_env": "mpich"})) == ENVIRONMENTS_DIR / "mpich"
    )
    assert directory(Environment("here", extras={"spack_env": "/site/mpi"})) == Path("/site/mpi")


def test_spack_writes_into_a_copy_and_finds_what_it_includes(tmp_path):
    target, own = tmp_path / "stage", tmp_path / "site" / "openmpi"
    own.mkdir(parents=True)
    (tmp_path / "site" / "common").mkdir()
    (own / "spack.yaml").write_text("spack: {include: [../common]}")
    (own / ".spack-env").mkdir()  # of somebody who installed it there
    stage(own, target)
    stage(own, target)  # of a job that is run again
    assert sorted(str(path.relative_to(target)) for path in target.rglob("*")) == [
        "common",
        "openmpi",
        "openmpi/spack.yaml",
    ]
    assert (target / "openmpi" / ".." / "common").resolve() == tmp_path / "site" / "common"


def test_an_installation_is_held_against_the_lock(tmp_path):
    lock = lock_of("openmpi")
    stage(ENVIRONMENTS_DIR / "openmpi", tmp_path / "spack-env")
    shutil.copy(lock.path, tmp_path / "spack-env" / "openmpi" / "spack.lock")
    assert "No such file" in differs(lock, tmp_path)
    found = tmp_path / "spack.found"
    found.write_text(
        "".join(f"{one.name} {one.version} {one.hash}\n" for one in as_installed(lock).values())
    )
    assert differs(lock, tmp_path) == ""
    found.write_text((RECORDED / "spack_find.txt").read_text())
    assert (
        "nearmetal-benchmarks@0.1.0/m2wa4jjgqzftpxhd63ek5dzv4ttjjisd is installed, but"
        in differs(lock, tmp_path)
    )
    (tmp_path / "spack-env" / "openmpi" / "spack.lock").write_text("{}")
    assert "Spack changed the lock" in differs(lock, tmp_path)


def test_software_is_put_on_another_path_and_taken_away(tmp_path):
    said = """printf 'export PATH=/opt/a/bin:/opt/b/bin:%s;\\nexport HOME_OF_A="/opt/a";\\n' "$PATH\""""  # noqa: E501
    here = {"PATH": f"/usr/bin:/bin:{tmp_path}"}
    subprocess.run(
        ["bash", "-e", "-c", "\n".join(commands_to_write("load.sh", said))],
        cwd=tmp_path,
        env=here,
        check=True,
    )
    there = subprocess.run(
        ["bash", "-e", "-c", '. ./load.sh; echo "$PATH $HOME_OF_A"; PATH=$spackless; echo "$PATH"'],
        cwd=tmp_path,
        env={"PATH": "/bin:/else where"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert there.stdout == "/opt/a/bin:/opt/b/bin:/bin:/else where /opt/a\n/bin:/else where\n"


# ReFrame, on a system without Slurm


@pytest.fixture
def spack(tmp_path):
    """Put a `spack` on PATH that reports all packages of some environments' locks as installed.

    :returns: function: names of environments in spack-env/, or a script -> None.
    """

    def put(*installed: str, script: str = ""):
        hashes = sorted({node for name in installed for node in lock_of(name).nodes})
        (tmp_path / "installed").write_text("\n".join(["x" * 32, *hashes]) + "\n")
        told = script or f'[ "$1 $2" = "-E find" ] && cat {tmp_path}/installed'
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / "spack").write_text(f"#!/bin/sh\n{told}\n")
        (tmp_path / "bin" / "spack").chmod(0o755)

    return put


@pytest.fixture
def reframe(tmp_path):
    """ReFrame's command on a system of three environments, of which two are from Spack."""
    (tmp_path / "here.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "here",
                "hostnames": [],
                "partitions": [
                    {
                        "name": "batch",
                        "scheduler": "local",
                        "launcher": "mpirun",
                        "environs": ["gnu", "openmpi-spack", "mpich-spack"],
                        "extras": {
                            "link_class": "native",
                            "link_speed_gbps": 1,
                            "hypervisor": "none",
                            "cores_per_node": 2,
                            "no_baseline": "a test",
                        },
                    }
                ],
            }
        )
    )

    def run(*arguments):
        settings = {
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "NEARMETAL_SYSTEMS_PATH": str(tmp_path),
            "RFM_PREFIX": str(tmp_path / "results"),
            "RFM_SYSTEM": "here",
            "RFM_RESOLVE_MODULE_CONFLICTS": "0",
            "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
            "HOME": str(tmp_path),
        }
        return subprocess.run(
            [*REFRAME, *arguments],
            cwd=CHECKOUT,
            env={
                **{
                    name: value for name, value in os.environ.items() if not name.startswith("RFM_")
                },
                **settings,
            },
            text=True,
            capture_output=True,
        )

    return run


def cases(text: str) -> list[str]:
    """Of a list of cases those that others need, behind what needs them."""
    lines = [line for line in text.splitlines() if " @" in line]
    return [
        line.split(" @")[0].split("~")[0].strip(" -^") + " " + line.rsplit("+", 1)[1]
        for line in lines
    ]


def test_only_environments_from_spack_have_it_installed_and_each_once(reframe, spack):
    spack("openmpi", "mpich")
    listed = reframe(
        "-c", "reframe_checks", "-n", "osnoise|pingpong%placement=intranode", "-lC"
    ).stdout
    assert [line.split()[0] for line in cases(listed)] == [
        "osnoise",
        *["pingpong", "spack_install"] * 2,
    ]
    ran = reframe(
        "-c", "reframe_checks", "-n", "collectives|pingpong%placement=intranode", "--dry-run"
    ).stdout
    assert ran.count("DRY      ] spack_install") == 2 and "(0 failure(s)" in ran, ran


def test_the_list_of_checks_names_what_they_need(reframe, spack):
    spack("openmpi", "mpich")
    listed = reframe("-c", "reframe_checks", "-n", "pingpong", "-l")
    assert (
        listed.returncode == 0 and "^spack_install ~here:batch+mpich-spack 'spack" in listed.stdout
    )


def test_a_duet_has_both_installed(reframe, spack):
    spack("openmpi", "mpich")
    listed = reframe(
        "-c",
        "reframe_checks/duet",
        "-n",
        "pingpong_duet%placement=intranode",
        "-lC",
        "-S",
        "environs=mpich-spack,openmpi-spack",
    ).stdout
    assert cases(listed)[1:] == ["spack_install mpich-spack", "spack_install openmpi-spack"]


INTRANODE = ("-c", "reframe_checks", "-n", "pingpong%placement=intranode")


def skipped(text: str) -> dict[str, str]:
    """Environment -> reason, of the cases that ReFrame skipped."""
    return dict(re.findall(r"SKIP \] .*?@here:batch\+(\S+) \[(.*)\]$", text, re.M))


def test_without_spack_a_case_is_skipped_with_the_reason_and_the_command(reframe):
    done = reframe(*INTRANODE, "-r")
    assert done.returncode == 0 and "Ran 0/2 test case(s)" in done.stdout, done.stdout
    told = skipped(done.stdout)
    assert set(told) == {"openmpi-spack", "mpich-spack"}
    needs = "mpich-spack (mpich@4.2.1) needs Spack"
    assert not lacking(told["mpich-spack"], needs, "Spack 1.1.0", "README.md")
    assert f"spack -e {ENVIRONMENTS_DIR}/mpich install --only-concrete" in told["mpich-spack"]


def test_the_environment_of_java_says_that_it_holds_mpj_express(monkeypatch):
    """Its directory is named after FastMPJ, which must not be passed on."""
    monkeypatch.setattr(runtime, "emit_loadenv_commands", lambda *_: ["PATH=/nonexistent"])
    java = Environment("mpj-spack", extras={"spack_env": "fastmpj"})
    reason = absence(java, SimpleNamespace(local_env=None, processor=SimpleNamespace(arch=None)))
    assert reason.startswith("mpj-spack (mpj-express@0.44 and 1 more) needs Spack")


def test_nodes_of_another_architecture_need_a_lock_of_theirs(monkeypatch):
    monkeypatch.setattr(runtime, "emit_loadenv_commands", lambda *_: ["PATH=/nonexistent"])
    fugaku = SimpleNamespace(local_env=None, processor=SimpleNamespace(arch="a64fx"))
    reason = absence(Environment("openmpi-spack", extras={"spack_env": "openmpi"}), fugaku)
    facts = ["openmpi-spack: ", "x86_64_v3", "nodes are aarch64", "make spack-lock SITE="]
    assert not lacking(reason, *facts)


def test_what_is_not_installed_is_skipped_and_what_is_installed_is_verified(reframe, spack):
    spack("openmpi")
    done = reframe(*INTRANODE, "--dry-run")
    told = skipped(done.stdout)
    assert set(told) == {"mpich-spack"} and "Ran 2/3 test case(s)" in done.stdout, done.stdout
    assert not lacking(told["mpich-spack"], "is not installed", "mpich@4.2.1")
    assert f"spack -e {ENVIRONMENTS_DIR}/mpich install" in told["mpich-spack"]
    assert done.stdout.count("DRY      ] spack_install") == 1


def test_a_spack_with_nothing_installed_and_one_that_fails_are_told_apart(reframe, spack):
    spack()
    told = skipped(reframe(*INTRANODE, "--dry-run").stdout)
    assert {"is not installed" in reason for reason in told.values()} == {True}
    spack(script="echo 'Error: no config' >&2; exit 3")
    told = skipped(reframe(*INTRANODE, "--dry-run").stdout)
    assert not lacking(told["openmpi-spack"], "exit code 3", "Error: no config", "by hand")


def test_spack_is_asked_once_for_each_environment(reframe, spack, tmp_path):
    spack(script=f"echo asked >> {tmp_path}/asked")
    reframe("-c", "reframe_checks", "-lC")
    assert (tmp_path / "asked").read_text().count("asked") == 2


def test_what_is_not_installed_is_installed_where_it_is_asked_for(reframe, spack):
    spack()
    done = reframe(*INTRANODE, "--dry-run", "-S", "spack_missing=install")
    assert done.stdout.count("DRY      ] spack_install") == 2 and not skipped(done.stdout)


def test_an_installation_without_spack_fails_and_says_what_to_do(reframe):
    done = reframe(*INTRANODE, "-p", "mpich-spack", "-r", "-S", "spack_missing=install")
    assert done.returncode == 1
    assert not lacking(done.stdout, "spack is not on PATH", "Spack 1.1.0", "README.md")
    assert (
        not lacking(done.stdout, "prepare_cmds", "mpich-spack")
        and "Ran 1/2 test case(s)" in done.stdout
    )


def test_an_installation_takes_binaries_from_the_cache_of_the_partition(reframe, spack, tmp_path):
    spack("mpich")
    system = yaml.safe_load((tmp_path / "here.yaml").read_text())
    system["partitions"][0]["extras"]["spack_cache"] = "/shared/spack cache"
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(system))
    assert "here:batch: extras.spack_cache" in reframe(*INTRANODE, "--dry-run").stdout
    system["partitions"][0]["extras"]["spack_cache"] = "/shared/cache"
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(system))
    reframe(*INTRANODE, "--dry-run", "-p", "mpich-spack")
    [script] = (tmp_path / "results").rglob("spack_install*/rfm_build.sh")
    lines = script.read_text().splitlines()
    added = lines.index("spack -e spack-env/mpich mirror add --unsigned nearmetal /shared/cache")
    installs = "spack -e spack-env/mpich install"
    [install] = [
        number
        for number, line in enumerate(lines)
        if line.startswith(installs) and "--cache-only" not in line
    ]
    assert added < install and "--only-concrete" in lines[install]
    # First without what only building needs: no cache has that, and Spack would compile it.
    [first] = [number for number, line in enumerate(lines) if "--cache-only" in line]
    assert added < first < install and "||" in lines[first]


def test_another_value_of_the_setting_is_refused(reframe):
    done = reframe(*INTRANODE, "--dry-run", "-S", "spack_missing=build")
    assert done.returncode == 1
    assert not lacking(done.stdout, "spack_missing is 'build'", "choose from skip, install")


def test_the_reason_is_stored_with_the_case(reframe, tmp_path):
    reframe(*INTRANODE, "-r")
    [report] = (tmp_path / "results" / "reports").glob("run-report-*.json")
    session = results.parse_session(json.loads(report.read_text()), "here")
    assert len(session.skipped) == len(session.reasons) == 2
    [one, other] = session.skipped_notes
    assert not lacking(one, "pingpong %placement=intranode | batch | openmpi-spack: openmpi-spack")
    assert "mpich-spack: mpich-spack (mpich@4.2.1" in other


def test_a_check_without_a_case_is_reported_with_the_feature_that_is_missing(reframe):
    told = reframe("-c", "reframe_checks", "--dry-run").stdout
    assert "Not on here: hpcc %page_size=large, hpcc %page_size=small: no environment has" in told
    assert not lacking(told, "no environment has the feature lammps", "docs/cluster.md#features")
    install = f"spack -e {ENVIRONMENTS_DIR}/apps install --only-concrete"
    for line in told.splitlines():
        if re.match("Not on here: .*feature (lammps|slepc|hpcc|npb_mz) ", line):
            assert not lacking(line, "add apps-spack to the environs", install), line
    assert len(re.findall(r"^Not on here: .*\. Fix: ", told, re.M)) == told.count("Not on here: ")
    assert not lacking(told, "`rdma: true`", "`storage_shared: DIRECTORY`", "guests of one host")
    assert not lacking(told, "Not on here: rdma %operation=read", "no partition has the feature")
    assert "Not on here: pingpong %placement=guests, vswitch: " in told
    missing = [line for line in told.splitlines() if line.startswith("Not on")]
    assert "pingpong %placement=intranode" not in " ".join(missing)
    told = reframe("-c", "reframe_checks", "--dry-run", "-n", "osnoise|lammps").stdout
    assert "Not on here: lammps: " in told and "hpcc" not in told
    assert "Not on" not in reframe("-c", "reframe_checks", "--dry-run", "-p", "gnu").stdout


# What `nearmetal` makes of it


def with_a_fixture(data: dict, result: str) -> dict:
    """A session in which software was installed first."""
    cases = data["runs"][0]["testcases"]
    case = {
        key: cases[0][key] for key in ("environ", "partition", "system", "job_completion_time_unix")
    }
    case |= {
        "fixture": True,
        "name": "spack_install",
        "display_name": "spack_install ~here",
        "result": result,
    }
    cases.insert(
        0,
        case
        | (
            {"fail_phase": "compile_wait", "fail_reason": "build error"} if result == "fail" else {}
        ),
    )
    data["session_info"]["num_cases"] += 1
    return data


def test_an_installation_measures_nothing():
    more = with_a_fixture(session("session_lab"), "pass")
    assert results.parse_session(more, "here") == results.parse_session(
        session("session_lab"), "here"
    )


def test_an_installation_that_failed_is_told_and_a_duet_stays_one():
    failed = results.parse_session(with_a_fixture(session("session_lab"), "fail"), "here")
    assert [(case.check, case.failure) for case in failed.failures] == [
        ("spack_install ~here", "build error")
    ]
    assert failed.kind == "campaign"
    duets = next(RECORDED.glob("session_duet*.json"))
    assert (
        results.parse_session(with_a_fixture(json.loads(duets.read_text()), "fail"), "here").kind
        == "duet"
    )
