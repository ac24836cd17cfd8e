"""Run the tests in stages, and say of each how long it took and how it ended.

    python -m tests.stages test          what a change needs: 20 minutes on two cores
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    command: Sequence[str]
    #: Environment variables of its own.
    settings: tuple[tuple[str, str], ...] = ()
    #: The command that runs failed tests once more; (): none does.
    again: Sequence[str] = ()
    #: Where pytest keeps the tests that failed.
    cache: Path = CHECKOUT / ".pytest_cache"


#: More failed tests than this are no accident of a busy machine. A fixture fails all of its tests.
MOST_REPEATED = 10
#: Options of pytest that forget which tests failed before, and that run these alone.
FORGET, FAILED = "--cache-clear", "--last-failed"
#: Cache for the lab's user, who writes nothing into the checkout.
NODE_CACHE = CHECKOUT / "results" / "tests" / "node_cache"

#: A drill that takes less than a minute; `make drill DRILL=--once` runs the others too.
DRILLS = f"--only {shlex.quote('TCP within a node')}"


def on_a_node(name: str, which: str) -> Stage:
    """pytest on the lab's login node, whose image has compilers, both MPIs and a JDK."""

    def command(word: str) -> list[str]:
        cache = ["-o", f"cache_dir={NODE_CACHE}", word]
        line = ["python", "-m", "pytest", *cache, "-m", which, *OPTIONS, "tests/node"]
        return [sys.executable, "-m", "nearmetal.lab", "exec", shlex.join(line)]

    return Stage(name, command(FORGET), again=command(FAILED), cache=NODE_CACHE)


def tier(directory: str, *words: str) -> list[str]:
    return [*PYTEST, *words, *OPTIONS, f"tests/{directory}"]


def measured(name: str, directory: str, *words: str) -> Stage:
    """Tests that measure. Failed ones run once more, one at a time."""
    command = tier(directory, *words)
    return Stage(name, [*command, FORGET], again=[*command, FAILED, "-n", "0"])


SETS = {
    "test": [
        Stage("lint", [*MAKE, "lint"]),
        Stage("unit", tier("unit", "-n", "auto")),
        measured("host", "host", "-n", "auto"),
        Stage("lab up", [*MAKE, "lab-up"]),
        on_a_node("node", "not whole"),
        measured("browser", "browser", "-m", "not whole"),
        measured("lab", "lab", "-m", "not whole"),
    ],
    "whole": [
        Stage(
            "fuzz",
            tier("unit/test_fuzz.py", "-n", "auto"),
            (("NEARMETAL_FUZZ", "1"),),
        ),
        Stage("lab up", [*MAKE, "lab-up"]),
        on_a_node("node whole", "whole"),
        measured("browser whole", "browser", "-m", "whole"),
        measured("lab whole", "lab", "-m", "whole"),
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


def call(stage: Stage, command: Sequence[str]) -> int:
    """The exit code of a command of the stage."""
    print(f"== {stage.name}, {time.strftime('%H:%M:%S')}: {shlex.join(command)}", flush=True)
    environment = {**os.environ, **dict(stage.settings)}
    return subprocess.run(command, cwd=CHECKOUT, env=environment, check=False).returncode


def failed_tests(cache: Path) -> list[str]:
    """Tests that failed when pytest ran last with this cache."""
    path = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(path.read_text())) if path.is_file() else []


def run(stage: Stage) -> End:
    started = time.monotonic()
    code = call(stage, stage.command)
    unsteady = failed_tests(stage.cache) if code == SOME_FAILED and stage.again else []
    if unsteady and len(unsteady) <= MOST_REPEATED:
        code = call(stage, stage.again)
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
