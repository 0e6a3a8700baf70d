"""What Nova 34 knows of flavors, images and requests that shapes a guest, what Nova does with it, and what is done here.

``python -m tests.support.guest_options`` writes ``docs/guest_options.md`` of it. The tests hold the document and the code
against it (``tests/unit/api/compute/test_guest_options.py``).
"""
from __future__ import annotations

import pathlib
from typing import NamedTuple

DOCUMENT = pathlib.Path(__file__).parents[2] / "docs/guest_options.md"
SPEC, PROPERTY, HINT, DEVICE, PORT = "spec", "property", "hint", "device", "port"
TITLES = {
    SPEC: "Extra specs of flavors", PROPERTY: "Properties of images", HINT: "Scheduler hints",
    DEVICE: "Fields of a block device (`block_device_mapping_v2`)", PORT: "Attributes of a Neutron port that a user brings"}
HONOURED, REFUSED, NO_EFFECT = "honoured", "refused", "no effect"


class Option(NamedTuple):
    """``value`` is one that a test tries, ``bad`` one that is refused by name though others are not."""

    kind: str
    name: str
    nova: str
    here: str
    value: str
    bad: str


_LIBVIRT = "libvirt's driver"
_FILTER = "ImagePropertiesFilter"
_NOT_LIBVIRT = "nothing with libvirt"
_OF_IMAGES = f"{HONOURED}, by the names that images have: without `img_`"
# kind, what Nova does, what is done here, names: each as name=value or name=value!refused value, the value 1 by default
_GROUPS: tuple[tuple[str, str, str, str], ...] = (
    (SPEC, _LIBVIRT, HONOURED, """
        hide_hypervisor_id hw:boot_menu hw:cpu_cores hw:cpu_sockets hw:cpu_threads hw:cpu_max_cores hw:cpu_max_sockets=4
        hw:cpu_max_threads hw:cpu_thread_policy=prefer hw:ephemeral_encryption hw:hide_hypervisor_id hw:mem_page_size=small
        hw:numa_nodes hw:numa_cpus.N=0-3 hw:numa_mem.N=1024 hw:pmu hw:serial_port_count hw:tpm_model=tpm-crb hw:tpm_version=2.0
        hw:vif_multiqueue_enabled hw:watchdog_action=reset hw_rng:allowed hw_rng:rate_bytes hw_rng:rate_period
        hw_video:ram_max_mb os:secure_boot=disabled quota:cpu_shares quota:cpu_period=1000 quota:cpu_quota=1000
        quota:disk_read_bytes_sec quota:disk_read_iops_sec quota:disk_write_bytes_sec quota:disk_write_iops_sec
        quota:disk_total_bytes_sec quota:disk_total_iops_sec quota:vif_inbound_average quota:vif_inbound_peak
        quota:vif_inbound_burst quota:vif_outbound_average quota:vif_outbound_peak quota:vif_outbound_burst"""),
    (SPEC, "PciPassthroughFilter", HONOURED, "pci_passthrough:alias=gpu:1"),
    (SPEC, "AggregateInstanceExtraSpecsFilter", f"{HONOURED} where the filter is in `[scheduler] enabled_filters`",
     "aggregate_instance_extra_specs:NAME"),
    (SPEC, _LIBVIRT, f"{HONOURED}: `shared`, `dedicated`; `mixed` is refused", "hw:cpu_policy=shared!mixed"),
    (SPEC, _LIBVIRT, f"{HONOURED}: `share`; `isolate` is refused", "hw:emulator_threads_policy=share!isolate"),
    (SPEC, _LIBVIRT, f"{HONOURED}: `luks`; `plain` is refused", "hw:ephemeral_encryption_format=luks!plain"),
    (SPEC, "PciPassthroughFilter", f"{HONOURED}: `preferred`, `legacy`; with devices `required` and `socket` are refused",
     "hw:pci_numa_affinity_policy=preferred"),
    (SPEC, _LIBVIRT, REFUSED, """
        hw:cpu_dedicated_mask hw:cpu_realtime hw:locked_memory hw:maxphysaddr_bits hw:maxphysaddr_mode hw:mem_encryption hw:pmem
        hw:redirected_usb_ports hw:sound_model hw:tpm_secret_security hw:usb_model hw:viommu_model hw:virtio_packed_ring"""),
    (SPEC, "Placement", REFUSED, """
        resources:NAME resourcesGROUP:NAME trait:NAME=required traitGROUP:NAME=required group_policy=isolate"""),
    (SPEC, "the accelerator service", REFUSED, "accel:device_profile"),
    (SPEC, "ComputeCapabilitiesFilter", REFUSED, "capabilities:NAME"),
    (SPEC, "VMware's driver", REFUSED, " ".join(
        f"quota:{what}_{kind}" for what in ("cpu", "memory", "disk_io", "vif")
        for kind in ("limit", "reservation", "shares_level=high", "shares_share"))),
    (SPEC, "VMware's driver", f"{NO_EFFECT}: as in Nova with libvirt", "vmware:NAME"),
    (SPEC, _LIBVIRT, f"{NO_EFFECT}: as in Nova without `hw:cpu_realtime`, which is refused", "hw:cpu_realtime_mask"),
    (SPEC, _LIBVIRT, f"{NO_EFFECT}: as in Nova without `hw:mem_encryption`, which is refused",
     "hw:mem_encryption_model=amd-sev"),
    (PROPERTY, _LIBVIRT, HONOURED, """
        hw_boot_menu hw_cpu_cores hw_cpu_sockets hw_cpu_threads hw_cpu_max_cores hw_cpu_max_sockets=4 hw_cpu_max_threads
        hw_cpu_thread_policy=prefer hw_ephemeral_encryption hw_firmware_type=uefi img_hide_hypervisor_id hw_mem_page_size=small
        hw_numa_nodes hw_numa_cpus.N=0-3 hw_numa_mem.N=1024 hw_pmu hw_serial_port_count hw_tpm_model=tpm-crb hw_tpm_version=2.0
        hw_vif_multiqueue_enabled hw_watchdog_action=reset hw_rng_model=virtio hw_video_ram os_secure_boot=disabled
        hw_cdrom_bus=sata hw_disk_bus=scsi hw_input_bus=usb hw_machine_type=q35 hw_pointer_model=usbtablet
        hw_qemu_guest_agent=yes hw_rescue_bus=virtio hw_rescue_device=disk hw_scsi_model=virtio-scsi hw_time_hpet=yes
        hw_vif_model=virtio hw_video_model=virtio img_config_drive=mandatory os_admin_user=root os_require_quiesce=yes
        os_type=linux"""),
    (PROPERTY, "the API: fields of the image", HONOURED, "min_disk min_ram"),
    (PROPERTY, _LIBVIRT, f"{HONOURED}: `shared`, `dedicated`; `mixed` is refused", "hw_cpu_policy=shared!mixed"),
    (PROPERTY, _LIBVIRT, f"{HONOURED}: `luks`; `plain` is refused", "hw_ephemeral_encryption_format=luks!plain"),
    (PROPERTY, "PciPassthroughFilter", f"{HONOURED}: `preferred`, `legacy`; with devices `required` and `socket` are refused",
     "hw_pci_numa_affinity_policy=preferred"),
    (PROPERTY, _FILTER, f"{HONOURED}: {_FILTER}", """
        hw_architecture=x86_64 hw_vm_mode=hvm img_hv_type=kvm img_hv_requested_version=>=6.0"""),
    (PROPERTY, "the API", _OF_IMAGES, """
        img_block_device_mapping=[] img_bdm_v2=true img_mappings=[] img_root_device_name=/dev/vda"""),
    (PROPERTY, "the API", f"{HONOURED}: shown, and checked against the request", "hw_auto_disk_config=true"),
    (PROPERTY, _LIBVIRT, REFUSED, """
        hw_ephemeral_encryption_secret_uuid hw_firmware_stateless hw_locked_memory hw_maxphysaddr_bits hw_maxphysaddr_mode
        hw_mem_encryption hw_redirected_usb_ports hw_sound_model hw_tpm_secret_security hw_usb_model hw_viommu_model
        hw_virtio_packed_ring hw_emulation_architecture=aarch64 kernel_id ramdisk_id"""),
    (PROPERTY, "Placement", REFUSED, "trait:NAME=required traits_required"),
    (PROPERTY, _LIBVIRT, f"{NO_EFFECT}: as in Nova without `hw:cpu_realtime`, which is refused", "hw_cpu_realtime_mask"),
    (PROPERTY, _LIBVIRT, f"{NO_EFFECT}: as in Nova without `hw:mem_encryption`, which is refused",
     "hw_mem_encryption_model=amd-sev"),
    (PROPERTY, _LIBVIRT, f"{NO_EFFECT}: as in Nova without `kernel_id`, which is refused", "os_command_line"),
    (PROPERTY, _LIBVIRT, f"{NO_EFFECT}: no floppy disks (`device_type` is refused)", "hw_floppy_bus=usb"),
    (PROPERTY, _LIBVIRT, f"{NO_EFFECT}: as in Nova without libosinfo", "os_distro=debian"),
    (PROPERTY, "the image service", f"{NO_EFFECT}: as in Nova with `[glance] verify_glance_signatures = False`, its default",
     "img_signature img_signature_hash_method img_signature_certificate_uuid img_signature_key_type"),
    (PROPERTY, _NOT_LIBVIRT, f"{NO_EFFECT}: as in Nova with libvirt", """
        hw_device_id hw_disk_type hw_ipxe_boot img_compression_level img_linked_clone img_use_agent img_version
        os_skip_agent_inject_files_at_boot os_skip_agent_inject_ssh img_cache_in_nova img_owner_id"""),
    (HINT, "ServerGroupAffinityFilter and its opposite", HONOURED, "group"),
    (HINT, "SameHostFilter, DifferentHostFilter", HONOURED, "same_host different_host"),
    (HINT, "filters that are off by default", f"{NO_EFFECT}: as in Nova, where no filter of the default list reads it",
     "query build_near_host_ip cidr target_cell different_cell"),
    (HINT, "nothing", f"{NO_EFFECT}, unless a filter of your own reads it", "NAME"),
    (DEVICE, "the API", HONOURED, """
        source_type destination_type uuid boot_index volume_size delete_on_termination no_device tag volume_type"""),
    (DEVICE, "the API", f"{NO_EFFECT}: as in Nova, which reads it in the old form only",
     "image_id volume_id snapshot_id virtual_name connection_info"),
    (DEVICE, _LIBVIRT, f"{HONOURED}, for the host's own disks as for volumes; unknown ones are refused",
     "disk_bus=scsi!floppy"),
    (DEVICE, "libvirt's driver: disk, cdrom, floppy, lun", f"{HONOURED}: `disk`; others are refused", "device_type=disk!cdrom"),
    (DEVICE, "what `mkfs` makes of an ephemeral disk; swap",
     f"{HONOURED} for a blank local disk: `swap`, `ext4` (the default), `ext3`, `ext2`; others are refused. {NO_EFFECT} on "
     "other disks, as in Nova", "guest_format=ext3!xfs"),
    (DEVICE, "the name that the API shows", f"{HONOURED} for volumes where it fits the bus and is free; the host's own disks "
     "(root, ephemeral, swap) are named in this order by the service", "device_name=/dev/vdq"),
    (PORT, "Neutron", f"{HONOURED}: Neutron does it", """
        fixed_ips mac_address security_groups port_security_enabled dns_name allowed_address_pairs qos_policy_id hints"""),
    (PORT, "SR-IOV, vDPA and others", f"{HONOURED}: `normal`; others are refused", "binding:vnic_type=normal!direct"),
    (PORT, "Placement", REFUSED, "resource_request"),
    (PORT, "the accelerator service", REFUSED, "device_profile"),
    (PORT, "SR-IOV ports; nothing for others", REFUSED, "trusted hardware_offload_type"),
    (PORT, "SR-IOV ports; nothing for others", f"{NO_EFFECT} of `preferred` and `legacy`, as in Nova; `required` and `socket` "
     "are refused", "numa_affinity_policy=legacy!required"),
    (PORT, "the API", f"{HONOURED}: a port without an address is refused, unless it is `deferred` or `none`",
     "ip_allocation=none"),
)
_HEAD = """# What shapes a guest: what Nova does, and what is done here

Each name that Nova 34 knows. A refusal is 400 and names the option. `python -m tests.support.guest_options` makes this file;
`tests/unit/api/compute/test_guest_options.py` holds it against the code.
"""


def options() -> list[Option]:
    """The whole table."""
    found = []
    for kind, nova, here, names in _GROUPS:
        for word in names.split():
            name, _, values = word.partition("=")
            value, _, bad = values.partition("!")
            found.append(Option(kind, name, nova, here, value or "1", bad))
    return found


def render() -> str:
    """The document."""
    parts = [_HEAD]
    for kind, title in TITLES.items():
        rows = sorted(option for option in options() if option.kind == kind)
        lines = [f"| `{option.name}` | {option.nova} | {option.here} |" for option in rows]
        parts.append("\n".join([f"## {title}", "", "| Name | Nova | Here |", "| --- | --- | --- |", *lines, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    DOCUMENT.write_text(render())
