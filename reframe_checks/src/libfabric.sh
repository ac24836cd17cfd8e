#!/bin/sh
# A ping-pong of libfabric between two tasks, as `srun -N2 -n2 sh libfabric.sh PROGRAM PROVIDER ITERATIONS SIZE...` after
# `srun -N2 -n2 sh task.sh > tasks.out`: task 1 serves one client for each size, and task 0 measures. PROGRAM is fi_pingpong
# (libfabric) or fi_rdm_tagged_pingpong (fabtests). The provider shm has both tasks on one node. A size has ITERATIONS round
# trips, but no more than 40 MiB one way, and 10 at least.
set -eu
program=$1 provider=$2 iterations=$3
shift 3

fail() {
    echo "libfabric.sh: $*" >&2
    exit 2
}

command -v "$program" > /dev/null ||
    fail "$program is not on PATH on $(uname -n): install libfabric-bin, or fabtests for fi_rdm_tagged_pingpong"
# shellcheck source=reframe_checks/src/task.sh
. ./task.sh
# shellcheck disable=SC2034 # for task.sh
[ "$provider" != shm ] || within=1
meet
words=$(mktemp)
trap 'rm -f "$words"' EXIT

pingpong() { # SIZE [HOST]: the port is for the programs' arrangements, by TCP whatever the provider
    count=$((41943040 / $1))
    [ "$count" -le "$iterations" ] || count=$iterations
    [ "$count" -ge 10 ] || count=10
    set -- -p "$provider" -I "$count" -S "$@"
    case $program,$task in
        fi_pingpong,1) "$program" -e rdm -B "$tcp_port" "$@" ;;
        fi_pingpong,*) "$program" -e rdm -P "$tcp_port" "$@" ;;
        *) "$program" "-E=$tcp_port" "$@" ;;
    esac
}

if [ "$task" -eq 1 ]; then
    for size; do
        pingpong "$size" > "$words" 2>&1 || { cat "$words" >&2; fail "$program ended with an error on $(uname -n)"; }
    done
    exit
fi
echo '# nearmetal program: libfabric 1'
echo "# nearmetal method: program=$program provider=$provider iterations=$iterations"
for size; do
    tries=0
    until pingpong "$size" "$server" > "$words" 2>&1; do # nothing tells when the server listens
        tries=$((tries + 1))
        [ "$tries" -le 50 ] || { cat "$words" >&2; fail "$program reaches no server on $server by the provider $provider"; }
        sleep 0.1
    done
    echo "# nearmetal iterations: $size $count"
    cat "$words"
done
echo '# nearmetal complete'
