#!/bin/sh
# Stands in for each command of a cluster: prints the text below $CLUSTER that its arguments name.
# Jobs are noted in $CLUSTER_JOBS. The texts of modules go to stderr, as modules systems do it.

name=${0##*/}

show() { # FILE
    [ -e "$CLUSTER/$1.txt" ] || { echo "$name: error: $1 is not for you" >&2; exit 1; }
    cat "$CLUSTER/$1.txt"
    exit
}

case "$name $*" in
    'scontrol --oneliner show '*) show "scontrol_$3" ;;
    'scontrol --all --oneliner show partition') show scontrol_all_partition ;;
    'scontrol --all --oneliner show node') show scontrol_node ;;
    'scontrol show config') show scontrol_config ;;
    'sinfo '*) show sinfo ;;
    'sacctmgr '*) show sacctmgr_assoc ;;
    'srun --mpi=list') show srun_mpi ;;
    'srun '*)
        echo "$*" >> "$CLUSTER_JOBS"
        [ ! -e "$CLUSTER/pending.txt" ] || exec sleep 60
        [ ! -e "$CLUSTER/refused.txt" ] || { cat "$CLUSTER/refused.txt" >&2; exit 1; }
        [ -e "$CLUSTER/node.txt" ] || show node
        for word; do case $word in */inspect.sh) inspect=$word ;; esac; done
        printf 'cat "%s/node.txt"\n' "$CLUSTER" > "$CLUSTER_JOBS.sh"
        cat "$CLUSTER/before.txt" 2>/dev/null
        sh "$inspect" "$CLUSTER_JOBS.sh"
        cat "$CLUSTER/after.txt" 2>/dev/null
        exit 0 ;;
    'squeue '*) show pending ;;
    'modulecmd python -V') echo 'Modules Release 5.2.0 (2022-11-08)' >&2 ;;
    *' -t avail') show module_avail >&2 ;;
    *' -t spider') show module_spider >&2 ;;
    *' spider '*)
        # Lmod's own order of variables; it does not read LC_ALL.
        case ${LMOD_OVERRIDE_LANG:-${LANG:-en}} in
            de*) ( show "module_spider_$(echo "$3" | tr / _)" ) | sed 's/You will need.*/Sie müssen alle Module laden:/' >&2 ;;
            *) show "module_spider_$(echo "$3" | tr / _)" >&2 ;;
        esac ;;
    *' load '*)
        shift 2
        for module; do
            grep -qxF -e "$module" -e "$module(default)" "$CLUSTER"/module_*.txt ||
                { echo "ERROR: Unable to locate a modulefile for '$module'" >&2; exit 1; }
        done ;;
    *) echo "$name: error: unknown arguments $*" >&2; exit 1 ;;
esac
