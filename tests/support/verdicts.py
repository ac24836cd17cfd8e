"""What the gate says of the recorded sessions of tests/recorded/verdicts_sessions.jsonl.xz.

    python -m tests.support.verdicts

writes the baseline of the first four sessions, and the verdicts on the others, anew.
"""

import contextlib
import functools
import io
import json
import lzma
import math
import os
import re
import sys
import tempfile
from pathlib import Path
from unittest import mock

from nearmetal import cli, results
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from tests.support.paths import RECORDED
from tests.support.recorded import store

SESSIONS, VERDICTS = RECORDED / "verdicts_sessions.jsonl.xz", RECORDED / "verdicts.json.xz"
#: Sessions of the baseline, which stand first.
RECORDED_FROM = 4
#: Options of the gate with which some sessions are judged once more.
CHOSEN = "--only=pingpong", "--only=tcp:*latency*", "--weight=tcp=0.5"
JUDGED_TWICE = ("00000006-campaign", "00000012-campaign", "00000014-campaign")
#: Relative difference of numbers: the logarithms of two processors may differ in their last bit.
EQUAL = 1e-11
#: Keys that had other names in format 1 of the document.
NEW_NAMES = {"word": "verdict", "launches": "repeats", "rung": "reference"}


def sessions() -> list[dict]:
    """The recorded sessions, as ReFrame would store them."""
    text = lzma.decompress(SESSIONS.read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def database(directory: Path) -> Path:
    return store(directory / "results.db", *sessions())


def documents() -> dict[str, str]:
    """The files of the baseline that the first sessions give, by name; without today's date."""
    first = [results.parse_session(one, "here") for one in sessions()[:RECORDED_FROM]]
    after, notes = record.record(first, Baseline("lab", Path("lab.yaml"), {}))
    texts = {path.name: text for path, text in baseline.documents(after)}
    texts["lab.yaml"] = re.sub(r"recorded: '[\d-]+'", "recorded: '2026-01-01'", texts["lab.yaml"])
    return {**texts, "notes.txt": "\n".join(notes) + "\n"}


def write_baseline(directory: Path) -> Path:
    """The directory, with the recorded baseline."""
    for name, text in load()["files"].items():
        (directory / name).write_text(text)
    return directory


def command(references: Path, *words) -> dict:
    """Exit code and output of a command, by the baselines in a directory."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {"RFM_REFERENCE_PREFIX": str(references)}),
        mock.patch.object(sys, "argv", ["nearmetal", *map(str, words)]),
        mock.patch.object(cli, "_become_owner", lambda arguments: None),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        code = cli.main()
    return {"code": code, "out": out.getvalue(), "errors": errors.getvalue()}


def judged(references: Path, database: Path, uuid: str) -> dict:
    """What the gate and `explain` say of one session."""
    runs = {"gate": ["gate"], "explain": ["explain"]}
    if uuid in JUDGED_TWICE:
        runs["gate chosen"] = ["gate", *CHOSEN]
    found = {}
    for name, words in runs.items():
        with tempfile.TemporaryDirectory() as directory:
            file = Path(directory, "document.json")
            words += ["--database", database, "--session", uuid, "--json", file]
            done = command(references, *words)
            texts = done["errors"], file.read_text() if file.exists() else "{}"
            for path, mark in ((references, "REFERENCES"), (database, "DATABASE")):
                texts = [text.replace(str(path), mark) for text in texts]
            found[name] = _plain(done["code"], *texts)
    return found


def history(references: Path, database: Path) -> dict:
    done = command(references, "history", "--database", database)
    return {"code": done["code"], "lines": done["out"].splitlines()}


def everything(directory: Path) -> dict:
    """All verdicts, with the baseline and without one."""
    stored = database(directory)
    found: dict = {"files": documents()}
    places = {name: directory / name for name in ("baseline", "no baseline")}
    for name, references in places.items():
        references.mkdir()
        if name == "baseline":
            for file, text in found["files"].items():
                (references / file).write_text(text)
        found[name] = {"history": history(references, stored)}
        for session in sessions()[RECORDED_FROM:]:
            uuid = session["session_info"]["uuid"]
            found[name][uuid] = judged(references, stored, uuid)
    return found


def _plain(code: int, errors: str, text: str) -> dict:
    """Exit code, errors, and the document with the names of today."""
    document = json.loads(text)
    document.pop("format", None)
    judged = []
    for one in document.pop("judged", []):
        names = {NEW_NAMES.get(key, key): value for key, value in one.items()}
        judged.append(dict(sorted(names.items())))
    return {"code": code, "errors": errors, **document, "judged": judged}


def differences(now, then, place: str = "") -> list[str]:
    """Places where two documents differ, with both values."""
    if isinstance(now, dict) and isinstance(then, dict) and now.keys() == then.keys():
        return [text for key in now for text in differences(now[key], then[key], f"{place}.{key}")]
    if isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        pairs = enumerate(zip(now, then))
        return [text for at, pair in pairs for text in differences(*pair, f"{place}.{at}")]
    if isinstance(now, float) and isinstance(then, float):
        same = math.isclose(now, then, rel_tol=EQUAL)
    else:
        same = now == then
    return [] if same else [f"{place}: {now!r}, but {then!r} is recorded"]


@functools.cache
def load() -> dict:
    """The recorded baseline and verdicts."""
    return json.loads(lzma.decompress(VERDICTS.read_bytes()))


def _rounded(found):
    if isinstance(found, dict):
        return {key: _rounded(value) for key, value in found.items()}
    if isinstance(found, list):
        return list(map(_rounded, found))
    return float(f"{found:.13g}") if isinstance(found, float) else found


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        text = json.dumps(_rounded(everything(Path(directory))), indent=0, sort_keys=True)
    VERDICTS.write_bytes(lzma.compress(text.encode()))


if __name__ == "__main__":
    main()
