"""Job scripts of ReFrame's dry run: the one of the page, and one of each way to compose a job."""

import re

import pytest
import yaml

from tests.support.paths import CHECKOUT
from tests.support.reframe import dry_run

PARTITION = {
    "name": "cc",
    "scheduler": "slurm",
    "launcher": "srun",
    "environs": ["openmpi", "mpich"],
    "extras": {
        "link_class": "native",
        "link_speed_gbps": 10,
        "hypervisor": "none",
        "no_baseline": "it is new",
        "cores_per_node": 4,
        "nodes": 2,
        "ranks_per_node": 1,
    },
}
SITE = {
    "name": "here",
    "hostnames": [],
    "environments": [{"name": "openmpi", "modules": []}, {"name": "mpich", "modules": ["mpich"]}],
    "partitions": [PARTITION],
}


def test_the_script_on_the_page_is_the_one_that_reframe_writes(tmp_path):
    words = ["-c", "reframe_checks", "--system=lab:native", "-p", "^openmpi$"]
    (tmp_path / "systems").mkdir()  # the lab is one of ours
    output = dry_run(tmp_path / "systems", tmp_path, *words, "-n", "pingpong%placement=internode")
    [path] = tmp_path.glob("stage/lab/native/openmpi/*/rfm_job.sh")
    page = (CHECKOUT / "docs/job.md").read_text()
    [shown] = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    assert path.read_text().split() == shown.split(), output


@pytest.fixture
def script(tmp_path):
    """The launches in a job script of a dry run: the lines from the first snapshot on."""
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems/here.yaml").write_text(yaml.safe_dump(SITE))

    def run(checks: str, *words: str) -> list[str]:
        options = [word for setting in words[1:] for word in ("-S", setting)]
        selected = ["--system=here", "-n", words[0], *options]
        output = dry_run(tmp_path / "systems", tmp_path, "-c", checks, *selected)
        assert "PASSED" in output, output
        [path] = tmp_path.glob("stage/here/cc/openmpi/*/rfm_job.sh")
        lines = path.read_text().splitlines()
        first = next(number for number, line in enumerate(lines) if "> provenance.before" in line)
        return lines[first + 1 :]

    return run


def test_numbers_of_processes_are_launches_of_one_repeat(script):
    lines = script("reframe_checks", "^launch$", "processes=1,2")
    starts = [line for line in lines if "--since" in line]
    numbers = [re.findall(r"--(?:nodes|ntasks|ranks)[= ](\d+)", line) for line in starts]
    assert numbers == [["2", "2", "2"], ["1", "1", "1"]]


def test_ranges_of_osu_are_launches_of_one_repeat(script):
    lines = script("reframe_checks", "pingpong%placement=internode", "suite=osu")
    starts = [line.strip() for line in lines if "osu_latency" in line]
    assert starts == [
        "srun osu_latency -m 1:8192 -i 1000 -x 100",
        "srun osu_latency -m 16384:262144 -i 160 -x 16",
        "srun osu_latency -m 524288:4194304 -i 10 -x 1",
    ]


def test_a_duet_changes_the_environment_of_b_alone(script):
    settings = ["environs=openmpi,mpich", "pairs=2"]
    lines = script("reframe_checks/duet", "pingpong_duet%placement=internode", *settings)
    a = lines.index("variant_a() (")
    b = lines.index("variant_b() (")
    assert lines[a + 1].startswith("    srun ./pingpong_duet_0 ") and lines[a + 2] == ")"
    end = lines.index(")", b)
    assert "    module load mpich" in lines[b:end]
    assert lines[end - 1].startswith("    srun ./pingpong_duet_0.mpich ")
    assert lines[-5:-1] == ["launch 0 a", "launch 0 b", "launch 1 b", "launch 1 a"]
