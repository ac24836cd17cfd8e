"""What the checkout holds is read once in each worker: it does not change while tests run."""

import functools

import pytest

from nearmetal import published
from nearmetal.expectations import entries


@pytest.fixture(scope="session", autouse=True)
def shipped_files_are_read_once():
    with pytest.MonkeyPatch.context() as patch:
        for module in (published, entries):
            patch.setattr(module, "load", reading_once(module.load))
        yield


def reading_once(load):
    """The function, which keeps what it returns without an argument."""
    shipped = functools.cache(load)
    return lambda *arguments: load(*arguments) if arguments else shipped()
