"""The parser of HPCG reads recorded real output, and refuses what HPCG does not call valid."""

import re

import pytest

from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.hpcg import VALID, parse_hpcg
from reframe_checks.hpcg import processes_fit
from tests.support.recorded import recorded
from tests.support.said import lacking


def test_hpcg():
    two, one = parse_hpcg(recorded("hpcg"))
    assert [(run.processes, run.did["threads"]) for run in (two, one)] == [(2, 1), (1, 1)]
    assert all([run.did[name] for name in ("nx", "ny", "nz")] == [16] * 3 for run in (two, one))
    assert (two.rate, one.rate) == (0.0494518, 1.28712)  # the machine was busy
    # HPCG does about one operation for eight bytes.
    for run in (two, one):
        assert 1e3 * run.rate / run.mbytes_per_s == pytest.approx(0.131, rel=0.02)
    assert two.facts == {"application": "HPCG 3.1, reference code"}
    # Two cubes exchange one face in both directions, three times in each of 50 iterations.
    assert (two.payload_bytes, one.payload_bytes) == (3 * 50 * 2 * 16 * 16 * 8, 0)


@pytest.mark.parametrize(
    "damage, facts",
    [
        (lambda text: "srun: error", ["no report of HPCG", "srun: error"]),
        (lambda text: text[: text.index("Final Summary")], ["HPCG", "VALID", "'nothing'"]),
        (lambda text: text[: text.index("Reproducibility")], ["lacks", "Result", "cut off"]),
        (
            lambda text: re.sub(
                r"(?m)^Final Summary::HPCG result is VALID.*",
                "Final Summary::HPCG result is=INVALID.",
                text,
                count=1,
            ),
            ["'INVALID.'", "no rating counts"],
        ),
        (
            lambda text: text.replace("Tests::Result=PASSED", "Tests::Result=FAILED", 1),
            ["Spectral Convergence Tests", "FAILED", "computes wrongly"],
        ),
        (
            lambda text: text.replace("epsilon::Result=PASSED", "epsilon::Result=FAILED", 1),
            ["Departure from Symmetry", "FAILED", "symmetry"],
        ),
        (lambda text: re.sub(f"({VALID})=.*", r"\1=1.9", text, count=1), ["rating of", "1.9"]),
        (lambda text: re.sub(f"({VALID})=.*", r"\1=nan", text, count=1), ["is nan", "rerun"]),
        (
            lambda text: text.replace("Raw Total B/W=", "Raw Total B/W=1", 1),
            ["Raw Total B/W", "damaged"],
        ),
        (
            lambda text: text.replace("Global nx=32", "Global nx=48", 1),
            ["global nx", "48", "32"],
        ),
        (lambda text: text + "Setup Information::Setup Time=1\n", ["twice", "mixed"]),
    ],
)
def test_damaged_hpcg(damage, facts):
    with pytest.raises(ParseError) as error:
        parse_hpcg(damage(recorded("hpcg")))
    assert not lacking(str(error.value), *facts)


def test_hpcg_takes_numbers_of_processes_that_are_near_to_a_cube():
    # HPCG ends with an error where the shortest edge is less than an eighth of the longest.
    assert all(map(processes_fit, (1, 2, 4, 7, 8, 12, 36, 44, 96, 120, 128, 176, 4096)))
    assert not any(map(processes_fit, (11, 13, 22, 127)))
