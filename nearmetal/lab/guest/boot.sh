#!/bin/sh
# Second part of a guest's start, run by `init`: file systems, drivers, network, RDMA and ssh. The lab
# starts Slurm's daemons later, as on every node (daemons.sh).
set -eu
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
# The next file sets them.
address='' gateway='' own_mac='' passed_through='' switched='' switched_mac='' taps='' checkout=''
# shellcheck source=/dev/null
. /etc/nearmetal/guest

mkdir -p /dev/pts /dev/shm
mount -t devpts -o ptmxmode=666,mode=620,gid=5 devpts /dev/pts
# With those that init mounts, the file systems take at most half of the guest's memory.
mount -t tmpfs -o mode=1777,nosuid,nodev,size=15% shm /dev/shm
mount -t tmpfs -o mode=755,nosuid,nodev,size=5% run /run
ln -sf /proc/self/fd /dev/fd
hostname -F /etc/hostname
ip link set lo up

# Drivers of all network devices, modules for Apptainer (images) and for RDMA.
for device in /sys/bus/pci/devices/*; do
    read -r class < "$device/class"
    case $class in 0x02*) modprobe --all --quiet "$(cat "$device/modalias")" || : ;; esac
done
for device in /sys/bus/virtio/devices/*; do
    modprobe --all --quiet "$(cat "$device/modalias")" || :
done
modprobe --all fuse loop squashfs ib_uverbs rdma_ucm
chmod 666 /dev/fuse

configure() { # DEVICE ADDRESS/PREFIX
    ip address add "$2" dev "$1"
    ip link set "$1" up
}
if [ -n "$taps" ]; then
    # This guest has an IOMMU, and the virtual machines run in it.
    # shellcheck disable=SC2086 # several
    sh "$checkout/nearmetal/lab/guest/machine.sh" network "$address" "$own_mac" $taps
elif [ -n "$passed_through" ]; then
    # QEMU's own NIC is for Slurm. The passed-through NIC is measured and becomes eth0.
    for device in /sys/class/net/*; do
        read -r mac < "$device/address"
        case ${device##*/} in lo) continue ;; esac
        [ "$mac" = "$own_mac" ] && name=control || name=given
        ip link set "${device##*/}" name "$name"
    done
    if [ ! -e /sys/class/net/given ]; then
        echo "this kernel has no driver for the NIC that was passed through"
        exit 1
    fi
    ip link set given name eth0
    configure control "$address"
    configure eth0 "$passed_through"
else
    if [ -n "$switched" ]; then
        # The second NIC is on one of several virtual switches and becomes eth1.
        for device in /sys/class/net/eth*; do
            read -r mac < "$device/address"
            [ "$mac" = "$switched_mac" ] && name=second || name=first
            ip link set "${device##*/}" name "$name"
        done
        ip link set first name eth0
        ip link set second name eth1
        configure eth1 "$switched"
    fi
    configure eth0 "$address"
fi
ip route add default via "$gateway"

# Verbs: those of the NIC, else rdma_rxe in software over the NIC.
if [ -z "$taps" ] && ! ls /sys/class/infiniband/* > /dev/null 2>&1; then
    modprobe rdma_rxe
    rdma link add rxe0 type rxe netdev eth0
fi
[ -n "$taps" ] || chmod 666 /dev/infiniband/*
# shellcheck disable=SC3045 # Debian's sh has it
ulimit -l unlimited # RDMA programs lock memory

mkdir -p /run/sshd
/usr/sbin/sshd -o UsePAM=no -o LoginGraceTime=0 -o HostKey=/etc/ssh/ssh_host_ed25519_key -o "SetEnv=PATH=$PATH"
: > /run/entered
echo "nearmetal: a guest has started"
exec tini -g -- sleep infinity
