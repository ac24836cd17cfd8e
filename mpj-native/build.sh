#!/bin/sh
# Compiles the library without Maven: `sh build.sh DIRECTORY` writes the classes there. JAVAC may name a javac of JDK 22 or newer.
set -eu
[ $# -eq 1 ] || { echo "usage: sh build.sh DIRECTORY" >&2; exit 2; }
here=$(dirname "$0")
javac=${JAVAC:-${JAVA_HOME:+$JAVA_HOME/bin/}javac}
command -v "$javac" > /dev/null || { echo "mpj-native: there is no $javac: load the module of a JDK (22 or newer)" >&2; exit 1; }
version=$("$javac" -version 2>&1 | sed 's/^javac \([0-9]*\).*/\1/')
[ "$version" -ge 22 ] || { echo "mpj-native: javac $version is too old: load the module of a JDK (22 or newer)" >&2; exit 1; }
# The interface to native code is restricted, and using it is this library's purpose.
"$javac" -J-XX:TieredStopAtLevel=1 -J-XX:+UseSerialGC --release 22 -Xlint:all,-restricted -Werror -d "$1" "$here"/src/main/java/mpi/*.java
