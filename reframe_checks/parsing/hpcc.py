"""The HPC Challenge benchmark: the summary section of ``hpccoutf.txt``."""

import re
from dataclasses import dataclass

from . import ParseError, positive

#: Our names of what HPCC tells: its key, and the factor to our unit.
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


@dataclass(frozen=True)
class HpccRun:
    """One launch, whole and successful."""

    processes: int
    n: int  #: order of HPL's matrix
    values: dict[str, float]  #: by the names of VARIABLES
    library: str  #: HPCC's version

    @property
    def matrix_bytes(self) -> int:
        return 8 * self.n**2

    @property
    def hpl_share(self) -> float:
        """HPL in percent of what all processes do in DGEMM at once, each for itself: the peak that can be had."""
        return 100 * self.values["hpl"] / self.values["star_dgemm"] / self.processes


def _parse_summary(text: str) -> HpccRun:
    told = dict(re.findall(r"^(\w+)=(.*)$", text, re.M))
    if told.get("Success") != "1":
        raise ParseError(
            f"HPCC says Success={told.get('Success', 'nothing')}: one of its tests failed; hpccoutf.txt tells which"
        )
    missing = sorted(
        key
        for key in ("CommWorldProcs", "HPL_N", *(key for key, _ in VARIABLES.values()))
        if key not in told
    )
    if missing:
        raise ParseError(
            f"HPCC's summary lacks {', '.join(missing)}: it was cut off, or another version; see hpccoutf.txt"
        )
    values = {
        name: factor * positive(told[key], f"HPCC's {key}")
        for name, (key, factor) in VARIABLES.items()
    }
    version = ".".join(told.get(f"Version{part}", "?") for part in ("Major", "Minor", "Micro"))
    return HpccRun(int(told["CommWorldProcs"]), int(told["HPL_N"]), values, f"HPCC {version}")


def parse_hpcc(text: str) -> list[HpccRun]:
    """Every launch in (concatenated) ``hpccoutf.txt``, in order.

    Method: HPC Challenge 1.5 (P. Luszczek et al.); HPL's residual is checked by HPCC itself. Raises ParseError where a launch
    did not end, a test failed, or a value is missing, zero or no number.
    """
    sections = re.findall(
        r"^Begin of Summary section\.(.*?)^End of Summary section\.", text, re.S | re.M
    )
    begun = len(re.findall(r"^This is the DARPA/DOE HPC Challenge", text, re.M))
    if not sections or begun > len(sections):
        raise ParseError(
            f"HPCC began {begun} times and ended {len(sections)} times: it was cut off (time limit, memory); see the "
            "job's stderr"
        )
    for failed in re.findall(r"^\|\|Ax-b.*FAILED.*$", text, re.M):
        raise ParseError(
            f"HPL's residual is too large ({failed.strip()}): the machine or its BLAS computes wrongly"
        )
    return [_parse_summary(section) for section in sections]
