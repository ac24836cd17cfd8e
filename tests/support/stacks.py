"""Install MPI libraries of PyPI with modules, as a site has those that no distribution built.

python -m tests.support.stacks DIRECTORY

`module use DIRECTORY/modules` then finds them. Libraries that are there stay.
"""

import subprocess
import sys
from pathlib import Path

import yaml

STACKS = Path(__file__).with_suffix(".yaml")
MODULE = """#%Module1.0
conflict openmpi mpich intel-oneapi-mpi
prepend-path PATH {prefix}/bin
prepend-path LD_LIBRARY_PATH {prefix}/lib
{lines}
"""


def install(directory: Path) -> None:
    """Install each library of stacks.yaml below a directory, and write its module."""
    for name, stack in yaml.safe_load(STACKS.read_text()).items():
        prefix, module = directory / name, directory / "modules" / name
        if module.exists():
            continue
        options = ["--quiet", "--no-deps", "--no-compile", "--ignore-installed"]
        options += ["--only-binary=:all:", "--require-hashes", f"--prefix={prefix}"]
        subprocess.run(
            [sys.executable, "-m", "pip", "install", *options, "--requirement=/dev/stdin"],
            input=stack["wheels"],
            text=True,
            check=True,
        )
        lines = stack.get("lines", "").format(prefix=prefix)
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text(MODULE.format(prefix=prefix, lines=lines))


if __name__ == "__main__":
    install(Path(sys.argv[1]).resolve())
