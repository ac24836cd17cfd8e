#!/bin/sh
# Where this task may run, as hwloc sees it: one line a task:
#   # nearmetal binding: host=<hostname> task=N cores=0,1 of=4 numa=0 of_numa=1
#   srun --cpu-bind=cores sh binding.sh
# Cores and NUMA nodes have hwloc's logical numbers; `of` are those that the node lets us use.
set -eu
# shellcheck source=reframe_checks/src/task.sh
. ./task.sh
allowed=$(hwloc-bind --get) || { echo "binding.sh: hwloc's commands are not on this node: install hwloc" >&2; exit 1; }
echo "# nearmetal binding: host=$(uname -n) task=${task:-0}" \
    "cores=$(hwloc-calc --quiet --intersect core "$allowed") of=$(hwloc-calc --quiet --number-of core all)" \
    "numa=$(hwloc-calc --quiet --intersect numanode "$allowed") of_numa=$(hwloc-calc --quiet --number-of numanode all)"
