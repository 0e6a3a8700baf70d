# shellcheck shell=bash
# A second compute host on this machine: a network namespace with an Open vSwitch, an agent of Neutron, a libvirtd and a
# nova-lite-compute of its own. Two cables lead to it: the one carries the services, the other joins the two bridges br-ex, so that
# the tenants' networks (VLANs) reach both hosts.

HOST2=host2 HOST2_DIR=$STACK_DIR/host2 CONTROL=nl-control CONTROL_ADDRESS=192.168.99.1 HOST2_ADDRESS=192.168.99.2
export HOST2_EXTERNAL=172.24.4.2/24     # of its br-ex, where tunnels of OVN end
HOST2_CONF=$ETC/nova_lite/host2.conf
HOST2_URI="qemu+unix:///system?socket=$HOST2_DIR/libvirt/run/libvirt-sock"

two_hosts() { [ "$STACK_HOSTS" = 2 ]; }
IN_HOST2=(ip netns exec "$HOST2" env "OVS_RUNDIR=$HOST2_DIR/ovs" "OVS_DBDIR=$HOST2_DIR/ovs")
host2_vsctl() { ovs-vsctl "--db=unix:$HOST2_DIR/ovs/db.sock" --timeout=20 "$@"; }

# The address of the services. A bridge keeps it while the second host is off.
start_control_network() {
    ip link show "$CONTROL" >/dev/null 2>&1 || ip link add "$CONTROL" type bridge
    ip address replace "$CONTROL_ADDRESS/24" dev "$CONTROL"
    ip link set "$CONTROL" up
}

plug_host2() {
    [ ! -e "/run/netns/$HOST2" ] || return 0
    ip netns add "$HOST2"
    ip -n "$HOST2" link set lo up
    ip link add nl-h2-control type veth peer name control netns "$HOST2"
    ip link set nl-h2-control master "$CONTROL" up
    ip -n "$HOST2" address add "$HOST2_ADDRESS/24" dev control
    ip -n "$HOST2" link set control up
    ip -n "$HOST2" route add default via "$CONTROL_ADDRESS"
    ip link add nl-h2-ex type veth peer name external netns "$HOST2"
    # Open vSwitch in user space computes no checksums that a sender has left to the device
    ethtool -K nl-h2-ex tx off >/dev/null
    ip netns exec "$HOST2" ethtool -K external tx off >/dev/null
    ip link set nl-h2-ex up
    ip -n "$HOST2" link set external up
}

start_host2_switch() {
    local ovs=$HOST2_DIR/ovs
    plug_host2
    mkdir -p "$ovs"
    [ -f "$ovs/conf.db" ] || ovsdb-tool create "$ovs/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    start host2-ovsdb "${IN_HOST2[@]}" ovsdb-server "$ovs/conf.db" \
        "--remote=punix:$ovs/db.sock" "--remote=ptcp:$P_OVSDB:127.0.0.1" --no-chdir "--unixctl=$ovs/ovsdb.ctl"
    wait_until host2-ovsdb 30 host2_vsctl --no-wait init
    start host2-ovs-vswitchd "${IN_HOST2[@]}" ovs-vswitchd "unix:$ovs/db.sock" --no-chdir \
        "--unixctl=$ovs/vswitchd.ctl"
    ovn || host2_vsctl --may-exist add-br br-int -- set bridge br-int datapath_type=netdev fail_mode=secure
    host2_vsctl --may-exist add-br br-ex -- set bridge br-ex datapath_type=netdev -- --may-exist add-port br-ex external
    vsctl --may-exist add-port br-ex nl-h2-ex
    wait_until host2-ovs-vswitchd 30 ip -n "$HOST2" link show br-ex
    ip -n "$HOST2" link set br-ex up
}

configure_host2() {
    mkdir -p "$HOST2_DIR/nova_lite" "$HOST2_DIR/locks"
    chmod 711 "$HOST2_DIR" "$HOST2_DIR/nova_lite"       # qemu passes through to the disks
    sed -e "s/^host = .*/host = $HOST2/" -e "s/^ovsdb_connection = .*/ovsdb_connection = tcp:127.0.0.1:$P_OVSDB/" \
        -e 's/^of_listen_address = .*/of_listen_address = 127.0.0.1/' -e "s#^vhostuser_socket_dir = .*#vhostuser_socket_dir = $HOST2_DIR/ovs#" \
        -e "s/^local_ip = .*/local_ip = $HOST2_ADDRESS/" "$ETC/neutron/agents.ini" >"$ETC/neutron/host2.ini"
    printf '[oslo_concurrency]\nlock_path = %s\n' "$HOST2_DIR/locks" >>"$ETC/neutron/host2.ini"
    # a compute host has no key to the database
    sed -e '/^connection = mysql/d' -e "s/^host = .*/host = $HOST2/" -e "s/^my_ip = .*/my_ip = $HOST2_ADDRESS/" \
        -e "s#^state_path = .*#state_path = $HOST2_DIR/nova_lite#" -e "s#^\(.*_uri\) = qemu.*#\1 = $HOST2_URI#" \
        "$NOVA_LITE_CONF" >"$HOST2_CONF"
}

start_host2() {
    start_host2_switch
    if ovn; then
        start_host2_ovn
    else
        start host2-ovs-agent "${IN_HOST2[@]}" "$BIN/neutron-openvswitch-agent" "${NEUTRON_FILES[@]}" \
            --config-file "$ETC/neutron/host2.ini"
    fi
    (cd / && nova_lite_program python "$STACK_HERE/libvirt_host.py" up "$HOST2_DIR/libvirt" "$HOST2" "$HOST2")
    touch "$RUN/host2-libvirt.up"
    start_host2_compute
    ovn || wait_until host2-ovs-agent 120 host2_agent_is_alive
}

start_host2_compute() {
    start nova-lite-compute-host2 "${IN_HOST2[@]}" env -u PYTHONPATH "$STACK_NOVA_LITE_VENV/bin/nova-lite-compute" \
        --config-file "$HOST2_CONF" --config-file "$LOCAL_CONF"
    wait_until nova-lite-compute-host2 60 compute_is_up "$HOST2"
}

host2_agent_is_alive() {
    [ "$(sql -N -e "SELECT count(*) FROM neutron.agents WHERE host = '$HOST2' AND
        heartbeat_timestamp > utc_timestamp() - INTERVAL 15 SECOND")" -ge 1 ]
}

# As when somebody pulls the plug: nothing of the host gets a signal that it could answer, and its devices are gone.
power_off_host2() {
    local pids
    [ -e "/run/netns/$HOST2" ] || return 0
    pids=$(ip netns pids "$HOST2")
    # shellcheck disable=SC2086  # one word per process
    [ -z "$pids" ] || kill -KILL $pids
    kill_host2_proxies
    remove_host2_network
    rm -rf "$HOST2_DIR/libvirt/run" "$HOST2_DIR/ovs/db.sock" "$RUN"/*host2*.pid "$RUN"/host2-*.pid
}

# OVN's metadata agent has one per network, in namespaces that nobody sees from here.
kill_host2_proxies() { pkill -KILL -f "^haproxy -f $HOST2_DIR/" || true; }

remove_host2_network() {
    # a switch in user space does not take up another device of the same name
    if alive ovsdb; then vsctl --if-exists del-port br-ex nl-h2-ex; fi
    [ ! -e "/run/netns/$HOST2" ] || ip netns delete "$HOST2"
    # the other ends go with the namespace, a moment later
    ip link delete nl-h2-control 2>/dev/null || true
    ip link delete nl-h2-ex 2>/dev/null || true
}

# After its daemons: guests, libvirtd, the switch, the cables.
stop_host2() {
    local pids
    if [ -f "$RUN/host2-libvirt.up" ]; then
        (cd / && nova_lite_program python "$STACK_HERE/libvirt_host.py" down "$HOST2_DIR/libvirt" "$HOST2" "$HOST2") >/dev/null ||
            die "libvirtd and the guests of $HOST2 could not be stopped; nothing below them was touched"
        rm -f "$RUN/host2-libvirt.up"
    fi
    stop host2-ovs-vswitchd
    stop host2-ovsdb
    if [ -e "/run/netns/$HOST2" ]; then
        pids=$(ip netns pids "$HOST2")
        # shellcheck disable=SC2086  # one word per process
        [ -z "$pids" ] || kill -KILL $pids
    fi
    kill_host2_proxies
    remove_host2_network
    ip link delete "$CONTROL" 2>/dev/null || true
}
