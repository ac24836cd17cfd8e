"""perftest's latency and bandwidth programs of RDMA, and ``src/rdma.sh`` around them."""

import re
from dataclasses import dataclass, field

from . import ParseError, positive

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

    @property
    def mtu(self) -> int:
        """Bytes of payload that a packet holds at most."""
        return int(self.settings["Mtu"].removesuffix("[B]"))


def parse_perftest(text: str) -> list[Table]:
    """The tables of ``ib_{read,write,send}_lat`` and ``ib_{read,write,send}_bw --report_gbits``, one size each or ``-a``.

    Latency is ``t_typical``, which is the median: half the round trip of write and send, the whole one of read, whose answer
    no program sends (perftest_parameters.c, print_report_lat()). Bandwidth is ``BW average``, from the first message posted
    to the last completed; ``BW peak`` is that of the luckiest stretch within. Raises ParseError, also on a table cut off.
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
            table.columns = COLUMN.findall(line)
            if (
                table.columns[:2] != ["#bytes", "#iterations"]
                or COLUMNS[table.quantity] not in table.columns
            ):
                raise ParseError(
                    f"{table.program} gives no {COLUMNS[table.quantity]} (it has {line!r}): run it with a number "
                    "of iterations (-n), and for bandwidth --report_gbits"
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
    if len(words) != len(table.columns) or not (words[0].isdecimal() and words[1].isdecimal()):
        raise ParseError(f"{line!r} is no row of the table of {table.program}: the run was cut off")
    size = int(words[0])
    if size in table.values:
        raise ParseError(f"{table.program} gives {size} bytes twice in one table")
    name = COLUMNS[table.quantity]
    table.values[size] = positive(
        words[table.columns.index(name)], f"{name} of {table.program} at {size} bytes"
    )
    table.iterations[size] = int(words[1])


def parse_rdma(text: str) -> list[Rdma]:
    """Every launch in the output of ``src/rdma.sh``, which says before perftest's tables which ports it chose; ParseError."""
    launches = re.split(r"^# nearmetal program: rdma.*\n", text, flags=re.MULTILINE)[1:]
    if not launches:
        raise ParseError(
            "no launch of rdma.sh in this output: see the job's stderr and whether the launcher ran"
        )
    return [_parse_launch(launch) for launch in launches]


def _parse_launch(text: str) -> Rdma:
    if not re.search(r"^# nearmetal complete$", text, re.MULTILINE):
        raise ParseError(
            'the output of a launch of rdma.sh stops without "# nearmetal complete": '
            "see the job's stderr and rerun"
        )
    # srun prints what its tasks say as it arrives.
    ports = sorted(
        re.findall(r"^# nearmetal port: (\d+) (\S+) (\S+/\d+) (\S+)$", text, re.MULTILINE)
    )
    if [port[0] for port in ports] != ["0", "1"]:
        raise ParseError(
            f"{len(ports)} ports are told instead of one of task 0 and one of task 1: rdma.ports was not whole"
        )
    tables = parse_perftest(text)
    if len(operations := {table.operation for table in tables}) > 1:
        raise ParseError(
            f"{' and '.join(sorted(operations))} are in one launch: rdma.sh runs one of them"
        )
    run = Rdma(tables[0].operation, [port[1:] for port in ports], tables[0].settings)
    for table in tables:
        if "Device" not in table.settings or not re.fullmatch(
            r"\d+\[B\]", table.settings.get("Mtu", "")
        ):
            raise ParseError(
                f"{table.program} does not say its device and MTU (it says {table.settings}): "
                "was its head cut off?"
            )
        device = ports[0][2].partition("/")[0]
        if table.settings["Device"] != device:
            raise ParseError(
                f"{table.program} went over {table.settings['Device']} instead of {device}"
            )
        measured = run.latency_us if table.quantity == "lat" else run.bandwidth_gbps
        if twice := measured.keys() & table.values.keys():
            raise ParseError(f"{table.program} gives {min(twice)} bytes twice in one launch")
        measured |= table.values
        # Of write and send's latency, each message has an answer of its size.
        ways = 2 if table.quantity == "lat" and table.operation != "read" else 1
        run.payload_bytes += sum(ways * size * count for size, count in table.iterations.items())
    if unpaired := set(run.latency_us) ^ set(run.bandwidth_gbps):
        raise ParseError(
            f"sizes {sorted(unpaired)} have only one of latency and bandwidth: see the job's stderr and rerun"
        )
    return run
