"""The nova.conf that kolla-ansible writes: each option is read, or named in the warning at start."""
from __future__ import annotations

from nova_lite import conf as conf_module
from nova_lite.conf import files

# kolla-ansible, master of 2026: roles/nova-cell/templates/nova.conf.j2 and nova.conf.d/libvirt.conf.j2, filled for a host that
# runs all services of Nova, with Ceph, Ceilometer, noVNC, SPICE, serial consoles
KOLLA = """
[DEFAULT]
debug = False
log_dir = /var/log/kolla/nova
state_path = /var/lib/nova
allow_resize_to_same_host = true
compute_driver = libvirt.LibvirtDriver
my_ip = 192.0.2.10
instance_usage_audit = true
instance_usage_audit_period = hour
compute_monitors = nova.compute.monitors.cpu.virt_driver
transport_url = rabbit://openstack:secret@192.0.2.10:5672//
ram_allocation_ratio = 1.0
reserved_host_memory_mb = 0
[api]
vendordata_jsonfile_path = /etc/nova/vendordata.json
[conductor]
workers = 5
[vnc]
enabled = true
novncproxy_host = 192.0.2.10
novncproxy_port = 6080
server_listen = 192.0.2.10
server_proxyclient_address = 192.0.2.10
novncproxy_base_url = https://cloud.example:6080/vnc_lite.html
[spice]
enabled = true
server_listen = 192.0.2.10
server_proxyclient_address = 192.0.2.10
html5proxy_base_url = https://cloud.example:6082/spice_auto.html
html5proxy_host = 192.0.2.10
html5proxy_port = 6082
[serial_console]
enabled = true
base_url = wss://cloud.example:6083/
serialproxy_host = 192.0.2.10
serialproxy_port = 6083
proxyclient_address = 192.0.2.10
[oslo_concurrency]
lock_path = /var/lib/nova/tmp
[glance]
debug = False
api_servers = http://192.0.2.10:9292
cafile = /etc/ssl/ca.crt
num_retries = 3
[cinder]
catalog_info = volumev3:cinderv3:internalURL
os_region_name = RegionOne
auth_url = http://192.0.2.10:5000
[neutron]
metadata_proxy_shared_secret = secret
service_metadata_proxy = true
auth_url = http://192.0.2.10:5000
region_name = RegionOne
valid_interfaces = internal
[database]
connection = mysql+pymysql://nova:secret@192.0.2.10:3306/nova
connection_recycle_time = 10
max_overflow = 1000
max_pool_size = 1
max_retries = -1
[api_database]
connection = mysql+pymysql://nova_api:secret@192.0.2.10/nova_api
[libvirt]
connection_uri = qemu+tcp://192.0.2.10/system
live_migration_inbound_addr = 192.0.2.11
live_migration_scheme = tls
images_type = rbd
images_rbd_pool = vms
images_rbd_ceph_conf = /etc/ceph/ceph.conf
rbd_user = nova
rbd_secret_uuid = 8a4b3b62-0000-4000-8000-000000000001
disk_cachemodes = network=writeback
hw_disk_discard = unmap
virt_type = kvm
cpu_mode = host-passthrough
volume_use_multipath = true
num_pcie_ports = 16
[workarounds]
skip_cpu_compare_on_dest = true
disable_group_policy_check_upcall = true
[filter_scheduler]
track_instance_changes = false
[upgrade_levels]
compute = auto
[oslo_messaging_notifications]
transport_url = rabbit://openstack:secret@192.0.2.10:5672//
driver = messagingv2
topics = notifications
[oslo_messaging_rabbit]
heartbeat_in_pthread = false
ssl = true
ssl_ca_file = /etc/ssl/ca.crt
amqp_durable_queues = true
rabbit_quorum_queue = true
[oslo_policy]
policy_file = policy.yaml
[privsep_entrypoint]
helper_command = sudo nova-rootwrap /etc/nova/rootwrap.conf privsep-helper --config-file /etc/nova/nova.conf
[guestfs]
debug = False
[scheduler]
max_attempts = 10
[placement]
auth_type = password
auth_url = http://192.0.2.10:5000
[notifications]
notify_on_state_change = vm_and_task_state
[profiler]
enabled = true
[barbican]
auth_endpoint = http://192.0.2.10:5000
[pci]
passthrough_whitelist = {"vendor_id": "10de"}
[service_user]
send_service_user_token = true
auth_url = http://192.0.2.10:5000
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = service
username = nova
password = secret
cafile = /etc/ssl/ca.crt
region_name = RegionOne
valid_interfaces = internal
[keystone_authtoken]
www_authenticate_uri = http://192.0.2.10:5000
"""
NAMED = """
DEFAULT: compute_driver compute_monitors instance_usage_audit instance_usage_audit_period
api_database: connection
cinder: auth_url catalog_info os_region_name
database: connection_recycle_time max_overflow max_retries
filter_scheduler: track_instance_changes
glance: api_servers cafile debug num_retries
guestfs: debug
libvirt: disk_cachemodes hw_disk_discard live_migration_scheme num_pcie_ports volume_use_multipath
neutron: auth_url region_name service_metadata_proxy valid_interfaces
notifications: notify_on_state_change
placement: auth_type auth_url
privsep_entrypoint: helper_command
profiler: enabled
service_user: send_service_user_token
upgrade_levels: compute
workarounds: disable_group_policy_check_upcall skip_cpu_compare_on_dest
"""


def test_each_option_is_read_or_named(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text(KOLLA)
    conf = conf_module.load([], config_files=[str(path)])
    lines = [line.partition(": ") for line in NAMED.strip().splitlines()]
    named = set(files.unknown(conf, conf_module.list_opts()))
    # newer releases of oslo.messaging have dropped it
    assert named - {"[oslo_messaging_rabbit] heartbeat_in_pthread"} == {f"[{group}] {name}" for group, _, names in lines
                                                                        for name in names.split()}
    assert (conf.compute.allow_resize_to_same_host, conf.compute.ram_allocation_ratio, conf.conductor.workers) == (True, 1.0, 5)
    assert (conf.console.proxy_listen, conf.console.server_listen, conf.console.server_proxyclient_address) == (
        "192.0.2.10", "192.0.2.10", "192.0.2.10")
    assert (conf.libvirt.migration_address, conf.libvirt.images_type, conf.libvirt.rbd_user) == ("192.0.2.11", "rbd", "nova")
    assert (conf.metadata.vendor_data_file, conf.metadata.shared_secret) == ("/etc/nova/vendordata.json", "secret")
    assert (conf.scheduler.max_attempts, conf.pci.device_spec) == (10, ['{"vendor_id": "10de"}'])
    assert conf.service_user.region_name == "RegionOne"
