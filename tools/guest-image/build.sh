#!/bin/bash
# Build the tiny guest: a Linux of Debian's packages that boots in seconds under emulation.
#
#   build.sh OUTPUT.qcow2 [CACHE_DIRECTORY]
#
# As root, on amd64; takes about ten seconds. Packages are downloaded once into the cache (default: OUTPUT.cache) and only
# unpacked, never installed. The result is one ext4 file system without partitions, extlinux in its boot sector: it grows to
# the size of its disk at each boot. See README.md for what the guest does.
set -euo pipefail
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

die() { echo "guest image: $*" >&2; exit 1; }

[ $# -ge 1 ] || die "usage: $0 OUTPUT.qcow2 [CACHE_DIRECTORY]"
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$(dirname "$1")" "${2:-$1.cache}"
output=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cache=$(cd "${2:-$1.cache}" && pwd)
size=64M
[ "$(id -u)" = 0 ] || die "must run as root (it mounts a loop device)"
[ "$(dpkg --print-architecture)" = amd64 ] || die "only amd64 is supported"
for tool in apt-get:apt dpkg-deb:dpkg cpio:cpio depmod:kmod mke2fs:e2fsprogs extlinux:extlinux qemu-img:qemu-utils; do
  command -v "${tool%:*}" >/dev/null || die "${tool%:*} is missing: apt-get install ${tool#*:}"
done

work=$(mktemp -d)
cleanup() { mountpoint -q "$work/mnt" && umount "$work/mnt"; rm -rf "$work"; }
trap cleanup EXIT
pkg=$work/packages root=$work/root initrd=$work/initrd
mkdir -p "$pkg" "$root" "$initrd" "$work/mnt"

# --- packages ---------------------------------------------------------------------------------------------------------
# The newest kernel that apt knows; without package lists the one in the cache.
kernel=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }')
if [ -z "$kernel" ]; then
  kernel=$(find "$cache" -name 'linux-image-*.deb' -printf '%f\n' | sort -V | tail -1); kernel=${kernel%%_*}
fi
[ -n "$kernel" ] || die "apt knows no linux-image-cloud-amd64: run apt-get update first"
version=${kernel#linux-image-}

for package in "$kernel" busybox-static dropbear-bin jq libjq1 libonig5 libc6 libcrypt1 libtomcrypt1 libtommath1 libgmp10 \
               zlib1g e2fsprogs libext2fs2 libcom-err2 libblkid1 libuuid1 util-linux libmount1 libsmartcols1 libudev1 \
               libselinux1 libpcre2-8-0 qemu-guest-agent libglib2.0-0 libnuma1 liburing2; do
  deb=$(find "$cache" -maxdepth 1 -name "${package}_*.deb" | head -1)
  if [ -z "$deb" ]; then
    echo "guest image: downloading $package"
    rm -rf "$cache/partial.$$"; mkdir "$cache/partial.$$"
    (cd "$cache/partial.$$" && apt-get -q -q -o APT::Sandbox::User=root download "$package" >&2) ||
      die "cannot download $package: run apt-get update and try again"
    mv "$cache/partial.$$"/*.deb "$cache/"; rmdir "$cache/partial.$$"
    deb=$(find "$cache" -maxdepth 1 -name "${package}_*.deb" | head -1)
  fi
  dpkg-deb -x "$deb" "$pkg"
done

# --- root file system -------------------------------------------------------------------------------------------------
mkdir -p "$root"/{bin,sbin,usr/bin,usr/sbin,lib64,lib/x86_64-linux-gnu,boot,dev,etc,mnt,proc,root,run,sys,tmp,var/lib/tiny,var/log}
chmod 1777 "$root/tmp"; chmod 700 "$root/root"; ln -s ../run "$root/var/run"
cp "$pkg/bin/busybox" "$root/bin/busybox"
"$root/bin/busybox" --list-full | while read -r applet; do
  [ "$applet" = bin/busybox ] || ln -sf /bin/busybox "$root/$applet"
done
rm -f "$root/sbin/resize2fs"
# path of a program in the packages -> the libraries that it needs are found and copied with it
install_program() {
  install -D -m 755 "$pkg/$1" "$root/$1"
  install_libraries "$pkg/$1"
}
install_libraries() {
  local library found
  for library in $(needed_by "$1"); do
    [ -e "$root/lib/x86_64-linux-gnu/$library" ] && continue
    found=$(find "$pkg" -name "$library" | head -1)
    [ -n "$found" ] || die "no package holds $library, which ${1##*/} needs"
    cp -L "$found" "$root/lib/x86_64-linux-gnu/$library"
    install_libraries "$found"
  done
}
# the NEEDED entries, read by the packages' own dynamic loader: neither binutils nor running foreign code is needed
needed_by() {
  "$pkg/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" --list --library-path \
    "$pkg/lib/x86_64-linux-gnu:$pkg/usr/lib/x86_64-linux-gnu" "$1" | awk '$2 == "=>" && $1 !~ "/" { print $1 }'
}
for program in usr/sbin/dropbear usr/bin/dropbearkey usr/bin/jq sbin/resize2fs sbin/mkfs sbin/mkfs.ext4 sbin/blkid bin/lsblk \
               usr/sbin/qemu-ga; do
  install_program "$program"
done
cp -L "$pkg/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$root/lib/x86_64-linux-gnu/"
ln -s ../lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64/ld-linux-x86-64.so.2"
cp -a "$here/rootfs/." "$root/"
mkdir -p "$root/etc/dropbear"
chmod 600 "$root/etc/shadow"; chmod 755 "$root"/etc/init.d/* "$root"/etc/acpi/PWRF/* "$root"/etc/udhcpc/* "$root"/usr/sbin/tiny-* \
  "$root"/usr/bin/{sudo,curl} "$root/sbin/mkfs.vfat"

# --- kernel modules: what a virtual machine has, no more --------------------------------------------------------------
depmod -b "$pkg" "$version"
install_modules() {      # into directory $1 the modules that follow, with those that they need
  local target=$1 file module; shift
  for module in "$@"; do
    modprobe -d "$pkg" -S "$version" --show-depends "$module" 2>/dev/null || true
  done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
    install -D -m 644 "$file" "$target/lib/modules/${file#*/lib/modules/}"
  done
  mkdir -p "$target/lib/modules/$version"
  cp "$pkg/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} "$target/lib/modules/$version/"
  depmod -b "$target" "$version"
}
disks="virtio_pci virtio_blk virtio_scsi sd_mod ata_piix ahci nvme ext4 crc32c_generic"
# shellcheck disable=SC2086
install_modules "$root" $disks virtio_net virtio_rng virtio_balloon virtio_console sr_mod cdrom isofs vfat nls_ascii nls_cp437 \
  nls_utf8 button evdev af_packet acpiphp shpchp ipv6 8021q e1000
# shellcheck disable=SC2086
install_modules "$initrd" $disks

# --- initrd and boot loader -------------------------------------------------------------------------------------------
mkdir -p "$initrd"/{bin,dev,newroot,proc,sys}
cp "$root/bin/busybox" "$initrd/bin/"
install -m 755 "$here/initrd-init" "$initrd/init"
(cd "$initrd" && find . | sort | cpio --quiet -o -H newc) | gzip -6 > "$root/boot/initrd"
cp "$pkg/boot/vmlinuz-$version" "$root/boot/vmlinuz"
# no_timer_check: emulated on a busy machine, the timer ticks too late for the check, and the kernel panics. The four options
# after it make an emulated boot a fifth shorter
cat > "$root/boot/extlinux.conf" <<'CONF'
DEFAULT tiny
PROMPT 0
TIMEOUT 1
LABEL tiny
  LINUX /boot/vmlinuz
  INITRD /boot/initrd
  APPEND console=tty0 console=ttyS0,115200 panic=10 quiet net.ifnames=0 no_timer_check mitigations=off nokaslr tsc=reliable cryptomgr.notests
CONF
chown -R 0:0 "$root"

# --- disk: extlinux reads neither 64bit ext4 nor its checksums --------------------------------------------------------
truncate -s "$size" "$work/disk"
mke2fs -q -F -t ext4 -b 4096 -J size=4 -O '^64bit,^metadata_csum' -L tinyroot -m 0 -d "$root" "$work/disk"
mount -o loop "$work/disk" "$work/mnt"
extlinux --install "$work/mnt/boot" >"$work/extlinux.log" 2>&1 || { cat "$work/extlinux.log" >&2; die "extlinux failed"; }
umount "$work/mnt"
qemu-img convert -c -O qcow2 "$work/disk" "$output.partial"
mv "$output.partial" "$output"
echo "guest image: $output ($(du -h "$output" | cut -f1), kernel $version)"
