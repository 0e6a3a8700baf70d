# shellcheck shell=bash
# Debian packages and virtual environments. Does nothing when all is there.

PACKAGES_API=(python3-venv curl rabbitmq-server mariadb-server memcached)
PACKAGES_REAL=(openvswitch-switch dnsmasq-base dnsmasq-utils iptables ipset conntrack haproxy radvd iproute2 ethtool iputils-ping
    iputils-arping procps openssh-client ceph-mon ceph-mgr ceph-osd ceph-common python3-rbd python3-rados qemu-block-extra
    qemu-utils)

wanted_packages() {
    printf '%s\n' "${PACKAGES_API[@]}"
    [ "$STACK_KIND" = api ] || printf '%s\n' "${PACKAGES_REAL[@]}"
    [ "$STACK_NETWORK" != ovn ] || printf '%s\n' ovn-central ovn-host
    [ "$STACK_NOVA_LITE$STACK_KIND" != yesreal ] ||
        sed -n '/test\]/d; s/^\([a-z][a-z0-9.+-]*\) *\(\[.*\)\{0,1\}$/\1/p' "$STACK_SOURCE/bindep.txt"
}

missing_packages() {
    local package
    wanted_packages | sort -u | while read -r package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
    done
}

install_packages() {
    local missing policy=/usr/sbin/policy-rc.d
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if [ ! -e $policy ]; then       # Debian starts a daemon when it is installed, unless this file says no
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod 755 $policy
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get -o DPkg::Lock::Timeout=300 update -q || echo "apt-get update failed; trying with what is known"
    # shellcheck disable=SC2086  # one word per package
    apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends $missing
}

pins() { cat "$STACK_HERE/requirements.txt" "$STACK_HERE/constraints.txt" | sha256sum | cut -c1-16; }

# The neighbours, from PyPI, at pinned versions.
install_venv() {
    [ "$(cat "$STACK_VENV/.pins" 2>/dev/null)" != "$(pins)" ] || return 0
    mkdir -p "$STACK_CACHE"
    exec 8>"$STACK_CACHE/install.lock"      # two stacks at once install once
    flock 8
    [ "$(cat "$STACK_VENV/.pins" 2>/dev/null)" != "$(pins)" ] || return 0
    "$STACK_PYTHON" -m venv "$STACK_VENV"
    "$BIN/python" -m pip install -q --disable-pip-version-check uv
    "$BIN/uv" pip install --compile-bytecode --python "$BIN/python" -r "$STACK_HERE/requirements.txt" -c "$STACK_HERE/constraints.txt"
    pins >"$STACK_VENV/.pins"
}
