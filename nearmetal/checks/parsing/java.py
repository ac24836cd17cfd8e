"""JVM settings and warm-up, as src/java/launch/jvm.sh and the Java programs print them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, bounded, words_of

#: Settings that jvm.sh prints for each launch. `buffers` is there where they are not arrays.
SETTINGS, BUFFERS = "library device heap gc pages", " buffers"
#: The lines that a program prints about its warm-up, and CG about its product.
WARM_UP = re.compile(r"# nearmetal warm_up\w*: stable=(yes|no) .*")
PRODUCT = re.compile(r"# nearmetal product: (vectors|elements)")


@dataclass(frozen=True)
class JvmRun:
    """JVM settings and warm-up of all launches in a job's output."""

    settings: str  #: such as `library=express device=niodev heap=256MB gc=serial pages=default`
    warm_up: str  #: whether the JIT compiler was idle when the clock started
    did: list[dict] = field(default_factory=list)  #: the settings of each launch, by name
    product: str = ""  #: by what CG multiplied: `vectors`, `elements` or `elements, vectors`


@bounded
def parse_jvm(text: str) -> JvmRun | None:
    """Settings of the JVMs; None if no Java program ran. Raises ParseError for a damaged line."""
    lines = text.splitlines()
    settings = [line.partition(": ")[2] for line in lines if line.startswith("# nearmetal jvm")]
    if not settings:
        return None
    did = [
        words_of(each, "the settings of a JVM", SETTINGS + BUFFERS * (f"{BUFFERS}=" in each))
        for each in settings
    ]
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
    told = [line for line in lines if line.startswith(f"# nearmetal {key}")]
    words = [found[1] for found in map(form.fullmatch, told) if found]
    if len(words) != len(told):
        raise ParseError(f"a line does not say {what}: rerun")
    return words
