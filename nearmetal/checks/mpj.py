"""Environments with the feature `mpj`: how programs in Java are built and called with their library."""

import re
import shlex

from nearmetal.checks import images

#: What a library's own variable names: the directory of its installation.
HOMES = {"express": "MPJ_HOME", "fastmpj": "FMPJ_HOME"}
#: The launcher's part in shell, where a check is built.
SCRIPT = "java/launch/jvm.sh"


def in_java(environ) -> bool:
    """Whether programs of this environment are written in Java."""
    return "mpj" in environ.features


def library(environ) -> str:
    return "fastmpj" if "fastmpj" in environ.features else "express"


def jvm_command(main: str, script: str = SCRIPT, **settings) -> str:
    """The command of a task: the script jvm.sh with those settings that are given, and the class that it runs."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", main):
        raise ValueError(f"{main!r} is no name of a class")
    options = (f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if value)
    return shlex.join(["sh", script, *options, main])


def directories(environ) -> tuple[str, str]:
    """Where the program's classes are, and the launcher's."""
    if images.image_of(environ):
        return f"{images.JAVA}/classes", f"{images.JAVA}/launch"
    return f"classes.{environ.name}", f"launch.{environ.name}"


def script(environ) -> str:
    return f"{images.JAVA}/jvm.sh" if images.image_of(environ) else SCRIPT


def build_commands(environ, program: str) -> list[str]:
    """Those that compile a class of src/java/, or of a file, with all that it needs, and the launcher."""
    if images.image_of(environ):
        return ["true"]  # it is there
    home, (classes, launch) = HOMES[library(environ)], directories(environ)
    # Of a compiler that runs for a second C2 takes more than it gives.
    javac = "javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC --release 17"
    source = program if program.endswith(".java") else f"java/{program}.java"
    commands = [
        'command -v javac > /dev/null || { echo "javac is not on PATH: load the module of a JDK (17 or newer)" >&2; exit 1; }',
        (
            f'[ -r "${home}/lib/mpj.jar" ] || {{ echo "{home}=${home} has no lib/mpj.jar: it is to be the directory of the '
            "library's installation\" >&2; exit 1; }"
        ),
        f"{javac} -Xlint:all -Werror -d {launch} java/launch/*.java",
        f'{javac} -cp "${home}/lib/mpj.jar" -sourcepath java -d {classes} {shlex.quote(source)}',
    ]
    if library(environ) == "express":
        # As it comes, niodev listens on all networks of a node.
        commands += [f'java -cp "{launch}:${home}/lib/mpj.jar" launch.Confine {launch}']
    return commands
