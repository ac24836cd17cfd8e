#!/bin/sh
# One task a node, as `srun -N2 -n2 sh tcp.sh SECONDS SIZE...` after `srun -N2 -n2 sh task.sh > tasks.out`: task 1 serves qperf,
# task 0 measures TCP latency and bandwidth to it for each message size and then ends the server.
set -eu
seconds=$1
shift
command -v qperf > /dev/null || { echo "tcp.sh: qperf is not installed on $(hostname): install the package qperf" >&2; exit 2; }
# shellcheck source=reframe_checks/src/task.sh
. ./task.sh
meet

if [ "$task" -eq 1 ]; then
    exec qperf --listen_port "$tcp_port"
fi
echo '# nearmetal program: tcp 1'
# --wait_server makes the client try until the server listens. Unified units and full precision, for the parser.
for size; do
    qperf --listen_port "$tcp_port" --wait_server 10 --time "$seconds" --unify_units --use_bits_per_sec --precision 6 --verbose_used \
        --msg_size "$size" "$server" tcp_lat tcp_bw
done
qperf --listen_port "$tcp_port" "$server" quit > /dev/null
echo '# nearmetal complete'
