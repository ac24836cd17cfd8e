"""Facts of a case that differ between two sessions."""

import re

#: Facts that differ from run to run and explain nothing.
PASSING = {"nodes", "differs_between_nodes"}

#: Facts that older baselines and sessions lack.
LATER = {"vector", "threads_per_core", "clock_khz"}


#: Facts of all interfaces together -> the fact of one interface that they repeat.
TOGETHER = {"mtu": re.compile(r"nic\..+\.mtu"), "nic_driver": re.compile(r"nic\..+\.driver")}


def changed_facts(then: dict, now: dict) -> dict[str, tuple[str, str]]:
    """Facts that differ: {name: (then, now)}; `absent` on a side that lacks the fact.

    A fact of an interface is left out beside the one of all interfaces, which says the same.
    """
    found = {
        name: (str(then.get(name, "absent")), str(now.get(name, "absent")))
        for name in sorted({*then, *now} - PASSING)
        if then.get(name) != now.get(name) and not (name in LATER and name not in then)
    }
    said = [pattern for name, pattern in TOGETHER.items() if name in found]
    return {
        name: change
        for name, change in found.items()
        if not any(pattern.fullmatch(name) for pattern in said)
    }
