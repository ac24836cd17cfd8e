"""Cases to measure again: text for ReFrame's command line, and back."""

import pytest

from nearmetal.model.remeasure import Remeasure, read, write

CASES = {
    ("pingpong %placement=internode", "native", "mpich", ""): Remeasure(5, ("n1", "n2"), ("n3",)),
    ("a:b,c+d ü", "cc", "open-mpi", "n7"): Remeasure(32),
}


def test_what_is_written_is_read():
    assert read(write(CASES)) == CASES


def test_the_text_needs_no_quotes_in_a_shell():
    assert set(write(CASES)) <= set("abcdefghijklmnopqrstuvwxyz0123456789%ABCDEF+:,.-_")


@pytest.mark.parametrize("text", ["x", "a:b:c::0::", "a:b:c::many::", ":b:c::3::", "a:b:c::3:"])
def test_a_damaged_text_is_named(text):
    with pytest.raises(ValueError, match="is not CHECK:PARTITION"):
        read(text)
