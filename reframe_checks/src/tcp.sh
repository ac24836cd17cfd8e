#!/bin/sh
# One task a node, as `srun -N2 -n2 tcp.sh SECONDS SIZE...`: task 1 serves qperf, task 0 measures TCP latency and
# bandwidth to it for each message size and then ends the server.
set -eu
seconds=$1
shift
command -v qperf > /dev/null || { echo "tcp.sh: qperf is not installed on $(hostname): install the package qperf" >&2; exit 2; }
# A port of this job's own, so that two jobs on a node cannot meet.
port=$((20000 + SLURM_JOB_ID % 10000))
server=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 2p)

if [ "$SLURM_PROCID" -eq 1 ]; then
    exec qperf --listen_port "$port"
fi
echo '# nearmetal program: tcp 1'
# --wait_server makes the client try until the server listens. Unified units and full precision, for the parser.
for size; do
    qperf --listen_port "$port" --wait_server 10 --time "$seconds" --unify_units --use_bits_per_sec --precision 6 --verbose_used \
        --msg_size "$size" "$server" tcp_lat tcp_bw
done
qperf --listen_port "$port" "$server" quit > /dev/null
echo '# nearmetal complete'
