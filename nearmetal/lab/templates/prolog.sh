#!/bin/sh
# Slurm's Prolog, which root runs on each node before a job: keeps the processors from sleeping while
# the job runs, as clusters for MPI are set. Waking one takes up to 30 us on a virtual machine, eight
# times a message's latency, and differs from repeat to repeat. The job's epilog ends it.
#   prolog.sh      as Slurm calls it (SLURM_JOB_ID)
#   prolog.sh end  let them sleep again, unless another job keeps them awake
# Linux keeps them awake as long as a process holds this device open with 0 in it (PM QoS). The lab's
# virtual machines have kernels of their own, whose waking processors would take this host's time.
# Each job has such a process: the epilog of one may run after the prolog of the next.
# Slurm drains the node of a prolog that fails, so this one always succeeds.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
device=/dev/cpu_dma_latency holder=/run/nearmetal-awake.${SLURM_JOB_ID:-none}
if [ -r "$holder" ]; then
    read -r process < "$holder"
    # After a crash the number may be another process's.
    [ "$(readlink "/proc/$process/fd/3")" != "$device" ] || kill "$process"
    rm -f "$holder"
fi
[ "${1:-}" != end ] && [ -f /run/entered ] && [ -w "$device" ] || exit 0
(
    exec 3> "$device"
    printf '\0\0\0\0' >&3
    # shellcheck disable=SC2016 # of the inner shell
    setsid sh -c 'echo $$ > "$0" && exec sleep infinity' "$holder" < /dev/null > /dev/null 2>&1 &
)
# Slurm kills the process group of a prolog that has ended. The holder left it before it wrote.
tries=100
until [ -s "$holder" ] || [ $tries -eq 0 ]; do
    tries=$((tries - 1))
    sleep 0.01
done
exit 0
