"""Checks whose programs are there in Java too: started in JVMs that are set as a measurer would set them."""

import os
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.backends import getlauncher
from reframe.core.exceptions import SanityError

from nearmetal.checks import mpj
from nearmetal.checks.mpj import in_java, library
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.parsing.java import parse_jvm
from nearmetal.checks.settings import JAVA_HOSTS, JAVA_PORTS, setting

#: What the two environments of a duet may have each their own of.
SETTINGS = ("java_device", "java_gc", "java_pages")


class Jvm(rfm.RegressionTestPlugin):
    """A check whose program there is in Java too, for environments with the feature `mpj`. Stands first of all.

    The check names the class (`java_program`); its options are those of the program in C, and so is its output.
    """

    #: `niodev`: a JVM a rank, over TCP; `threads`: all ranks in one JVM on one node. :values: `niodev`, `threads`
    java_device = setting(str, "niodev", choices=("niodev", "threads"))
    #: Megabytes of a JVM's heap; default: the partition's `java_heap_mb` (extras), or half of the JVM's part of the job's
    #: memory. :type: int
    java_heap_mb = setting(int, 0, extra="java_heap_mb", least=16)
    #: The collector; default: the environment's `java_gc` (extras), or `auto`: serial for less than 1792 MB
    #: or one core. :values: `auto`, `serial`, `parallel`
    java_gc = setting(str, "auto", environ_extra="java_gc", choices=("auto", "serial", "parallel"))
    #: Memory pages; default: the environment's `java_pages` (extras), or `default`. `explicit` takes those
    #: that the node has reserved. :values: `default`, `transparent`, `explicit`
    java_pages = setting(
        str,
        "default",
        environ_extra="java_pages",
        choices=("default", "transparent", "explicit"),
    )
    #: Seconds at most until the clock starts though the JIT compiler is not done; default: the partition's `java_warm_up`
    #: (extras), or 30. :type: float
    java_warm_up = setting(float, 30.0, extra="java_warm_up", above=0, most=3600)

    #: The class, below src/java/.
    java_program = ""

    @builtin.run_after("setup")
    def launch_jvms(self):
        if in_java(self.current_environ):
            self.job.launcher = self.launcher_in(self.current_environ)
        else:
            for name in SETTINGS:
                setattr(self, name, "")

    def obstacle_in(self, environ) -> str:
        if (obstacle := super().obstacle_in(environ)) or not in_java(environ):
            return obstacle
        home = mpj.HOMES[library(environ)]
        if library(environ) == "fastmpj" and not (
            environ.modules or environ.env_vars.get(home) or os.environ.get(home)
        ):
            return (
                f"{home} is not set. FastMPJ is each site's own licensed copy: give its directory in env_vars of the "
                f"environment {environ.name}"
            )
        if not self.by_srun():
            return (
                f"its JVMs are started with srun, but {self.current_partition.fullname} has the launcher "
                f"{self.job.launcher.registered_name}"
            )
        return ""

    def launcher_in(self, environ):
        name = (
            "srun-mpj" if in_java(environ) else self.current_partition.launcher_type.registered_name
        )
        if self.job.launcher.registered_name == name:
            return self.job.launcher
        launcher = getlauncher(name)()
        launcher.options = list(self.job.launcher.options)
        if in_java(environ):
            launcher.threads = self._has_threads(environ)
        return launcher

    def use_processes(self, most, *which):
        """Of a scaling check, whose threads are all on one node."""
        super().use_processes(most, *which)
        if self._has_threads(self.current_environ) and self.num_nodes > 1:
            raise SanityError(
                f"{self.num_tasks} threads of one JVM are on one node, which has {self.per_node} processes: give "
                f"-S {type(self).__name__}.processes=... or .ranks_per_node=..."
            )

    def placed(self):
        return (1, self.counts[0]) if self._has_threads(self.current_environ) else super().placed()

    def _has_threads(self, environ):
        return in_java(environ) and self.setting_in("java_device", environ) == "threads"

    def build_ours(self, source):
        if not in_java(self.current_environ):
            super().build_ours(source)
            return
        self._source = source
        self.build_system = "CustomBuild"
        build: Any = self.build_system  # the object that ReFrame makes of the name
        build.commands = mpj.build_commands(self.current_environ, self.java_program)

    def run_theirs(self, program, where):
        if in_java(self.current_environ):
            self.skip(f"{self.display_name}: {program} is no program in Java")
        super().run_theirs(program, where)

    def commands_to_build(self, environ):
        return (
            mpj.build_commands(environ, self.java_program)
            if in_java(environ)
            else super().commands_to_build(environ)
        )

    @builtin.run_before("run")
    def run_in_jvms(self):
        if in_java(self.current_environ):
            self.executable = self.program_in(self.current_environ)

    def program_in(self, environ):
        if not in_java(environ):
            return super().program_in(environ)
        hosts, (classes, launch) = self._hosts, mpj.directories(environ)
        return self.within_image(
            environ,
            mpj.jvm_command(
                Path(self.java_program).stem,
                mpj.script(environ),
                library=library(environ),
                classes=classes,
                launch=launch,
                heap=self.java_heap_mb,
                **{name.removeprefix("java_"): self.setting_in(name, environ) for name in SETTINGS},
                warm_up=f"{self.java_warm_up:g}",
                ports=JAVA_PORTS.of(self.current_partition),
                hosts="" if hosts == "{}" else hosts,
            ),
        )

    @property
    def _hosts(self):
        return JAVA_HOSTS.of(self.current_partition, default="{}")

    def preparations_in(self, environ):
        """Ranks in JVMs find each other by their launcher, which needs no trial."""
        if not in_java(environ):
            return super().preparations_in(environ)
        return self.verifications_in(environ)

    def expect_what_was_asked(self):
        super().expect_what_was_asked()
        ran = parse_jvm(self._read(self.stdout))
        environs = [environ for environ in self._environs if in_java(environ)]
        if environs and not ran:
            raise ParseError("no JVM says how it was set: lines were lost; rerun")
        asked = [self._settings_in(environ) for environ in environs]
        for did in ran.did if ran else ():
            # Of a duet, of A or of B.
            if all(request.differences(each, did) for each in asked):
                request.expect(asked[0] if asked else {"launched": "no JVM"}, did)

    @property
    def _environs(self):
        kind = getattr(self, "kind", None)
        return kind.environs(self) if kind else [self.current_environ]

    def _settings_in(self, environ) -> dict:
        """What jvm.sh is told, as it says it; what it chooses itself is left out."""
        asked = {
            name.removeprefix("java_"): self.setting_in(name, environ)
            for name in SETTINGS
            if self.setting_in(name, environ) != "auto"
        }
        if self.java_heap_mb:
            asked["heap"] = f"{self.java_heap_mb}MB"
        return {"library": library(environ), **asked}

    @builtin.run_before("performance")
    def tell_how_jvms_were_set(self):
        if not self.is_dry_run() and (run := parse_jvm(self._read(self.stdout))):
            self.facts = {**self.facts, "jvm": run.settings, "jvm.warm_up": run.warm_up}
