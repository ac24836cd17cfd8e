"""A check as a duet: launches of A and B alternate in one allocation. Disturbances that both meet
cancel in each pair."""

import statistics

import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.exceptions import SanityError

from nearmetal.checks import disturbance, provenance
from nearmetal.checks.duet.variants import KINDS
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.duet import order, parse_duet
from nearmetal.checks.recorded import rounded
from nearmetal.checks.runtime import both
from nearmetal.checks.settings import setting
from nearmetal.checks.versions import Plugin


def by_variant(curves: dict, launches) -> dict:
    """Each curve of all launches as two, `NAME_a` and `NAME_b`, with one sample per pair."""
    divided: dict[str, dict] = {}
    for name, curve in curves.items():
        for letter in "ab":
            half = divided.setdefault(f"{name}_{letter}", {})
            for size, samples in curve.items():
                pairs = zip(launches, samples)
                half[size] = [value for launch, value in pairs if launch.variant == letter]
    return divided


class Duet(Plugin):
    """First base class of a duet, before its check: `class pingpong_duet(Duet, pingpong)`.

    Each variable `v` of the check becomes `v_a` and `v_b`, medians in its unit with one sample per
    pair, and `v_ratio`, the median of B/A over the pairs. `nearmetal duet` judges them. Each curve
    `c` becomes `c_a` and `c_b`, which `nearmetal duet --sizes` prints.
    """

    #: Pairs of repeats: an even number. :type: int
    pairs = setting(int, 14, least=2)
    #: A,B: two programming environments, such as `openmpi,mpich`. :type: list of str
    environs = builtin.variable(typ.List[str], value=[])
    #: A,B: two partitions of the system, such as `native,emulated`, in a heterogeneous job of
    #: Slurm. :type: list of str
    partitions = builtin.variable(typ.List[str], value=[])
    #: A,B: two bindings, for checks that have them: `bound,unbound`. :type: list of str
    bindings = builtin.variable(typ.List[str], value=[])
    #: A,B: two kinds of pages of the program's memory, such as `small,large`, for checks with the
    #: setting `pages`. :type: list of str
    page_sizes = builtin.variable(typ.List[str], value=[])

    # Last: ReFrame's own hook has then set the variables of -P.
    @builtin.run_after("init", always_last=True)
    def choose_kind(self):
        self.no_baseline = "A and B are judged as pairs within the job: nearmetal duet"
        self._asked = {name: list(getattr(self, name)) for name in KINDS if getattr(self, name)}
        if not self._asked:
            self._asked = dict([self.by_default])
        self.kind_name = next(iter(self._asked))
        names = self._asked[self.kind_name]
        # Set early: `nearmetal duet` needs them for a duet that fails before it measures, too.
        self._facts_of_duet = {"duet": self.kind_name}
        for letter, name in zip("ab", names):
            self._facts_of_duet[f"duet.{letter}"] = name
        self.facts = {**self.facts, **self._facts_of_duet}
        if len(self._asked) == 1 and len(names) == 2 and self.kind_name in self.kinds:
            self.kind = KINDS[self.kind_name](names)
            self.kind.select(self)

    # A hook, since the check has then chosen its shape: hooks of a class run after those of its
    # bases.
    @builtin.run_after("setup")
    def configure_both(self):
        self.decide("repeats", self.pairs, f"but a duet has {self.pairs} pairs: set `pairs`")
        if len(self._asked) > 1:
            raise SanityError(
                f"{' and '.join(self._asked)} are set, but a duet compares one of them: give one"
            )
        names = self._asked[self.kind_name]
        if len(names) != 2:
            raise SanityError(
                f"{self.kind_name} is {','.join(names)!r}; give A and B, such as "
                f"-S {self.kind_name}={','.join((names * 2)[:2])}"
            )
        try:
            self.turns = order(self.pairs)
        except ParseError as error:
            raise SanityError(str(error)) from None
        if self.kind_name not in self.kinds:
            self.skip(
                f"{self.display_name} compares {' or '.join(self.kinds)}, not {self.kind_name}"
            )
        if reason := self.kind.skip_reason(self):
            self.skip(
                f"{self.display_name} of {','.join(names)}: {self.current_partition.fullname} "
                f"{reason}"
            )
        self.runtimes = self.kind.runtimes(self)

    # After the build of A, from whose environment it changes to that of B.
    @builtin.run_before("compile")
    def build_the_other(self):
        self.kind.build(self)

    @builtin.run_before("run")
    def add_to_the_job(self):
        self.kind.submit(self)

    def sides(self):
        """The sides A and B of the job."""
        [side] = super().sides()
        return self.kind.sides(side)

    def _measured(self, text):
        if not self.components:
            self._record_evidence()
        return disturbance.without_usage(text)

    def _read_as(self, letter: str) -> None:
        """Give the check the setting in which A and B differ, to read what one of them did."""
        if self.kind.setting:
            setattr(self, self.kind.setting, self.kind.names["ab".index(letter)])

    def read_output(self, text):
        """Let the check parse each launch alone, then all launches of each side.

        So a duet refuses all output that the check refuses.
        """

        def read(text):
            super(Duet, self).read_output(text)
            self.expect_what_was_asked()

        self._launches = parse_duet(text, self.pairs)
        self._runs = {}
        facts: dict[str, list[str]] = {}
        for letter in "ab":
            self._read_as(letter)
            own = [launch for launch in self._launches if launch.variant == letter]
            for launch in own:
                self.repeats = 1
                self._reading(launch.name, read, launch.text)
            self.repeats = self.pairs
            self._reading(letter.upper(), read, "".join(launch.text for launch in own))
            self._runs[letter] = self.runs
            program = {"mpi_library": self.mpi_library, "compiler": self.compiler}
            for name, value in {**program, **self.factors()}.items():
                facts.setdefault(name, []).append(value)
        self.mpi_library = both(facts.pop("mpi_library"))
        self.compiler = both(facts.pop("compiler"))
        self.runs = [self._runs[launch.variant][launch.pair] for launch in self._launches]
        shared = {name: both(values) for name, values in facts.items()}
        self.facts = {**self.facts, **shared, **self._facts_of_duet}

    def _reading(self, name, read, *arguments):
        """Read something. A failure names the launch."""
        try:
            read(*arguments)
        except (ParseError, SanityError) as error:
            raise SanityError(f"{name}: {error}") from None

    def _counters_of_launches(self):
        """Yield each launch with the counters of its nodes before and after it."""
        last = dict(self._counters[0])
        for launch in self._launches:
            after = provenance.parse(self._read(f"counters.{launch.pair}.{launch.variant}"))
            if len(after) != self.num_nodes or not set(after) <= set(last):
                raise SanityError(
                    f"{launch.name} ran on {', '.join(after)}, where the job has {', '.join(last)}"
                )
            yield launch, {host: last[host] for host in after}, after
            # Only the first probe describes the NICs. The next launch counts from here.
            for host, facts in after.items():
                last[host] = {**last[host], **facts}

    def check_transport(self):
        """Check the transport of each launch, from the counters before and after it.

        The counters of the whole job would hide a fault in half of the launches.
        """
        if not self.payload_bytes():
            return
        every_run = self.runs
        transports: dict[str, set] = {"a": set(), "b": set()}
        for (launch, before, after), run in zip(self._counters_of_launches(), every_run):
            self.runs = [run]
            if payload := self.payload_bytes():
                self.transport = provenance.transport(before, after, payload).name
                transports[launch.variant].add(self.transport)
                self._reading(launch.name, super().check_transport)
        self.runs = every_run
        if transports["a"] and transports["b"]:
            self.transport = both([" or ".join(sorted(names)) for names in transports.values()])

    def check_pages(self):
        """Check the pages of each launch, from the counters before and after it."""
        if "pages" not in self.settings():
            return
        whole = self._counters
        for launch, before, after in self._counters_of_launches():
            self._read_as(launch.variant)
            self._counters, self.repeats = (before, after), 1
            self._reading(launch.name, super().check_pages)
        self._counters, self.repeats = whole, self.pairs

    # After the check's own hooks, which set these variables.
    @builtin.run_before("performance")
    def pair_up(self):
        if self.is_dry_run():
            return
        every_run, curves = self.runs, by_variant(self.curves, self._launches)
        samples: dict[str, dict] = {}
        units: dict[str, dict[str, str]] = {"a": {}, "b": {}}
        for letter, runs in self._runs.items():
            self.runs = runs
            self.samples: dict = {}
            # A check may name its variables only after it has measured.
            self.name_variables()
            # Evaluated now, with the runs of this half: ReFrame would do it later.
            for name, expression in self.perf_variables.items():
                expression.evaluate()
                units[letter][name] = expression.unit
            samples[letter] = self.samples
        if units["a"] != units["b"]:
            raise SanityError(
                f"A measured {', '.join(units['a'])}, but B measured {', '.join(units['b'])}: "
                "they form no pairs"
            )
        self.runs, self.curves = every_run, curves
        self.samples, self.within, self.perf_variables = {}, {}, {}
        for name, unit in units["a"].items():
            a, b = samples["a"][name], samples["b"][name]
            if not len(a) == len(b) == self.pairs:
                raise SanityError(
                    f"{name} has {len(a)} values of A and {len(b)} of B instead of {self.pairs} "
                    "each"
                )
            self._add(f"{name}_a", a, unit)
            self._add(f"{name}_b", b, unit)
            # Noise that both halves of a pair met cancels in their ratio.
            self._add(f"{name}_ratio", [y / x for x, y in zip(a, b)], "1")

    def _add(self, name, values, unit):
        values = [rounded(value) for value in values]
        self.samples = {**self.samples, name: values}
        self.perf_variables[name] = sn.make_performance_function(
            sn.defer(rounded(statistics.median(values))), unit
        )
