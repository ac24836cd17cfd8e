#!/bin/sh
# Several instances of a launch at once, each on nodes of its own. The job defines `instance` (one launch), and calls
#   instances COUNT NODES
# Each instance runs in a directory of its own, with links to the job's files. In it $nodes_NODES are the names of its nodes.
# Each output comes whole, after a line
#   # nearmetal instance: number=1 of=2 nodes=b

instances() ( # a subshell, since repeats.sh has variables of the same names
    of=$1 each=$2 jobs='' number=0 failed=0
    names=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || return 1
    rm -rf instance.[0-9]*
    while [ "$number" -lt "$of" ]; do
        own=$(echo "$names" | sed -n "$((number * each + 1)),$(((number + 1) * each))p" | paste -sd , -)
        mkdir "instance.$number"
        (
            set -e
            cd "instance.$number"
            for one in ../*; do
                case ${one#../} in instance.[0-9]*) ;; *) ln -s "$one" . ;; esac
            done
            eval "nodes_$each=\$own"
            echo "# nearmetal instance: number=$number of=$of nodes=$own"
            instance
        ) > "instance.$number.output" &
        jobs="$jobs $!"
        number=$((number + 1))
    done
    for job in $jobs; do wait "$job" || failed=1; done
    cat instance.[0-9]*.output
    return "$failed"
)
