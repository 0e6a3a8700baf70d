#!/usr/bin/env bash
# Stops what stack.sh started in STACK_DIR, by its pid files, the newest layer first. Nothing else is touched.
#
#   unstack.sh [--wipe | --nova-lite | NAME...]
#
# --wipe         also removes STACK_DIR; downloads and virtual environments in STACK_CACHE stay
# --nova-lite    only the services of nova_lite: guests run on, and the next stack.sh starts them with newer code
# NAME...        only these, by the names of their logs, e.g. cinder-api
set -eu

here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process infrastructure neutron openvswitch ovn nova_lite hosts; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
case ${1:-} in
    "" | --wipe | --nova-lite | [a-z]*) ;;
    *)
        sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
        exit 2
        ;;
esac
[ -d "$RUN" ] || die "there is no stack in $STACK_DIR"
exec 9>"$STACK_DIR/lock"
flock 9
rm -f "$STACK_DIR/stack.json"

stop_all() { # NAME... at the same time
    local name seconds
    for name; do
        # the threads of an agent's OpenFlow library never end
        case $name in *ovs-agent) seconds=3 ;; *) seconds=20 ;; esac
        stop "$name" $seconds 9>&- &
    done
    wait
}

# daemons that are not NAME...
others() {
    local file name
    for file in "$RUN"/*.pid; do
        name=$(basename "$file" .pid)
        case " $* * " in
            *" $name "*) ;;
            *) echo "$name" ;;
        esac
    done
}

case ${1:-} in
    --nova-lite) set -- nova-lite-api nova-lite-api-metadata nova-lite-compute nova-lite-compute-host2 nova-lite-scheduler \
        nova-lite-conductor nova-lite-novncproxy nova-lite-serialproxy ;;
esac
case ${1:-} in
    [a-z]*)
        stop_all "$@"
        say "stopped: $*"
        exit 0
        ;;
esac

below=(host2-ovsdb host2-ovs-vswitchd ovn-ovsdb ceph-mon ceph-mgr ceph-osd ovsdb ovs-vswitchd mysql rabbitmq epmd memcached)
namespaces=
if alive ovsdb && alive mysql; then namespaces=$(list_namespaces); fi
# shellcheck disable=SC2046  # one word per daemon
stop_all $(others "${below[@]}")
if [ -f "$RUN/libvirt.up" ]; then
    libvirt_host down >/dev/null || die "libvirtd and its guests could not be stopped; nothing below them was touched"
    rm -f "$RUN/libvirt.up"
fi
if two_hosts; then stop_host2; fi
# shellcheck disable=SC2086  # one word per namespace
end_agent_children $namespaces
remove_bridges
stop_all ceph-mgr ceph-osd ovs-vswitchd rabbitmq mysql memcached
stop_all ceph-mon ovsdb ovn-ovsdb epmd
if [ "${1:-}" = --wipe ]; then
    rm -rf "$STACK_DIR"
    say "stopped and wiped: $STACK_DIR"
else
    say "stopped; the state stays in $STACK_DIR"
fi
