#!/usr/bin/env bash
# The power of the second host of `stack.sh --hosts 2`.
#
#   host2.sh off      all its processes die at once, and its devices are gone
#   host2.sh on       its switch, agent, libvirtd and nova-lite-compute start again
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process infrastructure neutron openvswitch ovn nova_lite hosts; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
two_hosts || die "the stack in $STACK_DIR has one host"
case ${1:-} in
    off) power_off_host2 ;;
    on) step host2 "the second host: Open vSwitch, agent, libvirtd, nova-lite-compute" start_host2 ;;
    *)
        sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
