"""What PyYAML takes silently."""

import pytest

from nearmetal.util import strict_yaml


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


BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{f'*a{n - 1},' * 10}]" for n in range(1, 9))])


@pytest.mark.parametrize(
    "text, message",
    [
        (BOMB, "aliases make more than"),
        ("a: &a [*a]", "within its own anchor"),
        ("[" * 100_000, "more than 10000 levels"),
        ("- " * 60_000 + "a", "more than 10000 levels"),
        (f"a: {'9' * 401}", "a number has 401 characters"),
        (f"a: 1{':1' * 100_000}", "a number has 200001 characters"),
    ],
)
def test_what_would_use_up_time_or_memory_is_refused(text, message):
    with pytest.raises(strict_yaml.YamlError, match=f"{message}.*Fix: "):
        strict_yaml.load(text)
