#!/bin/sh
# Installs packages of Debian within an image, without what they merely recommend: sh debian.sh PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
# UCX can move the memory of AMD's GPUs, for which it brings a compiler of 240 MB; the plugin is left out with it.
for path in share/doc share/man share/locale share/info 'lib/*/libLLVM*' 'lib/*/libamd_comgr*' 'lib/*/libamdhip64*' \
    'lib/*/libz3*' 'lib/*/libhsa-runtime64*' 'lib/*/ucx/*rocm*' 'lib/jvm/*/jmods'; do
    echo "path-exclude=/usr/$path"
    echo "path-exclude=/usr/$path/*"
done > /etc/dpkg/dpkg.cfg.d/slim
apt-get update -qq
apt-get install --yes --no-install-recommends "$@"
