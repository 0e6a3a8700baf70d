#!/bin/sh
# Install what tests/ceph starts, from Debian's packages, unless it is there. None of their daemons is started.
set -eu

packages="ceph-mon ceph-mgr ceph-osd ceph-common qemu-block-extra"
# shellcheck disable=SC2086  # one word per package
if dpkg-query -W -f '${db:Status-Status}\n' $packages 2>/dev/null | grep -cx installed | grep -qx 5; then
    exit 0
fi
[ "$(id -u)" = 0 ] || { echo "run as root, or first: apt-get install --no-install-recommends $packages" >&2; exit 1; }
if [ ! -e /usr/sbin/policy-rc.d ]; then     # Debian starts a daemon when it is installed, unless this file says no
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq || echo "apt-get update failed; trying with what is known" >&2
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $packages
