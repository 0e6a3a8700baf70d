"""The older format, without versions: flat dictionaries, as billing tools read them (``compute.instance.create.end``)."""
from __future__ import annotations

import datetime
from typing import Any

from nova_lite import units
from nova_lite.notifications.events import END, ERROR, START, Event, audit_period, image_property
from nova_lite.objects.instance import Instance

Payload = dict[str, Any]
_UNTOLD = ("lock", "unlock", "volume_swap")
_DOTTED = {"live_migration_pre": "live_migration.pre", "live_migration_post": "live_migration._post",
           "live_migration_post_dest": "live_migration.post.dest", "live_migration_rollback": "live_migration._rollback"}


def event_type(event: Event) -> str | None:
    """Its name; None: this format has no notification of it: never of nics, and of volumes only at the end."""
    if event.name.startswith("interface_") or event.name in _UNTOLD:
        return None
    if event.name in _DOTTED:
        return f"compute.instance.{_DOTTED[event.name]}.{event.phase}"
    if event.name.startswith("volume_"):
        return f"compute.instance.{event.name.replace('_', '.')}" if event.phase == END else None
    return f"compute.instance.{event.text}"


def payload(event: Event, now: datetime.datetime) -> Payload:
    """The payload of an event of a server."""
    instance = event.instance
    made = {**_who(instance), **_size(instance), **_times(instance), **_states(instance),
            "image_ref_url": f"images/{instance.image_ref}" if instance.image_ref else "", "image_meta": _image(instance),
            "metadata": dict(instance.metadata), "fixed_ips": _addresses(instance)}
    if event.name == "update":
        made |= _update(event, now)
    elif event.name == "create" and event.phase == START:
        made["image_name"] = instance.image.name if instance.image else ""
    elif event.name == "create" and event.phase == END:
        made["message"] = "Success"
    elif event.volume_id:
        made["volume_id"] = event.volume_id
    if event.phase == ERROR:
        fault = event.fault
        made |= {"exception": fault.exception if fault else "", "message": fault.message if fault else "",
                 "code": (instance.fault or {}).get("code", 500)}
    return made


def _who(instance: Instance) -> Payload:
    return {"tenant_id": instance.project_id, "user_id": instance.user_id, "instance_id": instance.uuid,
            "display_name": instance.display_name, "reservation_id": instance.reservation_id, "hostname": instance.hostname,
            "host": instance.host, "node": instance.node, "availability_zone": instance.availability_zone, "cell_name": "",
            "access_ip_v4": instance.access_ip_v4, "access_ip_v6": instance.access_ip_v6}


def _size(instance: Instance) -> Payload:
    flavor = instance.flavor
    return {"instance_type": flavor.name, "instance_type_id": flavor.id, "instance_flavor_id": flavor.flavorid,
            "architecture": image_property(instance, "hw_architecture", "architecture"), "memory_mb": flavor.memory_mb,
            "disk_gb": flavor.root_gb + flavor.ephemeral_gb, "vcpus": flavor.vcpus, "root_gb": flavor.root_gb,
            "ephemeral_gb": flavor.ephemeral_gb, "os_type": image_property(instance, "os_type"),
            "kernel_id": image_property(instance, "kernel_id") or "",
            "ramdisk_id": image_property(instance, "ramdisk_id") or ""}


def _times(instance: Instance) -> Payload:
    """created_at has always had another form than the others."""
    created = instance.created_at
    return {"created_at": f"{created:%Y-%m-%d %H:%M:%S}+00:00" if created else "", **{
        name: units.isotime_micro(getattr(instance, name)) or "" for name in ("launched_at", "deleted_at", "terminated_at")}}


def _states(instance: Instance) -> Payload:
    return {"state": instance.vm_state, "state_description": instance.task_state or "",
            "progress": instance.progress if instance.progress else ""}


def _image(instance: Instance) -> Payload:
    image = instance.image
    if image is None:
        return {}
    return {**{name: value for name, value in image.properties.items() if isinstance(value, (str, int, float, bool))},
            "min_disk": str(image.min_disk), "min_ram": str(image.min_ram), "disk_format": image.disk_format,
            "container_format": image.container_format, "base_image_ref": instance.image_ref}


def _addresses(instance: Instance) -> list[Payload]:
    return [{"address": fixed_ip.address, "version": fixed_ip.version, "type": "fixed", "label": vif.network_name,
             "vif_mac": vif.mac_address, "floating_ips": list(fixed_ip.floating_ips), "meta": {}}
            for vif in instance.network_info for fixed_ip in vif.fixed_ips]


def _update(event: Event, now: datetime.datetime) -> Payload:
    before, after = event.before, event.instance
    begin, end = audit_period(now)
    made: Payload = {
        "old_state": before.vm_state if before else None, "old_task_state": before.task_state if before else None,
        "new_task_state": after.task_state, "audit_period_beginning": units.isotime_micro(begin),
        "audit_period_ending": units.isotime_micro(end), "bandwidth": {}}
    if before is not None and before.display_name != after.display_name:
        made["old_display_name"] = before.display_name
    return made
