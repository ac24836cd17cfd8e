"""Runtimes: how the programs of an environment are built, found and started in a partition.

`runtime_of` yields one object for an environment: bare (modules and a compiler), an image, Spack,
or JVMs on top of any of these. A check holds one runtime; a duet holds two.
"""

from nearmetal.checks.runtime.bare import Bare
from nearmetal.checks.runtime.image import Image, image_of
from nearmetal.checks.runtime.jvm import Jvm, in_java
from nearmetal.checks.runtime.spack import Spack, from_spack


def runtime_of(environ, partition, installer=None, jvm_settings=None) -> Bare:
    """The runtime of an environment in a partition.

    :arg installer: function: environment -> the test that installed its Spack packages.
    :arg jvm_settings: function: environment -> settings of its JVMs. None for a check without Java.
    """
    runtime: Bare
    if image_of(environ):
        runtime = Image(environ, partition)
    elif from_spack(environ):
        runtime = Spack(environ, partition, installer)
    else:
        runtime = Bare(environ, partition)
    if jvm_settings and in_java(environ):
        return Jvm(runtime, jvm_settings(environ))
    return runtime


def both(values) -> str:
    """One text for the values of A and B: the value itself if they are equal."""
    if len(set(values)) == 1:
        return values[0]
    a, b = values
    return f"A: {a}; B: {b}"


def image_in(runtimes) -> str:
    """Name and digest of the image of one runtime, or of two. '' if there is none."""
    images = [runtime.image or "none" for runtime in runtimes]
    if set(images) == {"none"}:
        return ""
    return both(images)


def facts_of(runtimes, program) -> dict[str, str]:
    """Facts of the software of one runtime, or of two. They are recorded with each result."""
    of_runtimes = [runtime.facts(program) for runtime in runtimes]
    names: dict[str, None] = {}
    for facts in of_runtimes:
        names.update(dict.fromkeys(facts))
    shared = {}
    for name in names:
        shared[name] = both([facts.get(name, "none") for facts in of_runtimes])
    return shared
