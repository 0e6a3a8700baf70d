# shellcheck shell=bash
# Cinder: on RBD, or (kind "api") on a backend that stores nothing.

configure_cinder() {
    local backend=rbd
    [ "$STACK_KIND" = real ] || backend=dataless
    mkdir -p "$ETC/cinder" "$DATA/cinder" "$DATA/locks"
    cat >"$ETC/cinder/rootwrap.conf" <<EOF
[DEFAULT]
filters_path = $STACK_VENV/etc/cinder/rootwrap.d
exec_dirs = $BIN,/usr/local/sbin,/usr/local/bin,/usr/sbin,/usr/bin,/sbin,/bin
use_syslog = False
EOF
    cat >"$ETC/cinder/cinder.conf" <<EOF
[DEFAULT]
$(conf_log)
auth_strategy = keystone
transport_url = $(broker_url)
api_paste_config = $STACK_VENV/etc/cinder/api-paste.ini
resource_query_filters_file = $STACK_VENV/etc/cinder/resource_filters.json
state_path = $DATA/cinder
my_ip = $STACK_HOST
host = $STACK_NODE
enabled_backends = $backend
default_volume_type = $backend
osapi_volume_workers = $STACK_WORKERS
glance_api_servers = http://$STACK_HOST:$P_GLANCE
rootwrap_config = $ETC/cinder/rootwrap.conf
enable_new_services = True
# QEMU, which formats encrypted volumes, cannot always measure a busy machine: one in five failed
scheduler_max_attempts = 10
quota_volumes = -1
quota_snapshots = -1
quota_gigabytes = -1
[dataless]
volume_driver = stack_cinder.DatalessDriver
volume_backend_name = dataless
[rbd]
volume_driver = cinder.volume.drivers.rbd.RBDDriver
volume_backend_name = rbd
rbd_pool = volumes
rbd_ceph_conf = $ETC/ceph/ceph.conf
rbd_exclusive_cinder_pool = True
$(conf_database cinder)
$(conf_authtoken cinder)
[key_manager]
backend = barbican
[barbican]
barbican_endpoint = http://$STACK_HOST:$P_BARBICAN
auth_endpoint = $(keystone_url)
[nova]
interface = public
$(conf_credentials cinder)
[service_user]
send_service_user_token = True
$(conf_credentials cinder)
[oslo_concurrency]
lock_path = $DATA/locks
$(conf_no_notifications)
EOF
}

create_cinder_schema() { "$BIN/cinder-manage" --config-file "$ETC/cinder/cinder.conf" db sync; }

start_cinder() {
    local conf=(--config-file "$ETC/cinder/cinder.conf")
    WSGI_ARGUMENTS="${conf[*]}" start_wsgi cinder-api cinder.wsgi.api "$P_CINDER"
    start cinder-scheduler "$BIN/cinder-scheduler" "${conf[@]}"
    start cinder-volume "$BIN/cinder-volume" "${conf[@]}"
    wait_until cinder-api 120 answers "http://$STACK_HOST:$P_CINDER/"
    seed volume
}
