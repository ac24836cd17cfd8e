"""Lines of a site or a library within an output: skipped, or an error that quotes them."""

import re

import pytest

from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import OTHERS, ParseError
from nearmetal.checks.parsing.congestion import parse_congestion
from nearmetal.checks.parsing.links import parse_links
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.parsing.nodes import parse_nodes
from nearmetal.checks.parsing.osu import parse_osu
from nearmetal.checks.parsing.parallel_io import parse_ior
from nearmetal.checks.parsing.storage import parse_storage
from tests.support.marked import FOREIGN
from tests.support.recorded import namd, recorded
from tests.unit.test_fuzz_parsers import CASES, Case, values

OSU = [(1, 8192, 1000), (16384, 4194304, 100)]
MORE = [
    *(
        Case(parse.__name__, without_usage(recorded(name)), parse)
        for name, parse in (
            ("links", parse_links),
            ("nodes", parse_nodes),
            ("congestion", parse_congestion),
        )
    ),
    Case("fio", recorded("storage"), parse_storage),
    Case("osu", recorded("osu_mpich"), lambda text: parse_osu(text, OSU)),
]
#: Outputs that hold a table or a document of others. GROMACS writes its log into a file.
QUOTED = re.compile(r".*IMB|rdma .*|q?perf.*|tcp|ior|fio|osu")
TESTED = [case for case in [*CASES, *MORE] if case.name != "gromacs"]


@pytest.mark.parametrize("case", TESTED, ids=lambda case: case.name)
def test_a_line_of_others_changes_no_value_and_is_quoted_where_it_is_refused(case):
    good, lines = values(case.parse(case.text)), case.text.splitlines(True)
    for at in range(0, len(lines) + 1, max(1, len(lines) // 40)):
        line = FOREIGN[at % len(FOREIGN)]
        text = "".join([*lines[:at], f"{line}\n", *lines[at:]])
        try:
            assert values(case.parse(text)) == good
        except ParseError as error:
            assert QUOTED.fullmatch(case.name) and 0 < at < len(lines)
            assert line[:60] in str(error) and OTHERS in str(error)


@pytest.mark.parametrize("line", FOREIGN)
@pytest.mark.parametrize("case", TESTED, ids=lambda case: case.name)
def test_lines_of_others_around_an_output_are_skipped(case, line):
    text = f"{line}\n{case.text.rstrip()}\n{line}\n{line}\n"
    assert values(case.parse(text)) == values(case.parse(case.text))


@pytest.mark.parametrize("document, parse", [("ior", parse_ior), ("storage", parse_storage)])
def test_a_document_that_lost_a_line_is_not_called_foreign(document, parse):
    lines = recorded(document).splitlines(True)
    place = next(number for number, line in enumerate(lines) if line.strip() == "{") + 1
    text = "".join(line for number, line in enumerate(lines) if number != place)
    with pytest.raises(ParseError, match="lines were lost"):
        parse(text.replace("]", "", 1))


def test_namd_of_a_revision_is_namd():
    text = namd().replace("NAMD 2.14", "NAMD Git-2023-02-10")
    [run] = parse_namd(text)
    assert run.facts["application"] == "NAMD Git-2023-02-10 for Linux-x86_64-MPI"
