# shellcheck shell=bash
# nova_lite itself: its virtual environment, database, libvirtd and services.

NOVA_LITE_CONF=$ETC/nova_lite/nova-lite.conf
# unstack.sh and check.sh take that which stack.sh used last; stack.sh itself one per checkout
if [ "$(basename "$0")" != stack.sh ]; then STACK_NOVA_LITE_VENV=${STACK_RUNNING_VENV:-}; fi
if [ -z "${STACK_NOVA_LITE_VENV:-}" ]; then
    STACK_NOVA_LITE_VENV=$STACK_CACHE/nova-lite-$(echo "$STACK_SOURCE" | sha256sum | cut -c1-8)
fi
export STACK_NOVA_LITE_VENV

nova_lite_pins() { cat "$STACK_SOURCE/setup.cfg" "$STACK_HERE/constraints.txt" | sha256sum | cut -c1-16; }

install_nova_lite() {
    local venv=$STACK_NOVA_LITE_VENV extras=mysql
    [ "$STACK_KIND" = api ] || extras=mysql,libvirt,encryption
    # a virtual environment that others made is taken as it is
    if [ -x "$venv/bin/nova-lite-api" ] && [ ! -f "$venv/.pins" ]; then return 0; fi
    [ "$(cat "$venv/.pins" 2>/dev/null)" != "$extras $(nova_lite_pins)" ] || return 0
    "$STACK_PYTHON" -m venv "$venv"
    "$BIN/uv" pip install --compile-bytecode --python "$venv/bin/python" -c "$STACK_HERE/constraints.txt" \
        -e "${STACK_SOURCE}[$extras]"
    echo "$extras $(nova_lite_pins)" >"$venv/.pins"
}

nova_lite_program() { # NAME ARGUMENT...: without what the neighbours need in their environment
    local name=$1
    shift
    env -u PYTHONPATH "$STACK_NOVA_LITE_VENV/bin/$name" "$@"
}

configure_nova_lite() {
    local driver=fake same_host=False
    [ "$STACK_KIND" = api ] || driver=libvirt same_host=True    # there is no other
    mkdir -p "$ETC/nova_lite" "$DATA/nova_lite"
    chmod 711 "$DATA" "$DATA/nova_lite"     # qemu passes through to the disks
    cat >"$NOVA_LITE_CONF" <<EOF
[DEFAULT]
$(conf_log)
host = $STACK_NODE
my_ip = $STACK_HOST
transport_url = $(broker_url)
state_path = $DATA/nova_lite
[database]
connection = $(database_url nova_lite)
[api]
auth_strategy = keystone
listen = $STACK_HOST
port = $P_COMPUTE
[metadata]
listen = $STACK_HOST
port = $P_METADATA
shared_secret = $(password)
[compute]
driver = $driver
allow_resize_to_same_host = $same_host
[fake]
hosts = ${STACK_FAKE_HOSTS:-1}
[libvirt]
connection_uri = qemu+unix:///system?socket=$STACK_DIR/libvirt/run/libvirt-sock
[image]
driver = glance
[network]
driver = neutron
[volume]
driver = cinder
[barbican]
barbican_region_name = $STACK_REGION
[service_user]
$(conf_credentials nova_lite | sed 's/^region_name.*//')
region_name = $STACK_REGION
$(conf_authtoken nova_lite)
EOF
}

# The private libvirtd of nova_lite: up|down
libvirt_host() {
    (cd / && nova_lite_program python "$STACK_HERE/libvirt_host.py" "$1" "$STACK_DIR/libvirt" "$STACK_NODE")
}

tiny_image() { (cd "$STACK_SOURCE" && nova_lite_program python -m tests.guest); }

start_libvirt() {
    libvirt_host up
    touch "$RUN/libvirt.up"
}

start_nova_lite() {
    local name
    sql -e "CREATE DATABASE IF NOT EXISTS nova_lite CHARACTER SET utf8mb4"
    nova_lite_program nova-lite-manage --config-file "$NOVA_LITE_CONF" db sync
    for name in conductor scheduler compute api api-metadata; do
        start "nova-lite-$name" env -u PYTHONPATH "$STACK_NOVA_LITE_VENV/bin/nova-lite-$name" --config-file "$NOVA_LITE_CONF"
    done
    wait_until nova-lite-api 60 answers "http://$STACK_HOST:$P_COMPUTE/"
    wait_until nova-lite-api-metadata 60 answers "http://$STACK_HOST:$P_METADATA/healthcheck"
    wait_until nova-lite-compute 60 compute_is_up
    seed compute
}

compute_is_up() {
    nova_lite_program nova-lite-manage --config-file "$NOVA_LITE_CONF" service list 2>/dev/null |
        grep -E 'nova-compute.*\bup\b' >/dev/null
}
