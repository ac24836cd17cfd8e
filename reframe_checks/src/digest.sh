#!/bin/sh
# Prints the digest of our programs' sources: SHA-256 over names and contents of what install.sh builds, and by what.
set -eu
cd "$(dirname "$0")"
find . -type f \( -name '*.c' -o -name '*.h' -o -name '*.java' -o -name jvm.sh -o -name install.sh \) |
    LC_ALL=C sort | xargs sha256sum | sha256sum | cut -c1-64
