#!/bin/sh
# customize.sh ROOT WHEELS LOCK: the last step of building the node image. Installs ReFrame and the
# packages of `nearmetal` in a virtual environment, and makes modules for the MPI libraries.
set -eu
root=$1 wheels=$2 lock=$3

mkdir -p "$root/tmp/wheels"
cp "$wheels"/*.whl "$lock" "$root/tmp/wheels/"
chroot "$root" python3 -m venv /opt/nearmetal
# The host has downloaded and verified the wheels, so no package index is needed here. With --isolated
# pip ignores the host's configuration.
chroot "$root" /opt/nearmetal/bin/pip --isolated install --quiet --no-index --no-deps --no-compile --require-hashes \
    --find-links /tmp/wheels --requirement "/tmp/wheels/$(basename "$lock")"
rm -r "$root/tmp/wheels"
# The command `nearmetal` runs the package of the checkout, which enter.sh links into this Python.
printf '#!/opt/nearmetal/bin/python\nimport sys\nfrom nearmetal.__main__ import main\nsys.exit(main())\n' \
    > "$root/opt/nearmetal/bin/nearmetal"
chmod 755 "$root/opt/nearmetal/bin/nearmetal"

# Debian installs all MPI libraries together, with suffixed command names. A module has the plain names.
for mpi in openmpi mpich; do
    mkdir -p "$root/opt/modules/$mpi/bin" "$root/usr/share/modules/modulefiles"
    for tool in mpicc mpicxx mpifort mpirun mpiexec; do
        ln -s "/usr/bin/$tool.$mpi" "$root/opt/modules/$mpi/bin/$tool"
    done
    other=$([ "$mpi" = openmpi ] && echo mpich || echo openmpi)
    printf '#%%Module1.0\nmodule-whatis "%s from Debian"\nconflict %s\nprepend-path PATH /opt/modules/%s/bin\n' \
        "$mpi" "$other" "$mpi" > "$root/usr/share/modules/modulefiles/$mpi"
done
# MPICH's mpirun starts its proxy from the directory in which PATH has mpirun, and hangs where it is missing.
ln -s /usr/bin/hydra_pmi_proxy "$root/opt/modules/mpich/bin/hydra_pmi_proxy"
printf '#%%Module1.0\nmodule-whatis "MPJ Express from Debian"\nsetenv MPJ_HOME /usr/share/mpj\n' \
    > "$root/usr/share/modules/modulefiles/mpj"
# `module avail` lists only the modules of the lab.
(cd "$root/usr/share/modules/modulefiles" && rm -f dot module-git module-info modules null use.own)
# Modules for jlink, 340 MB. Neither java nor javac reads them.
rm -rf "$root"/usr/lib/jvm/*/jmods
# Each lab makes these for its nodes.
rm -f "$root/etc/hostname" "$root/etc/munge/munge.key"
# The command `module` is also available in batch scripts.
sed -i 's/^#module config set_shell_startup 1/module config set_shell_startup 1/' "$root/etc/environment-modules/initrc"
