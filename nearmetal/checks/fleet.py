"""Checks of all nodes of a partition at once."""

from __future__ import annotations

import base64
import functools
import itertools
import math
import re
import statistics
import zlib
from collections.abc import Mapping, Sequence

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from nearmetal.checks import all_nodes
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing import nodes as parsing_nodes
from nearmetal.checks.parsing.congestion import EXCHANGE_BYTES, SILENT
from nearmetal.checks.parsing.congestion import Launch as CongestionLaunch
from nearmetal.checks.parsing.links import Launch
from nearmetal.checks.provenance import Nodes, odd_facts
from nearmetal.checks.versions import Plugin
from nearmetal.cluster import answers
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.slurm import Node
from nearmetal.model.congestion import NAMES as CONGESTION_NAMES
from nearmetal.model.node_metrics import LEAST_NOISE, NAMES
from nearmetal.model.round_robin import MOST_CODE, STEPS, pairs
from nearmetal.util import sanitize

#: Fewest nodes of which the majority can be healthy.
LEAST_NODES = 3
#: Seconds of a job unless its repeats need more; those that a launch, and a job, need beside them.
JOB_SECONDS, LAUNCH_SECONDS, START_SECONDS = 1800.0, 20.0, 300.0
#: Most seconds of a repeat.
MOST_SECONDS = 86_400


@functools.cache  # one run sees one cluster
def _nodes() -> tuple[tuple[Node, ...], str]:
    """All nodes of the cluster, or why they are not known."""
    asker = Asker()
    _, nodes, _ = answers.partitions_and_nodes(asker)
    return tuple(nodes), "; ".join(asker.unread)


@functools.cache
def known_switches() -> dict[str, str]:
    """Name of each node's switch; empty where Slurm has no topology."""
    return answers.switches(Asker())


class Fleet(Plugin):
    """A check with `num_tasks_per_node` processes on each node of a partition that Slurm can use.

    The others are left out. They are named in a warning and in the fact `left_out`. With ReFrame's
    flexible `num_tasks` (0, or a negative number: at least as many), the nodes are those of
    `--flex-alloc-nodes`: the idle ones, those in another state, or so many.
    """

    #: Values of the links (`stored`). :type: dict
    links = builtin.variable(dict, value={}, loggable=True)
    #: Values of the nodes (`stored_nodes`). :type: dict
    node_values = builtin.variable(dict, value={}, loggable=True)

    #: Roles of the nodes and ratios of the victims (`stored_congestion`). :type: dict
    congestion = builtin.variable(dict, value={}, loggable=True)

    #: Fewest nodes that the check needs, and for what.
    least_nodes, needs_them_for = LEAST_NODES, "compares nodes with each other"
    #: Processes that the program needs on each node.
    processes_on_each = 1
    #: Name of each node's switch, in the order of Slurm; (): not known.
    _node_switches: Sequence[str] = ()
    #: ReFrame's numbers of processes and nodes, as the command line has them.
    _asked: Mapping[str, int | None]
    #: Nodes that are left out, and why.
    _left_out: Sequence[str] = ()

    @builtin.run_before("run")
    def end_with_the_others(self):
        # A rank that hangs does not end by itself: Slurm ends it so many seconds after the others.
        self.env_vars["SLURM_WAIT"] = "10"

    @builtin.run_after("init")
    def keep_what_is_asked_for(self):
        # The numbers change with the partition.
        self._asked = {"num_tasks": self.num_tasks, "num_nodes": self.num_nodes}

    @builtin.run_after("setup")
    def take_all_nodes(self):
        self._refuse_other_numbers()
        # `.nid` is ReFrame's parameter: the node that --distribute chose.
        if getattr(self, ".nid", None):
            self.skip(
                f"{self.display_name} {self.needs_them_for} in one job of all of them, but "
                f"--distribute gives each job one node. Fix: -S {type(self).__name__}.num_tasks=0 "
                "--flex-alloc-nodes=STATE chooses the nodes of one job by their state"
            )
        asked = self._asked["num_tasks"] or 0
        flexible = asked <= 0
        least = max(self.least_nodes, -(asked // self.num_tasks_per_node))
        if self.is_dry_run():
            self._take(least)
            return
        nodes, unread = _nodes()
        chosen = self._chosen(nodes, flexible)
        self._left_out = chosen.left_out
        if self._left_out:
            getlogger().warning(f"{self.display_name} leaves out {', '.join(self._left_out)}")
        if chosen.busy:
            getlogger().warning(f"{self.display_name} waits for jobs on {', '.join(chosen.busy)}")
        names = [node.name for node in chosen.nodes]
        self._node_switches = switches_of(names, known_switches())
        self._take(len(names))
        if len(names) < least:
            why = "" if least == self.least_nodes else " (num_tasks)"
            self.skip(
                f"{self.display_name} {self.needs_them_for} and needs {least}{why}, but "
                f"{self.current_partition.fullname} has {len(names)}"
                + (f" ({unread})" if unread else "")
                + (f" in the state of --flex-alloc-nodes, {self._state()}" if flexible else "")
            )
        elif flexible:
            self.job.pin_nodes = names

    def allow_time_for(self, seconds: float) -> None:
        """Ask for a longer job where repeats of so many seconds need it, if nobody set its limit.

        Raises SanityError if the limit is surely too short.
        """
        if self.time_limit == JOB_SECONDS:
            repeats = self.repeats + self.spare_repeats
            needed = START_SECONDS + repeats * (seconds + LAUNCH_SECONDS)
            self.time_limit = max(JOB_SECONDS, needed)
            self.keep_to_the_partitions_limits()
        if self.repeats * seconds > self.time_limit:
            raise SanityError(
                f"{self.repeats} repeats of {seconds:g} s are longer than the job may be, "
                f"{self.time_limit:g} s (time_limit, or max_time_limit of the partition). "
                f"Fix: -S {type(self).__name__}.seconds= or .repeats="
            )

    def _refuse_other_numbers(self) -> None:
        if self.num_tasks_per_node != self.processes_on_each:
            raise SanityError(
                f"num_tasks_per_node is {self.num_tasks_per_node}, but {self.display_name} has "
                f"{self.processes_on_each} on each node. Fix: leave it out"
            )
        # ReFrame's own default of both is 1.
        for name, number in self._asked.items():
            if number is None or number > 1:
                raise SanityError(
                    f"{name} is {number}, but {self.display_name} takes all nodes. Fix: -S "
                    f"{type(self).__name__}.num_tasks=0 --flex-alloc-nodes=NUMBER takes some"
                )

    def _state(self) -> str | int:
        """A state or a number: ReFrame's --flex-alloc-nodes."""
        return self.job.sched_flex_alloc_nodes or "idle"

    def _chosen(self, nodes: Sequence[Node], flexible: bool) -> all_nodes.Chosen:
        """The nodes of the partition that the options of the job and ReFrame's leave."""
        job, state = self.job, self._state()
        asked = all_nodes.asked_for([*job.sched_access, *job.options, *job.cli_options])
        if "," in asked.get("partition", ""):
            raise SanityError(
                f"{self.current_partition.fullname} is in Slurm {asked['partition']}, but a job "
                "runs in one of them. Fix: name one in its `access`"
            )
        if flexible and "nodelist" in asked:
            raise SanityError(
                f"num_tasks is {self._asked['num_tasks']}, but the job's options name nodes "
                f"already (nodelist={asked['nodelist']}). Fix: give one of the two"
            )
        allowed = in_state = None
        try:
            if set(asked) & set(all_nodes.NARROWING):
                allowed = {node.name for node in all_nodes.listed(job)}
            if flexible and isinstance(state, str):
                in_state = all_nodes.in_state(job, state)
        except NotImplementedError:
            raise SanityError(
                f"num_tasks is {self._asked['num_tasks']}, but ReFrame cannot list the nodes of "
                f"{job.scheduler.registered_name}. Fix: leave num_tasks out"
            ) from None
        most = state if flexible and isinstance(state, int) else None
        return all_nodes.choose(nodes, asked, allowed, in_state, most)

    def _take(self, nodes: int) -> None:
        self.num_nodes, self.num_tasks = nodes, nodes * self.num_tasks_per_node

    def preparations(self, runtime):
        if not self.by_srun():
            return super().preparations(runtime)
        trial = f"env LD_TRACE_LOADED_OBJECTS=1 {self.executable}"  # the loader's list
        if runtime.image:
            trial = runtime.within("true")
        first = [". ./starting.sh", f"starting {self.least_nodes} {trial}"]
        return [*first, *super().preparations(runtime)]

    def options_of_nodes(self):
        return "--ntasks=$nodes $leave_out" if self.by_srun() else super().options_of_nodes()

    def command_line(self, launcher, command, options=(), tasks=None):
        if self.by_srun():
            of_all = f"--ntasks=$((nodes * {self.num_tasks_per_node}))"
            options = [*options, of_all, "$leave_out"]
        return super().command_line(launcher, command, options, tasks)

    def refused_nodes(self) -> dict[str, str]:
        """Nodes that do not start the program, and why. The others were measured."""
        return refused(self._read("refused", missing=""))

    def nodes_that_start(self):
        return super().nodes_that_start() - len(self.refused_nodes())

    def with_refused(self, found: dict) -> dict:
        """What is stored of a sweep, and the nodes that did not take part."""
        nodes = self.refused_nodes()
        return {**found, "refused": nodes} if nodes else found

    def expect_all_started(self) -> None:
        """Raise SanityError if a node does not start the program."""
        if nodes := self.refused_nodes():
            node, why = next(iter(nodes.items()))
            raise SanityError(
                f"{len(nodes)} of {self.num_nodes} nodes do not start the program, the "
                f"first one is {node} ({why}): `nearmetal fleet` names all of them"
            )

    def launch(self, launcher, executable: str, options=()) -> list[str]:
        """The command lines of one repeat.

        A program that hangs is killed, so that its step fails. The output tells whether the others
        were done.
        """
        return [f"{line} || true" for line in super().launch(launcher, executable, options)]

    def with_last_words(self, fault: ParseError) -> ParseError:
        """The fault of an output, with what srun and the nodes said (`last_words`)."""
        words = last_words(self._read(self.stderr, missing=""))
        return ParseError(f"{fault}; the last words: {words}" if words else str(fault))

    def factors(self) -> dict[str, str]:
        """The factors of every check, and the nodes that are left out."""
        refused = [f"{node} (does not start the program)" for node in self.refused_nodes()]
        return {**super().factors(), "left_out": ", ".join([*self._left_out, *refused]) or "none"}


def refused(text: str) -> dict[str, str]:
    """Nodes that do not start the program, and why: the file `refused` (src/starting.sh)."""
    lines = (line.split(None, 1) for line in text.splitlines())
    return {words[0]: sanitize.line(words[1]) for words in lines if len(words) == 2}


def last_words(errors: str) -> str:
    """What a job's stderr says of the end of a launch.

    These are srun's lines on tasks that ended before it ended the others. Without such lines, the
    last three: they name a node that did not start.
    """
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    ended = re.compile(r"srun: error: \S+: tasks? [\d,-]+: ")
    ends = re.compile(r"srun: (Force )?Terminat|.* CANCELLED ")
    before = itertools.takewhile(lambda line: not ends.match(line), said)
    return " / ".join([line for line in before if ended.match(line)] or said[-3:])[:400]


def switches_of(names: Sequence[str], switches: Mapping[str, str]) -> list[str]:
    """Name of each node's switch; none where that of a node is not known."""
    found = [switches.get(name, "") for name in names]
    return found if all(found) else []


def spread(values: Sequence[float]) -> float:
    """Robust standard deviation of positive values in percent, as of logarithms."""
    logs = [math.log(value) for value in values]
    middle = statistics.median(logs)
    return 100 * 1.4826 * statistics.median(abs(one - middle) for one in logs)


def spread_of_nodes(values: Sequence[float]) -> float:
    """The spread of positive values in percent; 0.01 stands for less, as where most are equal."""
    return max(0.01, spread(values))


def of_nodes(launch: Launch, name: str, back: str) -> list[float]:
    """Of each node, and of each direction of its messages, the median over its links.

    :arg name: attribute of a link: from the first rank of a pair to the second.
    :arg back: the same, from the second to the first.
    """
    found: dict[tuple[int, bool], list[float]] = {}
    for (first, second), links in launch.links.items():
        for link in links:
            there_value, back_value = getattr(link, name), getattr(link, back)
            for sender, receiver, value in (
                (first, second, there_value),
                (second, first, back_value),
            ):
                found.setdefault((sender, True), []).append(value)
                found.setdefault((receiver, False), []).append(value)
    return [statistics.median(values) for values in found.values()]


def packed(values: Sequence[float]) -> dict:
    """Positive values to 0.03 %, in an eighth of the bytes of their decimal digits.

    `least` is the smallest one. `codes` are numbers of 16 bits, little-endian, compressed and in
    base64: first the low bytes of all, then the high bytes. The value of a code is
    `least * exp((code - 1) / STEPS)`, and code 0 is NaN.
    """
    least = min((value for value in values if value > 0), default=1.0)
    codes = [
        1 + min(MOST_CODE, round(STEPS * math.log(value / least))) if value > 0 else 0
        for value in values
    ]
    planes = bytes(code & 255 for code in codes) + bytes(code >> 8 for code in codes)
    return {"least": least, "codes": base64.b64encode(zlib.compress(planes, 9)).decode()}


def _first(launches: Sequence):
    """The first launch of a sweep. Raises ParseError if another one had other nodes."""
    if any(launch.nodes != launches[0].nodes for launch in launches):
        raise ParseError("the repeats ran on other nodes, or in another order: rerun")
    return launches[0]


def _sweep(
    launches: Sequence,
    values: Mapping[str, Sequence[float]],
    dead: Mapping,
    switches: Mapping[str, str],
    facts: Nodes,
) -> dict:
    """What a sweep of links and one of nodes store alike."""
    nodes = launches[0].nodes
    return {
        "nodes": list(nodes),
        "repeats": len(launches),
        **{name: packed(column) for name, column in values.items()},
        "dead": dead,
        "switches": switches_of(nodes, switches),
        "odd": {
            host: {fact: list(told) for fact, told in different.items()}
            for host, different in odd_facts(facts).items()
        },
    }


def stored(launches: Sequence[Launch], nodes: Nodes, switches: Mapping[str, str]) -> dict:
    """The values of all links, as a results database holds them.

    `switches` are the names of the nodes' switches, in the order of the nodes; []: not known. `odd`
    are the facts in which a node differs from most of the others (provenance.odd_facts).

    `latency_us`, `gbps` and `gbps_back` are `packed`: for each pair of `pairs`, in this order, the
    medians over the launches. NaN: the pair failed in every launch, and `dead` says why. Raises
    ParseError if the nodes changed.
    """
    first = _first(launches)
    values: dict[str, list[float]] = {"latency_us": [], "gbps": [], "gbps_back": []}
    dead: dict[str, list[str]] = {}
    for pair in pairs(len(first.nodes), int(first.did["rounds"])):
        found = [link for launch in launches for link in launch.links.get(pair, ())]
        for name, column in values.items():
            numbers = [getattr(link, name) for link in found]
            column.append(statistics.median(numbers) if numbers else math.nan)
        if not found:
            reasons = [why for launch in launches for why in launch.failed.get(pair, ())]
            dead[" ".join(first.nodes[rank] for rank in pair)] = reasons
    whole = _sweep(launches, values, dead, switches, nodes)
    return {"rounds": int(first.did["rounds"]), **whole}


def stored_nodes(
    launches: Sequence[parsing_nodes.Launch], nodes: Nodes, switches: Mapping[str, str]
) -> dict:
    """The values of all nodes, as a results database holds them.

    `switches` and `odd` are as of `stored`; `odd` also has the number of CPUs that a node allows.

    Each metric is `packed`: the values of all nodes in the first launch, in the order of `nodes`,
    then those in the second one. NaN: the node failed there. A node that failed in every launch is
    in `dead`, with why. Raises ParseError if the nodes changed.
    """
    first = _first(launches)
    values: dict[str, list[float]] = {}
    dead: dict[str, dict[str, str]] = {}
    numbers = range(len(first.nodes))
    for name in NAMES:
        found = [launch.of_nodes(name) for launch in launches]
        values[name] = [
            max(one[node], LEAST_NOISE) if node in one else math.nan
            for one in found
            for node in numbers
        ]
        for node in numbers:
            if not any(node in one for one in found):
                why = launches[-1].failed[name, node][-1]
                dead.setdefault(first.nodes[node], {})[name] = why
    cpus = {host: {"cpus_allowed": str(count)} for host, count in zip(first.nodes, first.cpus)}
    facts = {host: {**nodes.get(host, {}), **own} for host, own in cpus.items()}
    return _sweep(launches, values, dead, switches, facts)


def value_alone(metric: str, us: float) -> float:
    """The value of a metric without traffic: us, or of a bandwidth Gb/s."""
    return 8e-3 * EXCHANGE_BYTES / us if metric == "bandwidth" else us


def stored_congestion(launches: Sequence[CongestionLaunch], kind: str, nodes: Nodes) -> dict:
    """The roles of all nodes and the ratios of the victims, as a results database holds them.

    `ratios` are by metric the medians over the launches, of each victim; None: none. `dead` are the
    nodes that do not answer, and `undone` those with slots that were not done, with why. `odd` is
    as of `stored`.
    Raises ParseError if the nodes changed.
    """
    first = _first(launches)
    names = first.nodes
    dead = {names[rank]: SILENT for launch in launches for rank in launch.silent()}
    undone = {names[rank]: why for launch in launches for rank, why in launch.undone().items()}
    found: dict[str, list[float | None]] = {}
    for name in CONGESTION_NAMES:
        ratios = [launch.ratios(name) for launch in launches]
        of_victims = [[one[rank] for one in ratios if rank in one] for rank in first.victims]
        found[name] = [
            float(f"{statistics.median(values):.4g}") if values else None for values in of_victims
        ]
    return {
        "nodes": list(names),
        "victims": [names[rank] for rank in first.victims],
        "traffic": kind,
        "repeats": len(launches),
        "ratios": found,
        "dead": dead,
        "undone": undone,
        "odd": {
            host: {fact: list(told) for fact, told in different.items()}
            for host, different in odd_facts(nodes).items()
        },
    }
