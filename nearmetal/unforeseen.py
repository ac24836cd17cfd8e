"""How the project's commands end when something goes wrong that nobody foresaw: never with a verdict's exit code."""

import os
import sys
import traceback

#: Exit code of an error that nobody foresaw.
UNFORESEEN = 3
#: What a shell reports of a process that SIGINT or SIGPIPE ended.
INTERRUPTED, NOBODY_READS = 128 + 2, 128 + 13
#: The option that adds the traceback to the one line.
OPTION = "--debug"
HELP = "with an unforeseen error, print the traceback as well"


def guarded(run, name: str, code: int = UNFORESEEN) -> int:
    """The exit code that `run()` returns, or the code for what it raises, after one line on stderr.

    :arg name: of the command, which the line begins with.
    :arg code: for an error that nobody foresaw.
    """
    try:
        status = run()
        # Not only at the end of Python, which ends with a code of its own then.
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        _stop_writing()
        return NOBODY_READS
    except Exception as error:  # what nobody foresaw has no narrower type
        if OPTION in sys.argv:
            traceback.print_exc()
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
    """Lets Python's last flush of stdout, whose reader has gone, go nowhere."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # not a file, as in tests
        pass
