"""Output of perftest's RDMA latency and bandwidth programs, and of ``src/rdma.sh``, which runs
them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import OTHERS, ParseError, bounded, cut_off, damaged, numbers
from nearmetal.checks.parsing.output import END, Launch, Output, each_launch

#: Words of a table's title -> the program's operation and quantity.
OPERATIONS = {"RDMA_Read": "read", "RDMA_Write": "write", "Send": "send"}
QUANTITIES = {"Latency": "lat", "BW": "bw"}
#: Column that is taken as the result, by quantity.
COLUMNS = {"lat": "t_typical[usec]", "bw": "BW average[Gb/sec]"}
COLUMN = re.compile(r"(?<![\w.])(?:#\w+|(?:BW |[\d.]+% )?\w+\[[^][]+\])")
RULE = re.compile(r"-{20,}")
PORT = re.compile(r"# nearmetal port: (\d+) (\S+) ([\w.-]+/\d+) (\w+)", re.ASCII)
#: Columns of a latency whose figures increase.
ASCENDING = (
    (
        *("t_min[usec]", COLUMNS["lat"], "99% percentile[usec]", "99.9% percentile[usec]"),
        "t_max[usec]",
    ),
    ("t_min[usec]", "t_avg[usec]", "t_max[usec]"),
)
#: Settings that all tables of a launch have in common.
COMMON = ("Mtu", "Link type", "Connection type", "GID index")


@dataclass
class Table:
    """Table of one perftest program."""

    operation: str
    quantity: str
    #: Such as ``{'Device': 'mlx5_0', 'Mtu': '4096[B]'}``.
    settings: dict[str, str] = field(default_factory=dict)
    #: us or Gb/s by message size
    values: dict[int, float] = field(default_factory=dict)
    iterations: dict[int, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    whole: bool = False

    @property
    def program(self) -> str:
        return f"ib_{self.operation}_{self.quantity}"


@dataclass
class Rdma(Launch):
    operation: str
    #: (Host, device/port, link layer) of the client and of the server.
    ports: list[tuple[str, str, str]]
    settings: dict[str, str]
    #: Half round trip by message size; for read, the whole round trip.
    latency_us: dict[int, float] = field(default_factory=dict)
    #: One way, by message size.
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)
    payload_bytes: int = 0

    @property
    def mtu(self) -> int:
        """Largest payload of a packet in bytes."""
        return int(self.settings["Mtu"].removesuffix("[B]"))


@bounded
def parse_perftest(text: str) -> list[Table]:
    """The tables of ``ib_{read,write,send}_lat`` and ``ib_{read,write,send}_bw --report_gbits``,
    with one message size each or all (``-a``).

    Latency is ``t_typical``, the median. For write and send it is half the round trip. For read it
    is the whole round trip, as no program sends the answer (perftest_parameters.c,
    print_report_lat()). Bandwidth is ``BW average``, from the first message posted to the last one
    completed. ``BW peak`` is the highest rate of any interval within. Raises ParseError on damaged
    or truncated tables.
    """
    tables: list[Table] = []
    for line in map(str.strip, text.splitlines()):
        # The title is the only line that tells the programs apart.
        if title := re.fullmatch(r"(\w+) ([\w ]+) Test", line):
            _expect_whole(tables)
            tables.append(_table(line, *title.groups()))
        elif tables and not tables[-1].whole:
            _add_line(tables[-1], line)
    if not tables:
        raise ParseError("no table of perftest in this output: see the job's stderr")
    _expect_whole(tables)
    return tables


def _table(line: str, operation: str, quantity: str) -> Table:
    if operation not in OPERATIONS or quantity not in QUANTITIES:
        raise ParseError(
            f"{line!r} is not one of ib_{{read,write,send}}_{{lat,bw}}: run one of these"
        )
    return Table(OPERATIONS[operation], QUANTITIES[quantity])


def _expect_whole(tables: list[Table]) -> None:
    if tables and not (tables[-1].whole and tables[-1].values):
        raise cut_off(f"the table of {tables[-1].program} stops early")


def _add_line(table: Table, line: str) -> None:
    """Add a line of a table: a setting, its head, a row, or the rule that ends it."""
    if line.startswith("#bytes"):
        _add_head(table, line)
    elif not table.columns:
        for part in line.split("\t"):
            key, _, value = part.partition(":")
            if value:
                table.settings[key.strip()] = value.strip()
    elif RULE.fullmatch(line):
        table.whole = True
    else:
        _add_row(table, line)


def _add_head(table: Table, line: str) -> None:
    if table.columns:
        raise damaged(f"{table.program} has two heads in one table")
    table.columns = COLUMN.findall(line)
    column = COLUMNS[table.quantity]
    if table.columns[:2] != ["#bytes", "#iterations"] or column not in table.columns:
        raise ParseError(
            f"{table.program} has no column {column} (its head is {line!r}): run it with a number "
            "of iterations (-n), and for bandwidth with --report_gbits"
        )


def _add_row(table: Table, line: str) -> None:
    words = line.split()
    if len(words) != len(table.columns) or not all(map(numbers.WHOLE.fullmatch, words[:2])):
        raise ParseError(
            f"{line!r} is not a row of the table of {table.program}: the run was cut off, or "
            f"{OTHERS}"
        )
    size, iterations = int(words[0]), numbers.whole(words[1], "the iterations of perftest", 1)
    if size in table.values:
        raise damaged(f"{table.program} gives {size} bytes twice in one table")
    if size <= next(reversed(table.values), 0):
        raise damaged(f"{table.program} gives {size} bytes after a larger size")
    name = COLUMNS[table.quantity]
    where = f"{name} of {table.program} at {size} bytes"
    row = dict(zip(table.columns, words))
    value = numbers.positive(row[name], where)
    if table.quantity == "lat":
        _check_latency(row, value, where)
    else:
        _check_rate(row, value, where)
    table.values[size] = value
    table.iterations[size] = iterations


def _check_latency(row: dict[str, str], value: float, where: str) -> None:
    """Raise ParseError unless minimum, median, percentiles and maximum increase, and the mean lies
    between minimum and maximum."""
    for names in ASCENDING:
        figures = [
            numbers.positive(row[name], f"{name} beside {where}") for name in names if name in row
        ]
        if figures != sorted(figures):
            raise damaged(f"{where} is {value}, but {figures} do not increase")


def _check_rate(row: dict[str, str], value: float, where: str) -> None:
    """Raise ParseError unless the average is at most the peak, and is the message rate times the
    size."""
    if peak := row.get("BW peak[Gb/sec]"):
        highest = numbers.real(peak, f"the peak beside {where}")
        # With few iterations, perftest gives the peak as 0.
        if highest != 0 and highest < value - numbers.unit(peak):
            raise damaged(f"{where} is {value}, above its peak {peak}")
    if rate := row.get("MsgRate[Mpps]"):
        bits = int(row["#bytes"]) * 8 / 1000
        computed = numbers.real(rate, f"the message rate beside {where}") * bits
        numbers.agree(
            where, value, computed, numbers.unit(rate) * bits + numbers.unit(row[COLUMNS["bw"]])
        )


@each_launch("rdma", what="launch of rdma.sh")
def parse_rdma(output: Output) -> Rdma:
    """Every launch in the output of ``src/rdma.sh``, in order. The script prints the ports that it
    chose before perftest's tables. Raises ParseError."""
    if END not in output.lines:
        raise cut_off(f'the output of a launch of rdma.sh stops before its last line "{END}"')
    end = output.lines.index(END)
    for line in output.lines[end + 1 :]:
        if "# nearmetal" in line or RULE.match(line):
            # Two launches in one output lost the first line of the second one.
            raise damaged("a table of perftest follows the end of its launch")
    ports = _ports(output.lines)
    # A rule of dashes precedes the title of a table, and another one ends the table.
    tables = parse_perftest("\n".join(output.lines[:end]))
    run = Rdma({}, {}, tables[0].operation, [port[1:] for port in ports], tables[0].settings)
    device = ports[0][2].partition("/")[0]
    for table in tables:
        _check_settings(table, device, run)
        _add_table(run, table)
    expect_pairs(run.latency_us, run.bandwidth_gbps)
    counts = {count for table in tables for count in table.iterations.values()}
    if len(counts) > 1:
        raise damaged(f"perftest's iterations were {sorted(counts)} in one launch")
    run.did = {
        "operation": run.operation,
        "sizes": ",".join(map(str, run.latency_us)),
        "iterations": counts.pop(),
        "gid_index": run.settings.get("GID index", "none"),
    }
    return run


def expect_pairs(latency_us: dict[int, float], bandwidth_gbps: dict[int, float]) -> None:
    """Raise ParseError unless the same sizes have a latency and a bandwidth."""
    if unpaired := sorted(latency_us.keys() ^ bandwidth_gbps.keys()):
        raise cut_off(f"sizes {unpaired} have only one of latency and bandwidth")


def _add_table(run: Rdma, table: Table) -> None:
    is_latency = table.quantity == "lat"
    measured = run.latency_us if is_latency else run.bandwidth_gbps
    for size, value in table.values.items():
        if size in measured:
            raise damaged(f"{table.program} gives {size} bytes twice in one launch")
        measured[size] = value
        # In the latency tests of write and send, the answer has the size of the message.
        ways = 2 if is_latency and table.operation != "read" else 1
        run.payload_bytes += ways * size * table.iterations[size]


def _ports(lines: list[str]) -> list[tuple[str, str, str, str]]:
    """(task, host, port, link layer) of both ends, ordered by task: srun prints the lines of its
    tasks in any order."""
    ports = []
    for line in lines[1:]:
        if match := PORT.fullmatch(line):
            ports.append((match[1], match[2], match[3], match[4]))
        elif "# nearmetal" in line and line != END:
            raise damaged(f"{line!r} is not the port of a task (rdma.ports)")
    ports.sort()
    if [port[0] for port in ports] != ["0", "1"]:
        raise damaged(f"{len(ports)} ports instead of one of task 0 and one of task 1 (rdma.ports)")
    if ports[0][3] != ports[1][3]:
        raise damaged(f"the ports have link layers {ports[0][3]} and {ports[1][3]}")
    return ports


def _check_settings(table: Table, device: str, run: Rdma) -> None:
    """Raise ParseError unless a table has the device and the operation of the launch, and the MTU
    and connection type of its first table."""
    if table.operation != run.operation:
        both = " and ".join(sorted((table.operation, run.operation)))
        raise ParseError(f"{both} are in one launch, but rdma.sh runs one operation")
    mtu = table.settings.get("Mtu", "")
    if "Device" not in table.settings or not re.fullmatch(r"\d{1,9}\[B\]", mtu, re.ASCII):
        raise damaged(
            f"{table.program} does not report its device and MTU (it reports {table.settings})"
        )
    if table.settings["Device"] != device:
        raise ParseError(f"{table.program} used {table.settings['Device']} instead of {device}")
    for key in COMMON:
        setting, first = table.settings.get(key), run.settings.get(key)
        if setting != first:
            raise damaged(f"{table.program} has {key} {setting}, but another table has {first}")
