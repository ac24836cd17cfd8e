#!/bin/sh
# Installs an environment of spack-env, as its lock has it, into /opt/software and links it into /opt/nearmetal: sh spack.sh NAME
set -eu
name=$1
sh /stages/debian.sh ca-certificates git gcc g++ gfortran make patch python3 file bzip2 xz-utils zstd unzip gnupg
case $(uname -m) in
    x86_64) target=x86_64_v3 ;;
    *) target=armv8.2a ;;
esac
cp "/spack-env/$name/locks/debian13-$target.lock" "/spack-env/$name/spack.lock"
version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["spack"]["version"])' "/spack-env/$name/spack.lock")
git clone --quiet --depth 1 --branch "v$version" https://github.com/spack/spack.git /opt/spack
export PATH="/opt/spack/bin:$PATH" SPACK_DISABLE_LOCAL_CONFIG=1
spack config --scope site add config:install_tree:root:/opt/software
here() { spack -e "/spack-env/$name" "$@"; }
here config add view:false
here install --fail-fast --only-concrete
here gc --yes-to-all  # what only building needed
mkdir -p /opt/nearmetal/share
# Of all that remains: a view of one package alone would ask for what built it, too.
# shellcheck disable=SC2046 # a list of packages
here view --dependencies false symlink --ignore-conflicts /opt/nearmetal $(here find --no-groups --format '/{hash}')
sha256sum "/spack-env/$name/spack.lock" | cut -c1-64 > /opt/nearmetal/share/spack.lock.sha256
# What the list of contents (finish.sh) says of Spack's packages.
here find --no-groups --format '{name} {version} {hash}' > /opt/nearmetal/share/spack.packages
