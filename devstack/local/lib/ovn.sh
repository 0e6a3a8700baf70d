# shellcheck shell=bash
# OVN in place of Neutron's agents for Open vSwitch, L3 and DHCP: its two databases, northd, a controller and a metadata agent on each
# host. Open vSwitch stays in user space: tunnels (Geneve) end at the addresses of br-ex, which is one of its own devices.

OVN_SOCKET=$RUN/ovn/ovn.sock
export OVN_RUNDIR=$RUN/ovn OVN_DBDIR=$DATA/ovn OVN_LOGDIR=$LOG OVN_SYSCONFDIR=$ETC/ovn
OVN_REMOTE=tcp:$STACK_HOST:$P_OVN

ovn() { [ "$STACK_NETWORK" = ovn ]; }

# The two databases, by one server, and northd between them.
start_ovn() {
    local name
    mkdir -p "$OVN_RUNDIR" "$OVN_DBDIR" "$OVN_SYSCONFDIR"
    for name in nb sb; do
        [ -f "$OVN_DBDIR/$name.db" ] || ovsdb-tool create "$OVN_DBDIR/$name.db" "/usr/share/ovn/ovn-$name.ovsschema"
    done
    start ovn-ovsdb "$(command -v ovsdb-server)" "$OVN_DBDIR/nb.db" "$OVN_DBDIR/sb.db" "--remote=punix:$OVN_SOCKET" \
        "--remote=ptcp:$P_OVN:$STACK_HOST" --no-chdir "--unixctl=$OVN_RUNDIR/ovsdb.ctl"
    wait_until ovn-ovsdb 30 port_open "$P_OVN"
    ovn-nbctl "--db=unix:$OVN_SOCKET" init
    ovn-sbctl "--db=unix:$OVN_SOCKET" init
    start ovn-northd ovn-northd "--ovnnb-db=unix:$OVN_SOCKET" "--ovnsb-db=unix:$OVN_SOCKET" --no-chdir \
        "--unixctl=$OVN_RUNDIR/northd.ctl"
}

ovn_neutron_ini() {
    cat <<EOF
[ml2_type_geneve]
vni_ranges = 1:65535
max_header_size = 38
[ovn]
ovn_nb_connection = $OVN_REMOTE
ovn_sb_connection = $OVN_REMOTE
ovn_metadata_enabled = True
EOF
}

# What a host tells its controller. VSCTL NODE ADDRESS [CMS_OPTIONS]
ovn_chassis() {
    "$1" set Open_vSwitch . "external_ids:system-id=$2" "external_ids:hostname=$2" "external_ids:ovn-remote=$OVN_REMOTE" \
        external_ids:ovn-encap-type=geneve "external_ids:ovn-encap-ip=$3" external_ids:ovn-bridge=br-int \
        external_ids:ovn-bridge-datapath-type=netdev external_ids:ovn-bridge-mappings=public:br-ex \
        ${4:+"external_ids:ovn-cms-options=$4"}
}

start_ovn_controller() {
    ovn_chassis vsctl "$STACK_NODE" "${EXTERNAL_ADDRESS%/*}" enable-chassis-as-gw
    # shellcheck disable=SC2153  # openvswitch.sh has it
    start ovn-controller ovn-controller "unix:$OVS_RUNDIR/db.sock" --no-chdir
}

# FILE NODE OVSDB STATE
configure_ovn_metadata() {
    cat >"$1" <<EOF
[DEFAULT]
host = $2
state_path = $4
nova_metadata_host = $STACK_HOST
nova_metadata_port = $P_METADATA
metadata_proxy_shared_secret = $(password)
metadata_workers = 1
[ovs]
ovsdb_connection = unix:$3
[ovn]
ovn_sb_connection = $OVN_REMOTE
[agent]
root_helper = env
root_helper_daemon =
EOF
}

start_ovn_agents() {
    configure_ovn_metadata "$ETC/neutron/ovn-metadata.ini" "$STACK_NODE" "$OVS_RUNDIR/db.sock" "$DATA/neutron"
    start ovn-metadata-agent "$BIN/neutron-ovn-metadata-agent" --config-file "$ETC/neutron/neutron.conf" \
        --config-file "$ETC/neutron/ovn-metadata.ini"
    wait_until ovn-metadata-agent 60 chassis_is_known "$STACK_NODE"
}

chassis_is_known() { # NODE
    [ -n "$(ovn-sbctl "--db=unix:$OVN_SOCKET" --bare --columns=name find Chassis "hostname=$1")" ]
}

# The second host's part, in its namespace. Its metadata agent needs a /run/netns of its own: both agents name their namespaces by
# the network.
start_host2_ovn() {
    mkdir -p "$HOST2_DIR/neutron"
    ip -n "$HOST2" address replace "$HOST2_EXTERNAL" dev br-ex
    ovn_chassis host2_vsctl "$HOST2" "${HOST2_EXTERNAL%/*}"
    start host2-ovn-controller "${IN_HOST2[@]}" "OVN_RUNDIR=$HOST2_DIR/ovs" ovn-controller "unix:$HOST2_DIR/ovs/db.sock" --no-chdir
    configure_ovn_metadata "$ETC/neutron/host2-metadata.ini" "$HOST2" "$HOST2_DIR/ovs/db.sock" "$HOST2_DIR/neutron"
    start host2-metadata-agent "${IN_HOST2[@]}" sh -c 'mount -t tmpfs netns /run/netns && exec "$@"' sh \
        "$BIN/neutron-ovn-metadata-agent" --config-file "$ETC/neutron/neutron.conf" \
        --config-file "$ETC/neutron/host2-metadata.ini"
    wait_until host2-ovn-controller 60 chassis_is_known "$HOST2"
}
