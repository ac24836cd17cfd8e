"""README shows lines that `nearmetal gate` prints of a found regression."""

import pytest

from nearmetal import cli
from tests.support import campaigns, recorded
from tests.support.paths import CHECKOUT

#: The regression: a smaller MTU on the emulated link.
STEPS = {"latency_1KiB": 1.12, "bandwidth_64KiB": 0.62, "peak_bandwidth": 0.58}
MTU = "eth0: 576"


def regressed() -> dict:
    steps = [(("", "emulated", "mpich", name), factor) for name, factor in STEPS.items()]
    session = campaigns.campaign(13, steps=steps)
    for case in session["runs"][0]["testcases"]:
        if (case["partition"], case["environ"]) == ("emulated", "mpich"):
            case["mtu"] = MTU
            case["facts"]["nic.eth0.mtu"] = MTU.removeprefix("eth0: ")
    return session


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys) -> list[str]:
    """The lines of the gate on a session with the regression, against twelve without it."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    database = recorded.store(tmp_path / "results.db", *map(campaigns.campaign, range(12)))
    options = ["--system", "lab", "--database", str(database)]

    def run(*command: str) -> int:
        monkeypatch.setattr("sys.argv", ["nearmetal", *command, *options])
        return cli.main()

    assert run("baseline", "record", "--directory", str(tmp_path)) == 0
    recorded.store(database, regressed())
    capsys.readouterr()
    assert run("gate") == 1
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def shown() -> list[str]:
    """The lines of README's block of the gate's output."""
    lines = (CHECKOUT / "README.md").read_text().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("    regressed:")))
    block = [line.removeprefix("    ") for line in lines[start : lines.index("", start)]]
    return [line for line in block if line != "..."]


def test_readme_shows_what_the_gate_prints(printed):
    lines = shown()
    wrong = [line for line in lines if line not in printed]
    assert not wrong, f"replace them by lines of this:\n{chr(10).join(printed)}"
    places = [printed.index(line) for line in lines]
    assert places == sorted(places)
