#!/bin/sh
# What the first stage gives to the second, as one file: a copy of the directories would follow links.
set -eu
mkdir -p /opt/software /opt/nearmetal /opt/jq
# jq writes the image's list of contents (finish.sh), which keeps no jq.
sh /stages/debian.sh jq
jq=$(command -v jq)
ldd "$jq" | awk '/lib(jq|onig)/ { print $3 }' | xargs cp -t /opt/jq "$jq"
# Of a JDK neither is what runs programs, and both are half of it.
exec tar --create --file=/nearmetal.tar --sort=name --directory=/opt --exclude='*/jmods' --exclude='*/lib/src.zip' nearmetal software jq
