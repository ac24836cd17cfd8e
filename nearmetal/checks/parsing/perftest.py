"""Output of perftest's RDMA latency and bandwidth programs, and of ``src/rdma.sh``, which runs
them."""

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    OTHERS,
    WHOLE,
    ParseError,
    agree,
    bounded,
    launches_of,
    positive,
    real,
    unit,
    whole,
)

#: Words of a table's title -> the program's operation and quantity.
OPERATIONS = {"RDMA_Read": "read", "RDMA_Write": "write", "Send": "send"}
QUANTITIES = {"Latency": "lat", "BW": "bw"}
#: Column that is taken as the result, by quantity.
COLUMNS = {"lat": "t_typical[usec]", "bw": "BW average[Gb/sec]"}
COLUMN = re.compile(r"(?<![\w.])(?:#\w+|(?:BW |[\d.]+% )?\w+\[[^][]+\])")
RULE = re.compile(r"-{20,}")


@dataclass
class Table:
    """Table of one perftest program."""

    operation: str
    quantity: str
    settings: dict[str, str] = field(
        default_factory=dict
    )  #: such as ``{'Device': 'mlx5_0', 'Mtu': '4096[B]'}``
    values: dict[int, float] = field(default_factory=dict)  #: us or Gb/s by message size
    iterations: dict[int, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    whole: bool = False

    @property
    def program(self) -> str:
        return f"ib_{self.operation}_{self.quantity}"


@dataclass
class Rdma:
    """One complete launch."""

    operation: str
    ports: list[
        tuple[str, str, str]
    ]  #: (host, device/port, link layer) of the client and of the server
    settings: dict[str, str]
    latency_us: dict[int, float] = field(
        default_factory=dict
    )  #: half round trip by message size; for read, the whole round trip
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)  #: one way, by message size
    payload_bytes: int = 0
    did: dict = field(default_factory=dict)  #: parameters that the program reports

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
        table = tables[-1] if tables and not tables[-1].whole else None
        if found := re.fullmatch(r"(\w+) ([\w ]+) Test", line):
            if found[1] not in OPERATIONS or found[2] not in QUANTITIES:
                raise ParseError(
                    f"{line!r} is not one of ib_{{read,write,send}}_{{lat,bw}}: run one of these"
                )
            _must_be_whole(tables)
            tables.append(Table(OPERATIONS[found[1]], QUANTITIES[found[2]]))
        elif not table:
            continue
        elif line.startswith("#bytes"):
            if table.columns:
                raise ParseError(
                    f"{table.program} has two heads in one table: lines were mixed; rerun"
                )
            table.columns = COLUMN.findall(line)
            if (
                table.columns[:2] != ["#bytes", "#iterations"]
                or COLUMNS[table.quantity] not in table.columns
            ):
                raise ParseError(
                    f"{table.program} has no column {COLUMNS[table.quantity]} (its head is "
                    f"{line!r}): run it with a number of iterations (-n), and for bandwidth with "
                    "--report_gbits"
                )
        elif table.columns and RULE.fullmatch(line):
            table.whole = True
        elif table.columns:
            _add_row(table, line)
        else:
            pairs = (part.partition(":") for part in line.split("\t"))
            table.settings |= {key.strip(): value.strip() for key, _, value in pairs if value}
    if not tables:
        raise ParseError("no table of perftest in this output: see the job's stderr")
    _must_be_whole(tables)
    return tables


def _must_be_whole(tables):
    if tables and not (tables[-1].whole and tables[-1].values):
        raise ParseError(
            f"the table of {tables[-1].program} stops early: see the job's stderr and rerun"
        )


def _add_row(table, line):
    words = line.split()
    if len(words) != len(table.columns) or not (
        WHOLE.fullmatch(words[0]) and WHOLE.fullmatch(words[1])
    ):
        raise ParseError(
            f"{line!r} is not a row of the table of {table.program}: the run was cut off, or "
            f"{OTHERS}"
        )
    size, iterations = int(words[0]), whole(words[1], "the iterations of perftest", 1)
    if size in table.values:
        raise ParseError(f"{table.program} gives {size} bytes twice in one table")
    if size <= next(reversed(table.values), 0):
        raise ParseError(
            f"{table.program} gives {size} bytes after a larger size: lines were mixed; rerun"
        )
    name = COLUMNS[table.quantity]
    where = f"{name} of {table.program} at {size} bytes"
    row = dict(zip(table.columns, words))
    value = positive(row[name], where)
    _check_latency(row, value, where) if table.quantity == "lat" else _check_rate(row, value, where)
    table.values[size] = value
    table.iterations[size] = iterations


def _check_latency(row: dict[str, str], value: float, where: str) -> None:
    """Raise ParseError unless minimum, median, percentiles and maximum increase, and the mean lies
    between minimum and maximum."""
    order = [
        "t_min[usec]",
        COLUMNS["lat"],
        "99% percentile[usec]",
        "99.9% percentile[usec]",
        "t_max[usec]",
    ]
    for names in (order, ["t_min[usec]", "t_avg[usec]", "t_max[usec]"]):
        figures = [positive(row[name], f"{name} beside {where}") for name in names if name in row]
        if figures != sorted(figures):
            raise ParseError(
                f"{where} is {value}, but {figures} do not increase: digits were damaged; rerun"
            )


def _check_rate(row: dict[str, str], value: float, where: str) -> None:
    """Raise ParseError unless the average is at most the peak, and is the message rate times the
    size."""
    peak, rate = row.get("BW peak[Gb/sec]"), row.get("MsgRate[Mpps]")
    highest = real(peak, f"the peak beside {where}") if peak else 0
    # With few iterations, perftest gives the peak as 0.
    if peak and highest != 0 and highest < value - unit(peak):
        raise ParseError(f"{where} is {value}, above its peak {peak}: digits were damaged; rerun")
    if rate:
        bits = int(row["#bytes"]) * 8 / 1000
        computed = real(rate, f"the message rate beside {where}") * bits
        agree(where, value, computed, unit(rate) * bits + unit(row[COLUMNS["bw"]]))


@bounded
def parse_rdma(text: str) -> list[Rdma]:
    """Every launch in the output of ``src/rdma.sh``, in order. The script prints the ports that it
    chose before perftest's tables. Raises ParseError."""
    launches = launches_of(text, r"# nearmetal program: rdma", "launch of rdma.sh")
    return [_parse_launch(launch) for launch in launches]


def _parse_launch(lines: list[str]) -> Rdma:
    if END not in lines:
        raise ParseError(
            'the output of a launch of rdma.sh stops without "# nearmetal complete": '
            "see the job's stderr and rerun"
        )
    end = lines.index(END)
    if [line for line in lines[end + 1 :] if "# nearmetal" in line or RULE.match(line)]:
        raise ParseError(
            "a table of perftest follows the end of its launch: lines were lost; rerun"
        )
    ports = _ports(lines)
    # A rule of dashes precedes the title of a table, and another one ends the table.
    tables = parse_perftest("\n".join(lines[:end]))
    operations = {table.operation for table in tables}
    if len(operations) > 1:
        raise ParseError(
            f"{' and '.join(sorted(operations))} are in one launch, but rdma.sh runs one operation"
        )
    run = Rdma(tables[0].operation, [port[1:] for port in ports], tables[0].settings)
    for table in tables:
        _check_settings(table, ports[0][2].partition("/")[0], run.settings)
        measured = run.latency_us if table.quantity == "lat" else run.bandwidth_gbps
        twice = measured.keys() & table.values.keys()
        if twice:
            raise ParseError(f"{table.program} gives {min(twice)} bytes twice in one launch")
        measured |= table.values
        # In the latency tests of write and send, the answer has the size of the message.
        ways = 2 if table.quantity == "lat" and table.operation != "read" else 1
        run.payload_bytes += sum(ways * size * count for size, count in table.iterations.items())
    unpaired = set(run.latency_us) ^ set(run.bandwidth_gbps)
    if unpaired:
        raise ParseError(
            f"sizes {sorted(unpaired)} have only one of latency and bandwidth: see the job's "
            "stderr and rerun"
        )
    counts = {count for table in tables for count in table.iterations.values()}
    if len(counts) > 1:
        raise ParseError(
            f"perftest's iterations were {sorted(counts)} in one launch: digits were damaged; rerun"
        )
    run.did = {
        "operation": run.operation,
        "sizes": ",".join(map(str, run.latency_us)),
        "iterations": counts.pop(),
        "gid_index": run.settings.get("GID index", "none"),
    }
    return run


PORT = re.compile(r"# nearmetal port: (\d+) (\S+) ([\w.-]+/\d+) (\w+)", re.ASCII)


def _ports(lines: list[str]) -> list[tuple[str, str, str, str]]:
    """(task, host, port, link layer) of both ends, ordered by task: srun prints the lines of its
    tasks in any order."""
    ports = []
    for line in lines:
        found = PORT.fullmatch(line)
        if found:
            ports.append((found[1], found[2], found[3], found[4]))
        elif (
            "# nearmetal" in line
            and line != END
            and not line.startswith("# nearmetal program: rdma")
        ):
            raise ParseError(f"{line!r} is not the port of a task: rdma.ports was damaged; rerun")
    ports.sort()
    if [port[0] for port in ports] != ["0", "1"]:
        raise ParseError(
            f"{len(ports)} ports instead of one of task 0 and one of task 1: rdma.ports was "
            "not complete"
        )
    if ports[0][3] != ports[1][3]:
        raise ParseError(f"the ports have link layers {ports[0][3]} and {ports[1][3]}: rerun")
    return ports


def _check_settings(table: Table, device: str, first: dict[str, str]) -> None:
    """Raise ParseError unless a table has the device of the launch, and the MTU and connection type
    of its first table."""
    mtu = table.settings.get("Mtu", "")
    if "Device" not in table.settings or not re.fullmatch(r"\d{1,9}\[B\]", mtu, re.ASCII):
        raise ParseError(
            f"{table.program} does not report its device and MTU (it reports {table.settings}): "
            "was its head cut off?"
        )
    if table.settings["Device"] != device:
        raise ParseError(f"{table.program} used {table.settings['Device']} instead of {device}")
    for key in ("Mtu", "Link type", "Connection type", "GID index"):
        if table.settings.get(key) != first.get(key):
            raise ParseError(
                f"{table.program} has {key} {table.settings.get(key)}, but another table has "
                f"{first.get(key)}: rerun"
            )
