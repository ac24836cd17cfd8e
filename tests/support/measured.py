"""Reads the cases of the newest session in a results database."""

import json
import re
import sqlite3

from nearmetal.compare import published
from nearmetal.judge import duet

CARRIERS = {
    "native": "eth0 (veth)",
    "passthrough": "eth0 (macvlan passthru)",
    "emulated": "eth0 (tap)",
}


def runs(database) -> list[dict]:
    """The newest session's runs as stored: the first run, and those that ran cases again."""
    with sqlite3.connect(database) as connection:
        [(blob,)] = connection.execute(
            "SELECT json_blob FROM sessions ORDER BY session_start_unix DESC LIMIT 1"
        )
    return json.loads(blob)["runs"]


def cases(database) -> list[dict]:
    """The newest session's cases as of their last run, without skipped ones."""
    last = {
        (case["name"], case["partition"], case["environ"]): case
        for run in runs(database)
        for case in run["testcases"]
    }
    return [case for case in last.values() if case["result"] != "skip"]


def rows(text: str) -> dict[str, str]:
    """Lines of a duet's verdicts by variable."""
    return {line.split()[0]: line for line in text.splitlines() if re.search(" (un)?paired ", line)}


def printed(session) -> tuple[str, tuple[str, ...], int]:
    """(text, missing variables, exit code) of `nearmetal duet`."""
    report = duet.judge_session(session)
    return duet.render(report, published.load()), report.missing, report.exit_code
