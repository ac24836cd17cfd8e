#!/bin/sh
# Last step of the node image's build, `customize.sh ROOT WHEELS LOCK`: ReFrame and what
# `nearmetal` needs in a virtual environment of its own, and the MPI libraries as modules, as a site has them.
set -eu
root=$1 wheels=$2 lock=$3

mkdir -p "$root/tmp/wheels"
cp "$wheels"/*.whl "$lock" "$root/tmp/wheels/"
chroot "$root" python3 -m venv /opt/nearmetal
# The wheels were fetched and verified on the host: the image's build needs no package index of its own.
# Isolated: nor does the host's configuration of pip hold inside.
chroot "$root" /opt/nearmetal/bin/pip --isolated install --quiet --no-index --no-deps --no-compile --require-hashes \
    --find-links /tmp/wheels --requirement "/tmp/wheels/$(basename "$lock")"
rm -r "$root/tmp/wheels"
# The command of the checkout that a lab runs from: enter.sh names it to this Python as the package `nearmetal`.
printf '#!/opt/nearmetal/bin/python\nimport sys\nfrom nearmetal.__main__ import main\nsys.exit(main())\n' \
    > "$root/opt/nearmetal/bin/nearmetal"
chmod 755 "$root/opt/nearmetal/bin/nearmetal"

# Debian installs every MPI side by side under suffixed names; a module gives them their plain ones.
for mpi in openmpi mpich; do
    mkdir -p "$root/opt/modules/$mpi/bin" "$root/usr/share/modules/modulefiles"
    for tool in mpicc mpicxx mpifort mpirun mpiexec; do
        ln -s "/usr/bin/$tool.$mpi" "$root/opt/modules/$mpi/bin/$tool"
    done
    other=$([ "$mpi" = openmpi ] && echo mpich || echo openmpi)
    printf '#%%Module1.0\nmodule-whatis "%s from Debian"\nconflict %s\nprepend-path PATH /opt/modules/%s/bin\n' \
        "$mpi" "$other" "$mpi" > "$root/usr/share/modules/modulefiles/$mpi"
done
printf '#%%Module1.0\nmodule-whatis "MPJ Express from Debian"\nsetenv MPJ_HOME /usr/share/mpj\n' \
    > "$root/usr/share/modules/modulefiles/mpj"
# Debian's example modules would only clutter `module avail`.
(cd "$root/usr/share/modules/modulefiles" && rm -f dot module-git module-info modules null use.own)
# Nodes get theirs at start.
rm -f "$root/etc/hostname" "$root/etc/munge/munge.key"
# `module` exists in batch scripts too, as sites have it.
sed -i 's/^#module config set_shell_startup 1/module config set_shell_startup 1/' "$root/etc/environment-modules/initrc"
