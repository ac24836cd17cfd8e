"""Checks from Spack: which cases have what installed first, what is compared with the lock, and
what is said without Spack."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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
from tests.support.paths import CHECKOUT, RECORDED
from tests.support.recorded import session
from tests.support.said import lacking

ENVIRONMENTS = yaml.safe_load((CHECKOUT / "site-config" / "environments.yaml").read_text())
FROM_SPACK = [environment for environment in ENVIRONMENTS if "spack" in environment["features"]]


def lock_of(name: str):
    return locks.read_lock(ENVIRONMENTS_DIR / name / "spack.lock")


def as_installed(lock) -> dict[str, Installed]:
    return {
        node.hash: Installed(node.name, node.version, node.hash) for node in lock.nodes.values()
    }


# The lock and what is installed


@pytest.mark.parametrize(
    "name, packages",
    [
        ("openmpi", ["nearmetal-benchmarks", "openmpi"]),
        ("mpich", ["mpich", "nearmetal-benchmarks"]),
        ("fastmpj", ["mpj-express", "openjdk"]),
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
    installed, [_, openmpi] = as_installed(lock), measured(lock)
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
        "installed": "nearmetal-benchmarks",
        "mpj_express": "mpj-express",
        "npb_mz": "npb-mz",
        **{
            name: name
            for name in ("openmpi", "mpich", "npb", "hpcc", "slepc", "lammps", "nwchem", "gromacs")
        },
    }
    assert {feature for feature, name in gives.items() if name in names} == gives.keys() & set(
        environment["features"]
    )


def test_an_environment_is_one_of_ours_or_a_sites_own():
    from reframe.core.environments import Environment

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


def test_a_recipe_is_the_checkouts_own_from_the_copy_too(tmp_path):
    stage(ENVIRONMENTS_DIR / "openmpi", tmp_path / "stage")
    recipe = tmp_path / "stage" / locks.recipe("nearmetal-benchmarks").relative_to(ENVIRONMENTS_DIR)
    assert recipe.resolve() == locks.recipe("nearmetal-benchmarks")
    assert (tmp_path / "stage" / "openmpi" / "spack.lock").read_bytes() == (
        ENVIRONMENTS_DIR / "openmpi" / "spack.lock"
    ).read_bytes()


def test_an_installation_is_held_against_the_lock(tmp_path):
    lock = lock_of("openmpi")
    stage(ENVIRONMENTS_DIR / "openmpi", tmp_path / "spack-env")
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


# ReFrame, on a system without Slurm and without Spack


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
                        "launcher": "local",
                        "environs": ["gnu", "openmpi-spack", "mpich-spack"],
                        "extras": {
                            "link_class": "native",
                            "link_speed_gbps": 1,
                            "hypervisor": "none",
                            "cores_per_node": 1,
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
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
        }
        return subprocess.run(
            [
                sys.executable,
                "-c",
                "from reframe.frontend.cli import main; main()",
                "--nocolor",
                *arguments,
            ],
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


def test_only_environments_from_spack_have_it_installed_and_each_once(reframe):
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


def test_the_list_of_checks_names_what_they_need(reframe):
    listed = reframe("-c", "reframe_checks", "-n", "pingpong", "-l")
    assert (
        listed.returncode == 0 and "^spack_install ~here:batch+mpich-spack 'spack" in listed.stdout
    )


def test_a_duet_has_both_installed(reframe):
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


def test_without_spack_it_is_said_what_to_do(reframe):
    done = reframe(
        "-c", "reframe_checks", "-n", "pingpong%placement=intranode", "-p", "mpich-spack", "-r"
    )
    assert done.returncode == 1
    assert not lacking(done.stdout, "spack is not on PATH", "Spack 1.1.0", "README.md")
    assert (
        not lacking(done.stdout, "prepare_cmds", "mpich-spack")
        and "Ran 1/2 test case(s)" in done.stdout
    )


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
