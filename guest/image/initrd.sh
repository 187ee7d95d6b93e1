#!/bin/bash
# The fast half of the image: agent, Python hook and kernel modules -> initrd.
#   initrd.sh OUTFILE AGENT HOOKDIR MODULESDIR [WARM_UP]
# Called by build.sh, which hashes this file. Not compressed: the guest would have to unpack it.
set -euo pipefail

out=$1 agent=$2 hook=$3 modules=$4 warm_up=${5-}
tree=$(mktemp -d "$(dirname "$out")/initrd.XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{proc,sys,dev,new,lower,upper,hook,modules}
strip --strip-all -o "$tree/init" "$agent" 2>/dev/null || cp "$agent" "$tree/init"
chmod 755 "$tree/init"
cp "$hook"/*.py "$tree/hook/"
[ -z "$warm_up" ] || cp "$warm_up" "$tree/hook/warm_up.py"
chmod 644 "$tree"/hook/*
cp "$modules"/* "$tree/modules/"
(cd "$tree" && find . -print0 | LC_ALL=C sort -z | cpio --null --create --quiet --format=newc --reproducible --owner=0:0) >"$out"
