"""Every setting of every check: the command line wins, then a site's files, then the default."""

import importlib
import inspect
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from reframe.core.exceptions import SanityError

from nearmetal.checks import settings as module
from nearmetal.checks.settings import MESSAGE_SIZES, NUMBERS, Allowed
from nearmetal.model import catalogue
from nearmetal.site import selection, system
from tests.support.paths import CHECKOUT

PACKAGE = CHECKOUT / "reframe_checks"
SCHEMA = system.schema()
#: Values of a setting with a pattern: one for the site's file, one for the command line.
TEXTS = {
    NUMBERS: ("1,4", "1,2"),
    MESSAGE_SIZES: ("1,1024,65536", "1024,65536"),
    r"^[\w.-]+(/\d+)?$": ("mlx5_0", "mlx5_1/1"),
    r"^[\w;-]+$": ("efa", "cxi"),
    "^/": (str(CHECKOUT / "README.md"), str(CHECKOUT / "LICENSE")),
}
#: What follows from something else: a parameter, the input, the pairs of a duet.
DECIDED = {("npb_mz", "binding"), ("namd", "size")}
IN_JAVA = ("java_buffers", "java_device", "java_gc", "java_pages")


def checks() -> dict[str, type]:
    """All classes of checks with settings that ReFrame runs, by name."""
    found = {}
    for path in [*PACKAGE.glob("*.py"), PACKAGE / "duet/duets.py"]:
        name = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        tests = getattr(importlib.import_module(name), "_rfm_test_registry", ())
        found |= {check.__name__: check for check in tests if hasattr(check, "own_extras")}
    return found


CHECKS = checks()
ALL = [(check, name) for check, of in CHECKS.items() for name in of.settings()]
#: (check, setting, its key in a partition's extras)
KEYS = [(check, name, key) for check, name in ALL for key in CHECKS[check].keys_of(name)]


def rule(check: str, name: str) -> Allowed:
    return CHECKS[check].settings()[name].allowed_in(CHECKS[check])


def is_decided(check: str, name: str) -> bool:
    return (check, name) in DECIDED or (check.endswith("_duet") and name == "repeats")


def two_values(allowed: Allowed, default) -> tuple:
    """Two values that are allowed, neither of which is the default where there are three."""
    if allowed.choices:
        others = [choice for choice in allowed.choices if choice != default]
        return (*others, default)[:2]
    if allowed.pattern:
        return TEXTS[allowed.pattern]
    least = allowed.least if allowed.least is not None else allowed.above
    return tuple(allowed.kind(least + step) for step in (2, 3))


def values_of(check: str, name: str) -> tuple:
    return two_values(rule(check, name), CHECKS[check].settings()[name].default)


def settle(directory: Path, extras: dict, environ_extras: dict, *arguments: str) -> dict:
    """Settings by case, as `tests/support/settled.py` writes them, on a site with these extras."""
    features = [
        "mpi",
        "openmpi",
        "hpcc",
        "hpcg",
        "ior",
        "mdtest",
        "slepc",
        "lammps",
        "nwchem",
        "gromacs",
        "namd",
    ]
    site = {
        "name": "here",
        "hostnames": [],
        "environments": [
            {"name": "openmpi", "features": [*features, "npb", "npb_mz", "vswitch"]},
            {"name": "mpj", "extras": environ_extras},
        ],
        "partitions": [
            {
                "name": "batch",
                "scheduler": "slurm",
                "launcher": "srun",
                "features": ["fleet"],
                "environs": ["openmpi", "mpich", "openmpi-sif", "gnu", "mpj"],
                "container_platforms": [{"type": "Apptainer"}],
                "extras": {
                    "storage_local": "/tmp",
                    "storage_shared": "{stage}",
                    "storage_scratch": "/scratch",
                    "link_class": "native",
                    "link_speed_gbps": 10,
                    "hypervisor": "none",
                    "rdma": True,
                    "libfabric_provider": "tcp",
                    "no_baseline": "it is new",
                    "cores_per_node": 4,
                    **extras,
                },
            }
        ],
    }
    (directory / "here.yaml").write_text(yaml.safe_dump(site))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.settled", "here", *arguments],
        cwd=CHECKOUT,
        text=True,
        capture_output=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("RFM_")}
        | {"NEARMETAL_SYSTEMS_PATH": str(directory), "RFM_PREFIX": str(directory / "results")},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def extras() -> dict:
    """Each key of a partition's extras that sets something, with a value of the site's."""
    return {key: values_of(check, name)[0] for check, name, key in KEYS}


@pytest.fixture(scope="module")
def environ_extras() -> dict:
    return {
        field.environ_extra: values_of(check, name)[0]
        for check, of in CHECKS.items()
        for name, field in of.settings().items()
        if field.environ_extra
    }


def of_check(settled: dict, check: str, name: str) -> list[tuple[str, object]]:
    """(case, value) of a setting over the cases of a check that have it."""
    return [
        (case, of["settings"][name])
        for case, of in settled.items()
        if case.split()[0] == check and (name not in IN_JAVA or case.endswith("+mpj"))
    ]


def test_there_are_settings_of_every_check_and_many_have_a_key():
    assert len(CHECKS) >= 20 and {"pingpong", "rdma", "npb_duet"} <= set(CHECKS)
    assert {"pingpong_max_time", "tcp_sizes", "rdma_device", "bind_to", "npb_class"} <= {
        key for *_, key in KEYS
    }


@pytest.mark.parametrize(
    "words, said",
    [
        (["-S", "npb.problem_class=S"], "npb has no variable 'problem_class'; did you mean"),
        (["-Snpb_clas=S"], "no chosen check has a variable 'npb_clas'; did you mean npb_class?"),
        (["--setvar=npb.npb_class=S", "-S", "npb_class=W", "-S", "java_gc=g1"], ""),
        (["-S", "time_limit=1m", "-S", "stream.elements=9", "-S", "theirs.anything=1"], ""),
    ],
)
def test_a_variable_that_no_chosen_check_has_ends_the_run(monkeypatch, words, said):
    """ReFrame only warns, and would measure another class than was asked for."""
    monkeypatch.setattr(sys, "argv", ["reframe", "-r", *words])
    fault = selection.unknown_variable({CHECKS["npb"], CHECKS["pingpong"], str})
    assert fault.startswith("-S ") == bool(said) and said in fault
    assert not fault or "Fix: correct -S (docs/checks.md)" in fault


def test_without_a_word_from_anybody_each_has_its_default(tmp_path):
    settled = settle(tmp_path, {}, {})
    for check, name in ALL:
        default = CHECKS[check].var_space[name].default_value
        found = of_check(settled, check, name)
        assert found or name in IN_JAVA
        if is_decided(check, name) or not default or name in IN_JAVA:
            continue  # the check works it out
        assert {value for _, value in found} == {default}, (check, name)


def test_the_sites_files_win_over_the_default(tmp_path, extras, environ_extras):
    settled = settle(tmp_path, extras, environ_extras)
    for check, name, _ in KEYS:
        expected = extras[CHECKS[check].keys_of(name)[0]]
        if not is_decided(check, name):
            assert {value for _, value in of_check(settled, check, name)} == {expected}, name
    for check, of in CHECKS.items():
        for name, field in of.settings().items():
            if field.environ_extra:
                values = {value for _, value in of_check(settled, check, name)}
                assert values <= {environ_extras[field.environ_extra]}, (check, name)


def test_the_command_line_wins_over_both_for_repeated_checks_too(tmp_path, extras, environ_extras):
    given = [
        f"{check}.{name}={values_of(check, name)[1]}"
        for check, name in ALL
        if not is_decided(check, name)
    ]
    settled = settle(tmp_path, extras, environ_extras, *given, "--repeat=1")
    assert all("repeat_no" in case for case in settled)
    for check, name in ALL:
        if not is_decided(check, name):
            values = {value for _, value in of_check(settled, check, name)}
            assert values <= {values_of(check, name)[1]}, (check, name)
            assert values or name in IN_JAVA


def test_the_command_line_may_ask_for_the_default(tmp_path, extras, environ_extras):
    defaults = {
        (check, name): CHECKS[check].var_space[name].default_value
        for check, name, _ in KEYS
        if not is_decided(check, name) and name != "input"
    }
    given = [f"{check}.{name}={default}" for (check, name), default in defaults.items()]
    settled = settle(tmp_path, extras, environ_extras, *given)
    for (check, name), default in defaults.items():
        values = {value for _, value in of_check(settled, check, name)}
        if default:
            assert values == {default}, (check, name)
        else:  # worked out by the check, and not the site's
            assert extras[CHECKS[check].keys_of(name)[0]] not in values, (check, name)


def test_parameterized_by_the_command_line(tmp_path, extras):
    extras = extras | {"max_pending_time": "2m"}
    given = ["tcp.max_pending_time=1h", "-P", "pingpong.max_time=0.125"]
    settled = settle(tmp_path, extras, {}, *given)
    values = of_check(settled, "pingpong", "max_time")
    assert values and {value for _, value in values} == {0.125}
    assert all("max_time=0.125" in case for case, _ in values)
    # A variable of ReFrame's, which the site limits unless the command line does.
    assert settled["tcp @batch+gnu"]["max_pending_time"] == 3600
    assert settled["osnoise @batch+gnu"]["max_pending_time"] == 120


def test_what_is_not_allowed_fails_the_case_and_says_all(tmp_path):
    wrong = {"max_time": "abc", "repeats": "0", "npb_class": "F", "tcp.sizes": "1,2"}
    wrong |= {"rdma.device": "../x", "seconds": "inf", "java_gc": "g2", "rdma.gid_index": "1.5"}
    given = [f"{name}={value}" for name, value in wrong.items()]
    settled = settle(tmp_path, {}, {}, *given)
    for name, value in wrong.items():
        setting = name.split(".")[-1]
        faults = [
            of["fault"]
            for case, of in settled.items()
            if setting in of["settings"] and name in (setting, f"{case.split()[0]}.{setting}")
        ]
        assert faults, name
        for fault in faults:
            assert re.search(rf"\w+\.{setting} is '{re.escape(value)}' \(command line\): ", fault)
    fault = settled["npb %benchmark=cg @batch+openmpi"]["fault"]
    assert "npb.npb_class" in fault and "S, W, A, B, C" in fault and "npb.repeats" in fault


def test_what_follows_from_something_else_is_refused_on_the_command_line(tmp_path):
    wrong = ["npb_mz.binding=numa", "namd.size=B", "repeats=5", "input=" + TEXTS["^/"][0]]
    settled = settle(tmp_path, {}, {}, *wrong)
    for check, setting, fix in (
        ("npb_mz", "binding", "threads_are"),
        ("namd", "size", "input"),
        ("stream_duet", "repeats", "pairs"),
    ):
        faults = [of["fault"] for case, of in settled.items() if case.split()[0] == check]
        assert faults
        assert all(f"{check}.{setting} is " in fault and fix in fault for fault in faults)


def test_where_a_wrong_value_came_from_is_named():
    check = CHECKS["npb"]
    field = check.settings()["npb_class"]
    with pytest.raises(SanityError) as error:
        field.read(check, "F", "`npb_class` in the extras of here:batch")
    assert all(
        fact in str(error.value) for fact in ("npb.npb_class is 'F'", "extras", "here:batch")
    )


@pytest.mark.parametrize(
    "allowed, right, wrong",
    [
        (Allowed(int, least=1), [1, "2"], [0, "0", 1.0, "1.0", True, None, "", "one"]),
        (Allowed(float, above=0, most=3), [0.5, "0.5", 3, "1e-3"], [0, "0", 4, "nan", "inf", ""]),
        (Allowed(str, choices=("a", "b")), ["a"], ["", "c", "A", None, 1]),
        (Allowed(str, pattern=NUMBERS), ["1", "1,2", 4], ["", "0", "1,", "1, 2", "1\n", "-1"]),
        (Allowed(str), ["any thing", ""], ["a\nb", True]),
    ],
)
def test_values(allowed, right, wrong):
    assert [type(allowed.read(value)) for value in right] == [allowed.kind] * len(right)
    for value in wrong:
        with pytest.raises(ValueError):
            allowed.read(value)


# What holds the declarations and the schema of a site's files together


def described(key: str) -> dict:
    """A key of the schema without what it says to people."""
    described = SCHEMA["$defs"]["extras"]["properties"][key]
    assert described.get("description"), key
    return {word: value for word, value in described.items() if word != "description"}


@pytest.mark.parametrize("check, name, key", KEYS, ids=lambda word: word)
def test_the_schema_allows_what_the_setting_allows(check, name, key):
    assert described(key) == rule(check, name).schema()


def test_the_schema_of_environments_likewise():
    known = SCHEMA["$defs"]["environ_extras"]["properties"]
    for check, name in ALL:
        key = CHECKS[check].settings()[name].environ_extra
        if key:
            assert known[key]["enum"] == rule(check, name).schema()["enum"]


def test_every_key_of_extras_is_one_that_something_reads():
    facts = {fact.key for _, fact in inspect.getmembers(module) if isinstance(fact, module.Fact)}
    settings = {key for *_, key in KEYS}
    of_environments = {CHECKS[check].settings()[name].environ_extra for check, name in ALL} - {
        ""
    } | {"image", "spack_env", "omp_flag"}
    # For site-config/settings.py, the gate's and the report's context, expectations, and people.
    read_elsewhere = {"link_speed_gbps", "hypervisor", "rdma", "site"}
    read_elsewhere |= {"expected", "link_type", "memory_gbps", "nics", "instance_type"}
    read_elsewhere |= {f"storage_{place}_device" for place in ("local", "shared", "scratch")}
    for_people = {"link_signalling_gbps", "nic_model", "cpu", "source"}
    for_people |= {"memory_gb", "guest_memory_gb"}
    known = set(SCHEMA["$defs"]["extras"]["properties"])
    assert known == settings | (facts - of_environments) | read_elsewhere | for_people
    assert set(SCHEMA["$defs"]["environ_extras"]["properties"]) == of_environments | {"site"}


def test_a_key_that_one_check_reads_is_in_its_file_of_facts():
    readers: dict[str, set] = {}
    for check, _, key in KEYS:
        readers.setdefault(key, set()).add(check.removesuffix(catalogue.DUET))
    common = set(SCHEMA["$defs"]["extras"]["properties"]) - set(catalogue.extras())
    assert [key for key in common if len(readers.get(key, ())) == 1] == []
    for name in catalogue.names():
        for key in catalogue.check(name).extras:
            # The directories of storage are facts that no setting changes.
            assert readers.get(key, {name}) == {name}, key


def test_a_smoke_case_sets_what_its_check_has():
    smoked = [known for known in catalogue.checks() if known.smoke]
    assert smoked
    for known, nodes in itertools.product(smoked, (1, 2)):
        smoke = known.smoke.on(nodes)
        assert smoke.feature in SCHEMA["$defs"]["features_of_environments"]["enum"]
        for name, value in smoke.settings.items():
            rule(known.name, name).read(value)  # raises ValueError on one that is not allowed
        for name, value in smoke.parameters.items():
            assert value in known.parameters[name], (known.name, name)


def test_no_check_reads_extras_by_itself():
    library = CHECKOUT / "nearmetal" / "checks"
    for path in [*PACKAGE.rglob("*.py"), *library.rglob("*.py")]:
        # Expectations are expressions over the names of all extras.
        if path.name not in ("settings.py", "expected.py"):
            assert not re.search(r"\.extras\b|self\.extra\(", path.read_text()), path
