"""The runtime of programs in Java: JVMs that srun starts (environments with the feature `mpj`).

MPJ Express and FastMPJ have a launcher of their own, `srun-mpj`. With mpj-native the ranks start as
those of programs in C, since its messages go through the cluster's own MPI library.
"""

import os
import re
import shlex
from pathlib import Path

from nearmetal.checkout import CHECKOUT, SOURCES
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.programs import presence
from nearmetal.checks.runtime.bare import Bare, like
from nearmetal.checks.runtime.image import JAVA, image_of
from nearmetal.checks.settings import JAVA_HOSTS, JAVA_PORTS
from nearmetal.site.launchers import SRUN_MPJ  # the import registers it

#: Environment variable that holds the directory of a library's installation.
HOMES = {"express": "MPJ_HOME", "fastmpj": "FMPJ_HOME"}
#: Sources of mpj-native, and the script that compiles them.
NATIVE = CHECKOUT / "mpj-native"
#: Shell part of the launcher, in the build directory.
SCRIPT = "java/launch/jvm.sh"


def in_java(environ) -> bool:
    """Whether the environment's programs are written in Java."""
    return "mpj" in environ.features


def library(environ) -> str:
    """The message-passing library of an environment: `express`, `fastmpj` or `native`."""
    if "fastmpj" in environ.features:
        return "fastmpj"
    if "mpj_native" in environ.features:
        return "native"
    return "express"


def jvm_command(main: str, script: str = SCRIPT, **settings) -> str:
    """The command of one process: jvm.sh, the given settings, and the class."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", main):
        raise ValueError(f"{main!r} is no name of a class")
    # jvm.sh has a default for each option that is not given.
    options = (f"--{name.replace('_', '-')}={value}" for name, value in settings.items() if value)
    return shlex.join(["sh", script, *options, main])


def directories(environ) -> tuple[str, str]:
    """The directories of the program's classes, and of the launcher's or mpj-native's."""
    native = library(environ) == "native"
    if image_of(environ):
        if native:
            return f"{JAVA}/classes.native", f"{JAVA}/library"
        return f"{JAVA}/classes", f"{JAVA}/launch"
    launcher = "launch"
    if native:
        launcher = "library"
    return f"classes.{environ.name}", f"{launcher}.{environ.name}"


def script(environ) -> str:
    """The script that starts a JVM."""
    if image_of(environ):
        return f"{JAVA}/jvm.sh"
    return SCRIPT


def build_commands(environ, program: str) -> list[str]:
    """Commands that compile the launcher and a class of src/java/, or a file."""
    if image_of(environ):
        return ["true"]  # the image has it
    classes, launcher = directories(environ)
    # javac runs for a second. In that time C2 costs more than it saves.
    javac = "javac -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC"
    source = program
    if not program.endswith(".java"):
        source = f"java/{program}.java"
    if library(environ) == "native":
        # As build.sh and jvm.sh: an older javac of PATH cannot read mpj-native's classes.
        of_java_home = javac.replace("javac", '"${JAVA_HOME:+$JAVA_HOME/bin/}javac"', 1)
        return [
            f"sh {shlex.quote(str(NATIVE / 'build.sh'))} {launcher}",
            f"{of_java_home} -cp {launcher} -sourcepath java -d {classes} {shlex.quote(source)}",
            *_vectors(of_java_home, f"{launcher}:{classes}", classes, program),
        ]
    home, javac = HOMES[library(environ)], f"{javac} --release 17"
    commands = [
        presence("javac", "load the module of a JDK (17 or newer)"),
        (
            f'[ -r "${home}/lib/mpj.jar" ] || {{ echo "{home}=${home} has no lib/mpj.jar: it is to '
            "be the directory of the library's installation\" >&2; exit 1; }"
        ),
        f"{javac} -Xlint:all -Werror -d {launcher} java/launch/*.java",
        f'{javac} -cp "${home}/lib/mpj.jar" -sourcepath java -d {classes} {shlex.quote(source)}',
    ]
    if library(environ) == "express":
        # The library's own niodev listens on all networks of a node.
        commands += [f'java -cp "{launcher}:${home}/lib/mpj.jar" launch.Confine {launcher}']
    return commands


def _vectors(javac: str, path: str, directory: str, program: str) -> list[str]:
    """The command that compiles a program's class for vectors, where the JDK has their module."""
    source = f"java/vectors/{program}Vectors.java"
    if not (SOURCES / source).is_file():
        return []
    module = "jdk.incubator.vector"
    there = f'"${{JAVA_HOME:+$JAVA_HOME/bin/}}java" --list-modules | grep -q {module}'
    compile_it = f"{javac} --add-modules {module} -cp {path} -d {directory} {source}"
    return [f"if {there}; then {compile_it}; fi"]


class Jvm(Bare):
    """Programs in Java: one JVM for each rank, or one for all. Another runtime has the library.

    :arg software: the runtime that has the library and the JDK.
    :arg settings: `device`, `heap`, `gc`, `pages` and `warm_up` of the JVMs (`JavaSettings`), and
        `buffers` of the ping-pong.
    """

    java = True

    def __init__(self, software: Bare, settings: dict):
        super().__init__(software.environ, software.partition)
        self.software, self.settings = software, settings
        self.native = library(software.environ) == "native"
        if self.native:  # its ranks are processes, and the MPI library chooses the device
            self.settings = {**settings, "device": "mpi"}
        self.one_process = self.settings["device"] == "threads"

    @property
    def image(self):
        return self.software.image

    def skip_reason(self, launcher):
        skip_reason = self.software.skip_reason(launcher)
        if skip_reason:
            return skip_reason
        if self.native:
            if not self.image and not (NATIVE / "build.sh").exists():
                return (
                    f"{self.environ.name} is built from {NATIVE}, which is not there: use a "
                    "checkout"
                )
            return self._not_by_srun(launcher)
        # Only mpj-native takes direct buffers.
        if self._off_heap():
            return f"{self.environ.name} sends arrays only: leave java_buffers out"
        environ, home = self.environ, HOMES[library(self.environ)]
        named = environ.modules or environ.env_vars.get(home) or os.environ.get(home)
        if library(environ) == "fastmpj" and not named:
            return (
                f"{home} is not set. FastMPJ is each site's own licensed copy: give its directory "
                f"in env_vars of the environment {environ.name}"
            )
        return self._not_by_srun(launcher)

    def _off_heap(self):
        return self.settings.get("buffers") == "off_heap"

    def _not_by_srun(self, launcher):
        if launcher in ("srun", SRUN_MPJ):
            return ""
        where = f"{self.partition.fullname} has the launcher {launcher}"
        return f"its JVMs are started with srun, but {where}"

    def skip_reason_of(self, program):
        if program.is_ours:
            return ""
        return f"{program.path} is no program in Java"

    def is_compiled(self, program):
        return False

    def unused_settings(self):
        if self.native:
            return ("java_device",)
        return ()

    def build_commands(self, program):
        return build_commands(self.environ, program.java)

    def command(self, program):
        classes, launcher = directories(self.environ)
        device = buffers = ports = hosts = None
        if self._off_heap():
            buffers = "off_heap"
        if not self.native:  # whose messages go through the MPI library
            device, ports = self.settings["device"], JAVA_PORTS.of(self.partition)
            hosts = JAVA_HOSTS.of(self.partition, default="{}")
            if hosts == "{}":
                hosts = None
        command = jvm_command(
            Path(program.java).stem,
            script(self.environ),
            library=library(self.environ),
            classes=classes,
            launch=launcher,
            heap=self.settings["heap"],
            device=device,
            gc=self.settings["gc"],
            pages=self.settings["pages"],
            warm_up=f"{self.settings['warm_up']:g}",
            buffers=buffers,
            ports=ports,
            hosts=hosts,
        )
        return self.software.within(command)

    def launcher(self, own):
        if self.native:
            return self.software.launcher(own)
        launcher = like(own, SRUN_MPJ)
        launcher.threads = self.one_process
        return launcher

    def preparations(self, launch, by_srun, tasks):
        if self.native:
            return self.software.preparations(launch, by_srun, tasks)
        # Ranks in JVMs meet through our launcher. It reports those that do not come.
        return self.software.verifications(by_srun=False)

    def env_setup(self):
        return self.software.env_setup()

    def env_teardown(self):
        return self.software.env_teardown()

    def _sources(self):
        return self.software._sources()

    def packages(self):
        return self.software.packages()

    def asked(self) -> dict:
        """The settings given to jvm.sh, by the names that it reports, without those it chooses."""
        asked = {"library": library(self.environ)}
        for name in ("device", "gc", "pages"):
            if self.settings[name] != "auto":
                asked[name] = self.settings[name]
        if self.settings["heap"]:
            asked["heap"] = f"{self.settings['heap']}MB"
        if self._off_heap():
            asked["buffers"] = "off_heap"
        return asked


def facts_of_jvms(runtimes, text: str) -> dict:
    """The settings that the JVMs report in an output. {} without JVMs.

    Raises ParseError if they differ from the requested ones.

    :arg runtimes: that of the check, or both of a duet.
    """
    ran = parse_jvm(text)
    asked = [runtime.asked() for runtime in runtimes if runtime.java]
    if asked and not ran:
        raise ParseError("no JVM reports its settings: lines were lost; rerun")
    if not ran:
        return {}
    for did in ran.did:
        # Either request of a duet may be the one of this JVM.
        if all(request.differences(settings, did) for settings in asked):
            expected = {"launched": "no JVM"}
            if asked:
                expected = asked[0]
            request.expect(expected, did)
    facts = {"jvm": ran.settings, "jvm.warm_up": ran.warm_up}
    if ran.product:
        facts["jvm.product"] = ran.product
    return facts
