#!/bin/sh
# A parallel program in a directory of this node, which its other nodes see too:
#   sh parallel_io.sh DIRECTORY MEGABYTES SETTING direct|cached OPTION NAME COMMAND [ARGUMENT ...]
# COMMAND launches the program. It gets OPTION and the path of NAME in a directory of our own, which is removed at the end.
# MEGABYTES must be free, or SETTING be less. `direct`: the file system must have direct I/O.
set -eu
directory=$1 megabytes=$2 setting=$3 access=$4 option=$5 name=$6
shift 6
# shellcheck source=reframe_checks/src/directory.sh disable=SC1091
. ./directory.sh
take_directory "$directory" "$megabytes" "$setting"
[ "$access" = cached ] || expect_direct_io
echo '# nearmetal program: parallel_io 1'
report_file_system
"$@" "$option" "$work/$name"
echo '# nearmetal complete'
