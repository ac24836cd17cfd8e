"""What two files of a system say of the same partitions, key by key.

    python -m tests.support.meaning site-config/systems/lab.yaml results/mine.yaml

prints keys and partitions with a verdict: same, absent (in the second file), added (there alone) or
different. A list whose order means nothing is compared as a set.
"""

import sys
from collections import defaultdict
from pathlib import Path

import yaml
from tabulate import tabulate

#: Lists in which the order means nothing.
SETS = {"environs", "features"}


def flat(partition: dict, before: str = "") -> dict:
    """The values of a partition by key; `extras.link_class` is one."""
    found = {}
    for key, value in partition.items():
        if key in ("name", "descr", "only_with"):
            continue
        if isinstance(value, dict):
            found |= flat(value, f"{before}{key}.")
        else:
            found[before + key] = sorted(value) if key in SETS else value
    return found


def compared(ours: dict, found: dict) -> list[tuple[str, str, str, object, object]]:
    """(partition, key, verdict, our value, found value), where both have the partition."""
    by_name = {one["name"]: one for one in found["partitions"]}
    rows = []
    for partition in ours["partitions"]:
        if partition["name"] not in by_name:
            continue
        mine, other = flat(partition), flat(by_name[partition["name"]])
        for key in dict.fromkeys([*mine, *other]):
            verdict = _verdict(mine, other, key)
            rows.append((partition["name"], key, verdict, mine.get(key), other.get(key)))
    return rows


def _verdict(mine: dict, other: dict, key: str) -> str:
    if key not in other:
        return "absent"
    if key not in mine:
        return "added"
    return "same" if mine[key] == other[key] else "different"


def table(rows: list[tuple]) -> list[list[str]]:
    """One row a key and verdict, with its partitions and the values of the first of them."""
    groups: dict[tuple, list] = defaultdict(list)
    for partition, key, verdict, mine, other in rows:
        groups[key, verdict].append((partition, mine, other))
    return [
        [key, verdict, ", ".join(one for one, *_ in group), *(_short(one) for one in group[0][1:])]
        for (key, verdict), group in groups.items()
    ]


def _short(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def main() -> int:
    ours, found = (yaml.safe_load(Path(path).read_text()) for path in sys.argv[1:3])
    heads = ["key", "verdict", "partitions", "first file", "second file"]
    print(tabulate(table(compared(ours, found)), heads, disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
