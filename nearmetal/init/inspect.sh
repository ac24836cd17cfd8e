#!/bin/sh
# Prints what the scripts of the arguments print, each line behind a mark, then a line with their
# number. So other text on the output of a job, of a prolog or a banner, is told apart, and a lost
# line is noticed. Of several tasks the first prints.
#   sh inspect.sh SCRIPT...
# nearmetal/init/inspect.py reads what this prints.

[ "${SLURM_PROCID:-0}" = 0 ] || exit 0
lines=$(for script; do sh "$script" || exit; done) || exit
# The first line's end closes a line that others began.
printf '\n%s\n' "$lines" |
    awk 'NR == 1 { print; next } { print "@nearmetal-init " $0 } END { print "@nearmetal-init lines=" NR - 1 }'
