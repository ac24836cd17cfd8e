"""`nearmetal compare` on recorded sessions: the table, and what it refuses to be silent about."""

import re
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.compare import nearness, scaling, side_by_side
from nearmetal.model import naming
from nearmetal.model.facts import factors_that_differ
from nearmetal.util import suggest
from nearmetal.util.text import number
from tests.support.campaigns import campaign
from tests.support.recorded import session, store
from tests.support.said import lacking

COLUMNS = ["native", "passthrough", "emulated"]


@pytest.mark.parametrize(
    "check, shown",
    [
        ("npb %benchmark=cg %.size=1", "npb benchmark=cg .size=1"),
        ("hpcg %spec=hpcg@3.1 %gcc@12", "hpcg spec=hpcg@3.1 %gcc@12"),
        ("hpcg %spec=%gcc@12 %threads=2", "hpcg spec=%gcc@12 threads=2"),
    ],
)
def test_a_name_loses_the_percent_signs_of_its_parameters_alone(check, shown):
    assert naming.plain(check) == shown


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Runs the command on a database of the given sessions: (exit code, output, errors)."""

    def run(*arguments, sessions=("session_lab",)):
        database = tmp_path / "results.db"
        if sessions:
            store(database, *(s if isinstance(s, dict) else session(s) for s in sessions))
        monkeypatch.setattr(
            "sys.argv", ["nearmetal", "compare", "--database", str(database), *arguments]
        )
        code = main()
        return (code, *capsys.readouterr())

    return run


def test_rows_are_check_mpi_and_variable_and_columns_partitions_and_ratios():
    found, missing = side_by_side.table(
        results.parse_session(session("session_lab"), "here"), COLUMNS
    )
    rows = [cells(row) for row in found]
    assert missing == [] and len(rows) == 8
    assert rows[0][:4] == ["pingpong %placement=internode", "openmpi", "startup_latency", "us"]
    assert {row[1] for row in rows} == {"openmpi", "mpich"}
    for row in rows:
        native, passthrough, emulated, *overheads = row[4:]
        ratios = [passthrough / native, emulated / native]
        if row[3] == "Gb/s":  # a rate: above 1 is worse here too
            ratios = [native / passthrough, native / emulated]
        assert overheads == ratios


def session_of(values: list[results.Value]) -> results.Session:
    """A session with a case for each partition."""
    cases = []
    for place in dict.fromkeys(value.partition for value in values):
        own = tuple(value for value in values if value.partition == place)
        cases.append(results.Case("npb", place, "openmpi", own, {}, {}, None, None))
    return results.Session("0", "", "lab", tuple(cases))


def cells(row) -> list:
    """A row as it is printed."""
    return [*row.key, *(value and value.value for value in row.values), *row.overheads]


def test_a_loss_of_parallel_efficiency_is_a_row_of_its_own():
    measured = [
        results.Value("npb", "openmpi", partition, "efficiency_B_16", value, "% of ideal")
        for partition, value in zip(COLUMNS, (95.0, 93.0, 81.0))
    ]
    rows, missing = side_by_side.table(session_of(measured), COLUMNS)
    assert missing == [] and cells(rows[1]) == [
        "npb",
        "openmpi",
        "efficiency_loss_B_16",
        "points",
        None,
        2.0,
        14.0,
        None,
        None,
    ]


def test_a_speed_up_stands_beside_its_parallel_efficiency():
    """Of 2 and 8 processes: 8 at 80 % are 3.2 times as fast as 2."""
    measured = [
        results.Value("npb", "openmpi", partition, *value)
        for partition, share in (("native", 80.0), ("emulated", 40.0))
        for value in (
            ("mops_B_2", 100.0, "Mop/s", (99.0, 101.0)),
            ("efficiency_B_8", share, "% of ideal", (share, share + 10)),
            ("efficiency_B_8x4", share, "% of ideal", (share,)),
        )
    ]
    found, missing = side_by_side.table(session_of(measured), ["native", "emulated"])
    rows = [cells(row) for row in found]
    [row] = [row for row in rows if row[2].startswith("speedup_")]
    assert row == ["npb", "openmpi", "speedup_B_8", "x fewest processes", 3.2, 1.6, 2.0]
    assert missing == [] and rows[rows.index(row) - 2][2] == "efficiency_B_8"
    [one, _] = [
        value
        for partition in ("native", "emulated")
        for value in scaling.with_speedups(v for v in measured if v.partition == partition)
        if value.variable == "speedup_B_8"
    ]
    assert one.samples == pytest.approx((3.2, 3.6)) and one.lower_is_better is False


@pytest.mark.parametrize("variable", ["mops_B_2x4", "mops_A_2", "efficiency_B_2"])
def test_an_efficiency_without_its_fewest_processes_has_no_speed_up(variable):
    values = [
        results.Value("npb", "openmpi", "native", variable, 1.0, "Mop/s"),
        results.Value("npb", "openmpi", "native", "efficiency_B_8", 80.0, "% of ideal"),
    ]
    assert list(scaling.with_speedups(values)) == values


BOUND = {"bound": (100.0, 101.0), "unbound": (110.0, 111.0)}


def of_binding(kind: str, unit: str = "s") -> results.Case:
    check = f"npb_mz %benchmark=bt-mz %threads_are={kind}"
    value = results.Value(
        check, "openmpi", "kvm", "elapsed_C_1x8", BOUND[kind][0], unit, BOUND[kind]
    )
    return results.Case(check, "kvm", "openmpi", (value,), {}, {}, None, None)


def test_bound_and_unbound_stand_side_by_side():
    both = results.Session("0", "", "aist", (of_binding("bound"), of_binding("unbound")))
    [pair] = side_by_side.bindings(both)
    assert pair.check == "npb_mz %benchmark=bt-mz"
    assert (pair.bound.value, pair.unbound.value) == (100.0, 110.0)
    text, _ = side_by_side.render(both, ["kvm"])
    [head, _, row] = text.splitlines()[-3:]
    assert head.split()[-4:] == ["bound", "unbound", "overhead", "unbound"]
    case = "npb_mz benchmark=bt-mz openmpi kvm elapsed_C_1x8 s"
    assert " ".join(row.split()) == f"{case} 100.0 ±1 % 110.0 ±1 % 1.10"


def test_one_binding_alone_has_nothing_beside_it():
    alone = results.Session("0", "", "aist", (of_binding("bound"), of_binding("unbound", "min")))
    assert list(side_by_side.bindings(alone)) == []
    assert "unbound" not in side_by_side.render(replace(alone, cases=alone.cases[:1]), ["kvm"])[0]


def test_the_command_prints_the_table(command):
    code, out, err = command("--system", "lab")
    assert (code, err) == (0, "")
    assert out.splitlines()[2].startswith("share of native left")  # nearness is first
    [header] = [line for line in out.splitlines() if line.startswith("check ")]
    assert header.split() == [
        "check",
        "environment",
        "variable",
        "unit",
        *COLUMNS,
        *("overhead", "passthrough", "overhead", "emulated"),
    ]
    assert "published ratio" not in out  # of one system
    assert "peak_bandwidth" in out and "session df3577eb" in out


def test_the_newest_session_with_a_case_is_taken_and_an_id_chooses(command):
    older, newer = session("session_lab"), session("session_lab")
    newer["session_info"] |= {
        "uuid": "newer",
        "time_start_unix": older["session_info"]["time_start_unix"] + 1,
    }
    empty = session("session_lab")
    empty["session_info"] |= {
        "uuid": "empty",
        "time_start_unix": older["session_info"]["time_start_unix"] + 2,
    }
    empty["runs"][0]["testcases"] = []
    assert "session newer on lab" in command(sessions=(older, newer, empty))[1]


def test_a_failed_case_is_named_and_the_code_says_incomplete(command):
    code, out, err = command(sessions=("session_failed",))
    assert (code, out) == (2, "")
    assert "holds no value" in err
    assert (
        not lacking(err, "pingpong %placement=internode", "native", "mpich", "job blocked error")
        and "DOWN, DRAINED" in err
    )


def test_a_value_that_is_missing_is_named(command):
    data = session("session_lab")
    [case] = [
        c
        for c in data["runs"][0]["testcases"]
        if (c["partition"], c["environ"]) == ("emulated", "mpich")
    ]
    case |= {
        "result": "fail",
        "fail_reason": "build error: exit code: 1\n--- rfm_build.err ---\n-----\nno compiler\n",
    }
    code, out, err = command(sessions=(data,))
    assert code == 2
    assert not lacking(err, "mpich", "exit code: 1", "no compiler")
    assert err.count("on emulated") == 5  # the case and its four variables
    assert out.split().count("-") == 8  # each without value and ratio


def test_a_value_beyond_its_reference_counts_and_is_marked(command):
    data = session("session_lab")
    [case] = [
        c
        for c in data["runs"][0]["testcases"]
        if (c["partition"], c["environ"]) == ("emulated", "mpich")
    ]
    case |= {
        "result": "fail",
        "fail_reason": "performance error: 0.93 Gb/s is 9 % of the link's 10 Gb/s",
        "fail_phase": "performance",
    }
    code, out, err = command(sessions=(data,))
    assert code == 1
    assert not lacking(err, "beyond its reference", "9 % of the link's 10 Gb/s")
    assert "missing" not in err and out.count(" !") == 4  # one for each variable
    # The worst value does not make the partition look nearer.
    near = out[: out.index("check")]
    case |= {"result": "pass", "fail_reason": None, "fail_phase": None}
    passed = results.parse_session(data, "here")
    assert nearness.render(nearness.to_base(passed, side_by_side.columns(passed, None))) in near


def test_columns_choose_partitions_and_the_base(command):
    code, out, _ = command("--columns", "emulated,native")
    assert code == 0 and "overhead native" in out and "passthrough" not in out


def test_the_spread_over_launches_can_be_shown(command):
    _, out, _ = command("--spread")
    assert re.search(r"openmpi +startup_latency +us +14\.21 ±\d+ % ", out)
    assert side_by_side.spread((1.0, 3.0)) == " ±71 %" and side_by_side.spread((5.0,)) == ""


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--session", "nope"], "no session nope"),
        (["--system", "elsewhere"], "no session on system elsewhere"),
    ],
)
def test_a_session_that_is_not_there_is_an_input_error(command, arguments, message):
    code, out, err = command(*arguments)
    assert (code, out) == (3, "") and message in err


@pytest.mark.parametrize(
    "text, facts",
    [
        ("native,foo", ["no partition foo", "native, passthrough"]),
        ("native,emulatd", ["no partition emulatd", "did you mean emulated?"]),
        ("Native", ["no partition Native", "did you mean native?"]),
        ("foo,bar", ["no partition foo, bar"]),
        ("native,", ["an entry is empty", "native, passthrough, emulated"]),
        ("", ["an entry is empty"]),
        (" , ", ["an entry is empty"]),
        ("native,emulated,native", ["native is there twice"]),
    ],
)
def test_columns_that_cannot_be_are_one_line_of_bad_usage(command, text, facts):
    code, out, err = command("--columns", text)
    assert (code, out) == (3, "") and len(err.splitlines()) == 1
    assert all(fact in err for fact in ["--columns", *facts]), err


def test_columns_may_have_blanks(command):
    code, out, _ = command("--columns", "native, emulated")
    assert code == 0 and "overhead emulated" in out


def test_a_partition_whose_cases_all_failed_is_known(command):
    data = session("session_lab")
    for case in data["runs"][0]["testcases"]:
        if case["partition"] == "emulated":
            case |= {"result": "fail", "fail_reason": "no", "fail_phase": "run"}
    code, _, err = command("--columns", "native,emulated", sessions=(data,))
    assert code == 2 and "pingpong %placement=internode on emulated" in err


@pytest.mark.parametrize(
    "arguments, facts",
    [
        (["--system", "lap"], ["on system lap", "the systems are lab", "did you mean lab?"]),
        (["--system", ""], ["no session on system", "the systems are lab"]),
        (["--session", "df3578eb"], ["no session df3578eb", "did you mean df3577eb?"]),
        (["--session", ""], ["no session", "df3577eb"]),
        (["--session", "df35", "--system", "ec2"], ["of system lab, not of ec2"]),
    ],
)
def test_a_name_that_is_not_there_gets_what_there_is(command, arguments, facts):
    code, out, err = command(*arguments)
    assert (code, out) == (3, "") and len(err.splitlines()) == 1
    assert all(fact in err for fact in facts), err


def test_many_unknown_names_are_listed_in_part():
    names = [f"partition{number:02}" for number in range(40)]
    found = suggest.unknown("partition4", names)
    assert "and 28 more" in found and "did you mean partition" in found
    assert suggest.unknown("x", []) == "there is none"


def test_another_format_is_refused(command):
    data = session("session_lab")
    data["session_info"]["data_version"] = "5.0"
    code, _, err = command(sessions=(data,))
    assert code == 2 and "5.0, but 4.x" in err


def test_no_database_says_what_to_run(tmp_path):
    with pytest.raises(results.ResultsError, match="run `reframe"):
        results.load_session(tmp_path / "results.db")
    (tmp_path / "results.db").write_text("this is no database, by far")
    with pytest.raises(results.ResultsError, match="not a results database"):
        results.load_session(tmp_path / "results.db")


def test_bad_usage_is_3_and_help_teaches(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["nearmetal", "compare", "--bogus"])
    assert main() == 3
    monkeypatch.setattr("sys.argv", ["nearmetal", "compare", "--help"])
    assert main() == 0
    assert not lacking(capsys.readouterr().out, "exit codes: 0", "1 a regression", "2 no verdict")


@pytest.mark.parametrize(
    "value, text",
    [
        (19645.9, "19646"),
        (0.2029, "0.2029"),
        (1744.0, "1744"),
        (8.484, "8.484"),
        (99.999, "100.0"),
        (None, "-"),
    ],
)
def test_four_digits_and_no_exponent(value, text):
    assert number(value) == text


def test_two_sessions_stand_side_by_side(command):
    ids = [campaign(number)["session_info"]["uuid"] for number in (1, 2)]
    words = [word for uuid in ids for word in ("--session", uuid)]
    code, out, err = command(*words, sessions=[campaign(1), campaign(2)])
    assert (code, err) == (0, "")
    columns = [f"lab:{name}@{uuid[:8]}" for uuid in ids for name in COLUMNS]
    assert not lacking(out, *columns, "share of lab:native@00000001 left")
    chosen = "lab:emulated@00000001,lab:emulated@00000002"
    _, out, _ = command("--columns", chosen, *words, sessions=[])
    assert "share of lab:emulated@00000001 left" in out and "native" not in out


def test_factors_that_differ_between_sessions_are_rows_of_their_own(command):
    """Two sessions of one partition, with its vCPUs pinned and not."""
    first, second = campaign(1), campaign(2)
    for data, pinning in ((first, "not pinned"), (second, "pinned")):
        for case in data["runs"][0]["testcases"]:
            case["facts"] |= {"vcpu_pinning": pinning, "ksm": "off", "mtu": pinning}
    words = [f"--session={data['session_info']['uuid']}" for data in (first, second)]
    chosen = "lab:native@00000001,lab:native@00000002"
    _, out, _ = command("--columns", chosen, *words, sessions=[first, second])
    [row] = [line for line in out.splitlines() if line.startswith("vcpu_pinning")]
    assert re.split(r"\s{2,}", row) == ["vcpu_pinning", "not pinned", "pinned"]
    assert re.search(r"^differs +lab:native@00000001 +lab:native@00000002", out, re.M)
    assert not re.search(r"^ksm", out, re.M)


def test_an_emulated_processor_beside_a_real_one_is_said(command):
    """Guests whose processor is emulated do not compare with nodes."""
    session = campaign(1)
    _, out, _ = command(sessions=[session])
    assert "TCG" not in out
    for case in session["runs"][0]["testcases"]:
        emulated = case["partition"] == "emulated"
        case["facts"] |= {"accelerator": "tcg" if emulated else "none"}
    session["session_info"]["uuid"] = "00000000-0000-4000-8000-00000000abcd"
    _, out, _ = command(sessions=[session])
    [line] = [line for line in out.splitlines() if "TCG" in line]
    assert not lacking(line, "(TCG) of emulated", "that of native", "KVM")


def test_a_factor_of_one_session_alone_says_that_the_other_lacks_it():
    with_it, without = [{"ksm": "on"}, {"ksm": "off"}], [{}]
    assert factors_that_differ({"a": with_it, "b": without}) == [
        ("ksm", ["off | on", "not recorded"])
    ]
    assert factors_that_differ({"a": with_it, "b": with_it}) == []


def test_two_databases_stand_side_by_side(command, tmp_path):
    other = store(tmp_path / "other.db", campaign(2))
    code, out, _ = command("--database", str(other), sessions=[campaign(1)])
    assert code == 0 and not lacking(out, "lab:native@00000001", "lab:native@00000002")


def test_two_systems_stand_side_by_side(command):
    sessions = [campaign(1), campaign(2)]
    for data, system in zip(sessions, ("lab", "ours")):
        for case in data["runs"][0]["testcases"]:
            case["system"] = system
            case["display_name"] = case["display_name"].replace("internode", "intranode")
    code, out, _ = command("--system", "lab", "--system", "ours", sessions=sessions)
    assert code == 0 and not lacking(out, "lab:native@00000001", "ours:native@00000002")
    # The messaging paper's shared memory, on EC2 and on CAG.
    [published] = re.findall(r"^.* of ec2 cc to cag native +2 .*mpich +ours:emu.*$", out, re.M)
    assert published.endswith("lab:native@00000001")


def test_a_session_beside_itself_is_refused(command):
    uuid = campaign(1)["session_info"]["uuid"]
    code, _, err = command("--session", uuid, "--session", uuid, sessions=[campaign(1)])
    assert code == 3 and not lacking(err, uuid, "twice")
