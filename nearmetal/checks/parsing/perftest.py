"""perftest's latency and bandwidth programs of RDMA, and ``src/rdma.sh`` around them."""

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    WHOLE,
    ParseError,
    agree,
    launches_of,
    positive,
    real,
    unit,
    whole,
)

#: By what a table is headed with: the program's operation and quantity.
OPERATIONS = {"RDMA_Read": "read", "RDMA_Write": "write", "Send": "send"}
QUANTITIES = {"Latency": "lat", "BW": "bw"}
#: Of what the programs print of each message size, the column that is believed.
COLUMNS = {"lat": "t_typical[usec]", "bw": "BW average[Gb/sec]"}
COLUMN = re.compile(r"#\w+|(?:BW |[\d.]+% )?\w+\[[^]]+\]")
RULE = re.compile(r"-{20,}")


@dataclass
class Table:
    """What one program printed."""

    operation: str
    quantity: str
    settings: dict[str, str] = field(
        default_factory=dict
    )  #: such as ``{'Device': 'mlx5_0', 'Mtu': '4096[B]'}``
    values: dict[int, float] = field(default_factory=dict)  #: by message size: us or Gb/s
    iterations: dict[int, int] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    whole: bool = False

    @property
    def program(self) -> str:
        return f"ib_{self.operation}_{self.quantity}"


@dataclass
class Rdma:
    """One launch, whole."""

    operation: str
    ports: list[
        tuple[str, str, str]
    ]  #: of the client and the server: host, device/port, link layer
    settings: dict[str, str]
    latency_us: dict[int, float] = field(
        default_factory=dict
    )  #: by message size; half round trip, of read the whole
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)  #: by message size: one way
    payload_bytes: int = 0
    did: dict = field(default_factory=dict)  #: what the program says it did

    @property
    def mtu(self) -> int:
        """Bytes of payload that a packet holds at most."""
        return int(self.settings["Mtu"].removesuffix("[B]"))


def parse_perftest(text: str) -> list[Table]:
    """The tables of ``ib_{read,write,send}_lat`` and ``ib_{read,write,send}_bw --report_gbits``,
    one size each or ``-a``.

    Latency is ``t_typical``, which is the median: half the round trip of write and send, the whole
    one of read, whose answer no program sends (perftest_parameters.c, print_report_lat()).
    Bandwidth is ``BW average``, from the first message posted to the last completed; ``BW peak`` is
    that of the luckiest stretch within. Raises ParseError, also on a table cut off.
    """
    tables: list[Table] = []
    for line in map(str.strip, text.splitlines()):
        table = tables[-1] if tables and not tables[-1].whole else None
        if found := re.fullmatch(r"(\w+) ([\w ]+) Test", line):
            if found[1] not in OPERATIONS or found[2] not in QUANTITIES:
                raise ParseError(
                    f"{line!r} is none of ib_{{read,write,send}}_{{lat,bw}}: run one of these"
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
                    f"{table.program} gives no {COLUMNS[table.quantity]} (it has {line!r}): run "
                    "it with a number of iterations (-n), and for bandwidth --report_gbits"
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
        raise ParseError(f"{line!r} is no row of the table of {table.program}: the run was cut off")
    size, iterations = int(words[0]), whole(words[1], "the iterations of perftest", 1)
    if size in table.values:
        raise ParseError(f"{table.program} gives {size} bytes twice in one table")
    if size <= max(table.values, default=0):
        raise ParseError(f"{table.program} gives {size} bytes after more: lines were mixed; rerun")
    name = COLUMNS[table.quantity]
    where = f"{name} of {table.program} at {size} bytes"
    row = dict(zip(table.columns, words))
    value = positive(row[name], where)
    _check_latency(row, value, where) if table.quantity == "lat" else _check_rate(row, value, where)
    table.values[size] = value
    table.iterations[size] = iterations


def _check_latency(row: dict[str, str], value: float, where: str) -> None:
    """The median and the mean lie between the extremes, and percentiles in their order."""
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
                f"{where} is {value}, which does not fit beside {figures}: digits were damaged; "
                "rerun"
            )


def _check_rate(row: dict[str, str], value: float, where: str) -> None:
    """The average is at most the peak, and the rate of messages times their size."""
    peak, rate = row.get("BW peak[Gb/sec]"), row.get("MsgRate[Mpps]")
    highest = real(peak, f"the peak beside {where}") if peak else 0
    # Of few iterations perftest gives no peak but 0.
    if peak and highest != 0 and highest < value - unit(peak):
        raise ParseError(f"{where} is {value}, above its peak {peak}: digits were damaged; rerun")
    if rate:
        bits = int(row["#bytes"]) * 8 / 1000
        computed = real(rate, f"the message rate beside {where}") * bits
        agree(where, value, computed, unit(rate) * bits + unit(row[COLUMNS["bw"]]))


def parse_rdma(text: str) -> list[Rdma]:
    """Every launch in the output of ``src/rdma.sh``, which says before perftest's tables which
    ports it chose; ParseError."""
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
    # The rule that opens a table stands before its title, and the last one closes it.
    tables = parse_perftest("\n".join(lines[:end]))
    operations = {table.operation for table in tables}
    if len(operations) > 1:
        raise ParseError(
            f"{' and '.join(sorted(operations))} are in one launch: rdma.sh runs one of them"
        )
    run = Rdma(tables[0].operation, [port[1:] for port in ports], tables[0].settings)
    for table in tables:
        _check_settings(table, ports[0][2].partition("/")[0], run.settings)
        measured = run.latency_us if table.quantity == "lat" else run.bandwidth_gbps
        twice = measured.keys() & table.values.keys()
        if twice:
            raise ParseError(f"{table.program} gives {min(twice)} bytes twice in one launch")
        measured |= table.values
        # Of write and send's latency, each message has an answer of its size.
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
    """Task, host, port and link layer of both ends. srun prints what its tasks say as it
    arrives."""
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
            raise ParseError(f"{line!r} is no port of a task: rdma.ports was damaged; rerun")
    ports.sort()
    if [port[0] for port in ports] != ["0", "1"]:
        raise ParseError(
            f"{len(ports)} ports are told instead of one of task 0 and one of task 1: rdma.ports "
            "was not whole"
        )
    if ports[0][3] != ports[1][3]:
        raise ParseError(f"the ports have link layers {ports[0][3]} and {ports[1][3]}: rerun")
    return ports


def _check_settings(table: Table, device: str, first: dict[str, str]) -> None:
    """Every table is of one device, one MTU and one kind of connection."""
    mtu = table.settings.get("Mtu", "")
    if "Device" not in table.settings or not re.fullmatch(r"\d{1,9}\[B\]", mtu, re.ASCII):
        raise ParseError(
            f"{table.program} does not say its device and MTU (it says {table.settings}): "
            "was its head cut off?"
        )
    if table.settings["Device"] != device:
        raise ParseError(
            f"{table.program} went over {table.settings['Device']} instead of {device}"
        )
    for key in ("Mtu", "Link type", "Connection type", "GID index"):
        if table.settings.get(key) != first.get(key):
            raise ParseError(
                f"{table.program} has {key} {table.settings.get(key)}, where another table has "
                f"{first.get(key)}: rerun"
            )
