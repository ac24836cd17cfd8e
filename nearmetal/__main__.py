"""The `nearmetal` command, also as `python -m nearmetal`."""

import sys

from nearmetal.util import cli_errors


def command() -> int:
    """The exit code. Imported here, as a package that the command needs may be missing."""
    from nearmetal.cli import main

    return main()


def main() -> int:
    return cli_errors.guarded(command, "nearmetal")


if __name__ == "__main__":
    sys.exit(main())
