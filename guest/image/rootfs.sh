#!/bin/bash
# The slow half of the image: Debian packages -> root.erofs, vmlinuz, modules/.
#   rootfs.sh OUTDIR SUITE PACKAGES_FILE LOG 3>PROGRESS
# Called by build.sh, which hashes this file: any change here is a change of the root filesystem.
# OUTDIR is empty and temporary; whatever is left in it after a failure is build.sh's to remove.
set -euo pipefail

out=$1 suite=$2 packages=$3 log=$4
say() { echo "image: $*" >&3; } # progress; standard error is the log

# In this order, dependencies first. ext4, jbd2, crc32c and the serial console are built into
# Debian's cloud kernel.
modules="virtio_ring virtio virtio_mmio virtio_blk failover net_failover virtio_net libcrc32c erofs overlay virtio-rng"

# Debian mirrors as this machine's own apt knows them (a local mirror or proxy is used then), as
# one-line sources; nothing when apt cannot say, and mmdebstrap then uses its default.
mirrors() {
  apt-get indextargets --format '$(ORIGIN)|$(CODENAME)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    sort -u | awk -F'|' -v suite="$suite" '
      $1 == "Debian" && ($2 == suite || index($2, suite "-") == 1) && $5 == "main" { print "deb " $3 " " $4 " " $5 }'
}

# Runs outside the new root with its path as $1, when all packages are installed.
cat >"$out/customize" <<'EOF'
#!/bin/bash
set -euo pipefail
root=$1 out=${0%/*}
chroot "$root" useradd --uid 1000 --user-group --create-home --shell /bin/bash user
# names resolve from /etc/hosts or not at all, and at once: there is no network
sed -i 's/^hosts:.*/hosts:          files/; s/^networks:.*/networks:       files/' "$root/etc/nsswitch.conf"
rm -f "$root/etc/resolv.conf" "$root/etc/hostname" "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
: >"$root/etc/resolv.conf"
echo "127.0.0.1 localhost" >"$root/etc/hosts"
printf '[global]\nbreak-system-packages = true\ndisable-pip-version-check = true\n' >"$root/etc/pip.conf"
# large and of no use here: headers that only building boost programs needs, and the libraries' own tests
rm -rf "$root/usr/include/boost"
find "$root/usr/lib/python3/dist-packages" -type d -name tests -prune -exec rm -rf {} +
# the kernel: the package that the metapackage stands for, unpacked and not installed
export APT_CONFIG=$MMDEBSTRAP_APT_CONFIG
real=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
mkdir -p "$out/kernel.deb"
(cd "$out/kernel.deb" && apt-get -o APT::Sandbox::User=root download "${real:-linux-image-cloud-amd64}")
dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Package}\n' | wc -l >"$out/package-count"
EOF
chmod 755 "$out/customize"

say "installing packages (1/4)"
include=$(sed 's/#.*//' "$packages" | tr -s ' \t\n' ',' | sed 's/^,//; s/,$//')
mirrors >"$out/sources.list"
run=(mmdebstrap --mode=root --variant=minbase --include="$include"
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright'
  --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/info/*'
  --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-include=/usr/share/locale/locale.alias'
  --dpkgopt='path-exclude=/usr/share/icons/*' --dpkgopt='path-exclude=/usr/share/lintian/*'
  --customize-hook="$out/customize" "$suite" "$out/root")
if [ -s "$out/sources.list" ]; then
  "${run[@]}" - <"$out/sources.list" >>"$log" 2>&1
else
  "${run[@]}" </dev/null >>"$log" 2>&1
fi

say "unpacking the kernel (2/4)"
dpkg-deb -x "$out"/kernel.deb/*.deb "$out/kernel"
version=$(basename "$out"/kernel/lib/modules/*)
cp "$out/kernel/boot/vmlinuz-$version" "$out/vmlinuz"
mkdir "$out/modules"
for module in $modules; do
  find "$out/kernel/lib/modules" "$out/kernel/usr/lib/modules" -name "$module.ko" -exec cp {} "$out/modules/" \; 2>/dev/null || true
  [ -f "$out/modules/$module.ko" ] || { echo "the kernel package has no module $module" >>"$log"; exit 1; }
done
echo "$modules" >"$out/modules/load"

# compiled modules save a template boot minutes under emulation
for package in pandas numpy scipy matplotlib seaborn plotly sklearn openpyxl PIL IPython ipykernel; do
  dir=$out/root/usr/lib/python3/dist-packages/$package
  [ ! -d "$dir" ] || ls "$dir"/__pycache__/*.pyc >/dev/null 2>&1 ||
    chroot "$out/root" python3 -m compileall -q "/usr/lib/python3/dist-packages/$package" >>"$log" 2>&1
done

say "making the read-only file system (3/4)"
# times are kept: the compiled modules carry their sources' times
mkfs.erofs "$out/root.erofs" "$out/root" >>"$log" 2>&1
printf '{"kernel_version":"%s","packages":%d,"suite":"%s"}\n' "$version" "$(cat "$out/package-count")" "$suite" >"$out/rootfs.json"
rm -rf --one-file-system "$out/root" "$out/kernel" "$out/kernel.deb" "$out/customize" "$out/package-count" "$out/sources.list"
