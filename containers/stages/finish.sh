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
if [ -e "$share/spack.packages" ]; then
    label org.nearmetal.lock "sha256:$(cat "$share/spack.lock.sha256")"
    for name in openmpi mpich mpj-express pmix openjdk; do
        version=$(awk -v name="$name" '$1 == name { print $2 }' "$share/spack.packages")
        [ -n "$version" ] || continue
        label "org.nearmetal.version.$name" "$version"
        case $name in openmpi | mpich | mpj-express) label org.nearmetal.library "$library $version" ;; esac
    done
else
    for package; do label "org.nearmetal.version.$package" "$(dpkg-query -W -f '${Version}' "$package")"; done
    label org.nearmetal.library "$library $(dpkg-query -W -f '${Version}' "$1")"
fi

# CycloneDX 1.6, https://cyclonedx.org/docs/1.6/json/. A package URL has `:` and `+` of a version in percent.
{
    printf '{"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,\n'
    printf ' "metadata": {"component": {"type": "container", "name": "nearmetal-%s"}},\n "components": [\n' "$stack"
    {
        dpkg-query -W -f '${Package} ${Version} ${Architecture}\n' | while read -r name version architecture; do
            printf '{"type": "library", "name": "%s", "version": "%s", "purl": "pkg:deb/debian/%s@%s?arch=%s"}\n' "$name" \
                "$version" "$(echo "$name" | sed 's/+/%2B/g')" "$(echo "$version" | sed 's/:/%3A/g; s/+/%2B/g')" "$architecture"
        done
        [ ! -e "$share/spack.packages" ] || while read -r name version hash; do
            printf '{"type": "library", "name": "%s", "version": "%s", "purl": "pkg:generic/%s@%s?spack_hash=%s"}\n' "$name" \
                "$version" "$name" "$version" "$hash"
        done < "$share/spack.packages"
        find -L /opt/nearmetal/bin /opt/nearmetal/share/java -type f 2>/dev/null | LC_ALL=C sort | while read -r file; do
            printf '{"type": "file", "name": "%s", "hashes": [{"alg": "SHA-256", "content": "%s"}]}\n' "$file" \
                "$(sha256sum < "$file" | cut -c1-64)"
        done
    } | sed '$!s/$/,/'
    printf ']}\n'
} > "$share/sbom.cdx.json"

apt-get clean
# Java's certificates have the time of their import in them, and nothing here speaks TLS.
rm -rf /etc/ssl/certs/java/cacerts
# Users that packages made have the day of the build as that of their password, and have none.
[ ! -e /etc/shadow ] || sed -i 's/^\([^:]*:[^:]*\):[0-9]*:/\1::/' /etc/shadow
rm -rf /nearmetal.tar /stages /var/lib/apt/lists/* /var/cache/* /var/log/* /tmp/* /etc/machine-id /etc/hostname \
    /var/lib/dpkg/*-old /var/lib/dbus /etc/apt/sources.list /etc/apt/sources.list.d/* \
    /usr/share/doc/* /usr/share/man/* /usr/share/locale/* /usr/share/info/* /etc/shadow- /etc/passwd- /etc/group- /etc/gshadow-
mkdir -p /var/cache/apt/archives/partial /var/log/apt
