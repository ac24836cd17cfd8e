"""Root goes on as the owner of the results before it reads or writes any of them."""

import os
import pty
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearmetal import results
from nearmetal.commands import in_lab
from nearmetal.errors import NearmetalError
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from nearmetal.lab.ownership import settle
from nearmetal.util import own
from tests.support.campaigns import campaign
from tests.support.paths import CHECKOUT
from tests.support.recorded import store
from tests.support.sweeps import links_of, session

STRANGER = 64771
SLOWER = ("", "emulated", "mpich", "startup_latency")

as_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root and another user: run it as root, as CI does"
)

#: Runs `nearmetal` and ends with 99 where root opens or lists anything below the results.
WATCHED = """
import os, sys
place, user, opened = sys.argv[1], int(sys.argv[2]), []

def watch(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir", "sqlite3.connect", "os.rename"):
        return
    path = arguments[0]
    if place not in (os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""):
        return
    opened.append(path)
    rights = {*os.getresuid(), *os.getresgid(), *os.getgroups()}
    if rights != {user} or "CapPrm:\\t0000000000000000" not in open("/proc/self/status").read():
        print(event, path, rights, flush=True)
        os._exit(99)

sys.addaudithook(watch)
sys.argv[1:] = sys.argv[3:]
from nearmetal.__main__ import main
code = main()
sys.stderr.flush()
print("opened", len(opened), os.environ["HOME"], oct(os.umask(0)), sys.pycache_prefix, flush=True)
os._exit(code)
"""


@pytest.fixture
def theirs(open_path):
    """A stranger's results: sessions, the newest one slow, and their baseline."""
    place = open_path / "results"
    (place / "baselines").mkdir(parents=True)
    data = [campaign(number) for number in range(12)]
    sessions = [results.parse_session(one, "here") for one in data]
    known = record.record(sessions, Baseline("lab", place / "baselines" / "lab.yaml", {}))[0]
    baseline.save(known)
    slow = campaign(117, steps=[(SLOWER, 1.3)])
    swept = session(links_of({(0, 1): (60, 3, 3)}), 118)
    for one in (slow, swept):
        one["session_info"]["cmdline"] = f"reframe -c {CHECKOUT}/reframe_checks -r"
    store(place / "results.db", *data, slow, swept)
    subprocess.run(["chown", "-R", f"{STRANGER}:{STRANGER}", place], check=True)
    return place


def watched(place: Path, *words) -> subprocess.CompletedProcess:
    fake = place.parent / "bin" / "reframe"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text(f"#!/bin/sh\n{{ id -u; id -G; echo $HOME; }} > {place}/started\n")
    fake.chmod(0o755)
    return subprocess.run(
        [sys.executable, "-P", "-c", WATCHED, place, str(STRANGER), *map(str, words)],
        cwd=place.parent,
        env={
            "PATH": f"{fake.parent}:/usr/bin:/bin",
            "HOME": "/root",
            "XDG_CACHE_HOME": "/root/.cache",
            "PYTHONPYCACHEPREFIX": "/root/.cache/python",
            "RFM_PREFIX": str(place),
            "RFM_REFERENCE_PREFIX": str(place / "baselines"),
            "NEARMETAL_SYSTEMS_PATH": str(place / "systems"),
        },
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@as_root
@pytest.mark.parametrize(
    "words",
    [
        "gate --session 00000117 --confirm --json gate.json",
        "fleet --confirm --json fleet.json",
        "duet",
        "report",
        "history",
        "baseline record --only-bounds",
        "baseline show",
        "export --csv all.csv",
        "compare",
        "explain",
        "expect lab --judge",
        "progress",
        "doctor lab --no-jobs --directory doctor",
        "init planted --no-jobs --directory systems",
    ],
)
def test_no_command_of_root_opens_results_of_another_user_as_root(theirs, words):
    given = [str(theirs / word) if "." in word else word for word in words.split()]
    for name in ("doctor", "systems"):
        if given[-1] == name:
            given[-1] = str(theirs / name)
    done = watched(theirs, *given)
    assert done.returncode in (0, 1, 2, 3) and "unforeseen" not in done.stdout, done.stdout
    said = done.stdout.splitlines()[-1].split()
    assert said[0] == "opened" and said[2:] == ["/", "0o22", "None"], done.stdout
    assert int(said[1]) or given[0] in ("doctor", "init"), done.stdout
    found = subprocess.run(["find", theirs, "-user", "root"], capture_output=True, text=True)
    assert found.stdout == ""
    if "--confirm" in words:
        started = (theirs / "started").read_text().splitlines()
        assert started == [str(STRANGER), str(STRANGER), "/"]


@as_root
@pytest.mark.parametrize("planted", ["results.db", "baselines", "report.html"])
def test_a_planted_link_leads_no_further_than_its_owner_gets(theirs, open_path, planted):
    """The user swaps the directory's parts at any time, but root's files stay closed."""
    secret = open_path / "secret"
    secret.mkdir(mode=0o700)
    store(secret / "results.db", campaign(1))
    (secret / "report.html").write_text("root's")
    path = theirs / planted
    if path.exists():
        path.rename(theirs / "moved")
    path.symlink_to(secret if planted == "baselines" else secret / planted)
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    done = watched(theirs, "report")
    assert done.returncode == 3 and "ermission denied" in done.stdout, done.stdout
    assert sorted(one.name for one in secret.iterdir()) == ["report.html", "results.db"]
    assert (secret / "report.html").read_text() == "root's"


def become(place: Path, line: str, python: str = sys.executable) -> str:
    """Output of a program that becomes the owner of a place first."""
    become_owner = f"own.become_owner([{str(place)!r}])"
    program = f"import os; from nearmetal.util import own; {become_owner}; {line}"
    done = subprocess.run(
        [python, "-P", "-c", program], cwd=CHECKOUT, capture_output=True, text=True
    )
    return done.stdout + done.stderr


@as_root
@pytest.mark.parametrize(
    "back", ["setuid(0)", "seteuid(0)", "setgid(0)", "setgroups([0])", "setresuid(-1, 0, -1)"]
)
def test_there_is_no_way_back(theirs, back):
    assert "PermissionError: [Errno 1]" in become(theirs, f"os.{back}")


@as_root
def test_a_user_with_a_name_gets_the_groups_and_the_home_of_the_account(theirs):
    entry = pwd.getpwnam("games")
    os.chown(theirs, entry.pw_uid, 0)
    line = "print(*os.getresgid(), sorted(os.getgroups()), os.environ['HOME'], os.environ['USER'])"
    groups = sorted(os.getgrouplist(entry.pw_name, entry.pw_gid))
    said = become(theirs, line).strip()
    assert said == " ".join(map(str, [*3 * [entry.pw_gid], groups, entry.pw_dir, "games"]))


@as_root
def test_a_number_without_a_name_never_gets_roots_group(theirs):
    os.chown(theirs, STRANGER, 0)
    assert become(theirs, "print(os.getresgid(), os.getgroups())").strip() == (
        f"({STRANGER}, {STRANGER}, {STRANGER}) [{STRANGER}]"
    )


@as_root
def test_roots_results_change_nothing(open_path):
    before = f"{os.getresuid()} {os.getgroups()} {os.environ['HOME']}"
    line = "print(os.getresuid(), os.getgroups(), os.environ['HOME'])"
    assert become(open_path / "results", line).strip() == before


@as_root
def test_the_first_user_on_the_way_counts_through_links_too(theirs, open_path):
    (open_path / "link").symlink_to("results/absent/results.db")
    for place in (theirs, theirs / "absent" / "x", open_path / "link", open_path / "link/../x"):
        assert own.owner_of([open_path, place]).path == theirs
    (open_path / "circle").symlink_to("circle")
    assert own.owner_of([open_path / "circle", Path("a\0b")]) is None
    (open_path / "of-them").symlink_to("/etc/passwd")
    os.chown(open_path / "of-them", STRANGER, STRANGER, follow_symlinks=False)
    assert own.owner_of([open_path / "of-them"]).uid == STRANGER


@as_root
def test_a_program_that_the_owner_cannot_read_is_one_sentence(theirs, open_path):
    private = open_path / "private"
    private.mkdir()
    shutil.copytree(CHECKOUT / "nearmetal", private / "nearmetal")
    private.chmod(0o700)
    line = f"import sys; sys.path.insert(0, {str(private)!r})\nfrom nearmetal.util import own\n"
    program = f"{line}own.become_owner([{str(theirs)!r}])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"nearmetal.errors.NearmetalError: {theirs} belongs to user {STRANGER}, as whom root works "
        f"there, and user {STRANGER} cannot read {private}/nearmetal. Fix: put the checkout and "
        "its virtual environment where all users can read them, as in /srv, or chmod -R o+rX them"
    )


@as_root
def test_the_users_programs_cannot_type_into_roots_shell(theirs):
    line = "os.open('/dev/tty', os.O_RDWR)"
    become_owner = f"own.become_owner([{str(theirs)!r}])"
    program = f"import os; from nearmetal.util import own; {line}; {become_owner}; {line}"
    words = [sys.executable, "-P", "-c", program]
    process, terminal = pty.fork()
    if process == 0:  # as a shell: the leader of the session waits
        os._exit(subprocess.run(words, cwd=CHECKOUT).returncode)
    said = b""
    # The line may come in parts.
    while b"Error" not in said or not said.endswith(b"\n"):
        said += os.read(terminal, 1 << 16)
    os.waitpid(process, 0)
    os.close(terminal)
    assert (
        said.decode().strip().endswith("OSError: [Errno 6] No such device or address: '/dev/tty'")
    )


@as_root
def test_a_tool_of_root_writes_as_the_owner_and_is_root_again(theirs, open_path):
    (theirs / "link").symlink_to(open_path)
    with pytest.raises(PermissionError), own.as_owner(theirs / "link" / "file"):
        (theirs / "link" / "file").touch()
    with own.as_owner(theirs):
        (theirs / "file").touch()
    assert (theirs / "file").stat().st_uid == STRANGER
    assert os.getresuid() == (0, 0, 0) and os.getresgid() == (0, 0, 0)


@as_root
def test_the_lab_gives_roots_results_to_its_user(open_path):
    secret = open_path / "secret"
    secret.touch()
    place = open_path / "results"
    (place / "stage" / "case").mkdir(parents=True)
    (place / "stage" / "case" / "out").write_text("output")
    (place / "link").symlink_to(secret)
    settle(open_path, STRANGER, STRANGER)
    found = [place, *place.rglob("*")]
    assert {path.lstat().st_uid for path in found} == {STRANGER} and len(found) == 6
    assert secret.stat().st_uid == open_path.stat().st_uid == 0


@as_root
@pytest.mark.parametrize("of_checkout", [0, STRANGER])
def test_the_lab_gives_nothing_away_where_the_user_could_have_planted_it(open_path, of_checkout):
    secret = open_path / "secret"
    secret.touch()
    place = open_path / "results"
    (place / "theirs").mkdir(parents=True)
    os.link(secret, place / "theirs" / "hard")
    os.chown(place / "theirs", STRANGER, STRANGER)
    os.chown(open_path, of_checkout, of_checkout)
    if of_checkout:
        with pytest.raises(Exception, match="must be able to write there"):
            settle(open_path, STRANGER, STRANGER)
    else:
        settle(open_path, STRANGER, STRANGER)
    assert secret.stat().st_uid == 0
    assert place.stat().st_uid == (0 if of_checkout else STRANGER)


class Lab:
    """A lab of this checkout that is up."""

    state = {"pid": 1}


@pytest.fixture
def entered(monkeypatch, tmp_path):
    """Function: run `nearmetal WORDS` as far as into the lab; its command there."""
    found = []
    monkeypatch.setattr(in_lab, "Namespaces", Lab)
    monkeypatch.setattr(in_lab.cluster, "owner", lambda lab: (STRANGER, STRANGER))
    monkeypatch.setattr(in_lab.shutil, "which", lambda name: None)
    monkeypatch.setattr(in_lab.os, "execv", lambda path, words: found.append(words))
    monkeypatch.setenv("RFM_PREFIX", str(CHECKOUT / "results"))
    monkeypatch.delenv("RFM_SQLITE_DB_FILE", raising=False)

    def enter(*words, uid=STRANGER) -> list[list[str]]:
        from nearmetal.cli import parser

        found.clear()
        monkeypatch.setattr("sys.argv", ["nearmetal", *map(str, words)])
        user = own.User(CHECKOUT / "results", str(uid), uid, uid, (uid,), "/")
        in_lab.run_there(parser().parse_args(), user)
        return found

    return enter


def test_roots_confirm_runs_in_the_lab_as_a_whole(entered, monkeypatch):
    monkeypatch.chdir(CHECKOUT / "docs")
    [words] = entered("gate", "--confirm", "--json", "../results/gate.json")
    assert words[:5] == [sys.executable, "-P", "-m", "nearmetal.lab", "exec"]
    assert words[5:7] == ["env", f"--chdir={CHECKOUT}/docs"]
    assert f"RFM_PREFIX={CHECKOUT}/results" in words
    assert words[-5:] == ["nearmetal", "gate", "--confirm", "--json", "../results/gate.json"]
    assert entered("gate", "--confirm", uid=STRANGER + 1) == []


@pytest.mark.parametrize("option", ["--json", "--database"])
def test_a_file_that_the_lab_lacks_is_refused(entered, option):
    with pytest.raises(NearmetalError, match=r"/srv/x is not in the lab.*Fix: "):
        entered("gate", "--confirm", option, "/srv/x")
    assert entered("gate", "--confirm", "--json", "/dev/stdout")
