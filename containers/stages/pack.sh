#!/bin/sh
# What the first stage gives to the second, as one file: a copy of the directories would follow links.
set -eu
mkdir -p /opt/software /opt/nearmetal
exec tar --create --file=/nearmetal.tar --sort=name --directory=/opt nearmetal software
