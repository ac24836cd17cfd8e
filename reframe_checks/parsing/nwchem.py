"""NWChem: the output of ``src/apps/water_*.nw``."""

import re
from dataclasses import dataclass

from . import ParseError, launches_of, positive

#: Sum over the atoms, atomic units a component: what moves all of them moves none against another. Six decimals are printed.
UNMOVED = 1e-5
ROW = re.compile(
    r"^ *\d+ +[A-Z][a-z]?" + 3 * r" +-?\d+\.\d+" + 3 * r" +(-?\d+\.\d+|NaN|\*+)" + " *$", re.M
)


@dataclass(frozen=True)
class NwchemRun:
    """One launch, whole."""

    processes: int
    seconds: float  #: of SCF, MP2 energy and gradient
    energy: float  #: total MP2 energy, Hartree
    gradient: list[tuple[float, float, float]]  #: of each atom, Hartree/Bohr
    facts: dict[str, str]
    parts: tuple = ()
    payload_bytes: None = None  #: not told

    @property
    def rate(self) -> float:
        """Gradients/s."""
        return 1 / self.seconds

    @property
    def norm(self) -> float:
        """Of the gradient, Hartree/Bohr."""
        return sum(part**2 for atom in self.gradient for part in atom) ** 0.5


def _parse(lines: list[str]) -> NwchemRun:
    text = "\n".join(lines)
    begin, end = (
        re.search(rf"^nearmetal {word} (\d+\.\d+)$", text, re.M) for word in ("begin", "end")
    )
    processes = re.search(r"nproc +=\s+(\d+)", text)
    energy = re.search(r"Total MP2 energy +(\S+)", text)
    table = re.search(r"mp2 ENERGY GRADIENTS(.*)", text, re.S)
    if not (begin and end and processes and energy and table and "Total times" in text):
        said = re.search(r"^ *(.*(?:error|failed|insufficient).*)$", text, re.M | re.I)
        raise ParseError(
            "the output of NWChem stops before its end"
            + (f" ({said[1].strip()})" if said else "")
            + ": see the job's stderr and rerun"
        )
    atoms = len(re.findall(r"^ *\d+ [A-Z][a-z]? +\d+\.\d{4} " + 3 * r" +-?\d+\.\d{8}", text, re.M))
    try:
        total, gradient = (
            float(energy[1]),
            [tuple(map(float, row.groups())) for row in ROW.finditer(table[1])],
        )
    except ValueError:
        raise ParseError(
            f"the energy of NWChem is {energy[1]}, and it or the gradient no number: it is wrong"
        ) from None
    if not gradient or len(gradient) != atoms:
        raise ParseError(
            f"the gradient of NWChem has {len(gradient)} atoms instead of {atoms}: lines were lost; rerun"
        )
    sums = [sum(column) for column in zip(*gradient)]
    if not all(abs(each) <= UNMOVED for each in [*sums, 0 * total]):
        raise ParseError(
            f"the forces of NWChem add up to {sums} instead of 0, or its energy is {total}: it computes wrongly"
        )
    seconds = positive(f"{float(end[1]) - float(begin[1]):.6f}", "the time of the gradient")
    version = re.search(r"\(NWChem\) (\S+)", lines[0])[1]
    return NwchemRun(
        int(processes[1]), seconds, total, gradient, {"application": f"NWChem {version}"}
    )


def parse_nwchem(text: str) -> list[NwchemRun]:
    """Every launch in the output of NWChem on one of ``src/apps/water_*.nw``, in order.

    Raises ParseError on truncated or non-numeric results, and on a gradient whose sum over the atoms is not zero. Whether
    energy and gradient are the molecule's, the check knows.
    """
    return [
        _parse(lines)
        for lines in launches_of(
            text, r" *Northwest Computational Chemistry Package \(NWChem\)", "NWChem"
        )
    ]
