#!/bin/sh
# Installs an environment of spack-env, as its lock has it, into /opt/software and links it into /opt/nearmetal: sh spack.sh NAME
set -eu
name=$1
sh /stages/debian.sh ca-certificates git gcc g++ gfortran make patch python3 file bzip2 xz-utils zstd unzip gnupg
version=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["spack"]["version"])' "/spack-env/$name/spack.lock")
git clone --quiet --depth 1 --branch "v$version" https://github.com/spack/spack.git /opt/spack
# The recipe of our programs takes them from the checkout that it stands in.
mkdir -p /checkout/reframe_checks
ln -s /src /checkout/reframe_checks/src
ln -s /spack-env /checkout/spack-env
export PATH=/opt/spack/bin:$PATH SPACK_DISABLE_LOCAL_CONFIG=1
spack config --scope site add config:install_tree:root:/opt/software
spack -e "/checkout/spack-env/$name" install --fail-fast --only-concrete
mkdir -p /opt/nearmetal/share
spack -e "/checkout/spack-env/$name" view --verbose symlink --ignore-conflicts /opt/nearmetal "nearmetal-benchmarks"
sha256sum "/spack-env/$name/spack.lock" | cut -c1-64 > /opt/nearmetal/share/spack.lock.sha256
# What the list of contents (finish.sh) says of Spack's packages.
spack -e "/checkout/spack-env/$name" find --no-groups --format '{name} {version} {hash}' > /opt/nearmetal/share/spack.packages
