#!/bin/sh
# Compiles mpj-native, and our programs in Java for it, where nearmetal/checks/runtime/jvm.py finds them: sh native.sh
set -eu
java=/opt/nearmetal/share/java
sh /mpj-native/build.sh "$java/library"
javac --add-modules jdk.incubator.vector -cp "$java/library" -sourcepath /src/java -d "$java/classes.native" \
    /src/java/*.java /src/java/vectors/*.java
