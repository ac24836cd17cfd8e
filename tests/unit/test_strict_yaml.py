"""What PyYAML takes silently."""

import pytest

from nearmetal import strict_yaml


@pytest.mark.parametrize("text", [".nan", "-.inf", "+.INF", "1.0e+999", "[1, .NaN]"])
def test_a_number_that_is_not_finite_is_refused_with_its_line(text):
    with pytest.raises(strict_yaml.YamlError, match=r"^line 2: \S+ is not a finite number"):
        strict_yaml.load(f"a: 1\nspeed: {text}\n")


@pytest.mark.parametrize("text", ["10", "1.5", "-1.0e+9", "1_000.5", "190:20:30.15", "inf", "nan"])
def test_finite_numbers_and_words_are_taken(text):
    assert strict_yaml.load(f"speed: {text}\n").keys() == {"speed"}


def test_a_key_that_is_there_twice_is_refused_with_its_line():
    with pytest.raises(strict_yaml.YamlError, match="line 2: the key 'a' is there twice"):
        strict_yaml.load("a: 1\na: 2\n")
