#!/bin/bash
# Installs environments of spack-env by their locks, on the head node, for all nodes:
#     site-config/aws/spack.sh [ENVIRONMENT...]
# SPACK_DIR    where Spack and what it installs go; all nodes have to mount it (default: /shared/spack)
# SPACK_CACHE  a build cache that you trust, as URL or directory: your own (make spack-cache) or a public one.
#              Its binaries are not signed. Without it all packages are compiled, which takes hours
# PYTHON       the Python that has Nearmetal (default: that of .venv)
# The committed locks are Debian 13's. On another system this first writes locks for that system.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
directory=${SPACK_DIR:-/shared/spack} python=${PYTHON:-$here/.venv/bin/python}
[ $# -gt 0 ] || set -- openmpi mpich mpj-native fastmpj apps

case $(uname -m) in
    x86_64) target=x86_64_v3 ;;
    *) target=armv8.2a ;;
esac
for name; do
    [ -d "$here/spack-env/$name/locks" ] || {
        echo "spack.sh: spack-env/$name has no locks. Fix: give names of spack-env" >&2; exit 1; }
done

committed=("$here/spack-env/$1/locks/"*.lock)
version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["spack"]["version"])' "${committed[0]}")
[ -x "$directory/bin/spack" ] ||
    git clone --quiet --depth 1 --branch "v$version" https://github.com/spack/spack.git "$directory"
spack=$directory/bin/spack

lock=$("$spack" arch --operating-system)-$target.lock
if [ ! -e "$here/spack-env/$1/locks/$lock" ]; then
    echo "spack.sh: there is no lock $lock. Writing it into $here/spack-env/*/locks"
    (cd "$here" && "$python" -m nearmetal.locks.spack --write --spack "$spack")
fi
for name; do
    cp "$here/spack-env/$name/locks/$lock" "$here/spack-env/$name/spack.lock"
done

if [ -n "${SPACK_CACHE:-}" ]; then
    "$spack" mirror remove --scope site nearmetal > /dev/null 2>&1 || true  # of a run before
    "$spack" mirror add --scope site --unsigned nearmetal "$SPACK_CACHE"
fi
for name; do
    if [ -n "${SPACK_CACHE:-}" ]; then
        # Without what only building needs, which no cache has: Spack would compile that first.
        "$spack" -e "$here/spack-env/$name" install --only-concrete --cache-only ||
            echo "spack.sh: $SPACK_CACHE has not all packages of $name. Spack builds the others"
    fi
    "$spack" -e "$here/spack-env/$name" install --only-concrete --fail-fast
done
echo "spack.sh: installed $*. Before reframe: . $directory/share/spack/setup-env.sh"
