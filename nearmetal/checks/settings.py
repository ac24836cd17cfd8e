"""Settings of the checks, which the command line and a site's files may change.

A setting takes its value from the first of these that has one:

1. the command line (`-S` or `-P`),
2. the environment's `extras`, if the setting has a key there,
3. the partition's `extras`,
4. the check's default.

The declaration states the allowed values. The default is always allowed: the command line may
request it against a site's file.
"""

from __future__ import annotations

import functools
import math
import re
import shlex
from dataclasses import dataclass

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.fields import Field, remove_convertible
from reframe.core.systems import ProcessorInfo
from reframe.utility.cpuinfo import cpuinfo

from nearmetal.checks.versions import Plugin

#: Whole numbers from 1, separated by commas.
NUMBERS = r"^[1-9]\d*(,[1-9]\d*)*$"
#: Message sizes in bytes, separated by commas, with those of `latency_1KiB` and `bandwidth_64KiB`.
MESSAGE_SIZES = r"^(?=(.*,)?1024(,|$))(?=(.*,)?65536(,|$))[1-9]\d*(,[1-9]\d*)*$"
MESSAGE_SIZES_MEANING = "bytes separated by commas, 1024 and 65536 among them"
#: JSON Schema's names of the types.
TYPES = {int: "integer", float: "number", str: "string"}


@dataclass(frozen=True)
class Allowed:
    """The allowed values of a setting."""

    kind: type  #: int, float or str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    meaning: str = ""  #: the pattern in words
    whole_numbers_too: bool = False  #: YAML reads a list of one as a number

    def read(self, value):
        """The value in the setting's type. Raises ValueError if it is not allowed."""
        if isinstance(value, bool) or value is None:
            raise ValueError("not a text or a number")
        if self.kind is int and isinstance(value, float):
            raise ValueError("not a whole number")
        value = self.kind(value)
        if self.kind is float and not math.isfinite(value):
            raise ValueError("not a finite number")
        if self.kind is str:
            self._refuse_other_texts(value)
        else:
            self._refuse_what_is_out_of_range(value)
        return value

    def _refuse_other_texts(self, value: str) -> None:
        if self.choices and value not in self.choices:
            raise ValueError("not a choice")
        if (self.pattern and not re.search(self.pattern, value)) or not value.isprintable():
            raise ValueError("not of the pattern")

    def _refuse_what_is_out_of_range(self, value: float) -> None:
        below = self.least is not None and value < self.least
        not_above = self.above is not None and value <= self.above
        beyond = self.most is not None and value > self.most
        if below or not_above or beyond:
            raise ValueError("out of range")

    def __str__(self):
        if self.choices:
            return f"choose from {', '.join(self.choices)}"
        if self.kind is str:
            return f"give {self.meaning or 'a text'}"
        words = ["give a number"]
        if self.kind is int:
            words = ["give a whole number"]
        bounds = {"of at least": self.least, "above": self.above, "of at most": self.most}
        for relation, bound in bounds.items():
            if bound is not None:
                words.append(f"{relation} {bound:.10g}")
        return " ".join(words)

    def schema(self) -> dict:
        """The allowed values as JSON Schema, equal to that of the key in schema.yaml."""
        if self.choices:
            return {"enum": list(self.choices)}
        kind = TYPES[self.kind]
        words: dict = {
            "type": kind,
            "minimum": self.least,
            "exclusiveMinimum": self.above,
            "maximum": self.most,
            "pattern": self.pattern or None,
        }
        if self.whole_numbers_too:
            words["type"] = ["integer", kind]
            words["minimum"] = 1
        return {word: value for word, value in words.items() if value is not None}


class Setting(Field):
    """A variable that the command line or a site's files may set. `setting` declares it."""

    def __init__(self, default, extra, environ_extra, choices_of, allowed):
        super().__init__()
        self.default, self.extra, self.environ_extra = default, extra, environ_extra
        self._choices_of, self._allowed = choices_of, allowed
        self._given = None

    def __set__(self, check, value):
        text = remove_convertible(value)
        # ReFrame marks the values of the command line as convertible, and no others.
        if text is value:
            return super().__set__(check, value)
        if check is None:  # -S, for all cases of the class
            self._given = text
        else:  # -P, for this case
            check.__dict__["_given_settings"] = {**_given_to(check), self._name: text}
        # If this raised an error, ReFrame would drop the whole file with a warning.
        # `settle_settings` refuses the value later.
        try:
            value = self._allowed.read(text)
        except ValueError:
            value = text
        return super().__set__(check, value)

    def given_to(self, check):
        """The value on the command line. None if there is none."""
        return _given_to(check).get(self._name, self._given)

    def allowed_in(self, check) -> Allowed:
        """Its allowed values. A check may define the choices."""
        if not self._choices_of:
            return self._allowed
        return Allowed(str, choices=tuple(getattr(check, self._choices_of)))

    def read(self, check, value, origin: str):
        """The value, if it is allowed. Raises SanityError, which names its origin."""
        allowed = self.allowed_in(check)
        try:
            if str(value) == str(self.default):
                return self.default
            return allowed.read(value)
        except ValueError:
            kind = check
            if not isinstance(check, type):
                kind = type(check)
            raise SanityError(
                f"{kind.__name__}.{self._name} is {value!r} ({origin}): {allowed}"
            ) from None


def _given_to(check) -> dict:
    return check.__dict__.get("_given_settings", {})


def setting(
    kind: type,
    default,
    *,
    extra: str = "",
    environ_extra: str = "",
    choices_of: str = "",
    loggable: bool = True,
    **allowed,
):
    """Declare a setting in the body of a check.

    :arg extra: its key in a partition's `extras`; '' if it has none.
    :arg environ_extra: its key in an environment's `extras`; '' if it has none.
    :arg choices_of: attribute of the check that holds the choices, if checks differ in them.
    :arg allowed: allowed values, by the names of `Allowed`.
    """
    return builtin.variable(
        field=Setting,
        value=default,
        loggable=loggable,
        default=default,
        extra=extra,
        environ_extra=environ_extra,
        choices_of=choices_of,
        allowed=Allowed(kind, **allowed),
    )


class Settings(Plugin):
    """A check with settings. It is the last base class, so its hook is the first after setup."""

    #: Keys of `extras` for this check only, by setting. They precede shared keys.
    own_extras: dict[str, str] = {}

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """All settings by name."""
        settings = {}
        for name, variable in cls.var_space.items():
            if isinstance(variable.field, Setting):
                settings[name] = variable.field
        return settings

    @classmethod
    def keys_of(cls, name: str) -> list[str]:
        """The keys of a setting in a partition's `extras`, by precedence."""
        keys = cls.own_extras.get(name, ""), cls.settings()[name].extra
        return list(filter(None, keys))

    @builtin.run_after("setup")
    def settle_settings(self):
        self._defaults = {name: getattr(self, name) for name in self.settings()}
        faults = []
        for name in self._defaults:
            try:
                setattr(self, name, self.setting_in(name, self.current_environ))
            except SanityError as error:
                faults.append(str(error))
        if faults:
            raise SanityError("; ".join(faults))

    def _given(self, name: str, partition, environ=None) -> tuple | None:
        """A setting's value on the command line or in a site's files, and its origin."""
        field = self.settings()[name]
        given = field.given_to(self)
        if given is not None:
            return given, "command line"
        if environ and field.environ_extra in environ.extras:
            value = environ.extras[field.environ_extra]
            return value, f"`{field.environ_extra}` in the extras of the environment {environ.name}"
        for key in self.keys_of(name):
            if key in partition.extras:
                return partition.extras[key], f"`{key}` in the extras of {partition.fullname}"
        return None

    def setting_in(self, name: str, environ):
        """A setting's value in an environment of the partition. Raises SanityError."""
        given = self._given(name, self.current_partition, environ)
        if given is None:
            return self._defaults[name]
        return self.settings()[name].read(self, *given)

    def before_setup(self, name: str, partition):
        """A setting's value in a partition, for hooks before setup. It may not be allowed: setup
        refuses it then."""
        value, _ = self._given(name, partition) or (getattr(self, name), "")
        return value

    def decide(self, name: str, value, reason: str) -> None:
        """Set a value that follows from another one.

        :arg reason: end of the error's sentence: what decides the value, and what to do.
        :raises SanityError: the command line requests another value.
        """
        given = self.settings()[name].given_to(self)
        if given is not None and getattr(self, name) != value:
            raise SanityError(f"{type(self).__name__}.{name} is {given!r} (command line), {reason}")
        setattr(self, name, value)

    def set_default(self, name: str, value) -> None:
        """Set a default that depends on the case. Call it before setup."""
        if self.settings()[name].given_to(self) is None:
            setattr(self, name, value)


#: Settings of JVMs that may differ between the environments of a duet.
OF_JVMS = ("java_device", "java_gc", "java_pages")


class JavaSettings(Plugin):
    """The settings of a check whose program exists in Java too (environments with `mpj`).

    The check names the class (`java_program`). Options and output are those of the program in C.
    """

    #: `niodev`: a JVM a rank, over TCP; `threads`: all ranks in one JVM on one node. mpj-native
    #: leaves it to the MPI library. :values: `niodev`, `threads`
    java_device = setting(str, "niodev", choices=("niodev", "threads"))
    #: Megabytes of a JVM's heap. Default: the partition's `java_heap_mb` (extras), or half of the
    #: JVM's part of the job's memory. :type: int
    java_heap_mb = setting(int, 0, extra="java_heap_mb", least=16)
    #: The collector. Default: the environment's `java_gc` (extras), or `auto`: G1 for mpj-native,
    #: else serial for less than 1792 MB or one core. :values: `auto`, `serial`, `parallel`, `g1`
    java_gc = setting(
        str, "auto", environ_extra="java_gc", choices=("auto", "serial", "parallel", "g1")
    )
    #: Memory pages. Default: the environment's `java_pages` (extras), or `default`. `explicit`
    #: uses the node's reserved large pages. :values: `default`, `transparent`, `explicit`
    java_pages = setting(
        str,
        "default",
        environ_extra="java_pages",
        choices=("default", "transparent", "explicit"),
    )
    #: Most seconds of warm-up while the JIT compiler still works. Default: the
    #: partition's `java_warm_up` (extras), or 30. :type: float
    java_warm_up = setting(float, 30.0, extra="java_warm_up", above=0, most=3600)

    def jvm_settings(self, environ) -> dict:
        """The settings of the JVMs of an environment. Raises SanityError."""
        own = {name.removeprefix("java_"): self.setting_in(name, environ) for name in OF_JVMS}
        return {"heap": self.java_heap_mb, "warm_up": self.java_warm_up, **own}

    @builtin.run_after("setup")
    def record_settings_of_jvms_alone(self):
        for name in self.runtime.unused_settings():
            setattr(self, name, "")


@dataclass(frozen=True)
class Fact:
    """A key in the `extras` of a partition or environment. The command line cannot change it."""

    key: str
    kind: type

    def of(self, place, default=None):
        """Its value in this partition or environment. The default if the extras lack it."""
        value = place.extras.get(self.key)
        if value is None:
            return default
        return self.kind(value)


# Of partitions.
NODES = Fact("nodes", int)
CORES_PER_NODE = Fact("cores_per_node", int)
PEAK_GFLOPS = Fact("peak_gflops", float)
MEMORY_GB = Fact("memory_gb", float)
GUEST_MEMORY_GB = Fact("guest_memory_gb", float)
BUILD_ON_NODES = Fact("build_on_nodes", bool)
MAX_PENDING_TIME = Fact("max_pending_time", str)
MAX_TIME_LIMIT = Fact("max_time_limit", str)
DISTURBED_ABOVE = Fact("disturbed_above", dict)
LINK_CLASS = Fact("link_class", str)
NO_BASELINE = Fact("no_baseline", str)
JAVA_HOSTS = Fact("java_hosts", str)
JAVA_PORTS = Fact("java_ports", str)
SPACK_CACHE = Fact("spack_cache", str)
STORAGE_LOCAL = Fact("storage_local", str)
STORAGE_SHARED = Fact("storage_shared", str)
STORAGE_SCRATCH = Fact("storage_scratch", str)
#: Of the check `storage`, by what the directory is.
DIRECTORIES = {"local": STORAGE_LOCAL, "shared": STORAGE_SHARED, "scratch": STORAGE_SCRATCH}
#: What stands for a part of such a directory -> the shell's word for it, on the node.
PLACES = {"{stage}": '"$PWD"', "{user}": '"$USER"'}
# Of the hypervisor, which its guests cannot see.
NESTED_PAGING = Fact("nested_paging", str)
BINDING_OF_VCPUS = Fact("binding", str)
HOST_PAGES = Fact("host_pages", str)
HOST_KSM = Fact("host_ksm", str)
WRITE_COMBINING = Fact("write_combining", str)
OF_HYPERVISOR = (NESTED_PAGING, BINDING_OF_VCPUS, HOST_PAGES, HOST_KSM, WRITE_COMBINING)
# Of environments.
IMAGE = Fact("image", str)
SPACK_ENV = Fact("spack_env", str)
OMP_FLAG = Fact("omp_flag", str)


@functools.cache
def _cores_of_this_host() -> int | None:
    return ProcessorInfo(cpuinfo()).num_cores


def cores_of_node(partition) -> int | None:
    """Physical cores of a node: the extras', else those that ReFrame knows. None if neither.

    ReFrame detects the processor of this host only where the launcher is local too.
    """
    cores = CORES_PER_NODE.of(partition) or partition.processor.num_cores
    if not cores and partition.scheduler.is_local:
        cores = _cores_of_this_host()
    return cores


def nodes_of(partition, default: int) -> int:
    """Nodes of a partition: the extras', one where jobs run on this host, else the default."""
    nodes = NODES.of(partition)
    if not nodes and partition.scheduler.is_local:
        nodes = 1
    return nodes or default


def directory_for_shell(named: str) -> str:
    """The directory of an extra as one word of the shell, whatever a site's file holds."""
    parts = re.split("|".join(f"({re.escape(place)})" for place in PLACES), named)
    return "".join(PLACES.get(part) or shlex.quote(part) for part in parts if part)
