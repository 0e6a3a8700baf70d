#!/bin/sh
# End a standalone cloud for good: its process, its guests, its libvirtd, DHCP servers and bridges. The files stay. It also ends
# what the five services have left on this machine, once they are stopped: guests of the system's libvirtd, DHCP servers, bridges.
#
#   tools/standalone-down.sh [STATE]        default: /var/lib/nova_lite
set -eu

state=${1:-/var/lib/nova_lite}
[ -e "$state/clouds.yaml" ] || { echo "no standalone cloud in $state" >&2; exit 1; }
state=$(cd "$state" && pwd)
lock=$(cd "$state" && pwd -P)/lock

# The cloud itself may have been given its directory in another spelling, so it is known by the lock that it holds. Every process
# that it started names the directory on the command line.
processes() {
    for directory in /proc/[0-9]*; do
        pid=${directory#/proc/}
        [ "$pid" != "$$" ] || continue
        case $(tr '\0' ' ' 2>/dev/null <"$directory/cmdline" || true) in
            *standalone-down*) ;;
            *nova-lite-standalone*) if holds_lock "$directory"; then echo "$pid"; fi ;;
            *qemu*[=\":\ ]"$state"/* | *dnsmasq*="$state"/* | *libvirtd*\ "$state"/* | *virtlogd*\ "$state"/*) echo "$pid" ;;
        esac
    done
}

holds_lock() {
    for descriptor in "$1"/fd/*; do
        [ "$(readlink "$descriptor" || true)" != "$lock" ] || return 0
    done
    return 1
}

for signal in TERM TERM KILL; do
    pids=$(processes)
    [ -n "$pids" ] || break
    # shellcheck disable=SC2086  # one word per process
    kill -$signal $pids 2>/dev/null || true
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -n "$(processes)" ] || break
        sleep 1
    done
done
pids=$(processes)
# shellcheck disable=SC2086  # one line
[ -z "$pids" ] || { echo "the cloud in $state is not down: still there:" $pids >&2; exit 1; }

# where the system's libvirtd held the guests it still knows them; a libvirtd of the cloud's own has gone with what it knew
for directory in "$state"/instances/????????-????-????-????-????????????; do
    uuid=$(basename "$directory")
    if virsh -q -c qemu:///system domstate "$uuid" >/dev/null 2>&1; then
        virsh -q -c qemu:///system destroy "$uuid" >/dev/null 2>&1 || true      # it was not running
        virsh -q -c qemu:///system undefine "$uuid" --managed-save --snapshots-metadata --checkpoints-metadata --keep-nvram
    fi
done

for directory in "$state"/dhcp/*/; do
    [ -d "$directory" ] || continue
    bridge=$(basename "$directory")
    if ip link show "$bridge" >/dev/null 2>&1; then
        ip link delete "$bridge"
    fi
    # what is not there need not go
    nft delete table ip "$bridge" 2>/dev/null || true
    nft delete table bridge "$bridge" 2>/dev/null || true
    nft delete table ip "$bridge-groups" 2>/dev/null || true
done
echo "the cloud in $state is down; remove the directory to forget it"
