#!/bin/sh
# Which task of a launch this is, whatever launched it. Sourced, it sets `task`, its number; it is empty where no launcher gave one.
#   sh task.sh > tasks.out      on all tasks: each one's `# nearmetal task: NUMBER HOST PORT`, for `meet`
# Launchers name the number differently. In the order of the lines: Open MPI; PRRTE's prun; MPICH and Intel MPI; MVAPICH2; Cray
# PALS and ALPS; Flux; JSM of LSF; Slurm. Slurm is the last, since the daemons of the others are tasks of its own.
case ${PMIX_NAMESPACE:-} in slurm.*) started_by_prte= ;; *) started_by_prte=${PMIX_RANK:-} ;; esac
for task in "${OMPI_COMM_WORLD_RANK:-}" "$started_by_prte" "${PMI_RANK:-}" "${MV2_COMM_WORLD_RANK:-}" \
    "${PALS_RANKID:-}" "${ALPS_APP_PE:-}" "${FLUX_TASK_RANK:-}" "${JSM_NAMESPACE_RANK:-}" "${SLURM_PROCID:-}"; do
    [ -z "$task" ] || break
done

not_met() { # WORDS...
    echo "${0##*/}: $*" >&2
    exit 2
}

meet() { # for two tasks, one a node unless `within` is set: sets `server` and `tcp_port`, the host of task 1 and a port of its choice
    [ -n "$task" ] ||
        not_met "$(uname -n) has no variable with this task's number, such as PMI_RANK: correct \`launcher\` in the system's file," \
            "or add what yours sets to task.sh"
    mark='# nearmetal task:' # a prolog may print other lines
    server=$(sed -n "s/^$mark 1 \([^ ]*\) .*/\1/p" tasks.out)
    # shellcheck disable=SC2034 # for who sources this
    tcp_port=$(sed -n "s/^$mark 1 [^ ]* //p" tasks.out)
    numbers=$(sed -n "s/^$mark \([^ ]*\) .*/\1/p" tasks.out | sort -n | paste -s -d , -)
    [ "$numbers" = 0,1 ] || not_met "the launcher started the tasks '$numbers' instead of 0,1: correct \`launcher\` in the system's file"
    [ "${within:-}" ] || ! grep -q "^$mark 0 $server " tasks.out ||
        not_met "both tasks are on $server: have the launcher start one on each node, as mpirun --map-by ppr:1:node does"
}

case ${0##*/} in
    task.sh)
        # The node's name in Slurm is the one that others reach it by. Other launchers than srun may pass on that of another node.
        host=$(uname -n)
        [ "${SLURM_PROCID:-}" != "$task" ] || host=${SLURMD_NODENAME:-$host}
        # Jobs that share a node have other ports. One without a number takes that of its process.
        job=${SLURM_JOB_ID:-${PBS_JOBID:-${LSB_JOBID:-}}}
        job=${job%%[!0-9]*}
        echo "# nearmetal task: $task $host $((20000 + ${job:-$$} % 10000))" ;;
esac
