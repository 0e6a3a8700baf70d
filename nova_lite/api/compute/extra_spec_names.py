"""The extra specs that are known, and which values they take (checked from microversion 2.86 on).

A name in one of the known namespaces must be in the table; any other name is the operator's own and passes.
"""
from __future__ import annotations

import re

from nova_lite import exception

_INT = r"\d+"
_POSITIVE = r"[1-9]\d*"
_BOOL = r"(?i:true|false|yes|no|on|off|1|0)"
_ANY = r"[\s\S]*"
_CPUS = r"\^?\d+(-\d+)?(,\^?\d+(-\d+)?)*"
_TABLE: dict[str, str] = {
    # names are regular expressions, and so are values
    r"hide_hypervisor_id": _BOOL, r"group_policy": "none|isolate",
    r"accel:device_profile": r".+",
    r"aggregate_instance_extra_specs:.+": _ANY, r"capabilities:.+": _ANY,
    r"hw:boot_menu": _BOOL, r"hw:cpu_cores": _POSITIVE, r"hw:cpu_sockets": _POSITIVE, r"hw:cpu_threads": _POSITIVE,
    r"hw:cpu_max_cores": _POSITIVE, r"hw:cpu_max_sockets": _POSITIVE, r"hw:cpu_max_threads": _POSITIVE,
    r"hw:cpu_policy": "dedicated|shared|mixed", r"hw:cpu_thread_policy": "prefer|isolate|require",
    r"hw:cpu_dedicated_mask": _CPUS, r"hw:cpu_realtime": _BOOL, r"hw:cpu_realtime_mask": _CPUS,
    r"hw:emulator_threads_policy": "share|isolate", r"hw:hide_hypervisor_id": _BOOL,
    r"hw:locked_memory": _BOOL, r"hw:maxphysaddr_bits": _POSITIVE,
    r"hw:maxphysaddr_mode": "emulate|passthrough", r"hw:mem_encryption": _BOOL,
    r"hw:mem_encryption_model": "amd-sev|amd-sev-es", r"hw:mem_page_size": r"large|small|any|\d+[KMGkmg]?[iI]?[bB]?\w*",
    r"hw:numa_nodes": _POSITIVE, r"hw:numa_cpus\.\d+": _CPUS, r"hw:numa_mem\.\d+": _POSITIVE,
    r"hw:pci_numa_affinity_policy": "required|preferred|legacy|socket", r"hw:pmu": _BOOL,
    r"hw:pmem": r".+", r"hw:serial_port_count": _INT, r"hw:tpm_version": r"1\.2|2\.0", r"hw:tpm_model": "tpm-tis|tpm-crb",
    r"hw:tpm_secret_security": "user|host|deployment", r"hw:vif_multiqueue_enabled": _BOOL,
    r"hw:viommu_model": "intel|smmuv3|virtio|auto", r"hw:virtio_packed_ring": _BOOL,
    r"hw:watchdog_action": "none|pause|poweroff|reset|disabled",
    r"hw:sound_model": r"sb16|es1370|pcspk|ac97|ich6|ich9|usb|virtio", r"hw:usb_model": r"[a-z0-9-]+",
    r"hw:redirected_usb_ports": _INT, r"hw:ephemeral_encryption": _BOOL, r"hw:ephemeral_encryption_format": "luks|plain",
    r"hw_rng:allowed": _BOOL, r"hw_rng:rate_bytes": _INT, r"hw_rng:rate_period": _INT,
    r"hw_video:ram_max_mb": _INT,
    r"os:secure_boot": "disabled|optional|required",
    r"pci_passthrough:alias": r"[^:]+:\d+(,[^:]+:\d+)*",
    r"quota:(cpu|memory|disk_io|vif)_(limit|shares_share)": _INT, r"quota:(cpu|memory|disk_io|vif)_reservation": r"-?\d+",
    r"quota:(cpu|memory|disk_io|vif)_shares_level": "custom|high|normal|low", r"quota:cpu_shares": _INT,
    r"quota:(cpu_quota)": r"-1|\d+", r"quota:(cpu_period)": _INT,
    r"quota:disk_(read|write|total)_(bytes|iops)_sec(_max|_max_length)?": _INT,
    r"quota:vif_(inbound|outbound)_(average|peak|burst)": _INT,
    r"resources[a-zA-Z0-9_-]{0,64}:(VCPU|PCPU|MEMORY_MB|DISK_GB|CUSTOM_[A-Z0-9_]+|[A-Z][A-Z0-9_]*)": _INT,
    r"trait[a-zA-Z0-9_-]{0,64}:[A-Z][A-Z0-9_]*": "required|forbidden",
    r"vmware:hw_version": r".+", r"vmware:storage_policy": r".+", r"vmware:boot_retry": _INT,
    r"vmware:resource_pool": r".+", r"vmware:tpm_supported": _BOOL,
}
_KNOWN = [(re.compile(name), re.compile(value)) for name, value in _TABLE.items()]
_NAMESPACES = re.compile(r"(accel|aggregate_instance_extra_specs|capabilities|hw|hw_rng|hw_video|os|pci_passthrough|quota|"
                         r"resources[a-zA-Z0-9_-]*|trait[a-zA-Z0-9_-]*|vmware):")


def check(name: str, value: str) -> None:
    """Raise ValidationError (400) for a name that its namespace does not know or a value that it does not take."""
    for known, form in _KNOWN:
        if known.fullmatch(name):
            if form.fullmatch(value):
                return
            raise exception.ValidationError(
                detail=f"Validation failed; '{value}' is not one of the values that extra spec '{name}' takes: {form.pattern}")
    if _NAMESPACES.match(name):
        raise exception.ValidationError(detail=f"Validation failed; extra spec '{name}' does not appear to be a valid "
                                               "extra spec.")
