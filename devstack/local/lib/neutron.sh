# shellcheck shell=bash
# Neutron's server. Without agents (kind "api") the mechanism driver of plugins/ binds every port at once; that of Open vSwitch is
# there for the trunk plugin, which asks for one that it knows.

export OS_NEUTRON_CONFIG_DIR=$ETC/neutron OS_NEUTRON_CONFIG_FILES="neutron.conf;ml2_conf.ini"
NEUTRON_FILES=(--config-file "$ETC/neutron/neutron.conf" --config-file "$ETC/neutron/ml2_conf.ini")

configure_neutron() {
    local mechanism=openvswitch tenants=vxlan router=router
    [ "$STACK_HOSTS" = 1 ] || tenants=vlan      # Open vSwitch in user space has no route to a tunnel's other end
    [ "$STACK_KIND" = real ] || mechanism=openvswitch,stackbind
    if ovn; then mechanism=ovn tenants=geneve router=ovn-router; fi
    mkdir -p "$ETC/neutron" "$DATA/neutron" "$DATA/locks"
    cat >"$ETC/neutron/neutron.conf" <<EOF
[DEFAULT]
$(conf_log)
core_plugin = ml2
service_plugins = $router,trunk,qos,auto_allocate
api_paste_config = $STACK_VENV/etc/neutron/api-paste.ini
state_path = $DATA/neutron
transport_url = $(broker_url)
auth_strategy = keystone
dns_domain = stack.example.
notify_nova_on_port_status_changes = True
notify_nova_on_port_data_changes = True
send_events_interval = 1
api_workers = $STACK_WORKERS
rpc_workers = 1
rpc_state_report_workers = 0
network_link_prefix = http://$STACK_HOST:$P_NEUTRON
bind_host = $STACK_HOST
bind_port = $P_NEUTRON
$(conf_database neutron)
$(conf_authtoken neutron)
[nova]
$(conf_credentials neutron)
[oslo_concurrency]
lock_path = $DATA/locks
[agent]
root_helper = env
[privsep]
helper_command = $BIN/privsep-helper
[quotas]
quota_network = -1
quota_subnet = -1
quota_port = -1
quota_router = -1
quota_floatingip = -1
quota_security_group = -1
quota_security_group_rule = -1
$(conf_no_notifications)
EOF
    cat >"$ETC/neutron/ml2_conf.ini" <<EOF
[ml2]
type_drivers = local,flat,vlan,vxlan,geneve
tenant_network_types = $tenants
mechanism_drivers = $mechanism
extension_drivers = port_security,qos,dns
[ml2_type_flat]
flat_networks = public
[ml2_type_vlan]
network_vlan_ranges = public:1000:1999
[ml2_type_vxlan]
vni_ranges = 1:4000
[securitygroup]
enable_security_group = True
$(ovn && ovn_neutron_ini)
EOF
}

create_neutron_schema() { "$BIN/neutron-db-manage" "${NEUTRON_FILES[@]}" upgrade heads; }

start_neutron() {
    start_wsgi neutron neutron.wsgi.api "$P_NEUTRON"
    if [ "$STACK_KIND" = real ]; then
        start neutron-rpc "$BIN/neutron-rpc-server" "${NEUTRON_FILES[@]}"
        start neutron-periodic "$BIN/neutron-periodic-workers" "${NEUTRON_FILES[@]}"
        if ovn; then start neutron-ovn "$BIN/neutron-ovn-maintenance-worker" "${NEUTRON_FILES[@]}"; fi
    fi
    wait_until neutron 120 answers "http://$STACK_HOST:$P_NEUTRON/"
    seed network
}
