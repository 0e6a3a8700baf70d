"""From a connected volume to the disk of a guest. Pure.

QEMU speaks to storage itself, so a host needs neither iscsid nor kernel modules. What ``connection_info`` may be, as
``data`` of its ``driver_volume_type``:

- rbd: ``name`` pool/image, ``hosts``, ``ports``, ``auth_enabled``, ``auth_username``, ``secret_uuid`` or ``keyring``
- iscsi: ``target_portal``, ``target_iqn``, ``target_lun``; ``auth_method`` CHAP with ``auth_username``, ``auth_password``
- nbd: ``host``, ``port``, ``export``
- local: ``device_path``, a raw file or a block device of this host

and for all of them ``access_mode``, ``discard``, ``qos_specs``, ``encrypted`` and ``encryption`` (see ``encryption.py``).
Beside ``data`` stands ``serial``, when the guest is to know the volume by another name than its id.
"""
from __future__ import annotations

import uuid
from typing import Any

from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.virt import device_names
from nova_lite.virt.libvirt import encryption
from nova_lite.virt.libvirt.config import Auth, Disk, NetworkSource

TYPES = ("rbd", "iscsi", "nbd", "local")
_OURS = uuid.UUID("6f6f1f0e-5d3b-4c37-9a53-0c5a3f9f6d11")       # the namespace of our secrets' uuids
_LIMITS = {f"{way}_{what}_sec{kind}" for way in ("total", "read", "write") for what in ("bytes", "iops")
           for kind in ("", "_max")}
_SECRET_WORDS = ("password", "keyring", "passphrase")


def secret_uuid(instance: Instance, volume_id: str) -> str:
    """The uuid of the secret by which a server reaches a volume: the same for every caller, and different for each server."""
    return str(uuid.uuid5(_OURS, f"{instance.uuid} {volume_id}"))


def prepared(instance: Instance, volume_id: str, connection_info: dict[str, Any]) -> dict[str, Any]:
    """A copy without secrets that may be stored, and from which :func:`disk` can make the disk.

    Raises InvalidVolume for what this hypervisor cannot attach.
    """
    kind, data = connection_info.get("driver_volume_type"), connection_info.get("data") or {}
    if kind not in TYPES:
        raise exception.InvalidVolume(reason=f"connection type {kind} is not one of {', '.join(TYPES)}")
    if kind == "iscsi" and data.get("auth_method", "CHAP") not in ("CHAP", None, ""):
        raise exception.InvalidVolume(reason=f"iSCSI authentication {data['auth_method']} is not supported")
    kept = {k: v for k, v in data.items() if not any(word in k for word in _SECRET_WORDS)}
    kept.pop("encryption", None)
    encrypted = encryption.prepared(instance, volume_id, data)
    if encrypted is not None:
        kept["encryption"] = encrypted.written()
    if secret(connection_info) is not None:
        kept["secret_uuid"] = secret_uuid(instance, volume_id)
    made = {**connection_info, "data": kept}
    try:
        _source(made)
        _limits(made)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise exception.InvalidVolume(reason=f"its {kind} connection is incomplete: {type(error).__name__} {error}") from error
    return made


def secret(connection_info: dict[str, Any]) -> tuple[str, str] | None:
    """(kind, value) of the secret that libvirt is to keep: ceph or iscsi; None: there is none, or the operator made it."""
    data = connection_info["data"]
    if connection_info["driver_volume_type"] == "iscsi" and data.get("auth_password"):
        return "iscsi", str(data["auth_password"])
    if connection_info["driver_volume_type"] == "rbd" and data.get("keyring"):
        return "ceph", _key(str(data["keyring"]))
    return None


def disk(instance: Instance, device: BlockDevice, target: str) -> Disk:
    """The disk that a guest is given for a connected volume; raises BuildAborted for a bus that does not exist."""
    info = device.connection_info or {}
    data, bus = info["data"], device_names.disk_bus(instance, device)
    if bus not in device_names.PREFIXES:
        reason = f"disk bus {bus} of volume {device.volume_id} is not one of {', '.join(device_names.PREFIXES)}"
        raise exception.BuildAborted(instance_id=instance.uuid, reason=reason)
    network, encrypted = _source(info), encryption.of(info)
    cache = "none" if network or data.get("direct_io", True) else "writeback"
    return Disk(path="" if network else str(data["device_path"]), target=target, bus=bus, format="raw", cache=cache,
                serial=device.serial, tune=_limits(info), network=network,
                block=bool(data.get("block_device")), readonly=data.get("access_mode") == "ro", shareable=device.multiattach,
                discard=bool(data.get("discard")), alias=f"ua-{device.id}",
                luks_secret=encrypted.secret_uuid if encrypted else "")


def _source(info: dict[str, Any]) -> NetworkSource | None:
    """None: a file or block device of the host."""
    data = info["data"]
    match info["driver_volume_type"]:
        case "rbd":
            ports = data.get("ports") or [""] * len(data["hosts"])
            hosts = tuple((_bare(h), str(p)) for h, p in zip(data["hosts"], ports, strict=True))
            return NetworkSource("rbd", data["name"], hosts, _auth(data, "ceph") if data.get("auth_enabled") else None)
        case "iscsi":
            portal = data.get("target_portal") or data["target_portals"][0]
            name = f"{data.get('target_iqn') or data['target_iqns'][0]}/{data.get('target_lun', 0)}"
            auth = _auth(data, "iscsi") if data.get("auth_username") else None
            return NetworkSource("iscsi", name, (_host_port(portal, "3260"),), auth, data.get("initiator", ""))
        case "nbd":
            return NetworkSource("nbd", data.get("export") or "", ((_bare(data["host"]), str(data.get("port") or 10809)),))
    if not data["device_path"]:
        raise ValueError("device_path is empty")
    return None


def _auth(data: dict[str, Any], kind: str) -> Auth:
    if not data["auth_username"] or not data["secret_uuid"]:
        raise ValueError("auth_username or secret_uuid is empty")
    return Auth(data["auth_username"], kind, data["secret_uuid"])


def _limits(info: dict[str, Any]) -> dict[str, int]:
    return {k: int(v) for k, v in (info["data"].get("qos_specs") or {}).items() if k in _LIMITS}


def _host_port(portal: str, default: str) -> tuple[str, str]:
    host, _, port = portal.rpartition(":")
    return (_bare(host), port) if host and port.isdigit() else (_bare(portal), default)


def _bare(host: str) -> str:
    """IPv6 addresses without brackets."""
    return host.removeprefix("[").removesuffix("]")


def _key(keyring: str) -> str:
    """The key of a Ceph keyring file, or the text itself when it is a bare key."""
    for line in keyring.splitlines():
        name, sign, value = line.partition("=")
        if sign and name.strip() == "key":
            return value.strip()
    return keyring.strip()
