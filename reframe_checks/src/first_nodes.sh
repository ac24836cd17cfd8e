#!/bin/sh
# Names of the job's first COUNT nodes, joined by commas, for srun's --nodelist: `sh first_nodes.sh COUNT [COMPONENT]`, where
# COMPONENT is a number in a heterogeneous job. Without it srun takes the nodes after those of the step before, and does so
# with --relative=0 as well (Slurm 24.11).
set -eu
count=$1 component=${2:-}
if [ -n "$component" ]; then
    eval "list=\${SLURM_JOB_NODELIST_HET_GROUP_$component:-}"
    job="component $component of job ${SLURM_JOB_ID:-}"
else
    list=${SLURM_JOB_NODELIST:-} job="job ${SLURM_JOB_ID:-}"
fi
names=
[ -z "$list" ] || names=$(scontrol show hostnames "$list" | head -n "$count")
found=$(echo "$names" | grep -c . || :)
if [ "$found" -ne "$count" ]; then
    echo "first_nodes.sh: $job has $found nodes ('$list') instead of $count or more: is this a job of Slurm, and is scontrol on" \
        "PATH?" >&2
    exit 2
fi
echo "$names" | paste -sd , -
