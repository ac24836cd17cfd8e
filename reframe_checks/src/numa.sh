#!/bin/sh
# STREAM by NUMA node: one instance on every node at once with the node's own memory (`local`), one alone on the first node
# with its own (`alone`), and one there with the memory of the last node (`remote`, where there is another).
#   sh numa.sh PROGRAM NTIMES
# Each instance's output follows a line `# nearmetal instance: kind=local cpus=0 memory=0 nodes=2`.
set -eu
program=$1 ntimes=$2
command -v numactl > /dev/null || { echo "numa.sh: numactl is not on this node: install it" >&2; exit 1; }
# Nodes that have both: memory without processors (HBM, CXL) is no node of ours, nor are processors without memory.
nodes=$(numactl --hardware | awk '$1 == "node" && $3 == "cpus:" && NF > 3 {cpus[$2] = NF - 3}
    $1 == "node" && $3 == "size:" && $4 > 0 && $2 in cpus {print $2 ":" cpus[$2]}')
count=$(echo "$nodes" | wc -l) first=${nodes%%[!0-9:]*} last=${nodes##*[!0-9:]}
export OMP_PROC_BIND=spread OMP_PLACES=threads

instance() { # KIND NODE:CPUS MEMORY: its output, all at once, so that instances don't mix
    out=$(numactl --cpunodebind="${2%:*}" --membind="$3" "$program" --threads "${2#*:}" --ntimes "$ntimes")
    printf '%s\n' "# nearmetal instance: kind=$1 cpus=${2%:*} memory=$3 nodes=$count
$out" > "instance.$1.${2%:*}"
}

rm -f instance.*
jobs=''
for node in $nodes; do
    instance local "$node" "${node%:*}" &
    jobs="$jobs $!"
done
for job in $jobs; do wait "$job"; done
instance alone "$first" "${first%:*}"
[ "$first" = "$last" ] || instance remote "$first" "${last%:*}"
echo "# nearmetal numa: nodes=$count"
cat instance.local.* instance.alone.*
[ "$first" = "$last" ] || cat instance.remote.*
echo "# nearmetal numa: complete"
