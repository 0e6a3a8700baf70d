#!/usr/bin/env bash
# A whole OpenStack cloud on this machine, with nova_lite as its Compute service. Idempotent; as root, on Debian 12.
#
#   stack.sh [--hosts 2] [--network ovn] [--api-only] [--neighbours-only] [--install-only]
#
# --hosts 2         a second compute host, in a network namespace of this machine (lib/hosts.sh)
# --network ovn     OVN in place of Neutron's agents for Open vSwitch, L3 and DHCP (lib/ovn.sh)
# --api-only          no data anywhere: ports are bound but not plugged, volumes are rows, guests are fake, no Barbican
# --neighbours-only   RabbitMQ, MariaDB, memcached, Keystone, Barbican, Glance, Neutron, Cinder; no nova_lite
# --install-only      Debian packages and virtual environments, nothing is started
#
# STACK_DIR (/var/lib/nova-lite-stack) holds state, logs and pid files; STACK_PORT_BASE (21000) is the first of 100 TCP ports.
# lib/settings.sh has the rest. unstack.sh stops it.
set -eu

STACK_NOVA_LITE=yes install_only=
while [ $# -gt 0 ]; do
    case $1 in
        --hosts) shift; STACK_HOSTS=${1:-} ;;
        --network) shift; STACK_NETWORK=${1:-} ;;
        --api-only) STACK_KIND=api ;;
        --neighbours-only) STACK_NOVA_LITE=no ;;
        --install-only) install_only=yes ;;
        *)
            sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done
wanted_kind=${STACK_KIND:-real} wanted_hosts=${STACK_HOSTS:-} wanted_network=${STACK_NETWORK:-}
unset STACK_KIND STACK_HOSTS STACK_NETWORK
if [ ! -f "${STACK_DIR:-/var/lib/nova-lite-stack}/settings.env" ]; then
    STACK_HOSTS=$wanted_hosts STACK_NETWORK=$wanted_network
fi
export STACK_NOVA_LITE

here=$(cd "$(dirname "$0")" && pwd)
for part in settings progress process packages common_conf infrastructure keystone barbican glance neutron openvswitch ovn cinder \
    ceph nova_lite hosts seed; do
    # shellcheck source=/dev/null
    . "$here/lib/$part.sh"
done
[ "${STACK_KIND:-$wanted_kind}" = "$wanted_kind" ] ||
    die "$STACK_DIR was made as '$STACK_KIND', not '$wanted_kind': unstack.sh --wipe it first, or use another STACK_DIR"
export STACK_KIND=$wanted_kind
[ "$STACK_HOSTS" = "${wanted_hosts:-$STACK_HOSTS}" ] ||
    die "$STACK_DIR was made with --hosts $STACK_HOSTS: unstack.sh --wipe it first, or use another STACK_DIR"
[ "$STACK_NETWORK" = "${wanted_network:-$STACK_NETWORK}" ] ||
    die "$STACK_DIR was made with --network $STACK_NETWORK: unstack.sh --wipe it first, or use another STACK_DIR"
case $STACK_NETWORK$STACK_KIND in
    ovs* | ovnreal) ;;
    *) die "--network is ovs or ovn, and ovn not with --api-only" ;;
esac
case $STACK_HOSTS$STACK_KIND in
    1* | 2real) ;;
    *) die "--hosts is 1 or 2, and 2 not with --api-only: STACK_FAKE_HOSTS is the number of fake ones" ;;
esac
[ "$(id -u)" = 0 ] || die "run as root"

make_directories
exec 9>"$STACK_DIR/lock"
flock 9

real() { [ "$STACK_KIND" = real ]; }
nova_lite() { [ "$STACK_NOVA_LITE" = yes ]; }

step packages "Debian packages" install_packages
step venv "neighbours in $STACK_VENV" install_venv
if nova_lite; then step nova-lite-venv "nova_lite in $STACK_NOVA_LITE_VENV" install_nova_lite; fi
[ -z "$install_only" ] || exit 0
remember_settings

rm -f "$STACK_DIR/stack.json"
if two_hosts; then step control-network "the services' network, $CONTROL" start_control_network; fi
ports() {
    need_port mysql "$P_MYSQL"
    need_port rabbitmq "$P_AMQP"
    need_port epmd "$P_EPMD"
    need_port memcached "$P_MEMCACHED"
    need_port keystone "$P_KEYSTONE"
    need_port glance "$P_GLANCE"
    need_port neutron "$P_NEUTRON"
    need_port cinder-api "$P_CINDER"
    if real; then
        need_port barbican "$P_BARBICAN"
        need_port ovsdb "$P_OVSDB"
        need_port ceph-mon "$P_CEPH_MON"
        if ovn; then need_port ovn-ovsdb "$P_OVN"; fi
    fi
    if nova_lite; then
        need_port nova-lite-api "$P_COMPUTE"
        need_port nova-lite-api-metadata "$P_METADATA"
        need_port nova-lite-novncproxy "$P_NOVNC"
        need_port nova-lite-serialproxy "$P_SERIAL"
    fi
}

configure() {
    configure_keystone
    configure_glance
    configure_neutron
    configure_cinder
    install_plugins
    if real; then
        configure_barbican
        configure_agents
        configure_ceph
    fi
    if nova_lite; then configure_nova_lite; fi
    if nova_lite && two_hosts; then configure_host2; fi
}
step ports "ports from $STACK_PORT_BASE on are free" ports
step configure "configuration in $ETC" configure
begin rabbitmq "RabbitMQ answers" start_rabbitmq
begin memcached "memcached answers" start_memcached
step mariadb "MariaDB answers" start_mariadb
step schemas "tables of Keystone, Glance, Neutron, Cinder" create_schemas
step bootstrap "keys and admin of Keystone" bootstrap_keystone
finish memcached
begin keystone "Keystone answers; users and catalog" start_keystone
finish rabbitmq
finish keystone
if real; then
    if nova_lite; then STACK_IMAGE=$(tiny_image) && export STACK_IMAGE; fi
    step openvswitch "Open vSwitch in user space" start_openvswitch
    if ovn; then step ovn "OVN's databases and northd" start_ovn; fi
    begin barbican "Barbican answers" start_barbican
    begin ceph "Ceph: monitor, manager, OSD, pool" start_ceph
fi
begin glance "Glance answers; image" start_glance
begin neutron "Neutron answers; networks" start_neutron
if real; then
    finish barbican
    finish ceph
fi
begin cinder "Cinder answers; volume types" start_cinder
finish glance
finish neutron
if real && ovn; then
    step ovn-controller "OVN's controller" start_ovn_controller
    begin agents "OVN's metadata agent" start_ovn_agents
elif real; then
    begin agents "Neutron's agents: Open vSwitch, L3, DHCP, metadata" start_agents
fi
finish cinder
if nova_lite; then
    if real; then step libvirt "libvirtd of our own" start_libvirt; fi
    step nova-lite "nova_lite: database, services, flavors" start_nova_lite
    if two_hosts; then step host2 "the second host: Open vSwitch, agent, libvirtd, nova-lite-compute" start_host2; fi
fi
if real; then finish agents; fi

write_clouds
write_facts
say "the stack is up: export OS_CLIENT_CONFIG_FILE=$STACK_DIR/clouds.yaml OS_CLOUD=nova-lite-demo"
