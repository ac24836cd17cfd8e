#!/bin/sh
# A directory of this node for a script that measures storage, to be sourced:
#   take_directory DIRECTORY MEGABYTES SETTING   sets `work`, a directory of our own below it, which is removed at the end,
#                                        and `type`; refuses memory, and a directory without so much room: SETTING asks for less
#   expect_direct_io                     refuses a file system without direct I/O: the page cache would answer
#   report_file_system                   prints its type and device as a fact

fail() {
    echo "${0##*/}: $*" >&2
    exit 2
}

take_directory() {
    directory=$1
    [ -d "$directory" ] && [ -w "$directory" ] || fail "$directory on $(hostname) is no directory that $(id -un) may write:" \
        "correct the key storage_* in the system's file, or make the directory"
    type=$(stat -f -c %T "$directory")
    case $type in
        tmpfs | ramfs) fail "$directory on $(hostname) is memory ($type), no storage: name another directory" ;;
    esac
    free=$(df -Pk "$directory" | awk 'NR == 2 { print int($4 / 1024) }')
    [ "$free" -ge "$2" ] || fail "$directory on $(hostname) has $free MB left, and $2 MB are wanted:" \
        "make room, or set $3"
    work=$(mktemp -d "$directory/nearmetal-storage.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 143' HUP INT TERM
}

expect_direct_io() {
    dd if=/dev/zero of="$work/direct" bs=1M count=1 oflag=direct 2> /dev/null || fail "the file system of $directory on" \
        "$(hostname) ($type) has no direct I/O, so that its memory would be measured: name another directory"
    rm "$work/direct"
}

report_file_system() {
    echo "# nearmetal file_system: $type from $(df -P "$directory" | awk 'NR == 2 { print $1 }')"
}
