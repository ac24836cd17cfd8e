"""The pages of a program's memory: as the system has them, small, or large."""

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks import provenance
from nearmetal.checks.settings import setting
from nearmetal.checks.versions import Plugin

#: What a program may be given. `default` is what the system does.
CHOICES = ("default", "small", "large")
#: Least part of the buffers in large pages where these were asked for.
LARGE = 0.5
#: The most where small pages were asked for. Others' large pages count too.
SMALL = 0.25
#: Least bytes of a process by which the kernel's counters can tell: two large pages.
LEAST = 4 << 20


def fault(
    pages: str, given: float, needed: float, who: str, what: str, small: float = SMALL
) -> str:
    """Why the kernel's large pages are not those that were asked for, or ''.

    :arg given: bytes that the kernel gave in large pages, to all programs.
    :arg needed: bytes of the buffers.
    :arg who: what gave them, such as `node1`.
    :arg what: what needs them, such as `HPL alone`.
    """
    sizes = f"{given / 1e6:.0f} MB in large pages, and {what} {needed / 1e6:.0f} MB of it"
    if pages == "large" and given < LARGE * needed:
        return (
            f"{who} gave {sizes}: is memory fragmented, the C library older than glibc 2.35, or "
            "has the program static arrays?"
        )
    if pages == "small" and given > small * needed:
        return f"{who} gave {sizes}, although small pages were asked for: who else ran there?"
    return ""


class Pages(Plugin):
    """A check whose program can have its memory in small or in large pages.

    The check defines `buffer_bytes()`. The kernel's counters then say whether it had them.
    """

    #: Pages of the program's memory. `small` withdraws transparent huge pages from it. `large` has
    #: the C library ask for pages of 2 MiB (madvise). The case fails where the kernel gives others.
    #: Default: as the system has it. :values: `default`, `small`, `large`
    pages = setting(str, "default", choices=CHOICES)

    def buffer_bytes(self) -> float:
        """Bytes of the buffers of one repeat, of all processes that have LEAST bytes or more."""
        raise NotImplementedError

    @builtin.run_before("compile")
    def choose_pages(self):
        if self.pages != "default":
            self.have_pages_chosen()

    def have_pages_chosen(self) -> None:
        """Build the program that chooses the pages. Skips what cannot have them."""
        if any(runtime.java for runtime in self.runtimes):
            self.skip(f"{self.display_name}: a JVM has the setting java_pages in place of pages")
        if not self.buffer_bytes():
            self.skip(
                f"{self.display_name}: the buffers of a process are smaller than "
                f"{LEAST >> 20} MiB, so that nothing shows which pages it had. Fix: measure a "
                "larger problem, or leave pages out"
            )
        compiler = self.current_environ.cc or "cc"
        self.postbuild_cmds += [f"{compiler} -std=c11 -O2 pages.c -o pages"]

    def check_pages(self):
        if self.pages == "default":
            return
        given = provenance.large_page_bytes_of_machines(*self._counters)
        needed = self.repeats * self.buffer_bytes()
        if why := fault(self.pages, given, needed, "the kernel", "the buffers have"):
            raise SanityError(f"pages={self.pages}: {why}")
