#!/bin/bash
# Makes the guest image, or finds the one that is there already.
#
#   build.sh --cache DIR --agent FILE [--packages FILE] [--own-packages FILE] [--warm-up FILE] [--suite bookworm]
#
# Everything is named by the hash of what it is made from:
#   DIR/rootfs/HASH/   root.erofs vmlinuz modules/ rootfs.json         packages, suite, rootfs.sh
#   DIR/images/HASH/   root.erofs vmlinuz initrd image.json            the above, agent, hook, initrd.sh
# Folders are made under a temporary name, synced and renamed, so what has its final name is whole.
# Own packages are added to the list; the warm-up is run by the zygote. An image that has one of them is marked
# as "own" and is never what sessions get by default.
# The last line on standard output is the image's folder; progress goes to standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
hook=$here/../kernel
cache='' agent='' packages=$here/packages.txt own='' warm_up='' suite=bookworm
work='' log='' job=''

say() { echo "image: $*" >&2; }
usage() {
  echo "usage: build.sh --cache DIR --agent FILE [--packages FILE] [--own-packages FILE] [--warm-up FILE] [--suite NAME]" >&2
  exit 2
}

while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage
  case $1 in
    --cache) cache=$2 ;;
    --agent) agent=$2 ;;
    --packages) packages=$2 ;;
    --own-packages) own=$2 ;;
    --warm-up) warm_up=$2 ;;
    --suite) suite=$2 ;;
    *) usage ;;
  esac
  shift 2
done
[ -n "$cache" ] && [ -n "$agent" ] || usage

die() {
  say "failed: $*"
  exit 1
}

# What most likely went wrong, in one line, from the log of a failed step.
explain() {
  if [ ! -s "$log" ]; then
    echo "the step ended without a word"
  elif grep -qiE "no space left on device|enough free space|write error.*space" "$log"; then
    echo "the disk is full; free about 5 GB below $cache and run it again"
  elif grep -qiE 'could not resolve|failed to fetch|temporary failure|unable to connect' "$log" ||
    grep -qiE 'connection (failed|timed out|refused)|network is unreachable' "$log"; then
    echo "the Debian mirror cannot be reached; check the network and /etc/apt/sources.list, then run it again"
  elif grep -qiE 'unable to locate package|has no installation candidate' "$log"; then
    grep -iE 'unable to locate package|has no installation candidate' "$log" | tail -n 1 |
      sed 's/^E: //; s/$/; correct the package list/'
  else
    echo "see the lines above"
  fi
}

cleanup() {
  code=$?
  trap - EXIT INT TERM HUP
  if [ -n "$job" ]; then
    # the first process of the job's own process namespace: when it has ended, all of them have
    kill -KILL $(cat "/proc/$job/task/$job/children" 2>/dev/null) 2>/dev/null || true
    wait "$job" 2>/dev/null || true
  fi
  if [ -n "$work" ] && [ -d "$work" ]; then
    rm -rf --one-file-system "$work"
    rm -f "$work.packages"
    [ $code -eq 0 ] || say "the half-made folder was removed; nothing of it will be used"
  fi
  exit $code
}
trap cleanup EXIT
trap 'say "interrupted"; exit 130' INT
trap 'say "stopped"; exit 143' TERM HUP

hash_of() { cat "$@" | sha256sum | cut -c1-32; }
package_list() { sed 's/#.*//' "$packages" ${own:+"$own"} | tr -s ' \t\n' '\n' | sort -u; }

check_tools() {
  local missing=()
  for tool in mmdebstrap mkfs.erofs cpio unshare setpriv dpkg-deb flock; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  [ ${#missing[@]} -eq 0 ] ||
    die "missing: ${missing[*]}. Run: apt-get install mmdebstrap erofs-utils cpio util-linux dpkg"
}

# need MEGABYTES: refuses to start what cannot end well.
need() {
  local free
  free=$(df -Pm "$cache" | awk 'NR == 2 { print $4 }')
  [ "$free" -ge "$1" ] || die "$cache has $free MB free and about $1 MB are needed"
}

# The end of the log as lines of text, without what only a terminal understands.
end_of_log() {
  local first=1
  [ "$(stat -c %s "$log")" -le "$1" ] || first=2 # the first one is cut
  tail -c "$1" "$log" | tr '\r' '\n' | LC_ALL=C sed 's/\x1b\[[0-9;?]*[A-Za-z]//g' | LC_ALL=C tr -cd '\n[:print:]' |
    tail -n "+$first"
}

# The last line that is whole: what is being written just now would be cut somewhere.
last_words() {
  local line words=''
  while IFS= read -r line; do
    [ -z "${line// /}" ] || words=$line
  done < <(end_of_log 4000)
  echo "${words:0:90}"
}

# Runs a step in the background, with a sign of life every few seconds. Its namespaces of processes
# and mounts end with it, and it ends with us, even when we are killed: nothing is left running or mounted.
run_step() {
  local start=$SECONDS last=0
  setpriv --pdeathsig KILL unshare --mount --pid --mount-proc --fork --kill-child "$@" 3>&2 2>>"$log" &
  job=$!
  while kill -0 "$job" 2>/dev/null; do
    sleep 0.2
    if [ $((SECONDS - start)) -ge $((last + 10)) ]; then
      last=$((SECONDS - start))
      say "  ${last} s: $(last_words)"
    fi
  done
  if ! wait "$job"; then
    job=''
    { end_of_log 1000000 | grep -iE '(^|[^a-z])error' | head -n 5; end_of_log 8000 | tail -n 15; } >&2 || true
    die "$(explain)"
  fi
  job=''
}

# publish TEMPORARY FINAL: synced and renamed.
publish() {
  sync -f "$1"
  mv -T "$1" "$2"
  sync -f "$(dirname "$2")"
  work=''
}

make_rootfs() {
  [ "$(id -u)" -eq 0 ] || die "the root filesystem is made as root; run it with sudo"
  check_tools
  need 5000
  say "making the root filesystem: $(package_list | wc -l) packages and what they need, a few minutes"
  work=$(mktemp -d "$cache/rootfs/tmp.XXXXXX")
  chmod 755 "$work"
  log=$work/log
  package_list >"$work.packages"
  run_step "$here/rootfs.sh" "$work" "$suite" "$work.packages" "$log"
  rm -f "$log" "$work.packages"
  publish "$work" "$1"
}

make_image() {
  check_tools
  need 200
  say "packing agent and kernel modules (4/4)"
  touch "$1/rootfs.json" # the last use, for what removes old ones
  work=$(mktemp -d "$cache/images/tmp.XXXXXX")
  chmod 755 "$work"
  log=$work.log
  if ! { "$here/initrd.sh" "$work/initrd" "$agent" "$hook" "$1/modules" ${warm_up:+"$warm_up"} &&
    ln "$1/root.erofs" "$work/" && cp "$1/vmlinuz" "$work/"; } 2>"$log"; then
    end_of_log 8000 | tail -n 15 >&2
    die "$(explain)"
  fi
  rm -f "$log"
  local rest sizes
  sizes=$(cd "$work" && stat -c '"%n":%s' root.erofs vmlinuz initrd | paste -sd,)
  rest=$(sed 's/^{//; s/}$//' "$1/rootfs.json")
  printf '{"magic":"cellkeep-image","version":%d,"sizes":{%s},"rootfs":"%s","agent":"%s","own":%s,%s}\n' "$version" \
    "$sizes" "$(basename "$1")" "$(hash_of "$agent")" "$([ -n "$own$warm_up" ] && echo true || echo false)" "$rest" \
    >"$work/image.json"
  publish "$work" "$2"
}

[ -f "$agent" ] || die "no agent at $agent; build the target ck-agent"
[ -r "$packages" ] || die "cannot read the package list $packages"
[ -z "$own" ] || [ -r "$own" ] || die "cannot read the package list $own"
[ -z "$warm_up" ] || [ -r "$warm_up" ] || die "cannot read the warm-up script $warm_up"
[ -z "$warm_up" ] || [ "$(stat -Lc %s "$warm_up")" -le 1048576 ] || die "the warm-up script $warm_up has more than 1 MiB"
# a name is all that a line may have: mmdebstrap would take patterns and options too
while IFS= read -r name; do
  [[ -z $name || $name =~ ^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+~:-]+)?$ ]] || die "the package list has \"${name:0:60}\", which is no package's name"
done < <(package_list)
mkdir -p "$cache/rootfs" "$cache/images" 2>/dev/null || die "cannot write below $cache"
cache=$(cd "$cache" && pwd)

version=2 # of image.json, which vmm/image.h reads
rootfs_hash=$({ package_list; echo "$suite"; cat "$here/rootfs.sh"; } | sha256sum | cut -c1-32)
image_hash=$({ echo "$version $rootfs_hash"; cat "$agent" "$hook"/*.py "$here/initrd.sh"; [ -z "$own" ] || echo own packages
  [ -z "$warm_up" ] || { echo warm-up; cat "$warm_up"; }; } | sha256sum | cut -c1-32)
rootfs=$cache/rootfs/$rootfs_hash image=$cache/images/$image_hash

# size FILE: its bytes, 0 when there is none
size() {
  stat -c %s "$1" 2>/dev/null || echo 0
}

# Every file is as long as image.json says.
whole() {
  [ -f "$image/image.json" ] || return 1
  for file in root.erofs vmlinuz initrd; do
    grep -qF "\"$file\":$(size "$image/$file")," <<<"$(tr '}' ',' <"$image/image.json")" || return 1
  done
}

# number OFFSET BYTES FILE: a little-endian number in its superblock
number() {
  od -An -tu"$2" -j $((1024 + $1)) -N "$2" "$3" 2>/dev/null | tr -d ' '
}

# The images' root.erofs is the same file by a hard link, so what cuts one short cuts them all; its
# superblock knows how many blocks it has.
rootfs_whole() {
  local root=$1/root.erofs
  [ -f "$1/rootfs.json" ] && [ -s "$1/vmlinuz" ] && [ "$(number 0 4 "$root")" = $((0xE0F5E1E2)) ] &&
    [ "$(size "$root")" -ge $(($(number 36 4 "$root") << $(number 12 1 "$root"))) ]
}

if ! whole; then
  exec 9>"$cache/.lock"
  flock -n 9 || { say "another build is running; waiting for it" && flock 9; }
  # under the lock, what has a temporary name is a build that was killed
  rm -rf --one-file-system "$cache"/rootfs/tmp.* "$cache"/images/tmp.*
  if ! whole; then
    rm -rf --one-file-system "$image"
    rootfs_whole "$rootfs" || { rm -rf --one-file-system "$rootfs"; make_rootfs "$rootfs"; }
    make_image "$rootfs" "$image"
  fi
fi
echo "$image"
