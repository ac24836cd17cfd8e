"""Counters of a node around a repeat, and what disturbed.awk finds in them."""

import subprocess

from tests.support.marked import marked
from tests.support.paths import SOURCES

WHOLE = "n1 process_view=all\nn1 machine.boot=a-1\nn1 machine.part=whole\n"
USAGE = "# nearmetal usage: host={} wall=1 cpu={} all={} wait={} involuntary=0 major=0\n"


def decided(tmp_path, before: str, after: str, output: str, limits: str, facts: str = WHOLE):
    """Exit status and output of disturbed.awk."""
    parts = {"facts": marked(facts), "before": marked(before), "after": marked(after)}
    return judged(tmp_path, **parts, output=output, limits=limits)


def judged(tmp_path, limits: str = "", awk=("awk",), **parts: str):
    """Exit status and output of disturbed.awk, by one of the programs that run it."""
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
    done = subprocess.run(
        [*awk, "-v", "repeat=1", "-v", f"limits={limits}", "-f", SOURCES / "disturbed.awk"]
        + [word for name in parts for word in (f"part={name}", name)],
        cwd=tmp_path,
        text=True,
        capture_output=True,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout


def snapshot(seconds: float, host: str = "n1", **counts) -> str:
    """The counters of a node. Its processors rest, unless the counts say otherwise."""
    found = {
        "clock.uptime": seconds,
        "count.cpu.busy": 0,
        "count.cpu.idle": int(100 * seconds),
        "count.cpu.steal": 0,
        "count.cpu.interrupts": 0,
        **counts,
        "lo.rx_bytes": 0,
    }
    return "".join(f"{host} {key}={value}\n" for key, value in found.items())


def cpu(**ticks) -> dict:
    return {f"count.cpu.{name}": number for name, number in ticks.items()}
