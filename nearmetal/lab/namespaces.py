"""Start, enter and end the namespaces of a lab and of its nodes.

A lab has PID, mount, network, IPC and host-name namespaces, and one init process in them. The
switches run there. Each node has the same kinds of namespaces, inside those of the lab. Nothing of
a lab exists outside them. When the init ends, the kernel ends every process and removes every link
and mount. So `lab-down` only has to kill the init, and a crash leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import glob
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
from nearmetal.lab.cache import held, lock_alone

HERE = Path(__file__).parent
#: Has one directory for each lab that runs; `stop` removes it.
STATE = Path("/run/nearmetal")
#: A file in the lab's directory; the lab's processes hold a lock on it as long as they live.
HOLD = "hold"
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")


class LabError(RuntimeError):
    """A command of the lab failed; the message says what to do."""


def wait_until(condition, seconds: float, what: str, pause: float = 0.02):
    """Poll a condition; return its first true value. Raises LabError at the timeout.

    :arg pause: seconds between two polls.
    """
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise LabError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


def _identity(pid: int) -> str | None:
    """Boot ID and start time of a process, which no later process has; None if it does not run."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    # A zombie keeps its number, but nothing of it runs.
    if fields[0] == "Z":
        return None
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {fields[19]}"


def _read(record: Path) -> dict:
    """The state that `start` recorded; empty if there is no usable record."""
    try:
        state = json.loads(record.read_text())
    except (OSError, ValueError):
        return {}
    if isinstance(state, dict):
        return state
    return {}


def _living(record: Path) -> dict | None:
    """The state that `start` recorded; None if that lab does not run."""
    state = _read(record)
    if not isinstance(state.get("pid"), int):
        return None
    if _identity(state["pid"]) == state.get("identity"):
        return state
    return None


def images_in_use() -> set[str]:
    """Node images and layers that running and starting labs of this host use."""
    used = set()
    for record in STATE.glob("*/state.json"):
        # A lab that starts holds the lock before its record is complete.
        if _living(record) or held(record.with_name(HOLD)):
            state = _read(record)
            used |= {state.get("image"), state.get("layer")}
    return {directory for directory in used if directory}


def _holders(path: Path) -> list[int]:
    """Other processes that have this file open, whether they are recorded or not."""
    wanted = path.stat()
    pids = []
    # Unlike Path.glob, glob.iglob passes over processes that end meanwhile.
    for opened in glob.iglob("/proc/[0-9]*/fd/*"):
        pid = int(opened.split("/")[2])
        with suppress(OSError):
            if pid != os.getpid() and os.path.samestat(os.stat(opened), wanted):
                pids.append(pid)
    return pids


def _same_file(handle, path: Path) -> bool:
    """Whether the path still names the open file."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


class Namespaces:
    """The namespaces of one checkout's lab."""

    def __init__(self, checkout: Path = CHECKOUT):
        self.checkout = checkout
        name = hashlib.sha256(str(checkout).encode()).hexdigest()[:12]
        self.directory = STATE / name
        self._state = self.directory / "state.json"
        self._hold = self.directory / HOLD

    @contextmanager
    def locked(self, say=print):
        """Let only one `up` or `down` of this checkout run at a time."""
        self.directory.parent.mkdir(exist_ok=True)
        lock = self.directory.with_suffix(".lock")
        handle = open(lock, "a")  # noqa: SIM115 - it is closed below

        def waits() -> None:
            say("lab: waiting for another lab-up or lab-down of this checkout")

        try:
            while True:
                lock_alone(handle, waits)
                # The previous holder may have removed the file. Then a lock on it excludes nobody.
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
        """The state that `start` recorded; None if the lab does not run."""
        return _living(self._state)

    @property
    def interrupted(self) -> bool:
        """Whether the lab's processes run without a record, since its start was interrupted."""
        return self.state is None and held(self._hold)

    def start(self, facts: dict) -> None:
        """Make the namespaces; record their init process and the facts of the lab.

        `stop` finds the lab even if this command is killed: all its processes inherit a locked
        file.

        :arg facts: recorded. They have at least `image`, `layer` (None without virtual machines),
            `guests` and `memory_kb`.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        base = self.directory / "mount"
        base.mkdir(exist_ok=True)
        log = self.directory / "state.log"
        self._write({"pid": None, "identity": None, **facts})
        with open(log, "w") as output, open(self._hold, "a") as hold:
            fcntl.flock(hold, fcntl.LOCK_EX)
            system = ":".join(filter(None, (facts["layer"], facts["image"])))
            places = (system, str(base), str(self.checkout))
            sizes = map(str, facts["memory_kb"]["nearmetal-lab"])
            parent = subprocess.Popen(
                [
                    *("unshare", *NAMESPACES, "--fork", "--kill-child"),
                    *(str(HERE / "enter.sh"), "nearmetal-lab", *places, *sizes),
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
                    "the lab's namespaces were not made: "
                    f"{log.read_text().strip() or f'{log} is empty'}"
                )
            listed = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
            try:
                children = listed.read_text().split()
                if not children:
                    return None
                program = Path(f"/proc/{children[0]}/comm").read_text().strip()
            except OSError:  # one has ended: `poll` says so
                return None
            if program == "tini":
                return int(children[0])
            return None

        pid = wait_until(entered, 20, "starting the lab's namespaces")
        self._write({"pid": pid, "identity": _identity(pid), **facts})

    def record(self, **facts) -> None:
        """Add facts to those that `start` recorded."""
        self._write((self.state or {}) | facts)

    def _write(self, state: dict) -> None:
        """Replace the record at once, so that an interruption leaves no half of it."""
        # A rename replaces a file as a whole.
        part = self._state.with_suffix(".part")
        part.write_text(json.dumps(state))
        part.replace(self._state)

    def stop(self) -> None:
        """End the lab and everything in it; do nothing if there is none."""

        def ended() -> bool:
            pids = _holders(self._hold) if held(self._hold) else []
            state = self.state
            if state:
                pids.append(state["pid"])
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not pids and not held(self._hold)

        wait_until(ended, 20, "ending the lab's namespaces")
        if self.directory.exists():
            for path in self.directory.iterdir():
                if path.is_file():
                    path.unlink()
            for path in (self.directory / "mount", self.directory):
                if path.exists():
                    path.rmdir()

    def enter(self, node: str | None = None) -> list[str]:
        """The command prefix that runs a command in the lab's namespaces, or on a node."""
        state = self.state
        if not state:
            raise LabError("the lab is not up; start it with: make lab-up")
        into = ["nsenter", "--target", str(state["pid"]), *NAMESPACES, "--root", "--wd", "--"]
        if node and node in state.get("guests", ()):
            # ssh passes one line to a shell on the guest, so each argument is quoted once more.
            ssh = '[ -t 0 ] && tty=-t || tty=-T; exec ssh "$tty" -F /lab/ssh/config "$0" "${*@Q}"'
            into += ["bash", "-c", ssh, node]
        elif node:
            # A node's PID is valid in the lab's PID namespace, so the second step starts there.
            step = f'exec nsenter --target "$(cat "/lab/run/$0.pid")" {" ".join(NAMESPACES)}'
            into += ["sh", "-c", f'{step} --root --wd -- "$@"', node]
        return into

    def run(
        self,
        *command: str,
        node: str | None = None,
        stdin: str | bytes = b"",
        check: bool = True,
        timeout: float | None = None,
    ) -> str:
        """Run a command as root in the lab's namespaces or on a node; return its output.

        Raises LabError with its error output.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin
        try:
            done = subprocess.run(
                [*self.enter(node), *command], input=data, capture_output=True, timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            raise LabError(
                f"{node or 'lab'}: `{' '.join(command)}` did not end within {timeout:.0f} s"
            ) from error
        if check and done.returncode:
            raise LabError(
                f"{node or 'lab'}: `{' '.join(command)}` ended with {done.returncode}: "
                f"{done.stderr.decode(errors='replace').strip()}"
            )
        return done.stdout.decode(errors="replace")

    def put(self, files: dict[str, tuple[str, int]]) -> None:
        """Write files (path below /lab -> contents, mode) in the lab's namespaces."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for path, (text, mode) in files.items():
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode, entry.mtime = len(text.encode()), mode, int(time.time())
                archive.addfile(entry, io.BytesIO(text.encode()))
        self.run("tar", "--extract", "--directory=/lab", stdin=buffer.getvalue())
