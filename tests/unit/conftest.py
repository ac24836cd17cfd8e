"""What many tests read is parsed once in each worker."""

import functools
import pickle

import pytest

from nearmetal.compare import published
from nearmetal.expectations import entries
from nearmetal.util import strict_yaml


@pytest.fixture(scope="session", autouse=True)
def files_are_parsed_once():
    with pytest.MonkeyPatch.context() as patch:
        for module in (published, entries):
            patch.setattr(module, "load", of_checkout_once(module.load))
        patch.setattr(strict_yaml, "load", of_text_once(strict_yaml.load))
        yield


def of_checkout_once(load):
    """A function that keeps what it returns without an argument: it reads the checkout."""
    kept = functools.cache(load)
    return lambda *arguments: load(*arguments) if arguments else kept()


def of_text_once(load):
    """A function that keeps what it returns of a text, and returns copies."""
    kept = functools.lru_cache(500)(lambda text: pickle.dumps(load(text)))
    return lambda text: pickle.loads(kept(text))
