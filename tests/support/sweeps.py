"""Made-up sweeps of all nodes, as a results database holds them."""

from nearmetal.checks.fleet import packed
from nearmetal.circle import pairs
from tests.support.campaigns import campaign


def links_of(slow: dict | None = None, count: int = 6, **changed) -> dict:
    """What `fleet.stored` makes of a fleet whose links are alike but for some.

    :arg slow: pair -> latency (us), bandwidth there and back (Gb/s).
    """
    found = []
    rounds = count + count % 2 - 1
    for place, pair in enumerate(pairs(count, rounds)):
        level = 1 + 0.004 * (place % 4)
        found.append((slow or {}).get(pair, (20 * level, 9 / level, 9 * level)))
    values = dict(zip(("latency_us", "gbps", "gbps_back"), map(packed, zip(*found)), strict=True))
    nodes = [f"n{number}" for number in range(1, count + 1)]
    whole = {"nodes": nodes, "rounds": rounds, "repeats": 3, "dead": {}, **values}
    return {**whole, **changed}


def session(links: dict, number: int = 1) -> dict:
    """A session with this sweep, as ReFrame stores it."""
    data = campaign(number)
    data["runs"][0]["testcases"][0]["links"] = links
    return data
