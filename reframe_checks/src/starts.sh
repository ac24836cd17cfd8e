#!/bin/sh
# Whether this node starts a program: prints `# nearmetal started NODE`, or `# nearmetal refused NODE WHY`.
#   srun --ntasks-per-node=1 sh starts.sh COMMAND [ARGUMENT...]
# The command must end with 0. A library that the loader calls `not found` in its output, or one that is too old, is a fault, too.
node=${SLURMD_NODENAME:-$(uname -n)}
status=0
said=$("$@" 2>&1) || status=$?
case $said in
    *"=> not found"* | *" not found (required by "*)
        said=$(printf '%s\n' "$said" | grep -e '=> not found' -e ' not found (required by ') status=1 ;;
esac
if [ "$status" = 0 ]; then
    echo "# nearmetal started $node"
else
    echo "# nearmetal refused $node $(printf '%s\n' "${said:-its exit code is $status}" | tail -n 1 | tr -s '\t ' ' ')"
fi
