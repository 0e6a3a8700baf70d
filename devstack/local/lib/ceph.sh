# shellcheck shell=bash
# Ceph with one monitor, one manager and one OSD on a sparse file, without authentication: where Cinder's volumes are.

export CEPH_CONF=$ETC/ceph/ceph.conf

new_uuid() { cat /proc/sys/kernel/random/uuid; }

configure_ceph() {
    local store=$DATA/ceph
    mkdir -p "$store"/{mon,mgr,osd} "$ETC/ceph"
    [ -f "$store/fsid" ] || new_uuid >"$store/fsid"
    [ -f "$store/osd.uuid" ] || new_uuid >"$store/osd.uuid"
    cat >"$CEPH_CONF" <<EOF
[global]
fsid = $(cat "$store/fsid")
mon_host = [v2:$STACK_HOST:$P_CEPH_MON,v1:$STACK_HOST:$P_CEPH_MON1]
public_network = $STACK_HOST/8
public_addr = $STACK_HOST
cluster_addr = $STACK_HOST
ms_bind_port_min = $P_CEPH_FIRST
ms_bind_port_max = $((P_CEPH_FIRST + 40))
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 5
mon_data_avail_crit = 2
run_dir = $RUN
admin_socket = $RUN/\$name.asok
log_file = $LOG/ceph-\$name.log
mon_data = $store/mon
mgr_data = $store/mgr
osd_data = $store/osd
osd_objectstore = bluestore
bluestore_block_size = ${STACK_CEPH_BYTES:-21474836480}
bluestore_cache_autotune = false
bluestore_cache_size = 67108864
osd_memory_target = 939524096
osd_max_pg_log_entries = 200
osd_min_pg_log_entries = 50
mgr_initial_modules =
rbd_default_features = 61
EOF
}

osd_is_up() { timeout 10 ceph osd stat 2>/dev/null | grep -q '1 up'; }

start_ceph() {
    local store=$DATA/ceph
    lend_bindings
    if [ ! -f "$store/mon.done" ]; then
        monmaptool --create --clobber --addv a "[v2:$STACK_HOST:$P_CEPH_MON,v1:$STACK_HOST:$P_CEPH_MON1]" \
            --fsid "$(cat "$store/fsid")" "$store/monmap"
        ceph-mon --mkfs -i a --monmap "$store/monmap"
        touch "$store/mon.done"
    fi
    start ceph-mon "$(command -v ceph-mon)" -f -i a -c "$CEPH_CONF"
    wait_until ceph-mon 60 port_open "$P_CEPH_MON"
    if [ ! -f "$store/osd.done" ]; then
        timeout 60 ceph osd new "$(cat "$store/osd.uuid")"
        ceph-osd -i 0 --mkfs --osd-uuid "$(cat "$store/osd.uuid")"
        touch "$store/osd.done"
    fi
    start ceph-mgr "$(command -v ceph-mgr)" -f -i x -c "$CEPH_CONF"
    start ceph-osd "$(command -v ceph-osd)" -f -i 0 -c "$CEPH_CONF"
    wait_until ceph-osd 90 osd_is_up
    timeout 30 ceph osd pool ls | grep -qx volumes || timeout 60 ceph osd pool create volumes 8
    timeout 60 rbd pool init volumes
}

# Debian's Python bindings of librbd are for the Python of Debian, which the virtual environment has too.
lend_bindings() {
    local module found
    for module in rbd rados; do
        found=$(find /usr/lib/python3/dist-packages -name "$module.cpython-*.so" | head -n 1)
        [ -n "$found" ] || { echo "Debian has no $module for Python"; return 1; }
        ln -sf "$found" "$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/"
    done
    "$BIN/python" -c 'import rbd, rados'
}
