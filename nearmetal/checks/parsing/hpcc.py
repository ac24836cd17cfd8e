"""Output of the HPC Challenge benchmark: the summary section of ``hpccoutf.txt``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from nearmetal.checks.parsing import ParseError, agree, bounded, positive, unit, whole

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


BEGIN = r"^This is the DARPA/DOE HPC Challenge"


@dataclass(frozen=True)
class HpccRun:
    """One complete and successful launch."""

    processes: int
    n: int  #: order of HPL's matrix
    values: dict[str, float]  #: by the names of VARIABLES
    library: str  #: HPCC's version
    did: dict  #: parameters that HPCC reports
    instances: int = 1  #: number of launches at once that this is the sum of

    @property
    def matrix_bytes(self) -> int:
        return self.instances * 8 * self.n**2

    @property
    def hpl_of_dgemm(self) -> float:
        """HPL in percent of the DGEMM rate of all processes together, each computing by itself."""
        return 100 * self.values["hpl"] / self.values["star_dgemm"] / self.processes


#: Rates of all processes together. The others are of one process, or of a message.
SUMMED = ("mpi_random_access", "hpl", "ptrans", "mpi_fft")


def together(runs: list[HpccRun]) -> HpccRun:
    """One launch of instances that ran at once: rates are summed, values of one process are means.

    Raises ParseError if the instances had different problems.
    """
    first, count = runs[0], len(runs)
    if any(run.did != first.did for run in runs):
        raise ParseError(
            f"instances at once measured {[run.did for run in runs]}, not the same: have their "
            "nodes the same memory?"
        )
    sums = {name: sum(run.values[name] for run in runs) for name in first.values}
    return replace(
        first,
        processes=count * first.processes,
        values={name: one / (1 if name in SUMMED else count) for name, one in sums.items()},
        did={**first.did, "processes": count * first.processes},
        instances=count,
    )


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


def _section(body: str, name: str) -> str | None:
    """The lines of a section of HPCC's output; None unless it begins and ends."""
    title = f"\nBegin of {name} section."
    begin = body.find(title)
    end = body.find(f"\nEnd of {name} section.", begin)
    return body[begin + len(title) : end + 1] if 0 <= begin < end else None


def _check_body(reported: dict[str, str], body: str) -> None:
    """Raise ParseError unless each figure of the summary is, within its digits, that of its
    section."""
    for key, (section, line, factor) in BODY.items():
        given = re.search(rf"^{line}", _section(body, section) or "", re.M)
        if not given:
            raise ParseError(
                f"HPCC's section {section} does not give {key}: it was cut off, or another "
                "version; see hpccoutf.txt"
            )
        value = positive(given[1], f"HPCC's {section}") * factor
        summed = positive(reported[key], f"HPCC's {key}")
        agree(f"HPCC's {key}", summed, value, unit(given[1]) * factor + unit(reported[key]))
    rates = re.findall(r"^WALL(?: +\S+){7} +PASSED +(\S+)", body, re.M)
    numbers = [positive(rate, "a rate of HPCC's PTRANS") for rate in rates]
    rate = positive(reported["PTRANS_GBs"], "HPCC's PTRANS_GBs")
    if not any(abs(number - rate) <= 0.00051 for number in numbers):
        raise ParseError(
            f"HPCC's PTRANS_GBs is {rate}, but no rate in its section PTRANS is: digits were "
            "damaged; rerun"
        )


def _check_hpl(reported: dict[str, str]) -> None:
    """Raise ParseError unless HPL's rate follows from its matrix order and time."""
    n = whole(reported["HPL_N"], "HPCC's HPL_N", 1)
    seconds = positive(reported.get("HPL_time", ""), "HPCC's HPL_time")
    rate = positive(reported["HPL_Tflops"], "HPCC's HPL_Tflops")
    computed = (2 / 3 * n**3 + 3 / 2 * n**2) / seconds / 1e12
    agree("HPCC's HPL_Tflops", rate, computed, 1e-4 * rate)


def _parse_summary(text: str, body: str) -> HpccRun:
    pairs = re.findall(r"^(\w+)=(.*)$", text, re.M)
    reported = dict(pairs)
    if len(reported) != len(pairs):
        raise ParseError("HPCC's summary gives a figure twice: lines were mixed; rerun")
    if reported.get("Success") != "1":
        raise ParseError(
            f"HPCC reports Success={reported.get('Success', 'nothing')}: one of its tests failed; "
            "hpccoutf.txt names it"
        )
    needed = ("CommWorldProcs", "HPL_N", "HPL_NB", "HPL_nprow", "HPL_npcol")
    missing = sorted(
        key for key in (*needed, *(key for key, _ in VARIABLES.values())) if key not in reported
    )
    if missing:
        raise ParseError(
            f"HPCC's summary lacks {', '.join(missing)}: it was cut off, or another version; see "
            "hpccoutf.txt"
        )
    values = {
        name: factor * positive(reported[key], f"HPCC's {key}")
        for name, (key, factor) in VARIABLES.items()
    }
    counts = {key: whole(reported[key], f"HPCC's {key}", 1) for key in needed}
    processes = counts["CommWorldProcs"]
    if counts["HPL_nprow"] * counts["HPL_npcol"] != processes:
        raise ParseError(
            f"HPL's grid is {reported['HPL_nprow']} by {reported['HPL_npcol']}, but there are "
            f"{processes} processes: rerun"
        )
    if counts["HPL_N"] % counts["HPL_NB"]:
        raise ParseError(
            f"HPL's N is {reported['HPL_N']}, not a multiple of {reported['HPL_NB']}: rerun"
        )
    _check_hpl(reported)
    _check_body(reported, body)
    version = ".".join(reported.get(f"Version{part}", "?") for part in ("Major", "Minor", "Micro"))
    did = {"processes": processes, "block": counts["HPL_NB"], "n": counts["HPL_N"]}
    return HpccRun(processes, counts["HPL_N"], values, f"HPCC {version}", did)


@bounded
def parse_hpcc(text: str) -> list[HpccRun]:
    """Every launch in (concatenated) ``hpccoutf.txt``, in order.

    Method: HPC Challenge 1.5 (P. Luszczek et al.). HPCC itself checks HPL's residual. Raises
    ParseError if a launch did not end, if a test failed, or if a value is missing, zero or not a
    number.
    """
    begins = [found.start() for found in re.finditer(BEGIN, text, re.M)]
    bodies = [text[start:end] for start, end in zip(begins, [*begins[1:], len(text)])]
    sections = [_section(body, "Summary") for body in bodies]
    ended = len(re.findall(r"^End of Summary section\.", text, re.M))
    whole_sections = [section for section in sections if section is not None]
    if not bodies or len(whole_sections) != len(bodies) or ended != len(bodies):
        raise ParseError(
            f"HPCC began {len(bodies)} times and ended {ended} times: it was cut off (time limit, "
            "memory); see the job's stderr"
        )
    for failed in re.findall(r"^\|\|Ax-b.*FAILED.*$", text, re.M):
        raise ParseError(
            f"HPL's residual is too large ({failed.strip()}): the machine or its BLAS computes "
            "wrongly"
        )
    return [_parse_summary(section, body) for section, body in zip(whole_sections, bodies)]
