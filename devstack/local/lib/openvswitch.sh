# shellcheck shell=bash
# Open vSwitch in user space (datapath_type=netdev: no kernel module), Neutron's agents on it. One such stack per machine, because
# its bridges are devices of the host.

EXTERNAL_ADDRESS=172.24.4.1/24
export OVS_RUNDIR=$RUN/ovs OVS_DBDIR=$DATA/ovs OVS_LOGDIR=$LOG OVS_SYSCONFDIR=$ETC/ovs

vsctl() { ovs-vsctl "--db=unix:$OVS_RUNDIR/db.sock" --timeout=20 "$@"; }

start_openvswitch() {
    mkdir -p "$OVS_RUNDIR" "$OVS_DBDIR" "$OVS_SYSCONFDIR"
    [ -f "$OVS_DBDIR/conf.db" ] || ovsdb-tool create "$OVS_DBDIR/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    start ovsdb "$(command -v ovsdb-server)" "$OVS_DBDIR/conf.db" "--remote=punix:$OVS_RUNDIR/db.sock" \
        "--remote=ptcp:$P_OVSDB:$STACK_HOST" --no-chdir "--unixctl=$OVS_RUNDIR/ovsdb.ctl"
    wait_until ovsdb 30 port_open "$P_OVSDB"
    vsctl --no-wait init
    start ovs-vswitchd "$(command -v ovs-vswitchd)" "unix:$OVS_RUNDIR/db.sock" --no-chdir "--unixctl=$OVS_RUNDIR/vswitchd.ctl"
    # OVN's controller makes br-int itself
    ovn || vsctl --may-exist add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure
    vsctl --may-exist add-br br-ex -- set bridge br-ex datapath_type=netdev
    # those of an earlier stack are in the database before they are devices
    wait_until ovs-vswitchd 30 ip link show br-ex
    # this machine is on the external network, so floating IPs answer from here
    ip address replace "$EXTERNAL_ADDRESS" dev br-ex
    ip link set br-ex up
}

configure_agents() {
    cat >"$ETC/neutron/agents.ini" <<EOF
[DEFAULT]
host = $STACK_NODE
interface_driver = openvswitch
ovs_integration_bridge = br-int
dhcp_driver = neutron.agent.linux.dhcp.Dnsmasq
enable_isolated_metadata = True
nova_metadata_host = $STACK_HOST
nova_metadata_port = $P_METADATA
metadata_proxy_shared_secret = $(password)
metadata_workers = 1
agent_mode = legacy
[ovs]
datapath_type = netdev
ovsdb_connection = tcp:$STACK_HOST:$P_OVSDB
of_listen_address = $STACK_HOST
of_listen_port = $P_OPENFLOW
vhostuser_socket_dir = $OVS_RUNDIR
bridge_mappings = public:br-ex
local_ip = $STACK_HOST
integration_bridge = br-int
tunnel_bridge = br-tun
[agent]
tunnel_types = vxlan
root_helper = env
root_helper_daemon =
report_interval = 10
[securitygroup]
firewall_driver = openvswitch
EOF
}

agents_alive() {
    local alive
    alive=$(sql -N -e "SELECT count(*) FROM neutron.agents WHERE host = '$STACK_NODE' AND started_at >= '$AGENTS_SINCE'
        AND heartbeat_timestamp > utc_timestamp() - INTERVAL 40 SECOND")
    [ "$alive" -ge 4 ]
}

start_agents() {
    local files=("${NEUTRON_FILES[@]}" --config-file "$ETC/neutron/agents.ini")
    AGENTS_SINCE='2000-01-01'
    alive ovs-agent || AGENTS_SINCE=$(date -u '+%Y-%m-%d %H:%M:%S')
    start ovs-agent "$BIN/neutron-openvswitch-agent" "${files[@]}"
    start l3-agent "$BIN/neutron-l3-agent" "${files[@]}"
    start dhcp-agent "$BIN/neutron-dhcp-agent" "${files[@]}"
    start metadata-agent "$BIN/neutron-metadata-agent" "${files[@]}"
    wait_until ovs-agent 120 agents_alive
}

# The taps that nova_lite has made for guests that are gone. Then ends ovs-vswitchd so that its devices go with it; after SIGTERM they stay, for the next one.
remove_bridges() {
    local i tap
    if alive ovsdb; then
        for tap in $(vsctl --bare --columns=name find Interface 'external_ids:nova_lite-host!=""'); do
            ip link delete "$tap" 2>/dev/null || true
        done
    fi
    if alive ovs-vswitchd && ovs-appctl -t "$OVS_RUNDIR/vswitchd.ctl" exit --cleanup; then
        for ((i = 0; i < 100; i++)); do     # a SIGTERM meanwhile would cut it short
            alive ovs-vswitchd || break
            sleep 0.1
        done
    fi
}

# What agents leave running on purpose (dnsmasq, haproxy, radvd) and their network namespaces. The names come from the database.
list_namespaces() {
    sql -N -e "SELECT concat('qdhcp-', id) FROM neutron.networks UNION SELECT concat('qrouter-', id) FROM neutron.routers
        UNION SELECT concat('ovnmeta-', id) FROM neutron.networks" || true
}

end_agent_children() { # NAMESPACE...
    local file pid name
    while read -r file; do
        pid=$(cat "$file" 2>/dev/null) || continue
        if [ -n "$pid" ] && grep -qaF "$DATA/neutron" "/proc/$pid/cmdline" 2>/dev/null; then kill "$pid" || true; fi
    done < <(find "$DATA/neutron" \( -name pid -o -name '*.pid' -o -name '*.pid.*' \) -type f)
    for name; do
        if [ -e "/run/netns/$name" ]; then ip netns delete "$name" || true; fi
    done
}
