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
# One process by itself, which wants no launcher.
bin/nearmetal-npb-ep S | grep 'SUCCESSFUL'
if [ -d share/java ]; then
    java -version
    [ -e share/java/classes/PingPong.class ]
    java --enable-native-access=ALL-UNNAMED -Dnearmetal.warm_up=0.1 -cp share/java/library:share/java/classes.native \
        CG S | grep 'SUCCESSFUL'
fi
grep -q '"bomFormat": "CycloneDX"' share/sbom.cdx.json
