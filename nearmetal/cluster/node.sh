#!/bin/sh
# What a system's file needs of a node beyond the facts of provenance.sh, and in its form:
# one line a fact, `# nearmetal node: <node> <key>=<value>`. Needs no root.
#   srun --ntasks=1 sh node.sh
# nearmetal/cluster/node.py reads what this prints.

LC_ALL=C
PATH=$PATH:/usr/sbin:/sbin
export LC_ALL PATH
lines=0
# What Slurm calls this node, as in provenance.sh. No launcher but srun starts this script.
read -r name < /proc/sys/kernel/hostname
node=${SLURMD_NODENAME:-}
[ "${node%%.*}" = "${name%%.*}" ] || [ "${node:+${SLURM_PROCID:-}}" ] || node=${name%%.*}

fact() { # KEY VALUE
    printf '# nearmetal node: %s %s=%s\n' "$node" "$1" "${2:-unknown}"
    lines=$((lines + 1))
}

file_fact() { # KEY FILE
    value=
    { read -r value < "$2"; } 2>/dev/null
    fact "$1" "$value"
}

# /sys shows the interfaces of whoever mounted it: an interface of this name may be another one.
is_ours() { # NAME
    ours=$(ip -o link show dev "$1" 2>/dev/null) || return 0
    read -r index < "/sys/class/net/$1/ifindex" && [ "${ours%%:*}" = "$index" ]
}

interface() { # NAME, of a PCI device
    sys=/sys/class/net/$1/device
    [ -e "$sys/vendor" ] && is_ours "$1" || return 0
    read -r vendor < "$sys/vendor"
    read -r device < "$sys/device"
    fact "nic.$1.pci" "${vendor#0x}:${device#0x}"
    [ ! -e "$sys/physfn" ] || fact "nic.$1.virtual_function" yes
    address=$(readlink "$sys")
    model=$(lspci -s "${address##*/}" 2>/dev/null)
    [ -z "$model" ] || fact "nic.$1.model" "${model#*: }"
}

port() { # DIRECTORY of an InfiniBand, RoCE or EFA port
    device=${1#/sys/class/infiniband/}
    device=${device%%/*}
    file_fact "ib.$device.${1##*/}.state" "$1/state"
    driver=$(readlink "/sys/class/infiniband/$device/device/driver")
    fact "ib.$device.${1##*/}.driver" "${driver##*/}"
}

# The interface that has the address of the node's name, by which other nodes reach it.
own_interface() {
    address=$(getent ahostsv4 "${SLURMD_NODENAME:-$name}" 2>/dev/null)
    address=${address%%[!0-9.]*}
    [ -n "$address" ] || return 0
    nic=$(ip -o -4 address show 2>/dev/null | while read -r _ name _ own _; do
        case $name,${own%/*} in
            lo,*) ;;
            *,"$address") echo "$name"; break ;;
        esac
    done)
    [ -z "$nic" ] || fact address_nic "$nic"
}

for directory in /sys/class/net/*; do
    interface "${directory##*/}"
done
for directory in /sys/class/infiniband/*/ports/*; do
    [ ! -d "$directory" ] || port "$directory"
done
own_interface
route=$(ip -o -4 route show default 2>/dev/null)
case $route in
    *' dev '*) route=${route#* dev }; fact default_nic "${route%% *}" ;;
esac
for command in apptainer singularity gcc java javac mpicc ompi_info mpichversion qperf ib_write_bw systemd-detect-virt; do
    found=$(command -v "$command" 2>/dev/null)
    fact "command.$command" "${found:-none}"
done
# Slurm's library by which other MPI libraries speak with srun.
pmi2=$(ldconfig -p 2>/dev/null | sed -n '/libpmi2\.so/s/.* => //p' | head -n 1)
srun=$(command -v srun 2>/dev/null)
for directory in "${srun%/bin/srun}/lib64" "${srun%/bin/srun}/lib" /usr/lib64 /usr/lib; do
    [ -n "$pmi2" ] || [ ! -e "$directory/libpmi2.so" ] || pmi2=$directory/libpmi2.so
done
fact library.pmi2 "${pmi2:-none}"
# `openjdk version "25.0.1" 2025-10-21`
version=$(java -version 2>&1 | sed -n 's/^.* version "\([^"]*\)".*/\1/p')
fact java_version "$version"
if unshare --user true 2>/dev/null; then namespaces=yes; else namespaces=no; fi
fact user_namespaces "$namespaces"
fact lines "$((lines + 1))"
