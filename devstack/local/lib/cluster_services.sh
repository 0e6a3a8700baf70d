# shellcheck shell=bash
# nova_lite on the clusters of cluster.sh: two of each control service, and one daemon with three fake hosts.

CLUSTER_VENV=$STACK_SOURCE/.venv P_API_1=$(port 31) P_API_2=$(port 32)
NOVA_LITE_CONF=$ETC/nova_lite/nova-lite.conf
SERVICES=(conductor-1 conductor-2 scheduler-1 scheduler-2 compute-1 api-1 api-2)

install_cluster_venv() { [ -x "$CLUSTER_VENV/bin/nova-lite-api" ] || make -s -C "$STACK_SOURCE" install; }

cluster_program() { # NAME ARGUMENT...
    local name=$1
    shift
    env -u PYTHONPATH "$CLUSTER_VENV/bin/$name" "$@"
}

configure_services() {
    local name
    mkdir -p "$ETC/nova_lite" "$DATA/nova_lite"
    cat >"$NOVA_LITE_CONF" <<EOF
[DEFAULT]
$(conf_log)
transport_url = rabbit://$(addresses "stack:$(password)@" 5672 "${RABBITS[@]}")/
state_path = $DATA/nova_lite
[database]
connection = $(database_url nova_lite)
[api]
auth_strategy = embedded
listen = $STACK_HOST
port = $P_COMPUTE
[compute]
driver = fake
[fake]
hosts = 3
[network]
driver = fake
EOF
    for name in "${SERVICES[@]}"; do printf '[DEFAULT]\nhost = %s\n' "$name" >"$ETC/nova_lite/$name.conf"; done
    printf '[api]\nport = %s\n' "$P_API_1" >>"$ETC/nova_lite/api-1.conf"
    printf '[api]\nport = %s\n' "$P_API_2" >>"$ETC/nova_lite/api-2.conf"
}

start_services() {
    local name
    configure_services
    node_sql maria-1 -e "CREATE DATABASE IF NOT EXISTS nova_lite CHARACTER SET utf8mb4"
    cluster_program nova-lite-manage --config-file "$NOVA_LITE_CONF" db sync
    cluster_program nova-lite-manage --config-file "$NOVA_LITE_CONF" embedded setup
    for name in "${SERVICES[@]}"; do
        start "nova-lite-$name" env -u PYTHONPATH "$CLUSTER_VENV/bin/nova-lite-${name%-*}" --config-file "$NOVA_LITE_CONF" \
            --config-file "$ETC/nova_lite/$name.conf"
    done
    wait_until nova-lite-api-1 60 answers "http://$STACK_HOST:$P_COMPUTE/healthcheck"
}

stop_services() {
    local name
    for name in "${SERVICES[@]}"; do stop "nova-lite-$name" 20 9>&- & done
    wait
}
