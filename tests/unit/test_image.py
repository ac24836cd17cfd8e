"""What the node image is made from, and when it is made anew."""

import pytest

from nearmetal.lab import cache, image


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """A copy of the files that the image is made from."""
    for name in ("packages.txt", "customize.sh", "mariadb.cnf"):
        (tmp_path / name).write_bytes((image.HERE / name).read_bytes())
    monkeypatch.setattr(image, "HERE", tmp_path)
    return tmp_path


def test_only_apptainer_comes_from_the_rolling_suite():
    stable, rolling = image.packages()
    assert rolling == ["apptainer"]
    assert {
        "slurmctld",
        "slurmdbd",
        "mariadb-server",
        "munge",
        "libopenmpi-dev",
        "libmpich-dev",
        "gfortran",
        "libmpj-java",
        "hwloc-nox",
        "numactl",
        "qperf",
        "hpcc",
        "libslepc-complex3.22-dev",
        "libopenblas0-openmp",
    } <= set(stable)


@pytest.mark.parametrize("name", ["packages.txt", "customize.sh", "mariadb.cnf"])
def test_a_changed_input_gives_another_image(inputs, name):
    before = image.key()
    assert image.key() == before
    (inputs / name).write_text((inputs / name).read_text() + "\n")
    assert image.key() != before


def test_the_mirror_may_be_given(monkeypatch):
    monkeypatch.setenv("NEARMETAL_MIRROR", "file:/srv/debian")
    assert image.mirror() == "file:/srv/debian"


def test_clean_spares_what_a_lab_stands_on(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARMETAL_CACHE", str(tmp_path))
    for name in ("image-1", "image-2", "layer-1", "layer-2", "image-build.log"):
        (tmp_path / name).touch() if "." in name else (tmp_path / name).mkdir()
    said = []
    cache.clean({str(tmp_path / "image-1"), str(tmp_path / "layer-1")}, said.append)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "image-1",
        "image-build.log",
        "layer-1",
        "lock",
    ]
    assert len(said) == 4 and "stays" in said[0]


def test_a_failed_build_leaves_no_image_and_says_where_the_words_are(tmp_path, monkeypatch):
    monkeypatch.setenv("NEARMETAL_CACHE", str(tmp_path))
    monkeypatch.setenv("NEARMETAL_MIRROR", f"file:{tmp_path}/nothing")
    monkeypatch.setattr(image, "LOCK", tmp_path / "requirements.lock")
    (tmp_path / "requirements.lock").touch()
    with pytest.raises(image.ImageError, match=r"mmdebstrap failed .*image-build.log"):
        image.ensure(lambda text: None)
    assert not list(tmp_path.glob("image-*/")) and not list(tmp_path.glob("building-*"))
