"""Domain XML: against libvirt's own schema, and against the golden files beside this test.

``NOVA_LITE_WRITE_GOLDEN=1`` writes the golden files anew; read the difference before you commit it.
"""
import dataclasses
import os
import pathlib

import pytest
from lxml import etree

from nova_lite import exception, version
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.hardware.placement import BoundCell
from nova_lite.virt.libvirt import domain_xml, guest_config
from nova_lite.virt.libvirt.config import Auth, DiskPool
from nova_lite.virt.libvirt.files import GuestDirectory
from nova_lite.virt.libvirt.guest_disks import GuestDisks

from .builders import BLOCK, ENCRYPTION, FILE, ISCSI, KVM, NBD, RBD, TCG, UUID, blanks, instance, vif, volume

GOLDEN = pathlib.Path(__file__).parent / "golden"
SCHEMA = pathlib.Path("/usr/share/libvirt/schemas/domain.rng")
FILES = GuestDirectory(pathlib.Path("/var/lib/nova_lite/instances"), UUID)

MONITORS = (("10.0.0.1", "3300"), ("fd00::2", "6789"))
POOL = DiskPool("vms", MONITORS, Auth("nova", "ceph", "757eb676-33da-42ec-9a8c-9293d545c337"))

CASES = {
    "kvm": (instance(), [vif()], KVM),
    "tcg": (instance(config_drive=True), [vif()], TCG),
    "two_nics_all_disks": (instance(vcpus=4, ephemeral_gb=2, swap=64, config_drive=True),
                           [vif(1), vif(2, mtu=None, details={"bridge": "nlbr2"})], KVM),
    "tuned": (instance({"hw:cpu_sockets": "1", "hw:cpu_cores": "2", "hw:cpu_threads": "2", "quota:cpu_shares": "512",
                        "quota:cpu_quota": "20000", "quota:cpu_period": "10000", "quota:disk_total_iops_sec": "500",
                        "quota:disk_read_bytes_sec": "1048576", "quota:vif_inbound_average": "1000",
                        "quota:vif_outbound_average": "2000", "quota:vif_outbound_peak": "3000",
                        "hw_rng:rate_bytes": "1024", "hw_rng:rate_period": "1000", "hw:watchdog_action": "reset",
                        "quota:disk_read_bytes_sec_max": "2097152", "quota:disk_read_bytes_sec_max_length": "5",
                        "hw_video:ram_max_mb": "16", "hw:boot_menu": "true", "hw:vif_multiqueue_enabled": "true",
                        "hw:pmu": "false", "hw:hide_hypervisor_id": "yes", "hw:serial_port_count": "2"},
                       properties={"hw_video_ram": "8"}, vcpus=4), [vif()], KVM),
    "image_properties": (instance(properties={
        "hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi", "hw_vif_model": "e1000", "hw_video_model": "vga",
        "hw_machine_type": "q35", "hw_firmware_type": "uefi", "os_type": "windows", "hw_qemu_guest_agent": "yes",
        "hw_pointer_model": "ps2mouse", "hw_cdrom_bus": "sata", "hw_time_hpet": "yes"}, config_drive=True), [vif()], KVM),
    "secure_boot_and_tpm": (instance({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, properties={
        "hw_machine_type": "q35", "hw_firmware_type": "uefi", "os_secure_boot": "required", "hw_input_bus": "virtio"}),
        [vif()], KVM),
    "neutron_nics": (instance(), [
        vif(1, type="ovs", details={"bridge": "br-int", "port_filter": True}),
        vif(2, type="vhostuser", details={"vhostuser_socket": "/run/ovs/vhu00000002-00", "vhostuser_mode": "server"}),
        vif(3, type="macvtap", details={"macvtap_source": "eth1.7", "macvtap_mode": "bridge", "physical_interface": "eth1"}),
        vif(4, type="hw_veb", details={"pci_slot": "0000:0A:10.2", "vlan": "7"}),
        vif(5, type="ovs", details={"bridge": "br-int", "datapath_type": "netdev"})], KVM),
    "volumes": (instance(block_devices=[
        volume(1, boot_index=1, **RBD), volume(2, device_name="/dev/vdf", **ISCSI), volume(3, **NBD),
        volume(4, disk_bus="scsi", **FILE)], swap=64, config_drive=True), [], TCG),
    "boot_from_volume": (instance(block_devices=[volume(1, **BLOCK), volume(2, boot_index=0, tag="root", **RBD)]), [], KVM),
    "encrypted_volumes": (instance(block_devices=[
        volume(number, boot_index=number - 1, connection_info={**kind, "data": {**kind["data"], "encryption": ENCRYPTION}})
        for number, kind in enumerate((one["connection_info"] for one in (RBD, ISCSI, NBD, FILE, BLOCK)), 1)]), [], TCG),
    "encrypted_disks": (instance({"hw:ephemeral_encryption": "true"}, system_metadata={"disks_encryption_key_id": "key"},
                                 ephemeral_gb=2, swap=64, config_drive=True, block_devices=[volume(1, **NBD)]), [], KVM),
    "ephemeral_disks": (instance(ephemeral_gb=4, swap=64, block_devices=[volume(1, **NBD), *blanks(2, 1, 1)]), [], KVM),
    "bound": (instance({"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2", "hw:mem_page_size": "2MB"}, vcpus=4), [], KVM, (
        BoundCell(256, 0, {0: "2", 1: "3"}, 2048, True), BoundCell(256, 1, {2: "6", 3: "7"}, 2048, True))),
    "shares_a_node": (instance({"hw:numa_nodes": "1"}, vcpus=2),
                      [vif(type="vhostuser", details={"vhostuser_socket": "/run/vhu"})], KVM,
                      (BoundCell(512, 0, {0: "0-3", 1: "0-3"}),)),
    "pci_devices": (instance(pci_requests=[{"alias": "gpu", "count": 2, "specs": [{}]}]), [], KVM, (),
                    ["0000:0a:00.0", "0001:af:10.7"]),
    "disks_in_a_pool": (instance(ephemeral_gb=2, swap=64, config_drive=True, block_devices=[volume(1, **ISCSI)]), [],
                        dataclasses.replace(KVM, disk_format="raw", pool=POOL)),
    "disks_in_a_pool_for_all": (instance(), [], dataclasses.replace(TCG, disk_format="raw", pool=DiskPool("rbd", MONITORS))),
    "odd_names": (instance(display_name="<one> & \"two\"\x01ü"), [], TCG),
}


def _xml(instance, vifs, host, cells=(), hostdevs=()):
    return domain_xml.build(guest_config.make(instance, "instance-0000002a", vifs, FILES, host, cells, hostdevs))


@pytest.fixture(autouse=True)
def _one_version(monkeypatch):
    monkeypatch.setattr(version, "VERSION", "1.2.3")      # golden files outlive releases


@pytest.fixture(scope="module")
def schema():
    if not SCHEMA.exists():
        pytest.skip("libvirt's schemas are not installed")
    return etree.RelaxNG(etree.parse(SCHEMA))


@pytest.mark.parametrize("case", CASES)
def test_what_is_made_is_what_was_agreed(case):
    path = GOLDEN / f"{case}.xml"
    if os.environ.get("NOVA_LITE_WRITE_GOLDEN"):
        path.write_text(_xml(*CASES[case]))
    assert _xml(*CASES[case]) == path.read_text()


@pytest.mark.parametrize("case", CASES)
def test_libvirts_schema_agrees(schema, case):
    schema.assertValid(etree.fromstring(_xml(*CASES[case])))


def _find(xml, path):
    return etree.fromstring(xml).xpath(path)


def test_cloud_init_knows_openstack():
    xml = _xml(instance(), [], TCG)
    assert _find(xml, "string(sysinfo/system/entry[@name='product'])") == "OpenStack Compute"
    assert _find(xml, "string(sysinfo/system/entry[@name='uuid'])") == UUID


def test_only_the_emulator_has_a_bounded_translation_cache():
    assert _find(_xml(instance(), [], TCG), "string(features/tcg/tb-cache)") == "32"
    assert _find(_xml(instance(), [], KVM), "features/tcg") == []


def test_random_numbers_can_be_forbidden():
    assert _find(_xml(instance({"hw_rng:allowed": "false"}), [], TCG), "devices/rng") == []


def test_targets_never_meet():
    for bus in ("scsi", "sata", "usb", "ide", "virtio"):
        for cdrom in ("scsi", "sata", "usb", "ide"):
            made = instance(properties={"hw_disk_bus": bus, "hw_cdrom_bus": cdrom}, config_drive=True, swap=64)
            targets = _find(_xml(made, [], KVM), "devices/disk/target/@dev")
            assert len(targets) == 3
            assert len(set(targets)) == 3, (bus, cdrom, targets)


def test_the_hosts_own_disks_are_on_the_buses_that_were_asked_for():
    devices = [BlockDevice("1", "image", "local", boot_index=0, disk_bus="sata"),
               *(BlockDevice(str(n), "blank", "local", size=1, disk_bus=bus) for n, bus in ((2, "scsi"), (3, None))),
               BlockDevice("4", "blank", "local", guest_format="swap", size=64, disk_bus="usb")]
    xml = _xml(instance(properties={"hw_disk_bus": "virtio"}, ephemeral_gb=2, swap=64, block_devices=devices), [], KVM)
    targets = [(target.get("dev"), target.get("bus")) for target in _find(xml, "devices/disk/target")]
    assert targets == [("sda", "sata"), ("sdb", "scsi"), ("vda", "virtio"), ("sdc", "usb")]
    assert _find(xml, "devices/controller[@type='scsi']")


def test_a_volume_that_is_not_connected_is_left_out_but_not_the_root():
    unconnected = volume(1, connection_info=None)
    assert len(_find(_xml(instance(block_devices=[unconnected]), [], TCG), "devices/disk")) == 1
    unconnected.boot_index = 0
    with pytest.raises(exception.BuildAborted, match="boots from is not connected"):
        _xml(instance(block_devices=[unconnected]), [], TCG)


def test_disks_boot_in_the_order_of_their_boot_index():
    made = instance(block_devices=[volume(1, boot_index=2, **NBD), volume(2, boot_index=-1, **NBD), volume(3, **NBD),
                                   volume(4, boot_index=1, **NBD), volume(5, boot_index=0, **NBD)])
    xml = _xml(made, [], TCG)
    order = {d.findtext("serial"): d.find("boot").get("order") for d in _find(xml, "devices/disk[boot]")}
    assert order == {volume(5).volume_id: "1", volume(4).volume_id: "2", volume(1).volume_id: "3"}
    assert _find(xml, "string(devices/disk[1]/target/@dev)") == "vda"
    assert _find(xml, "os/boot") == []


def test_a_nic_of_type_null_is_none():
    assert _find(_xml(instance(), [vif(type="null", details={})], TCG), "devices/interface") == []


@pytest.mark.parametrize(("made", "vifs", "reason"), [
    (instance({"quota:cpu_shares": "many"}), [], "quota:cpu_shares=many"),
    (instance({"hw:cpu_max_sockets": "2", "hw:cpu_max_cores": "1", "hw:cpu_max_threads": "1"}, vcpus=4), [], "4 vcpus"),
    (instance({"hw:watchdog_action": "explode"}), [], "explode"),
    (instance(properties={"hw_disk_bus": "fdc"}), [], "hw_disk_bus=fdc"),
    (instance(properties={"hw_video_model": "xen"}), [], "hw_video_model=xen"),
    (instance(block_devices=[volume(1, disk_bus="fdc", **NBD)]), [], "disk bus fdc"),
    (instance(properties={"hw_disk_bus": "floppy"}), [], "hw_disk_bus=floppy"),
    (instance(properties={"hw_vif_model": "x"}), [vif()], "hw_vif_model=x"),
    (instance(), [vif(type="unbound")], "VIF type unbound"),
    (instance(), [vif(details={})], "names no bridge"),
    (instance(), [vif(type="vhostuser", details={})], "names no vhostuser_socket"),
])
def test_what_cannot_be_had_ends_the_build(made, vifs, reason):
    with pytest.raises((exception.BuildAborted, exception.Invalid), match=reason):
        _xml(made, vifs, KVM)


@pytest.mark.parametrize(("made", "host", "reason"), [
    (instance(properties={"hw_firmware_type": "uefi"}), dataclasses.replace(KVM, uefi=False), "no UEFI"),
    (instance(properties={"hw_firmware_type": "uefi", "os_secure_boot": "required"}), KVM, "hw_machine_type=q35"),
    (instance({"os:secure_boot": "required"}, properties={"hw_firmware_type": "uefi", "hw_machine_type": "q35"}),
     dataclasses.replace(KVM, secure_boot=False), "no firmware"),
    (instance({"hw:tpm_version": "1.2"}), KVM, "TPM 1.2"),
    (instance(pci_requests=[{"alias": "gpu", "count": 2, "specs": [{}]}]), KVM, "2 PCI devices are asked for, and it holds 0")])
def test_what_only_this_host_lacks_is_tried_on_another(made, host, reason):
    with pytest.raises(exception.BuildFailed, match=reason) as caught:
        _xml(made, [], host)
    assert not isinstance(caught.value, exception.BuildAborted)


def test_secure_boot_that_is_optional_is_there_where_it_can_be():
    wish = {"hw_firmware_type": "uefi", "os_secure_boot": "optional"}
    assert _find(_xml(instance(properties={**wish, "hw_machine_type": "q35"}), [], KVM), "os/loader/@secure") == ["yes"]
    assert _find(_xml(instance(properties=wish), [], KVM), "os/loader/@secure") == []


def test_there_is_a_usb_controller_where_a_disk_is_on_usb():
    assert _find(_xml(instance(), [], TCG), "devices/controller[@type='usb']/@model") == ["none"]
    assert _find(_xml(instance(properties={"hw_disk_bus": "usb"}), [], TCG), "devices/controller[@type='usb']") == []


def test_virtio_disks_have_a_thread_of_their_own_and_others_do_not():
    """One for each guest, as in Nova."""
    scsi = {"hw_disk_bus": "scsi", "hw_cdrom_bus": "sata"}
    for properties, disks, controllers in (({}, ["1"], []), (scsi, [], ["1"]), ({**scsi, "hw_scsi_model": "lsilogic"}, [], []),
                                           ({"hw_disk_bus": "sata"}, [], [])):
        xml = _xml(instance(properties=properties, config_drive=True), [], KVM)
        assert _find(xml, "string(iothreads)") == "1"
        assert _find(xml, "devices/disk/driver/@iothread") == disks
        assert _find(xml, "devices/controller/driver/@iothread") == controllers


def test_a_guest_of_an_older_version_is_given_a_disk_without_a_thread():
    xml = domain_xml.build_disk(guest_config.volume(instance(), volume(1, **NBD)))
    old, new = etree.fromstring("<domain/>"), etree.fromstring("<domain><iothreads>1</iothreads></domain>")
    assert etree.fromstring(xml).xpath("driver/@iothread") == ["1"]
    assert GuestDisks.fitted(xml, new) == xml
    assert etree.fromstring(GuestDisks.fitted(xml, old)).xpath("driver/@*[name()!='iothread']") == \
        etree.fromstring(GuestDisks.fitted(xml, old)).xpath("driver/@*") != []
