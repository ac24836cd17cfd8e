"""The parsers of applications against recorded real output (tests/recorded/README.md), whole and
damaged."""

import re

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.gromacs import parse_gromacs
from nearmetal.checks.parsing.lammps import LATTICE_ENERGY, parse_lammps
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.parsing.nwchem import parse_nwchem
from tests.support.recorded import namd, recorded


def test_lammps():
    two, one = parse_lammps(recorded("lammps"))
    assert [(run.processes, run.atoms, run.steps) for run in (two, one)] == [
        (2, 4000, 100),
        (1, 4000, 100),
    ]
    assert two.facts == {"application": "LAMMPS 4 Feb 2025"} and two.rate == pytest.approx(
        100 / two.seconds
    )
    # Its second level is ten parts of the same time, and every process tells the same energy.
    for run in (two, one):
        assert len(run.parts) == 10 and sum(10 / part for part in run.parts) == pytest.approx(
            run.seconds, rel=0.02
        )
    assert two.energy == one.energy == -4.6226965
    # Of the 4000 atoms, 2.8 of 16.8 lengths beside each of four faces, there and back in 100 steps;
    # one process sends nothing.
    assert (
        two.payload_bytes == pytest.approx(4000 * 2.8 / 16.798 * 4 * 24 * 2 * 100, rel=1e-3)
        and one.payload_bytes == 0
    )


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: "", "no LAMMPS in this output (it is empty)"),
        (lambda text: text[: text.index("Loop time")], "stops before its end"),
        (lambda text: text[: text.rindex("Total wall time")], "stops before its end"),
        (
            lambda text: text.replace(
                "Created 4000 atoms", "ERROR: Lost atoms: original 4000 current 3999"
            ),
            "Lost atoms",
        ),
        (
            lambda text: re.sub(r"^ +Step .*\n", "", text, count=1, flags=re.M),
            "printed no table with Step Temp",
        ),
        (lambda text: re.sub(r"^ +50 .*\n", "", text, count=1, flags=re.M), "lines were lost"),
        (
            lambda text: re.sub(r"^( +50 +\S+ +\S+ +)\S+", r"\1nan", text, count=1, flags=re.M),
            "not numbers from step 50 on",
        ),
        (
            lambda text: text.replace(str(LATTICE_ENERGY), "-6.7743681", 1),
            "the energy of the lattice is -6.7743681 instead",
        ),
        (
            lambda text: re.sub(r"^( +100 +\S+ +\S+ +)\S+", r"\1-4.55", text, count=1, flags=re.M),
            "must be conserved",
        ),
        (
            lambda text: re.sub(r"(Loop time of )\S+", r"\g<1>0", text, count=1),
            "which no measurement gives",
        ),
    ],
)
def test_damaged_lammps(damage, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_lammps(damage(recorded("lammps")))


def test_nwchem():
    two, one = parse_nwchem(recorded("nwchem"))
    assert (two.processes, one.processes) == (2, 1) and two.facts == {"application": "NWChem 7.2.3"}
    for run in (two, one):
        assert run.energy == pytest.approx(-76.1938862779, abs=1e-8)  # PySCF's
        assert run.gradient[1] == (0, 0.023288, -0.014727) and run.norm == pytest.approx(
            0.0488458, abs=1e-6
        )
        assert run.rate == 1 / run.seconds and run.payload_bytes is None
    # The machine was busy, and two processes that poll for each other's messages wait for it.
    assert two.seconds == pytest.approx(31.803643) and one.seconds < 10


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: "srun: error", "no NWChem in this output"),
        (lambda text: text[: text.index("Total MP2 energy")], "stops before its end"),
        (lambda text: text.replace("nearmetal end", ""), "stops before its end"),
        (
            lambda text: text[: text.index("Total MP2 energy")] + " scf_movecs_read: failed\n",
            "(scf_movecs_read: failed)",
        ),
        (
            lambda text: re.sub(r"(Total MP2 energy +)\S+", r"\1*******", text),
            "or its gradient is not a number",
        ),
        (
            lambda text: re.sub(r"(Total MP2 energy +)\S+", r"\1NaN", text),
            "instead of 0, or its energy is nan",
        ),
        (lambda text: re.sub(r"(-0.014727) *$", "NaN", text, flags=re.M), "instead of 0"),
        (lambda text: text.replace("0.029453", "0.029553"), "instead of 0"),
        (
            lambda text: re.sub(r"^ +3 H .*-0.014727\n", "", text, flags=re.M),
            "has 2 atoms instead of 3",
        ),
        (
            lambda text: re.sub(r"nearmetal begin \d", "nearmetal begin 2", text),
            "the time of the gradient is",
        ),
    ],
)
def test_damaged_nwchem(damage, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_nwchem(damage(recorded("nwchem")))


def test_gromacs():
    two, one = parse_gromacs(recorded("gromacs"))
    assert [(run.processes, run.atoms, run.steps) for run in (two, one)] == [
        (2, 5184, 100),
        (1, 5184, 100),
    ]
    assert two.potential == one.potential == -79789.1 and (two.rate, one.rate) == (
        1.628,
        8.765,
    )  # the machine was busy
    assert two.facts["mpi_library"].startswith("Open MPI v5") and two.facts[
        "application"
    ].startswith("GROMACS 2025.2")
    assert two.facts["compiler"].endswith("GNU 14.2.0")
    assert two.payload_bytes > 5e6 and one.payload_bytes == 0


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: "", "no log of GROMACS in this output"),
        (lambda text: text[: text.index("Energy conservation")], "stops before its end"),
        (lambda text: text.replace("Finished mdrun", ""), "stops before its end"),
        (
            lambda text: text.replace(
                "Started mdrun", "Fatal error:\nThere is no domain decomposition for 7 ranks\n"
            ),
            "There is no domain decomposition for 7 ranks",
        ),
        (
            lambda text: text.replace("-7.97891e+04", "         nan"),
            "are not numbers, or are missing",
        ),
        (lambda text: text.replace("-7.97891e+04", "            "), "is not a number"),
        (
            lambda text: re.sub(r"(Potential .*\n.*)\n( +Total Energy)", r"\1\n", text, count=1),
            "are not numbers, or are missing",
        ),
        (
            lambda text: re.sub(r"-6\.67\d\d\de\+04", "-6.70000e+04", text, count=1),
            "must be conserved",
        ),
        (
            lambda text: re.sub(r"(Performance: +)\S+", r"\g<1>0.000", text, count=1),
            "which no measurement gives",
        ),
    ],
)
def test_damaged_gromacs(damage, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_gromacs(damage(recorded("gromacs")))


def test_namd():
    two, one = parse_namd(namd() + namd(processes=1))
    assert (two.processes, one.processes, two.atoms, two.step, two.potential) == (
        2,
        1,
        92224,
        0,
        -222494.9229,
    )
    assert two.seconds_a_step == pytest.approx(0.3) and two.parts == [
        pytest.approx(4),
        pytest.approx(1 / 0.35),
    ]
    assert two.facts == {"application": "NAMD 2.14 for Linux-x86_64-MPI"}


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: "", "no NAMD in this output"),
        (
            lambda text: text.replace(
                "ETITLE", "FATAL ERROR: Unable to open config file x\nETITLE"
            ),
            "Unable to open config file x",
        ),
        (lambda text: text[: text.index("WallClock")], "stops before its end"),
        (lambda text: re.sub(r"ENERGY:.*\n", "", text), "stops before its end"),
        (lambda text: re.sub(r"Info: Benchmark.*\n", "", text), "raise numsteps"),
        (lambda text: text.replace("-177136.1298", "", 1), "is damaged"),
        (lambda text: text.replace("POTENTIAL", "ELECT"), "lack POTENTIAL"),
        (lambda text: text.replace("-177136.1298", "nan"), "are not numbers at step 0"),
        (lambda text: text.replace(" 0.25 s/step", " 0 s/step"), "which no measurement gives"),
    ],
)
def test_damaged_namd(damage, message):
    with pytest.raises(ParseError, match=re.escape(message)):
        parse_namd(damage(namd()))
