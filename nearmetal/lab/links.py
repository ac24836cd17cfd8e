"""Make, remove and check the links between nodes, of the kind that each class has.

The links are made by one shell script for all classes, since that needs no Python and no netlink
library in the lab's namespaces.
"""

import os
from collections.abc import Iterator

from nearmetal.lab.namespaces import LabError, Namespaces
from nearmetal.lab.topology import LinkClass, Topology

NO_ROUTE = "no route to class"
#: Linux's default, and what every kernel allows in namespaces. Under BBR, which some hosts use, the
#: bandwidth of the native link varies fourfold.
CONGESTION_CONTROLS = ("cubic", "reno")
#: Ranks that wait spin, on all processors. Switches in user space go before them, as a hypervisor's
#: threads do. All are on one processor: in a virtual machine, to wake another one takes longer than
#: to copy a frame. One whose device is gone spins, and ends after a second of that.
REAL_TIME = (
    f"prlimit --rttime=1000000 chrt --fifo 1 taskset --cpu-list {max(os.sched_getaffinity(0))}"
)
REFUSE_WITHOUT_PRIORITY = (
    f"{REAL_TIME} true || {{ echo 'the switches in user space get no real-time priority: "
    "start the lab with CAP_SYS_NICE, in the root control group' >&2; exit 1; }"
)
#: Seconds that a ping may take over any link while the host is busy.
PATIENCE = 3
#: The lock keeps out a script that an interrupted `lab-up` left running.
HEADER = [
    "set -eu",
    "exec 9> /lab/run/links.lock; flock 9",
    "pid() { cat /lab/run/$1.pid; }",
]


def start(topology: Topology, namespaces: Namespaces, classes=None) -> None:
    """Connect the nodes of these classes (None: of all) with each other and with the controller.

    The script removes the rest of earlier links first.
    """
    script = [*HEADER, REFUSE_WITHOUT_PRIORITY]
    for number, link_class in enumerate(topology.classes):
        if classes is None or link_class in classes:
            script += _end(topology, number, link_class)
            script += _connect(topology, number, link_class)
    # The segments meet at the controller, as a site's networks do.
    script.append(
        f"nsenter --target $(pid {topology.controller}) --net"
        " sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"
    )
    namespaces.run("sh", stdin="\n".join(script))


def _own_interfaces(
    topology: Topology, link_class: LinkClass
) -> Iterator[tuple[int, str, str, str]]:
    """The interfaces that the lab makes itself: (number, node, device, address)."""
    for position, (name, device, address) in enumerate(topology.interfaces(link_class)):
        if link_class.link != "qemu" or not position:
            yield position, name, device, address


def _end(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that remove the link of a class: its processes and its devices.

    The TAP device of a guest stays, since QEMU holds it.
    """
    script = []
    virtual_switches = _virtual_switches(topology, number, link_class)
    if link_class.link.startswith("vde") or virtual_switches:
        script.append(
            f"tries=500; while pkill -KILL -u 0 -f '{_processes(number)}'; do "
            "tries=$((tries - 1)); [ $tries -gt 0 ]; sleep 0.02; done\n"
            f"rm -rf /lab/vde{number} /lab/vde{number}x*"
        )
    if not link_class.link.startswith("vde"):
        for bridge in (f"br{number}", *virtual_switches):
            script.append(f"ip link delete {bridge} 2> /dev/null || :")
    for position, name, device, _ in _own_interfaces(topology, link_class):
        script.append(
            f"ip link delete {topology.port(name, link_class)} 2> /dev/null || :\n"
            f"ip link delete q{number}x{position} 2> /dev/null || :\n"
            f"nsenter --target $(pid {name}) --net ip link delete {device} 2> /dev/null || :"
        )
    return script


def _processes(number: int) -> str:
    """A pattern of the command lines of a class's switches in user space and their plugs."""
    return f"^(vde_|dpipe).*/lab/vde{number}(x[0-9]+)?( |$)"


def _connect(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that make the link of a class."""
    script = []
    vde = link_class.link.startswith("vde")
    if vde:
        # 9>&-: a daemon must not hold the lock of this script.
        script.append(f"{REAL_TIME} vde_switch --sock /lab/vde{number} --daemon < /dev/null 9>&-")
    else:
        bridge = f"br{number}"
        # A port would wait 15 seconds before it forwards the first frame.
        script.append(f"ip link add {bridge} type bridge forward_delay 0; ip link set {bridge} up")
    if link_class.link == "qemu":
        script.append(
            f"ip address add {link_class.bridge_address}/{link_class.subnet.prefixlen} dev {bridge}"
        )
        # The guest configures the other end (guest/boot.sh).
        for outer in topology.taps(link_class):
            script.append(_tap_on(outer, bridge))
        script += _switched(topology, number, link_class)
    for position, name, device, address in _own_interfaces(topology, link_class):
        if vde:
            script += _tap(number, link_class, position, name, device)
        else:
            outer, inner = topology.port(name, link_class), f"q{number}x{position}"
            script.append(
                f"ip link add {outer} type veth peer name {inner}\n"
                f"ip link set {outer} master {bridge} up"
            )
            if link_class.link == "macvlan" and position:
                # The end of the veth pair stands for the machine's NIC. macvlan in passthru mode
                # gives it to the node alone, as PCI passthrough gives a NIC to a guest.
                script.append(
                    f"ip link set {inner} up\n"
                    f"ip link add link {inner} name m{inner} type macvlan mode passthru"
                )
                inner = f"m{inner}"
            script.append(f"ip link set {inner} netns $(pid {name}) name {device}")
        script.append(
            f"nsenter --target $(pid {name}) --net ip -batch - <<'END'\n"
            f"address add {address}/{link_class.subnet.prefixlen} dev {device}\n"
            f"link set {device} up\n"
            + (f"route add default via {link_class.gateway}\n" if position else "")
            + "END\n"
            + _congestion_control(name)
        )
    return script


def _congestion_control(name: str) -> str:
    """A script line that gives a node a TCP congestion control of its own, not that of the host.

    The first of CONGESTION_CONTROLS that the host allows in namespaces. The node's facts say which.
    """
    return (
        f"nsenter --target $(pid {name}) --net sh -c '"
        f"for one in {' '.join(CONGESTION_CONTROLS)}; do "
        "echo $one > /proc/sys/net/ipv4/tcp_congestion_control 2> /dev/null && exit 0; done; "
        "exit 1'"
    )


def _virtual_switches(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Names of the bridges between second NICs of the virtual machines; [] if they have none."""
    if link_class.link != "qemu" or topology.hardware.switches == 1:
        return []
    return [f"br{number}x{switch}" for switch in range(1, topology.hardware.switches + 1)]


def _switched(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that connect second NICs of the virtual machines to their virtual switches.

    A virtual switch is a bridge in the kernel. A switch in user space joins all of them, as a
    physical switch does.
    """
    bridges = _virtual_switches(topology, number, link_class)
    if not bridges:
        return []
    script = [f"{REAL_TIME} vde_switch --sock /lab/vde{number} --daemon < /dev/null 9>&-"]
    for bridge in bridges:
        plug = f"v{bridge}"
        script += [
            f"ip link add {bridge} type bridge forward_delay 0; ip link set {bridge} up",
            f"{REAL_TIME} vde_plug2tap --sock /lab/vde{number} --daemon {plug} < /dev/null 9>&-",
            _awaited("", plug, f"switch {bridge}"),
            f"ip link set {plug} master {bridge} up",
        ]
    script.append(
        f"ip address add {link_class.switch_address}/{link_class.subnet.prefixlen} dev {bridges[0]}"
    )
    for position, node in enumerate(topology.guests):
        bridge = bridges[position % len(bridges)]
        script.append(_tap_on(topology.second_port(node), bridge))
    return script


def _tap_on(device: str, bridge: str) -> str:
    """Script lines that connect a guest's TAP device to a bridge."""
    return (
        f"ip link show {device} > /dev/null 2>&1 || ip tuntap add dev {device} mode tap\n"
        f"ip link set {device} master {bridge} up"
    )


def _awaited(where: str, device: str, who: str) -> str:
    """A script line that waits for the device of vde_plug2tap.

    vde_plug2tap makes it only after it went into the background.

    :arg where: the command that enters the device's namespace; '' for the lab's own.
    """
    return (
        f"tries=500; until {where} ip link show {device}"
        " > /dev/null 2>&1; do tries=$((tries - 1)); "
        f"[ $tries -gt 0 ] || {{ echo '{who}: no {device} came up' >&2; exit 1; }}; "
        "sleep 0.02; done"
    )


def _tap(number: int, link_class: LinkClass, position: int, name: str, device: str) -> list[str]:
    """Script lines that give a node a TAP device on the switch of its class, or on its own."""
    script, switch = [], f"/lab/vde{number}"
    if link_class.link == "vde-each" and position:
        switch = f"/lab/vde{number}x{position}"
        script.append(
            f"{REAL_TIME} vde_switch --sock {switch} --daemon < /dev/null 9>&-\n"
            f"{REAL_TIME} dpipe vde_plug /lab/vde{number} = vde_plug {switch}"
            " < /dev/null > /dev/null 2>&1 9>&- &"
        )
    script.append(
        f"nsenter --target $(pid {name}) --net"
        f" {REAL_TIME} vde_plug2tap --sock {switch} --daemon {device} < /dev/null 9>&-"
    )
    script.append(_awaited(f"nsenter --target $(pid {name}) --net", device, name))
    return script


def check(topology: Topology, namespaces: Namespaces) -> dict[LinkClass, list[str]]:
    """Faults of the links by class.

    The controller pings each node. The frame crosses every switch, port and device between them.
    """
    # The controller has an interface on each class.
    on_controller = f"nsenter --target $(pid {topology.controller}) --net"
    script = [
        HEADER[-1],
        (
            f'ping_from() {{ from=$1; shift; $from ping -q -n -c 1 -i 0.2 -w {PATIENCE} "$@"'
            " > /dev/null 2>&1; }"
        ),
        f'ping() {{ ping_from "{on_controller}" "$@"; }}',
    ]
    for number, link_class in enumerate(topology.classes):
        _, device, address = topology.interfaces(link_class)[0]
        show = f"{on_controller} ip -4 -brief address show dev {device} up 2> /dev/null"
        fault = f"{topology.controller}: {device} lacks {address} or is down"
        script.append(f"{show} | grep -q ' {address}/' || echo '{number} {fault}'")
        script += _checks(topology, number, link_class)
    script.append(
        f'[ "$({on_controller} cat /proc/sys/net/ipv4/ip_forward)" = 1 ]'
        f" || echo '0 {topology.controller}: forwards nothing between the classes'\nwait"
    )
    try:
        lines = namespaces.run("sh", stdin="\n".join(script), timeout=60).splitlines()
    except LabError as error:
        return {topology.classes[0]: [str(error)]}
    faults: dict[LinkClass, list[str]] = {}
    for line in lines:
        index, _, fault = line.partition(" ")
        faults.setdefault(topology.classes[int(index)], []).append(fault)
    return _without_consequences(faults)


def _checks(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that inspect the switches of a class and ping all nodes at once.

    Each node is pinged from two addresses.
    """
    # A ping from an address on another class tests the node's default route as well.
    other = next((each for each in topology.classes if each is not link_class), None)
    # It prints nothing where no switch is in user space.
    policies = f"ps -o cls= -p \"$(pgrep -d , -u 0 -f '{_processes(number)}')\" 2> /dev/null"
    fault = "its switch does not go before the ranks"
    script = [f"{policies} | grep -qvw FF && echo '{number} {fault}'"]
    for name, _, address in topology.interfaces(link_class)[1:]:
        line = f"if ! ping {address}; then echo '{number} {name}: no answer over its link'; "
        if other:
            line += f"elif ! ping -I {other.gateway} {address}; then "
            line += f"echo '{number} {name}: {NO_ROUTE} {other.name}'; "
        script.append(f"{{ {line}fi; }} &")
    if _virtual_switches(topology, number, link_class):
        for node in topology.guests:
            fault = f"{node.name}: no answer over its virtual switch"
            script.append(f"ping_from env {node.switched} || echo '{number} {fault}' &")
    return script


def _without_consequences(faults: dict[LinkClass, list[str]]) -> dict[LinkClass, list[str]]:
    """The faults without missing routes to a class whose own link is broken."""
    broken = set()
    for link_class, sentences in faults.items():
        if any(NO_ROUTE not in sentence for sentence in sentences):
            broken.add(link_class.name)
    own: dict[LinkClass, list[str]] = {}
    for link_class, sentences in faults.items():
        for sentence in sorted(sentences):
            if sentence.rpartition(f" {NO_ROUTE} ")[2] not in broken:
                own.setdefault(link_class, []).append(sentence)
    return own
