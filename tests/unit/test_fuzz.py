"""Every reader of a file, on damaged copies of that file: its own error or the same values, and
never a traceback.

Which copies is fixed (tests/support/damage.py); how many follows from what a reader costs. `make
test` reads a twentieth of that, and short hostile copies; `make test-all` all. For more of them:

    NEARMETAL_FUZZ=5 .venv/bin/python -m pytest -s tests/unit/test_fuzz.py

Each test prints its counts. What counts as other values is what can be detected: a value that
contradicts its samples, a file that contradicts its digest, a case that is stored elsewhere as
well.
"""

import copy
import io
import json
import math
import os
import shutil
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout

import orjson
import pytest
from reframe.core.exceptions import ConfigError

from nearmetal import results
from nearmetal.checkout import REFERENCES
from nearmetal.cli import main
from nearmetal.compare import published
from nearmetal.fleet import findings
from nearmetal.fleet.sweep import SweepError
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline, BaselineError
from nearmetal.lab import topology
from nearmetal.lab.hardware import HardwareError
from nearmetal.locks import images_lock
from nearmetal.locks import spack as locks
from nearmetal.site import configuration as settings
from tests.support.campaigns import campaign
from tests.support.damage import HOSTILE, damaged, damaged_bytes, hostile
from tests.support.limits import expect_held
from tests.support.paths import CHECKOUT, SPACK_LOCK
from tests.support.recorded import store
from tests.support.sweeps import (
    beside_traffic,
    links_of,
    nodes_of,
    session_of_congestion,
    session_of_nodes,
)
from tests.support.sweeps import session as session_with

pytestmark = pytest.mark.fuzz

#: How many times as many copies as each test names; a twentieth, unless told otherwise.
TIMES = float(os.environ.get("NEARMETAL_FUZZ", "0.05"))


def times(count: int, least: int = 10) -> int:
    """So many copies of a file in this run."""
    return max(least, round(count * TIMES))


def counted(
    name: str, copies: Iterable, read: Callable, own: tuple, same: Callable = lambda found: True
) -> Counter:
    """Read every copy; fail where one gives a traceback or other values. Returns how the copies
    ended.

    :arg read: takes a copy, returns what it holds.
    :arg own: the reader's own errors.
    :arg same: tells whether that is what the whole file holds, as far as it can be detected.
    """
    ends, wrong = Counter(), []
    for number, (kind, copied) in enumerate(copies):
        try:
            found = read(copied)
        except own as error:
            assert str(error).strip(), f"{name} {number} {kind}: an error without a word"
            ends["own error"] += 1
            continue
        except Exception as error:  # what is looked for
            ends["traceback"] += 1
            wrong.append(f"{number} {kind}: {type(error).__name__}: {error}"[:300])
            continue
        ends["read"] += 1
        if not same(found):
            ends["other values"] += 1
            wrong.append(f"{number} {kind}: other values")
    print(
        "\n"
        f"{name}: {sum(ends[end] for end in ('own error', 'traceback', 'read'))} inputs, "
        f"{dict(ends)}"
    )
    assert not wrong, "\n".join([f"{name}: {len(wrong)}", *wrong[:40]])
    assert ends["own error"], name
    return ends


#: Part of a hostile text that YAML has: PyYAML reads a megabyte in seconds, and nesting slower.
YAML = 0.04
#: Part of its length below the full number of copies.
SHORT = 0.05


def held(name: str, text: str, read: Callable, own: tuple, part: float = 1) -> None:
    """Read copies that may stop or fill the reader; fail where one does, or gives a traceback."""
    part *= 1 if TIMES >= 1 else SHORT
    copies = hostile(text, times(10 * len(HOSTILE), len(HOSTILE)), part)
    expect_held(name, copies, read, own)


def values(sessions: list) -> list:
    return [
        [(value.environ, value.partition, value.variable, value.value) for case in one.cases for value in case.values]  # noqa: E501
        for one in sessions
    ]  # fmt: skip


def alike(one, other) -> bool:
    """Equal, numbers to the nine digits that a comparison with their samples can tell."""
    if isinstance(one, float) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=3e-9)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other


@pytest.fixture(scope="module")
def sessions():
    return [campaign(100, launches=10), campaign(101, launches=10)]


def test_session(tmp_path, sessions):
    """The text of a session; the other one in the database is whole."""
    path = store(tmp_path / "results.db", *copy.deepcopy(sessions))
    whole = values(list(results.sessions(path)))
    connection = sqlite3.connect(path)

    def read(text):
        connection.execute(
            "UPDATE sessions SET json_blob = ? WHERE rowid = 2",
            (text.encode("utf-8", "surrogatepass"),),
        )
        connection.commit()
        database = results.Database(path)
        found = list(results.sessions(database))
        assert found and alike(values(found[:1]), whole[:1])
        for bad in database.bad.values():
            raise results.ResultsError(str(bad))
        return values(found)

    def same(found):
        # A session of which nothing is left but its cases' failures holds no other value.
        return len(found) == 2 and all(
            value in whole[1] or any(alike(value, other) for other in whole[1])
            for value in found[1]
        )

    text = json.dumps(sessions[1], indent=1)
    counted("session", damaged(text, times(1000)), read, (results.ResultsError,), same)
    held("session", text, read, (results.ResultsError,))
    # Damage where it hurts: in values, samples and names.
    short = json.dumps(sessions[1])
    cases = [at for at in range(len(short)) if short.startswith('"perfvalues"', at)]

    def near(number):
        at = cases[number % len(cases)]
        [(kind, part)] = damaged(short[at : at + 700], 1, seed=number)
        return kind, short[:at] + part + short[at + 700 :]

    counted(
        "values of a session", map(near, range(times(400))), read, (results.ResultsError,), same
    )


def test_database(tmp_path, sessions):
    """The bytes of the database's file."""
    whole = store(tmp_path / "whole.db", *sessions)
    expected = values(list(results.sessions(whole)))
    path = tmp_path / "results.db"

    def read(data):
        path.write_bytes(data)
        database = results.Database(path)
        found = list(results.sessions(database))
        for bad in database.bad.values():
            raise results.ResultsError(str(bad))
        return values(found)

    def same(found):
        return all(any(alike(one, other) for other in expected) for one in found)

    copies = damaged_bytes(whole.read_bytes(), times(400))
    counted("database", copies, read, (results.ResultsError,), same)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    where = tmp_path_factory.mktemp("baselines")
    found = [results.parse_session(campaign(number), "here") for number in range(12)]
    after, _ = record.record(found, Baseline("lab", where / "lab.yaml", {}))
    baseline.save(after)
    return where


def test_baseline(tmp_path, references):
    """Both files of a baseline."""
    expected = baseline.load("lab", references)
    shutil.copytree(references, tmp_path, dirs_exist_ok=True)

    def read(name):
        def written(text):
            (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
            return baseline.load("lab", tmp_path)

        return written

    def same(found):
        return all(
            found.entries[key].values == entry.values
            and found.entries[key].samples == entry.samples
            for key, entry in expected.entries.items()
            if key in found.entries
        )

    for name, count in (("lab.launches.json", 200), ("lab.yaml", 300)):
        text = (references / name).read_text()
        counted(name, damaged(text, times(count)), read(name), (BaselineError,), same)
        part = YAML if name.endswith(".yaml") else 1
        held(name, text, read(name), (BaselineError,), part)
        shutil.copy(references / name, tmp_path)


def test_gate(tmp_path, references, monkeypatch):
    """The command on a damaged session or baseline: an exit code that its help names, and no
    regression where is none."""
    path = store(tmp_path / "results.db", campaign(100, launches=10))
    shutil.copytree(references, tmp_path / "baselines")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "baselines"))
    monkeypatch.setattr(
        "sys.argv", ["nearmetal", "gate", "--database", str(path), "--system", "lab"]
    )
    whole = json.dumps(campaign(100, launches=10), indent=1)
    known = (references / "lab.yaml").read_text()

    def read(pair):
        session, text = pair
        with sqlite3.connect(path) as connection:
            connection.execute(
                "UPDATE sessions SET json_blob = ?", (session.encode("utf-8", "surrogatepass"),)
            )
        (tmp_path / "baselines" / "lab.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main()
        if "unforeseen" in err.getvalue():
            raise RuntimeError(err.getvalue())
        if code in (2, 3):
            raise results.ResultsError(err.getvalue() + out.getvalue())
        return code

    copies = [
        *((kind, (text, known)) for kind, text in damaged(whole, times(60))),
        *((kind, (whole, text)) for kind, text in damaged(known, times(40))),
    ]
    counted("gate", copies, read, (results.ResultsError,), lambda code: code == 0)
    held("gate, session", whole, lambda text: read((text, known)), (results.ResultsError,))
    held("gate, baseline", known, lambda text: read((whole, text)), (results.ResultsError,), YAML)


@pytest.mark.parametrize(
    "stored",
    [
        session_with(links_of()),
        session_of_nodes(nodes_of()),
        session_of_congestion(beside_traffic()),
    ],
    ids=["links", "nodes", "congestion"],
)
def test_sweeps(stored):
    """The values of nodes and links in a session: those of the first case."""
    case = stored["runs"][0]["testcases"][0]
    name = next(name for name in ("links", "node_values", "congestion") if case.get(name))
    text = json.dumps(case[name], indent=1)

    def read(copied):
        try:
            case[name] = orjson.loads(copied.encode("utf-8", "surrogatepass"))
            [first, *_] = results.parse_session(stored, "here").cases
        except (orjson.JSONDecodeError, results.ResultsError) as error:
            raise SweepError(str(error)) from None
        return findings.read(first)

    counted(name, damaged(text, times(500)), read, (SweepError,))
    held(name, text, read, (SweepError,))


def test_published(tmp_path):
    """Two documents' figures."""
    for name in ("messaging.yaml", "esx41-stream.yaml"):
        source = REFERENCES / "published" / name
        path = tmp_path / source.name

        def read(text, path=path):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            return published.load(tmp_path)

        text = source.read_text()
        counted(source.name, damaged(text, times(200)), read, (published.PublishedError,))
        held(source.name, text, read, (published.PublishedError,), YAML)
        path.unlink()


def test_systems(tmp_path):
    """A system's file, and the environments'."""
    systems = CHECKOUT / "site-config" / "systems"
    (tmp_path / "systems").mkdir()
    shutil.copy(CHECKOUT / "site-config" / "environments.yaml", tmp_path)

    def read(path):
        def written(text):
            path.write_bytes(text.encode("utf-8", "surrogatepass"))
            return settings.configure(tmp_path, [tmp_path / "systems"], "/results")

        return written

    for name in ("lab.yaml", "ec2.yaml"):
        path = tmp_path / "systems" / name
        text = (systems / name).read_text()
        counted(name, damaged(text, times(150)), read(path), (ConfigError,))
        held(name, text, read(path), (ConfigError,), YAML)
        path.write_text(text)
    path = tmp_path / "environments.yaml"
    text = path.read_text()
    counted(path.name, damaged(text, times(150)), read(path), (ConfigError,))
    held(path.name, text, read(path), (ConfigError,), YAML)


def test_topology(tmp_path):
    """The lab's cluster, with virtual machines and without."""
    path = tmp_path / "topology.toml"
    text = topology.SHIPPED.read_text()
    facts = {"cpus": 4, "memory_mb": 8000, "checkout": "/somewhere"}

    def read(text):
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        plan = topology.load(path)
        topology.load(path, {"nic": "virtio"})
        for link_class in plan.classes:
            plan.interfaces(link_class)
        return [plan.hosts(None), plan.render("slurm.conf", **facts), json.dumps(plan.spaces)]

    own = (topology.TopologyError, HardwareError)
    counted("topology.toml", damaged(text, times(1000)), read, own)
    held("topology.toml", text, read, own)


def test_images_lock(tmp_path):
    path = tmp_path / "images.lock"

    def read(text):
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        return images_lock.read_lock(path)

    text = (CHECKOUT / "containers" / "images.lock").read_text()
    counted("images.lock", damaged(text, times(100)), read, (images_lock.ImagesError,))
    held("images.lock", text, read, (images_lock.ImagesError,), YAML)


def test_spack_locks(tmp_path):
    """A lock, an environment, and what it includes."""
    directory = tmp_path / "spack-env"
    shutil.copytree(CHECKOUT / "spack-env", directory)
    before = locks.read_lock(directory / "openmpi" / SPACK_LOCK)
    for name, count in (
        (f"openmpi/{SPACK_LOCK}", 300),
        ("openmpi/spack.yaml", 150),
        ("common/packages.yaml", 150),
    ):
        path = directory / name
        text = path.read_text()

        def read(copied, path=path):
            path.write_bytes(copied.encode("utf-8", "surrogatepass"))
            found = locks.disagreements(directory / "openmpi")
            locks.changes(before, locks.read_lock(directory / "openmpi" / SPACK_LOCK))
            return found

        counted(name, damaged(text, times(count)), read, (locks.LockError,))
        held(name, text, read, (locks.LockError,), YAML)
        path.write_text(text)


#: Runs in the virtual environment of ParallelCluster, which is not this one.
AWS = """
import sys
from pathlib import Path
import yaml
sys.path.insert(0, {checkout!r})
from nearmetal.aws import __main__ as check
from tests.support.damage import damaged
cluster, system = Path({aws!r}, "cluster.yaml"), Path({aws!r}, "..", "systems", "ec2.yaml")
place, count = Path({place!r}), {count}
print("ready")
for name, source in (("cluster.yaml", cluster), ("ec2.yaml", system)):
    text = source.read_text()
    ends = dict(read=0, traceback=0)
    for number, (kind, copied) in enumerate(damaged(text, count)):
        path = place / name
        path.write_bytes(copied.encode("utf-8", "surrogatepass"))
        sys.argv = ["check.py", *([str(path)] if name == "cluster.yaml" else ["--system", str(path)])]
        try:
            assert check.main() in (0, 1)
            ends["read"] += 1
        except Exception as error:
            ends["traceback"] += 1
            print(f"WRONG {{name}} {{number}} {{kind}}: {{type(error).__name__}}: {{error}}"[:300])
    print(f"COUNT {{name}}: {{sum(ends.values())}} inputs, {{ends}}")
"""  # noqa: E501


@pytest.mark.whole
def test_cluster_on_aws(tmp_path):
    """The recipe for EC2, and the system's file beside it, as ParallelCluster's own loader and
    schema read them."""
    code = AWS.format(
        aws=str(CHECKOUT / "site-config" / "aws"),
        checkout=str(CHECKOUT),
        place=str(tmp_path),
        count=times(12, least=2),  # two seconds each
    )
    done = subprocess.run(
        [CHECKOUT / ".venv" / "aws" / "bin" / "python", "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith(("WRONG", "COUNT"))]
    print("", *said, sep="\n")
    assert done.returncode == 0 and len(said) == 2, done.stderr[-2000:] + "\n".join(said)
