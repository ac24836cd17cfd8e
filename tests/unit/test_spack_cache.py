"""Build caches: what Spack is asked for, in which order, and what is said when it fails."""

import json
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal.locks import spack, spack_cache
from tests.support.paths import CHECKOUT, SPACK_LOCK
from tests.support.said import lacking


@pytest.fixture
def asked():
    """Commands that Spack was asked for, and a function that answers them with an exit code."""
    commands: list[list[str]] = []

    def run(command, code=0, at=""):
        commands.append(command)
        return code if at in command else 0

    return commands, run


def test_binaries_are_installed_by_the_lock_and_pushed_unsigned(asked):
    commands, run = asked
    told = spack_cache.fill(["spack", "-C", "/scope"], "openmpi", "/cache", run)
    assert [command[:3] for command in commands] == [["spack", "-C", "/scope"]] * 3
    mirror, install, push = (command[5:] for command in commands)
    assert mirror == ["mirror", "add", "--unsigned", "nearmetal", "/cache"]
    assert install == ["install", "--only-concrete", "--fail-fast"]
    assert push[:3] == ["buildcache", "push", "--unsigned"] and push[-1] == "/cache"
    assert "--without-build-dependencies" in push and "--update-index" in push
    lock = spack.read_lock(CHECKOUT / "spack-env" / "openmpi" / SPACK_LOCK)
    assert not lacking(told, "openmpi: /cache has", *spack_cache.externals(lock))
    assert {"gcc@14.2.0", "glibc@2.41"} <= set(spack_cache.externals(lock))


def test_spack_works_on_a_copy_that_has_all_that_it_includes(asked):
    seen = []

    def run(command):
        copy = command[command.index("-e") + 1]
        manifest = yaml.safe_load(Path(copy, "spack.yaml").read_text())["spack"]
        assert all((CHECKOUT / "spack-env" / "mpich" / one).exists() for one in manifest["include"])
        assert (Path(copy).parent / "repo" / "spack_repo" / "nearmetal" / "repo.yaml").exists()
        seen.append(copy)
        return 0

    spack_cache.fill(["spack"], "mpich", "/cache", run)
    assert len(set(seen)) == 1 and not Path(seen[0]).exists()


def test_a_spack_that_fails_or_changes_the_lock_is_named(asked):
    commands, run = asked
    with pytest.raises(spack.LockError, match=r"mpich: exit code 7 of: spack .* install"):
        spack_cache.fill(["spack"], "mpich", "/c", lambda words: run(words, 7, at="install"))
    assert len(commands) == 2

    def change(command):
        Path(command[2], "spack.lock").write_text("{}")
        return 0

    with pytest.raises(
        spack.LockError, match=r"Spack changed the copy of .*Fix: use Spack 1\.1\.0"
    ):
        spack_cache.fill(["spack"], "mpich", "/c", change)


@pytest.mark.parametrize(
    "text, place",
    [("s3://bucket/cache", "s3://bucket/cache"), ("/shared/cache", "/shared/cache")],
)
def test_a_cache_is_a_url_or_a_directory(text, place, tmp_path, monkeypatch):
    assert spack_cache.place_of(text) == place
    monkeypatch.chdir(tmp_path)
    assert spack_cache.place_of("cache") == str(tmp_path / "cache")


def test_without_spack_and_for_an_unknown_environment_it_is_said_what_to_do(capsys):
    assert spack_cache.main(["--spack", "/nonexistent/spack"]) == 1
    assert not lacking(capsys.readouterr().err, "is not on PATH", "README.md")
    assert spack_cache.main(["--spack", sys.executable, "opnmpi"]) == 1
    assert not lacking(capsys.readouterr().err, "no environment opnmpi", "apps, fastmpj, mpich")


def external_openmpi(site: Path) -> None:
    """Write the environment openmpi of a site whose Open MPI is the system's."""
    lock = json.loads((CHECKOUT / "spack-env" / "openmpi" / SPACK_LOCK).read_text())
    for node in lock["concrete_specs"].values():
        if node["name"] == "openmpi":
            node["external"] = {"path": "/opt/openmpi", "module": None}
    (site.parent / "fresh.lock").write_text(json.dumps(lock))
    spack_program = site.parent / "spack"
    spack_program.write_text(f'#!/bin/sh\ncp {site.parent}/fresh.lock "$2/spack.lock"\n')
    spack_program.chmod(0o755)
    words = ["--spack", str(spack_program), "--into", str(site), "--environment", "openmpi"]
    assert spack.main(words) == 0


def test_a_sites_own_lock_has_its_externals_and_leaves_ours(tmp_path, capsys):
    ours = (CHECKOUT / "spack-env" / "openmpi" / SPACK_LOCK).read_bytes()
    external_openmpi(tmp_path / "site")
    said = capsys.readouterr().out
    assert not lacking(said, str(tmp_path / "site" / "openmpi"), "openmpi@5.0.7", "gcc@14.2.0")
    assert (CHECKOUT / "spack-env" / "openmpi" / SPACK_LOCK).read_bytes() == ours
    written = tmp_path / "site" / "openmpi"
    manifest = yaml.safe_load((written / "spack.yaml").read_text())["spack"]
    assert all((written / one).is_dir() for one in manifest["include"])
    recipe = "repo/spack_repo/nearmetal/packages/mpj_express/package.py"
    assert (tmp_path / "site" / recipe).resolve() == spack.recipe("mpj-express")


def test_a_sites_own_lock_fills_a_cache(tmp_path, asked, capsys):
    commands, run = asked
    site = tmp_path / "site"
    external_openmpi(site)
    told = spack_cache.fill(["spack"], "openmpi", "/cache", run, site)
    assert len(commands) == 3 and not lacking(told, "Not in it", "openmpi@5.0.7")
    # Of links to our environments it installs none.
    cache = ["--spack", "true", "--site", str(site), "--cache", str(tmp_path / "cache")]
    assert spack_cache.main(cache) == 0
    told = capsys.readouterr().out
    assert "openmpi: " in told and "mpich: " not in told
    empty = [*cache[:2], "--site", str(tmp_path / "nothing")]
    assert spack_cache.main(empty) == 1
    assert f"make spack-lock SITE={tmp_path}/nothing" in capsys.readouterr().err
