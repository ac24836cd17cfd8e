"""Output of NWChem on ``src/apps/water_*.nw``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch

#: Largest sum of the forces over all atoms, in atomic units per component. The exact sum is zero,
#: and six decimals are printed.
UNMOVED = 1e-5
#: Title of the table of the gradient.
GRADIENTS = "mp2 ENERGY GRADIENTS"
FIGURES = {
    "nearmetal begin": r"^nearmetal begin (?P<begin>\d+\.\d+)$",
    "nearmetal end": r"^nearmetal end (?P<end>\d+\.\d+)$",
    "nproc": r"^ *nproc +=\s+(?P<processes>\d+)$",
    "Total MP2 energy": r"Total MP2 energy +(?P<energy>\S+)",
    GRADIENTS: GRADIENTS,
    "wall": r"^ *Total times  cpu: .* wall: +(?P<wall_time>\S+)s$",
}
#: What NWChem says of its end.
FAILED = re.compile(r"^(.*(?:error|failed|insufficient).*)$", re.M | re.I)
#: A row of the gradient, and of the geometry.
ROW = re.compile(
    r"^ *\d+ +[A-Z][a-z]?" + 3 * r" +-?\d+\.\d+" + 3 * r" +(-?\d+\.\d+|NaN|\*+)" + " *$", re.M
)
ATOM = re.compile(r"^ *\d+ [A-Z][a-z]? +\d+\.\d{4} " + 3 * r" +-?\d+\.\d{8}", re.M)


@dataclass
class NwchemRun(Launch):
    processes: int
    #: Time of SCF, MP2 energy and gradient.
    seconds: float
    #: Total MP2 energy, Hartree.
    energy: float
    #: x, y and z of each atom, Hartree/Bohr
    gradient: list[tuple[float, ...]]
    parts: tuple = ()
    #: NWChem does not report it.
    payload_bytes: None = None

    @property
    def rate(self) -> float:
        """Gradients/s."""
        return 1 / self.seconds

    @property
    def norm(self) -> float:
        """Norm of the gradient, Hartree/Bohr."""
        squares = 0.0
        for atom in self.gradient:
            for part in atom:
                squares += part**2
        return squares**0.5


@each_launch("NWChem", r" *Northwest Computational Chemistry Package \(NWChem\)")
def parse_nwchem(output: Output) -> NwchemRun:
    """Every launch in the output of NWChem on one of ``src/apps/water_*.nw``, in order.

    Raises ParseError on truncated or non-numeric results, and on a gradient whose sum over the
    atoms is not zero. The check verifies energy and gradient of the molecule.
    """
    failure = FAILED.search(output.text)
    figures = output.figures(FIGURES, failure[1].strip() if failure else "")
    energy, gradient = _energy_and_gradient(output.text, figures["energy"])
    taken = float(figures["end"]) - float(figures["begin"])
    seconds = numbers.positive(f"{taken:.6f}", "the time of the gradient")
    wall = figures.positive("wall time")
    # The clock of our marks runs inside of NWChem's own.
    if seconds > wall + numbers.unit(figures["wall time"]):
        raise damaged(f"the time of the gradient is {seconds:.3f} s, longer than NWChem's {wall} s")
    processes = figures.whole("processes")
    return NwchemRun(
        output.application(r"\(NWChem\) (\S+)"),
        {"processes": processes},
        processes,
        seconds,
        energy,
        gradient,
    )


def _energy_and_gradient(text: str, energy_text: str) -> tuple[float, list[tuple[float, ...]]]:
    """Total energy, and x, y and z of each atom's gradient. Raises ParseError."""
    # Rows of other tables before it look alike.
    rows = ROW.finditer(text, text.index(GRADIENTS))
    try:
        energy = float(energy_text)
        gradient = [tuple(map(float, row.groups())) for row in rows]
    except ValueError:
        raise ParseError(
            f"the energy of NWChem ({energy_text}) or its gradient is not a number: it computes "
            "wrongly"
        ) from None
    atoms = len(ATOM.findall(text))
    if not gradient or len(gradient) != atoms:
        raise damaged(f"the gradient of NWChem has {len(gradient)} atoms instead of {atoms}")
    sums = [sum(column) for column in zip(*gradient)]
    # 0 times infinity or NaN is NaN, which is not below any bound.
    if not all(abs(figure) <= UNMOVED for figure in [*sums, 0 * energy]):
        raise ParseError(
            f"the forces of NWChem add up to {sums} instead of 0, or its energy is {energy}: it "
            "computes wrongly"
        )
    return energy, gradient
