#!/bin/sh
# Copies $1 MB three times in memory, and prints the rates.
rate() {
    began=$(date +%s%N)
    dd if=/dev/zero of=/dev/null bs=1M count="$1" 2>/dev/null
    ended=$(date +%s%N)
    awk -v mb="$1" -v ns=$((ended - began)) 'BEGIN { printf "%.1f\n", mb / ns * 1e9 }'
}
echo "copy: $(rate "$1")"
echo "part: $(rate "$1")"
echo "part: $(rate $(($1 / 4)))"
echo 'done'
