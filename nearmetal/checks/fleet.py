"""Checks of all nodes of a partition at once."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from nearmetal.checks import all_nodes
from nearmetal.checks.fleet_values import switches_of
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.provenance import Nodes
from nearmetal.checks.versions import Plugin
from nearmetal.cluster import answers
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.slurm import Node
from nearmetal.job.launch import Launch
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

    #: Values of the links (`stored_links`). :type: dict
    links = builtin.variable(dict, value={}, loggable=True)
    #: Values of the nodes (`stored_nodes`). :type: dict
    node_values = builtin.variable(dict, value={}, loggable=True)

    #: Roles of the nodes and ratios of the victims (`stored_congestion`). :type: dict
    congestion = builtin.variable(dict, value={}, loggable=True)

    #: Fewest nodes that the check needs, and for what.
    least_nodes, needs_them_for = LEAST_NODES, "compares nodes with each other"
    #: Parser of the program's output, and the variable that stores the sweep.
    parse: Callable[[str], list]
    stored_as = ""
    #: Processes that the program needs on each node.
    processes_on_each = 1
    #: Name of each node's switch, in the order of Slurm; (): not known.
    _node_switches: Sequence[str] = ()
    #: ReFrame's numbers of processes and nodes, as the command line has them.
    _asked: Mapping[str, int | None]
    #: Nodes that are left out, and why.
    _left_out: Sequence[str] = ()

    @builtin.run_after("init")
    def keep_what_is_asked_for(self):
        # The numbers change with the partition.
        self._asked = {"num_tasks": self.num_tasks, "num_nodes": self.num_nodes}

    def configure(self):
        # A rank that hangs does not end by itself: Slurm ends it so many seconds after the others.
        self.env_vars["SLURM_WAIT"] = "10"
        self._take_all_nodes()
        self.allow_time_for(self.seconds_of_a_repeat())

    def seconds_of_a_repeat(self) -> float:
        """Seconds that a repeat takes."""
        return self.seconds

    def launches(self):
        # A program that hangs is killed, so that its step fails. The output says whether the
        # others were done.
        return [Launch(options=self.options(), may_fail=True)]

    def options(self) -> list:
        """Options of the program."""
        raise NotImplementedError

    def _take_all_nodes(self) -> None:
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
            self.skip(self._too_few(len(names), least, unread, flexible))
        elif flexible:
            self.job.pin_nodes = names

    def _too_few(self, nodes: int, least: int, unread: str, flexible: bool) -> str:
        """Why so many nodes are too few."""
        origin = ""
        if least != self.least_nodes:
            origin = " (num_tasks)"
        text = f"{self.display_name} {self.needs_them_for} and needs {least}{origin}, but "
        text += f"{self.current_partition.fullname} has {nodes}"
        if unread:
            text += f" ({unread})"
        if flexible:
            text += f" in the state of --flex-alloc-nodes, {self._state()}"
        return text

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
        most = None
        if flexible and isinstance(state, int):
            most = state
        return all_nodes.choose(nodes, asked, allowed, in_state, most)

    def _take(self, nodes: int) -> None:
        self.num_nodes, self.num_tasks = nodes, nodes * self.num_tasks_per_node

    def refused_nodes(self) -> dict[str, str]:
        """Nodes that do not start the program, and why. The others were measured."""
        return refused(self._read("refused", missing=""))

    def nodes_that_start(self):
        return super().nodes_that_start() - len(self.refused_nodes())

    def read_output(self, text):
        try:
            self.runs = self.parse(text)
        except ParseError as fault:
            if not (words := last_words(self._read(self.stderr, missing=""))):
                raise
            raise ParseError(f"{fault}; the last words: {words}") from None
        self.expect_repeats(self.runs)
        values = self.stored(self._counters[0])
        refused_nodes = self.refused_nodes()
        if refused_nodes:
            setattr(self, self.stored_as, {**values, "refused": refused_nodes})
            node, reason = next(iter(refused_nodes.items()))
            raise SanityError(
                f"{len(refused_nodes)} of {self.num_nodes} nodes do not start the program, the "
                f"first one is {node} ({reason}): `nearmetal fleet` names all of them"
            )
        setattr(self, self.stored_as, values)
        self.expect_all_measured(values)

    def stored(self, facts: Nodes) -> dict:
        """What is stored of the sweep."""
        raise NotImplementedError

    def expect_all_measured(self, values: dict) -> None:
        """Raise SanityError if something was not measured in any repeat."""
        raise NotImplementedError

    def factors(self) -> dict[str, str]:
        """The factors of every check, and the nodes that are left out."""
        refused = [f"{node} (does not start the program)" for node in self.refused_nodes()]
        return {**super().factors(), "left_out": ", ".join([*self._left_out, *refused]) or "none"}


def refused(text: str) -> dict[str, str]:
    """Nodes that do not start the program, and why: the file `refused` (src/starting.sh)."""
    nodes = {}
    for line in text.splitlines():
        name, _, reason = line.strip().partition(" ")
        if reason:
            nodes[name] = sanitize.line(reason.strip())
    return nodes


def last_words(errors: str) -> str:
    """What a job's stderr says of the end of a launch.

    These are srun's lines on tasks that ended before it ended the others. Without such lines, the
    last three: they name a node that did not start.
    """
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    ended = re.compile(r"srun: error: \S+: tasks? [\d,-]+: ")
    ends = re.compile(r"srun: (Force )?Terminat|.* CANCELLED ")
    before = itertools.takewhile(lambda line: not ends.match(line), lines)
    return " / ".join(list(filter(ended.match, before)) or lines[-3:])[:400]
