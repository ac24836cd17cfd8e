"""The machine room: the namespaces in which a lab's switches and nodes live, and the way into them.

A lab is one process, the room's init, in PID, mount, network, IPC and host-name namespaces of its own. Nodes are the
same again inside it. Nothing of a lab exists outside: when the room's init ends, the kernel ends every process and
takes down every link and mount, which is all that `lab-down` has to do and why a crash leaves nothing to sweep.
"""

import fcntl
import hashlib
import io
import json
import os
import signal
import subprocess
import tarfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from nearmetal.checkout import CHECKOUT

HERE = Path(__file__).parent
#: One directory a lab, gone with it.
STATE = Path("/run/nearmetal")
#: In a lab's directory: locked by the room's processes from before their start until their end.
HOLD = "hold"
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")


class LabError(RuntimeError):
    """The lab could not do what was asked; the message says what to do."""


def wait_until(condition, seconds: float, what: str):
    """Poll a condition every 20 ms and return its first true value. Raises LabError after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
    return value


def _identity(pid: int) -> str | None:
    """What tells this process from a later one of the same number, also after a reboot; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    if fields[0] == "Z":
        return None
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {fields[19]}"


def _read(record: Path) -> dict:
    """What a room's start recorded; empty without a usable record."""
    try:
        state = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def _living(record: Path) -> dict | None:
    """What a room's start recorded, if that room still lives."""
    state = _read(record)
    if not isinstance(state.get("pid"), int):
        return None
    return state if _identity(state["pid"]) == state.get("identity") else None


def images_in_use() -> set[str]:
    """Node images, and layers of them, that the labs of this host stand on, also while a lab starts."""
    used = set()
    for record in STATE.glob("*/room.json"):
        if _living(record) or _held(record.with_name(HOLD)):
            state = _read(record)
            used |= {state.get("image"), state.get("layer")}
    return {directory for directory in used if directory}


def _held(path: Path) -> bool:
    """Whether a process holds the lock on this file."""
    try:
        with open(path) as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _holders(path: Path) -> list[int]:
    """Processes that have this file open: also those of which no record tells."""
    wanted = path.stat()
    found = []
    for opened in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            same = os.path.samestat(opened.stat(), wanted)
        except OSError:
            continue
        if same:
            found.append(int(opened.parts[2]))
    return [pid for pid in found if pid != os.getpid()]


def _same_file(handle, path: Path) -> bool:
    """Whether the open file still goes by this name."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


class Room:
    """The machine room of one checkout."""

    def __init__(self, checkout: Path = CHECKOUT):
        self.checkout = checkout
        name = hashlib.sha256(str(checkout).encode()).hexdigest()[:12]
        self.directory = STATE / name
        self._state = self.directory / "room.json"
        self._hold = self.directory / HOLD

    @contextmanager
    def locked(self, say=print):
        """Only one `up` or `down` of a lab at a time."""
        self.directory.parent.mkdir(exist_ok=True)
        lock = self.directory.with_suffix(".lock")
        handle = open(lock, "a")  # noqa: SIM115 - it is closed below
        try:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    say("lab: waiting for another lab-up or lab-down of this checkout")
                    fcntl.flock(handle, fcntl.LOCK_EX)
                # The one before may have removed the file: a lock on what has no name locks nobody out.
                if _same_file(handle, lock):
                    break
                handle.close()
                handle = open(lock, "a")  # noqa: SIM115 - it is closed below
            try:
                yield
            finally:
                if not self.directory.exists():
                    lock.unlink(missing_ok=True)
        finally:
            handle.close()

    @property
    def state(self) -> dict | None:
        """What `start` recorded, if this room still lives."""
        return _living(self._state)

    @property
    def interrupted(self) -> bool:
        """Whether processes of a room live that no record tells of: its start did not come to an end."""
        return self.state is None and _held(self._hold)

    def start(self, facts: dict) -> None:
        """Make the namespaces and record their init together with the facts that the lab was made from: its image among them,
        the layer for virtual machines (None: there are none) and these machines' names.

        Whoever ends this command, at whatever moment, leaves a room that `stop` finds: its first process inherits a locked
        file, and each further one inherits it from that."""
        self.directory.mkdir(parents=True, exist_ok=True)
        base = self.directory / "mount"
        base.mkdir(exist_ok=True)
        log = self.directory / "room.log"
        self._write({"pid": None, "identity": None, **facts})
        with open(log, "w") as output, open(self._hold, "a") as hold:
            fcntl.flock(hold, fcntl.LOCK_EX)
            parent = subprocess.Popen(
                [
                    "unshare",
                    *NAMESPACES,
                    "--fork",
                    "--kill-child",
                    str(HERE / "enter.sh"),
                    "machine-room",
                    ":".join(filter(None, (facts["layer"], facts["image"]))),
                    str(base),
                    str(self.checkout),
                    *map(str, facts["memory_kb"]["machine-room"]),
                ],
                pass_fds=[hold.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd="/",
            )

        def entered():
            if parent.poll() is not None:
                raise LabError(
                    f"the machine room did not start: {log.read_text().strip() or 'no word in its log'}"
                )
            children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
            return (
                children
                and Path(f"/proc/{children[0]}/comm").read_text().strip() == "tini"
                and int(children[0])
            )

        pid = wait_until(entered, 20, "starting the machine room")
        self._write({"pid": pid, "identity": _identity(pid), **facts})

    def record(self, **facts) -> None:
        """Add facts to those of the start."""
        self._write((self.state or {}) | facts)

    def _write(self, state: dict) -> None:
        """Whole or not at all, whenever this command is ended."""
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(state))
        part.replace(self._state)

    def stop(self) -> None:
        """End the room and everything in it; fine if there is none."""

        def ended() -> bool:
            pids = _holders(self._hold) if _held(self._hold) else []
            if state := self.state:
                pids.append(state["pid"])
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not pids and not _held(self._hold)

        wait_until(ended, 20, "ending the machine room")
        if self.directory.exists():
            names = ("room.json", "room.part", "room.log", HOLD)
            for path in (self.directory / name for name in names):
                path.unlink(missing_ok=True)
            for path in (self.directory / "mount", self.directory):
                if path.exists():
                    path.rmdir()

    def enter(self, node: str | None = None) -> list[str]:
        """The command prefix that runs what follows in the room, or in one of its nodes."""
        state = self.state
        if not state:
            raise LabError("the lab is not up; start it with: make lab-up")
        into = ["nsenter", "--target", str(state["pid"]), *NAMESPACES, "--root", "--wd", "--"]
        if node and node in state.get("guests", ()):
            # ssh hands one line to a shell over there, so that each word has to be quoted once more.
            into += [
                "bash",
                "-c",
                '[ -t 0 ] && tty=-t || tty=-T; exec ssh "$tty" -F /lab/ssh/config "$0" "${*@Q}"',
                node,
            ]
        elif node:
            # A node's number is valid in the room's PID namespace, so the second step starts there.
            into += [
                "sh",
                "-c",
                (
                    'exec nsenter --target "$(cat "/lab/run/$0.pid")" --mount --uts --ipc --net --pid '
                    '--root --wd -- "$@"'
                ),
                node,
            ]
        return into

    def run(
        self,
        *command: str,
        node: str | None = None,
        stdin: str | bytes = b"",
        check: bool = True,
        timeout: float | None = None,
    ) -> str:
        """Output of a command run as root in the room or a node. Raises LabError with its words."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            done = subprocess.run(
                [*self.enter(node), *command], input=data, capture_output=True, timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"{node or 'machine room'}: `{' '.join(command)}` did not end within {timeout:.0f} s"
            ) from error
        if check and done.returncode:
            raise LabError(
                f"{node or 'machine room'}: `{' '.join(command)}` ended with {done.returncode}: "
                f"{done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout.decode(errors="replace")

    def put(self, files: dict[str, tuple[str, int]]) -> None:
        """Write files (path below /lab -> contents, mode) into the room."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, (text, mode) in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode, entry.mtime = len(text.encode()), mode, int(time.time())
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.run("tar", "--extract", "--directory=/lab", stdin=buffer.getvalue())
