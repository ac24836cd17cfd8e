#!/bin/sh
# RDMA between two nodes by perftest, one task a node:
#   srun -N2 -n2 sh task.sh > tasks.out
#   srun -N2 -n2 rdma.sh port [DEVICE[/PORT]] > rdma.ports        each node's port:
#                                                                 `# nearmetal port: TASK HOST DEVICE/PORT LINK_LAYER`
#   srun -N2 -n2 rdma.sh OPERATION ITERATIONS GID_INDEX SIZE...   latency and bandwidth between these two
# OPERATION is read, write or send; GID_INDEX is `-` where perftest shall choose. Task 1 serves, task 0 measures.
set -eu
# shellcheck source=reframe_checks/src/task.sh
. ./task.sh

fail() {
    echo "rdma.sh: $*" >&2
    exit 2
}

host=$(hostname)
if [ "$1" = port ]; then
    wanted=${2-} seen=
    for directory in /sys/class/infiniband/*/ports/*; do
        [ -d "$directory" ] || continue
        port=${directory#/sys/class/infiniband/}
        port=${port%%/*}/${directory##*/}
        read -r state < "$directory/state" # such as `4: ACTIVE`
        seen="$seen${seen:+, }$port is ${state#*: }"
        case $wanted in '' | "$port" | "${port%/*}") ;; *) continue ;; esac
        [ "${state#*: }" = ACTIVE ] || continue
        read -r layer < "$directory/link_layer"
        echo "# nearmetal port: $task $host $port $layer"
        exit
    done
    [ -n "$seen" ] || fail "$host has no RDMA device: is its driver loaded (ls /sys/class/infiniband)?"
    [ -n "$wanted" ] || fail "no RDMA port of $host is active ($seen): is the link up, and a subnet manager there?"
    fail "$host has no active RDMA port $wanted ($seen): correct rdma_device in the partition's extras"
fi

operation=$1 iterations=$2 gid_index=$3
shift 3
# perftest itself does not compare them.
# A prolog may print other lines.
ports=$(grep '^# nearmetal port: ' rdma.ports) || fail "rdma.ports names no port: see the job's stderr"
[ "$(echo "$ports" | cut -d ' ' -f 7 | sort -u | wc -l)" -eq 1 ] ||
    fail "the nodes' RDMA ports have different link layers ($(echo "$ports" | cut -d ' ' -f 5- | paste -s -d , -)): name like ones" \
         "by rdma_device in the partition's extras"
for quantity in lat bw; do
    command -v "ib_${operation}_$quantity" > /dev/null ||
        fail "ib_${operation}_$quantity is not on PATH on $host: install the package perftest"
done
meet
port=$(echo "$ports" | sed -n "s/^# nearmetal port: $task [^ ]* \([^ ]*\) .*/\1/p")
words=$(mktemp)
trap 'rm -f "$words"' EXIT

broken() { # show perftest's words, and what they are most often about
    cat "$words" >&2
    # shellcheck disable=SC3045 # dash and bash have it
    fail "$program ended with an error on $host, where programs may lock $(ulimit -l) KiB of memory (ulimit -l)"
}

perftest() { # QUANTITY SIZE: task 1 serves one client and ends, task 0 is it
    program=ib_${operation}_$1
    # The TCP port is for the programs' arrangements. -F: a clock that varies is no failure.
    set -- "--ib-dev=${port%/*}" "--ib-port=${port#*/}" "--port=$tcp_port" \
        "--size=$2" "--iters=$iterations" -F
    [ "$gid_index" = - ] || set -- "$@" "--gid-index=$gid_index"
    case $program in *_bw) set -- "$@" --report_gbits ;; esac
    if [ "$task" -eq 1 ]; then
        "$program" "$@" > /dev/null 2> "$words" || broken
        return
    fi
    tries=0
    until "$program" "$@" "$server" 2> "$words"; do # nothing tells when the server listens
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! grep -q "^Couldn't connect" "$words"; then broken; fi
        sleep 0.1
    done
}

if [ "$task" -eq 0 ]; then
    echo '# nearmetal program: rdma 1'
    echo "$ports"
fi
for size; do
    perftest lat "$size"
    perftest bw "$size"
done
[ "$task" -eq 1 ] || echo '# nearmetal complete'
