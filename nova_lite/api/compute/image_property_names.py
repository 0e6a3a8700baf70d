"""The properties of images that a server shows (from microversion 2.98 on): those that Nova reads, by their present and older
names. Other properties are not shown; nor are lists of devices, which are too long.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_BYTES = 255     # of a value; the rest is cut off
_HW = """
    architecture auto_disk_config boot_menu cdrom_bus cpu_cores cpu_max_cores cpu_max_sockets cpu_max_threads cpu_policy
    cpu_realtime_mask cpu_sockets cpu_thread_policy cpu_threads device_id disk_bus disk_type emulation_architecture
    ephemeral_encryption ephemeral_encryption_format ephemeral_encryption_secret_uuid firmware_stateless firmware_type
    floppy_bus input_bus ipxe_boot locked_memory machine_type maxphysaddr_bits maxphysaddr_mode mem_encryption
    mem_encryption_model mem_page_size numa_cpus numa_mem numa_nodes pci_numa_affinity_policy pmu pointer_model
    qemu_guest_agent redirected_usb_ports rescue_bus rescue_device rng_model scsi_model serial_port_count sound_model
    time_hpet tpm_model tpm_version usb_model video_model video_ram vif_model vif_multiqueue_enabled viommu_model
    virtio_packed_ring vm_mode watchdog_action
    """
_IMG = """
    bdm_v2 bittorrent cache_in_nova compression_level config_drive hide_hypervisor_id hv_requested_version hv_type
    linked_clone owner_id root_device_name signature signature_certificate_uuid signature_hash_method signature_key_type
    use_agent version
    """
_OS = """
    admin_user command_line distro require_quiesce secure_boot skip_agent_inject_files_at_boot skip_agent_inject_ssh type
    """
_WHOLE = """
    architecture auto_disk_config bdm_v2 bittorrent cache_in_nova hypervisor_type hypervisor_version_requires ipxe_boot
    owner_id root_device_name traits_required vm_mode vmware_disktype vmware_image_version vmware_linked_clone
    vmware_ostype xenapi_device_id xenapi_image_compression_level xenapi_skip_agent_inject_files_at_boot
    xenapi_skip_agent_inject_ssh xenapi_use_agent
    """
NAMES = frozenset([*(f"hw_{name}" for name in _HW.split()), *(f"img_{name}" for name in _IMG.split()),
                   *(f"os_{name}" for name in _OS.split()), *_WHOLE.split()])


def shown(properties: Mapping[str, Any]) -> dict[str, str]:
    """The properties of an image as a server shows them: all values are texts."""
    return {name: str(value).encode()[:MAX_BYTES].decode(errors="ignore") for name, value in properties.items()
            if name in NAMES and value is not None}
