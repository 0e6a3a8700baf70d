# shellcheck shell=bash
# nova_lite itself: its virtual environment, database, libvirtd and services.

# the operator's own options are in the second file, which no start writes again
NOVA_LITE_CONF=$ETC/nova_lite/nova-lite.conf LOCAL_CONF=$ETC/nova_lite/local.conf
VENDOR_DATA=$ETC/nova_lite/vendor_data.json
# unstack.sh and check.sh take that which stack.sh used last; stack.sh itself one per checkout
if [ "$(basename "$0")" != stack.sh ]; then STACK_NOVA_LITE_VENV=${STACK_RUNNING_VENV:-}; fi
if [ -z "${STACK_NOVA_LITE_VENV:-}" ]; then
    STACK_NOVA_LITE_VENV=$STACK_CACHE/nova-lite-$(echo "$STACK_SOURCE" | sha256sum | cut -c1-8)
fi
export STACK_NOVA_LITE_VENV

nova_lite_pins() { cat "$STACK_SOURCE/setup.cfg" "$STACK_HERE/constraints.txt" | sha256sum | cut -c1-16; }

install_nova_lite() {
    local venv=$STACK_NOVA_LITE_VENV extras=mysql
    [ "$STACK_KIND" = api ] || extras=mysql,libvirt,encryption,console
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
    [ "$STACK_KIND" = api ] || driver=libvirt
    [ "$STACK_KIND$STACK_HOSTS" != real1 ] || same_host=True    # there is no other
    mkdir -p "$ETC/nova_lite" "$DATA/nova_lite"
    chmod 711 "$DATA/nova_lite"     # qemu passes through to the disks
    echo '{"stack": "nova-lite"}' >"$VENDOR_DATA"
    [ -f "$LOCAL_CONF" ] || echo "# options of yours: stack.sh does not change this file" >"$LOCAL_CONF"
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
vendor_data_file = $VENDOR_DATA
[compute]
driver = $driver
allow_resize_to_same_host = $same_host
[fake]
hosts = ${STACK_FAKE_HOSTS:-1}
[libvirt]
connection_uri = qemu+unix:///system?socket=$STACK_DIR/libvirt/run/libvirt-sock
live_migration_uri = qemu+unix:///system?socket=$STACK_DIR/libvirt/run/libvirt-sock
[console]
server_listen = \$my_ip
proxy_listen = $STACK_HOST
[vnc]
novncproxy_port = $P_NOVNC
novncproxy_base_url = http://$STACK_HOST:$P_NOVNC/vnc_lite.html
[serial_console]
enabled = $( [ "$driver" = libvirt ] && echo True || echo False)
serialproxy_port = $P_SERIAL
base_url = ws://$STACK_HOST:$P_SERIAL/
server_port = $P_SERIAL_GUESTS
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
    nova_lite_program nova-lite-manage --config-file "$NOVA_LITE_CONF" --config-file "$LOCAL_CONF" db sync
    for name in conductor scheduler compute api api-metadata $([ "$STACK_KIND" = api ] || echo novncproxy serialproxy); do
        start "nova-lite-$name" env -u PYTHONPATH "$STACK_NOVA_LITE_VENV/bin/nova-lite-$name" --config-file "$NOVA_LITE_CONF" \
            --config-file "$LOCAL_CONF"
    done
    wait_until nova-lite-api 60 answers "http://$STACK_HOST:$P_COMPUTE/"
    wait_until nova-lite-api-metadata 60 answers "http://$STACK_HOST:$P_METADATA/healthcheck"
    wait_until nova-lite-compute 60 compute_is_up "$STACK_NODE"
    if [ "$STACK_KIND" != api ]; then
        wait_until nova-lite-novncproxy 60 answers "http://$STACK_HOST:$P_NOVNC/vnc_lite.html"
        wait_until nova-lite-serialproxy 60 answers "http://$STACK_HOST:$P_SERIAL/"
    fi
    seed compute
}

compute_is_up() { # HOST
    nova_lite_program nova-lite-manage --config-file "$NOVA_LITE_CONF" service list 2>/dev/null |
        grep -E "nova-compute.*\b$1\b.*\bup\b" >/dev/null
}
