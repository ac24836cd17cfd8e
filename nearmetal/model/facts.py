"""Facts of a case that differ between two sessions."""

import re

#: Names of the nodes, and what differs between them.
NODES, DIFFERENCES = "nodes", "differs_between_nodes"
#: Facts that differ from run to run and explain nothing.
PASSING = {NODES, DIFFERENCES}

#: Facts that older baselines and sessions lack.
LATER = {
    *("vector", "threads_per_core", "clock_khz", "cpus_allowed", "microcode", "bios"),
    *("clock_source", "tcp_congestion", "tcp_rmem", "tcp_wmem", "rmem_max", "wmem_max"),
    *("numa_balancing", "mpi_settings", "program_settings", "memory_modules_mbps", "nics"),
    *("nested_paging", "kvm_paging", "vcpu_pinning", "host_pages", "page_kb", "ksm", "host_ksm"),
    *("write_combining", "binding", "pages", "settings"),
}

#: What a guest cannot see of its hypervisor: fact -> key in the partition's extras, which says it.
OF_HYPERVISOR = {
    "nested_paging": "nested_paging",
    "vcpu_pinning": "binding",
    "host_pages": "host_pages",
    "host_ksm": "host_ksm",
    "write_combining": "write_combining",
}
#: Values of extras in the words of the fact.
IN_WORDS = {"vcpu_pinning": {"vcpu": "pinned", "none": "not pinned"}}
UNKNOWN = "unknown"
#: Facts by which sessions are compared: what a site may choose, of machine, hypervisor and job.
FACTORS = (
    *("hypervisor", "accelerator", "nested_paging", "vcpu_pinning", "cpus", "smt"),
    *("binding", "pages", "page_kb", "thp", "host_pages", "huge_pages", "ksm", "host_ksm"),
    *("write_combining", "numa_balancing", "governor", "nic_driver", "mtu", "mpi_library"),
    *("compiler", "image"),
)


def of_hypervisor(facts: dict, stated: dict) -> dict[str, str]:
    """Facts of the hypervisor: as the nodes know them, else as the site says, else `unknown`.

    :arg stated: keys of the partition's extras -> value, or None.
    """
    alone = UNKNOWN
    if facts.get("hypervisor") == "none":
        alone = "none"
    known = {}
    for name, key in OF_HYPERVISOR.items():
        known[name] = facts.get(name, alone)
        if known[name] == UNKNOWN:
            value = stated.get(key) or UNKNOWN
            known[name] = IN_WORDS.get(name, {}).get(value, value)
    return known


def factors_that_differ(
    by_column: dict[str, list[dict]], names: tuple[str, ...] = FACTORS
) -> list[tuple[str, list[str]]]:
    """Factors whose values differ between columns: (factor, the values of each column).

    :arg by_column: the facts of the cases of each column. Several values are joined as `a | b`.
    """
    rows = []
    for name in names:
        values = []
        for cases in by_column.values():
            recorded = {str(facts[name]) for facts in cases if facts.get(name)}
            values.append(" | ".join(sorted(recorded)) or "not recorded")
        if len(set(values)) > 1:
            rows.append((name, values))
    return rows


#: Facts of an interface that older baselines and sessions lack.
LATER_OF_NIC = re.compile(r"(nic\..+\.)(?:qdisc|firmware)")
#: Facts of all interfaces together -> the fact of one interface that they repeat.
TOGETHER = {"mtu": re.compile(r"nic\..+\.mtu"), "nic_driver": re.compile(r"nic\..+\.driver")}


def changed_facts(then: dict, now: dict) -> dict[str, tuple[str, str]]:
    """Facts that differ: {name: (then, now)}; `absent` on a side that lacks the fact.

    A fact of an interface is left out beside the one of all interfaces, which says the same.
    Nothing differs from a side without facts, as checks of others store it.
    """
    if not ({*then} - PASSING and {*now} - PASSING):
        return {}
    changed = {}
    for name in sorted({*then, *now} - PASSING):
        not_yet = name not in then and _is_later(name, then)
        if then.get(name) != now.get(name) and not not_yet:
            changed[name] = str(then.get(name, "absent")), str(now.get(name, "absent"))
    for name, pattern in TOGETHER.items():
        if name in changed:
            for repeated in filter(pattern.fullmatch, list(changed)):
                del changed[repeated]
    return changed


def nodes_in(facts: dict) -> tuple[str, ...]:
    """The nodes that facts name, as a list or as text; () where they are unknown."""
    nodes = facts.get("nodes") or ()
    if isinstance(nodes, str):
        return tuple(re.split(r"[,\s]+", nodes))
    return tuple(nodes)


def _is_later(name: str, then: dict) -> bool:
    """Whether a fact is missing because it was not yet recorded."""
    of_nic = LATER_OF_NIC.fullmatch(name)
    return name in LATER or bool(of_nic and f"{of_nic[1]}driver" in then)
