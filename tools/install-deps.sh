#!/bin/sh
# Install what is missing: the Debian packages of bindep.txt and a virtual environment with nova_lite in it.
#
#   tools/install-deps.sh [VENV]        default: .venv of the checkout
#
# Does nothing when all is there, so `make run` and `make test` begin with it. PYTHON names the interpreter (3.11 or newer).
# No daemon is started by the installation: tests and the standalone cloud start private ones.
set -eu

cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${PYTHON:-python3}

say() { echo "install: $*"; }
die() { echo "install: $*" >&2; exit 1; }

missing() {
    sed -n 's/^\([a-z][a-z0-9.+-]*\) *\(\[.*\)\{0,1\}$/\1/p' bindep.txt | while read -r package; do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$status" = installed ] || echo "$package"
    done
}

install_packages() {
    wanted=$(missing)
    [ -n "$wanted" ] || return 0
    command -v apt-get >/dev/null || die "this is no Debian; install these by hand: $(echo $wanted)"
    [ "$(id -u)" = 0 ] || die "run as root, or first: apt-get install --no-install-recommends $(echo $wanted)"
    say "apt-get install $(echo $wanted)"
    keep_daemons_down
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || say "apt-get update failed; trying with what is known"
    # shellcheck disable=SC2086  # one word per package
    apt-get install -y -qq --no-install-recommends $wanted >/tmp/nova-lite-apt.$$ 2>&1 ||
        { tail -20 /tmp/nova-lite-apt.$$ >&2; die "apt-get failed"; }
    rm -f /tmp/nova-lite-apt.$$
}

# Debian starts a daemon when it is installed, unless this file says no
keep_daemons_down() {
    [ -e /usr/sbin/policy-rc.d ] && return 0
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod 755 /usr/sbin/policy-rc.d
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
}

install_python() {
    stamp=$venv/.installed
    if [ -e "$stamp" ] && [ "$stamp" -nt setup.cfg ] && [ "$stamp" -nt pyproject.toml ] &&
        "$venv/bin/python" -c 'import nova_lite' 2>/dev/null; then
        return 0
    fi
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$python is older than Python 3.11"
    [ -x "$venv/bin/pip" ] || { say "making $venv"; "$python" -m venv "$venv"; }
    say "pip install -e .[libvirt,console,test] (a minute or two)"
    "$venv/bin/pip" install -q --disable-pip-version-check -e '.[libvirt,console,test]'
    touch "$stamp"
}

install_packages
install_python
