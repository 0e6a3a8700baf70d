# shellcheck shell=bash
# Tempest: its virtual environment, its workspace, a run.

TEMPEST_VENV=$STACK_CACHE/tempest
TEMPEST_DIR=$STACK_DIR/tempest

install_tempest() {
    local pins
    pins=$(sha256sum <"$STACK_HERE/tempest/requirements.txt")
    [ "$(cat "$TEMPEST_VENV/.pins" 2>/dev/null)" != "$pins" ] || return 0
    "$STACK_PYTHON" -m venv "$TEMPEST_VENV"
    "$BIN/uv" pip install --compile-bytecode --python "$TEMPEST_VENV/bin/python" -r "$STACK_HERE/tempest/requirements.txt"
    echo "$pins" >"$TEMPEST_VENV/.pins"
}

# MINIMUM MAXIMUM, both may be empty. Kind "api": nobody can log in to a fake guest (run_validation); all else that a client can
# ask for is on, but consoles (vnc_console, spice_console; serial_console, whose test sends a str where its client wants bytes).
# Kind "real": guests of the file STACK_IMAGE, under emulation, so there is time; /tmp is not on their disk.
configure_tempest() {
    local public image other guests=False seconds=60 backend=dataless protocol=iSCSI
    if [ "$STACK_KIND" = real ]; then guests=True seconds=300 backend=rbd protocol=ceph; fi
    mkdir -p "$TEMPEST_DIR"/{etc,logs,locks}
    read -r image other public < <(seed tempest)
    cat >"$TEMPEST_DIR/.stestr.conf" <<EOF
[DEFAULT]
test_path = $("$TEMPEST_VENV/bin/python" -c 'import os, tempest; print(os.path.dirname(tempest.__file__))')/test_discover
top_dir = $("$TEMPEST_VENV/bin/python" -c 'import os, tempest; print(os.path.dirname(os.path.dirname(tempest.__file__)))')
group_regex = ([^\.]*\.)*
EOF
    (
        umask 077
        cat >"$TEMPEST_DIR/etc/tempest.conf" <<EOF
[DEFAULT]
log_dir = $TEMPEST_DIR/logs
[oslo_concurrency]
lock_path = $TEMPEST_DIR/locks
[auth]
use_dynamic_credentials = True
admin_username = admin
admin_password = $(password)
admin_project_name = admin
admin_domain_name = Default
create_isolated_networks = True
tempest_roles = member
[identity]
uri_v3 = $(keystone_url)
auth_version = v3
region = $STACK_REGION
v3_endpoint_type = public
default_domain_id = default
[identity-feature-enabled]
api_v2 = False
[service_available]
cinder = True
glance = True
neutron = True
nova = True
placement = False
swift = False
horizon = False
[enforce_scope]
nova = True
[compute]
image_ref = $image
image_ref_alt = $other
flavor_ref = 42
flavor_ref_alt = 84
${1:+min_microversion = $1}
${2:+max_microversion = $2}
min_compute_nodes = ${STACK_FAKE_HOSTS:-$STACK_HOSTS}
$([ "$STACK_HOSTS" != 2 ] || printf 'migration_source_host = %s\nmigration_dest_host = %s' "$(hostname)" host2)
build_timeout = $seconds
build_interval = 1
ready_wait = 0
[compute-feature-enabled]
resize = True
cold_migration = True
live_migration = True
live_migrate_back_and_forth = True
block_migration_for_live_migration = True
volume_backed_live_migration = True
shelve_migrate = True
rescue = True
stable_rescue = True
snapshot = True
personality = True
change_password = True
console_output = True
vnc_console = False
spice_console = False
serial_console = False
swap_volume = True
volume_multiattach = True
attach_encrypted_volume = $guests
config_drive = True
metadata_service = True
interface_attach = True
ide_bus = True
nova_policy_roles = admin,manager,member,reader,service
scheduler_enabled_filters = all
[image]
region = $STACK_REGION
[network]
public_network_id = $public
floating_network_name = public
project_network_cidr = 10.200.0.0/16
project_network_mask_bits = 26
project_networks_reachable = False
build_timeout = $seconds
[network-feature-enabled]
ipv6 = True
port_security = True
floating_ips = True
[validation]
run_validation = $guests
connect_method = floating
auth_method = keypair
image_ssh_user = root
ssh_key_type = rsa
ssh_timeout = $seconds
ping_timeout = $seconds
[scenario]
img_file = ${STACK_IMAGE:-}
img_disk_format = qcow2
dhcp_client = udhcpc
target_dir = /root
[volume]
catalog_type = block-storage
storage_protocol = $protocol
vendor_name = nova_lite
min_microversion = 3.0
max_microversion = latest
volume_size = 1
volume_type = $backend
volume_type_multiattach = multiattach
build_timeout = $seconds
build_interval = 1
[volume-feature-enabled]
backup = False
snapshot = True
clone = True
extend_attached_volume = True
EOF
    )
}

# run_tempest REGEX CONCURRENCY: whatever comes out of it is for tempest_results to judge
run_tempest() {
    (
        cd "$TEMPEST_DIR" || exit
        env -u PYTHONPATH PATH="$TEMPEST_VENV/bin:$PATH" "$TEMPEST_VENV/bin/tempest" run --config-file etc/tempest.conf \
            --concurrency "$2" --regex "$1" >run.log 2>&1 || true
        "$TEMPEST_VENV/bin/stestr" last --subunit 2>/dev/null | tempest_results read >results.txt
    )
}

tempest_results() { env -u PYTHONPATH "$TEMPEST_VENV/bin/python" "$STACK_HERE/tempest/results.py" "$@"; }
