"""Run the tests in stages, and say of each how long it took and how it ended.

    python -m tests.stages test          what a change needs: 16 minutes on two cores
    python -m tests.stages whole         what `test` leaves out
    python -m tests.stages test whole    all of it

A stage that fails does not keep the next ones from running. PYTEST holds further options of
pytest. Exit codes: 0 all stages passed; 1 one failed.
"""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass

from tabulate import tabulate

from tests.support.paths import CHECKOUT

MAKE = ["make", "--no-print-directory"]
OPTIONS = shlex.split(os.environ.get("PYTEST", ""))
PYTEST = [sys.executable, "-m", "pytest"]
#: pytest's exit code where the options leave no test.
NONE_CHOSEN = 5


@dataclass(frozen=True)
class Stage:
    name: str
    command: list[str]
    #: Environment variables of its own.
    settings: tuple[tuple[str, str], ...] = ()


#: Drills that take less than a minute each; `make drill DRILL=--once` runs the others too.
DRILLS = " ".join(
    f"--only {shlex.quote(name)}" for name in ("no optimization", "one core", "TCP within a node")
)


def on_a_node(which: str) -> list[str]:
    """pytest on the lab's login node, whose image has compilers, both MPIs and a JDK."""
    line = ["python", "-m", "pytest", "-p", "no:cacheprovider", "-m", which, *OPTIONS, "tests/node"]
    return [sys.executable, "-m", "nearmetal.lab", "exec", shlex.join(line)]


def tier(directory: str, *words: str) -> list[str]:
    return [*PYTEST, *words, *OPTIONS, f"tests/{directory}"]


SETS = {
    "test": [
        Stage("lint", [*MAKE, "lint"]),
        Stage("unit", tier("unit", "-n", "auto")),
        Stage("host", tier("host", "-n", "auto")),
        Stage("lab up", [*MAKE, "lab-up"]),
        Stage("node", on_a_node("not whole")),
        Stage("browser", tier("browser", "-m", "not whole")),
        Stage("lab", tier("lab", "-m", "not whole")),
    ],
    "whole": [
        Stage(
            "fuzz",
            tier("unit/test_fuzz.py", "-n", "auto"),
            (("NEARMETAL_FUZZ", "1"),),
        ),
        Stage("lab up", [*MAKE, "lab-up"]),
        Stage("node whole", on_a_node("whole")),
        Stage("browser whole", tier("browser", "-m", "whole")),
        Stage("lab whole", tier("lab", "-m", "whole")),
        Stage("drills", [*MAKE, "drill", f"DRILL=--once {DRILLS}"]),
    ],
}


def run(stage: Stage) -> tuple[str, float]:
    """How the stage ended, and its seconds."""
    print(f"== {stage.name}: {shlex.join(stage.command)}", flush=True)
    started = time.monotonic()
    done = subprocess.run(
        stage.command, cwd=CHECKOUT, env={**os.environ, **dict(stage.settings)}, check=False
    )
    seconds = time.monotonic() - started
    if OPTIONS and done.returncode == NONE_CHOSEN:
        return "no test chosen", seconds
    return ("failed" if done.returncode else "passed"), seconds


def main() -> int:
    names = sys.argv[1:]
    if not names or set(names) - set(SETS):
        print(f"usage: python -m tests.stages {'|'.join(SETS)} ...", file=sys.stderr)
        return 2
    results = [(stage.name, *run(stage)) for name in names for stage in SETS[name]]
    total = sum(seconds for *_, seconds in results)
    rows = [(name, end, f"{seconds:.0f} s") for name, end, seconds in results]
    print(tabulate([*rows, ("together", "", f"{total:.0f} s")], ["stage", "end", "took"]))
    if "whole" not in names:
        print("left out: whole selections, guests, all faults, drills: make test-all runs them")
    return 1 if any(end == "failed" for _, end, _ in results) else 0


if __name__ == "__main__":
    sys.exit(main())
