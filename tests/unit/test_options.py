"""ReFrame's own options in stored sessions: what `--repeat`, `--distribute`, `-P`, `--reruns`,
`--duration` and retries make of a case, and which cases a command line selects."""

import copy
import hashlib
import os
import shlex
import statistics
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.compare import side_by_side
from nearmetal.judge import baseline, history, record, selection
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.expected import Expectations, with_deviations
from nearmetal.model import naming
from nearmetal.results import reruns
from nearmetal.util import command
from tests.support.campaigns import campaign, only
from tests.support.judging import judge_session

CASE = "pingpong %placement=internode", "native", "openmpi"
NODES = ("n1", "n2")


def clones(data: dict, added: list[str]) -> dict:
    """The session as ReFrame stores it with `added` parameters, one clone for each."""
    data = copy.deepcopy(data)
    run = data["runs"][0]
    run["testcases"] = [
        copy.deepcopy(case)
        | {"display_name": f"pingpong {one.format(case['partition'])} %placement=internode"}
        for one in added
        for case in run["testcases"]
    ]
    data["session_info"]["num_cases"] = len(run["testcases"])
    return data


def session_of(runs: list[dict], options: str = "") -> results.Session:
    """A session whose runs are those of these sessions, run with further options."""
    data = copy.deepcopy(runs[0])
    data["runs"] = [copy.deepcopy(one["runs"][0]) for one in runs]
    data["session_info"]["cmdline"] += f" {options}"
    return results.parse_session(data, "here")


def failing(data: dict, chosen=lambda case: True, **outcome) -> dict:
    """The session with the chosen cases failed."""
    data = copy.deepcopy(data)
    outcome = {"result": "fail", "fail_reason": "a rank hangs", "fail_phase": "sanity", **outcome}
    for case in filter(chosen, data["runs"][0]["testcases"]):
        case.update(outcome)
        if outcome["fail_phase"] != "performance":
            case.update(perfvalues={}, samples={})
    return data


def first(case: dict) -> bool:
    return (case["partition"], case["environ"]) == CASE[1:]


def found(session: results.Session) -> results.Case:
    [case] = [case for case in session.cases if case.key == CASE]
    return case


@pytest.fixture(scope="module")
def known(tmp_path_factory) -> Baseline:
    """A baseline of twelve sessions of five launches at 2 %."""
    path = tmp_path_factory.mktemp("baselines") / "lab.yaml"
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    return record.record(sessions, Baseline("lab", path, {}))[0]


@pytest.mark.parametrize(
    "display, check, plain, node, repeat, varied",
    [
        ("tcp", "tcp", "tcp", "", 0, {}),
        ("tcp %.repeat_no=11", "tcp", "tcp", "", 11, {}),
        (
            "npb %.repeat_no=1 %.part=lab:cc %.nid=nid00[7] %benchmark=cg",
            "npb %benchmark=cg",
            "npb %benchmark=cg",
            "nid00[7]",
            1,
            {},
        ),
        ("tcp %.sizes=1,2 %a=b", "tcp %.sizes=1,2 %a=b", "tcp %a=b", "", 0, {"sizes": "1,2"}),
        ("tcp %.words=a b %c=d", "tcp %.words=a b %c=d", "tcp %c=d", "", 0, {"words": "a b"}),
    ],
)
def test_a_display_name_is_taken_apart(display, check, plain, node, repeat, varied):
    name = naming.parse(display)
    assert (name.check, name.plain, name.node, name.repeat, name.varied) == (
        check,
        plain,
        node,
        repeat,
        varied,
    )


def test_clones_of_repeat_are_one_case_with_all_launches():
    plain = results.parse_session(campaign(1), "here")
    session = results.parse_session(
        clones(campaign(1), [f"%.repeat_no={number}" for number in range(3)]), "here"
    )
    assert [case.key for case in session.cases] == [case.key for case in plain.cases]
    case, once = found(session), found(plain)
    assert (case.runs, case.node, case.place, case.failure) == (3, "", "native", None)
    for value, one in zip(case.values, once.values):
        assert value.samples == one.samples * 3
        assert value.value == pytest.approx(statistics.median(value.samples), rel=1e-5)
    assert session.promised == len(session.cases)


def test_launches_that_a_check_does_not_store_are_one_a_clone():
    data = clones(campaign(1), ["%.repeat_no=0", "%.repeat_no=1"])
    for number, case in enumerate(data["runs"][0]["testcases"]):
        case["samples"] = {}
        for entry in case["perfvalues"].values():
            entry[0] = float(number + 1)
    values = found(results.parse_session(data, "here")).values
    assert {len(value.samples) for value in values} == {2}


def test_a_case_of_distribute_is_one_a_node_and_judged_by_its_partitions_baseline(known):
    data = clones(campaign(100), [f"%.part=lab:{{}} %.nid={node}" for node in NODES])
    data["session_info"]["cmdline"] += " --distribute"
    for case in data["runs"][0]["testcases"]:
        if "nid=n2" in case["display_name"] and first(case):
            for name, values in case["samples"].items():
                if name == "startup_latency":
                    case["samples"][name] = [1.5 * value for value in values]
                    case["perfvalues"]["lab:native:startup_latency"][0] *= 1.5
    session = results.parse_session(data, "here")
    assert Counter(case.node for case in session.cases) == {"n1": 6, "n2": 6}
    report = judge_session(session, known)
    [bad] = [one for one in report.verdicts if one.name == "regressed"]
    assert (bad.place, bad.node, bad.key) == ("native@n2", "n2", CASE)
    assert len(report.verdicts) == 48
    columns = side_by_side.columns(session, "native")
    assert sorted(columns) == ["native@n1", "native@n2"]
    assert side_by_side.table(session, columns)[1] == []
    assert {key[1] for key in history.series([session])} == {
        f"{partition}@{node}"
        for partition in ("native", "passthrough", "emulated")
        for node in NODES
    }


def test_a_node_without_its_case_is_incomplete(known):
    data = clones(campaign(100), [f"%.part=lab:{{}} %.nid={node}" for node in NODES])
    data["session_info"]["cmdline"] += " --distribute"
    cases = data["runs"][0]["testcases"]
    data["runs"][0]["testcases"] = [
        case for case in cases if not (first(case) and "nid=n2" in case["display_name"])
    ]
    report = judge_session(results.parse_session(data, "here"), known)
    assert "1 of the 12 cases" in "".join(one.reason for one in report.verdicts)
    assert report.exit_code == 2
    # No node of the partition was there to run it.
    gone = only(data, lambda case: case["partition"] != "native")
    report = judge_session(results.parse_session(gone, "here"), known)
    assert CASE in {one.key for one in report.verdicts if one.name == "incomplete"}


def test_what_p_sets_is_a_case_of_its_own_and_not_the_baselines(known):
    data = clones(campaign(100), ["%.max_time=0.1", "%.max_time=0.2"])
    data["session_info"]["cmdline"] += " -P max_time=0.1,0.2"
    session = results.parse_session(data, "here")
    assert {case.check for case in session.cases} == {
        f"pingpong %.max_time={value} %placement=internode" for value in ("0.1", "0.2")
    }
    report = judge_session(session, known)
    assert {one.name for one in report.verdicts} == {"not judged"}
    assert all("-P" in one.reason for one in report.verdicts)


@pytest.mark.parametrize("added, option", [("%.nid=n1", "--distribute"), ("%.max_time=0.1", "-P")])
def test_a_baseline_is_not_recorded_from_what_is_not_a_partitions_check(
    added, option, known, tmp_path
):
    session = results.parse_session(clones(campaign(100), [added]), "here")
    with pytest.raises(baseline.BaselineError, match=option):
        record.record([session], known)


def test_a_baseline_can_be_recorded_from_repeated_cases(known):
    data = clones(campaign(100), [f"%.repeat_no={number}" for number in range(4)])
    after, _ = record.record([results.parse_session(data, "here")], known)
    assert after.entries[CASE].noise["startup_latency"].launches == 20


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_failure_among_reruns_is_the_cases(number):
    runs = [campaign(1), campaign(1), campaign(1)]
    runs[number] = failing(runs[number], first)
    session = session_of(runs, "--reruns=2")
    case = found(session)
    assert case.runs == 3 and not case.measured
    assert f"run {number + 1} of 3: a rank hangs" in case.failure
    assert case in session.failures
    others = [case for case in session.cases if case.key != CASE]
    assert all(len(v.samples) == 15 for case in others for v in case.values)


def test_a_failure_of_every_case_of_a_run_is_not_a_retry_where_none_was_asked_for():
    runs = [failing(campaign(1)), campaign(1)]
    assert all("run 1 of 2" in case.failure for case in session_of(runs, "--reruns=1").cases)
    retried = session_of(runs, "--max-retries=1").cases
    assert all(case.failure is None and case.runs == 1 for case in retried)


def test_retries_come_before_reruns():
    """`--max-retries=2 --reruns=1`: a retry holds what failed, and the rerun everything."""
    runs = [failing(campaign(1), first), only(campaign(1), first), campaign(1)]
    session = session_of(runs, "--max-retries=2 --reruns=1")
    assert {case.runs for case in session.cases} == {2} and not session.failures
    runs[2] = failing(campaign(1), first)
    assert "run 2 of 2" in found(session_of(runs, "--max-retries=2 --reruns=1")).failure


def test_a_case_that_is_beyond_its_reference_in_one_run_is_judged_with_all_launches():
    runs = [campaign(1), failing(campaign(1), first, fail_phase="performance")]
    case = found(session_of(runs, "--reruns=1"))
    assert case.failure and case.phase == "performance" and case.measured
    assert len(case.values[0].samples) == 10


def test_a_run_that_the_end_of_duration_cut_off_is_none():
    cut = failing(campaign(1), result="abort", fail_reason=reruns.OUT_OF_TIME, fail_phase="run")
    session = session_of([campaign(1), only(cut, first)], "--duration=1m")
    assert found(session).failure is None and found(session).runs == 1
    # Where no run came to its end, nothing is known of the case.
    assert found(session_of([cut], "--duration=1m")).failure == reruns.OUT_OF_TIME


def test_facts_that_differ_between_runs_are_both_named():
    one, other = campaign(1), campaign(1, kernel="7.0.0")
    for data, node in ((one, "n1"), (other, "n2")):
        for case in data["runs"][0]["testcases"]:
            case["facts"] = {**(case["facts"] or {}), "nodes": [node]}
    facts = found(session_of([one, other], "--reruns=1")).facts
    assert facts["nodes"] == ["n1", "n2"] and facts["kernel"].endswith(" | 7.0.0")


# What a command line selects.


def keys(known, options: str, asked: dict | None = None, directory: str = "") -> set:
    data = campaign(100)
    data["session_info"]["cmdline"] = f"reframe {options}"
    data["session_info"]["workdir"] = directory
    if asked:
        for case in data["runs"][0]["testcases"]:
            case["selection"] = asked
    return selection.promised(results.parse_session(data, "here"), known)


@pytest.mark.parametrize(
    "options, count",
    [
        ("-r", 6),
        ("-rp mpich", 3),
        ("-rpmpich", 3),
        ("-r --prg mpich", 3),
        ("-r --prgenv=mpich -p openmpi", 6),
        ("-r --prgenv '^open|^mpi'", 6),
        ("-r -p pich", 0),
        ("-rnpong", 6),
        ("-r -n tcp -n pong", 6),
        ("-r -n 'tcp|pong'", 6),
        ("-r --name=pingpong%placement=inter", 6),
        ("-r --name=pingpong%placement=intra", 0),
        ("-r -xpong", 0),
        ("-r --exclude=tcp", 6),
        ("-r --system=lab:native", 2),
        ("-r --sys lab:native -Spingpong.repeats=3 -Jnodelist=n1", 2),
        ("-r -P max_time=0.1,0.2", 6),
        ("-r -P placement=intranode", 0),
        ("-r -P 'pingpong.placement=intranode;internode' --param-values-delim=';'", 6),
        ("-r --distribute --repeat 3 --reruns=2", 6),
    ],
)
def test_a_command_selects_what_reframe_takes_it_for(known, options, count):
    chosen, note = keys(known, options)
    assert len(chosen) == count and note == ""


def test_a_case_is_selected_by_the_hash_that_reframe_prints_of_it(known):
    # ReFrame 4.10.4 lists it as `pingpong %placement=internode /HASH`.
    name = selection._hashcode(CASE[0])
    assert len(keys(known, f"-r -n /{name}")[0]) == 6 and keys(known, "-r -n /00000000")[0] == set()


def test_the_hash_of_a_case_minds_values_with_a_percent_sign():
    # ReFrame's own hash: of the name and the sorted parameters, joined.
    check = "osu %spec=osu %gcc@12 %size=8"
    text = "osu" + "size=8" + "spec=osu %gcc@12"
    assert selection._hashcode(check) == hashlib.sha256(text.encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    "options",
    ["-rt mpi", "-r --tag=mpi", "-r --mode=nightly", "-r -E num_nodes==2", "-r -n pingpong@0"],
)
def test_what_only_reframe_knows_is_said(known, options):
    chosen, note = keys(known, options)
    assert chosen == set() and "only ReFrame can evaluate" in note


@pytest.mark.parametrize("options", ["-r --nosuch", "-r 'unclosed", "-r -n", "--help", "-r -n '('"])
def test_a_command_that_cannot_be_read_is_said(known, options, capfd):
    chosen, note = keys(known, options)
    assert chosen == set() and "cannot be read" in note
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("option", ["-n", "-x", "-p"])
def test_a_stored_expression_without_end_is_given_up_and_named(known, monkeypatch, option):
    monkeypatch.setattr(selection, "PATIENCE", 0.1)
    pattern = f"{'(.*)' * 60}!"
    chosen, note = keys(known, f"-r {option} '{pattern}'")
    assert chosen == set() and "takes too long" in note and f"({pattern})" in note
    assert "missing case is not noticed" in note
    asked = {"system": "lab", "environs": [pattern], "paths": []}
    assert f"({pattern})" in keys(known, "-r", asked)[1]


@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 3000 + ")" * 3000])
@pytest.mark.parametrize("option", ["-n", "-p"])
def test_a_stored_expression_that_is_too_large_is_said(known, option, pattern):
    chosen, note = keys(known, f"-r {option} '{pattern}'")
    assert chosen == set() and "cannot be read" in note


def test_without_a_time_limit_no_stored_expression_is_evaluated(known):
    with ThreadPoolExecutor() as pool:
        chosen, note = pool.submit(keys, known, "-r").result()
    assert chosen == set() and "outside the main thread" in note


def test_no_file_of_a_stored_command_is_waited_for(known, tmp_path):
    os.mkfifo(tmp_path / "fifo.py")
    for path in ("/dev/zero", tmp_path / "fifo.py", tmp_path, "gone\0.py"):
        asked = {"system": "", "environs": [".*"], "paths": [str(path)]}
        chosen, note = keys(known, f"-c {path} -r", None if path is tmp_path else asked)
        assert chosen == set() and "cannot be read" in note and "not noticed" in note


def test_a_stored_directory_of_endless_files_is_given_up(known, monkeypatch):
    monkeypatch.setattr(selection, "PATIENCE", 0.05)
    chosen, note = keys(known, "-c / -r")
    assert chosen == set() and "takes too long to evaluate (the files of -c)" in note


def test_what_was_selected_by_variables_is_read_from_the_cases(known):
    asked = {"system": "lab:native", "environs": ["mpich"], "paths": []}
    assert keys(known, "-r", asked)[0] == {(CASE[0], "native", "mpich")}


def test_a_file_of_checks_promises_the_checks_that_it_defines(known, tmp_path):
    (tmp_path / "pingpong.py").write_text("import reframe\n\n\nclass pingpong(Base):\n    pass\n")
    (tmp_path / "tcp.py").write_text("import reframe\n\n\nclass tcp(Base):\n    pass\n")
    where = str(tmp_path)
    assert len(keys(known, "-c pingpong.py -r", directory=where)[0]) == 6
    assert len(keys(known, "-rc tcp.py -cpingpong.py", directory=where)[0]) == 6
    assert keys(known, "-c tcp.py -r", directory=where)[0] == set()
    assert len(keys(known, "-c . -r", directory=where)[0]) == 6
    chosen, note = keys(known, "-c gone.py -r", directory=where)
    assert chosen == set() and f"{where}/gone.py" in note


def test_a_directory_of_another_suite_promises_the_checks_that_it_defines(known, tmp_path):
    """One database holds several suites. Of our own, a check whose file is gone is missing."""
    for suite, name in (("ours", "pingpong"), ("theirs", "stream_test")):
        (tmp_path / suite).mkdir()
        (tmp_path / suite / "check.py").write_text(f"class {name}(Base):\n    pass\n")
    assert len(keys(known, "-c ours -r", directory=str(tmp_path))[0]) == 6
    chosen, note = keys(known, "-c theirs -r -x pingpong", directory=str(tmp_path))
    assert (chosen, note) == (set(), "")
    data = campaign(100)
    data["session_info"] |= {"cmdline": "reframe -c theirs -r", "workdir": str(tmp_path)}
    del data["runs"][0]["testcases"][1:]
    chosen, note = selection.promised(results.parse_session(data, "here"), known)
    assert chosen == set() and note == "in the baseline, but in no file of -c: pingpong"
    asked = {"system": "", "environs": [".*"], "paths": [str(tmp_path / "theirs")]}
    assert len(keys(known, "-c theirs -r", asked)[0]) == 6


def test_options_are_written_as_reframe_reads_them():
    line = (
        "reframe -rp mpich -nfoo -n 'a b' -x q -vv --distribute -J'--foo bar' "
        "--performance-report --timestamp --max-retries 2 -S x='a=b c'"
    )
    asked = command.parse(line)
    words = [word for option in asked.actions() for word in command.words_of(*option)]
    again = command.parse(shlex.join(["reframe", *words]))
    assert again == asked and asked.given("prgenv") == ["mpich"] and asked.given("repeat") is None


def test_what_deviates_on_one_node_deviates_there_alone(known):
    data = clones(campaign(100), [f"%.part=lab:{{}} %.nid={node}" for node in NODES])
    data["session_info"]["cmdline"] += " --distribute"
    for case in data["runs"][0]["testcases"]:
        if "nid=n2" in case["display_name"] and first(case):
            case["compiler"] = "gcc 14.2.0 -O0"
    session = results.parse_session(data, "here")
    beyond = Expectations.of("lab").deviations(session)
    judged = judge_session(session, known)
    for variable in ("", "startup_latency"):
        of = [replace(one, variable=variable) for one in beyond]
        bad = [one for one in with_deviations(judged, of) if one.name == "deviates"]
        assert {(one.place, one.variable) for one in bad} == {("native@n2", variable)}
