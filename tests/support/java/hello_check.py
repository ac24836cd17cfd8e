"""A check that launches a Java program, for tests of the launcher: `reframe -c
tests/support/java/hello_check.py -r --system lab:native`."""

import re
from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.settings import JavaSettings
from nearmetal.job.launch import Launch

HERE = Path(__file__).resolve().parent
BYTES = 4_000_000


@rfm.simple_test
class hello(JavaSettings, NearmetalCheck):
    """Two ranks in a ring of messages."""

    #: Argument of Hello: number of bytes, or the fault to cause. :type: str
    what = builtin.variable(str, value=str(BYTES))

    sourcesdir = str(HERE.parents[2] / "reframe_checks" / "src")
    valid_prog_environs = ["+mpj"]
    java_program = str(HERE / "Hello.java")
    num_tasks = 2

    def configure(self):
        self.num_nodes = 1 if self.java_device == "threads" else 2
        self.num_tasks_per_node = 2 // self.num_nodes

    def build(self):
        self.build_ours("")

    def launches(self):
        return [Launch(options=[self.what])]

    def read_output(self, text):
        lines = sorted(re.findall(r"^hello rank=(\d) size=2 bytes=4000000 calls=1$", text, re.M))
        if lines != sorted("01" * self.repeats):
            raise SanityError(f"ranks {lines} printed hello")
        if len(re.findall("^# nearmetal jvm: library=express ", text, re.M)) != self.repeats:
            raise SanityError("the settings of the JVM are not printed once for each launch")

    def payload_bytes(self):
        return 0 if self.java_device == "threads" else 2 * BYTES * self.repeats

    def check_transport(self):
        if self.java_device == "niodev" and self.transport in ("shared memory", "loopback"):
            raise SanityError(f"the messages went through {self.transport}")

    @builtin.performance_function("ranks")
    def ranks(self):
        return self.over_launches("ranks", [2] * self.repeats)
