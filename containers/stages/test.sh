#!/bin/sh
# An image's own test: all libraries of its programs are there, one of them computes, and the list of contents is.
set -eu
cd /opt/nearmetal
for program in bin/*; do
    if ldd "$program" | grep 'not found'; then
        echo "$program: the image lacks this library" >&2
        exit 1
    fi
done
if [ -x bin/nearmetal-npb-ep ]; then
    # One process by itself, which wants no launcher.
    bin/nearmetal-npb-ep S | grep 'SUCCESSFUL'
else
    java -version
    [ -e share/java/classes/PingPong.class ]
fi
grep -q '"bomFormat": "CycloneDX"' share/sbom.cdx.json
