#!/bin/sh
# HPCC's input for so many processes and so much memory, to stdout.
#   sh hpccinf.sh PROCESSES NODES MEGABYTES BLOCK
# MEGABYTES is a node's memory that HPL's matrix may take; 0: 60 % of what is available on this node.
set -eu
processes=$1 nodes=$2 megabytes=$3 block=$4
[ "$megabytes" -gt 0 ] || megabytes=$(awk '/^MemAvailable:/ {printf "%d", $2 / 1000 * 0.6}' /proc/meminfo)
awk -v processes="$processes" -v bytes="$nodes$(printf '\t')$megabytes" -v nb="$block" 'BEGIN {
    split(bytes, part, "\t")
    n = int(sqrt(part[1] * part[2] * 1e6 / 8) / nb) * nb
    if (n < nb) { print "hpccinf.sh: " part[2] " MB are too few for a block of " nb > "/dev/stderr"; exit 1 }
    for (p = int(sqrt(processes)); processes % p; p--);
    print "HPLinpack benchmark input file\nby Nearmetal\nHPL.out\n8 device out\n1 # of problem sizes (N)\n" n " Ns\n1 # of NBs"
    print nb " NBs\n0 PMAP\n1 # of process grids\n" p " Ps\n" processes / p " Qs\n16.0 threshold\n1 # of panel fact\n2 PFACTs"
    print "1 # of recursive stopping criterium\n4 NBMINs\n1 # of panels in recursion\n2 NDIVs\n1 # of recursive panel fact.\n1 RFACTs"
    print "1 # of broadcast\n1 BCASTs\n1 # of lookahead depth\n1 DEPTHs\n2 SWAP\n64 swapping threshold\n0 L1\n0 U\n1 Equilibration"
    print "8 memory alignment in double\n##### separator #####\n0 additional problem sizes for PTRANS\n0 values of N"
    print "0 additional blocking sizes for PTRANS\n0 values of NB"
}'
