"""The end of a command after an unforeseen error: never with a verdict's exit code."""

import os
import signal
import sys
import traceback

#: Exit code of an unforeseen error.
UNFORESEEN = 3
#: Least Python of the commands that judge and report, for their packages.
JUDGES = (3, 11)
#: What a shell reports of a process that SIGPIPE ended.
NOBODY_READS = 128 + signal.SIGPIPE
#: The option that adds the traceback to the one line.
OPTION = "--debug"
HELP = "with an unforeseen error, print the traceback as well"


class Ended(KeyboardInterrupt):
    """A signal asks the command to end. What cleans up after Ctrl-C does so here, too."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def end_by_signals() -> None:
    """Make SIGTERM and SIGHUP end this process as Ctrl-C does. `nohup` still ignores SIGHUP."""

    def end(number, frame):
        raise Ended(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def guarded(run, name: str, code: int = UNFORESEEN) -> int:
    """The exit code that `run()` returns, or the code for what it raises, after one line on stderr.

    :arg name: of the command; the line begins with it.
    :arg code: for an unforeseen error.
    """
    try:
        status = run()
        # Here, as Python would end with another code if its own flush failed.
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as error:
        print(f"{name}: interrupted", file=sys.stderr)
        return 128 + getattr(error, "number", signal.SIGINT)
    except BrokenPipeError:
        _stop_writing()
        return NOBODY_READS
    except ModuleNotFoundError as error:
        if (error.name or "nearmetal").partition(".")[0] == "nearmetal":
            return _unforeseen(error, name, code)
        print(f"{name}: there is no package {error.name}. Fix: {_fix()}", file=sys.stderr)
        return code
    except Exception as error:
        return _unforeseen(error, name, code)


def _fix() -> str:
    """How the packages of all commands are installed."""
    fix = "pip install 'nearmetal[report]'"
    if sys.version_info >= JUDGES:
        return fix
    return f"{fix} with Python {'.'.join(map(str, JUDGES))} or later; this one runs checks alone"


def _unforeseen(error: Exception, name: str, code: int) -> int:
    """The code, after one line that says what and where."""
    if OPTION in sys.argv:
        traceback.print_exception(type(error), error, error.__traceback__)  # Python 3.9
    place = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    print(
        f"{name}: unforeseen {type(error).__name__}: {text} "
        f"({os.path.basename(place.filename)}:{place.lineno}). "
        f"Fix: report it with what {OPTION} prints",
        file=sys.stderr,
    )
    return code


def _stop_writing() -> None:
    """Redirect Python's last flush of stdout, whose reader has gone."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file, as in tests
        pass
