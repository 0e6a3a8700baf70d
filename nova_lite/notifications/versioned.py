"""The versioned format: payloads in envelopes that name their type and version. The names and versions are Nova's."""
from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from nova_lite import exception, units
from nova_lite.notifications.events import POWER_STATES, Event, Fault, audit_period, image_property
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance

TOPIC = "versioned_notifications"
Payload = dict[str, Any]


def payload(event: Event, now: datetime.datetime) -> Payload:
    """The payload of an event of a server."""
    data = _instance(event.instance, event.context)
    if event.name == "update":
        return _object("InstanceUpdatePayload", "2.0", {**data, **_update(event, now)})
    data["fault"] = _fault(event.fault) if event.fault else None
    if event.name == "create":
        return _object("InstanceCreatePayload", "1.12", {**data, **_create(event.instance)})
    if event.name == "snapshot":
        return _object("InstanceActionSnapshotPayload", "1.9", {**data, "snapshot_image_id": event.image_id})
    if event.name == "volume_swap":
        volumes = {"old_volume_id": event.volume_id, "new_volume_id": event.new_volume_id}
        return _object("InstanceActionVolumeSwapPayload", "1.8", {**data, **volumes})
    if event.name.startswith("volume_"):
        return _object("InstanceActionVolumePayload", "1.6", {**data, "volume_id": event.volume_id})
    return _object("InstanceActionPayload", "1.8", data)


def service_payload(service: Mapping[str, Any], zone: str | None = None) -> Payload:
    """The payload of service.create, service.update and service.delete, from a service record."""
    seen = service["last_seen_at"]
    return _object("ServiceStatusPayload", "1.1", {
        "host": service["host"], "disabled": bool(service["disabled"]), "last_seen_up": units.isotime(seen),
        "binary": service["binary"], "topic": service["binary"].removeprefix("nova-"),
        "disabled_reason": service["disabled_reason"], "report_count": 0, "forced_down": bool(service["forced_down"]),
        "version": 0, "availability_zone": zone, "uuid": service["uuid"]})


def _object(name: str, version: str, data: Payload) -> Payload:
    return {"nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version,
            "nova_object.data": data}


def _instance(instance: Instance, context: Mapping[str, Any]) -> Payload:
    times = {name: units.isotime(getattr(instance, name)) for name in (
        "created_at", "deleted_at", "launched_at", "terminated_at", "updated_at")}
    if instance.updated_at == instance.created_at:
        times["updated_at"] = None      # nothing has changed since
    return {
        **times, "uuid": instance.uuid, "user_id": instance.user_id, "tenant_id": instance.project_id,
        "reservation_id": instance.reservation_id, "display_name": instance.display_name,
        "display_description": instance.display_description, "host_name": instance.hostname, "host": instance.host,
        "node": instance.node, "os_type": image_property(instance, "os_type"),
        "architecture": image_property(instance, "hw_architecture", "architecture"),
        "availability_zone": instance.availability_zone, "image_uuid": instance.image_ref or "",
        "key_name": instance.key_name, "kernel_id": image_property(instance, "kernel_id") or "",
        "ramdisk_id": image_property(instance, "ramdisk_id") or "", "metadata": dict(instance.metadata),
        "locked": bool(instance.locked), "locked_reason": instance.locked_reason, "progress": instance.progress or 0,
        "state": instance.vm_state, "task_state": instance.task_state,
        "power_state": POWER_STATES.get(instance.power_state, "pending"),
        "auto_disk_config": "AUTO" if instance.auto_disk_config else "MANUAL", "flavor": _flavor(instance),
        "ip_addresses": _addresses(instance),
        "block_devices": [_device(d) for d in instance.block_devices if d.volume_id],
        "request_id": context.get("request_id"), "action_initiator_user": context.get("user_id"),
        "action_initiator_project": context.get("project_id")}


def _flavor(instance: Instance) -> Payload:
    flavor = instance.flavor
    return _object("FlavorPayload", "1.4", {
        "flavorid": flavor.flavorid, "name": flavor.name, "memory_mb": flavor.memory_mb, "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gb, "ephemeral_gb": flavor.ephemeral_gb, "swap": flavor.swap,
        "rxtx_factor": flavor.rxtx_factor, "vcpu_weight": 0, "disabled": flavor.disabled, "is_public": flavor.is_public,
        "extra_specs": dict(flavor.extra_specs), "projects": None, "description": flavor.description})


def _addresses(instance: Instance) -> list[Payload]:
    return [_object("IpPayload", "1.0", {
        "label": vif.network_name, "mac": vif.mac_address, "meta": {}, "port_uuid": vif.id, "version": fixed_ip.version,
        "address": fixed_ip.address, "device_name": vif.devname})
        for vif in instance.network_info for fixed_ip in vif.fixed_ips]


def _device(device: BlockDevice) -> Payload:
    return _object("BlockDevicePayload", "1.0", {
        "device_name": device.device_name, "boot_index": device.boot_index,
        "delete_on_termination": device.delete_on_termination, "volume_id": device.volume_id, "tag": device.tag})


def _create(instance: Instance) -> Payload:
    return {"keypairs": [_keypair(instance)] if instance.keypair else [], "tags": list(instance.tags),
            "trusted_image_certificates": instance.trusted_certs}


def _keypair(instance: Instance) -> Payload:
    from nova_lite import crypto  # 7 MiB: imported for notifications of keys only

    key = instance.keypair or {}
    read = crypto.x509_fingerprint if key.get("type") == "x509" else crypto.ssh_fingerprint
    try:
        fingerprint = read(key["public_key"])
    except exception.InvalidKeypair:        # it was accepted once, by whatever rules there were then
        fingerprint = ""
    return _object("KeypairPayload", "1.0", {
        "user_id": instance.user_id, "name": key["name"], "fingerprint": fingerprint, "public_key": key["public_key"],
        "type": key.get("type", "ssh")})


def _update(event: Event, now: datetime.datetime) -> Payload:
    before, after = event.before, event.instance
    begin, end = audit_period(now)
    renamed = before is not None and before.display_name != after.display_name
    state = {"old_state": before.vm_state if before else None, "state": after.vm_state,
             "old_task_state": before.task_state if before else None, "new_task_state": after.task_state}
    period = {"audit_period_beginning": units.isotime(begin), "audit_period_ending": units.isotime(end)}
    return {"state_update": _object("InstanceStateUpdatePayload", "1.0", state),
            "audit_period": _object("AuditPeriodPayload", "1.0", period),
            "old_display_name": before.display_name if before and renamed else None, "tags": list(after.tags)}


def _fault(fault: Fault) -> Payload:
    return _object("ExceptionPayload", "1.1", {
        "module_name": fault.module, "function_name": fault.function, "exception": fault.exception,
        "exception_message": fault.message, "traceback": fault.traceback})
