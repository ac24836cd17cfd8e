"""The shell functions of a duet's job, and the calls that make up its launches."""

from nearmetal.checks.parsing.duet import order


def functions(variants: dict[str, tuple[tuple[str, ...], list[str], str]]) -> list[str]:
    """Lines that define `launch PAIR VARIANT`, which says whose output follows and keeps the byte
    counters after it.

    :arg variants: by `a` and `b`: the commands that prepare a launch, its own, and that of the
    counters. Each variant is a
        subshell, so that no setting outlives its launch.
    """
    lines = []
    for letter, (prepare, commands, counters) in variants.items():
        lines += [
            f"variant_{letter}() (",
            *(f"    {line}" for line in (*prepare, *commands)),
            ")",
            f"counters_{letter}() {{ {counters}; }}",
        ]
    return [
        *lines,
        "launch() {",
        '    echo "# nearmetal duet: pair=$1 variant=$2"',
        "    variant_$2",
        "    counters_$2 > counters.$1.$2",
        "}",
    ]


def calls(pairs: int) -> list[str]:
    """All launches in their order. ParseError for a number of pairs that has none."""
    return [f"launch {pair} {letter}" for pair, letter in order(pairs)]
