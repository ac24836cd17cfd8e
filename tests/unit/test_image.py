"""What the node image is made from, and when it is made anew."""

import fcntl
import threading

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


@pytest.fixture
def busy(tmp_path, monkeypatch):
    """The lock of a cache that another command holds."""
    monkeypatch.setenv("NEARMETAL_CACHE", str(tmp_path))
    with open(tmp_path / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def build(work, say):
    (work / "root").mkdir()


def test_a_whole_image_is_used_while_another_one_is_built(tmp_path, busy):
    (tmp_path / "image-1").mkdir()
    cache.mark_whole(tmp_path / "image-1")
    said = []
    use = threading.Thread(
        target=cache.built, args=("node image", "image-1", "", build, said.append), daemon=True
    )
    use.start()
    use.join(20)
    assert not use.is_alive() and not said


def test_who_waits_for_the_cache_says_so_and_builds_then(tmp_path, busy):
    said = []

    def say(text):
        said.append(text)
        fcntl.flock(busy, fcntl.LOCK_UN)

    assert cache.built("node image", "image-1", "a minute", build, say).is_dir()
    assert said[0] == f"node image: waiting for another command that changes {tmp_path}"
    assert "building one" in said[1]
