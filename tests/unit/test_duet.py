"""Duets: the order of launches, what is refused, the verdicts on recorded sessions, and real ones
in the lab."""

import inspect
import re

import pytest
from reframe.core.environments import Environment

from nearmetal import results
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.duet import base
from nearmetal.checks.duet.variants import set_anew
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.duet import order, parse_duet
from nearmetal.cli import main
from nearmetal.judge import duet
from tests.support import foreign_sessions
from tests.support.campaigns import with_medians
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.measured import printed, rows
from tests.support.recorded import recorded, session, store
from tests.support.said import lacking

RECORDED = recorded("duet_pingpong")
MARK = "# nearmetal duet: pair={} variant={}\n"


def test_launches_come_in_neighbouring_pairs_and_a_drift_favours_nobody():
    turns = order(14)
    assert "".join(variant for _, variant in turns[:8]) == "abbaabba"
    assert [
        {turns[2 * pair], turns[2 * pair + 1]} == {(pair, "a"), (pair, "b")} for pair in range(14)
    ] == [True] * 14
    when = {
        variant: sum(position for position, (_, whose) in enumerate(turns) if whose == variant)
        for variant in "ab"
    }
    assert when["a"] == when["b"]


@pytest.mark.parametrize("pairs", [0, 1, 7, -2])
def test_a_number_of_pairs_in_which_drift_would_not_cancel_is_refused(pairs):
    with pytest.raises(ParseError, match="even number"):
        order(pairs)


def test_a_jobs_output_is_told_apart():
    launches = parse_duet(RECORDED, 2)
    assert [(launch.pair, launch.variant) for launch in launches] == order(2)
    libraries = {
        launch.variant: re.search("mpi_library: (.*)", launch.text)[1] for launch in launches
    }
    assert libraries["a"].startswith("Open MPI") and libraries["b"].startswith("MPICH")
    for launch in launches:
        assert (
            launch.text.count("# nearmetal program: pingpong")
            == launch.text.count("# nearmetal complete")
            == 1
        )


@pytest.mark.parametrize(
    "damage, words",
    [
        (
            lambda text: text[: text.rindex("# nearmetal duet")],
            "3 launches .* 4 .*A of pair 1",
        ),
        (
            lambda text: text.replace(MARK.format(0, "b"), MARK.format(0, "a")),
            "launch 2 .*A of pair 0 .*B of pair 0",
        ),
        (lambda text: text + MARK.format(2, "a") + "more\n", "5 launches instead of 4"),
        (
            lambda text: text.replace(MARK.format(1, "b"), ""),
            "launch 3 .*A of pair 1 .*B of pair 1",
        ),
        (
            lambda text: text[: text.rindex("# nearmetal duet")] + MARK.format(1, "a"),
            "A of pair 1 wrote nothing",
        ),
        (lambda text: "", "0 launches instead of 4"),
    ],
)
def test_a_launch_that_is_missing_or_out_of_turn_is_refused(damage, words):
    damaged = damage(RECORDED)
    assert damaged != RECORDED
    with pytest.raises(ParseError, match=words):
        parse_duet(damaged, 2)


def test_what_an_environment_adds_to_is_not_unset_for_the_other():
    variables = {
        "SLURM_MPI_TYPE": "pmix",
        "PATH": "/opt/bin:$PATH",
        "LD_LIBRARY_PATH": "/opt/lib:${LD_LIBRARY_PATH}",
        "PATHS": "$PATH",
    }
    assert set_anew(Environment("a", env_vars=variables.items())) == ["SLURM_MPI_TYPE", "PATHS"]


@pytest.fixture
def judged(tmp_path):
    """Writes a database of sessions and judges its newest duet: (text, what is missing, exit
    code)."""

    def run(*sessions, **which):
        database = store(tmp_path / "results.db", *map(with_medians, sessions))
        return printed(duet.load(database, **which))

    return run


def altered(name: str, **factors: float) -> dict:
    """A recorded session, the samples of these variables multiplied."""
    data = session(name)
    for case in data["runs"][0]["testcases"]:
        for variable, factor in factors.items():
            case["samples"][variable] = [factor * value for value in case["samples"][variable]]
    return data


def test_equal_halves_are_not_called_changed(judged):
    text, missing, _ = judged(session("session_duet_equal"))
    assert "environs A mpich, B mpich" in text and missing == () and "published" not in text
    assert len(rows(text)) == 4 and not re.search("regressed|improved", text)


def test_a_slower_half_is_found_and_a_faster_one_is_none(judged):
    variable = "startup_latency"
    text, _, code = judged(altered("session_duet_equal", **{f"{variable}_b": 8.0}))
    assert code == 1 and "regressed" in rows(text)[variable]


def test_more_bandwidth_is_an_improvement(judged):
    text, _, code = judged(altered("session_duet_equal", peak_bandwidth_b=8.0))
    assert code != 1 and "improved" in rows(text)["peak_bandwidth"]


def test_the_table_says_what_was_compared_and_how_each_variable_was_judged(judged):
    text, *_ = judged(session("session_duet_bindings"))
    assert not lacking(text, "stream_duet", "native", "gnu", "bindings A bound, B unbound")
    assert len(rows(text)) == 8 and not lacking(text, "less than 50%", "noise")
    # As measured: copy on one thread shares 0.56 of its noise, add 0.21.
    assert re.search(r"0\.56 \(.*\) +paired ", rows(text)["copy_1"])
    assert re.search(r"0\.21 \(.*\) +unpaired ", rows(text)["add_1"])


def test_curves_are_told_apart_and_printed_by_message_size(tmp_path, run):
    turns = parse_duet(RECORDED, 2)
    curves = base.by_variant({"half_round_trip_us": {1: [1.0, 2.0, 4.0, 3.0]}}, turns)
    assert curves == {
        "half_round_trip_us_a": {1: [1.0, 3.0]},
        "half_round_trip_us_b": {1: [2.0, 4.0]},
    }
    data = session("session_duet_equal")
    [case] = data["runs"][0]["testcases"]
    case["curves"] = {
        f"half_round_trip_us_{letter}": {
            "1": [3 * factor] * 14,
            "65536": [20 * factor + pair % 2 for pair in range(14)],
        }
        for letter, factor in (("a", 1), ("b", 1.5))
    }
    options = ("duet", "--database", store(tmp_path / "results.db", data))
    assert "65536" not in run(*options)[1]
    _, text, _ = run(*options, "--sizes")
    assert "with mpich: environs A mpich, B mpich: half_round_trip_us\n" in text
    assert re.search(r"^ +1 +3\.000 +4\.500 +\+50\.0 % +\+50\.0 % \.\. \+50\.0 %$", text, re.M)
    assert re.search(r"^ +65536 +20\.50 +30\.50 ", text, re.M)


def test_a_duet_without_message_sizes_says_which_have_some(tmp_path, run):
    database = store(tmp_path / "results.db", session("session_duet_bindings"))
    code, _, errors = run("duet", "--database", database, "--sizes")
    assert code == 3 and not lacking(errors, "no duet has values by message size", "pingpong_duet")


def test_what_was_published_of_the_two_stands_below(judged):
    data = session("session_duet_equal")
    [case] = data["runs"][0]["testcases"]
    case["facts"] |= {"duet.a": "openmpi", "duet.b": "mpj"}
    assert (
        "published: startup_latency 55-60 and 140 us, B/A 2.33-2.55 (OpenMPI 1.4.3 and FastMPJ "
        "0.1 (niodev) on ec2 cc; Evaluation of Messaging Middleware"
    ) in judged(data)[0]


@pytest.mark.parametrize(
    "facts, count",
    [
        ({}, 0),
        ({"compiler": "A: gcc 14.2.0 -O3; B: Debian Clang 19.1.7 -O3"}, 1),
        ({"compiler": "A: gcc; B: Clang", "mpi_library": "A: Open MPI; B: MPICH"}, 0),
    ],
)
def test_a_published_difference_of_compilers_stands_below_a_duet_of_compilers(judged, facts, count):
    data = session("session_duet_equal")
    data["runs"][0]["testcases"][0] |= {"display_name": "npb_duet %benchmark=cg", **facts}
    published = "published: < 4 % between two compilers (GNU 4.1.2 and Intel 12.1 compilers"
    assert judged(data)[0].count(published) == count


def test_what_noise_both_halves_share_is_judged_as_pairs_and_what_they_do_not_share_is_not(judged):
    data = session("session_duet_equal")
    [case] = data["runs"][0]["testcases"]
    common = [1 + 0.2 * (pair % 5) for pair in range(14)]
    for variable, other in (("startup_latency", common), ("latency_1KiB", common[3:] + common[:3])):
        case["samples"][f"{variable}_a"] = common
        case["samples"][f"{variable}_b"] = [
            value * (1 + 0.001 * (pair % 3)) for pair, value in enumerate(other)
        ]
    table = rows(judged(data)[0])
    assert " paired " in table["startup_latency"] and " unpaired " in table["latency_1KiB"]


def failed(data: dict) -> dict:
    for case in data["runs"][0]["testcases"]:
        case |= {
            "result": "fail",
            "fail_reason": "sanity error: B of pair 3: lines were lost",
            "fail_phase": "sanity",
            "perfvalues": {},
        }
    return data


def test_a_duet_that_failed_is_named_and_nothing_passes(judged):
    _, missing, code = judged(failed(session("session_duet_equal")))
    assert (
        code == 2
        and len(missing) == 1
        and not lacking(missing[0], "B of pair 3: ", "lines were lost", "B mpich")
    )


def test_a_launch_lost_from_the_database_is_named(judged):
    data = session("session_duet_equal")
    data["runs"][0]["testcases"][0]["samples"]["latency_1KiB_b"].pop()
    text, missing, code = judged(data)
    assert code in (1, 2) and not lacking(
        missing[0], "latency_1KiB: 14 samples of A", "13 of B", "pairs"
    )
    assert "latency_1KiB" not in rows(text)


@pytest.mark.parametrize("options", [[], ["--session", "00000001"], ["--system", "generic"]])
def test_a_database_of_other_suites_says_why_it_has_no_duet(tmp_path, run, options):
    database = store(tmp_path / "results.db", foreign_sessions.campaign(1, runs=2))
    code, said, errors = run("duet", "--database", database, *options)
    assert (code, said) == (3, "") and str(database) in errors
    assert not lacking(errors, "no duet: checks of others", "nearmetal compare", "nearmetal gate")


def test_duets_among_sessions_of_other_suites_are_judged(tmp_path, run):
    duets = store(tmp_path / "duets.db", session("session_duet_equal"))
    others = store(tmp_path / "others.db", foreign_sessions.campaign(400, runs=2))
    code, said, _ = run("duet", "--database", others, "--database", duets)
    assert code == 2 and said.startswith("session f92810e7")  # inconclusive, as recorded
    code, _, errors = run("duet", "--database", others, "--database", duets, "--system", "generic")
    assert code == 3 and "no duet: checks of others" in errors


def test_a_database_without_a_duet_says_how_to_run_one(judged):
    with pytest.raises(results.ResultsError, match=r"no duet.*`reframe -c reframe_checks/duet -r`"):
        judged(session("session_lab"))


def test_a_campaign_is_not_mistaken_for_a_duet_nor_a_duet_for_a_campaign(
    tmp_path, monkeypatch, capsys
):
    campaign, pair = session("session_lab"), session("session_duet_equal")
    assert campaign["session_info"]["time_start_unix"] < pair["session_info"]["time_start_unix"]
    database = store(tmp_path / "results.db", campaign, pair)
    assert results.load_session(database).uuid == campaign["session_info"]["uuid"]
    assert [one.uuid for one in results.sessions(database)] == [campaign["session_info"]["uuid"]]
    monkeypatch.setattr("sys.argv", ["nearmetal", "duet", "--database", str(database)])
    assert main() == 2  # inconclusive, as recorded
    assert f"session {pair['session_info']['uuid']} on lab" in capsys.readouterr().out
    monkeypatch.setattr(
        "sys.argv", ["nearmetal", "duet", "--since", "2030-01-01", "--database", str(database)]
    )
    assert main() == 2
    assert "selection match nothing" in capsys.readouterr().err
    monkeypatch.setattr(
        "sys.argv", ["nearmetal", "duet", "--system", "ec2", "--database", str(database)]
    )
    assert main() == 3
    assert not lacking(capsys.readouterr().err, "no duet", "ec2")


def test_what_a_duet_keeps_of_itself_hides_no_method_of_a_check():
    text = inspect.getsource(base)
    kept = set(re.findall(r"self\.(\w+)(?:: \w+)? = ", text))
    assert "_facts_of_duet" in kept
    assert not {name for name in kept if callable(getattr(NearmetalCheck, name, None))}
