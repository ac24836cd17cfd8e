"""Facts of a case that differ between two sessions."""

#: Facts that differ from run to run and explain nothing.
PASSING = {"nodes", "differs_between_nodes"}

#: Facts that older baselines and sessions lack.
LATER = {"vector", "threads_per_core", "clock_khz"}


def changed_facts(then: dict, now: dict) -> dict[str, tuple[str, str]]:
    """Facts that differ: {name: (then, now)}; `absent` on a side that lacks the fact."""
    return {
        name: (str(then.get(name, "absent")), str(now.get(name, "absent")))
        for name in sorted({*then, *now} - PASSING)
        if then.get(name) != now.get(name) and not (name in LATER and name not in then)
    }
