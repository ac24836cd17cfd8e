#!/bin/bash
# Installs on a node of the cluster (cluster.yaml), by apt or dnf: compilers, MPICH, a JDK, MPJ Express, tools of the
# checks, and Apptainer. ParallelCluster's images already have Slurm with PMIx, environment modules, the EFA
# software and its Open MPI 5 as module `openmpi5`. ParallelCluster runs this script as root once on every
# node that starts. Its output is in /var/log/cloud-init-output.log.
#
# ParallelCluster ends a node whose script fails. So only what every check needs is an error here. All else that
# a distribution lacks is a line `node.sh: lacks ...`.
set -uo pipefail
root=${NODE_ROOT:-}  # tests write elsewhere

fail() { # WHAT FIX
    echo "node.sh: $1. Fix: $2" >&2
    exit 1
}

want() { # WHAT NEEDS PACKAGES...: install the first of these lists of packages that the distribution has
    local what=$1 needs=$2 packages
    shift 2
    for packages; do
        # shellcheck disable=SC2086 # a list of packages
        ! install $packages || return 0
    done
    echo "node.sh: lacks $what ($*), so $needs" >&2
    return 1
}

if command -v apt-get > /dev/null; then
    export DEBIAN_FRONTEND=noninteractive
    # A starting node also updates itself: wait for apt's lock.
    apt=(apt-get --option DPkg::Lock::Timeout=300 --yes --no-install-recommends)
    install() { "${apt[@]}" install "$@"; }
    "${apt[@]}" update || fail "apt-get update failed" "give the subnet of the nodes a NAT gateway, or a mirror of Ubuntu"
    modules=/usr/share/modules/modulefiles directory=/usr/bin suffix=.mpich libraries=
    tools='gcc g++ gfortran make git python3-venv environment-modules ethtool hwloc-nox numactl pkgconf'
    # Apptainer's own archive; Ubuntu has no package.
    want add-apt-repository "there is no archive of Apptainer" software-properties-common &&
        { add-apt-repository --yes ppa:apptainer/ppa || echo "node.sh: ppa:apptainer/ppa cannot be added" >&2; }
elif command -v dnf > /dev/null; then
    install() { dnf --assumeyes --setopt=install_weak_deps=False install "$@"; }
    modules=/usr/share/Modules/modulefiles directory=/usr/lib64/mpich/bin suffix=
    libraries='prepend-path LD_LIBRARY_PATH /usr/lib64/mpich/lib'
    tools='gcc gcc-c++ gcc-gfortran make git environment-modules ethtool hwloc numactl pkgconf-pkg-config'
    # shellcheck disable=SC1091 # of the node
    version=$(. "$root/etc/os-release" && echo "${VERSION_ID%%.*}")
    # Apptainer is in EPEL, or in what Amazon Linux has of it. Red Hat's own archive has no epel-release.
    want EPEL "there is no archive of Apptainer" epel-release spal-release \
        "https://dl.fedoraproject.org/pub/epel/epel-release-latest-$version.noarch.rpm"
    want "a Python for ReFrame" "write PYTHON=... of another one" python3.12 python3.11
else
    fail "there is neither apt-get nor dnf" "choose an Os of cluster.yaml that README.md names"
fi

# shellcheck disable=SC2086 # a list of packages
install $tools || fail "the package manager cannot install all of $tools" "see its lines above; correct the names here"
want "GCC 14" "environments *-spack do not build as locked" 'gcc-14 g++-14 gfortran-14' \
    'gcc-toolset-14-gcc gcc-toolset-14-gcc-c++ gcc-toolset-14-gcc-gfortran' 'gcc14 gcc14-c++ gcc14-gfortran'
want "a JDK from 22 on" "mpj-native does not run" openjdk-25-jdk-headless java-25-openjdk-devel java-25-amazon-corretto-devel
want qperf "the check tcp does not run" qperf
want Apptainer "environments *-sif do not run" apptainer

module() { # NAME LINES: a module file
    { mkdir -p "$root$modules" && printf '#%%Module1.0\n%s\n' "$2" > "$root$modules/$1"; } ||
        fail "the module $1 cannot be written to $root$modules" "make room on the root volume (cluster.yaml, RootVolume)"
}

if want MPICH "the environment mpich does not run" 'mpich libmpich-dev' 'mpich mpich-devel'; then
    # Ubuntu's commands have suffixes, Red Hat's a directory of their own. The module has the plain names.
    bin=/opt/modules/mpich/bin
    mkdir -p "$root$bin"
    for tool in mpicc mpicxx mpifort mpirun mpiexec; do
        path=$(PATH=$PATH:$root$directory command -v "$tool$suffix") ||
            fail "$tool$suffix is missing" "install the package that has it in this release"
        ln -sf "$path" "$root$bin/$tool"
    done
    module mpich "module-whatis \"MPICH of the distribution\"
conflict openmpi openmpi5
prepend-path PATH $bin
$libraries"
fi
if want "MPJ Express" "the environment mpj does not run" libmpj-java; then
    module mpj 'module-whatis "MPJ Express of the distribution"
setenv MPJ_HOME /usr/share/mpj'
fi
exit 0
