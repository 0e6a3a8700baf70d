#!/usr/bin/env bash
# nova_lite as the Compute service of DevStack. DevStack sources this file with a mode and a phase:
#
#   stack pre-install | install | post-config | extra | test-config      unstack      clean

NOVA_LITE_SERVICES="nova-lite-conductor nova-lite-scheduler nova-lite-compute nova-lite-api nova-lite-api-metadata"

function nova_lite_uses_libvirt {
    is_service_enabled nova-lite-compute && [[ "$NOVA_LITE_VIRT_DRIVER" == "libvirt" ]]
}

if nova_lite_uses_libvirt; then
    # shellcheck source=/dev/null
    source "$TOP_DIR/lib/nova_plugins/functions-libvirt"
fi

# pre-install: what the hypervisor needs of the system
function preinstall_nova_lite {
    if nova_lite_uses_libvirt; then
        install_libvirt
        install_package genisoimage e2fsprogs
    fi
}

function install_nova_lite {
    local extras=mysql
    if [[ "${DATABASE_TYPE:-mysql}" == "postgresql" ]]; then
        extras=postgresql
    fi
    if nova_lite_uses_libvirt; then
        extras+=,libvirt
    fi
    setup_develop "$NOVA_LITE_DIR" "$extras"
}

# Who nova_lite is to others, in group $1 of its options.
function configure_nova_lite_credentials {
    iniset "$NOVA_LITE_CONF" "$1" auth_type password
    iniset "$NOVA_LITE_CONF" "$1" auth_url "$KEYSTONE_SERVICE_URI"
    iniset "$NOVA_LITE_CONF" "$1" username nova_lite
    iniset "$NOVA_LITE_CONF" "$1" password "$SERVICE_PASSWORD"
    iniset "$NOVA_LITE_CONF" "$1" project_name "$SERVICE_PROJECT_NAME"
    iniset "$NOVA_LITE_CONF" "$1" user_domain_name "$SERVICE_DOMAIN_NAME"
    iniset "$NOVA_LITE_CONF" "$1" project_domain_name "$SERVICE_DOMAIN_NAME"
}

function configure_nova_lite {
    sudo install -d -o "$STACK_USER" -m 755 "$NOVA_LITE_CONF_DIR" "$NOVA_LITE_STATE"
    rm -f "$NOVA_LITE_CONF"
    install -m 640 /dev/null "$NOVA_LITE_CONF"      # it holds passwords
    install -m 644 "$NOVA_LITE_DIR/etc/nova_lite/api-paste.ini" "$NOVA_LITE_CONF_DIR/"

    iniset "$NOVA_LITE_CONF" DEFAULT debug "$ENABLE_DEBUG_LOG_LEVEL"
    iniset "$NOVA_LITE_CONF" DEFAULT host "$LOCAL_HOSTNAME"
    iniset "$NOVA_LITE_CONF" DEFAULT my_ip "$HOST_IP"
    iniset "$NOVA_LITE_CONF" DEFAULT state_path "$NOVA_LITE_STATE"
    iniset_rpc_backend nova-lite "$NOVA_LITE_CONF"
    iniset "$NOVA_LITE_CONF" database connection "$(database_connection_url nova_lite)"
    iniset "$NOVA_LITE_CONF" api auth_strategy keystone
    iniset "$NOVA_LITE_CONF" api listen "$SERVICE_LISTEN_ADDRESS"
    iniset "$NOVA_LITE_CONF" api port "$NOVA_LITE_PORT"
    iniset "$NOVA_LITE_CONF" api workers "$NOVA_LITE_WORKERS"
    iniset "$NOVA_LITE_CONF" metadata listen "$SERVICE_LISTEN_ADDRESS"
    iniset "$NOVA_LITE_CONF" metadata port "$NOVA_LITE_METADATA_PORT"
    iniset "$NOVA_LITE_CONF" compute driver "$NOVA_LITE_VIRT_DRIVER"

    configure_keystone_authtoken_middleware "$NOVA_LITE_CONF" nova_lite
    iniset "$NOVA_LITE_CONF" keystone_authtoken service_token_roles service
    iniset "$NOVA_LITE_CONF" keystone_authtoken service_token_roles_required True
    configure_nova_lite_credentials service_user
    iniset "$NOVA_LITE_CONF" service_user region_name "$REGION_NAME"

    if is_service_enabled glance; then
        iniset "$NOVA_LITE_CONF" image driver glance
    fi
    if is_service_enabled neutron; then
        iniset "$NOVA_LITE_CONF" network driver neutron
    fi
    if is_service_enabled cinder; then
        iniset "$NOVA_LITE_CONF" volume driver cinder
    fi
    if nova_lite_uses_libvirt; then
        configure_libvirt
        iniset "$NOVA_LITE_CONF" libvirt connection_uri qemu:///system
    fi
}

# Neutron and Cinder tell Compute what happens to ports and volumes; Neutron's metadata agent asks it. They do so as nova_lite.
function configure_neighbours_of_nova_lite {
    if is_service_enabled neutron; then
        iniset "$NEUTRON_CONF" DEFAULT notify_nova_on_port_status_changes True
        iniset "$NEUTRON_CONF" DEFAULT notify_nova_on_port_data_changes True
        configure_keystone_authtoken_middleware "$NEUTRON_CONF" nova_lite nova
        iniset "$NEUTRON_CONF" nova region_name "$REGION_NAME"
    fi
    configure_metadata_agents_for_nova_lite
    if is_service_enabled cinder; then
        configure_keystone_authtoken_middleware "$CINDER_CONF" nova_lite nova
        iniset "$CINDER_CONF" nova interface public
    fi
}

# Whichever of Neutron's agents hands guests' questions on (that of Open vSwitch or one of OVN's) shares a secret with us.
function configure_metadata_agents_for_nova_lite {
    local file secret=""
    for file in "${Q_META_CONF_FILE:-}" "${OVN_META_CONF:-}" "${OVN_AGENT_CONF:-}"; do
        if [[ -n "$file" && -f "$file" ]]; then
            secret=${secret:-$(iniget "$file" DEFAULT metadata_proxy_shared_secret)}
            secret=${secret:-$(openssl rand -hex 16)}
            iniset "$file" DEFAULT metadata_proxy_shared_secret "$secret"
            iniset "$file" DEFAULT nova_metadata_host "$SERVICE_HOST"
            iniset "$file" DEFAULT nova_metadata_port "$NOVA_LITE_METADATA_PORT"
            iniset "$NOVA_LITE_CONF" metadata shared_secret "$secret"
        fi
    done
}

# The service user with its roles, and the catalog.
function create_nova_lite_accounts {
    create_service_user nova_lite admin     # and the role service, which every such user has
    local url="http://$SERVICE_HOST:$NOVA_LITE_PORT/v2.1"
    get_or_create_service nova compute "Compute Service"
    get_or_create_endpoint compute "$REGION_NAME" "$url"
}

function start_nova_lite {
    local service
    recreate_database nova_lite
    "$NOVA_LITE_BIN_DIR/nova-lite-manage" --config-file "$NOVA_LITE_CONF" db sync
    for service in $NOVA_LITE_SERVICES; do
        # libvirt's socket is root's or the group libvirt's; the bridges and taps are root's
        if [[ "$service" == nova-lite-compute ]]; then
            run_process "$service" "$NOVA_LITE_BIN_DIR/$service --config-file $NOVA_LITE_CONF" "" root
        else
            run_process "$service" "$NOVA_LITE_BIN_DIR/$service --config-file $NOVA_LITE_CONF"
        fi
    done
    wait_for_service 60 "http://$SERVICE_HOST:$NOVA_LITE_PORT/"
}

function create_nova_lite_flavors {
    local line
    while read -r -a line; do
        openstack --os-cloud devstack-admin flavor show "${line[0]}" >/dev/null 2>&1 ||
            openstack --os-cloud devstack-admin flavor create --id "${line[1]}" --ram "${line[2]}" --disk "${line[3]}" \
                --vcpus "${line[4]}" "${line[0]}"
    done <<EOF
m1.nano 42 128 1 1
m1.micro 84 192 1 1
m1.tiny 1 512 1 1
m1.small 2 2048 20 1
m1.medium 3 4096 40 2
EOF
}

function configure_tempest_for_nova_lite {
    if is_service_enabled tempest; then
        iniset "$TEMPEST_CONFIG" service_available nova True
        iniset "$TEMPEST_CONFIG" compute flavor_ref 42
        iniset "$TEMPEST_CONFIG" compute flavor_ref_alt 84
        iniset "$TEMPEST_CONFIG" compute-feature-enabled vnc_console False
        iniset "$TEMPEST_CONFIG" compute-feature-enabled spice_console False
    fi
}

function stop_nova_lite {
    local service
    for service in $NOVA_LITE_SERVICES; do
        stop_process "$service"
    done
}

NOVA_LITE_BIN_DIR=$(get_python_exec_prefix)

case "$1 ${2:-}" in
    "stack pre-install") preinstall_nova_lite ;;
    "stack install")
        echo_summary "Installing nova_lite"
        install_nova_lite
        ;;
    "stack post-config")
        echo_summary "Configuring nova_lite"
        configure_nova_lite
        configure_neighbours_of_nova_lite
        create_nova_lite_accounts
        ;;
    "stack extra")
        echo_summary "Starting nova_lite"
        start_nova_lite
        create_nova_lite_flavors
        ;;
    "stack test-config") configure_tempest_for_nova_lite ;;
    "unstack "*) stop_nova_lite ;;
    "clean "*)
        sudo rm -rf "$NOVA_LITE_CONF_DIR" "$NOVA_LITE_STATE"
        ;;
esac
