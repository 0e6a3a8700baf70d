"""docs/guest_options.md names each extra spec and image property of Nova, and says the truth of it."""
import pathlib
import re

import pytest

from nova_lite import exception
from nova_lite.objects import hardware
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta

ROOT = pathlib.Path(__file__).parents[2]
# Nova 34: the validators in nova/api/validation/extra_specs; of VMware's, one of each kind
SPECS = """accel:device_profile aggregate_instance_extra_specs:NAME capabilities:NAME group_policy hw:boot_menu
hw:cpu_cores hw:cpu_dedicated_mask hw:cpu_max_cores hw:cpu_max_sockets hw:cpu_max_threads hw:cpu_policy hw:cpu_realtime
hw:cpu_realtime_mask hw:cpu_sockets hw:cpu_thread_policy hw:cpu_threads hw:emulator_threads_policy
hw:ephemeral_encryption hw:ephemeral_encryption_format hw:hide_hypervisor_id hw:locked_memory hw:maxphysaddr_bits
hw:maxphysaddr_mode hw:mem_encryption hw:mem_encryption_model hw:mem_page_size hw:numa_cpus.N hw:numa_mem.N
hw:numa_nodes hw:pci_numa_affinity_policy hw:pmem hw:pmu hw:redirected_usb_ports hw:serial_port_count hw:sound_model
hw:tpm_model hw:tpm_secret_security hw:tpm_version hw:usb_model hw:vif_multiqueue_enabled hw:viommu_model
hw:virtio_packed_ring hw:watchdog_action hw_rng:allowed hw_rng:rate_bytes hw_rng:rate_period hw_video:ram_max_mb
os:secure_boot pci_passthrough:alias quota:cpu_limit quota:cpu_period quota:cpu_quota quota:cpu_shares
quota:disk_io_limit quota:disk_read_bytes_sec quota:disk_read_iops_sec quota:disk_total_bytes_sec
quota:disk_total_iops_sec quota:disk_write_bytes_sec quota:disk_write_iops_sec quota:memory_limit
quota:vif_inbound_average quota:vif_inbound_burst quota:vif_inbound_peak quota:vif_limit quota:vif_outbound_average
quota:vif_outbound_burst quota:vif_outbound_peak resources:NAME trait:NAME vmware:NAME"""
# Nova 34: the fields of ImageMetaProps, and trait:NAME, of which it makes traits_required
PROPERTIES = """hw_architecture hw_auto_disk_config hw_boot_menu hw_cdrom_bus hw_cpu_cores hw_cpu_max_cores
hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_policy hw_cpu_realtime_mask hw_cpu_sockets hw_cpu_thread_policy
hw_cpu_threads hw_device_id hw_disk_bus hw_disk_type hw_emulation_architecture hw_ephemeral_encryption
hw_ephemeral_encryption_format hw_ephemeral_encryption_secret_uuid hw_firmware_stateless hw_firmware_type hw_floppy_bus
hw_input_bus hw_ipxe_boot hw_locked_memory hw_machine_type hw_maxphysaddr_bits hw_maxphysaddr_mode hw_mem_encryption
hw_mem_encryption_model hw_mem_page_size hw_numa_cpus.N hw_numa_mem.N hw_numa_nodes hw_pci_numa_affinity_policy hw_pmu
hw_pointer_model hw_qemu_guest_agent hw_redirected_usb_ports hw_rescue_bus hw_rescue_device hw_rng_model hw_scsi_model
hw_serial_port_count hw_sound_model hw_time_hpet hw_tpm_model hw_tpm_secret_security hw_tpm_version hw_usb_model
hw_vif_model hw_vif_multiqueue_enabled hw_video_model hw_video_ram hw_viommu_model hw_virtio_packed_ring hw_vm_mode
hw_watchdog_action img_bdm_v2 img_block_device_mapping img_cache_in_nova img_compression_level img_config_drive
img_hide_hypervisor_id img_hv_requested_version img_hv_type img_linked_clone img_mappings img_owner_id
img_root_device_name img_signature img_signature_certificate_uuid img_signature_hash_method img_signature_key_type
img_use_agent img_version os_admin_user os_command_line os_distro os_require_quiesce os_secure_boot
os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh os_type trait:NAME traits_required"""


def _rows():
    """(extra spec or property, is it an extra spec, what it does here) of each name in the table."""
    for line in (ROOT / "docs/guest_options.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and "`" in cells[0] + cells[1]:
            for column in (0, 1):
                if cells[column]:
                    yield cells[column].strip("`"), column == 0, cells[2]


ROWS = list(_rows())


def _check(name, is_spec, value="1"):
    given = {name.replace("NAME", "CUSTOM_X"): value}
    hardware.check(Flavor("1", "f", 1024, 4, 1, extra_specs=given if is_spec else {}),
                   ImageMeta("i", properties={} if is_spec else given))


def test_the_table_is_complete():
    assert sorted(name for name, is_spec, _ in ROWS if is_spec) == sorted(SPECS.split())
    assert sorted(name for name, is_spec, _ in ROWS if not is_spec) == sorted(PROPERTIES.split())


@pytest.mark.parametrize(("name", "is_spec"), [(name, is_spec) for name, is_spec, here in ROWS if here == "refused"])
def test_what_is_refused_is_refused_by_its_name(name, is_spec):
    with pytest.raises(exception.Invalid, match=re.escape(name.replace("NAME", "CUSTOM_X"))):
        _check(name, is_spec)


@pytest.mark.parametrize(("name", "is_spec"), [(name, is_spec) for name, is_spec, here in ROWS if here.startswith("no effect")])
def test_what_has_no_effect_is_taken(name, is_spec):
    _check(name, is_spec, "usb" if name.endswith("_bus") else "1")


class _Recorder(dict):
    """Notes which names are read."""

    def __init__(self, **given):
        super().__init__(given)
        self.read = set()

    def get(self, name, default=None):
        self.read.add(name)
        return super().get(name, default)


def test_what_is_honoured_is_read():
    """By the check of flavors and images; the rest is read where it matters, by its full name, or its old one without img_."""
    read = {True: set(), False: set()}
    # some names are read only where others ask for it
    for given in ({}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}, {"hw:ephemeral_encryption": "1"}):
        specs, properties = _Recorder(**given), _Recorder()
        hardware.check(Flavor("1", "f", 1024, 4, 1, extra_specs=specs), ImageMeta("i", properties=properties))
        read[True] |= specs.read
        read[False] |= properties.read
    source = "\n".join(path.read_text() for path in (ROOT / "nova_lite").rglob("*.py") if path.name != "extra_spec_names.py")
    for name, is_spec, here in ROWS:
        if here.startswith("honoured"):
            found = name.replace(".N", ".0") in read[is_spec]
            words = [f'"{name.removesuffix(":NAME")}"', f'"{re.sub("^(img_|hw_(?=auto))", "", name)}"',
                     f'either("{re.sub("^hw[:_]", "", name)}"']
            assert found or any(word in source for word in words), name
        else:
            assert here == "refused" or here.startswith("no effect: "), name
