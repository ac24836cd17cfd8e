"""Output of the HPCG benchmark: ``HPCG-Benchmark_3.1_DATE.txt``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, agree, bounded, launches_of, positive, real, whole

#: HPCG prints six significant digits.
DIGITS = 1e-5
OPERATIONS, RATES = "Floating Point Operations Summary::", "GFLOP/s Summary::"
BANDWIDTH, TIME = "GB/s Summary::", "Benchmark Time Summary::"
OVERHEAD = "Total with convergence and optimization phase overhead"
VALID = "Final Summary::HPCG result is VALID with a GFLOP/s rating of"
INVALID = "Final Summary::HPCG result is"
#: HPCG's own tests, and what a failure of each means.
TESTS = {
    "Spectral Convergence Tests": "the solver needs more iterations than the problem",
    "Departure from Symmetry |x'Ay-y'Ax|/(2*||x||*||A||*||y||)/epsilon": "a matrix lost symmetry",
    "Iteration Count Information": "the residual of the reference was not reached",
    "Reproducibility Information": "residuals differ between runs of the solver",
}
PARTS = ("DDOT", "WAXPBY", "SpMV", "MG")
#: Exchanges of the finest grid's faces in an iteration of any code: the product of the solver, and
#: residual and second smoothing of the preconditioner. The reference code has one more.
EXCHANGES = 3


@dataclass(frozen=True)
class HpcgRun:
    """One complete launch that HPCG calls valid."""

    processes: int
    rate: float  #: the rating, Gflop/s
    mbytes_per_s: float  #: 1e6 byte/s of the solver, by HPCG's count of reads and writes
    seconds: float  #: of all sets of the solver
    payload_bytes: int  #: least number of bytes that processes exchanged
    facts: dict[str, str]
    parts: tuple = ()
    did: dict = field(default_factory=dict)  #: parameters that HPCG reports


class _Report:
    """Figures by HPCG's names. Raises ParseError for one that is missing."""

    def __init__(self, lines: list[str]):
        pairs = []
        for line in lines:
            name, equals, value = line.partition("=")
            # The figures of the coarse grids have the same names on each level.
            if equals and (name == "version" or "::" in name) and "::Coarse Grids" not in name:
                pairs.append((name, value))
        self._found = dict(pairs)
        if len(pairs) != len(self._found):
            raise ParseError("HPCG prints a figure twice: lines of two launches were mixed; rerun")

    def text(self, name: str) -> str:
        if name not in self._found:
            raise ParseError(
                f"the report of HPCG lacks {name!r}: it was cut off, or is not of version 3.1; see "
                "the job's stderr"
            )
        return self._found[name]

    def has(self, name: str) -> bool:
        return name in self._found

    def whole(self, name: str) -> int:
        return whole(self.text(name), f"HPCG's {name}", 1)

    def positive(self, name: str) -> float:
        return positive(self.text(name), f"HPCG's {name}")

    def time(self, name: str) -> float:
        """Seconds, which may be none."""
        value = real(self.text(name), f"HPCG's {name}")
        if value < 0:
            raise ParseError(f"HPCG's {name} is {value}: digits were damaged; rerun")
        return value

    def agree(self, name: str, computed: float) -> float:
        """The figure, which the others give as well."""
        value = self.positive(name)
        agree(f"HPCG's {name}", value, computed, DIGITS * value)
        return value


def _refuse_a_failed_test(report: _Report) -> None:
    for test, means in TESTS.items():
        result = report.text(f"{test}::Result")
        if result != "PASSED":
            raise ParseError(
                f"HPCG's test {test!r} {result}: {means}. The machine or the program computes "
                "wrongly"
            )
    if not report.has(VALID):
        said = report.text(INVALID) if report.has(INVALID) else "nothing"
        raise ParseError(
            f"HPCG says {said!r} of its result instead of VALID: no rating counts; see its report"
        )


def _problem(report: _Report) -> dict:
    """Edges of a process's grid, the grid of processes, and the size of the matrix."""
    axes = ("x", "y", "z")
    local = [report.whole(f"Local Domain Dimensions::n{axis}") for axis in axes]
    grid = [report.whole(f"Processor Dimensions::np{axis}") for axis in axes]
    edges = [report.whole(f"Global Problem Dimensions::Global n{axis}") for axis in axes]
    processes = report.whole("Machine Summary::Distributed Processes")
    agree("HPCG's number of processes", processes, grid[0] * grid[1] * grid[2], 0)
    rows, terms = 1, 1
    for axis, edge, count, each in zip(axes, edges, grid, local):
        agree(f"HPCG's global n{axis}", edge, count * each, 0)
        rows, terms = rows * edge, terms * (3 * edge - 2)
    linear = "Linear System Information::Number of "
    agree("HPCG's number of equations", report.whole(f"{linear}Equations"), rows, 0)
    agree("HPCG's number of nonzero terms", report.whole(f"{linear}Nonzero Terms"), terms, 0)
    return {"local": local, "grid": grid, "processes": processes, "rows": rows, "terms": terms}


def _rating(report: _Report, problem: dict, iterations: int, sets: int, slower: float) -> float:
    """The rating, which follows from operations, times and iterations.

    :arg slower: iterations of the reference over those that were needed.
    """
    operations = [report.positive(f"{OPERATIONS}Raw {part}") for part in PARTS]
    vectors = (3 * iterations + sets) * 2 * problem["rows"]
    report.agree(f"{OPERATIONS}Raw DDOT", vectors)
    report.agree(f"{OPERATIONS}Raw WAXPBY", vectors)
    report.agree(f"{OPERATIONS}Raw SpMV", (iterations + sets) * 2 * problem["terms"])
    total = report.agree(f"{OPERATIONS}Total", sum(operations))
    counted = report.agree(f"{OPERATIONS}Total with convergence overhead", total * slower)
    seconds = report.positive(f"{TIME}Total")
    for part, done in zip(PARTS, operations):
        report.agree(f"{RATES}Raw {part}", done / report.positive(f"{TIME}{part}") / 1e9)
    report.agree(f"{RATES}Raw Total", total / seconds / 1e9)
    report.agree(f"{RATES}Total with convergence overhead", counted / seconds / 1e9)
    spent = seconds + sets * _overhead(report)
    report.agree(f"{RATES}{OVERHEAD}", counted / spent / 1e9)
    return report.agree(VALID, counted / spent / 1e9)


def _overhead(report: _Report) -> float:
    """The part of set-up and optimization that HPCG adds to each set of iterations."""
    return (
        report.time(f"{TIME}Optimization phase") + report.time("Setup Information::Setup Time")
    ) / 10


def _bandwidth(report: _Report, sets: int, slower: float) -> float:
    """1e6 byte/s. HPCG counts what its algorithm reads and writes; caches may save some."""
    reads, writes = (report.positive(f"{BANDWIDTH}Raw {way} B/W") for way in ("Read", "Write"))
    both = report.agree(f"{BANDWIDTH}Raw Total B/W", reads + writes)
    seconds = report.positive(f"{TIME}Total")
    spent = seconds + sets * _overhead(report)
    report.agree(f"{BANDWIDTH}{OVERHEAD}", both * slower * seconds / spent)
    return 1e3 * both


def _parse(lines: list[str]) -> HpcgRun:
    report = _Report(lines)
    version = report.text("version")
    _refuse_a_failed_test(report)
    problem = _problem(report)
    counts = "Iteration Count Information::"
    reference = report.whole(f"{counts}Reference CG iterations per set")
    needed = report.whole(f"{counts}Optimized CG iterations per set")
    iterations = report.whole(f"{counts}Total number of optimized iterations")
    sets, rest = divmod(iterations, needed)
    if rest or not sets:
        raise ParseError(f"HPCG did {iterations} iterations in sets of {needed}: rerun")
    total = report.whole(f"{counts}Total number of reference iterations")
    agree("HPCG's number of reference iterations", total, sets * reference, 0)
    slower = reference / needed
    nx, ny, nz = problem["local"]
    px, py, pz = problem["grid"]
    faces = (
        (px - 1) * py * pz * ny * nz + px * (py - 1) * pz * nx * nz + px * py * (pz - 1) * nx * ny
    )
    theirs = any("Reference version of" in line for line in lines)
    return HpcgRun(
        problem["processes"],
        _rating(report, problem, iterations, sets, slower),
        _bandwidth(report, sets, slower),
        report.positive(f"{TIME}Total"),
        EXCHANGES * iterations * 2 * 8 * faces,
        {"application": f"HPCG {version}, {'reference' if theirs else 'optimized'} code"},
        did={
            "processes": problem["processes"],
            "threads": report.whole("Machine Summary::Threads per processes"),
            "nx": nx,
            "ny": ny,
            "nz": nz,
        },
    )


@bounded
def parse_hpcg(text: str) -> list[HpcgRun]:
    """Every launch in (concatenated) reports of HPCG, in order.

    Method: HPCG 3.1 (Heroux, Dongarra and Luszczek, SAND2013-8752). The rating is the operations
    of the reference algorithm over the time of the solver and a part of its set-up. Raises
    ParseError if a report was cut off, if one of HPCG's tests failed, and if figures contradict
    each other.
    """
    return [_parse(lines) for lines in launches_of(text, r"HPCG-Benchmark$", "report of HPCG")]
