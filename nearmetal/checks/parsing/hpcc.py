"""Output of the HPC Challenge benchmark: the summary section of ``hpccoutf.txt``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nearmetal.checks.parsing import ParseError, bounded, cut_off, damaged, numbers
from nearmetal.checks.parsing.output import Figures, Launch, expect_equal

#: Our variable -> HPCC's key, and the factor to our unit.
VARIABLES = {
    "star_random_access": ("StarRandomAccess_GUPs", 1),  # GUP/s
    "mpi_random_access": ("MPIRandomAccess_GUPs", 1),  # GUP/s
    "hpl": ("HPL_Tflops", 1e3),  # Gflop/s
    "star_dgemm": ("StarDGEMM_Gflops", 1),  # Gflop/s
    "star_stream_triad": ("StarSTREAM_Triad", 1e3),  # MB/s; HPCC's are GB/s
    "ptrans": ("PTRANS_GBs", 8),  # Gb/s
    "mpi_fft": ("MPIFFT_Gflops", 1),  # Gflop/s
    "ring_latency": ("RandomlyOrderedRingLatency_usec", 1),  # us
    "ring_bandwidth": ("RandomlyOrderedRingBandwidth_GBytes", 8),  # Gb/s
}
#: Rates of all processes together. The others are of one process, or of a message.
SUMMED = ("mpi_random_access", "hpl", "ptrans", "mpi_fft")
#: Before the first line of a launch.
BEGIN = r"(?=^This is the DARPA/DOE HPC Challenge)"
#: Counts of the summary, beside the variables.
COUNTS = ("CommWorldProcs", "HPL_N", "HPL_NB", "HPL_nprow", "HPL_npcol")
#: Summary key -> section of the body that gives the same figure, its line, and the factor to the
#: summary's unit.
BODY = {
    "StarRandomAccess_GUPs": ("StarRandomAccess", r"Average GUP/s (\S+)", 1),
    "MPIRandomAccess_GUPs": ("MPIRandomAccess", r"(\S+) Billion\(10\^9\) Updates  +per second", 1),
    "StarDGEMM_Gflops": ("StarDGEMM", r"Average Gflop/s (\S+)", 1),
    "StarSTREAM_Triad": ("StarSTREAM", r"Average Triad GB/s (\S+)", 1),
    "MPIFFT_Gflops": ("MPIFFT", r"Gflop/s: +(\S+)", 1),
    "RandomlyOrderedRingLatency_usec": (
        "LatencyBandwidth",
        r"Avg Random Order Latency: +(\S+) msec",
        1e3,
    ),
    "RandomlyOrderedRingBandwidth_GBytes": (
        "LatencyBandwidth",
        (
            r"Message Size: +2000000 Byte\n(?:(?!Message Size).*\n)*?"
            r"Avg Random Order Bandwidth: +(\S+) MB/s"
        ),
        1e-3,
    ),
}


@dataclass
class HpccRun(Launch):
    processes: int
    #: Order of HPL's matrix.
    n: int
    #: By the names of VARIABLES.
    values: dict[str, float]
    #: Number of launches at once that this is the sum of.
    instances: int = 1

    @property
    def matrix_bytes(self) -> int:
        return self.instances * 8 * self.n**2

    @property
    def hpl_of_dgemm(self) -> float:
        """HPL in percent of the DGEMM rate of all processes together, each computing by itself."""
        return 100 * self.values["hpl"] / self.values["star_dgemm"] / self.processes


def together(runs: list[HpccRun]) -> HpccRun:
    """One launch of instances that ran at once: rates are summed, values of one process are means.

    Raises ParseError if the instances had different problems.
    """
    expect_equal(runs, "memory")
    first, count = runs[0], len(runs)
    values = {}
    for name in first.values:
        total = sum(run.values[name] for run in runs)
        values[name] = total if name in SUMMED else total / count
    processes = count * first.processes
    did = {**first.did, "processes": processes}
    return replace(first, processes=processes, values=values, did=did, instances=count)


@bounded
def parse_hpcc(text: str) -> list[HpccRun]:
    """Every launch in (concatenated) ``hpccoutf.txt``, in order.

    Method: HPC Challenge 1.5 (P. Luszczek et al.). HPCC itself checks HPL's residual. Raises
    ParseError if a launch did not end, if a test failed, or if a value is missing, zero or not a
    number.
    """
    _, *bodies = re.split(BEGIN, text, flags=re.M)
    summaries = [_section(body, "Summary") for body in bodies]
    ended = len(re.findall(r"^End of Summary section\.", text, re.M))
    if not bodies or not all(summaries) or ended != len(bodies):
        raise cut_off(f"HPCC began {len(bodies)} times and ended {ended} times")
    for failed in re.findall(r"^\|\|Ax-b.*FAILED.*$", text, re.M):
        raise ParseError(
            f"HPL's residual is too large ({failed.strip()}): the machine or its BLAS computes "
            "wrongly"
        )
    return list(map(_parse_summary, summaries, bodies))


def _section(body: str, name: str) -> str:
    """The lines of a section of HPCC's output; '' unless it begins and ends."""
    title = f"\nBegin of {name} section."
    begin = body.find(title)
    end = body.find(f"\nEnd of {name} section.", begin)
    return body[begin + len(title) : end + 1] if 0 <= begin < end else ""


def _parse_summary(text: str, body: str) -> HpccRun:
    figures = Figures("HPCC", re.findall(r"^(\w+)=(.*)$", text, re.M))
    if figures.get("Success") != "1":
        raise ParseError(
            f"HPCC reports Success={figures.get('Success', 'nothing')}: one of its tests failed; "
            "hpccoutf.txt names it"
        )
    values = {}
    for name, (key, factor) in VARIABLES.items():
        values[name] = factor * figures.positive(key)
    processes, n, block, rows, columns = map(figures.whole, COUNTS)
    if rows * columns != processes:
        raise damaged(f"HPL's grid is {rows} by {columns}, but there are {processes} processes")
    # Our input asks for whole blocks.
    if n % block:
        raise damaged(f"HPL's N is {n}, not a multiple of {block}")
    _check_hpl(figures, n)
    _check_body(figures, body)
    version = ".".join(figures.get(f"Version{part}", "?") for part in ("Major", "Minor", "Micro"))
    did = {"processes": processes, "block": block, "n": n}
    return HpccRun({"application": f"HPCC {version}"}, did, processes, n, values)


def _check_hpl(figures: Figures, n: int) -> None:
    """Raise ParseError unless HPL's rate follows from its matrix order and time."""
    # Operations of the solution of a dense system, as HPL counts them.
    computed = (2 / 3 * n**3 + 3 / 2 * n**2) / figures.positive("HPL_time") / 1e12
    figures.agree("HPL_Tflops", computed, 1e-4 * computed)


def _check_body(figures: Figures, body: str) -> None:
    """Raise ParseError unless each figure of the summary is, within its digits, that of its
    section."""
    for key, (section, line, factor) in BODY.items():
        match = re.search(rf"^{line}", _section(body, section), re.M)
        if not match:
            raise ParseError(
                f"HPCC's section {section} does not give {key}: it was cut off, or another "
                "version; see hpccoutf.txt"
            )
        value = numbers.positive(match[1], f"HPCC's {section}") * factor
        figures.agree(key, value, numbers.unit(match[1]) * factor + numbers.unit(figures[key]))
    rate = figures.positive("PTRANS_GBs")
    for number in re.findall(r"^WALL(?: +\S+){7} +PASSED +(\S+)", body, re.M):
        # The section has three decimals.
        if abs(numbers.positive(number, "a rate of HPCC's PTRANS") - rate) <= 0.00051:
            return
    raise damaged(f"HPCC's PTRANS_GBs is {rate}, but no rate in its section PTRANS is")
