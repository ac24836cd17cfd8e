"""The images, built for real as an ordinary user, and the checks within them on the lab's links."""

import re
import shutil

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from nearmetal.locks import builder, images
from nearmetal.locks.images_lock import label
from nearmetal.results import load_session, sessions
from nearmetal.util import files
from tests.support.lab import IMAGES, fresh_prefix, make_images
from tests.support.measured import CARRIERS, cases
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: All images are built: five minutes.
pytestmark = pytest.mark.whole

PLACES = {"NEARMETAL_IMAGES": str(IMAGES)}


def test_an_image_is_small_and_built_but_once(built_images):
    assert all(entry["bytes"] < 250e6 for entry in built_images.values())
    done = make_images()
    assert (done.returncode, done.stdout) == (
        0,
        "".join(
            f"{label(stack, built_images[stack])}: as locked\n" for stack in sorted(built_images)
        ),
    )


def test_an_image_is_the_same_to_the_bit_whenever_it_is_built(built_images, tmp_path):
    shutil.copyfile(f"{IMAGES}.lock", tmp_path / "again.lock")
    done = make_images("mpich", directory=tmp_path / "again")
    assert done.returncode == 0 and "as locked" in done.stdout, done.stdout
    assert (tmp_path / "again" / "mpich.sif").read_bytes() == (IMAGES / "mpich.sif").read_bytes()


@pytest.mark.parametrize("stack", images.STACKS)
def test_an_image_tells_what_it_is_and_holds(lab, built_images, stack):
    labels = lab.run(f"apptainer inspect --labels {IMAGES}/{stack}.sif")
    assert f"org.opencontainers.image.revision: {built_images[stack]['revision']}" in labels
    assert f"org.nearmetal.sources: {built_images[stack]['sources']}" in labels
    assert (
        f"org.nearmetal.pmi: {built_images[stack]['pmi']}" in labels
        and "org.nearmetal.software: debian" in labels
    )
    listed = lab.run(f"apptainer --silent exec {IMAGES}/{stack}.sif cat {builder.LIST}")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(listed) is None
    assert "pkg:deb/debian/libc6@" in listed
    assert lab("exec", f"apptainer test {IMAGES}/{stack}.sif").returncode == 0
    # Nothing of the machine that built it.
    everything = lab.run(
        f'apptainer exec {IMAGES}/{stack}.sif sh -c "cat /etc/apt/sources.list '
        '/etc/apt/sources.list.d/*; ls /var/log"',
        check=False,
    )
    assert "http" not in everything


@pytest.mark.ci
def test_an_image_is_built_and_measured(lab, built_image, prefix):
    stack, entry = built_image
    done = lab.reframe(
        *("-r", "--system", "lab:native", "-p", f"^{stack}-sif$"),
        *("-n", "^pingpong%placement=internode", "-S", "repeats=1", "--max-retries=2"),
        prefix=prefix,
        **PLACES,
    )
    assert done.returncode == 0, done.stdout
    [case] = cases(prefix / "results.db")
    assert case["image"] == f"{stack} {entry['digest']}"
    assert case["transport"] == CARRIERS["native"]


@pytest.fixture(scope="module")
def measured(lab, built_images):
    """Every kind of check in images, on one link."""
    prefix = fresh_prefix(lab, "in_images")
    done = lab.reframe(
        *("-r", "--system", "lab:native", "-p", "^(openmpi|mpich)-sif$"),
        *("-n", "^(launch|collectives|npb%benchmark=ft|pingpong)"),
        *("-S", "repeats=1", "--max-retries=2"),
        prefix=prefix,
        timeout=900,
        **PLACES,
    )
    assert "Ran 10/10 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    return cases(prefix / "results.db")


def test_every_kind_of_check_runs_in_images(measured, built_images):
    for case in measured:
        stack = case["environ"].removesuffix("-sif")
        assert case["image"] == f"{stack} {built_images[stack]['digest']}"
        assert case["facts"]["sources"] == built_images[stack]["sources"]
        assert {"openmpi": "Open MPI v5.0.7", "mpich": "MPICH Version:"}[stack] in case[
            "mpi_library"
        ]
        name = case["display_name"]
        if "intranode" in name:
            assert case["transport"] == "shared memory"  # ranks of a node are not kept apart
        elif not name.startswith("launch"):
            assert case["transport"] == CARRIERS[case["partition"]], name


def test_programs_in_java_run_in_their_image_over_both_of_its_libraries(lab, built_images, prefix):
    done = lab.reframe(
        *("-r", "--system", "lab:native", "-p", "^mpj-(native-)?sif$"),
        *("-n", "^pingpong%placement=internode", "-S", "repeats=1", "-S", "java_warm_up=0.1"),
        prefix=prefix,
        timeout=300,
        **PLACES,
    )
    assert "Ran 2/2 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    entry = built_images["mpj-native"]
    libraries = {}
    for case in cases(prefix / "results.db"):
        assert case["image"] == f"{label('mpj-native', entry)} {entry['digest']}"
        assert case["image"].startswith("mpj-native (Open MPI 5.0.7")
        assert case["transport"] == CARRIERS["native"]
        libraries[case["environ"]] = case["mpi_library"]
    assert libraries["mpj-sif"].startswith("MPJ Express 0.44, ")
    assert re.match(r"mpj-native [\d.]+ over Open MPI v5\.0\.7", libraries["mpj-native-sif"])


def test_container_against_bare_is_a_duet(lab, built_images, prefix):
    done = lab.reframe(
        "-c",
        "reframe_checks/duet",
        "-r",
        "--system",
        "lab:native",
        "-n",
        "^launch_duet",
        "-S",
        "pairs=2",
        prefix=prefix,
        **PLACES,
    )
    assert "Ran 1/1 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    [case] = cases(prefix / "results.db")
    assert case["image"] == f"A: none; B: openmpi {built_images['openmpi']['digest']}"
    [session] = sessions(prefix / "results.db", kinds=("duet",))
    values = {v.variable: v.value for v in session.values}
    assert values["launch_2_ratio"] > 0 and values["mpi_init_2_ratio"] > 0


def with_another_record(prefix, built: dict, **differing) -> None:
    """The image mpich in another directory, with a record that differs in some keys."""
    (prefix / "images").mkdir()
    (prefix / "images" / "mpich.sif").symlink_to(IMAGES / "mpich.sif")
    files.write(prefix / "images" / "mpich.yaml", yaml.safe_dump({**built, **differing}))
    files.copy(f"{IMAGES}.lock", prefix / "images.lock")


def test_another_image_than_the_recorded_one_is_a_failed_case(lab, built_images, prefix):
    with_another_record(prefix, built_images["mpich"], digest=f"sha256:{0:064}")
    done = lab.reframe(
        "-r",
        "--system",
        "lab:native",
        "-p",
        "^mpich-sif$",
        "-n",
        "^launch",
        prefix=prefix,
        NEARMETAL_IMAGES=str(prefix / "images"),
    )
    [case] = load_session(prefix / "results.db").failures
    assert done.returncode == 1 and f"and its record sha256:{0:064}: build it anew" in case.failure


def test_an_image_of_older_sources_runs_and_the_run_says_so(lab, built_images, prefix):
    with_another_record(prefix, built_images["mpich"], sources="a" * 64)
    done = lab.reframe(
        "-r",
        "--system",
        "lab:native",
        "-p",
        "^mpich-sif$",
        "-n",
        "^launch",
        prefix=prefix,
        NEARMETAL_IMAGES=str(prefix / "images"),
    )
    assert done.returncode == 0, done.stdout
    [warning] = [line for line in done.stdout.splitlines() if "other sources" in line]
    assert not lacking(warning, "mpich-sif", "a" * 12, "make images"), warning
    [case] = cases(prefix / "results.db")
    assert case["facts"]["sources"] == "a" * 64
    assert case["image"] == f"mpich {built_images['mpich']['digest']}"


def test_what_srun_does_not_speak_is_said_before_anything_hangs(lab, built_images, prefix):
    image, digest = (
        IMAGES / "openmpi.sif",
        built_images["openmpi"]["digest"].removeprefix("sha256:"),
    )
    script = f"sh {CHECKOUT}/reframe_checks/src/image.sh apptainer {image} {digest} pmix"
    done = lab("exec", f"SLURM_MPI_TYPE=pmi2 {script}", check=False)
    facts = ["pmix", "pmi2", "set SLURM_MPI_TYPE=pmix"]
    assert done.returncode == 1 and not lacking(done.stdout, *facts), done.stdout
    done = lab("exec", f"SLURM_MPI_TYPE=pmix_v9 {script}", check=False)
    assert done.returncode == 1 and not lacking(done.stdout, "srun", "no pmix_v9")
    assert lab("exec", f"SLURM_MPI_TYPE=pmix {script}").stdout == ""
