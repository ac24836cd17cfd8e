#!/bin/sh
# Slurm's Epilog: ends processes that a job's user left on this node, and what prolog.sh began. Root runs it after each job.
#   epilog.sh           as Slurm calls it (SLURM_JOB_UID, SLURM_JOB_ID)
#   epilog.sh end UID   the same for this user, without Slurm
#   epilog.sh list UID  list these processes and end none
# While another job runs on the node, nothing is ended, since its processes cannot be told apart. That
# job's epilog then ends them all.
# Two kinds of processes are spared. Those of a running job are children of its slurmstepd. Those of a
# person come from outside the node (`lab exec --node`), so they do not descend from its init, or
# they are children of sshd.
# Slurm drains the node of an epilog that fails, so this one always succeeds.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
action=${1:-end} uid=${2:-${SLURM_JOB_UID:-}}
[ -n "$uid" ] && [ "$uid" -ne 0 ] || exit 0

awake=/run/awake.${SLURM_JOB_ID:-none}
[ ! -e "$awake" ] || { kill "$(cat "$awake")"; rm "$awake"; }

other_job() { # by its slurmstepd, which is root's: a user can give a process any name
    pgrep -U 0 -a -x slurmstepd | grep -v "\[${SLURM_JOB_ID:-none}\." | grep -q '\[[0-9]'
}

left_over() { # lines `PID COMMAND`
    ps -e -o pid= -o ppid= -o ruid= -o stat= -o comm= | awk -v uid="$uid" '
        function spared(pid) { return owner[pid] == 0 && name[pid] ~ /^(sshd|slurmstepd)/ }
        { parent[$1] = $2; owner[$1] = $3; state[$1] = $4; name[$1] = $5 }
        END {
            for (pid in parent) {
                if (owner[pid] != uid || state[pid] ~ /^Z/) continue
                for (top = pid; top > 1 && !spared(top); top = parent[top]) continue
                if (top == 1) print pid, name[pid]
            }
        }'
}

other_job && exit 0
if [ "$action" = list ]; then
    left_over | sort -k 2 | awk '{ printf "%s%s (process %s)", between, $2, $1; between = ", " }'
    exit 0
fi
tries=50
while ! other_job && left=$(left_over) && [ -n "$left" ] && [ $tries -gt 0 ]; do
    # shellcheck disable=SC2046 # a list of processes
    kill -KILL $(echo "$left" | cut -d ' ' -f 1) 2> /dev/null
    tries=$((tries - 1))
    sleep 0.02
done
# Shared memory of killed processes would fill the node's memory.
find /dev/shm -xdev -mindepth 1 -user "$uid" -delete 2> /dev/null
exit 0
