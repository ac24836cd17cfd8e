#!/bin/sh
# Runs a command on the processors and the memory of one socket, by numactl. Fails where the kernel gave others.
#   sh held.sh SOCKET PROCESSES COMMAND [ARGUMENT ...]
# SOCKET is the kernel's number of it (physical_package_id). PROCESSES run on this node, each on a core of its own.
set -eu
system=/sys/devices/system
fail() { echo "held.sh: $*" >&2; exit 1; }

[ "$1" != --check ] || { # within numactl: what it gave
    wanted=$2 nodes=$3
    shift 3
    given=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)
    [ "$(numactl --show | sed -n 's/^membind: *//p' | tr -s ' ' , | sed 's/,$//')" = "$nodes" ] ||
        fail "the memory is not that of the NUMA nodes $nodes"
    # The kernel joins numbers to ranges, so that the lists are compared as numbers.
    numbers=$(echo "$given" | tr , '\n' | awk -F- '{for (i = $1; i <= $NF; i++) print i}')
    [ "$(echo "$numbers" | sort -n | paste -sd , -)" = "$wanted" ] ||
        fail "the processors are $given instead of $wanted: does the scheduler or container hide some?"
    exec "$@"
}

socket=$1 processes=$2
shift 2
command -v numactl > /dev/null || fail "numactl is not on this node: install it"
cpus='' nodes='' cores=''
for node in "$system"/node/node[0-9]*; do
    here=
    for cpu in "$node"/cpu[0-9]*; do
        package=''
        { read -r package < "$cpu/topology/physical_package_id"; } 2>/dev/null || continue # it is offline
        [ "$package" = "$socket" ] || continue
        read -r core < "$cpu/topology/core_id"
        here=yes cpus="$cpus ${cpu##*/cpu}" cores="$cores $core"
    done
    [ -z "$here" ] || nodes="$nodes ${node##*/node}"
done
[ -n "$cpus" ] || fail "there is no socket $socket on this node: see physical_package_id below $system/cpu"
sorted() { echo "$*" | tr ' ' '\n' | sort -nu | paste -sd , -; }
# shellcheck disable=SC2086 # lists of numbers
{ cpus=$(sorted $cpus) nodes=$(sorted $nodes) count=$(sorted $cores | tr , '\n' | wc -l); }
[ "$processes" -le "$count" ] ||
    fail "$processes processes on the $count cores of socket $socket would share cores: give fewer processes a node"
exec numactl --physcpubind="$cpus" --membind="$nodes" sh "$0" --check "$cpus" "$nodes" "$@"
