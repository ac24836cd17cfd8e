"""Facts of a case that differ between two sessions."""

#: Facts that differ from run to run and explain nothing.
PASSING = {"nodes", "differs_between_nodes"}


def changed_facts(then: dict, now: dict) -> dict[str, tuple[str, str]]:
    """Facts that differ: {name: (then, now)}; `absent` on a side that lacks the fact."""
    return {
        name: (str(then.get(name, "absent")), str(now.get(name, "absent")))
        for name in sorted({*then, *now} - PASSING)
        if then.get(name) != now.get(name)
    }
