"""A check as a duet: launches of A and B alternate in one allocation. Disturbances that both meet
cancel in each pair."""

import statistics

import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.exceptions import SanityError

from nearmetal.checks import disturbance, provenance
from nearmetal.checks.duet import script
from nearmetal.checks.duet.variants import KINDS
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.duet import order, parse_duet
from nearmetal.checks.recorded import rounded
from nearmetal.checks.runtime import both
from nearmetal.checks.settings import setting
from nearmetal.checks.versions import Plugin


def by_variant(curves: dict, turns) -> dict:
    """Each curve of all launches as two, `NAME_a` and `NAME_b`, with one sample per pair."""
    return {
        f"{name}_{letter}": {
            size: [value for turn, value in zip(turns, samples) if turn.variant == letter]
            for size, samples in curve.items()
        }
        for name, curve in curves.items()
        for letter in "ab"
    }


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
        asked = {name: list(getattr(self, name)) for name in KINDS if getattr(self, name)} or dict(
            [self.by_default]
        )
        self._asked, self.kind_name = asked, next(iter(asked))
        names = asked[self.kind_name]
        # Set early: `nearmetal duet` needs them for a duet that fails before it measures, too.
        self._said = {
            "duet": self.kind_name,
            **{f"duet.{letter}": name for letter, name in zip("ab", names)},
        }
        self.facts = {**self.facts, **self._said}
        if len(asked) == 1 and len(names) == 2 and self.kind_name in self.kinds:
            self.kind = KINDS[self.kind_name](names)
            self.kind.select(self)

    @builtin.run_after("setup")
    def launch_each_once_a_pair(self):
        self.decide("repeats", self.pairs, f"but a duet has {self.pairs} pairs: set `pairs`")

    @builtin.run_after("setup")
    def say_what_cannot_be_compared(self):
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
            order(self.pairs)
        except ParseError as error:
            raise SanityError(str(error)) from None
        if self.kind_name not in self.kinds:
            self.skip(
                f"{self.display_name} compares {' or '.join(self.kinds)}, not {self.kind_name}"
            )
        if obstacle := self.kind.obstacle(self):
            self.skip(
                f"{self.display_name} of {','.join(names)}: {self.current_partition.fullname} "
                f"{obstacle}"
            )
        self.runtimes = self.kind.runtimes(self)

    @builtin.run_before("compile")
    def build_the_other(self):
        self.kind.build(self)

    @builtin.run_before("run")
    def add_to_the_job(self):
        self.kind.submit(self)

    def measurement(self, probe):
        """The functions that launch A and B, and the calls of all launches."""
        variants = {}
        self._variants = dict(zip("ab", self.kind.variants(self)))
        for letter, variant in self._variants.items():
            counters = self.probe("".join(f"{option} " for option in variant.options)) + " counters"
            launcher = variant.runtime.launcher(self.job.launcher)
            commands = self.launch(launcher, variant.executable, variant.options)
            variants[letter] = variant.prepare, commands, counters
        calls = [*script.calls(self.pairs), f"{probe} counters > provenance.after"]
        if not self.kind.same_nodes:
            return script.functions(variants), calls
        judge = f"{self.limits_of_disturbance()} {self.stdout}"
        return [". ./repeats.sh", *script.functions(variants, judge)], calls

    def _measured(self, text):
        if self.kind.same_nodes:
            self._record_evidence()
        return disturbance.without_usage(text)

    def read_output(self, text):
        """Let the check parse each launch alone, then all launches of each variant.

        So a duet refuses all output that the check refuses.
        """
        said, factors = {}, []

        def read(text):
            super(Duet, self).read_output(text)
            self.expect_what_was_asked()

        self._turns = parse_duet(text, self.pairs)
        self._launches = {}
        for letter, variant in self._variants.items():
            for name, value in variant.settings.items():
                setattr(self, name, value)
            own = [launch for launch in self._turns if launch.variant == letter]
            for launch in own:
                self.repeats = 1
                self._reading(launch.name, read, launch.text)
            self.repeats = self.pairs
            self._reading(letter.upper(), read, "".join(launch.text for launch in own))
            self._launches[letter] = self.launches
            said[letter] = {"mpi_library": self.mpi_library, "compiler": self.compiler}
            factors.append(self.factors())
        for name in ("mpi_library", "compiler"):
            setattr(self, name, both([words[name] for words in said.values()]))
        for name in factors[0]:
            self.facts = {**self.facts, name: both([words[name] for words in factors])}
        self.launches = [self._launches[turn.variant][turn.pair] for turn in self._turns]
        self.facts = {**self.facts, **self._said}

    def _reading(self, whose, read, text):
        try:
            read(text)
        except (ParseError, SanityError) as error:
            raise SanityError(f"{whose}: {error}") from None

    def check_transport(self):
        """Check the transport of each launch, from the counters before and after it.

        The counters of the whole job would hide a fault in half of the launches.
        """
        if not self.payload_bytes():
            return
        last, everything = dict(self._counters[0]), self.launches
        found: dict[str, set] = {"a": set(), "b": set()}
        for turn, launch in zip(self._turns, everything):
            after = provenance.parse(self._read(f"counters.{turn.pair}.{turn.variant}"))
            if len(after) != self.num_nodes or not set(after) <= set(last):
                raise SanityError(
                    f"{turn.name} ran on {', '.join(after)}, where the job has {', '.join(last)}"
                )
            self.launches = [launch]
            if payload := self.payload_bytes():
                self.transport = provenance.transport(
                    {host: last[host] for host in after}, after, payload
                ).name
                found[turn.variant].add(self.transport)
                self._reading(turn.name, lambda _: super(Duet, self).check_transport(), "")
            # Only the first probe describes the NICs. The next launch counts from here.
            last.update({host: {**last[host], **facts} for host, facts in after.items()})
        self.launches = everything
        if found["a"] and found["b"]:
            self.transport = both([" or ".join(sorted(names)) for names in found.values()])

    def check_pages(self):
        """Check the pages of each launch, from the counters before and after it."""
        if "pages" not in self.settings():
            return
        whole, repeats, last = self._counters, self.repeats, dict(self._counters[0])
        for turn in self._turns:
            after = provenance.parse(self._read(f"counters.{turn.pair}.{turn.variant}"))
            for name, value in self._variants[turn.variant].settings.items():
                setattr(self, name, value)
            self._counters = {host: last[host] for host in after}, after
            self.repeats = 1
            self._reading(turn.name, lambda _: super(Duet, self).check_pages(), "")
            last.update({host: {**last[host], **facts} for host, facts in after.items()})
        self._counters, self.repeats = whole, repeats

    # After the check's own hooks, which set these variables.
    @builtin.run_before("performance")
    def pair_up(self):
        if self.is_dry_run():
            return
        everything, curves = self.launches, by_variant(self.curves, self._turns)
        samples: dict[str, dict] = {}
        units: dict[str, dict[str, str]] = {"a": {}, "b": {}}
        for letter, launches in self._launches.items():
            self.launches = launches
            self.samples: dict = {}
            # A check may name its variables only after it has measured.
            getattr(self, "name_variables", dict)()
            for name, expression in self.perf_variables.items():
                expression.evaluate()
                units[letter][name] = expression.unit
            samples[letter] = self.samples
        if units["a"] != units["b"]:
            raise SanityError(
                f"A measured {', '.join(units['a'])}, but B measured {', '.join(units['b'])}: "
                "they form no pairs"
            )
        self.launches, self.samples, self.within, self.curves, self.perf_variables = (
            everything,
            {},
            {},
            curves,
            {},
        )
        for name, unit in units["a"].items():
            a, b = samples["a"][name], samples["b"][name]
            if not len(a) == len(b) == self.pairs:
                raise SanityError(
                    f"{name} has {len(a)} values of A and {len(b)} of B instead of {self.pairs} "
                    "each"
                )
            self._add(f"{name}_a", a, unit)
            self._add(f"{name}_b", b, unit)
            self._add(f"{name}_ratio", [y / x for x, y in zip(a, b)], "1")

    def _add(self, name, values, unit):
        values = [rounded(value) for value in values]
        self.samples = {**self.samples, name: values}
        self.perf_variables[name] = sn.make_performance_function(
            sn.defer(rounded(statistics.median(values))), unit
        )
