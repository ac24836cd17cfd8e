"""Checks whose program is in Java: how it is built, and started in JVMs that are set as a measurer would set them."""
import os
import re
import shlex

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.backends import getlauncher
from reframe.core.exceptions import SanityError

#: What a library's own variable names: the directory of its installation.
HOMES = {'express': 'MPJ_HOME', 'fastmpj': 'FMPJ_HOME'}
#: What src/java/launch/jvm.sh knows.
DEVICES = ('niodev', 'threads')
COLLECTORS = ('auto', 'serial', 'parallel')
PAGES = ('default', 'transparent', 'explicit')


def jvm_command(main: str, **settings) -> str:
    """The command of a task: jvm.sh with those settings that are given, and the class that it runs."""
    if not re.fullmatch(r'[A-Za-z_]\w*(\.[A-Za-z_]\w*)*', main):
        raise ValueError(f'{main!r} is no name of a class')
    return shlex.join(['sh', 'java/launch/jvm.sh', *(f'--{name}={value}' for name, value in settings.items() if value), main])


class Jvm(rfm.RegressionTestPlugin):
    """A check in Java, for environments with the feature `mpj`. Stands before Scaling and the base.

    The check calls `build_java(source, ...)` before it compiles and `run_java(main)` before it runs; the program's own options
    are `executable_opts` as ever.
    """

    #: `niodev`: a JVM a rank, over TCP; `threads`: all ranks in one JVM on one node. :values: `niodev`, `threads`
    java_device = builtin.variable(str, value='niodev', loggable=True)
    #: Megabytes of a JVM's heap; default: the partition's `java_heap_mb` (extras), or half of the JVM's part of the job's
    #: memory. :type: int
    java_heap_mb = builtin.variable(int, value=0, loggable=True)
    #: The collector; `auto`: serial for less than 1792 MB or one core. :values: `auto`, `serial`, `parallel`
    java_gc = builtin.variable(str, value='', loggable=True)
    #: Memory pages; `explicit` takes those that the node has reserved. :values: `default`, `transparent`, `explicit`
    java_pages = builtin.variable(str, value='', loggable=True)

    @builtin.run_after('setup')
    def launch_jvms(self):
        environ = self.current_environ
        self._library = 'fastmpj' if 'fastmpj' in environ.features else 'express'
        self.java_heap_mb = self.java_heap_mb or self.extra('java_heap_mb', 0)
        for name, known, otherwise in (('java_device', DEVICES, 'niodev'), ('java_gc', COLLECTORS, 'auto'),
                                       ('java_pages', PAGES, 'default')):
            value = getattr(self, name) or str(environ.extras.get(name, otherwise))
            if value not in known:
                raise SanityError(f'{name} is {value!r}; choose from {", ".join(known)}')
            setattr(self, name, value)
        home = HOMES[self._library]
        if self._library == 'fastmpj' and not (environ.modules or environ.env_vars.get(home) or os.environ.get(home)):
            self.skip(f'{self.display_name}: {home} is not set. FastMPJ is each site\'s own licensed copy: give its directory '
                      f'in env_vars of the environment {environ.name}')
        if self.job.launcher.registered_name != 'srun':
            self.skip(f'{self.display_name} starts its JVMs with srun, but {self.current_partition.fullname} has the launcher '
                      f'{self.job.launcher.registered_name}')
        options, self.job.launcher = self.job.launcher.options, getlauncher('srun-mpj')()
        self.job.launcher.options, self.job.launcher.threads = options, self.java_device == 'threads'

    def build_java(self, *sources: str) -> None:
        """Compile these files of src/ to `classes`, and the launcher to `launch.classes`."""
        home = HOMES[self._library]
        strict = 'javac -Xlint:all -Werror --release 17'
        self.build_system = 'CustomBuild'
        self.build_system.commands = [
            'command -v javac > /dev/null || { echo "javac is not on PATH: load the module of a JDK (17 or newer)" >&2; '
            'exit 1; }',
            f'[ -r "${home}/lib/mpj.jar" ] || {{ echo "{home}=${home} has no lib/mpj.jar: it is to be the directory of the '
            'library\'s installation" >&2; exit 1; }',
            f'{strict} -d launch.classes java/launch/*.java',
            f'javac --release 17 -cp "${home}/lib/mpj.jar" -d classes {shlex.join(sources)}']
        if self._library == 'express':
            # As it comes, niodev listens on all networks of a node.
            self.build_system.commands += [f'java -cp "launch.classes:${home}/lib/mpj.jar" launch.Confine launch.classes']

    def run_java(self, main: str) -> None:
        """Run this class, in as many JVMs or threads as the job has tasks."""
        # ReFrame tells the job only when it submits it, but the lines of further launches are written before.
        for name in ('num_tasks', 'num_tasks_per_node', 'num_cpus_per_task'):
            setattr(self.job, name, getattr(self, name))
        hosts = self.extra('java_hosts', '{}')
        settings = {'library': self._library, 'device': self.java_device, 'heap': self.java_heap_mb, 'gc': self.java_gc,
                    'pages': self.java_pages, 'ports': self.extra('java_ports', ''), 'hosts': '' if hosts == '{}' else hosts}
        if self.java_device != 'threads' and self._library == 'fastmpj':
            # It takes its peers, in the order of the ranks, from a file.
            settings['hostfile'] = 'hosts.txt'
            address = f'--label sh java/launch/jvm.sh --address {shlex.quote(f"--hosts={hosts}")}'
            self.prerun_cmds += [f'{self.job.launcher.run_command(self.job)} {address} | sort -n | '
                                 "sed 's/^ *[0-9]*: *//' > hosts.txt"]
        self.executable = jvm_command(main, **settings)
