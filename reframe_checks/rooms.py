"""Modules of rooms that are no packages."""

import importlib.util
import sys
from pathlib import Path


def imported(path: Path):
    """The module of that file."""
    spec = importlib.util.spec_from_file_location(
        f"nearmetal_{path.parent.name.replace('-', '_')}_{path.stem}", path
    )
    sys.modules[spec.name] = module = importlib.util.module_from_spec(
        spec
    )  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module
