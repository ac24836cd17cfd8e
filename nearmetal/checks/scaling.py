"""Checks that run on several numbers of processes, and the binding of processes."""

from __future__ import annotations

import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks import first_nodes, provenance
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.binding import differs, parse_binding
from nearmetal.checks.settings import NUMBERS, cores_of_node, nodes_of, setting
from nearmetal.checks.versions import Plugin
from nearmetal.site import foreign


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


class Payload(Plugin):
    """A check whose launches say what they sent, which identifies the transport."""

    def payloads(self) -> list:
        """Bytes that each launch sent. None for one that does not report them."""
        raise NotImplementedError

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
        self.no_transport = f"{payload} bytes are too few to tell" if payload else "none needed"
        return 0


class Scaling(Payload):
    """A check whose job launches its program on several numbers of processes.

    A round is one launch on each number. The job has `repeats` rounds, so drift during the job
    affects all numbers alike. The largest number comes first: the launcher uses it by default.

    The check calls `use_processes()` after its setup. In `read_output` it sets `self.launches =
    self.rounds(...)`: here a round takes the place of a launch.
    """

    #: Numbers of processes, separated by commas. Default: the partition's `processes` (extras), or
    #: powers of two up to the cores of two nodes; for `npb` of all nodes (`nodes`), up to 128. With
    #: one node: up to its cores. :type: str
    processes = setting(
        str,
        "",
        extra="processes",
        pattern=NUMBERS,
        whole_numbers_too=True,
        meaning="numbers from 1 separated by commas",
    )
    #: Processes on each node. Default: the partition's `ranks_per_node` (extras), or its
    #: `cores_per_node`. :type: int
    ranks_per_node = setting(int, 0, extra="ranks_per_node", least=1)
    #: Binding of each process, read back with hwloc. Default: the partition's `bind_to` (extras),
    #: or `core`. :values: `none`, `core`, `numa`
    binding = setting(str, "core", extra="bind_to", choices=("none", "core", "numa"))

    #: Nodes that the processes fill by default, if the partition has so many.
    default_nodes = 2

    _threads = 1

    def use_processes(self, most: int, only: str = "", fits=lambda count: True) -> None:
        """Set the numbers of processes and the shape of the job.

        :arg most: the largest number allowed.
        :arg only: the allowed numbers in words, for the error, if `fits` refuses some.
        :arg fits: function: number of processes -> whether the program runs on it.
        """
        if not self.ranks_per_node:
            cores = cores_of(self.current_partition, "ranks_per_node")
            self.ranks_per_node = max(1, cores // self._threads)
        per_node = self.ranks_per_node
        if not self.processes:
            nodes = min(self.default_nodes, nodes_of(self.current_partition, default=2))
            largest = min(most, per_node * nodes)
            self.processes = ",".join(str(2**power) for power in range(largest.bit_length()))
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

    def payload_of(self, run) -> float | None:
        """Bytes that the processes of a launch sent. None if the program does not report them."""
        return None

    def placed(self) -> tuple[int, int]:
        """Processes of the largest launch, and cores of each process if it is bound."""
        if self.runtime.one_process:
            return 1, self.counts[0]
        return self.counts[0], self._threads

    def nodes_of(self, count: int) -> int:
        """Nodes of `count` processes. Each node is filled before the next."""
        return -(-count // self.per_node)

    def placement(self, count: int) -> list[str]:
        """Options of srun for `count` processes."""
        return [
            f"--nodes={self.nodes_of(count)}",
            f"--ntasks={count}",
            f"--ntasks-per-node={min(count, self.per_node)}",
        ]

    def launch_on(self, count: int, command: str, launcher=None, further=()) -> str:
        """The command line of a launch on `count` processes.

        :arg launcher: default: the job's.
        :arg further: further options of the launcher.
        """
        launcher, options = launcher or self.job.launcher, []
        first = first_nodes.nodelist(self.nodes_of(count), self.num_nodes, further)
        if launcher.registered_name == "srun":
            options = [*further, *self.placement(count), *first]
        elif self.by_srun():  # srun-mpj places the tasks itself
            options = [*further, *first]
        return self.command_line(launcher, command, options, count)

    def launch_of_all(self, launcher, command):
        return self.launch_on(self.counts[0], command, launcher)

    def launch(self, launcher, executable, options=()):
        command = " ".join([executable, *self.executable_opts])
        return [self.launch_on(count, command, launcher, options) for count in self.counts]

    @builtin.run_before("run")
    def bind_processes(self):
        self.bind_to(self.binding)

    # Last: a duet has then set the components of its job.
    @builtin.run_before("run", always_last=True)
    def name_first_nodes(self):
        if self.by_srun():
            counts = {self.nodes_of(count) for count in (1, *self.counts)}
            names = first_nodes.definitions(counts, self.num_nodes, self.probe_options)
            self.prerun_cmds = [*names, *self.prerun_cmds]

    # Last: all components of the job are then known.
    @builtin.run_before("run", always_last=True)
    def read_binding_back(self):
        options = self.probe_options.split()
        command = self.launch_on(self.counts[0], "sh binding.sh", further=options)
        self.prerun_cmds += [f"{command} > binding.out"]

    def name_values(
        self, quantity: str, unit: str, size: str, value, parts=lambda run: (), rate=None
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
        rate, least = rate or value, self.counts[-1]

        def values(name, count):
            return self.over_launches(
                name,
                [value(runs[count]) for runs in self.launches],
                [parts(runs[count]) for runs in self.launches],
            )

        def efficiency(name, count):
            return self.over_launches(
                name,
                [
                    100 * rate(runs[count]) * least / (rate(runs[least]) * count)
                    for runs in self.launches
                ],
            )

        self.perf_variables = {
            name: sn.make_performance_function(function, unit_of, name, count)
            for kind, function, unit_of, counts in (
                (quantity, values, unit, self.counts),
                ("efficiency", efficiency, "% of ideal", self.counts[:-1]),
            )
            for count in counts
            for name in [f"{kind}_{size}_{self.called(count)}"]
        }

    def payloads(self):
        return [self.payload_of(run) for runs in self.launches for run in runs.values()]

    def check_binding(self) -> None:
        """Raise SanityError if the processes ran on other cores than requested."""
        try:
            text = provenance.by_node(self._read("binding.out"), self._counters[0])
            places = parse_binding(text)
        except ParseError as error:
            raise self._failure(f"binding.out: {error}") from None
        processes, threads = self.placed()
        wanted = processes * (self.nodes_expected or self.num_nodes) // self.num_nodes
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
        self._bound = self.binding == "core" and self.threads > 1
        self.env_vars.update(
            {
                "OMP_NUM_THREADS": str(self.threads),
                "OMP_PLACES": "cores",
                "OMP_PROC_BIND": "close" if self._bound else "false",
            }
        )
        if self._bound:
            self.num_cpus_per_task = self.threads

    def called(self, count: int) -> str:
        return f"{count}x{self.threads}" if self.threads > 1 else str(count)

    def placement(self, count: int) -> list[str]:
        # srun does not inherit the job's value. If it is given, a process cannot use other cores,
        # bound or not.
        return super().placement(count) + [f"--cpus-per-task={self.threads}"] * self._bound
