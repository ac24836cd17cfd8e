"""The shell functions of a duet's job, and the calls of its launches."""

from nearmetal.checks.parsing.duet import order


def functions(
    variants: dict[str, tuple[tuple[str, ...], list[str], str]], judge: str = ""
) -> list[str]:
    """Lines that define the shell function `launch PAIR VARIANT`.

    The function prints the pair and the variant, launches the variant, and saves the byte counters.

    :arg variants: `a` or `b` -> (commands before the launch, commands of the launch, command that
        prints the counters). Each variant runs in a subshell, so its settings end with its launch.
    :arg judge: limits and output of the job, quoted, to judge each launch by the counters of the
        launch before (repeats.sh). '': do not.
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
        *(_judging(judge) if judge else []),
        "}",
    ]


def _judging(judge: str) -> list[str]:
    return [
        "    turn=$((turn + 1))",
        f"    evidence $turn {judge} ${{last:-provenance.before}} counters.$1.$2 || [ $? -eq 1 ]",
        "    last=counters.$1.$2",
    ]


def calls(pairs: int) -> list[str]:
    """Calls of all launches in order. Raises ParseError unless the number of pairs is even."""
    return [f"launch {pair} {letter}" for pair, letter in order(pairs)]
