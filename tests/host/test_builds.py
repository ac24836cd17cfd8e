"""Where programs are built: dry runs of a real ReFrame, which writes the build's script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT

REFRAME = Path(sys.executable).with_name("reframe")


@pytest.mark.parametrize("extras, headers", [({"build_on_nodes": True}, 1), ({}, 0)])
def test_a_site_says_whether_jobs_build_the_programs(tmp_path, extras, headers):
    known = {
        "link_class": "native",
        "link_speed_gbps": 10,
        "hypervisor": "none",
        "no_baseline": "new",
    }
    partition = {
        "name": "batch",
        "scheduler": "slurm",
        "launcher": "srun",
        "access": ["-p batch"],
        "environs": ["gnu"],
        "extras": {**known, **extras},
    }
    site = {"name": "here", "hostnames": [], "modules_system": "nomod", "partitions": [partition]}
    (tmp_path / "here.yaml").write_text(yaml.safe_dump(site))
    selection = [
        "-c",
        "reframe_checks/stream.py",
        "--system",
        "here",
        "-n",
        "^stream%binding=bound",
    ]
    done = subprocess.run(
        [REFRAME, "--nocolor", "--dry-run", *selection],
        cwd=CHECKOUT,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith("RFM_")},
            "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
            "RFM_PREFIX": str(tmp_path / "results"),
            "NEARMETAL_SYSTEMS_PATH": str(tmp_path),
        },
        text=True,
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [script] = tmp_path.rglob("rfm_build.sh")
    assert script.read_text().count("#SBATCH -p batch") == headers
