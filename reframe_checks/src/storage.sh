#!/bin/sh
# fio in a directory of this node: `sh storage.sh DIRECTORY MEGABYTES SECONDS`. It works in a directory of its own below that
# one, which it removes, and refuses a directory without the room for it or without direct I/O: the page cache would answer.
set -eu
directory=$1 megabytes=$2 seconds=$3
# shellcheck source=reframe_checks/src/directory.sh disable=SC1091
. ./directory.sh
command -v fio > /dev/null || fail "fio is not installed on $(hostname): install the package fio"
take_directory "$directory" $((2 * megabytes)) storage_megabytes
expect_direct_io

job() { # NAME OPTION...
    name=$1
    shift
    echo "--name=$name --stonewall $*"
}
echo '# nearmetal program: storage 1'
report_file_system
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
