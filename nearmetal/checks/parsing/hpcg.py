"""Output of the HPCG benchmark: ``HPCG-Benchmark_3.1_DATE.txt``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Figures, Launch, Output, each_launch

OPERATIONS, RATES = "Floating Point Operations Summary::", "GFLOP/s Summary::"
BANDWIDTH, TIME = "GB/s Summary::", "Benchmark Time Summary::"
COUNTS, LINEAR = "Iteration Count Information::", "Linear System Information::Number of "
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


@dataclass
class HpcgRun(Launch):
    processes: int
    #: The rating, Gflop/s.
    rate: float
    #: 1e6 byte/s of the solver, by HPCG's count of reads and writes.
    mbytes_per_s: float
    #: Of all sets of the solver.
    seconds: float
    #: Least number of bytes that processes exchanged.
    payload_bytes: int
    parts: tuple = ()


@dataclass(frozen=True)
class _Problem:
    """Edges of a process's grid and the grid of processes, (x, y, z), and the matrix."""

    local: list[int]
    grid: list[int]
    rows: int
    terms: int

    @property
    def processes(self) -> int:
        return math.prod(self.grid)

    @property
    def faces(self) -> int:
        """Grid points at all faces between two processes."""
        (nx, ny, nz), (px, py, pz) = self.local, self.grid
        along_x = (px - 1) * py * pz * ny * nz
        along_y = px * (py - 1) * pz * nx * nz
        along_z = px * py * (pz - 1) * nx * ny
        return along_x + along_y + along_z


@dataclass(frozen=True)
class _Solver:
    """Iterations of the solver in all sets."""

    iterations: int
    sets: int
    #: Iterations of the reference over those that were needed.
    slower: float


def _figures(lines: list[str]) -> Figures:
    """The figures by HPCG's names."""
    pairs = []
    for line in lines:
        name, equals, value = line.partition("=")
        # The figures of the coarse grids have the same names on each level.
        if equals and "::Coarse Grids" not in name and (name == "version" or "::" in name):
            pairs.append((name, value))
    return Figures("HPCG", pairs)


def _agree(report: Figures, name: str, computed: float) -> float:
    """The figure, which follows from others. HPCG prints six significant digits."""
    return report.agree(name, computed, 1e-5 * computed)


def _overhead(report: Figures) -> float:
    """The part of set-up and optimization that HPCG adds to each set of iterations."""
    optimization = report.real(f"{TIME}Optimization phase")
    return (optimization + report.real("Setup Information::Setup Time")) / 10


@each_launch("HPCG", r"HPCG-Benchmark$", "report of HPCG")
def parse_hpcg(output: Output) -> HpcgRun:
    """Every launch in (concatenated) reports of HPCG, in order.

    Method: HPCG 3.1 (Heroux, Dongarra and Luszczek, SAND2013-8752). The rating is the operations
    of the reference algorithm over the time of the solver and a part of its set-up. Raises
    ParseError if a report was cut off, if one of HPCG's tests failed, and if figures contradict
    each other.
    """
    report = _figures(output.lines)
    version = report["version"]
    _refuse_a_failed_test(report)
    problem, solver = _problem(report), _solver(report)
    code = "optimized"
    if any("Reference version of" in line for line in output.lines):
        code = "reference"
    did = {
        "processes": problem.processes,
        "threads": report.whole("Machine Summary::Threads per processes"),
        **dict(zip(("nx", "ny", "nz"), problem.local)),
    }
    return HpcgRun(
        {"application": f"HPCG {version}, {code} code"},
        did,
        problem.processes,
        _rating(report, problem, solver),
        _bandwidth(report, solver),
        report.positive(f"{TIME}Total"),
        EXCHANGES * solver.iterations * 2 * 8 * problem.faces,
    )


def _refuse_a_failed_test(report: Figures) -> None:
    for test, means in TESTS.items():
        result = report[f"{test}::Result"]
        if result != "PASSED":
            raise ParseError(
                f"HPCG's test {test!r} {result}: {means}. The machine or the program computes "
                "wrongly"
            )
    if VALID not in report:
        result = report.get(INVALID, "nothing")
        raise ParseError(
            f"HPCG says {result!r} of its result instead of VALID: no rating counts; see its report"
        )


def _problem(report: Figures) -> _Problem:
    local, grid = [], []
    rows, terms = 1, 1
    for axis in ("x", "y", "z"):
        local.append(report.whole(f"Local Domain Dimensions::n{axis}"))
        grid.append(report.whole(f"Processor Dimensions::np{axis}"))
        edge = report.whole(f"Global Problem Dimensions::Global n{axis}")
        numbers.agree(f"HPCG's global n{axis}", edge, local[-1] * grid[-1], 0)
        # A row of the matrix has 27 terms, but fewer at the faces of the grid.
        rows, terms = rows * edge, terms * (3 * edge - 2)
    problem = _Problem(local, grid, rows, terms)
    processes = report.whole("Machine Summary::Distributed Processes")
    numbers.agree("HPCG's number of processes", processes, problem.processes, 0)
    numbers.agree("HPCG's number of equations", report.whole(f"{LINEAR}Equations"), rows, 0)
    numbers.agree(
        "HPCG's number of nonzero terms", report.whole(f"{LINEAR}Nonzero Terms"), terms, 0
    )
    return problem


def _solver(report: Figures) -> _Solver:
    reference = report.whole(f"{COUNTS}Reference CG iterations per set")
    needed = report.whole(f"{COUNTS}Optimized CG iterations per set")
    iterations = report.whole(f"{COUNTS}Total number of optimized iterations")
    sets, rest = divmod(iterations, needed)
    if rest or not sets:
        raise damaged(f"HPCG did {iterations} iterations in sets of {needed}")
    total = report.whole(f"{COUNTS}Total number of reference iterations")
    numbers.agree("HPCG's number of reference iterations", total, sets * reference, 0)
    return _Solver(iterations, sets, reference / needed)


def _rating(report: Figures, problem: _Problem, solver: _Solver) -> float:
    """The rating, which follows from operations, times and iterations."""
    iterations, sets = solver.iterations, solver.sets
    operations = [report.positive(f"{OPERATIONS}Raw {part}") for part in PARTS]
    # Three products of vectors in an iteration, and one before the first of each set.
    vectors = (3 * iterations + sets) * 2 * problem.rows
    _agree(report, f"{OPERATIONS}Raw DDOT", vectors)
    _agree(report, f"{OPERATIONS}Raw WAXPBY", vectors)
    _agree(report, f"{OPERATIONS}Raw SpMV", (iterations + sets) * 2 * problem.terms)
    total = _agree(report, f"{OPERATIONS}Total", sum(operations))
    counted = _agree(report, f"{OPERATIONS}Total with convergence overhead", total * solver.slower)
    seconds = report.positive(f"{TIME}Total")
    for part, done in zip(PARTS, operations):
        _agree(report, f"{RATES}Raw {part}", done / report.positive(f"{TIME}{part}") / 1e9)
    _agree(report, f"{RATES}Raw Total", total / seconds / 1e9)
    _agree(report, f"{RATES}Total with convergence overhead", counted / seconds / 1e9)
    rating = counted / (seconds + sets * _overhead(report)) / 1e9
    _agree(report, f"{RATES}{OVERHEAD}", rating)
    return _agree(report, VALID, rating)


def _bandwidth(report: Figures, solver: _Solver) -> float:
    """1e6 byte/s. HPCG counts what its algorithm reads and writes; caches may save some."""
    reads = report.positive(f"{BANDWIDTH}Raw Read B/W")
    writes = report.positive(f"{BANDWIDTH}Raw Write B/W")
    both = _agree(report, f"{BANDWIDTH}Raw Total B/W", reads + writes)
    seconds = report.positive(f"{TIME}Total")
    spent = seconds + solver.sets * _overhead(report)
    _agree(report, f"{BANDWIDTH}{OVERHEAD}", both * solver.slower * seconds / spent)
    return 1e3 * both
