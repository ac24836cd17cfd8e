"""Run the tests in stages, and say of each how long it took and how it ended.

    python -m tests.stages test          what a change needs: 13 minutes on two cores
    python -m tests.stages whole         what `test` leaves out
    python -m tests.stages ci            a fixed part of `whole`, which `.ci/run` adds to `test`

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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    #: Whether it runs beside the next stages, until the first one that waits for it.
    beside: bool = False
    waits: bool = False


#: More failed tests than this are no accident of a busy machine. A fixture fails all of its tests.
MOST_REPEATED = 10
#: Options of pytest that forget which tests failed before, and that run these alone.
FORGET, FAILED = "--cache-clear", "--last-failed"
#: All cores, and the tests of a module on one: its fixtures serve all of them.
TOGETHER = ("-n", "auto", "--dist", "loadfile")
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


def measured(
    name: str, directory: str, *words: str, beside: bool = False, waits: bool = False
) -> Stage:
    """Tests that measure. Failed ones run once more, one at a time."""
    command = tier(directory, *words)
    again = [*command, FAILED, "-n", "0"]
    return Stage(name, [*command, FORGET], again=again, beside=beside, waits=waits)


VERSIONS = Stage("versions", [*MAKE, "versions"])
DRILL = Stage("drills", [*MAKE, "drill", f"DRILL=--once {DRILLS}"])

SETS = {
    "test": [
        # Three minutes on a host that has none, most of them of one processor.
        Stage("node image", [sys.executable, "-m", "nearmetal.lab", "image"], beside=True),
        Stage("lint", [*MAKE, "lint"]),
        Stage("unit", tier("unit", "-n", "auto", "-m", "not whole")),
        measured("host", "host", "-m", "not whole", *TOGETHER, waits=True),
        Stage("lab up", [*MAKE, "lab-up"]),
        # Tests on a node wait for one processor. Those of the lab want both for themselves.
        measured("browser", "browser", "-m", "not whole", beside=True),
        on_a_node("node", "not whole"),
        measured("lab", "lab", "-m", "not whole", waits=True),
    ],
    "whole": [
        Stage(
            "unit whole",
            tier("unit", "-n", "auto", "-m", "whole or fuzz"),
            (("NEARMETAL_FUZZ", "1"), ("NEARMETAL_FUZZ_INPUTS", "240")),
        ),
        measured("host whole", "host", "-m", "whole", *TOGETHER),
        Stage("lab up", [*MAKE, "lab-up"]),
        on_a_node("node whole", "whole"),
        measured("browser whole", "browser", "-m", "whole"),
        VERSIONS,
        DRILL,
        measured("lab whole", "lab", "-m", "whole"),
    ],
    # The same tests each time, whatever the time left.
    "ci": [
        VERSIONS,
        DRILL,
        on_a_node("node ci", "ci"),
        measured("lab ci", "lab", "-m", "ci"),
    ],
}


@dataclass
class End:
    """How a stage ended, after how many seconds, and tests that passed only when repeated."""

    stage: str
    result: str
    seconds: float
    unsteady: list[str]
    printed: str  #: by a stage that ran beside others


def announce(stage: Stage, command: Sequence[str]) -> dict[str, str]:
    """Say what begins; its environment variables."""
    print(f"== {stage.name}, {time.strftime('%H:%M:%S')}: {shlex.join(command)}", flush=True)
    return {**os.environ, **dict(stage.settings)}


def call(stage: Stage, command: Sequence[str]) -> tuple[int, str]:
    """The exit code of a command of the stage, and what it printed if it runs beside others."""
    beside: dict[str, Any] = {}
    if stage.beside:
        beside = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "errors": "replace",
        }
    environment = announce(stage, command)
    done = subprocess.run(command, cwd=CHECKOUT, env=environment, check=False, text=True, **beside)
    return done.returncode, done.stdout or ""


def failed_tests(cache: Path) -> list[str]:
    """Tests that failed when pytest ran last with this cache."""
    path = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(path.read_text())) if path.is_file() else []


def run(stage: Stage) -> End:
    started = time.monotonic()
    code, printed = call(stage, stage.command)
    unsteady = failed_tests(stage.cache) if code == SOME_FAILED and stage.again else []
    if unsteady and len(unsteady) <= MOST_REPEATED:
        code, repeated = call(stage, stage.again)
        printed += repeated
    if code:
        unsteady = []
    result = "failed" if code else "passed"
    if OPTIONS and code == NONE_CHOSEN:
        result = "no test chosen"
    return End(stage.name, result, time.monotonic() - started, unsteady, printed)


def run_all(stages: Sequence[Stage]) -> list[End]:
    """Run them; their ends, in the order in which they were waited for."""
    ends: list[End] = []
    with ThreadPoolExecutor() as pool:
        beside: list[Future[End]] = []

        def wait() -> None:
            for future in beside:
                ends.append(future.result())
                print(f"== {ends[-1].stage} printed:\n{ends[-1].printed}", flush=True)
            beside.clear()

        for stage in stages:
            if stage.beside:
                beside.append(pool.submit(run, stage))
                continue
            if stage.waits:
                wait()
            ends.append(run(stage))
        wait()
    return ends


def main() -> int:
    names = sys.argv[1:]
    if not names or set(names) - set(SETS):
        print(f"usage: python -m tests.stages {'|'.join(SETS)} ...", file=sys.stderr)
        return 2
    started = time.monotonic()
    ends = run_all([stage for name in names for stage in SETS[name]])
    rows = [(end.stage, end.result, f"{end.seconds:.0f} s") for end in ends]
    total = time.monotonic() - started
    print(tabulate([*rows, ("together", "", f"{total:.0f} s")], ["stage", "end", "took"]))
    for name in (name for end in ends for name in end.unsteady):
        print(f"passed only when repeated: {name}")
    if "whole" not in names:
        print("left out: tests that only `make test-all` runs (docs/tests.md)")
    return 1 if any(end.result == "failed" for end in ends) else 0


if __name__ == "__main__":
    sys.exit(main())
