#!/usr/bin/env bash
# Tempest's API tests of Compute against nova_lite: `stack.sh --api-only` with several fake hosts, on the real Keystone, Glance,
# Neutron and Cinder. Says per module what passed and compares with tempest/expected.txt.
#
#   tempest.sh [--min VERSION] [--max VERSION] [--concurrency N] [--keep] [REGEX]
#
# --min, --max     [compute] min_microversion and max_microversion of tempest.conf; '' is none: tests of 2.1 only (latest)
# --concurrency    processes of Tempest (2)
# --keep           leave the stack running; the next run takes it up, with the code of that moment
# REGEX            which tests of tempest.api.compute and tempest.serial_tests.api.compute; all by default
#
# STACK_DIR (~/.cache/nova_lite/tempest) and STACK_PORT_BASE (25000) are a stack of its own. The results are in
# $STACK_DIR/tempest/results.txt: status, seconds, test, reason. Exit status 1 when they are not what was expected.
set -eu

usage() {
    sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

minimum='' maximum=latest concurrency=2 keep='' regex='^tempest\.(serial_tests\.)?api\.compute\.' whole=--whole
while [ $# -gt 0 ]; do
    case $1 in
        --min) minimum=${2:?} && shift ;;
        --max) maximum=${2?} && shift ;;
        --concurrency) concurrency=${2:?} && shift ;;
        --keep) keep=yes ;;
        -*) usage ;;
        *) regex="^(?=tempest\.(serial_tests\.)?api\.compute\.).*($1)" whole='' ;;
    esac
    shift
done
export STACK_DIR=${STACK_DIR:-${NOVA_LITE_CACHE:-$HOME/.cache/nova_lite}/tempest} STACK_PORT_BASE=${STACK_PORT_BASE:-25000}
export STACK_FAKE_HOSTS=${STACK_FAKE_HOSTS:-3} STACK_KIND=api STACK_NOVA_LITE=yes

here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process packages seed tempest; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done

if [ -d "$RUN" ]; then "$here/unstack.sh" --nova-lite >/dev/null; fi
"$here/stack.sh" --api-only
make_directories
[ -n "$keep" ] || trap '"$here/unstack.sh"' EXIT
step tempest-venv "Tempest in $TEMPEST_VENV" install_tempest
step tempest-conf "images; $TEMPEST_DIR/etc/tempest.conf" configure_tempest "$minimum" "$maximum"
say "Tempest runs; its words are in $TEMPEST_DIR/run.log"
run_tempest "$regex" "$concurrency"
say "Tempest has ended; results in $TEMPEST_DIR/results.txt"
expected=$here/tempest/expected.txt
tempest_results compare "$TEMPEST_DIR/results.txt" "$expected" $whole
