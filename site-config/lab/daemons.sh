#!/bin/sh
# Starts, inside a lab node, whatever of its daemons is not running: `daemons.sh login|node USER UID GID CHECKOUT`.
# Safe to run again at any time; that is how `make lab-up` heals a node.
set -eu
role=$1 user=$2 uid=$3 gid=$4 checkout=$5

running() { pgrep -x "$1" > /dev/null; }
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

getent group "$gid" > /dev/null || groupadd --gid "$gid" "$user"
getent passwd "$user" > /dev/null || useradd --non-unique --uid "$uid" --gid "$gid" --no-create-home --home-dir "/home/$user" --shell /bin/bash "$user"
install -d -m 755 -o munge -g munge /run/munge
install -d -m 755 -o slurm -g slurm /run/slurm /var/log/slurm /var/lib/slurm /var/lib/slurm/slurmctld
# The checkout may belong to somebody else than the lab's user; git then wants to be told that this is meant.
[ -e /etc/gitconfig ] || git config --system --add safe.directory "$checkout"

running munged || { rm -f /run/munge/*; runuser -u munge -- munged; }

if [ "$role" = login ]; then
    [ -d "/home/$user" ] || install -d -m 755 -o "$uid" -g "$gid" "/home/$user"
    if ! running mariadbd; then
        install -d -m 755 -o mysql -g mysql /run/mysqld
        setsid mariadbd --user=mysql > /var/log/mysql-start.log 2>&1 < /dev/null &
        until_ready 20 mariadbd mariadb -e "SELECT 1"
        mariadb -e "CREATE DATABASE IF NOT EXISTS slurm_acct_db;
                    CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
                    GRANT ALL ON slurm_acct_db.* TO slurm@localhost;"
    fi
    running slurmdbd || runuser -u slurm -- slurmdbd
    until_ready 20 slurmdbd sacctmgr -n show cluster
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
    running slurmctld || runuser -u slurm -- slurmctld
    until_ready 20 slurmctld sh -c 'scontrol ping | grep -q "is UP"'
else
    running slurmd || slurmd
fi
