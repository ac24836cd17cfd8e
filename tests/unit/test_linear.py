"""The time of the commands grows with the number of cases, and no faster."""

import sys

import pytest

from nearmetal.checkout import PACKAGE
from tests.support import large_database
from tests.support.command import run  # noqa: F401 (a fixture)

#: Counting calls makes each command three times as slow.
pytestmark = pytest.mark.whole

ROOT = str(PACKAGE)
#: Numbers of cases, each twice the one before.
COUNTS = (16, 32, 64)
#: Most growth of the growth, from one number to the next: 2 for linear time, 4 for quadratic.
MOST = 2.3


def calls(run, *words) -> int:
    """The calls of Nearmetal's functions by a command: its time, whatever the machine does."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(ROOT)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        code, _, errors = run(*words)
    finally:
        sys.setprofile(before)
    assert code in (0, 2), errors
    return count


COMMANDS = {
    "compare": ("compare",),
    "gate": ("gate", "--all"),
    "report": ("report", "--output", "report.html"),
    "record": ("baseline", "record", "--system", "lab", "--leave-out-noisy"),
}
KINDS = {"cases": large_database.of_cases, "nodes": large_database.of_nodes}


@pytest.mark.parametrize(
    "kind, command",
    # A baseline is of partitions, and not of nodes.
    [(kind, name) for kind in KINDS for name in COMMANDS if (kind, name) != ("nodes", "record")],
)
def test_a_commands_time_is_linear_in_the_cases(run, tmp_path, monkeypatch, kind, command):
    monkeypatch.chdir(tmp_path)
    of = KINDS[kind]
    databases = [
        large_database.of_sessions(tmp_path / f"{count}.db", 3, of(count)) for count in COUNTS
    ]
    words = (*COMMANDS[command], "--database")
    run(*words, databases[0])  # fills the caches
    counts = []
    for database in databases:
        # `record` also reads the baseline that it extends: here, none that another run left.
        monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(database.with_suffix("")))
        counts.append(calls(run, *words, database))
    few, more, most = counts
    assert most - more < MOST * (more - few), (few, more, most)
