#!/bin/sh
# initramfs.sh DIRECTORY: makes /boot/guest.img and links /boot/guest-kernel, in the layer's root. The
# initramfs has busybox, `init` of DIRECTORY, and the modules that mount a guest's root. Debian's own
# initramfs loads udev and all drivers, which takes half a minute on an emulated CPU.
set -eu
here=$1
version=$(ls /lib/modules)
work=$(mktemp -d)
mkdir -p "$work/bin" "$work/modules" "$work/proc" "$work/sys" "$work/dev"
cp /bin/busybox "$work/bin/busybox"
cp "$here/init" "$work/init"
chmod 755 "$work/init"
number=10
for module in virtio_pci 9pnet_virtio 9p overlay; do
    modprobe --set-version "$version" --show-depends "$module" > "$work/depends"
    while read -r what file _; do
        [ "$what" = insmod ] || continue # the rest is built in
        name=$(basename "${file%.xz}")
        [ -z "$(find "$work/modules" -name "??-$name")" ] || continue
        busybox xzcat "$file" > "$work/modules/$number-$name" # numbered in the order of loading
        number=$((number + 1))
    done < "$work/depends"
done
rm "$work/depends"
(cd "$work" && find . | busybox cpio -o -H newc 2> /dev/null) > /boot/guest.img
rm -r "$work"
ln -sf "vmlinuz-$version" /boot/guest-kernel
