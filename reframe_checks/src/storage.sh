#!/bin/sh
# fio in a directory of this node: `sh storage.sh DIRECTORY MEGABYTES SECONDS`. It works in a directory of its own below that
# one, which it removes, and refuses a directory without the room for it or without direct I/O: the page cache would answer.
set -eu
directory=$1 megabytes=$2 seconds=$3
fail() {
    echo "storage.sh: $*" >&2
    exit 2
}
command -v fio > /dev/null || fail "fio is not installed on $(hostname): install the package fio"
[ -d "$directory" ] && [ -w "$directory" ] || fail "$directory on $(hostname) is no directory that $(id -un) may write:" \
    "correct the key storage_* in the system's file, or make the directory"
type=$(stat -f -c %T "$directory")
case $type in
    tmpfs | ramfs) fail "$directory on $(hostname) is memory ($type), no storage: name another directory" ;;
esac
free=$(df -Pk "$directory" | awk 'NR == 2 { print int($4 / 1024) }')
[ "$free" -ge $((2 * megabytes)) ] || fail "$directory on $(hostname) has $free MB left, and twice $megabytes MB are wanted:" \
    "make room, or set storage_megabytes"
work=$(mktemp -d "$directory/nearmetal-storage.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' HUP INT TERM
dd if=/dev/zero of="$work/direct" bs=1M count=1 oflag=direct 2> /dev/null || fail "the file system of $directory on" \
    "$(hostname) ($type) has no direct I/O, so that its memory would be measured: name another directory"
rm "$work/direct"

job() { # NAME OPTION...
    name=$1
    shift
    echo "--name=$name --stonewall $*"
}
echo '# nearmetal program: storage 1'
echo "# nearmetal file_system: $type from $(df -P "$directory" | awk 'NR == 2 { print $1 }')"
echo "# nearmetal method: megabytes=$megabytes seconds=$seconds"
# The first job fills the file, so that the others find its blocks in place.
# shellcheck disable=SC2046 # words
fio --output-format=json --directory="$work" --filename=data --size="${megabytes}M" --direct=1 --ioengine=libaio \
    --invalidate=1 --norandommap --randrepeat=1 --group_reporting \
    $(job write_bandwidth --rw=write --bs=1M --iodepth=8 --end_fsync=1) --runtime=$((30 * seconds)) --time_based=0 \
    $(job read_bandwidth --rw=read --bs=1M --iodepth=8) --time_based=1 --runtime="$seconds" \
    $(job read_latency --rw=randread --bs=4k --iodepth=1) --time_based=1 --runtime="$seconds" \
    $(job write_latency --rw=randwrite --bs=4k --iodepth=1) --time_based=1 --runtime="$seconds" \
    $(job read_rate --rw=randread --bs=4k --iodepth=32) --time_based=1 --runtime="$seconds" \
    $(job write_rate --rw=randwrite --bs=4k --iodepth=32) --time_based=1 --runtime="$seconds"
echo '# nearmetal complete'
