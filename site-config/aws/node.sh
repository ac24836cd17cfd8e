#!/bin/bash
# Installs on a node of the cluster (cluster.yaml): MPICH, a JDK, MPJ Express, tools of the checks, and
# Apptainer. ParallelCluster's Ubuntu image already has Slurm with PMIx, environment modules, the EFA
# software and its Open MPI as module `openmpi`. ParallelCluster runs this script as root once on every
# node that starts. Its output is in /var/log/cloud-init-output.log.
set -euo pipefail
root=${NODE_ROOT:-}  # tests write elsewhere

export DEBIAN_FRONTEND=noninteractive
# A starting node also updates itself: wait for apt's lock.
apt=(apt-get --option DPkg::Lock::Timeout=300 --yes --no-install-recommends)
"${apt[@]}" update
"${apt[@]}" install software-properties-common
add-apt-repository --yes ppa:apptainer/ppa  # Apptainer's own archive; Ubuntu has no package
"${apt[@]}" install apptainer environment-modules gcc g++ gfortran make git python3-venv \
    gcc-14 g++-14 gfortran-14 \
    mpich libmpich-dev openjdk-25-jdk-headless libmpj-java \
    ethtool hwloc-nox numactl pkgconf qperf

# Ubuntu's MPICH has suffixed command names. The module has the plain names.
modules=$root/usr/share/modules/modulefiles bin=$root/opt/modules/mpich/bin
mkdir -p "$modules" "$bin"
for tool in mpicc mpicxx mpifort mpirun mpiexec; do
    path=$(command -v "$tool.mpich") || {
        echo "node.sh: $tool.mpich is missing. Fix: install the package that has it in this release of Ubuntu" >&2; exit 1; }
    ln -sf "$path" "$bin/$tool"
done
printf '#%%Module1.0\nmodule-whatis "MPICH from Ubuntu"\nconflict openmpi\nprepend-path PATH /opt/modules/mpich/bin\n' \
    > "$modules/mpich"
printf '#%%Module1.0\nmodule-whatis "MPJ Express from Ubuntu"\nsetenv MPJ_HOME /usr/share/mpj\n' > "$modules/mpj"
