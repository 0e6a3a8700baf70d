#!/usr/bin/env bash
# Tempest's scenarios of Compute with real guests: the cloud of stack.sh, the tiny image, ssh to floating IPs. Says how each
# test ended, looks for what servers may have left behind, compares with tempest/expected_scenario.txt,
# on two hosts with expected_two_hosts.txt.
#
#   scenario.sh [--keep] [REGEX]
#
# On a stack of two hosts also the tests of moves: scenarios and tempest.api.compute.admin.
#
# --keep    leave the stack running; one that was up before stays in any case
# REGEX     which of the tests, e.g. shelve; all by default
#
# STACK_DIR and STACK_PORT_BASE are those of stack.sh. The results are in $STACK_DIR/tempest/results.txt: status, seconds, test,
# reason. Exit status 1 when they are not what was expected, or when something is left.
set -eu

modules='minimum_basic|server_(basic|advanced)_ops|network_basic_ops|snapshot_pattern|shelve_instance|volume_boot_pattern'
modules+='|encrypted_cinder_volumes'
here=$(cd "$(dirname "$0")" && pwd)
keep='' regex='' whole=--whole expected=expected_scenario.txt
while [ $# -gt 0 ]; do
    case $1 in
        --keep) keep=yes ;;
        -*)
            sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
        *) regex=$1 whole='' ;;
    esac
    shift
done
[ ! -f "${STACK_DIR:-/var/lib/nova-lite-stack}/stack.json" ] || keep=yes

"$here/stack.sh"
[ -n "$keep" ] || trap '"$here/unstack.sh"' EXIT
for part in settings progress process packages seed infrastructure neutron openvswitch ovn nova_lite hosts check tempest; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
tests="tempest\.scenario\.test_($modules)\."
if [ "$STACK_HOSTS" = 2 ]; then
    tests+='|tempest\.scenario\.test_network_advanced_server_ops\.|tempest\.api\.compute\.admin\.test_(live_migration|migrations)\.'
    whole='' expected=expected_two_hosts.txt
fi
STACK_IMAGE=$(tiny_image)
export STACK_IMAGE STACK_KIND
step tempest-venv "Tempest in $TEMPEST_VENV" install_tempest
step tempest-conf "images; $TEMPEST_DIR/etc/tempest.conf" configure_tempest '' latest

export OS_CLIENT_CONFIG_FILE=$STACK_DIR/clouds.yaml OS_CLOUD=nova-lite
others=$(cloud server list --all-projects -f value -c ID)
no_volumes() { [ -z "$(cloud volume list --all-projects -f value -c ID)" ]; }
say "Tempest runs; its words are in $TEMPEST_DIR/run.log"
run_tempest "^(?=$tests).*($regex)" 1
say "Tempest has ended; results in $TEMPEST_DIR/results.txt"
tempest_results list "$TEMPEST_DIR/results.txt"
if [ -z "$others" ]; then
    check "no volume is left" try 30 no_volumes
    check_leftovers
else
    say "there were servers before, so nothing is said about what is left behind"
fi
wrong=0
tempest_results compare "$TEMPEST_DIR/results.txt" "$here/tempest/$expected" $whole || wrong=1
[ "$wrong$FAILED" = 00 ]
