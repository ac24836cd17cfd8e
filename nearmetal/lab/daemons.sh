#!/bin/sh
# The daemons of one lab node: `daemons.sh ROLE ACTION USER UID GID CHECKOUT`, with ROLE login or node.
# ACTION start  starts each daemon that does not answer; one that hangs is killed first. Safe to repeat.
# ACTION look   changes nothing and writes one line for each fault of this node.
set -eu
role=$1 action=$2 user=$3 uid=$4 gid=$5 checkout=$6
# A daemon that gives no answer for so many seconds hangs; on a busy host one that is well takes some of them.
patience=20

running() { pgrep -x "$1" > /dev/null; }
stopped() { # DAEMON: by a signal
    case $(ps -o stat= -C "$1") in T*) ;; *) false ;; esac
}
within() { timeout --kill-after=1 "$patience" "$@" > /dev/null 2>&1; }
# until_ready SECONDS WHAT COMMAND...: nothing here takes long; what does, has failed.
until_ready() {
    tries=$(($1 * 20)) what=$2
    shift 2
    while ! "$@" > /dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "$(hostname): $what did not come up; its log is below" >&2; tail -n 20 /var/log/slurm/*.log >&2; exit 1; }
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

end() { # DAEMON: also one that is stopped or hangs
    running "$1" || return 0
    pkill -KILL -x "$1" || :
    until_ready 10 "the end of $1" sh -c "! pgrep -x $1"
}

registered() { # whether slurmdbd knows where slurmctld is; without that it keeps no job
    [ -n "$(sacctmgr -nP show cluster format=controlhost)" ]
}

full() { # a line for each file system with less than 1 MiB free; those of all nodes are named by the login node
    all='/home /scratch'
    [ "$role" = login ] || all=
    # shellcheck disable=SC2086 # a list of words is meant
    df -kP / /tmp /dev/shm $all 2> /dev/null |
        awk 'NR > 1 && $4 < 1024 { print "the file system of " $6 " is full: delete files there" }'
}

fault() { echo "$1"; well=no; }

look() {
    daemons='munged slurmd'
    [ "$role" = node ] || daemons='munged mariadbd slurmdbd slurmctld'
    well=yes
    for daemon in $daemons; do
        if ! running "$daemon"; then
            fault "$daemon is gone"
        elif stopped "$daemon"; then
            fault "$daemon is stopped"
        # Each needs the one before it, and would keep us waiting without.
        elif [ "$well" = yes ] && ! answers "$daemon"; then
            fault "$daemon does not answer"
        fi
    done
    if [ "$role" = login ] && [ "$well" = yes ]; then
        registered || fault "slurmdbd does not know slurmctld, and keeps no job"
        [ -n "$(sacctmgr -nP show user "$user" format=user)" ] || fault "slurmdbd does not know the user $user, whose jobs are refused"
    fi
    full
    if [ "$role" = node ]; then
        left=$(sh /etc/slurm/epilog.sh look "$uid")
        [ -z "$left" ] || echo "left-over processes of $user: $left"
    fi
}

if [ "$action" = look ]; then
    look
    exit 0
fi

# An interrupted `lab-up` may leave another of these at work.
exec 9> /run/daemons.lock
flock 9

getent group "$gid" > /dev/null || groupadd --gid "$gid" "$user"
getent passwd "$user" > /dev/null || useradd --non-unique --uid "$uid" --gid "$gid" --no-create-home --home-dir "/home/$user" --shell /bin/bash "$user"
install -d -m 755 -o munge -g munge /run/munge
install -d -m 755 -o slurm -g slurm /run/slurm /var/log/slurm /var/lib/slurm /var/lib/slurm/slurmctld
# The checkout may belong to somebody else than the lab's user; git then wants to be told that this is meant.
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
    # Without its tables slurmdbd gives an empty answer, and makes them only when it starts.
    if ! answers slurmdbd; then
        end slurmdbd
        runuser -u slurm -- slurmdbd 9>&-
        until_ready 20 slurmdbd sacctmgr -n show cluster
    fi
    if [ -z "$(sacctmgr -nP show user "$user" format=user)" ]; then
        cluster=$(sed -n 's/^ClusterName=//p' /etc/slurm/slurm.conf)
        [ -n "$(sacctmgr -nP show cluster "$cluster" format=cluster)" ] || sacctmgr -iQ add cluster "$cluster"
        # All nodes share this host's cores: one job at a time, or they measure each other. A heterogeneous job over two
        # partitions counts as two: QOS pair lets it in, and the account's limit keeps it and any other apart. Two different
        # limits, since of one that both have, Slurm asks only the QOS.
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
    # What an earlier job left over; the epilog does so after each job.
    sh /etc/slurm/epilog.sh end "$uid"
fi
