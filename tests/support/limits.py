"""What hostile copies of a file do to its reader: measured in a process of its own, which a busy
machine or another test does not change."""

import multiprocessing
import resource
import signal
from collections import Counter
from collections.abc import Callable, Iterable

#: Most seconds of the processor that a reader takes for a copy, and most MB beyond its start.
SECONDS, MEGABYTES = 2.0, 500


class Hang(BaseException):
    """A reader took too long. No reader takes this for an error of its own."""


def limited(read: Callable, text: str):
    """What a reader gives. Raises Hang after SECONDS of the processor."""

    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        return read(text)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ends_of(copies: Iterable, read: Callable, own: tuple) -> tuple[Counter, list[str]]:
    """How copies ended, and a line for each that gave a traceback or took too long."""
    ends, wrong = Counter(), []
    for number, (kind, copied) in enumerate(copies):
        end = "read"
        try:
            limited(read, copied)
        except own as error:
            end = "own error"
            assert str(error).strip(), f"{number} {kind}: an error without a word"
        except Hang:
            end = f"over {SECONDS:g} s"
        except Exception as error:  # what is looked for
            end = "traceback"
            kind = f"{kind}: {type(error).__name__}: {str(error)[:200]}"
        ends[end] += 1
        if end not in ("read", "own error"):
            wrong.append(f"{number} {kind}: {end}")
    return ends, wrong


def _peak() -> int:
    """The most MB of memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def expect_held(name: str, copies: Iterable, read: Callable, own: tuple) -> None:
    """Fail if a copy gives a traceback, takes too long, or takes too much memory.

    :arg own: the reader's own errors.
    """
    context = multiprocessing.get_context("fork")  # readers are local functions
    results = context.SimpleQueue()

    def work():
        start = _peak()
        results.put((*ends_of(copies, read, own), _peak() - start))

    process = context.Process(target=work)
    process.start()
    process.join()
    assert process.exitcode == 0, f"{name}: the process of the reader ended: {process.exitcode}"
    ends, wrong, megabytes = results.get()
    print(f"\n{name}: {sum(ends.values())} hostile inputs, {dict(ends)}, {megabytes} MB")
    assert not wrong, "\n".join([f"{name}: {len(wrong)}", *wrong[:40]])
    assert megabytes < MEGABYTES, f"{name}: {megabytes} MB"
