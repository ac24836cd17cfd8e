#!/bin/sh
# Slurm's HealthCheckProgram, which root runs every minute on each node that is idle: drains the node if
# jobs would fail on it, with the reason, and resumes a node that it drained once the node is well.
#   health.sh                      as Slurm calls it
#   health.sh list [DIRECTORY]...  print each fault, also of these directories' file systems; change nothing
PATH=/usr/sbin:/usr/bin:/sbin:/bin
drained=/run/nearmetal-drained

full() { # file systems with less than 1 MiB free
    df -kP / /tmp /dev/shm "$@" 2> /dev/null |
        awk 'NR > 1 && $4 < 1024 { print "the file system of " $6 " is full: delete files there" }'
}

if [ "${1:-}" = list ]; then
    shift
    full "$@"
    exit 0
fi
node=$(hostname)
node=${node%%.*}
faults=$(full | awk '{ printf "%s%s", between, $0; between = "; " }')
if [ -z "$faults" ] && [ ! -e "$drained" ]; then exit 0; fi
known=$(scontrol --oneliner show node "$node") || exit 0
case "$known" in
    *DRAIN*Reason=health:*) [ -n "$faults" ] || scontrol update nodename="$node" state=resume ;;
    *DRAIN*) ;; # somebody else's
    *) [ -z "$faults" ] || scontrol update nodename="$node" state=drain reason="health: $faults" ;;
esac
if [ -n "$faults" ]; then : > "$drained"; else rm -f "$drained"; fi
exit 0
