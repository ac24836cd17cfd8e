"""Made-up sweeps of all nodes, as a results database holds them."""

from nearmetal.checks.fleet_values import packed
from nearmetal.model.round_robin import pairs
from tests.support.campaigns import campaign


def links_of(slow: dict | None = None, count: int = 6, **changed) -> dict:
    """What `fleet_values.stored_links` makes of a fleet whose links are alike but for some.

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


#: What a healthy node of `nodes_of` can do.
HEALTHY = {
    "memory": 180.0,
    "processor": 900.0,
    "noise": 0.1,
    "memory_latency": 100.0,
    "shared_memory": 0.4,
}


def nodes_of(slow: dict | None = None, count: int = 8, repeats: int = 3, **changed) -> dict:
    """What `fleet_values.stored_nodes` makes of a fleet whose nodes are alike but for some.

    :arg slow: (number of a node, metric) -> its value in all repeats.
    """
    values = {}
    for name, healthy in HEALTHY.items():
        values[name] = packed(
            [
                (slow or {}).get(
                    (node, name), healthy * (1 + 0.004 * ((3 * node + repeat) % 5)) * (1 + repeat)
                )
                for repeat in range(repeats)
                for node in range(count)
            ]
        )
    nodes = [f"n{number}" for number in range(1, count + 1)]
    return {"nodes": nodes, "repeats": repeats, "dead": {}, **values, **changed}


def session_of_nodes(values: dict, number: int = 1) -> dict:
    """A session with this sweep of nodes, as ReFrame stores it."""
    data = campaign(number)
    data["runs"][0]["testcases"][0]["node_values"] = values
    return data


def beside_traffic(**changed) -> dict:
    """What `fleet_values.stored_congestion` makes of two nodes beside traffic of six others."""
    return {
        "nodes": [f"n{number}" for number in range(1, 9)],
        "victims": ["n4", "n6"],
        "traffic": "incast",
        "repeats": 3,
        "ratios": {"latency": [1.2, 1.6], "bandwidth": [1.3, 1.1], "allreduce": [1.5, 1.5]},
        "dead": {},
        "undone": {},
        **changed,
    }


def session_of_congestion(values: dict, number: int = 1) -> dict:
    """A session with these ratios, and variables of the same case, as ReFrame stores it."""
    data = campaign(number)
    case = data["runs"][0]["testcases"][0]
    case["congestion"] = values
    found = {"latency": (1.9, "us"), "bandwidth": (88, "Gb/s"), "allreduce": (5.6, "us")}
    for name in tuple(found):
        found[f"{name}_ratio"] = 1.4, "x time alone"
        found[f"{name}_ratio_mean"] = 1.7, "x time alone"
        found[f"{name}_ratio_worst"] = 6.3, "x time alone"
    for name in ("latency", "bandwidth"):  # of Allreduce there are too few samples
        found[f"{name}_ratio_99"] = 2.1, "x time alone"
    case["display_name"] = "fleet_congestion %traffic=incast"
    case["perfvalues"] = {
        f"{case['system']}:{case['partition']}:{name}": [value, 0, None, None, unit, "pass"]
        for name, (value, unit) in found.items()
    }
    case["samples"] = {name: [value] * 3 for name, (value, _) in found.items()}
    return data
