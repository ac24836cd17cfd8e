"""Several runs of ReFrame that store their results in one database at the same time.

NEARMETAL_WRITERS names a directory of a shared file system, such as NFS, for the database."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import orjson
import pytest

from nearmetal.results import Database, sessions
from tests.support.campaigns import campaign

WRITERS = 100
#: Each process stores a session by ReFrame's own code, all at the same moment.
STORE = """
import json, multiprocessing, sys
from pathlib import Path
from reframe.core import config, runtime
from reframe.frontend.reporting.storage import StorageBackend

site = config.load_config("<builtin>")
site.select_subconfig("generic")
site.add_sticky_option("storage/sqlite_db_file", sys.argv[1])
site.select_subconfig("generic")
runtime.init_runtime(site)
reports = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
together = multiprocessing.Barrier(len(reports))

def store(report):
    together.wait()
    StorageBackend.default().store(report)

processes = [multiprocessing.Process(target=store, args=(report,)) for report in reports]
for process in processes:
    process.start()
for process in processes:
    process.join()
sys.exit(any(process.exitcode for process in processes))
"""


@pytest.fixture
def shared(tmp_path):
    """An empty directory, on the file system to try."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("NEARMETAL_WRITERS", tmp_path)) as made:
        yield Path(made)


def test_a_hundred_writers_at_once_lose_nothing(tmp_path, shared):
    made = [campaign(number) for number in range(1, WRITERS + 1)]
    for data in made:
        for number, case in enumerate(data["runs"][0]["testcases"]):
            case["uuid"] = f"{data['session_info']['uuid']}:0:{number}"
    lines = tmp_path / "reports.jsonl"
    lines.write_bytes(b"\n".join(map(orjson.dumps, made)))
    path = shared / "results.db"
    done = subprocess.run(
        [sys.executable, "-c", STORE, path, lines], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    database = Database(path)
    found = {one.uuid: one for one in sessions(database)}
    assert set(found) == {data["session_info"]["uuid"] for data in made} and not database.notes()
    cases = {len(data["runs"][0]["testcases"]) for data in made}
    assert {len(one.cases) for one in found.values()} == cases
