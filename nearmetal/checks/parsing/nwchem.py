"""Output of NWChem on ``src/apps/water_*.nw``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, bounded, launches_of, positive, unit, whole

#: Largest sum of the forces over all atoms, in atomic units per component. The exact sum is zero,
#: and six decimals are printed.
UNMOVED = 1e-5
ROW = re.compile(
    r"^ *\d+ +[A-Z][a-z]?" + 3 * r" +-?\d+\.\d+" + 3 * r" +(-?\d+\.\d+|NaN|\*+)" + " *$", re.M
)


@dataclass(frozen=True)
class NwchemRun:
    """One complete launch."""

    processes: int
    seconds: float  #: time of SCF, MP2 energy and gradient
    energy: float  #: total MP2 energy, Hartree
    gradient: list[tuple[float, ...]]  #: x, y and z of each atom, Hartree/Bohr
    facts: dict[str, str]
    parts: tuple = ()
    payload_bytes: None = None  #: NWChem does not report it
    did: dict = field(default_factory=dict)  #: parameters that NWChem reports

    @property
    def rate(self) -> float:
        """Gradients/s."""
        return 1 / self.seconds

    @property
    def norm(self) -> float:
        """Norm of the gradient, Hartree/Bohr."""
        return sum(part**2 for atom in self.gradient for part in atom) ** 0.5


def _parse(lines: list[str]) -> NwchemRun:
    text = "\n".join(lines)
    begin, end, processes, energy = (
        _only(text, pattern)
        for pattern in (
            r"^nearmetal begin (\d+\.\d+)$",
            r"^nearmetal end (\d+\.\d+)$",
            r"^ *nproc +=\s+(\d+)$",
            r"Total MP2 energy +(\S+)",
        )
    )
    table = re.search(r"mp2 ENERGY GRADIENTS(.*)", text, re.S)
    wall = _only(text, r"^ *Total times  cpu: .* wall: +(\S+)s$")
    if not (begin and end and processes and energy and table and wall):
        said = re.search(r"^(.*(?:error|failed|insufficient).*)$", text, re.M | re.I)
        raise ParseError(
            "the output of NWChem stops before its end"
            + (f" ({said[1].strip()})" if said else "")
            + ": see the job's stderr and rerun"
        )
    atoms = len(re.findall(r"^ *\d+ [A-Z][a-z]? +\d+\.\d{4} " + 3 * r" +-?\d+\.\d{8}", text, re.M))
    try:
        total = float(energy[1])
        gradient = [tuple(map(float, row.groups())) for row in ROW.finditer(table[1])]
    except ValueError:
        raise ParseError(
            f"the energy of NWChem ({energy[1]}) or its gradient is not a number: it computes "
            "wrongly"
        ) from None
    if not gradient or len(gradient) != atoms:
        raise ParseError(
            f"the gradient of NWChem has {len(gradient)} atoms instead of {atoms}: lines were "
            "lost; rerun"
        )
    sums = [sum(column) for column in zip(*gradient)]
    if not all(abs(each) <= UNMOVED for each in [*sums, 0 * total]):
        raise ParseError(
            f"the forces of NWChem add up to {sums} instead of 0, or its energy is {total}: it "
            "computes wrongly"
        )
    seconds = positive(f"{float(end[1]) - float(begin[1]):.6f}", "the time of the gradient")
    whole_time = positive(wall[1], "the wall time of NWChem")
    if seconds > whole_time + unit(wall[1]):
        raise ParseError(
            f"the time of the gradient is {seconds:.3f} s, longer than NWChem's {whole_time} s: "
            "digits were damaged; rerun"
        )
    version = re.search(r"\(NWChem\) (\S+)", lines[0])
    count = whole(processes[1], "the processes of NWChem", 1)
    return NwchemRun(
        count,
        seconds,
        total,
        gradient,
        {"application": f"NWChem {version[1] if version else 'unknown'}"},
        did={"processes": count},
    )


def _only(text: str, pattern: str) -> re.Match | None:
    """The first match in NWChem's output, or None. Raises ParseError if matches differ."""
    found = list(re.finditer(pattern, text, re.M | re.A))
    if len({each[1] for each in found}) > 1:
        raise ParseError(
            f"NWChem prints {found[1][0].strip()!r} a second time: outputs were mixed; rerun"
        )
    return found[0] if found else None


@bounded
def parse_nwchem(text: str) -> list[NwchemRun]:
    """Every launch in the output of NWChem on one of ``src/apps/water_*.nw``, in order.

    Raises ParseError on truncated or non-numeric results, and on a gradient whose sum over the
    atoms is not zero. The check verifies energy and gradient of the molecule.
    """
    return [
        _parse(lines)
        for lines in launches_of(
            text, r" *Northwest Computational Chemistry Package \(NWChem\)", "NWChem"
        )
    ]
