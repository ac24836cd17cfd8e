#!/bin/sh
# First process of the lab's and of each node's namespaces: makes its file systems, then stays as init.
# Run under
# `unshare --mount --uts --ipc --net --pid --fork` as
#     enter.sh NAME IMAGE BASE CHECKOUT SYSTEM USER [SHARED FILES]
# NAME      host name
# IMAGE     the node image, mounted read-only below an overlay in memory. The lab's own may be
#           LAYER:IMAGE, which has QEMU and is the root of virtual machines
# BASE      an existing empty directory to mount on; the mounts are visible in this namespace only
# CHECKOUT  mounted at its own path
# SYSTEM    KiB of the file system for what the system writes
# USER      KiB of the file system for what users write: /tmp, /var/tmp and /dev/shm; for the lab's own
#           namespaces, /home of all nodes. Both are memory of this host (cluster.memory_kb)
# SHARED    directory with /home and /scratch of all nodes (nodes only)
# FILES     files to copy over the image (nodes only)
# When this process ends, the kernel ends all processes and mounts of these namespaces.
set -eu
name=$1 image=$2 base=$3 checkout=$4 system=$5 user=$6 shared=${7:-} files=${8:-}

mount --make-rprivate /
hostname "$name"
mount -t tmpfs -o "mode=755,size=${system}k" lab "$base"
mkdir "$base/upper" "$base/work" "$base/root" "$base/run" "$base/user"
mount -t tmpfs -o "mode=755,nosuid,nodev,size=${user}k" user "$base/user"
mkdir -m 1777 "$base/user/tmp" "$base/user/vartmp" "$base/user/shm"
mkdir "$base/user/home"
mount -t overlay -o "lowerdir=$image,upperdir=$base/upper,workdir=$base/work" lab "$base/root"
root=$base/root

mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount -t sysfs -o nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o mode=755,nosuid,size=1m dev "$root/dev"
# Users mount images by /dev/fuse, which the host may reserve for root. If mknod fails, use the host's.
mknod -m 666 "$root/dev/fuse" c 10 229 2>/dev/null || :
for device in null zero full random urandom tty net/tun fuse kvm cpu_dma_latency; do
    if [ ! -e "/dev/$device" ] || [ -e "$root/dev/$device" ]; then continue; fi
    mkdir -p "$(dirname "$root/dev/$device")"
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
mount --bind "$base/user/shm" "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ln -s fd/0 "$root/dev/stdin"
ln -s fd/1 "$root/dev/stdout"
ln -s fd/2 "$root/dev/stderr"
mount --bind "$base/run" "$root/run"
mount -o remount,bind,nosuid,nodev "$root/run"
mount --bind "$base/user/tmp" "$root/tmp"
mount --bind "$base/user/vartmp" "$root/var/tmp"

if [ -n "$files" ]; then
    mount --bind "$shared/home" "$root/home"
    mkdir "$root/scratch"
    mount --bind "$shared/scratch" "$root/scratch"
    cp -a "$files/." "$root/"
    hostname -F "$root/etc/hostname" # with its domain
else
    mkdir -p "$root/lab/image" "$root/lab/base" "$root/lab/run"
    mkdir -p "$root/lab/shared/home" "$root/lab/shared/scratch"
    mount --bind "$base/user/home" "$root/lab/shared/home"
    mount --bind "${image##*:}" "$root/lab/image"
    if [ "$image" != "${image##*:}" ]; then
        mkdir "$root/lab/guest"
        mount -t overlay -o "ro,lowerdir=$image" guest "$root/lab/guest"
        if [ -d /dev/vfio ]; then mkdir "$root/dev/vfio" && mount --rbind /dev/vfio "$root/dev/vfio"; fi
    fi
    # Small, as a site's quota is: tests fill it.
    mount -t tmpfs -o mode=1777,size=64m scratch "$root/lab/shared/scratch"
fi

# Mounted after /home and /tmp, since the checkout may be below them.
mkdir -p "$root$checkout"
mount --bind "$checkout" "$root$checkout"
# The image's Python finds the package of the command `nearmetal` here.
for packages in "$root"/opt/nearmetal/lib/python3*/site-packages; do
    ln -s "$checkout/nearmetal" "$packages/nearmetal"
done

ip link set lo up 2>/dev/null || chroot "$root" ip link set lo up
cd "$root"
mkdir -p "$root/mnt"
pivot_root . mnt
umount -l /mnt
: > /run/entered
exec tini -g -- sleep infinity
