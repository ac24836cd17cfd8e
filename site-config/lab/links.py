"""The wires of the lab: what carries a frame from node to node, by each class's own kind of link."""

from room import Room
from topology import Topology


def start(topology: Topology, room: Room) -> None:
    """Connect the nodes: what carries a frame is each class's own; a leg of every class ends at the controller."""
    script = ["set -eu", "pid() { cat /lab/run/$1.pid; }"]
    for number, link_class in enumerate(topology.classes):
        vde = link_class.link.startswith("vde")
        if vde:
            switch = f"/lab/vde{number}"
            script.append(f"vde_switch --sock {switch} --daemon < /dev/null")
        else:
            bridge = f"br{number}"
            script.append(
                f"ip link add {bridge} type bridge forward_delay 0; ip link set {bridge} up"
            )
        if link_class.link == "qemu":
            script.append(
                f"ip address add {link_class.room}/{link_class.subnet.prefixlen} dev {bridge}"
            )
        for leg, (name, device, address) in enumerate(topology.legs(link_class)):
            outer, inner = topology.port(name, link_class), f"q{number}x{leg}"
            if link_class.link == "qemu" and leg:
                # The other end is the guest's own affair.
                script.append(
                    f"ip tuntap add dev {outer} mode tap; ip link set {outer} master {bridge} up"
                )
                continue
            if vde:
                if link_class.link == "vde-each" and leg:
                    switch = f"/lab/vde{number}x{leg}"
                    script.append(
                        f"vde_switch --sock {switch} --daemon < /dev/null; "
                        f"dpipe vde_plug /lab/vde{number} = vde_plug {switch} < /dev/null > /dev/null 2>&1 &"
                    )
                script.append(
                    f"nsenter --target $(pid {name}) --net vde_plug2tap --sock {switch} --daemon {device} < /dev/null"
                )
                # It makes the device after it has gone into the background.
                script.append(
                    f"tries=500; until nsenter --target $(pid {name}) --net ip link show {device} > /dev/null 2>&1; do "
                    f"tries=$((tries - 1)); [ $tries -gt 0 ] || {{ echo '{name}: no {device} came up' >&2; exit 1; }}; "
                    "sleep 0.02; done"
                )
            else:
                script.append(
                    f"ip link add {outer} type veth peer name {inner}; ip link set {outer} master {bridge} up"
                )
                if link_class.link == "macvlan" and leg:
                    # The machine's NIC is the veth's end; the node gets it whole, as a guest gets a passed-through one.
                    script.append(
                        f"ip link set {inner} up; ip link add link {inner} name m{inner} type macvlan mode passthru"
                    )
                    inner = f"m{inner}"
                script.append(f"ip link set {inner} netns $(pid {name}) name {device}")
            script.append(
                f"nsenter --target $(pid {name}) --net ip -batch - <<'END'\n"
                f"address add {address}/{link_class.subnet.prefixlen} dev {device}\nlink set {device} up\n"
                + (f"route add default via {link_class.gateway}\n" if leg else "")
                + "END"
            )
    # The segments meet at the controller, as a site's networks do.
    script.append(
        f"nsenter --target $(pid {topology.controller}) --net sh -c 'echo 1 > /proc/sys/net/ipv4/ip_forward'"
    )
    room.run("sh", stdin="\n".join(script))
