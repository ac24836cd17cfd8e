#!/bin/sh
# daemons.sh ROLE ACTION USER UID GID CHECKOUT: the daemons of one lab node. ROLE is login or node.
# ACTION start  kills each daemon that hangs, and starts each that does not answer. Safe to repeat.
# ACTION check  changes nothing and prints one line for each fault of this node.
set -eu
role=$1 action=$2 user=$3 uid=$4 gid=$5 checkout=$6
# A daemon that does not answer within so many seconds hangs. On a busy host an answer takes seconds.
patience=20

# Those of the daemons: a process of the lab's user may have a daemon's name.
owners=root,munge,mysql,slurm
# Debian's Slurm has other names (slurmd-wlm) after `scontrol reconfigure`.
running() { pgrep -U $owners -x "$1(-wlm)?" > /dev/null; }
ended() { ! running "$1"; }
stopped() { pgrep -U $owners --runstates T -x "$1(-wlm)?" > /dev/null; } # by a signal
within() { timeout --kill-after=1 "$patience" "$@" > /dev/null 2>&1; }
until_ready() { # SECONDS NAME COMMAND...: repeat the command until it succeeds; fail after SECONDS
    tries=$(($1 * 20)) what=$2
    shift 2
    while ! "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        if [ $tries -eq 0 ]; then
            echo "$(hostname): $what did not come up; the logs are below" >&2
            tail -n 20 /var/log/slurm/*.log >&2
            exit 1
        fi
        sleep 0.05
    done
}

answers() { # DAEMON
    running "$1" && ! stopped "$1" || return 1
    # shellcheck disable=SC2016 # the inner shell expands what is quoted
    case $1 in
        munged) within sh -c 'munge --no-input | unmunge' ;;
        mariadbd) within sh -c '[ "$(mariadb --batch --skip-column-names -e "SELECT @@read_only")" = 0 ]' ;;
        slurmdbd) within sh -c '[ -n "$(sacctmgr -nP show cluster format=cluster)" ]' ;;
        slurmctld) within sh -c 'scontrol ping | grep -q "is UP"' ;;
        slurmd) within scontrol show slurmd ;;
    esac
}

end() { # DAEMON: kill it, even if it is stopped or hangs
    running "$1" || return 0
    pkill -KILL -U $owners -x "$1(-wlm)?" || :
    until_ready 10 "the end of $1" ended "$1"
}

registered() { # whether slurmdbd knows slurmctld's address, without which it records no job
    [ -n "$(sacctmgr -nP show cluster format=controlhost)" ]
}

fault() { echo "$1"; healthy=no; }

check() {
    daemons='munged slurmd'
    [ "$role" = node ] || daemons='munged mariadbd slurmdbd slurmctld'
    healthy=yes
    for daemon in $daemons; do
        if ! running "$daemon"; then
            fault "$daemon is gone"
        elif stopped "$daemon"; then
            fault "$daemon is stopped"
        # Each daemon needs the one before it, and without it would answer only at the timeout.
        elif [ "$healthy" = yes ] && ! answers "$daemon"; then
            fault "$daemon does not answer"
        fi
    done
    if [ "$role" = login ] && [ "$healthy" = yes ]; then
        registered || fault "slurmdbd does not know slurmctld, so it records no job"
        [ -n "$(sacctmgr -nP show user "$user" format=user)" ] ||
            fault "slurmdbd does not know the user $user, so Slurm refuses the user's jobs"
    fi
    if [ "$role" = login ]; then
        sh /etc/slurm/health.sh list /home /scratch # which all nodes share
    else
        sh /etc/slurm/health.sh list
        left=$(sh /etc/slurm/epilog.sh list "$uid")
        [ -z "$left" ] || echo "left-over processes of $user: $left"
    fi
}

if [ "$action" = check ]; then
    check
    exit 0
fi

# An interrupted `lab-up` may have left this script running.
exec 9> /run/daemons.lock
flock 9

getent group "$gid" > /dev/null || groupadd --gid "$gid" "$user"
getent passwd "$user" > /dev/null ||
    useradd --non-unique --uid "$uid" --gid "$gid" --no-create-home --home-dir "/home/$user" \
        --shell /bin/bash "$user"
install -d -m 755 -o munge -g munge /run/munge
install -d -m 755 -o slurm -g slurm /run/slurm /var/log/slurm /var/lib/slurm \
    /var/lib/slurm/slurmctld
# If the checkout belongs to another user, git refuses it unless it is listed as safe.
[ -e /etc/gitconfig ] || git config --system --add safe.directory "$checkout"

answers munged || { end munged; rm -f /run/munge/*; runuser -u munge -- munged 9>&-; }

if [ "$role" = login ]; then
    [ -d "/home/$user" ] || install -d -m 755 -o "$uid" -g "$gid" "/home/$user"
    if ! answers mariadbd; then
        end mariadbd
        install -d -m 755 -o mysql -g mysql /run/mysqld
        setsid mariadbd --user=mysql > /var/log/mysql-start.log 2>&1 < /dev/null 9>&- &
        until_ready 20 mariadbd mariadb -e "SELECT 1"
    fi
    mariadb -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db;
                CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
                GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
    # slurmdbd makes its tables only when it starts. Without them it gives an empty answer.
    if ! answers slurmdbd; then
        end slurmdbd
        runuser -u slurm -- slurmdbd 9>&-
        until_ready 20 slurmdbd sacctmgr -n show cluster
    fi
    if [ -z "$(sacctmgr -nP show user "$user" format=user)" ]; then
        cluster=$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)
        [ -n "$(sacctmgr -nP show cluster "$cluster" format=cluster)" ] ||
            sacctmgr -iQ add cluster "$cluster"
        # All nodes use this host's cores, so jobs run one at a time. A heterogeneous job over two
        # partitions counts as two jobs. QOS pair admits it, and the account's limit keeps it apart
        # from other jobs. The limits are of different kinds: if QOS and account had the same kind,
        # Slurm would apply only that of the QOS.
        sacctmgr -iQ add qos pair
        sacctmgr -iQ modify qos normal set MaxJobsPerUser=1
        sacctmgr -iQ add account lab cluster="$cluster" GrpJobs=2 QOS=normal,pair
        sacctmgr -iQ add user "$user" account=lab
    fi
    if ! answers slurmctld || ! registered; then
        end slurmctld
        runuser -u slurm -- slurmctld 9>&-
    fi
    until_ready 20 slurmctld sh -c 'scontrol ping | grep -q "is UP"'
    until_ready 20 "slurmctld's registration with slurmdbd" registered
else
    answers slurmd || { end slurmd; slurmd 9>&-; }
    # End processes that an earlier job left, as the epilog does after each job.
    sh /etc/slurm/epilog.sh end "$uid"
fi
