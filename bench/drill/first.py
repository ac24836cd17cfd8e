"""Does the first run name a fault, without a baseline?

Each fault of first.yaml is introduced alone. One run of the checks that it touches follows, and the
gate judges it by expectations and evidence. Before them, runs without a fault show how often it
names one that is not there.
"""

import os
import re
import shutil
import time
from pathlib import Path

import yaml
from tabulate import tabulate

from bench.__main__ import interval
from bench.drill import __main__ as drill
from nearmetal import results
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.expected import Expectations
from nearmetal.judge.verdict import GateReport

FAULTS = Path(__file__).with_name("first.yaml")
#: The native link's rate in Gb/s. A link in memory has none that a first run could know. At this
#: one, single packets keep to the rate as well, which pass a token bucket at the speed of memory.
RATE = 4
#: A slow check, and in how many of the unchanged runs it takes part: one of so many.
SLOW, SELDOM = "stream%binding=bound", 5
LINK = {"native": {"link_type": "ethernet", "link_speed_gbps": RATE}}
LIMIT = f"""
for node in native1 native2; do
    nsenter --target $(cat /lab/run/$node.pid) --net ethtool -K eth0 tso off gso off
    nsenter --target $(cat /lab/run/$node.pid) --net \\
        tc qdisc replace dev eth0 root tbf rate {RATE}gbit burst 3000 latency 20ms
done
"""
#: Least part of what the limit passed of TCP in one job that it passes in another: one packet at a
#: time in place of two.
LATE = 0.4
#: Verdicts that name nothing.
QUIET = ("ok", "watched", "improved", "inconclusive", "not judged")
REPEATS = 3


def run(only: list[str] | None, unchanged: int, say) -> int:
    """1 if a fault is not named."""
    faults = yaml.safe_load(FAULTS.read_text())
    names = [fault["name"] for fault in faults]
    if unknown := set(only or ()) - set(names):
        raise SystemExit(f"drill: no fault {', '.join(unknown)}; they are {', '.join(names)}")
    chosen = [fault for fault in faults if not only or fault["name"] in only]
    checks = sorted({check for fault in faults for check in fault["only"]["checks"]})
    os.environ["NEARMETAL_SYSTEMS_PATH"] = str(drill.PLACE / "systems")
    start({})
    say(allow_for_timers())
    drill.write_system(site=site({}))
    alarms = 0
    for number in range(unchanged):
        say(f"unchanged {number + 1} of {unchanged}")
        some = [name for name in checks if name != SLOW or number % SELDOM == 0]
        found = told(judged({"partition": "native", "checks": some}))
        for text in found:
            say(f"  {text}")
        alarms += bool(found)
    rows = [[fault["name"], *try_out(fault, say)] for fault in chosen]
    say("")
    if unchanged:
        say(
            f"quiet: {alarms} of {unchanged} unchanged runs named something: "
            f"{100 * alarms / unchanged:.0f} % (95 % interval {interval(alarms, unchanged)} %)"
        )
    say(tabulate(rows, ["fault", "first run", "took", "says"], maxcolwidths=[None, None, None, 90]))
    return 1 if any(row[1] == "missed" for row in rows) else 0


def allow_for_timers() -> str:
    """Lower the bound of TCP's bandwidth to what the limit of the link passes; a line about it.

    TCP sleeps while it waits for the bucket. Where a machine's timers are late, it gets less, and
    by LATE less in one job than in the next.
    """
    passed = max(_passed() for _ in range(3))
    reason = f"the drill's limit of {RATE} Gb/s passes {passed:.3g} Gb/s of TCP on this machine"
    bound = {"least": LATE * passed, "reason": f"{reason}, in some jobs half of it"}
    LINK["native"]["expected"] = {"tcp_share_native": bound}
    return reason


def _passed() -> float:
    """Gb/s of TCP on the limited link, in a job of its own."""
    (drill.PLACE / "results.db").unlink(missing_ok=True)
    session = drill.campaign(1, {"partition": "native", "checks": ["tcp"]})
    values = [value for case in session.cases for value in case.values]  # beyond a bound too
    [passed] = [value.value for value in values if value.variable == "peak_bandwidth"]
    return passed


def site(fault: dict) -> dict:
    """Extras by partition: those of the limited link, and those that the fault changes."""
    changed = fault.get("site", {})
    names = dict.fromkeys([*LINK, *changed])
    return {name: {**LINK.get(name, {}), **changed.get(name, {})} for name in names}


def start(fault: dict) -> None:
    """Bring the lab and the system's file into the state before a fault."""
    drill.write_system(site=site(fault))
    drill.namespaces("down")
    drill.namespaces("up")
    drill.Namespaces().run("sh", "-eu", stdin=LIMIT)


def try_out(fault: dict, say) -> list[str]:
    """`named` or `missed`, seconds, and the reason that named it."""
    say(f"fault: {fault['what']}")
    started = time.monotonic()
    try:
        start(fault)
        drill.introduce({**fault, "site": site(fault)})
        reasons = told(judged(fault["only"]))
    finally:
        shutil.rmtree(drill.PATCHED, ignore_errors=True)
        drill.namespaces("down")
    found = [
        next((text for text in reasons if re.search(pattern, text)), "")
        for pattern in fault["names"]
    ]
    for text in reasons:
        say(f"  {text}")
    word = "named" if all(found) else "missed"
    return [word, f"{time.monotonic() - started:.0f} s", "; ".join(filter(None, found))]


def judged(only: dict) -> GateReport:
    """The gate's report on one run, the first of its database."""
    (drill.PLACE / "results.db").unlink(missing_ok=True)
    session = drill.campaign(REPEATS, only)
    database = results.Database(drill.PLACE / "results.db")
    return Campaign(session, None, database, Expectations.of(session.system)).verdicts()


def told(report: GateReport) -> list[str]:
    """What the gate names, each reason once."""
    return list(dict.fromkeys(one.reason for one in report.verdicts if one.name not in QUIET))
