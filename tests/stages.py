"""Run the tests in stages, and say of each how long it took and how it ended.

    python -m tests.stages test          what a change needs: 16 minutes on two cores
    python -m tests.stages whole         what `test` leaves out
    python -m tests.stages test whole    all of it

A stage that fails does not keep the next ones from running. A stage that measures runs its failed
tests once more, one at a time, where they are few: a shared machine may have been busy. The last
lines name each test that passed only then. PYTEST holds further options of pytest. Exit codes: 0
all stages passed; 1 one failed.
"""

import json
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
#: ... and where some failed.
SOME_FAILED = 1


@dataclass(frozen=True)
class Stage:
    name: str
    command: list[str]
    #: Environment variables of its own.
    settings: tuple[tuple[str, str], ...] = ()
    #: Failed tests of this directory run once more.
    repeated: str = ""


#: More failed tests than this are no accident of a busy machine. A fixture fails all of its tests.
MOST_REPEATED = 10
#: The second run has no processes beside it.
ALONE = ["-n", "0"]
#: Where pytest keeps the tests that failed last.
FAILED = CHECKOUT / ".pytest_cache" / "v" / "cache" / "lastfailed"

#: Drills that take less than a minute each; `make drill DRILL=--once` runs the others too.
DRILLS = " ".join(
    f"--only {shlex.quote(name)}" for name in ("no optimization", "TCP within a node")
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
        Stage("host", tier("host", "-n", "auto"), repeated="host"),
        Stage("lab up", [*MAKE, "lab-up"]),
        Stage("node", on_a_node("not whole")),
        Stage("browser", tier("browser", "-m", "not whole")),
        Stage("lab", tier("lab", "-m", "not whole"), repeated="lab"),
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
        Stage("lab whole", tier("lab", "-m", "whole"), repeated="lab"),
        Stage("versions", [*MAKE, "versions"]),
        Stage("drills", [*MAKE, "drill", f"DRILL=--once {DRILLS}"]),
    ],
}


@dataclass
class End:
    """How a stage ended, after how many seconds, and tests that passed only when repeated."""

    stage: str
    result: str
    seconds: float
    unsteady: list[str]


def call(stage: Stage, *words: str) -> int:
    """The exit code of the stage's command with further words."""
    command = [*stage.command, *words]
    print(f"== {stage.name}: {shlex.join(command)}", flush=True)
    environment = {**os.environ, **dict(stage.settings)}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode


def failed_tests(directory: str) -> list[str]:
    """Tests of this directory that failed when pytest ran last."""
    if not FAILED.is_file():
        return []
    return [name for name in json.loads(FAILED.read_text()) if f"tests/{directory}/" in name]


def run(stage: Stage) -> End:
    started = time.monotonic()
    if stage.repeated:
        FAILED.unlink(missing_ok=True)
    code = call(stage)
    unsteady = failed_tests(stage.repeated) if code == SOME_FAILED and stage.repeated else []
    if unsteady and len(unsteady) <= MOST_REPEATED:
        code = call(stage, "--last-failed", *ALONE)
    if code:
        unsteady = []
    result = "failed" if code else "passed"
    if OPTIONS and code == NONE_CHOSEN:
        result = "no test chosen"
    return End(stage.name, result, time.monotonic() - started, unsteady)


def main() -> int:
    names = sys.argv[1:]
    if not names or set(names) - set(SETS):
        print(f"usage: python -m tests.stages {'|'.join(SETS)} ...", file=sys.stderr)
        return 2
    ends = [run(stage) for name in names for stage in SETS[name]]
    rows = [(end.stage, end.result, f"{end.seconds:.0f} s") for end in ends]
    total = sum(end.seconds for end in ends)
    print(tabulate([*rows, ("together", "", f"{total:.0f} s")], ["stage", "end", "took"]))
    for name in (name for end in ends for name in end.unsteady):
        print(f"passed only when repeated: {name}")
    if "whole" not in names:
        print("left out: whole selections, guests, all faults, drills: make test-all runs them")
    return 1 if any(end.result == "failed" for end in ends) else 0


if __name__ == "__main__":
    sys.exit(main())
