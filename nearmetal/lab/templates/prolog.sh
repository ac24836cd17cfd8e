#!/bin/sh
# Slurm's Prolog: keeps the processors awake until the job's epilog, as clusters for MPI do. Root runs it before each job.
# Guests have kernels of their own, and would keep the host busy.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ -w /dev/cpu_dma_latency ] && [ ! -e /etc/nearmetal/guest ] || exit 0
# Linux lets no processor sleep while a process has 0 us in this device.
exec 3> /dev/cpu_dma_latency
printf '\0\0\0\0' >&3
# No job is longer than two hours (MaxTime in slurm.conf), should its epilog be lost.
# Slurm kills the prolog's process group at its end. So this waits until `sleep` has one of its own.
pid=$(setsid sh -c 'echo $$; exec sleep 2h > /dev/null 2>&1' < /dev/null &)
echo "$pid" > "/run/awake.$SLURM_JOB_ID"
