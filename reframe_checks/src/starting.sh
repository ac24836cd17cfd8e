#!/bin/sh
# Which nodes of a job start a program: a sweep leaves out the others, names them and goes on. The job calls
#   starting LEAST COMMAND [ARGUMENT...]
# It sets $nodes and $leave_out (srun's options) for all further steps. The file `refused` has a line `NODE WHY` for each node that
# did not start the command. The job ends here where fewer than LEAST nodes are left.

starting() {
    least=$1
    shift
    scontrol show hostnames "$SLURM_JOB_NODELIST" > refused.hosts
    : > refused
    leave_out=
    for _ in 1 2 3; do
        nodes=$(($(wc -l < refused.hosts) - $(wc -l < refused)))
        # A node that ends with an error must not end the others. One that hangs does not end by itself.
        # shellcheck disable=SC2086 # no word, or one
        srun --mpi=none --overlap --label --kill-on-bad-exit=0 --wait=60 --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 \
            $leave_out sh starts.sh "$@" > starts.out 2> starts.err || true
        awk -f starting.awk part=hosts refused.hosts part=known refused part=out starts.out part=err starts.err > refused.next
        last=$(wc -l < refused)
        # A step that cannot start on one node ends on all: silence says nothing of the others.
        again=$(grep -c 'failed on node' starts.err || true)
        mv refused.next refused
        leave_out=$(awk '{ names = names (NR > 1 ? "," : "") $1 } END { if (NR) print "--exclude=" names }' refused)
        if [ "$again" = 0 ] || [ "$(wc -l < refused)" = "$last" ]; then break; fi
    done
    all=$(wc -l < refused.hosts)
    nodes=$((all - $(wc -l < refused)))
    if [ "$nodes" -lt "$least" ]; then
        cat starts.err >&2
        echo "starting.sh: $nodes of $all nodes start the program, but the check needs $least: $(head -n 3 refused | tr '\n' ';')" >&2
        exit 1
    fi
    if [ -n "$leave_out" ]; then leave_out="--nodes=$nodes $leave_out"; fi
}
