"""JVM settings and warm-up, as src/java/launch/jvm.sh and the Java programs print them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import bounded, damaged
from nearmetal.checks.parsing.output import words_of

#: Settings that jvm.sh prints for each launch. `buffers` is there where they are not arrays.
SETTINGS, BUFFERS = "library device heap gc pages", " buffers"
#: The lines that a program prints about its warm-up, and CG about its product.
WARM_UP = re.compile(r"# nearmetal warm_up\w*: stable=(yes|no) .*")
PRODUCT = re.compile(r"# nearmetal product: (vectors|elements)")


@dataclass(frozen=True)
class JvmRun:
    """JVM settings and warm-up of all launches in a job's output."""

    #: Such as `library=express device=niodev heap=256MB gc=serial pages=default`.
    settings: str
    #: Whether the JIT compiler was idle when the clock started.
    warm_up: str
    #: The settings of each launch, by name.
    did: list[dict] = field(default_factory=list)
    #: By what CG multiplied: `vectors`, `elements` or `elements, vectors`.
    product: str = ""


@bounded
def parse_jvm(text: str) -> JvmRun | None:
    """Settings of the JVMs; None if no Java program ran. Raises ParseError for a damaged line."""
    lines = text.splitlines()
    settings = [line.partition(": ")[2] for line in lines if line.startswith("# nearmetal jvm")]
    if not settings:
        return None
    did = []
    for setting in settings:
        names = SETTINGS + BUFFERS * (f"{BUFFERS}=" in setting)
        did.append(words_of(setting, "the settings of a JVM", names))
    stable = _words(lines, "warm_up", WARM_UP, "whether the JIT compiler was idle")
    products = _words(lines, "product", PRODUCT, "by what CG multiplied")
    warm_up = "settled"
    if not stable:
        warm_up = "not told"
    elif "no" in stable:
        warm_up = "not everywhere settled: raise java_warm_up"
    product = ", ".join(sorted(set(products)))
    return JvmRun(" | ".join(dict.fromkeys(settings)), warm_up, did, product)


def _words(lines: list[str], key: str, form: re.Pattern, what: str) -> list[str]:
    """What each line of a key says. Raises ParseError for a line of another form."""
    words = []
    for line in lines:
        if not line.startswith(f"# nearmetal {key}"):
            continue
        match = form.fullmatch(line)
        if not match:
            raise damaged(f"{line!r} does not say {what}")
        words.append(match[1])
    return words
