"""The wires of the lab: what carries a frame from node to node, by each class's own kind of link."""

from collections.abc import Iterator

from nearmetal.lab.room import LabError, Room
from nearmetal.lab.topology import LinkClass, Topology

NO_WAY = "no way to class"
#: Seconds that an answer may take over any link, the host being busy.
PATIENCE = 3
#: One such script at a time: an interrupted `lab-up` may leave its own at work.
HEADER = [
    "set -eu",
    "exec 9> /lab/run/links.lock; flock 9",
    "pid() { cat /lab/run/$1.pid; }",
]


def start(topology: Topology, room: Room, classes=None) -> None:
    """Connect the nodes of these classes (None: of all): what carries a frame is each class's own.
    A leg of every class ends at the controller. Whatever is left of an earlier link goes first."""
    script = list(HEADER)
    for number, link_class in enumerate(topology.classes):
        if classes is None or link_class in classes:
            script += _end(topology, number, link_class)
            script += _connect(topology, number, link_class)
    # The segments meet at the controller, as a site's networks do.
    script.append(
        f"nsenter --target $(pid {topology.controller}) --net"
        " sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"
    )
    room.run("sh", stdin="\n".join(script))


def _legs(topology: Topology, link_class: LinkClass) -> Iterator[tuple[int, str, str, str]]:
    """The legs that are the lab's own to make: number, name, device there and address."""
    for leg, (name, device, address) in enumerate(topology.legs(link_class)):
        if link_class.link != "qemu" or not leg:
            yield leg, name, device, address


def _end(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that end the link of a class: its processes, also stopped ones, and its devices.
    A guest's TAP device stays, since QEMU holds it."""
    script = []
    if link_class.link.startswith("vde"):
        pattern = f"^(vde_|dpipe).*/lab/vde{number}(x[0-9]+)?( |$)"
        script.append(
            f"tries=500; while pkill -KILL -u 0 -f '{pattern}'; do "
            "tries=$((tries - 1)); [ $tries -gt 0 ]; sleep 0.02; done\n"
            f"rm -rf /lab/vde{number} /lab/vde{number}x*"
        )
    else:
        script.append(f"ip link delete br{number} 2> /dev/null || :")
    for leg, name, device, _ in _legs(topology, link_class):
        script.append(
            f"ip link delete {topology.port(name, link_class)} 2> /dev/null || :\n"
            f"ip link delete q{number}x{leg} 2> /dev/null || :\n"
            f"nsenter --target $(pid {name}) --net ip link delete {device} 2> /dev/null || :"
        )
    return script


def _connect(topology: Topology, number: int, link_class: LinkClass) -> list[str]:
    """Script lines that make the link of a class."""
    script = []
    vde = link_class.link.startswith("vde")
    if vde:
        script.append(f"vde_switch --sock /lab/vde{number} --daemon < /dev/null 9>&-")
    else:
        bridge = f"br{number}"
        script.append(f"ip link add {bridge} type bridge forward_delay 0; ip link set {bridge} up")
    if link_class.link == "qemu":
        script.append(
            f"ip address add {link_class.room}/{link_class.subnet.prefixlen} dev {bridge}"
        )
        for name, _, _ in topology.legs(link_class)[1:]:
            # The other end is the guest's own affair.
            outer = topology.port(name, link_class)
            script.append(
                f"ip link show {outer} > /dev/null 2>&1 || ip tuntap add dev {outer} mode tap\n"
                f"ip link set {outer} master {bridge} up"
            )
    for leg, name, device, address in _legs(topology, link_class):
        if vde:
            script += _tap(number, link_class, leg, name, device)
        else:
            outer, inner = topology.port(name, link_class), f"q{number}x{leg}"
            script.append(
                f"ip link add {outer} type veth peer name {inner}\n"
                f"ip link set {outer} master {bridge} up"
            )
            if link_class.link == "macvlan" and leg:
                # The machine's NIC is the veth's end. The node gets it whole, as a guest gets a
                # passed-through one.
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
            + (f"route add default via {link_class.gateway}\n" if leg else "")
            + "END"
        )
    return script


def _tap(number: int, link_class: LinkClass, leg: int, name: str, device: str) -> list[str]:
    """Script lines that give a node a TAP device, plugged into the switch of its class or its own."""
    script, switch = [], f"/lab/vde{number}"
    if link_class.link == "vde-each" and leg:
        switch = f"/lab/vde{number}x{leg}"
        script.append(
            f"vde_switch --sock {switch} --daemon < /dev/null 9>&-\n"
            f"dpipe vde_plug /lab/vde{number} = vde_plug {switch}"
            " < /dev/null > /dev/null 2>&1 9>&- &"
        )
    script.append(
        f"nsenter --target $(pid {name}) --net"
        f" vde_plug2tap --sock {switch} --daemon {device} < /dev/null 9>&-"
    )
    # It makes the device after it has gone into the background.
    script.append(
        f"tries=500; until nsenter --target $(pid {name}) --net ip link show {device}"
        " > /dev/null 2>&1; do tries=$((tries - 1)); "
        f"[ $tries -gt 0 ] || {{ echo '{name}: no {device} came up' >&2; exit 1; }}; "
        "sleep 0.02; done"
    )
    return script


def look(topology: Topology, room: Room) -> dict[LinkClass, list[str]]:
    """Faults of the links by class, nothing being changed. A frame to each node and back is what
    counts: it crosses every switch, port and device between the controller and that node."""
    on_controller = f"nsenter --target $(pid {topology.controller}) --net"
    script = [
        HEADER[-1],
        f'ping() {{ {on_controller} ping -q -n -c 1 -i 0.2 -w {PATIENCE} "$@" > /dev/null 2>&1; }}',
    ]
    for number, link_class in enumerate(topology.classes):
        for name, device, address in topology.legs(link_class)[:1]:
            script.append(
                f"{on_controller} ip -4 -brief address show dev {device} up 2> /dev/null"
                f" | grep -q ' {address}/' || echo '{number} {name}: {device} lacks {address} or is down'"
            )
        # An answer to an address on another class takes the node's way out of its own.
        other = next((each for each in topology.classes if each is not link_class), None)
        for name, _, address in topology.legs(link_class)[1:]:
            script.append(
                f"{{ if ! ping {address}; then echo '{number} {name}: no answer over its link'; "
                + (
                    f"elif ! ping -I {other.gateway} {address}; then "
                    f"echo '{number} {name}: {NO_WAY} {other.name}'; "
                    if other
                    else ""
                )
                + "fi; } &"
            )
    script.append(
        f'[ "$({on_controller} cat /proc/sys/net/ipv4/ip_forward)" = 1 ]'
        f" || echo '0 {topology.controller}: forwards nothing between the classes'\nwait"
    )
    try:
        lines = room.run("sh", stdin="\n".join(script), timeout=60).splitlines()
    except LabError as error:
        return {topology.classes[0]: [str(error)]}
    faults: dict[LinkClass, list[str]] = {}
    for line in lines:
        index, _, fault = line.partition(" ")
        faults.setdefault(topology.classes[int(index)], []).append(fault)
    broken = {kind.name for kind, said in faults.items() if any(NO_WAY not in one for one in said)}
    # Of a link that is broken itself the others are no fault.
    kept = {
        kind: sorted(one for one in said if one.rpartition(f" {NO_WAY} ")[2] not in broken)
        for kind, said in faults.items()
    }
    return {kind: said for kind, said in kept.items() if said}
