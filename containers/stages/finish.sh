#!/bin/sh
# Last step of an image: unpacks the first stage's work, lists what is in the image, names versions, and removes what differs from
# one build to the next.
#   sh finish.sh STACK PMI LIBRARY PACKAGE...
# PMI      what the MPI library finds its peers by: pmix, pmi2, none
# LIBRARY  its name in words; the first PACKAGE (Debian's) is it, and all have labels with their versions
set -eu
stack=$1 pmi=$2 library=$3
shift 3
tar --extract --file=/nearmetal.tar --directory=/opt
share=/opt/nearmetal/share
mkdir -p "$share"
cp /stages/test.sh "$share/test.sh"

label() { echo "$1 $2" >> "$APPTAINER_LABELS"; }
label org.nearmetal.stack "$stack"
label org.nearmetal.pmi "$pmi"
label org.nearmetal.sources "$(cat "$share/nearmetal-sources.sha256")"
if [ -e "$share/spack.packages" ]; then
    label org.nearmetal.lock "sha256:$(cat "$share/spack.lock.sha256")"
    for name in openmpi mpich mpj-express pmix openjdk; do
        version=$(awk -v name="$name" '$1 == name { print $2 }' "$share/spack.packages")
        [ -n "$version" ] || continue
        label "org.nearmetal.version.$name" "$version"
        case $name in openmpi | mpich) label org.nearmetal.library "$library $version" ;; esac
    done
else
    for package; do label "org.nearmetal.version.$package" "$(dpkg-query -W -f '${Version}' "$package")"; done
    label org.nearmetal.library "$library $(dpkg-query -W -f '${Version}' "$1")"
fi

dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' > /tmp/debian.list
cp "$share/spack.packages" /tmp/spack.list 2> /dev/null || : > /tmp/spack.list
find -L /opt/nearmetal/bin /opt/nearmetal/share/java -type f 2> /dev/null | LC_ALL=C sort | xargs sha256sum > /tmp/files.list
LD_LIBRARY_PATH=/opt/jq /opt/jq/jq --null-input --arg stack "$stack" --rawfile debian /tmp/debian.list \
    --rawfile spack /tmp/spack.list --rawfile files /tmp/files.list --from-file /stages/sbom.jq > "$share/sbom.cdx.json"
rm -rf /opt/jq

apt-get clean
# Java's certificates have the time of their import in them, and nothing here speaks TLS.
rm -rf /etc/ssl/certs/java/cacerts
# Users that packages made have the day of the build as that of their password, and have none.
[ ! -e /etc/shadow ] || sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1::/' /etc/shadow
rm -rf /nearmetal.tar /stages /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* /etc/machine-id /etc/hostname \
    /var/lib/dpkg/*-old /var/lib/dbus /etc/apt/sources.list /etc/apt/sources.list.d/* \
    /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* /etc/shadow- /etc/passwd- /etc/group- /etc/gshadow-
mkdir -p /var/cache/apt/archives/partial /var/log/apt
