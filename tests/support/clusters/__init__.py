"""A cluster of texts, whose commands are on PATH."""

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SITES = ("infiniband", "guests", "cloud")
SLURM = ("scontrol", "sinfo", "srun", "sacctmgr", "sbatch", "squeue", "sacct")


@dataclass
class Stage:
    """A directory of commands that answer with a cluster's texts."""

    site: str
    jobs: Path

    def submitted(self) -> list[str]:
        """Arguments of each job."""
        return self.jobs.read_text().splitlines() if self.jobs.exists() else []


def stage(site: str, directory: Path, monkeypatch, lmod: bool = False) -> Stage:
    """Put the commands of a site first on PATH; without another site's settings and images."""
    commands = directory / "bin"
    commands.mkdir()
    for name in (*SLURM, "lmod" if lmod else "modulecmd"):
        (commands / name).symlink_to(HERE / "command.sh")
    for name in [
        one for one in os.environ if one.startswith(("RFM_", "NEARMETAL_", "LMOD", "MODULE"))
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("NEARMETAL_IMAGES", str(directory / "images"))
    if lmod:
        monkeypatch.setenv("LMOD_CMD", str(commands / "lmod"))
    monkeypatch.setenv("PATH", f"{commands}:/usr/bin:/bin")
    monkeypatch.setenv("CLUSTER", str(HERE / site))
    found = Stage(site, directory / "jobs")
    monkeypatch.setenv("CLUSTER_JOBS", str(found.jobs))
    return found


def text(site: str, name: str) -> str:
    return (HERE / site / f"{name}.txt").read_text()
