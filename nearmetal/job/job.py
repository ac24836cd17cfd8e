"""A job: what it launches, how often, and what it records around each repeat."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Union

import jinja2

from nearmetal.job.launch import PROBE, Launch, Side, number_of, with_pages

#: A line of shell, or a launch that becomes one.
Step = Union[str, Launch]  # noqa: UP007 - Python 3.9 evaluates it


def template() -> jinja2.Template:
    """The template of all scripts. Lines that begin with `%%` are Jinja's."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        line_statement_prefix="%%",
        keep_trailing_newline=True,
    )
    return environment.get_template("script.sh")


@dataclass(frozen=True)
class Job:
    """Launcher x runtime x repeats x evidence. `script` renders it."""

    shape: Any  #: ReFrame's job, whose numbers of processes launchers read
    nodes: int  #: of one component
    by_slurm: bool  #: whether Slurm runs it
    sides: Sequence[Side]  #: one, or A and B of a duet
    launches: Sequence[Launch]  #: of a repeat, in their order
    repeats: int
    spare_repeats: int
    limits: str  #: of disturbance, quoted for the shell; '': no repeat is judged
    output: str  #: file of its standard output
    everywhere: Launch  #: where all processes of the job run
    software: Sequence[str] = ()  #: shell lines that put software on PATH
    preparations: Sequence[Step] = ()  #: before the first snapshot
    clean_up: Sequence[str] = ()  #: after the last one
    turns: Sequence[tuple[int, str]] = ()  #: pair and side of each launch of a duet
    instances: int = 1  #: of the program at once, each on nodes of its own
    socket: int = -1  #: that holds the program; -1: all
    components: str = ""  #: of a heterogeneous job of Slurm, such as `0,1`
    least_nodes: int = 0  #: it leaves out nodes that do not start the program; 0: it does not

    def script(self) -> list[str]:
        """The lines of the script."""
        text = template().render(
            software=list(self._software()),
            first_nodes=self._first_nodes(),
            preparations=[*self._lines(self.preparations), *self._software_of_b()],
            probe=self.probe(self.components),
            turns=self.turns,
            sides=[self._function(side, letter) for side, letter in zip(self.sides, "ab")],
            lines=self._lines(self.launches),
            instances=self.instances,
            nodes_of_instance=self.nodes // self.instances,
            repeats=self.repeats,
            spare_repeats=self.spare_repeats,
            limits=self.limits,
            output=self.output,
            clean_up=self.clean_up,
        )
        return text.rstrip("\n").split("\n")

    def _software(self) -> Iterator[str]:
        """Lines that make the software of the job ready, and verify it."""
        side = self.sides[0]
        yield from self.software
        yield from getattr(side.launcher, "start", [])  # daemons, of `prun`
        if self._leaves_out_nodes:
            yield ". ./starting.sh"
            yield f"starting {self.least_nodes} {side.runtime.trial(side.program)}"
        yield from self._verifications(side)

    def _software_of_b(self) -> list[str]:
        """Lines that verify the software of B, in its environment.

        Once is enough: what they leave behind serves every launch.
        """
        for side in self.sides[1:]:
            # Sides of two partitions, bindings or kinds of pages have one runtime.
            if side.runtime is self.sides[0].runtime:
                continue
            if verifications := self._verifications(side):
                return ["(", *side.env_setup, *verifications, ")"]
        return []

    def _verifications(self, side: Side) -> list[str]:
        return side.runtime.preparations(
            lambda command: self.line(replace(self.everywhere, program=command), side),
            side.launcher.registered_name == "srun",
            self.shape.num_tasks,
        )

    @property
    def _by_srun(self) -> bool:
        """Whether srun starts the processes, directly or as JVMs (nearmetal/site/launchers.py)."""
        return self.sides[0].launcher.registered_name in ("srun", "srun-mpj")

    @property
    def _leaves_out_nodes(self) -> bool:
        return self.least_nodes > 0 and self._by_srun

    def probe(self, component: str = "") -> str:
        """The command that records facts of the nodes, or of those of one component."""
        launcher = self.sides[0].launcher
        if self.by_slurm:  # whatever launches the program
            # Without MPI, which a probe does not need and which may be at fault.
            words = ["srun", *number_of(component), "--mpi=none"]
            if hasattr(launcher, "start"):
                words.append("--overlap")  # the daemons are a step of the job, which does not end
            nodes = f"--ntasks={self.nodes}"
            if self._leaves_out_nodes:
                nodes = "--ntasks=$nodes $leave_out"
            return " ".join([*words, nodes, "--ntasks-per-node=1", PROBE])
        if launcher.registered_name == "local":
            return PROBE
        # provenance.sh is silent but on the first process of each node.
        return self.line(replace(self.everywhere, program=PROBE))

    def _function(self, side: Side, letter: str) -> dict:
        """What the template has of a side of a duet."""
        return {
            "letter": letter,
            "lines": [*side.env_setup, *self._lines(self.launches, side)],
            "probe": self.probe(side.component),
        }

    def _lines(self, steps: Sequence[Step], side: Side | None = None) -> list[str]:
        lines: list[str] = []
        for step in steps:
            if isinstance(step, str):
                lines.append(step)
            else:
                lines += [self.line(step, side), *step.after]
        return lines

    def line(self, launch: Launch, side: Side | None = None) -> str:
        """The command line of a launch.

        :arg side: default: the first one.
        """
        side = side or self.sides[0]
        # Both belong to ReFrame, which writes the job's directives from them later.
        launcher, shape = copy.copy(side.launcher), copy.copy(self.shape)
        launcher.options = [*launcher.options, *self._placement(launch, side)]
        # Launchers other than srun read the number of processes from the job.
        shape.num_tasks = launch.processes or shape.num_tasks
        words = [launch.prefix, launcher.run_command(shape), launch.program]
        if not launch.program:
            words[-1] = with_pages(side.pages, side.program)
            if self.socket >= 0:
                words[-1] = f"sh held.sh {self.socket} {shape.num_tasks_per_node} {words[-1]}"
        words += map(str, launch.options)
        if launch.output:
            words.append(f"> {launch.output}")
        if launch.may_fail:
            words.append("|| true")
        return " ".join(filter(None, words))

    def _placement(self, launch: Launch, side: Side) -> list[str]:
        """Options of the launcher that say where a launch runs."""
        options = number_of(launch.components or side.component)
        if launch.nodes and side.launcher.registered_name == "srun":
            options += [
                f"--nodes={launch.nodes}",
                f"--ntasks={launch.processes}",
                f"--ntasks-per-node={launch.processes_per_node}",
            ]
            # srun does not inherit the job's value. If it is given, a process cannot use other
            # cores, bound or not.
            if launch.cores:
                options.append(f"--cpus-per-task={launch.cores}")
        if self._on_fewer_nodes(launch) and self._by_srun:
            options.append(f"--nodelist=${_variable(launch.nodes, side.component)}")
        if self._leaves_out_nodes:
            options += [f"--ntasks=$((nodes * {self.shape.num_tasks_per_node}))", "$leave_out"]
        return options

    def _on_fewer_nodes(self, launch: Launch) -> bool:
        return 0 < launch.nodes < self.nodes

    def _first_nodes(self) -> list[tuple[str, str]]:
        """Variables of the shell with names of the job's first nodes, and the commands that ask.

        srun rotates through the nodes of a job, even with `--relative=0` (Slurm 24.11). Two
        launches of one job would then measure different nodes. The names are known only within the
        job.
        """
        if not self._by_srun:
            return []
        steps = [step for step in self.preparations if isinstance(step, Launch)]
        if self.instances == 1:  # instances.sh names the nodes of each
            steps += self.launches
        counts = {step.nodes for step in steps if self._on_fewer_nodes(step)}
        asked = []
        for component in self.components.split(","):
            for count in sorted(counts):
                command = f"sh first_nodes.sh {count} {component}".rstrip()
                asked.append((_variable(count, component), command))
        return asked


def _variable(count: int, component: str) -> str:
    """Name of the shell variable with the names of the first `count` nodes."""
    if component:
        return f"nodes_{count}_of_{component}"
    return f"nodes_{count}"
