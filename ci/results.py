"""ReFrame's results database as plain data. Reads only; the database is ReFrame's."""
import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

#: Major version of the session format that this reads (ReFrame 4.x writes 4.y).
DATA_VERSION = "4"


class ResultsError(ValueError):
    """The database or a session in it can't be used; the message says what to do."""


@dataclass(frozen=True)
class Value:
    """One performance variable of one test case."""
    check: str        #: display name without hash, e.g. `pingpong %placement=internode`
    environ: str
    partition: str
    variable: str
    value: float
    unit: str
    samples: tuple[float, ...] = ()  #: one a fresh launch, of which the value is the mean


@dataclass(frozen=True)
class Session:
    uuid: str
    started: str
    system: str
    values: list[Value]
    failures: list[tuple[str, str, str, str]]  #: (check, partition, environment, reason)


def database() -> Path:
    """Where ReFrame keeps results: RFM_SQLITE_DB_FILE, else under RFM_PREFIX, else the checkout's results/."""
    if file := os.environ.get("RFM_SQLITE_DB_FILE"):
        return Path(file)
    return Path(os.environ.get("RFM_PREFIX", Path(__file__).parent.parent / "results")) / "results.db"


def load_session(path: Path, system: str | None = None, uuid: str | None = None) -> Session:
    """The session of that id, or the newest (on that system) that ran at least one case. Raises ResultsError."""
    if not path.is_file():
        raise ResultsError(f"{path}: no results database; run `reframe -c reframe_checks -r` first")
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        try:
            rows = connection.execute("SELECT uuid, json_blob FROM sessions ORDER BY session_start_unix DESC")
            for found, blob in rows:
                if uuid and not found.startswith(uuid):
                    continue
                session = parse_session(json.loads(blob), path)
                if uuid or (session.values or session.failures) and system in (None, session.system):
                    return session
        except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
            raise ResultsError(f"{path}: not a results database of ReFrame's ({error})") from error
    wanted = f"session {uuid}" if uuid else f"session on system {system}" if system else "session"
    raise ResultsError(f"{path}: no {wanted}; `reframe --list-stored-sessions` lists what there is")


def parse_session(data: dict, origin) -> Session:
    """A session's report as ReFrame stores it. Raises ResultsError."""
    info = data.get("session_info", {})
    version = str(info.get("data_version", "none"))
    if version.split(".")[0] != DATA_VERSION:
        raise ResultsError(f"{origin}: session format {version}, but {DATA_VERSION}.x is needed: "
                           "use the ReFrame that requirements.lock pins")
    # The last run of a session holds its retries' outcome, each case's last.
    cases = {(c["name"], c["partition"], c["environ"]): c for run in data["runs"] for c in run["testcases"]}
    values, failures = [], []
    for case in cases.values():
        check = case["display_name"]
        if case["result"] != "pass":
            failures.append((check, case["partition"], case["environ"], str(case.get("fail_reason") or case["result"])))
            continue
        for key, (value, _, _, _, unit, _) in (case.get("perfvalues") or {}).items():
            name = key.rsplit(":", 1)[-1]
            samples = tuple((case.get("samples") or {}).get(name, ()))
            values.append(Value(check, case["environ"], case["partition"], name, value, unit, samples))
    systems = {case["system"] for case in cases.values()}
    return Session(info["uuid"], info["time_start"], systems.pop() if len(systems) == 1 else ",".join(sorted(systems)),
                   values, failures)
