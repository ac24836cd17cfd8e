"""Errors that end a command with one line and an exit code."""


class NearmetalError(ValueError):
    """Bad usage or unreadable input. The message names the place and the fix."""

    exit_code = 3
    prefix = ""  #: what the printed line begins with


class Incomplete(NearmetalError):
    """The requested results are missing. The message names them."""

    exit_code = 2
    prefix = "incomplete: "
