#!/usr/bin/env bash
# Uses the cloud of stack.sh as a tenant would, with the stock openstack command, and says OK or FAILED for each thing seen.
#
#   check.sh [guests] [volumes]         default: both
#
# guests:  image upload, network, subnet, router, security group, key, two guests (on two hosts, where there are two): DHCP,
#          metadata, vendor data, user data and a posted password through Neutron, ssh to a floating IP, ping between them, a rule
#          that opens and closes ssh, their consoles through the proxies
# volumes: create, attach, write and read in the guest, detach, boot from volume, delete with and without delete_on_termination,
#          boot from an encrypted volume; nothing left behind in Cinder, in Neutron, on disk
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process infrastructure neutron openvswitch ovn nova_lite hosts check check_guests check_volumes; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
[ -f "$STACK_DIR/stack.json" ] || die "there is no running stack in $STACK_DIR"

[ $# -gt 0 ] || set -- guests volumes
begin_checks
trap 'clean_up; rm -rf "$WORK"' EXIT
set_up
for part; do
    case $part in
        guests) check_guests ;;
        volumes) check_volumes ;;
        *) die "check.sh: $part?" ;;
    esac
done
clean_up
check "no volume is left" try 30 no_names volume
check_leftovers
trap 'rm -rf "$WORK"' EXIT
end_checks
