"""Runs over a number of processes, and where these are bound."""
import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from . import provenance
from .parsing import ParseError
from .parsing.binding import differs, parse_binding

#: srun's words for each binding.
CPU_BIND = {'none': 'none', 'core': 'cores', 'numa': 'ldoms'}


class Scaling(rfm.RegressionTestPlugin):
    """A check whose job launches its program on several numbers of processes, `repeats` rounds of all of them, so that what
    drifts during the job touches all alike. The most come first, since the launcher gives them without being told.

    The check calls `use_processes()` once its partition is known, and `further_launches` is made here.
    """

    #: Numbers of processes, separated by commas; default: the partition's `processes` (extras), or powers of two up to the
    #: cores of two nodes, or of one where there is no other. :type: str
    processes = builtin.variable(str, value='')
    #: Processes on a node; default: the partition's `ranks_per_node` (extras), or its `cores_per_node`. :type: int
    ranks_per_node = builtin.variable(int, value=0)
    #: What a process is bound to, which is read back with hwloc; default: the partition's `bind_to` (extras), or `core`.
    #: :values: `none`, `core`, `numa`
    binding = builtin.variable(str, value='', loggable=True)

    _payload, _threads = 0, 1

    def use_processes(self, most: int) -> None:
        """Settle the numbers of processes (at most `most`) and the job's shape."""
        per_node = self.ranks_per_node or self.extra('ranks_per_node', 0) or self.extra('cores_per_node', 1)
        room = min(most, per_node * min(2, self.extra('nodes', 2)))
        default = ','.join(str(2 ** power) for power in range(room.bit_length()))
        try:
            counts = sorted({int(count) for count in (self.processes or self.extra('processes', default)).split(',')})
        except ValueError:
            raise SanityError(
                f'{type(self).__name__}.processes is {self.processes!r}: give numbers separated by commas') from None
        if counts[0] < 1 or counts[-1] > most:
            raise SanityError(f'{self.display_name} runs on 1 to {most} processes, not on {counts[0]} to {counts[-1]}')
        self.binding = self.binding or self.extra('bind_to', 'core')
        if self.binding not in CPU_BIND:
            raise SanityError(f'{type(self).__name__}.binding is {self.binding!r}; choose from {", ".join(CPU_BIND)}')
        self.counts, self.per_node = counts[::-1], per_node
        self.num_tasks, self.num_tasks_per_node = counts[-1], min(counts[-1], per_node)
        self.num_nodes = -(-counts[-1] // per_node)

    def placement(self, count: int) -> list[str]:
        """srun's options for so many processes, a node filled before the next."""
        nodes = -(-count // self.per_node)
        return [f'--nodes={nodes}', f'--ntasks={count}', f'--ntasks-per-node={min(count, self.per_node)}']

    def launch_on(self, count: int, command: str) -> str:
        """The command line of a launch on so many processes."""
        options, tasks = list(self.job.launcher.options), self.job.num_tasks
        try:
            if self.job.launcher.registered_name == 'srun':
                self.job.launcher.options = options + self.placement(count)
            self.job.num_tasks = count  # what mpirun and its like go by
            return f'{self.job.launcher.run_command(self.job)} {command}'
        finally:
            self.job.launcher.options, self.job.num_tasks = options, tasks

    def further_launches(self) -> list[str]:
        command = ' '.join([self.executable, *self.executable_opts])
        return [self.launch_on(count, command) for _ in range(self.repeats) for count in self.counts][1:]

    @builtin.run_before('run')
    def bind_processes(self):
        if self.job.launcher.registered_name == 'srun':
            self.job.launcher.options += [f'--cpu-bind={CPU_BIND[self.binding]}']
        self.prerun_cmds += [f'{self.launch_on(self.counts[0], "sh binding.sh")} > binding.out']

    def name_rates(self, quantity: str, unit: str, size: str) -> None:
        """Variables of `self.rates`, by number of processes the rate of each round: `mops_B_8`, and `efficiency_B_8`, which is
        that over 8 times the rate of the fewest processes in the same round. `self.rate_parts` is the second level.

        :arg size: of the problem, in the names so that no baseline of another size is taken for this one's.
        """
        self._name(self._rate, quantity, unit, size)

    def name_times(self, quantity: str, size: str) -> None:
        """The same of `self.seconds`, by number of processes the time of each round: `solve_A_8`, and `efficiency_A_8`, which
        is the time on the fewest processes over 8 times it, relative to them."""
        self._name(self._time, quantity, 's', size)

    def _name(self, value, quantity, unit, size):
        self._names = {count: f'{quantity}_{size}_{count}' for count in self.counts}
        self.perf_variables = {name: sn.make_performance_function(value, unit, count) for count, name in self._names.items()}
        for count in self.counts[:-1]:
            self.perf_variables[f'efficiency_{size}_{count}'] = sn.make_performance_function(
                self._efficiency, '% of ideal', f'efficiency_{size}_{count}', count)

    def _rate(self, count):
        return self.over_launches(self._names[count], self.rates[count], self.rate_parts[count])

    def _time(self, count):
        return self.over_launches(self._names[count], self.seconds[count])

    def _efficiency(self, name, count):
        least = self.counts[-1]
        return self.over_launches(name, [100 * rate * least / (first * count)
                                         for rate, first in zip(self.rates[count], self.rates[least], strict=True)])

    def record_times(self, seconds: dict) -> None:
        """By number of processes the time of each round, of a problem whose size is the same for all of them."""
        self.seconds = seconds
        self.rates = {count: [1 / time for time in times] for count, times in seconds.items()}

    def by_count(self, launches: list) -> dict:
        """The launches by their `processes`; SanityError where these are not all rounds of the numbers asked for."""
        told = [run.processes for run in launches]
        if told != (wanted := self.counts * self.repeats):
            raise SanityError(f'the output holds launches on {told} processes instead of {wanted}')
        return {count: [run for run in launches if run.processes == count] for count in self.counts}

    def record_payload(self, payload_bytes, suite: str) -> None:
        """What all launches sent, or None where the program does not say; too few bytes do not tell what carried them."""
        if payload_bytes is None:
            self.no_transport = f'not told by {suite}'
        elif payload_bytes >= provenance.LEAST_PAYLOAD:
            self._payload = int(payload_bytes)
        elif payload_bytes:
            self.no_transport = f'{payload_bytes:.0f} bytes are too few to tell'

    def payload_bytes(self):
        return self._payload

    def check_binding(self) -> None:
        """Raises SanityError where the processes did not run where they were meant to."""
        try:
            places = parse_binding(self._read('binding.out'))
        except ParseError as error:
            raise self._failure(f'binding.out: {error}') from None
        if len(places) != self.counts[0]:
            raise self._failure(f'binding.out tells of {len(places)} processes instead of {self.counts[0]}')
        if fault := differs(places, self.binding, self._threads):
            raise SanityError(f'{fault} (binding={self.binding}): what do the launcher and the scheduler do with cores?')


class Hybrid(Scaling):
    """The same of a program whose processes have OpenMP threads, and a core for each of them."""

    #: OpenMP threads of a process; default: the partition's `threads` (extras), or 1. :type: int
    threads = builtin.variable(int, value=0, loggable=True)

    def use_processes(self, most: int) -> None:
        self.threads = self.threads or self.extra('threads', 1)
        if self.threads < 1:
            raise SanityError(f'{type(self).__name__}.threads is {self.threads}: give a process one thread at least')
        self.ranks_per_node = (self.ranks_per_node or self.extra('ranks_per_node', 0)
                               or max(1, self.extra('cores_per_node', 1) // self.threads))
        super().use_processes(most)
        # On cores of its process, which are nobody else's; a NUMA node's are those of several processes.
        self._threads, self._bound = self.threads, self.binding == 'core' and self.threads > 1
        self.env_vars.update({'OMP_NUM_THREADS': str(self.threads), 'OMP_PLACES': 'cores',
                              'OMP_PROC_BIND': 'close' if self._bound else 'false'})
        if self._bound:
            self.num_cpus_per_task = self.threads

    def placement(self, count: int) -> list[str]:
        # srun does not take the job's; where it is given, it keeps a process from all other cores, bound or not.
        return super().placement(count) + [f'--cpus-per-task={self.threads}'] * self._bound
