#!/bin/sh
# Prints the digest of our programs' sources: SHA-256 over names and contents of what install.sh builds, and by what.
#   sh digest.sh [DIRECTORY PATH...]
# With a directory, the digest is of the sources there, in these paths: so recipes and locks have that of mpj-native.
set -eu
cd "${1:-$(dirname "$0")}"
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- .
find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.java' -o -name jvm.sh -o -name install.sh -o -name build.sh \
    -o -name programs.txt \) | LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64
