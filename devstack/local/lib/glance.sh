# shellcheck shell=bash
# Glance, with its images in a directory.

export OS_GLANCE_CONFIG_DIR=$ETC/glance

configure_glance() {
    mkdir -p "$ETC/glance" "$DATA/glance"/{images,staging,tasks}
    cp "$STACK_VENV/etc/glance/glance-api-paste.ini" "$ETC/glance/"
    cat >"$ETC/glance/glance-api.conf" <<EOF
[DEFAULT]
$(conf_log)
enabled_backends = files:file
transport_url = $(broker_url)
workers = $STACK_WORKERS
node_staging_uri = file://$DATA/glance/staging
$(conf_database glance)
[glance_store]
default_backend = files
[files]
filesystem_store_datadir = $DATA/glance/images
[os_glance_staging_store]
filesystem_store_datadir = $DATA/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = $DATA/glance/tasks
$(conf_authtoken glance)
[paste_deploy]
flavor = keystone
config_file = $ETC/glance/glance-api-paste.ini
$(conf_no_notifications)
EOF
}

create_glance_schema() { "$BIN/glance-manage" --config-file "$ETC/glance/glance-api.conf" db_sync; }

start_glance() {
    start_wsgi glance glance.wsgi.api "$P_GLANCE"
    wait_until glance 90 answers "http://$STACK_HOST:$P_GLANCE/"
    seed image
}
