"""What src/java/launch/jvm.sh and the programs in Java say beside their results."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class JvmRun:
    """Of all launches in a job's output."""

    settings: str  #: such as `library=express device=niodev heap=256MB gc=serial pages=default`
    warm_up: str  #: whether the JIT compiler was at rest when the clock started


def parse_jvm(text: str) -> JvmRun | None:
    """What the JVMs were set to; None where no program in Java ran."""
    settings = dict.fromkeys(re.findall(r"^# nearmetal jvm: (.*)$", text, re.M))
    if not settings:
        return None
    stable = re.findall(r"^# nearmetal warm_up\w*: stable=(yes|no) ", text, re.M)
    warm_up = (
        "not told"
        if not stable
        else "settled"
        if "no" not in stable
        else "not everywhere settled: raise java_warm_up"
    )
    return JvmRun(" | ".join(settings), warm_up)
