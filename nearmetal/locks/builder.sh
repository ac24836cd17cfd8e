#!/bin/sh
# Runs Apptainer of the lab's node image as an ordinary user, with this host's network and without the lab: for hosts that have
# none of their own, or an older one. In mount and PID namespaces of its own, as root:
#     builder.sh IMAGE WORK CHECKOUT COMMAND...
# WORK is the user's own directory (/work within), CHECKOUT what is built from (/checkout, read-only).
set -eu
image=$1 work=$2 checkout=$3
shift 3

mount --make-rprivate /
base=$work/base
mkdir -p "$base"
mount -t tmpfs -o mode=755 builder "$base"
mkdir "$base/upper" "$base/work" "$base/root"
mount -t overlay -o "lowerdir=$image,upperdir=$base/upper,workdir=$base/work" builder "$base/root"
root=$base/root
mkdir -p "$root/work" "$root/checkout"
mount --bind "$work/user" "$root/work"
mount --bind -o ro "$checkout" "$root/checkout"
mount -o remount,bind,ro "$root/checkout"
mount -t proc -o nosuid,nodev,noexec proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t sysfs -o ro,nosuid,nodev,noexec sysfs "$root/sys"
mount -t tmpfs -o mode=1777,nosuid,nodev tmp "$root/tmp"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

# Numbers for the users within an image: what an administrator gives each user in these files.
echo builder:100000:65536 | tee "$root/etc/subuid" > "$root/etc/subgid"
chroot "$root" useradd --system --no-create-home --home-dir /work builder
chroot "$root" chown builder: /work
cd "$root"
pivot_root . mnt
umount -l /mnt
cd /checkout
exec setpriv --reuid builder --regid builder --clear-groups env HOME=/work APPTAINER_TMPDIR=/work APPTAINER_CACHEDIR=/work/cache "$@"
