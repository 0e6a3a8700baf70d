#!/bin/sh
# End a standalone cloud for good: its process, its guests, its libvirtd, DHCP servers and bridges. The files stay.
#
#   tools/standalone-down.sh [STATE]        default: /var/lib/nova_lite
set -eu

state=${1:-/var/lib/nova_lite}
[ -e "$state/clouds.yaml" ] || { echo "no standalone cloud in $state" >&2; exit 1; }
state=$(cd "$state" && pwd)

# every process that was started for this cloud names its directory on the command line
processes() {
    for directory in /proc/[0-9]*; do
        pid=${directory#/proc/}
        [ "$pid" != "$$" ] || continue
        case $(tr '\0' ' ' 2>/dev/null <"$directory/cmdline" || true) in
            *standalone-down*) ;;
            *nova-lite-standalone*" $state "*) echo "$pid" ;;
            *qemu*[=\":\ ]"$state"/* | *dnsmasq*="$state"/* | *libvirtd*\ "$state"/* | *virtlogd*\ "$state"/*) echo "$pid" ;;
        esac
    done
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

for directory in "$state"/dhcp/*/; do
    bridge=$(basename "$directory")
    if ip link show "$bridge" >/dev/null 2>&1; then
        ip link delete "$bridge"
        nft delete table ip "$bridge" 2>/dev/null || true
        nft delete table bridge "$bridge" 2>/dev/null || true
    fi
done
echo "the cloud in $state is down; remove the directory to forget it"
