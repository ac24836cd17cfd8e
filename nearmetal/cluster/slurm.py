"""Partitions, nodes, settings and accounts of Slurm, from the text of its commands.

Pure functions. The forms are those of Slurm 17 to 24: `scontrol --oneliner`, `sinfo --format`,
`sacctmgr --parsable2`. Nothing needs Slurm's JSON plugin, which few sites install.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

#: ReFrame's schedulers that submit to Slurm, with accounting and without.
SCHEDULERS = ("slurm", "squeue")
#: Columns of the command that replaces `scontrol show node` where users may not run it: partition,
#: node, sockets, cores, threads, memory, state, time limit; then of the partition: state, range of
#: a job's nodes, whether root alone may use it, most CPUs of a job on a node.
SINFO = "%R|%N|%X|%Y|%Z|%m|%T|%l|%a|%s|%r|%B"
#: Columns of `sacctmgr show assoc`.
ASSOC = "account,qos,defaultqos"
#: Limits of a partition that are kept where Slurm states them; memory is in MB.
LIMITS = (
    *("MinNodes", "MaxNodes", "MaxCPUsPerNode", "MaxCPUsPerSocket"),
    *("DefMemPerCPU", "DefMemPerNode", "MaxMemPerCPU", "MaxMemPerNode"),
)
FIELD = re.compile(r"(?:^|\s)([A-Z][\w:/]*)=(\S*)")
#: Slurm's words for no value.
NOTHING = {"", "(null)", "N/A", "n/a", "NONE", "None", "none"}
#: Words of a node's state that keep jobs away, by their beginning. `POWERED_DOWN` does not.
AWAY = (
    *("DOWN", "DRAIN", "FAIL", "MAINT", "ERROR", "UNKNOWN", "FUTURE", "NOT_RESPONDING"),
    "INVAL",
)
#: Signs behind a state in sinfo, as scontrol names them.
SIGNS = {"*": "+NOT_RESPONDING", "$": "+MAINTENANCE"}
SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
#: Most hosts of a list: more are taken for damage.
MOST_HOSTS = 100_000
SETTING = re.compile(r"(\w+)\s+= (.*?)\s*")


@dataclass(frozen=True)
class Node:
    name: str
    sockets: int
    cores: int  #: physical cores that a job can have
    threads: int  #: hardware threads of a core
    memory_mb: int  #: that a job can have
    partitions: tuple[str, ...]
    state: str
    kept_cores: int = 0  #: physical cores that Slurm keeps from jobs (CoreSpecCount)
    kept_mb: int = 0  #: memory that Slurm keeps from jobs (MemSpecLimit)
    cpus_of_core: int = 1  #: CPUs that Slurm counts for a core

    @property
    def usable(self) -> bool:
        """Whether jobs can run on it, now or after other jobs."""
        return not any(_away(word) for word in self.state.split("+"))

    @property
    def usable_within_a_reservation(self) -> bool:
        """Whether jobs of its reservation can run on it: they can in one for maintenance."""
        words = self.state.split("+")
        return not any(_away(word) and not word.startswith("MAINT") for word in words)

    @property
    def reserved(self) -> bool:
        """Whether a reservation has it now."""
        return any(word.startswith("RESERVED") for word in self.state.split("+"))

    @property
    def busy(self) -> bool:
        """Whether it runs jobs, so that an exclusive job waits for it."""
        return self.state.startswith(("ALLOC", "MIX", "COMP"))


@dataclass(frozen=True)
class Partition:
    name: str
    up: bool
    time_limit: str  #: such as `1d` or `2h30m`; '' without a limit
    accounts: tuple[str, ...] = ()  #: that may use it; (): all
    hidden: bool = False  #: whether Slurm's commands leave it out
    state: str = "UP"
    denied_accounts: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()  #: that may use it; (): all
    denied_qos: tuple[str, ...] = ()
    submit_hosts: tuple[str, ...] = ()  #: where jobs may be submitted; (): everywhere
    needs_reservation: bool = False
    root_only: bool = False
    limits: Mapping[str, int] = field(default_factory=dict)  #: of LIMITS, those that are stated
    origin: str = "scontrol show partition"

    @property
    def lists(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The accounts and QOS that it allows and denies, by their kind."""
        return {
            "account": (self.accounts, self.denied_accounts),
            "qos": (self.qos, self.denied_qos),
        }

    def admitted(self, kind: str, names: Iterable[str]) -> list[str]:
        """The names of accounts or QOS that it admits.

        :arg kind: `account` or `qos`.
        """
        allowed, denied = self.lists[kind]
        # Slurm ignores what is denied beside a list of what is allowed.
        if allowed:
            return [name for name in names if name in allowed]
        return [name for name in names if name not in denied]


def _away(word: str) -> bool:
    """Whether a word of a node's state keeps jobs away."""
    return word.startswith(AWAY) or word.endswith("*")


def records(text: str) -> list[dict[str, str]]:
    """The fields of each line of `scontrol --oneliner`.

    A value that has blanks is cut at the first one. Of two equal keys the first counts: a text of
    an administrator (Reason, Comment) stands last.
    """
    lines = []
    for line in text.splitlines():
        fields: dict[str, str] = {}
        for key, value in FIELD.findall(line):
            fields.setdefault(key, value)
        if fields:
            lines.append(fields)
    return lines


def nodes(text: str) -> list[Node]:
    """Nodes of `scontrol --oneliner show node`."""
    return [_node(fields) for fields in records(text) if "NodeName" in fields]


def _node(fields: Mapping[str, str]) -> Node:
    sockets, threads = _count(fields, "Sockets", 1), _count(fields, "ThreadsPerCore", 1)
    processors = _count(fields, "CPUTot", 0)
    # A node without a topology in slurm.conf has CPUs alone.
    cores = sockets * _count(fields, "CoresPerSocket", 0) or max(1, processors // threads)
    processors = processors or cores * threads
    kept = _count(fields, "CoreSpecCount", 0)
    # Newer versions state what is left for jobs, in CPUs.
    if left := _count(fields, "CPUEfctv", 0):
        kept = cores - cores * left // processors
    kept_mb = _count(fields, "MemSpecLimit", 0)
    return Node(
        fields["NodeName"],
        sockets,
        max(1, cores - kept),
        threads,
        max(0, _count(fields, "RealMemory", 0) - kept_mb),
        _names(fields.get("Partitions", "")),
        fields.get("State", "UNKNOWN").upper(),
        kept,
        kept_mb,
        max(1, processors // cores),
    )


def partitions(text: str) -> list[Partition]:
    """Partitions of `scontrol --oneliner show partition`."""
    return [_partition(fields) for fields in records(text) if "PartitionName" in fields]


def _partition(fields: Mapping[str, str]) -> Partition:
    def listed(key: str) -> tuple[str, ...]:
        names = _names(fields.get(key, ""))
        if "ALL" in names:
            return ()
        return names

    state = fields.get("State", "UP")
    return Partition(
        fields["PartitionName"],
        state == "UP",
        time_limit(fields.get("MaxTime", "")),
        listed("AllowAccounts"),
        state=state,
        denied_accounts=listed("DenyAccounts"),
        qos=listed("AllowQos"),
        denied_qos=listed("DenyQos"),
        submit_hosts=tuple(hosts(",".join(listed("AllocNodes")))),
        needs_reservation=fields.get("ReqResv") == "YES",
        root_only=fields.get("RootOnly") == "YES",
        limits=limits(fields),
    )


def limits(fields: Mapping[str, str]) -> dict[str, int]:
    """The limits of a partition, or of slurm.conf, that Slurm states."""
    stated = {}
    for key in LIMITS:
        if number := _number(fields.get(key, "")):
            stated[key] = number
    return stated


def of_sinfo(text: str) -> tuple[list[Partition], list[Node]]:
    """Partitions and nodes of `sinfo --noheader --Node --format=SINFO`, a line a pair of both."""
    partitions: dict[str, Partition] = {}
    nodes: dict[str, Node] = {}
    for line in text.splitlines():
        cells = list(map(str.strip, line.split("|")))
        if len(cells) != len(SINFO.split("|")):
            continue
        partition, name, *numbers, state = cells[:7]
        partitions.setdefault(partition, _partition_of_sinfo(partition, *cells[7:]))
        sockets, cores, threads, memory = map(_number, numbers)
        # sinfo prints 0 of what Slurm does not know.
        sockets, threads = sockets or 1, threads or 1
        names: tuple[str, ...] = (partition,)
        if name in nodes:
            names = (*nodes[name].partitions, partition)
        nodes[name] = Node(
            name,
            sockets,
            max(1, sockets * cores),
            threads,
            memory,
            names,
            _state_of_sinfo(state),
            cpus_of_core=threads,
        )
    return list(partitions.values()), list(nodes.values())


def _partition_of_sinfo(
    name: str, longest: str, state: str, sizes: str, root_only: str, most_cpus: str
) -> Partition:
    # `1-infinite`, or one number where both are equal.
    least, _, most = sizes.partition("-")
    stated = {"MinNodes": least, "MaxNodes": most or least, "MaxCPUsPerNode": most_cpus}
    return Partition(
        name,
        state == "up",
        time_limit(longest),
        state=state.upper(),
        root_only=root_only == "yes",
        limits=limits(stated),
        origin="sinfo",
    )


def _state_of_sinfo(state: str) -> str:
    """A node's state in the words of scontrol: `idle$` is in a reservation for maintenance."""
    return state[:-1].upper() + SIGNS.get(state[-1:], state[-1:].upper())


def switches(text: str) -> dict[str, str]:
    """Name of each node's leaf switch, or block, from `scontrol --oneliner show topology`."""
    by_node: dict[str, str] = {}
    for fields in records(text):
        name = fields.get("SwitchName") or fields.get("BlockName")
        # Higher levels list all nodes below them.
        if name and fields.get("Level", "0") == "0":
            for node in hosts(fields.get("Nodes", "")):
                by_node.setdefault(node, name)
    return by_node


def hosts(text: str) -> list[str]:
    """The names of a host list of Slurm, such as `login,n[01-03,7]-[a0-a1]`.

    A list that would have more than MOST_HOSTS names has none.
    """
    if text in NOTHING:
        return []
    listed: list[str] = []
    # A part of the list has commas within brackets alone.
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        names = [""]
        for fixed, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [fixed]
            if not fixed:
                ends = _numbers(ranges)
            if len(names) * len(ends) > MOST_HOSTS:
                return []
            names = list(map("".join, itertools.product(names, ends)))
        listed += names
    return listed


def _numbers(text: str) -> list[str]:
    """The numbers of `01-03,7`, each with as many digits as its range's first one."""
    numbers: list[str] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            if int(last) - int(first) >= MOST_HOSTS:
                return []
            for number in range(int(first), int(last) + 1):
                numbers.append(str(number).zfill(len(first)))
        else:
            numbers.append(part)
    return numbers


def settings(text: str) -> dict[str, str]:
    """Settings of `scontrol show config`."""
    values = {}
    for line in text.splitlines():
        if match := SETTING.fullmatch(line):
            values[match[1]] = match[2]
    return values


def has_accounting(config: Mapping[str, str]) -> bool | None:
    """Whether Slurm stores ended jobs, so that `sacct` finds them. None if it is not known."""
    kind = config.get("AccountingStorageType")
    if kind is None:
        return None
    return kind.split("/")[-1] not in {"none", "(null)", ""}


def mpi_types(text: str) -> list[str]:
    """Names for srun's `--mpi`, from `srun --mpi=list`.

    Slurm 22.05 and later prints `MPI plugin types are...`, earlier ones `srun: MPI types are...`.
    """
    names: list[str] = []
    for line in text.splitlines():
        line = line.removeprefix("srun:").strip()
        _, colon, versions = line.partition("versions available:")
        if colon:
            names += versions.replace(",", " ").split()
        elif re.fullmatch(r"\w+", line):
            names.append(line)
    return list(dict.fromkeys(names))


def accounts(text: str) -> list[str]:
    """Accounts of a user, from `sacctmgr --noheader --parsable2 show assoc format=ASSOC`."""
    names = (line.split("|")[0].strip() for line in text.splitlines())
    return list(dict.fromkeys(filter(None, names)))


def qos(text: str) -> list[str]:
    """QOS of a user, the default first, from the text that `accounts` reads."""
    ordered: list[str] = []
    for line in text.splitlines():
        _, names, default = (line + "||").split("|")[:3]
        allowed = list(filter(None, map(str.strip, names.split(","))))
        if default.strip() in allowed:
            ordered.insert(0, default.strip())
        ordered += allowed
    return list(dict.fromkeys(ordered))


def time_limit(text: str) -> str:
    """A time of Slurm as ReFrame writes it: `1-12:00:00` is `1d12h`. '' without a limit."""
    match = TIME.fullmatch(text.strip())
    if not match:
        return ""
    limit = ""
    for number, unit in zip(match.groups(), "dhms"):
        if int(number or 0):
            limit += f"{int(number)}{unit}"
    return limit


def seconds(text: str) -> int:
    """The seconds of a time as ReFrame writes it, `1d12h`."""
    total = 0
    for number, unit in re.findall(r"(\d+)([dhms])", text):
        total += int(number) * SECONDS[unit]
    return total


def _count(fields: Mapping[str, str], key: str, default: int) -> int:
    return _number(fields.get(key, "")) or default


def _number(text: str) -> int:
    """A count; `64+`, where nodes differ, is 64. 0 where the text is none."""
    match = re.match(r"\d+", text)
    if match:
        return int(match[0])
    return 0


def _names(text: str) -> tuple[str, ...]:
    if text in NOTHING:
        return ()
    return tuple(filter(None, text.split(",")))
