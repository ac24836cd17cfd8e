"""Parsers of applications read recorded real output (tests/recorded/README.md), and refuse damaged
output."""

import re

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.gromacs import parse_gromacs
from nearmetal.checks.parsing.lammps import LATTICE_ENERGY, parse_lammps
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.parsing.nwchem import parse_nwchem
from tests.support.recorded import namd, recorded
from tests.support.said import lacking


def test_lammps():
    two, one = parse_lammps(recorded("lammps"))
    assert [(run.processes, run.atoms, run.steps) for run in (two, one)] == [
        (2, 4000, 100),
        (1, 4000, 100),
    ]
    assert two.facts == {"application": "LAMMPS 4 Feb 2025"} and two.rate == pytest.approx(
        100 / two.seconds
    )
    # The ten parts of a run add up to its time. The energy is the same on one and two processes.
    for run in (two, one):
        assert len(run.parts) == 10 and sum(10 / part for part in run.parts) == pytest.approx(
            run.seconds, rel=0.02
        )
    assert two.energy == one.energy == -4.6226965
    # The box is 16.8 lengths long. Two processes exchange the atoms within 2.8 lengths of four
    # faces, in both directions, in each of 100 steps. One process sends nothing.
    assert (
        two.payload_bytes == pytest.approx(4000 * 2.8 / 16.798 * 4 * 24 * 2 * 100, rel=1e-3)
        and one.payload_bytes == 0
    )


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "", ["no LAMMPS", "it is empty"]),
        (lambda text: text[: text.index("Loop time")], ["LAMMPS", "before its end", "cut off"]),
        (
            lambda text: text[: text.rindex("Total wall time")],
            ["LAMMPS", "before its end", "cut off"],
        ),
        (
            lambda text: text.replace(
                "Created 4000 atoms", "ERROR: Lost atoms: original 4000 current 3999"
            ),
            ["Lost atoms: original 4000 current 3999"],
        ),
        (
            lambda text: re.sub(r"^ +Step .*\n", "", text, count=1, flags=re.M),
            ["no table", "Step Temp"],
        ),
        (lambda text: re.sub(r"^ +50 .*\n", "", text, count=1, flags=re.M), ["lacks steps", "100"]),
        (
            lambda text: re.sub(r"^( +50 +\S+ +\S+ +)\S+", r"\1nan", text, count=1, flags=re.M),
            ["not numbers", "step 50"],
        ),
        (
            lambda text: text.replace(str(LATTICE_ENERGY), "-6.7743681", 1),
            ["lattice", "-6.7743681", "-6.7733681"],
        ),
        (
            lambda text: re.sub(r"^( +100 +\S+ +\S+ +)\S+", r"\1-4.55", text, count=1, flags=re.M),
            ["total energy", "-4.55", "conserved"],
        ),
        (
            lambda text: re.sub(r"(Loop time of )\S+", r"\g<1>0", text, count=1),
            ["loop time", "is 0,", "no measurement"],
        ),
        (lambda text: re.sub(r"\S+ timesteps/s", "made timesteps/s", text), ["'made'", "number"]),
    ],
)
def test_damaged_lammps(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_lammps(damage(recorded("lammps")))
    assert not lacking(str(error.value), *facts)


def test_nwchem():
    two, one = parse_nwchem(recorded("nwchem"))
    assert (two.processes, one.processes) == (2, 1) and two.facts == {"application": "NWChem 7.2.3"}
    for run in (two, one):
        assert run.energy == pytest.approx(-76.1938862779, abs=1e-8)  # the energy by PySCF
        assert run.gradient[1] == (0, 0.023288, -0.014727) and run.norm == pytest.approx(
            0.0488458, abs=1e-6
        )
        assert run.rate == 1 / run.seconds and run.payload_bytes is None
    # The machine was busy. This slows two processes that poll for messages more than one process.
    assert two.seconds == pytest.approx(31.803643) and one.seconds < 10


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "srun: error", ["no NWChem", "srun: error"]),
        (lambda text: text[: text.index("Total MP2 energy")], ["NWChem", "before its end"]),
        (lambda text: text.replace("nearmetal end", ""), ["NWChem", "before its end"]),
        (
            lambda text: text[: text.index("Total MP2 energy")] + " scf_movecs_read: failed\n",
            ["NWChem", "(scf_movecs_read: failed)"],
        ),
        (
            lambda text: re.sub(r"(Total MP2 energy +)\S+", r"\1*******", text),
            ["energy", "*******", "not a number"],
        ),
        (
            lambda text: re.sub(r"(Total MP2 energy +)\S+", r"\1NaN", text),
            ["energy is nan"],
        ),
        (lambda text: re.sub(r"(-0.014727) *$", "NaN", text, flags=re.M), ["forces", "nan]"]),
        (lambda text: text.replace("0.029453", "0.029553"), ["forces", "9.8999"]),
        (
            lambda text: re.sub(r"^ +3 H .*-0.014727\n", "", text, flags=re.M),
            ["gradient", "2 atoms instead of 3"],
        ),
        (
            lambda text: re.sub(r"nearmetal begin \d", "nearmetal begin 2", text),
            ["time of the gradient", "is -", "no measurement"],
        ),
    ],
)
def test_damaged_nwchem(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_nwchem(damage(recorded("nwchem")))
    assert not lacking(str(error.value), *facts)


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
    "damage, facts",
    [
        (lambda text: "", ["no log of GROMACS"]),
        (lambda text: text[: text.index("Energy conservation")], ["statistics", "before its end"]),
        (lambda text: text.replace("Finished mdrun", ""), ["lacks end", "before its end"]),
        (
            lambda text: text.replace(
                "Started mdrun", "Fatal error:\nThere is no domain decomposition for 7 ranks\n"
            ),
            ["There is no domain decomposition for 7 ranks"],
        ),
        (
            lambda text: text.replace("-7.97891e+04", "         nan"),
            ["energies", "not numbers", "missing"],
        ),
        (
            lambda text: text.replace("-7.97891e+04", "            "),
            ["Potential is ''", "not a number"],
        ),
        (
            lambda text: re.sub(r"(Potential .*\n.*)\n( +Total Energy)", r"\1\n", text, count=1),
            ["energies", "not numbers", "missing"],
        ),
        (
            lambda text: re.sub(r"-6\.67\d\d\de\+04", "-6.70000e+04", text, count=1),
            ["total energy", "-67000", "conserved"],
        ),
        (
            lambda text: re.sub(r"(Performance: +)\S+", r"\g<1>0.000", text, count=1),
            ["performance", "is 0.000", "no measurement"],
        ),
    ],
)
def test_damaged_gromacs(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_gromacs(damage(recorded("gromacs")))
    assert not lacking(str(error.value), *facts)


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
    "damage, facts",
    [
        (lambda text: "", ["no NAMD"]),
        (
            lambda text: text.replace(
                "ETITLE", "FATAL ERROR: Unable to open config file x\nETITLE"
            ),
            ["FATAL ERROR: Unable to open config file x"],
        ),
        (lambda text: text[: text.index("WallClock")], ["NAMD", "before its end", "WallClock:"]),
        (lambda text: re.sub(r"ENERGY:.*\n", "", text), ["NAMD", "before its end", "WallClock:"]),
        (lambda text: re.sub(r"Info: Benchmark.*\n", "", text), ["benchmark time", "numsteps"]),
        (lambda text: text.replace("-177136.1298", "", 1), ["ENERGY:", "damaged"]),
        (lambda text: text.replace("POTENTIAL", "ELECT"), ["energies", "lack POTENTIAL"]),
        (lambda text: text.replace("-177136.1298", "nan"), ["energies", "not numbers", "step 0"]),
        (
            lambda text: text.replace(" 0.25 s/step", " 0 s/step"),
            ["benchmark time", "is 0,", "no measurement"],
        ),
    ],
)
def test_damaged_namd(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_namd(damage(namd()))
    assert not lacking(str(error.value), *facts)


def test_namd_of_a_revision_is_namd():
    [run] = parse_namd(namd().replace("NAMD 2.14", "NAMD Git-2023-02-10"))
    assert run.facts["application"] == "NAMD Git-2023-02-10 for Linux-x86_64-MPI"
