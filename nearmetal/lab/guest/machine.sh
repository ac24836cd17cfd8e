#!/bin/sh
# What the guest with an IOMMU does, within which the virtual machines run (guests.py).
# machine.sh network ADDRESS MAC TAP...  its bridge, with its NIC and the TAP devices of the machines
# machine.sh give PCI-ADDRESS...         give devices to vfio-pci, and print what they are
# machine.sh start NAME COMMAND...       start the QEMU of a machine, and note its end on its console
set -eu
action=$1
shift
devices=/sys/bus/pci/devices

network() { # ADDRESS/PREFIX MAC TAP...
    address=$1 own_mac=$2
    shift 2
    modprobe --all bridge tun
    ip link add br0 type bridge forward_delay 0
    for device in /sys/class/net/*; do
        read -r mac < "$device/address"
        [ "$mac" != "$own_mac" ] || ip link set "${device##*/}" master br0 up
    done
    for tap; do
        ip tuntap add dev "$tap" mode tap
        ip link set "$tap" master br0 up
    done
    ip address add "$address" dev br0
    ip link set br0 up
    mkdir -p /lab
    options=trans=virtio,version=9p2000.L,msize=512000
    mount -t 9p -o "$options,cache=mmap" lab /lab
    mount -t 9p -o "$options,ro,cache=loose" layer /lab/guest
}

driver_of() { # PCI-ADDRESS
    if [ -e "$devices/$1/driver" ]; then basename "$(readlink "$devices/$1/driver")"; else echo 'no driver'; fi
}

virtual_functions() { # NUMBER: make them, if the machine's NIC has SR-IOV
    for total in "$devices"/*/sriov_totalvfs; do
        [ -e "$total" ] || continue
        nic=${total%/*}
        case $(cat "$nic/class") in 0x02*) ;; *) continue ;; esac
        # The physical function stays with this machine. Its link carries that of the functions.
        ip link set "$(ls "$nic/net")" up
        echo 0 > "$nic/sriov_drivers_autoprobe"
        echo "$1" > "$nic/sriov_numvfs"
        echo "${nic##*/} ($(driver_of "${nic##*/}")) has $(cat "$nic/sriov_numvfs") virtual functions"
    done
}

give() { # PCI-ADDRESS...
    modprobe --all vfio-pci
    modprobe --quiet kvm_amd || :
    virtual_functions $#
    for address; do
        if [ ! -e "$devices/$address" ]; then
            echo "this machine has no PCI device $address" >&2
            exit 1
        fi
        before=$(driver_of "$address")
        echo vfio-pci > "$devices/$address/driver_override"
        [ ! -e "$devices/$address/driver" ] || echo "$address" > "$devices/$address/driver/unbind"
        echo "$address" > /sys/bus/pci/drivers_probe
        echo 1 > "$devices/$address/reset"
        group=$(readlink "$devices/$address/iommu_group")
        echo "$address $(cat "$devices/$address/vendor"):$(cat "$devices/$address/device")" \
            "from $before to $(driver_of "$address"), IOMMU group ${group##*/} of" \
            "$(find "$devices/$address/iommu_group/devices/" -type l | wc -l) device," \
            "reset by $(tr '\n' ' ' < "$devices/$address/reset_method")"
    done
    # As the lab checks a real machine.
    cd "$(dirname "$0")/../../.."
    /opt/nearmetal/bin/python -c 'import sys
from nearmetal.lab import hardware
try:
    hardware.refuse_unless_free(sys.argv[1:])
except hardware.HardwareError as error:
    sys.exit(str(error))' "$@"
}

start() { # NAME COMMAND...
    name=$1
    shift
    # shellcheck disable=SC2016 # of the inner shell
    setsid sh -c 'console=$1; shift; "$@"; echo "nearmetal: QEMU ended with $?" >> "$console"' \
        start "/lab/run/$name.log" "$@" > "/lab/run/$name.qemu.log" 2>&1 < /dev/null &
}

"$action" "$@"
