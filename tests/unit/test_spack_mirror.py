"""A mirror of sources for Spack: names, packing, the scope, and what Debian lacks."""

import os
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from nearmetal.locks import spack_mirror
from nearmetal.locks.spack import LockError
from nearmetal.locks.spack_mirror import Archive
from nearmetal.util import documents

#: Lines of `apt-get source --only-source --print-uris` in Debian 13, the mirror's name aside.
LISTED = """\
'http://mirror.example/m/mpich_4.3.0%2breally4.2.1-1.dsc' mpich_4.3.0+really4.2.1-1.dsc 2894 SHA256:4ee05e305abaf9d3c7109c4f5797067ce1dbd551832bd1cf96bc9e01a1f3feaf
'http://mirror.example/m/mpich_4.3.0%2breally4.2.1.orig.tar.xz' mpich_4.3.0+really4.2.1.orig.tar.xz 24421244 SHA256:336c6609d6f9f5b6a668d9d8654f26eb381552de08ff853f41e6af27f5a99b9f
'http://mirror.example/m/mpich_4.3.0%2breally4.2.1-1.debian.tar.xz' mpich_4.3.0+really4.2.1-1.debian.tar.xz 344684 SHA256:91389a78515981a1212aa9692b7c188cb42712d0a9e8f3ce72dc47c5e686ceea
"""  # noqa: E501
GROMACS = """\
'http://mirror.example/g/gromacs_2025.2.orig-regressiontests.tar.gz' gromacs_2025.2.orig-regressiontests.tar.gz 32653416 SHA256:78b72161b4fdb45597b7ef8a005c017de9d856d3e68832a5a46dffc4dfc5e08d
'http://mirror.example/g/gromacs_2025.2.orig.tar.gz' gromacs_2025.2.orig.tar.gz 44447261 SHA256:0df09f9d45a99ef00e66b9baa9493a27e906813763a3b6c7672217c66b43ea11
"""  # noqa: E501
DIGEST = "ab" * 32


def test_the_archives_of_a_source_package():
    archives = spack_mirror.archives(LISTED)
    assert archives.keys() == {"orig", "debian"}
    assert archives["orig"].digest.startswith("336c6609")
    assert archives["orig"].url.endswith("%2breally4.2.1.orig.tar.xz")
    assert spack_mirror.archives(GROMACS)["orig"].name == "gromacs_2025.2.orig.tar.gz"


@pytest.mark.parametrize(
    "name, version",
    [
        ("openmpi_5.0.7.orig.tar.xz", "5.0.7"),
        ("ucx_1.18.1+ds.orig.tar.xz", "1.18.1"),
        ("mpich_4.3.0+really4.2.1.orig.tar.xz", "4.2.1"),
        ("libevent_2.1.13-stable.orig.tar.gz", "2.1.13"),
        ("zlib_1.3.dfsg+really1.3.1.orig.tar.gz", "1.3.1"),
        ("ncurses_6.5+20250216.orig.tar.gz", "6.5-20250216"),
        ("petsc_3.22.5+dfsg1.orig.tar.xz", "3.22.5"),
        ("lammps_20250204+dfsg.1.orig.tar.xz", "20250204"),
    ],
)
def test_versions_are_upstreams(name, version):
    assert Archive("", name, "").version == version


@pytest.fixture
def upstream(tmp_path) -> Path:
    """An archive of upstream's that carries another package along."""
    root = tmp_path / "outer-1"
    (root / "3rd-party" / "inner").mkdir(parents=True)
    (root / "README").write_text("outer")
    (root / "3rd-party" / "inner" / "configure").write_text("#!/bin/sh\n")
    (root / "3rd-party" / "inner" / "configure").chmod(0o755)
    with tarfile.open(tmp_path / "outer_1.orig.tar.xz", "w:xz") as packed:
        packed.add(root, arcname="outer-1")
    return tmp_path / "outer_1.orig.tar.xz"


def test_an_archive_is_packed_as_the_recipe_has_it(upstream, tmp_path):
    target = tmp_path / "mirror" / "outer" / "outer-1.tar.bz2"
    spack_mirror.pack(upstream, target, prepare="echo made > configure")
    with tarfile.open(target, "r:bz2") as packed:
        assert packed.extractfile("outer-1/configure").read() == b"made\n"
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_part_of_an_archive_becomes_one_of_its_own(upstream, tmp_path):
    target = tmp_path / "inner-2.tar.gz"
    spack_mirror.pack(upstream, target, inside="3rd-party/inner")
    with tarfile.open(target, "r:gz") as packed:
        assert packed.getnames() == ["inner-2", "inner-2/configure"]
        assert packed.getmember("inner-2/configure").mode == 0o755


def test_a_preparation_that_fails_leaves_no_archive(upstream, tmp_path):
    target = tmp_path / "mirror" / "outer-1.tar.gz"
    with pytest.raises(LockError, match=r"outer_1\.orig\.tar\.xz: .*autogen.* fails: .*not found"):
        spack_mirror.pack(upstream, target, prepare="./autogen.sh")
    assert not target.parent.exists()


class Shelf:
    """Debian's archive with one file, and a patch of it."""

    def __init__(self, upstream: Path):
        self.upstream = upstream

    def archive(self, source, kind):
        return Archive(f"http://mirror.example/{source}", f"{source}_1.{kind}.tar.xz", DIGEST)

    def fetch(self, archive):
        if archive.name.startswith("absent"):
            raise LockError(f"{archive.url}: HTTP Error 404: Not Found")
        if ".debian." not in archive.name:
            return self.upstream
        patches = self.upstream.with_name("debian") / "patches"
        patches.mkdir(parents=True)
        (patches / "fix.patch").write_text("--- a\n")
        with tarfile.open(self.upstream.with_name(archive.name), "w:xz") as packed:
            packed.add(patches.parent, arcname="debian")
        return self.upstream.with_name(archive.name)


SOURCES = {
    "suite": "trixie",
    "packages": {
        "outer": {"archive": "tar.gz"},
        "inner": {
            "archive": "tar.bz2",
            "source": "outer",
            "inside": "3rd-party/inner",
            "version": "2",
        },
        "absent": {"archive": "tar.gz"},
    },
    "digests": {"outer": {"1": DIGEST}},
    "patches": {"cd" * 32: {"source": "outer", "patch": "fix.patch"}},
    "require": {"outer": ["~docs"], "zlib-api": ["zlib"]},
}


def test_a_mirror_has_what_spack_looks_for_and_names_what_debian_lacks(upstream, tmp_path):
    place = tmp_path / "mirror"
    [fault] = spack_mirror.fill(place, SOURCES, Shelf(upstream))
    assert "absent: HTTP Error 404" in fault
    assert f"Fix: put {place}/absent/absent-1.tar.gz there yourself" in fault
    # By name where the recipe has no digest, else by digest.
    assert (place / "inner" / "inner-2.tar.bz2").is_file()
    link = place / "_source-cache" / "archive" / "ab" / f"{DIGEST}.tar.gz"
    assert link.resolve() == place / "outer" / "outer-1.tar.gz"
    assert not os.path.isabs(link.readlink())
    assert (place / "_source-cache" / "archive" / "cd" / ("cd" * 32)).read_text() == "--- a\n"
    scope = {path.stem: yaml.safe_load(path.read_text()) for path in (place / "scope").iterdir()}
    required = scope["packages"]["packages"]
    assert required["outer"] == {"require": ["~docs", "@=1"]}
    assert required["zlib-api"] == {"require": ["zlib"]}
    assert scope["config"] == {"config": {"checksum": False}}
    assert scope["mirrors"]["mirrors"]["nearmetal-sources"]["url"] == f"file://{place}"


def test_a_file_that_was_put_there_is_taken(upstream, tmp_path):
    (tmp_path / "absent").mkdir()
    (tmp_path / "absent" / "absent-1.tar.gz").write_bytes(b"")
    assert spack_mirror.fill(tmp_path, SOURCES, Shelf(upstream)) == []


def test_debians_index_is_asked_for_its_own_suite(tmp_path, monkeypatch):
    calls = []

    def run(command, **options):
        calls.append(command)
        return subprocess.CompletedProcess(command, 0, LISTED, "")

    monkeypatch.setattr(spack_mirror.subprocess, "run", run)
    monkeypatch.setenv("NEARMETAL_MIRROR", "http://mirror.example/debian")
    debian = spack_mirror.Debian(tmp_path, "trixie")
    line = (tmp_path / "sources.list").read_text()
    assert line.startswith("deb-src [signed-by=") and line.endswith("/debian trixie main\n")
    assert debian.archive("mpich", "orig").version == "4.2.1"
    assert calls[0][-1] == "update" and calls[1][-2:] == ["--print-uris", "mpich"]
    with pytest.raises(LockError, match="mpich has no regress archive"):
        debian.archive("mpich", "regress")


def test_a_file_of_another_digest_is_refused(tmp_path, monkeypatch):
    (tmp_path / "served").write_bytes(b"other")
    debian = object.__new__(spack_mirror.Debian)
    debian.work = tmp_path
    with pytest.raises(LockError, match="not the one that Debian signed"):
        debian.fetch(Archive((tmp_path / "served").as_uri(), "x_1.orig.tar.gz", DIGEST))
    assert not (tmp_path / "x_1.orig.tar.gz").exists()


def test_the_list_of_sources_is_as_its_schema():
    schema = documents.part(spack_mirror.SCHEMA, "sources")
    sources = documents.read(spack_mirror.SOURCES, schema)
    assert sources["digests"].keys() <= sources["packages"].keys()
