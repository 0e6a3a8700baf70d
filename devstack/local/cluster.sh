#!/usr/bin/env bash
# nova_lite on clusters, on one machine: three nodes of RabbitMQ, three of MariaDB (Galera) behind HAProxy, a primary and a standby
# of PostgreSQL, two of each control service, fake hosts. As root, on Debian 12. Idempotent.
#
#   cluster.sh up [--engines-only]      start what does not run (--engines-only: no service of nova_lite)
#   cluster.sh down [--wipe]            stop all (--wipe: remove STACK_DIR, too)
#   cluster.sh status                   each node: up, hung, cut off, down
#   cluster.sh kill|start NODE          SIGKILL; start it again, as a member of its cluster
#   cluster.sh hang|resume NODE         SIGSTOP; SIGCONT
#   cluster.sh cut|join NODE            pull its network cable; plug it in again
#                                       (resume and join wait until a node of MariaDB is a member of its cluster again)
#   cluster.sh promote                  the standby of PostgreSQL becomes the primary
#
# NODE is rabbit-1, rabbit-2, rabbit-3, maria-1, maria-2, maria-3, postgres-1 or postgres-2. Each has a network namespace of its own.
# STACK_DIR (/var/lib/nova-lite-cluster) holds state, logs and pid files; STACK_PORT_BASE (22000) is the first of 100 TCP ports.
set -eu

export STACK_DIR=${STACK_DIR:-/var/lib/nova-lite-cluster} STACK_PORT_BASE=${STACK_PORT_BASE:-22000} STACK_KIND=api
here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process packages common_conf cluster_nodes cluster_services; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
usage() {
    sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
[ "$(id -u)" = 0 ] || die "run as root"
what=${1:-} about=${2:-}
case $what in
    up | down | status | promote) ;;
    kill | start | hang | resume | cut | join) is_node "$about" || usage ;;
    *) usage ;;
esac

make_directories
exec 9>"$STACK_DIR/lock"
flock 9
case $what in
    up)
        # shellcheck disable=SC2034  # install_packages reads it
        PACKAGES_API=(python3-venv curl iproute2 rabbitmq-server mariadb-server galera-4 rsync lsof haproxy postgresql)
        step packages "Debian packages" install_packages
        step network "namespaces of the nodes" plug_nodes
        for kind in rabbit maria postgres; do begin "$kind" "$kind: all nodes" "start_all_$kind"; done
        for kind in rabbit maria postgres; do finish "$kind"; done
        step haproxy "HAProxy before MariaDB" start_haproxy
        if [ "$about" != --engines-only ]; then
            step nova-lite-venv "nova_lite in $CLUSTER_VENV" install_cluster_venv
            step nova-lite "nova_lite: two of each control service" start_services
            say "the API answers at http://$STACK_HOST:$P_COMPUTE; clouds.yaml is in $DATA/nova_lite"
        fi
        ;;
    down)
        stop_services
        stop haproxy
        stop_nodes
        if [ "$about" = --wipe ]; then rm -rf "$STACK_DIR"; fi
        ;;
    status) for node in "${NODES[@]}"; do printf '%-11s %-14s %s\n' "$node" "$(node_address "$node")" "$(state_of "$node")"; done ;;
    kill) send_signal KILL "$about" ;;
    start) start_node "$about" ;;
    hang) send_signal STOP "$about" ;;
    resume)
        send_signal CONT "$about"
        wait_for_member "$about"
        ;;
    cut) ip link set "nl-$about" down ;;
    join)
        ip link set "nl-$about" up
        wait_for_member "$about"
        ;;
    promote) promote_standby ;;
esac
