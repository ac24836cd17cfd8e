#!/bin/sh
# Builds our programs and installs them, as the images have them:
#   sh install.sh PREFIX KIND...
# KIND  mpi, serial: the sources with a line `Build: KIND FLAGS`, into PREFIX/bin/nearmetal-NAME, by MPICC (default mpicc) and
#       CC (default cc);
#       java: the classes and their launcher into PREFIX/share/java, by JAVA_HOME's or PATH's JDK and the library in MPJ_HOME
# PREFIX/share/nearmetal-sources.sha256 is the digest of the sources that they were built from.
set -eu
[ $# -gt 1 ] || { echo "usage: sh install.sh PREFIX mpi|serial|java..." >&2; exit 2; }
prefix=$1
shift
cd "$(dirname "$0")"

programs() { # KIND COMPILER
    mkdir -p "$prefix/bin"
    find . -name '*.c' -exec grep -H "^ \* Build: $1 " {} + | sed 's,^./,,; s/: .*Build: [a-z]*//' | while read -r source flags; do
        # shellcheck disable=SC2086 # flags are words
        "$2" -std=c11 $flags "-DNEARMETAL_CFLAGS=\"$flags\"" "$source" -o "$prefix/bin/$(called "${source%.c}")" -lm
    done
}

called() { echo "nearmetal-$1" | tr / -; }

in_java() {
    bin=${JAVA_HOME:+$JAVA_HOME/bin/} share=$prefix/share/java
    [ -r "${MPJ_HOME:?is not set: the directory of MPJ Express}/lib/mpj.jar" ] || {
        echo "install.sh: MPJ_HOME=$MPJ_HOME has no lib/mpj.jar" >&2; exit 1; }
    mkdir -p "$share/launch"
    "${bin}javac" --release 17 -d "$share/launch" java/launch/*.java
    "${bin}javac" --release 17 -cp "$MPJ_HOME/lib/mpj.jar" -d "$share/classes" java/*.java
    # As it comes, the library's niodev listens on all networks of a node.
    "${bin}java" -cp "$share/launch:$MPJ_HOME/lib/mpj.jar" launch.Confine "$share/launch"
    cp java/launch/jvm.sh "$share"
}

mkdir -p "$prefix/share"
sh digest.sh > "$prefix/share/nearmetal-sources.sha256"
for kind; do
    case $kind in
        mpi) programs mpi "${MPICC:-mpicc}" ;;
        serial) programs serial "${CC:-cc}" ;;
        java) in_java ;;
        *) echo "install.sh: $kind is not mpi, serial or java" >&2; exit 2 ;;
    esac
done
