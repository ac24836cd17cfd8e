"""Checks that run on several numbers of processes, and the binding of processes."""

from __future__ import annotations

from reframe.core.exceptions import SanityError

from nearmetal.checks import provenance
from nearmetal.checks.output import all_of
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.binding import differs, parse_binding
from nearmetal.checks.parsing.numbers import powers_of_two
from nearmetal.checks.settings import NUMBERS, cores_of_node, nodes_of, setting
from nearmetal.checks.versions import Plugin
from nearmetal.job.job import Step
from nearmetal.job.launch import Launch
from nearmetal.site import foreign

#: Most processes of a launch that our programs take.
MOST_PROCESSES = 1 << 16


def cores_of(partition, instead: str) -> int:
    """Cores of a node of the partition. Raises SanityError if nothing says them.

    :arg instead: the other key that the error offers.
    """
    cores = cores_of_node(partition)
    if cores:
        return cores
    if foreign.is_described(partition):
        raise SanityError(
            f"the extras of {partition.fullname} have neither `cores_per_node` nor `{instead}`: "
            "add one in the system's file"
        )
    raise SanityError(
        f"nothing says how many cores a node of {partition.fullname} has. Fix: write "
        "`num_cpus` and `num_cpus_per_core` in `processor` of the partition, "
        f"`{instead}` in its extras, or `remote_detect: True` in ReFrame's configuration"
    )


def largest_power_of_two(number: int) -> int:
    """The largest power of two that is not above a number from 1."""
    return 1 << number.bit_length() - 1


def default_counts(node: int, largest: int, few: bool, fits) -> list[int]:
    """Numbers of processes by default: powers of two, which nearly all programs accept.

    :arg node: the largest power of two that a node holds.
    :arg largest: most processes.
    :arg few: leave out those between 1 and half a node.
    :arg fits: function: number of processes -> whether the program runs on it.
    """
    counts = powers_of_two(1, largest)
    if few:
        counts = [count for count in counts if count == 1 or 2 * count >= node]
    fitting = [count for count in counts if fits(count)]
    # Of square numbers, none may be a power of two above one node and up to two.
    if fitting and fitting[-1] <= node and largest >= 2 * node:
        fitting.append(next(filter(fits, range(2 * node, 0, -1))))
    return fitting or counts


class Payload(Plugin):
    """A check whose launches say what they sent, which identifies the transport."""

    def payload_of(self, run) -> float | None:
        """Bytes that the processes of a launch sent. None if the program does not report them."""
        return run.payload_bytes

    def payloads(self) -> list:
        """Bytes that each launch sent."""
        return list(map(self.payload_of, all_of(self.runs)))

    def payload_bytes(self):
        """Bytes that all launches sent. 0 if they are too few to identify the transport; then
        `no_transport` says why."""
        sent = self.payloads()
        payloads = [payload for payload in sent if payload is not None]
        if len(payloads) < len(sent):
            self.no_transport = "not reported by the program"
            return 0
        if (payload := int(sum(payloads))) >= provenance.LEAST_PAYLOAD:
            return payload
        self.no_transport = "none needed"
        if payload:
            self.no_transport = f"{payload} bytes are too few to tell"
        return 0


class Scaling(Payload):
    """A check whose job launches its program on several numbers of processes.

    A round is one launch on each number. The job has `repeats` rounds, so drift during the job
    affects all numbers alike. The largest number comes first: the launcher uses it by default.

    The check calls `use_processes()` after its setup. In `read_output` it sets `self.runs =
    self.rounds(...)`: here a round takes the place of a launch.
    """

    #: Numbers of processes, separated by commas. Default: the partition's `processes` (extras), or
    #: powers of two up to two nodes; for `npb` up to all nodes (`nodes`) and 128 processes, but at
    #: least up to two nodes. With one node: up to its cores. Where a node's cores are no power of
    #: two: 1, half a node, one node, two nodes and so on. :type: str
    processes = setting(
        str,
        "",
        extra="processes",
        pattern=NUMBERS,
        whole_numbers_too=True,
        meaning="numbers from 1 separated by commas",
    )
    #: Processes on each node. Default: the partition's `ranks_per_node` (extras), or its
    #: `cores_per_node`; with the default of `processes`, the largest power of two in these.
    #: :type: int
    ranks_per_node = setting(int, 0, extra="ranks_per_node", least=1)
    #: Binding of each process, read back with hwloc. Default: the partition's `bind_to` (extras),
    #: or `core`. :values: `none`, `core`, `numa`
    binding = setting(str, "core", extra="bind_to", choices=("none", "core", "numa"))

    #: Nodes that the processes fill by default, if the partition has so many; and most processes by
    #: default beyond two nodes.
    default_nodes, default_processes = 2, MOST_PROCESSES

    #: Threads of a process, and cores that it is given where they are bound; 0: one.
    _threads, _cores_each = 1, 0

    def use_processes(self, most: int, only: str = "", fits=lambda count: True) -> None:
        """Set the numbers of processes and the shape of the job.

        :arg most: the largest number allowed.
        :arg only: the allowed numbers in words, for the error, if `fits` refuses some.
        :arg fits: function: number of processes -> whether the program runs on it.
        """
        per_node, few = self.ranks_per_node, False
        if not per_node:
            cores = cores_of(self.current_partition, "ranks_per_node")
            per_node = max(1, cores // self._threads)
            if not self.processes:
                # Nodes that hold a power of two keep all numbers of their stored baselines.
                few = largest_power_of_two(per_node) < per_node
                per_node = largest_power_of_two(per_node)
            self.ranks_per_node = per_node
        if not self.processes:
            nodes = min(self.default_nodes, nodes_of(self.current_partition, default=2))
            node = largest_power_of_two(per_node)
            largest = min(most, per_node * nodes, max(self.default_processes, 2 * node))
            self.processes = ",".join(map(str, default_counts(node, largest, few, fits)))
        counts = sorted({int(count) for count in self.processes.split(",")})
        if counts[-1] > most:
            raise SanityError(
                f"{self.display_name} runs on 1 to {most} processes, not on {counts[0]} to "
                f"{counts[-1]}"
            )
        if not (counts := [count for count in counts if fits(count)]):
            raise SanityError(
                f"{self.display_name} runs only on {only}: add one with -S "
                f"{type(self).__name__}.processes=..."
            )
        self.counts, self.per_node = counts[::-1], per_node
        self.num_tasks, self.num_tasks_per_node = counts[-1], min(counts[-1], per_node)
        self.num_nodes = -(-counts[-1] // per_node)
        if self.runtime.one_process and self.num_nodes > 1:
            raise SanityError(
                f"{self.num_tasks} threads of one JVM need one node, which has {per_node} "
                f"processes: give -S {type(self).__name__}.processes=... or .ranks_per_node=..."
            )

    def called(self, count: int) -> str:
        """The number of processes in the name of a variable."""
        return str(count)

    def _bound(self) -> tuple[int, int]:
        """Processes of the largest launch, and cores of each process if it is bound."""
        if self.runtime.one_process:
            return 1, self.counts[0]
        return self.counts[0], self._threads

    def binding_of_launcher(self) -> str:
        return self.binding

    def nodes_of(self, count: int) -> int:
        """Nodes of `count` processes. Each node is filled before the next."""
        return -(-count // self.per_node)

    def placed(self, count: int, **fields) -> Launch:
        """A launch on `count` processes.

        :arg fields: further ones of the launch.
        """
        return Launch(
            nodes=self.nodes_of(count),
            processes=count,
            processes_per_node=min(count, self.per_node),
            cores=self._cores_each,
            **fields,
        )

    def on_each_count(self, *options) -> list[Launch]:
        """A launch with these options of the program on each number of processes."""
        return [self.placed(count, options=options) for count in self.counts]

    def launches(self) -> list[Launch]:
        return self.on_each_count()

    def everywhere(self) -> Launch:
        return self.placed(self.counts[0])

    def preparations(self) -> list[Step]:
        # Last: all components of the job are then known.
        step = {"program": "sh binding.sh", "output": "binding.out"}
        return [self.placed(self.counts[0], components=self.components, **step)]

    def name_values(
        self, quantity: str, unit: str, size: str, value, parts=None, rate=None
    ) -> None:
        """Define variables such as `mops_B_8` and `efficiency_B_8`.

        The parallel efficiency is the rate per process over that of the fewest processes in the
        same round.

        :arg quantity: first part of the variables' names.
        :arg size: size of the problem. It is part of the names, so each size has a baseline of
            its own.
        :arg value: function: launch -> value in `unit`.
        :arg parts: function: launch -> values of its parts.
        :arg rate: function: launch -> rate, if the value is none (a time).
        """
        rate, fewest = rate or value, self.counts[-1]

        def efficiency(runs: dict, count: int) -> float:
            return 100 * rate(runs[count]) * fewest / (rate(runs[fewest]) * count)

        self.perf_variables: dict = {}
        for count in self.counts:
            self.define(f"{quantity}_{size}_{self.called(count)}", unit, value, parts, on=count)
        for count in self.counts[:-1]:
            self.define(
                f"efficiency_{size}_{self.called(count)}",
                "% of ideal",
                lambda runs, count=count: efficiency(runs, count),
            )

    def check_binding(self) -> None:
        """Raise SanityError if the processes ran on other cores than requested."""
        try:
            text = provenance.by_node(self._read("binding.out"), self._counters[0])
            places = parse_binding(text)
        except ParseError as error:
            raise self._failure(f"binding.out: {error}") from None
        processes, threads = self._bound()
        wanted = processes * self.num_components
        if len(places) != wanted:
            raise self._failure(f"binding.out lists {len(places)} processes instead of {wanted}")
        strangers = {place.host for place in places} - set(self.facts["nodes"])
        if strangers:
            raise self._failure(
                f"binding.out lists {', '.join(sorted(strangers))}, but the job ran on "
                f"{', '.join(self.facts['nodes'])}"
            )
        if fault := differs(places, self.binding, threads):
            raise SanityError(
                f"{fault} (binding={self.binding}): check how the launcher and the scheduler "
                "assign cores"
            )


class Hybrid(Plugin):
    """A scaling check whose processes have OpenMP threads, one core for each thread.

    It comes before Scaling among the base classes.
    """

    #: OpenMP threads of each process. Default: the partition's `threads` (extras), or 1. :type: int
    threads = setting(int, 1, extra="threads", least=1)

    def use_processes(self, most: int, *which) -> None:
        self._threads = self.threads
        super().use_processes(most, *which)
        # Threads are bound to cores only if a process has cores of its own. Several processes share
        # the cores of a NUMA node.
        bound = self.binding == "core" and self.threads > 1
        self.env_vars["OMP_NUM_THREADS"] = str(self.threads)
        self.env_vars["OMP_PLACES"] = "cores"
        self.env_vars["OMP_PROC_BIND"] = "false"
        if bound:
            self.env_vars["OMP_PROC_BIND"] = "close"
            self.num_cpus_per_task = self._cores_each = self.threads

    def called(self, count: int) -> str:
        if self.threads > 1:
            return f"{count}x{self.threads}"
        return str(count)
