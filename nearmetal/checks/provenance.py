"""Facts of the nodes, and the transport of a program's messages, from ``src/provenance.sh``.

Pure functions of text. Counters and payloads are in bytes.
"""

from __future__ import annotations

import math
import os
import pwd
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

Facts = dict[str, str]  #: value by key
Nodes = dict[str, Facts]  #: facts by host name

#: Least share of the payload that makes an interface a carrier.
SHARE = 0.05
#: Least payload in bytes. The launch of a job sends some 100 kB, which must stay far below SHARE.
LEAST_PAYLOAD = 10_000_000

#: What each line of provenance.sh begins with. Lines of others have no such mark.
MARK = "# nearmetal node: "
LINE = re.compile(rf"{MARK}(\S+) ([^\s=]+)=(.*\S)\s*")
#: Key of the number of lines that a node printed.
LINES = "lines"
#: Key of the host's name, which programs report. The node's name in Slurm may be another one.
HOST = "machine.host"
#: A host's name in the lines of our programs.
REPORTED_HOST = re.compile(r"^(# nearmetal (?:port: \d+ |.*\bhost=))(\S+)", re.M)
LARGE_PAGES = "vm.large_page_bytes"
#: The form of the keys and values of each counter, and of what else is no fact of the node.
COUNTS = (
    (r"(?:nic|ib|lo)(?:\..+)?\.(?:(?:tx|rx|xmit)_bytes|xmit_packets)", r"\d{1,20}|unknown"),
    (re.escape(LARGE_PAGES), r"\d{1,20}|unknown"),
    (r"clock\.uptime", r"\d{1,12}\.\d{1,9}|unknown"),
    (r"process\..+", r"\d{1,9} \d{1,15}"),
    (r"count\..+", r"\d{1,20}"),
    (r"machine\..+", r"[\w.-]{1,255}"),
)
COUNTER = re.compile("|".join(keys for keys, _ in COUNTS))
PROCESS = re.compile(r"process\.(?P<uid>\d+)\.(?P<command>.+)")
#: Least share of one processor, during the job, of a recorded foreign process.
BUSY = 0.05
#: Least ticks of the kernel's clock. Fewer are noise in a job of a second.
LEAST_TICKS = 10
#: Smaller user numbers belong to the system.
FIRST_USER = 1000
FOREIGN = "foreign_processes"
SENT = re.compile(
    r"(?:nic\.(?P<nic>.+)|(?P<lo>lo))\.tx_bytes|ib\.(?P<device>.+)\.(?P<port>\d+)\.xmit_bytes"
)


class ProvenanceError(ValueError):
    """The facts of the nodes cannot be used. The message says why."""


@dataclass(frozen=True)
class Transport:
    #: Such as ``eth0 (veth)``, ``mlx5_0/1``, ``loopback``. The one that sent most comes first.
    carriers: list[str]
    #: Bytes that interfaces and ports of all hosts sent, with protocol headers.
    network_bytes: int
    #: Bytes that all hosts sent through ``lo``.
    loopback_bytes: int
    payload_bytes: int
    #: Bytes sent, by host and interface. It includes interfaces that are no carriers.
    by_host: dict[str, dict[str, int]]

    @property
    def unseen_bytes(self) -> int:
        """The least number of payload bytes that no counter counted."""
        return max(0, self.payload_bytes - self.network_bytes - self.loopback_bytes)

    @property
    def name(self) -> str:
        """The carriers, joined by `` + ``. ``shared memory`` if there are none.

        On several hosts a device without kernel counters may have carried the payload instead. The
        name says so.
        """
        if self.carriers:
            return " + ".join(self.carriers)
        if len(self.by_host) == 1:
            return "shared memory"
        return "shared memory or kernel bypass"


def parse(text: str) -> Nodes:
    """The facts of each node, from lines ``# nearmetal node: <node> <key>=<value>`` in any order.

    Lines of others, such as those of a prolog, are skipped. Raises ProvenanceError if there is no
    line of ours, if one has another form or was lost, or if a node reports a key twice (the script
    then ran twice).
    """
    nodes: Nodes = {}
    printed: Counter[str] = Counter()
    reported: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        # A prolog may print lines, and without a newline at their end.
        if MARK not in line:
            continue
        if not (match := LINE.fullmatch(line)):
            raise ProvenanceError(f"line {number} is not `{MARK}<node> <key>=<value>`: {line!r}")
        host, key, value = match.groups()
        printed[host] += 1
        if key == LINES:
            number_of_lines = -1
            if re.fullmatch(r"[0-9]{1,9}", value):
                number_of_lines = int(value)
            reported[host] += number_of_lines
            continue
        if key in nodes.setdefault(host, {}):
            raise ProvenanceError(
                f"line {number}: {host} reports {key} twice: run provenance.sh once on each node"
            )
        nodes[host][key] = value
    if not nodes:
        raise ProvenanceError("no facts: provenance.sh printed nothing, so it did not run")
    _expect_all_lines(printed, reported)
    return nodes


def _expect_all_lines(printed: Counter[str], reported: Counter[str]) -> None:
    for host, count in printed.items():
        if host not in reported:
            raise ProvenanceError(f"{host} does not report {LINES}: its last lines were lost")
        if count != reported[host]:
            raise ProvenanceError(f"{host} reports {reported[host]} lines, but {count} are here")


def by_node(text: str, nodes: Nodes) -> str:
    """An output of our programs with the name of the node wherever they report that of its host."""
    names = {facts[HOST]: node for node, facts in nodes.items() if HOST in facts}
    return REPORTED_HOST.sub(lambda match: match[1] + names.get(match[2], match[2]), text)


def snapshots(before: str, after: str) -> tuple[Nodes, Nodes]:
    """The facts of each host before the launches, and its counters after them.

    Raises ProvenanceError if lines were lost: a fact of every host is missing, a host is in only
    one output, or an interface or port lacks some of its facts. An interface or port that is in
    only one output was added or removed meanwhile.
    """
    first, last = parse(before), parse(after)
    if set(first) != set(last):
        raise ProvenanceError(
            f"hosts {', '.join(sorted(first))} before the launches, but {', '.join(sorted(last))} "
            "after them: lines were lost"
        )
    for host, facts in first.items():
        _expect_whole(host, facts, last[host])
        _expect_counts(host, facts)
        _expect_counts(host, last[host])
    return first, last


def _expect_whole(host: str, before: Facts, after: Facts) -> None:
    """Raise ProvenanceError unless a host reports all facts, and all counters after them."""
    _expect(host, before, FACTS)
    _expect(host, after, COUNTERS)
    for name in _groups(before):
        kind = name.split(".")[0]
        _expect(host, before, [f"{name}.{key}" for key in (*GROUP[kind], *COUNTED[kind])])
    for name in _groups(after):
        counted = [f"{name}.{key}" for key in COUNTED[name.split(".")[0]]]
        of_group = [key for key in before if key.startswith(f"{name}.")]
        counted += filter(COUNTER.fullmatch, of_group)
        _expect(host, after, counted)


def _expect_counts(host: str, facts: Facts) -> None:
    """Raise ProvenanceError if the value of a counter is none."""
    for key, value in facts.items():
        forms = [form for keys, form in COUNTS if re.fullmatch(keys, key)]
        if forms and not re.fullmatch(forms[0], value, re.ASCII):
            raise ProvenanceError(f"{host}: {key} is {value!r}, not a count")


def without_growth(after: Nodes, first: Nodes, last: Nodes) -> Nodes:
    """Counters of sent bytes without what they grew by between two snapshots.

    The bytes of a repeat that ran again then do not count as those of another repeat.

    :arg after: the snapshot at the job's end.
    :arg first, last: the snapshots before and after the repeat.
    """
    corrected = {}
    for host, facts in after.items():
        grown = {}
        for key, value in facts.items():
            ends = [nodes.get(host, {}).get(key, "") for nodes in (first, last)]
            if SENT.fullmatch(key) and all(count.isdecimal() for count in (value, *ends)):
                grown[key] = str(int(value) - int(ends[1]) + int(ends[0]))
        corrected[host] = {**facts, **grown}
    return corrected


#: Keys that provenance.sh reports for every host, NIC and RDMA port, and those that are counters.
COUNTERS = (LARGE_PAGES, "lo.tx_bytes", "lo.rx_bytes")
FACTS = (
    *("kernel", "hypervisor", "container", "dmi", "cpu_model", "cpus", "numa_nodes", "governor"),
    *("smt", "thp", "mem_total_kb", "huge_pages", "mitigations", *COUNTERS),
)
GROUP = {
    "nic": ("driver", "mtu", "speed", "offloads", "lower"),
    "ib": ("rate", "fw", "link_layer", "netdev"),
}
COUNTED = {"nic": ("tx_bytes", "rx_bytes"), "ib": ("xmit_bytes",)}


def _groups(facts: Facts) -> list[str]:
    """The NICs and RDMA ports of a host, such as ``nic.eth0`` and ``ib.mlx5_0.1``."""
    names = (key.rpartition(".")[0] for key in facts if key.startswith(("nic.", "ib.")))
    return list(dict.fromkeys(names))


def _expect(host: str, facts: Facts, keys) -> None:
    missing = [key for key in keys if key not in facts]
    if missing:
        raise ProvenanceError(
            f"{host} does not report {', '.join(missing)}: lines of provenance.sh were lost"
        )


def common(nodes: Nodes) -> tuple[Facts, list[str]]:
    """The facts of all nodes in one mapping, and the keys that differ between nodes.

    Counters are left out. Different values are joined as ``a | b``; a node without the fact has
    ``absent``. Raises ProvenanceError if there are no nodes.
    """
    if not nodes:
        raise ProvenanceError("no nodes to compare")
    facts: Facts = {}
    heterogeneous: list[str] = []
    for key in _keys(nodes):
        values = sorted({node.get(key, "absent") for node in nodes.values()})
        facts[key] = " | ".join(values)
        if len(values) > 1:
            heterogeneous.append(key)
    return facts, heterogeneous


def _keys(nodes: Nodes) -> list[str]:
    """The keys of all nodes' facts, in their order, without counters."""
    keys: dict[str, None] = {}
    for facts in nodes.values():
        keys.update(dict.fromkeys(facts))
    return [key for key in keys if not COUNTER.fullmatch(key)]


def odd_facts(nodes: Nodes) -> dict[str, dict[str, tuple[str, str, int]]]:
    """Facts in which a node differs from most nodes, for each node that has any.

    Returns host -> fact -> (its value, the value of most nodes, how many nodes have that). A fact
    of which no value belongs to more than half of the nodes is left out, as are counters.
    """
    odd: dict[str, dict[str, tuple[str, str, int]]] = {}
    for key in _keys(nodes):
        values = {host: facts.get(key, "absent") for host, facts in nodes.items()}
        most, count = Counter(values.values()).most_common(1)[0]
        # Without a majority, nobody knows which value is the odd one.
        if count * 2 <= len(nodes):
            continue
        for host, value in values.items():
            if value != most:
                odd.setdefault(host, {})[key] = value, most, count
    return odd


def of_nodes(text: str) -> dict:
    """The facts of a job's nodes and the nodes' names, from its first snapshot; {} if it has none.

    For a job that may have failed: what is damaged gives no facts here.
    """
    try:
        nodes = parse(text)
    except ProvenanceError:
        return {}
    return stored(nodes)


def stored(nodes: Nodes) -> dict:
    """Facts of all nodes, the keys that differ between nodes, and the nodes' names."""
    facts, differing = common(nodes)
    return {**facts, "differs_between_nodes": differing, "nodes": sorted(nodes)}


@dataclass(frozen=True)
class Foreign:
    """Processes of one command on one host that used its processors and are not the job's."""

    host: str
    user: str
    command: str
    number: int
    #: Share of one processor during the job. None if the job was cut off.
    share: float | None
    #: Seconds of processor time during the job. Before it, if the job was cut off.
    seconds: float

    def __str__(self) -> str:
        used = f"{self.seconds:.0f} s of processor time before the job"
        if self.share is not None:
            used = f"{100 * self.share:.0f} % of a processor"
        if self.number > 1:
            used = f"{self.number} processes, {used}"
        return f"{self.user} {self.command} ({used})"


def foreign_processes(before: Nodes, after: Nodes) -> list[Foreign]:
    """Processes that used the nodes' processors between two snapshots, the busiest first.

    Processes of the job do not run at a snapshot, so they are not among them. Without a second
    snapshot these are processes of ordinary users that had used a second before the first one.
    """
    tick = os.sysconf("SC_CLK_TCK")
    foreign: list[Foreign] = []
    for host, facts in before.items():
        # Without counters after the job, only what ran before it can be named.
        if host in after:
            foreign += _used_meanwhile(host, facts, after[host], tick)
            continue
        for _, uid, command, number, ticks in _processes(facts):
            if uid >= FIRST_USER and ticks >= tick:
                foreign.append(Foreign(host, _user(uid), command, number, None, ticks / tick))
    return sorted(foreign, key=lambda process: -process.seconds)


def with_foreign_processes(before: Nodes, after: Nodes) -> Nodes:
    """The first snapshot with one more fact: users and commands of foreign processes, or `none`.

    The fact holds no number, so jobs beside the same processes have the same fact.
    """
    named: dict[str, set[str]] = {host: set() for host in before}
    for process in foreign_processes(before, after):
        named[process.host].add(f"{process.user} {process.command}")
    nodes = {}
    for host, facts in before.items():
        none = "none"
        if facts.get("process_view", "all") != "all":  # not those of other users
            none = "none visible"
        nodes[host] = {**facts, FOREIGN: ", ".join(sorted(named[host])) or none}
    return nodes


def disturbance(before: Nodes, after: Nodes) -> str:
    """Disturbances that may explain a failure, in words. '' if there are none.

    For example `foreign processes on node1: ...; full file systems on node1: ...`.
    """
    processes: dict[str, list[str]] = {}
    for process in foreign_processes(before, after):
        processes.setdefault(process.host, []).append(str(process))
    clauses = []
    for host, names in processes.items():
        clauses.append(f"foreign processes on {host}: {', '.join(names)}")
    for host, facts in before.items():
        full = facts.get("full_file_systems", "none")
        if full not in ("none", "unknown"):
            clauses.append(f"full file systems on {host}: {full}")
    return "; ".join(clauses)


def _processes(facts: Facts) -> Iterator[tuple[str, int, str, int, int]]:
    """Yield key, user number, command, number of processes, and their ticks."""
    for key, value in facts.items():
        match = PROCESS.fullmatch(key)
        words = value.split()
        if match and len(words) == 2 and all(map(str.isdecimal, words)):
            yield key, int(match["uid"]), match["command"], int(words[0]), int(words[1])


def _used_meanwhile(host: str, first: Facts, last: Facts, tick: int) -> Iterator[Foreign]:
    earlier = {key: ticks for key, _, _, _, ticks in _processes(first)}
    elapsed = _uptime(last) - _uptime(first)
    for key, uid, command, number, ticks in _processes(last):
        used = ticks - earlier.get(key, 0)
        if used >= LEAST_TICKS and used / tick >= BUSY * elapsed > 0:
            seconds = used / tick
            yield Foreign(host, _user(uid), command, number, seconds / elapsed, seconds)


def _uptime(facts: Facts) -> float:
    try:
        return float(facts.get("clock.uptime", ""))
    except ValueError:
        return math.nan


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # of a container, or of a directory service that does not answer
        return f"uid {uid}"


def transport(before: Nodes, after: Nodes, payload_bytes: int) -> Transport:
    """The transport of a payload between two snapshots.

    The kernel's counters decide, because they count what was sent under any library. A library
    reports the transport that it was configured with, and may silently fall back to another one.

    A carrier is an interface or port that sent at least SHARE of the payload on all hosts together.
    An interface stacked on others (bond, VLAN, bridge, IPoIB) is not counted if those sent its
    bytes. Counters that are ``unknown`` or in only one snapshot are not counted: see
    ``unseen_bytes``. Drivers are those of ``before``.

    :arg payload_bytes: all messages of all ranks, at least LEAST_PAYLOAD.

    Raises ProvenanceError if there is no host, if one is missing from ``after``, if a counter ran
    backwards, or if the payload is too small.
    """
    # Slurm's own messages, NFS and SSH send bytes as well.
    if payload_bytes < LEAST_PAYLOAD:
        raise ProvenanceError(
            f"a payload of {payload_bytes} bytes does not stand out from other traffic of the "
            f"nodes: send at least {LEAST_PAYLOAD}"
        )
    if not before:
        raise ProvenanceError("no host in the first snapshot")
    by_host = {}
    for host, facts in before.items():
        if host not in after:
            raise ProvenanceError(f"{host} is in the first snapshot but not in the second")
        by_host[host] = _sent(host, facts, after[host])
    total: Counter[str] = Counter()
    for sent in by_host.values():
        total.update(sent)
    loopback = total["loopback"]
    carriers = [carrier for carrier, sent in total.most_common() if sent >= SHARE * payload_bytes]
    return Transport(carriers, sum(total.values()) - loopback, loopback, payload_bytes, by_host)


def rdma_transport(
    before: Nodes, after: Nodes, payload_bytes: int, ports: dict[str, str], mtu: int
) -> str:
    """The transport of a payload that was sent by verbs.

    It is ``mlx5_0/1`` for a port with counters. It is ``rxe0/1 over eth0 (virtio_net)`` for a
    device in software, which counts packets while its interface counts bytes. It is ``mlx4_0/1
    (without counters)`` for some virtual functions.

    :arg ports: port by host, such as ``mlx5_0/1``.
    :arg mtu: largest packet in bytes.

    Raises ProvenanceError if most of the bytes took another path.
    """
    carried = transport(before, after, payload_bytes)
    if lost := ports.keys() - before.keys():
        raise ProvenanceError(
            f"{', '.join(sorted(lost))} has an RDMA port but is not among the hosts "
            f"{', '.join(before)}"
        )
    for host, port in ports.items():
        if f"ib.{port.replace('/', '.')}.xmit_bytes" not in before[host]:
            raise ProvenanceError(f"{host} has no RDMA port {port}: rdma.ports was damaged")
    chosen = " + ".join(dict.fromkeys(ports.values()))
    if carried.carriers and set(carried.carriers) <= set(ports.values()):
        return carried.name
    packets, counted, interfaces = 0, False, set()
    for host, port in ports.items():
        key = "ib." + port.replace("/", ".")
        first = before[host].get(f"{key}.xmit_packets", "")
        last = after[host].get(f"{key}.xmit_packets", "")
        if first.isdecimal() and last.isdecimal():
            packets += int(last) - int(first)
            counted = True
            netdev = before[host].get(f"{key}.netdev", "unknown")
            for carrier in carried.by_host[host]:
                if carrier.split(" ")[0] == netdev:
                    interfaces.add(carrier)
        counted |= before[host].get(f"{key}.xmit_bytes", "").isdecimal()
    if not counted and not carried.carriers:
        return f"{chosen} (without counters)"
    if carried.carriers and set(carried.carriers) <= interfaces and packets * mtu >= payload_bytes:
        return f"{chosen} over {carried.name}"
    raise ProvenanceError(
        f"{carried.name} carried the payload of {payload_bytes} bytes, which {chosen} should have "
        f"({packets} packets of at most {mtu} bytes were counted there)"
    )


def large_page_bytes(before: Nodes, after: Nodes) -> dict[str, int]:
    """Bytes of transparent huge pages that each host's kernel allocated between two snapshots.

    They include those of all programs. Raises ProvenanceError if a host is missing from ``after``,
    or if its kernel does not count them.
    """
    given = {}
    for host, facts in before.items():
        first, last = facts.get(LARGE_PAGES, ""), after.get(host, {}).get(LARGE_PAGES, "")
        if not (first.isdecimal() and last.isdecimal() and int(last) >= int(first)):
            raise ProvenanceError(
                f"{host}: the kernel does not count the memory that it gave in large pages "
                f"(before: {first or 'nothing'}, after: {last or 'nothing'})"
            )
        given[host] = int(last) - int(first)
    return given


def large_page_bytes_of_machines(before: Nodes, after: Nodes) -> int:
    """Bytes of transparent huge pages that the kernels of all hosts allocated, as above.

    Hosts with one boot ID are parts of one machine, whose kernel counts for all of them.
    """
    machines: dict[str, int] = {}
    for host, given in large_page_bytes(before, after).items():
        machine = before[host].get("machine.boot", host)
        machines[machine] = max(given, machines.get(machine, 0))
    return sum(machines.values())


def _sent(host: str, before: Facts, after: Facts) -> dict[str, int]:
    """Bytes that one host sent, by interface. Raises ProvenanceError if a counter ran backwards."""
    sent: dict[str, int] = {}
    for key, first in before.items():
        match, last = SENT.fullmatch(key), after.get(key, "")
        if not (match and first.isdecimal() and last.isdecimal()):
            continue
        if int(last) < int(first):
            raise ProvenanceError(
                f"{host}: {key} ran backwards, from {first} to {last}: was the interface reset?"
            )
        name = match["nic"] or match["lo"] or f"{match['device']}/{match['port']}"
        sent[name] = int(last) - int(first)
    by_carrier = {}
    for name, count in sent.items():
        names = before.get(f"nic.{name}.lower", "").split(",")
        lower = [sent[below] for below in names if below in sent]
        # What interfaces below sent as well is counted there.
        if not lower or sum(lower) < count:
            by_carrier[_label(name, before)] = count
    return by_carrier


def _label(name: str, facts: Facts) -> str:
    """The name of a carrier, such as ``eth0 (veth)``."""
    if name == "lo":
        return "loopback"
    driver = facts.get(f"nic.{name}.driver", "unknown")
    if driver == "unknown":
        return name
    return f"{name} ({driver})"
