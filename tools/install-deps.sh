#!/bin/sh
# Install what is missing: the Debian packages of bindep.txt and a virtual environment with nova_lite in it.
#
#   tools/install-deps.sh run|test [VENV]       default: .venv of the checkout
#
# `run` leaves out what only the tests need: packages of the profile "test" in bindep.txt, the extra "test" of setup.cfg.
# Does nothing when all is there, so `make run` and `make test` begin with it. PYTHON names the interpreter (3.11 or newer).
# No daemon is started by the installation: tests and the standalone cloud start private ones.
set -eu

cd "$(dirname "$0")/.."
purpose=${1:?run or test}
venv=${2:-.venv}
python=${PYTHON:-python3}

say() { echo "install: $*"; }
die() { echo "install: $*" >&2; exit 1; }

wanted_packages() {
    if [ "$purpose" = test ]; then cat bindep.txt; else grep -v '\[.*\<test\]' bindep.txt; fi |
        sed -n 's/^\([a-z][a-z0-9.+-]*\) *\(\[.*\)\{0,1\}$/\1/p'
}

missing() {
    wanted_packages | while read -r package; do
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
    is_current test || { [ "$purpose" = run ] && is_current run; } || make_venv
}

# what the tests need is more than what it takes to run
is_current() {
    stamp=$venv/.installed-$1
    [ -e "$stamp" ] && [ "$stamp" -nt setup.cfg ] && [ "$stamp" -nt pyproject.toml ] &&
        "$venv/bin/python" -c 'import nova_lite' 2>/dev/null
}

make_venv() {
    extras=libvirt,console
    [ "$purpose" = run ] || extras=$extras,test
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$python is older than Python 3.11"
    [ -x "$venv/bin/pip" ] || { say "making $venv"; "$python" -m venv "$venv"; }
    say "pip install -e .[$extras] (a minute or two)"
    "$venv/bin/pip" install -q --disable-pip-version-check -e ".[$extras]"
    touch "$venv/.installed-$purpose"
}

install_packages
install_python
