# shellcheck shell=bash
# Where everything is, which ports it uses. Each name can be set in the environment. Nothing is started here.

STACK_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
STACK_SOURCE=$(cd "$STACK_HERE/../.." && pwd)
export STACK_HERE STACK_SOURCE

# state, logs and pids of one stack; what is the same for all stacks of a machine (downloads, virtual environments, schemas)
export STACK_DIR=${STACK_DIR:-/var/lib/nova-lite-stack}
export STACK_CACHE=${STACK_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/nova_lite/stack}
# a second run in the same directory keeps the ports and the kind of the first
# shellcheck source=/dev/null
[ ! -f "$STACK_DIR/settings.env" ] || . "$STACK_DIR/settings.env"
export STACK_PYTHON=${STACK_PYTHON:-python3}
export STACK_VENV=${STACK_VENV:-$STACK_CACHE/venv}
export BIN=$STACK_VENV/bin ETC=$STACK_DIR/etc LOG=$STACK_DIR/log RUN=$STACK_DIR/run DATA=$STACK_DIR/data

export STACK_HOSTS=${STACK_HOSTS:-1}                    # compute hosts: this machine, and a namespace (hosts.sh)
if [ "$STACK_HOSTS" = 2 ]; then STACK_HOST=${STACK_HOST:-192.168.99.1}; fi
export STACK_NETWORK=${STACK_NETWORK:-ovs}              # what is below Neutron: ovs (its agents), ovn
export STACK_HOST=${STACK_HOST:-127.0.0.1}              # where the services listen
export STACK_PORT_BASE=${STACK_PORT_BASE:-21000}
export STACK_REGION=${STACK_REGION:-RegionOne}
export STACK_WORKERS=${STACK_WORKERS:-2}                # processes of each API
export STACK_NODE=${STACK_NODE:-$(uname -n)}            # name of this machine for agents and for nova-lite-compute

port() { echo $((STACK_PORT_BASE + $1)); }
P_MYSQL=$(port 1) P_AMQP=$(port 2) P_AMQP_DIST=$(port 3) P_EPMD=$(port 4) P_MEMCACHED=$(port 5)
P_KEYSTONE=$(port 10) P_GLANCE=$(port 11) P_NEUTRON=$(port 12) P_CINDER=$(port 13) P_COMPUTE=$(port 14) P_METADATA=$(port 15)
P_BARBICAN=$(port 16) P_NOVNC=$(port 17) P_SERIAL=$(port 18) P_SERIAL_GUESTS=$(port 19)
P_OVSDB=$(port 20) P_OPENFLOW=$(port 21) P_CEPH_MON=$(port 22) P_CEPH_MON1=$(port 23) P_CEPH_FIRST=$(port 30) P_OVN=$(port 24)
export P_MYSQL P_AMQP P_AMQP_DIST P_EPMD P_MEMCACHED P_KEYSTONE P_GLANCE P_NEUTRON P_CINDER P_COMPUTE P_METADATA P_BARBICAN
export P_NOVNC P_SERIAL P_SERIAL_GUESTS P_OVSDB P_OPENFLOW P_CEPH_MON P_CEPH_MON1 P_CEPH_FIRST P_OVN

# Services run as root; Cinder and os-brick insist on the word sudo, so there is a shim of that name.
export PATH=$STACK_DIR/bin:$BIN:$PATH:/usr/local/sbin:/usr/sbin:/sbin
export PYTHONPATH=$STACK_DIR/plugins
export PYTHONWARNINGS=ignore
unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY

# Directories and the secret of this stack.
make_directories() {
    mkdir -p "$STACK_DIR" "$STACK_CACHE"
    mkdir -p "$ETC" "$LOG" "$RUN" "$DATA" "$STACK_DIR/bin" "$STACK_DIR/plugins"
    chmod 700 "$ETC"
    chmod 711 "$STACK_DIR" "$DATA"      # qemu and libvirt pass through, also while the stack starts once more
    [ -s "$STACK_DIR/password" ] || (umask 077 && od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$STACK_DIR/password")
    cat >"$STACK_DIR/bin/sudo" <<'EOF'
#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
exec "$@"
EOF
    chmod 755 "$STACK_DIR/bin/sudo"
}

# What a later run must know.
remember_settings() {
    cat >"$STACK_DIR/settings.env" <<EOF
STACK_HOST=\${STACK_HOST:-$STACK_HOST}
STACK_PORT_BASE=$STACK_PORT_BASE
STACK_REGION=$STACK_REGION
STACK_NODE=\${STACK_NODE:-$STACK_NODE}
STACK_KIND=$STACK_KIND
STACK_HOSTS=$STACK_HOSTS
STACK_NETWORK=$STACK_NETWORK
STACK_VENV=\${STACK_VENV:-$STACK_VENV}
STACK_RUNNING_VENV=$STACK_NOVA_LITE_VENV
EOF
}

password() { cat "$STACK_DIR/password"; }
database_url() { echo "mysql+pymysql://stack:$(password)@$STACK_HOST:$P_MYSQL/$1?charset=utf8mb4"; }
broker_url() { echo "rabbit://stack:$(password)@$STACK_HOST:$P_AMQP/"; }
keystone_url() { echo "http://$STACK_HOST:$P_KEYSTONE/v3"; }
