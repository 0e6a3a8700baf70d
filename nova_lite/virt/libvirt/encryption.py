"""The encryption of a volume or of a server's own disks: from the data of the Volume service, or the server's record, to
libvirt's form. Pure.

QEMU itself decrypts, with a passphrase that libvirt keeps as a secret. So only formats of QEMU can be attached, which is the
first version of LUKS.
"""
from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nova_lite import exception
from nova_lite.objects import hardware
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance

LUKS = "luks"
NOT_HERE = "its disks are to be encrypted, which takes [libvirt] images_type = qcow2, and this host has another"
_OURS = uuid.UUID("0a3f8d52-7c1e-4f0b-b0d5-2f6c1f8f4e27")       # the namespace of the uuids of passphrases
_BACK_END = "back-end"
# before providers had names, classes of Nova and of os-brick stood there
_CLASSES = {"LuksEncryptor": LUKS, "Luks2Encryptor": "luks2", "CryptsetupEncryptor": "plain"}
_DISKS = "disks"            # in place of a volume's id
_REFUSED = {"luks2": "QEMU reads version 1 of LUKS only", "plain": "QEMU does not read plain dm-crypt"}


@dataclass(frozen=True)
class Encryption:
    """Of one volume, or of a server's own disks. ``secret_uuid`` is libvirt's secret with the passphrase of the key ``key_id``.
    A new volume is formatted with ``cipher`` (such as aes-xts-plain64) and ``key_size`` (bits)."""

    key_id: str
    secret_uuid: str
    cipher: str = "aes-xts-plain64"
    key_size: int = 256

    def written(self) -> dict[str, Any]:
        """The form in a stored connection_info; it has no secret."""
        return {"provider": LUKS, "encryption_key_id": self.key_id, "secret_uuid": self.secret_uuid, "cipher": self.cipher,
                "key_size": self.key_size}


def of(info: dict[str, Any] | None) -> Encryption | None:
    """That of a connection_info that was prepared; None: it is not encrypted."""
    said = (info or {}).get("data", {}).get("encryption")
    return Encryption(said["encryption_key_id"], said["secret_uuid"], said["cipher"], said["key_size"]) if said else None


def of_all(devices: Iterable[BlockDevice]) -> list[tuple[BlockDevice, Encryption]]:
    """The encrypted ones of a server's connected volumes."""
    found = ((device, of(device.connection_info)) for device in devices)
    return [(device, encryption) for device, encryption in found if encryption is not None]


def secret_uuid(instance: Instance, volume_id: str) -> str:
    """The same for every caller, and different for each server and volume."""
    return str(uuid.uuid5(_OURS, f"{instance.uuid} {volume_id}"))


def of_disks(instance: Instance) -> Encryption | None:
    """That of the disks that a server has on its host; None: they are plain. Raises VirtDriverError for a server without the
    key that its build has noted."""
    if not hardware.encrypts_disks(instance.flavor, instance.image):
        return None
    if not instance.disks_key_id:
        raise exception.DriverRefusal(what="Encrypted disks", reason="they have no key")
    return Encryption(instance.disks_key_id, secret_uuid(instance, _DISKS))


def secret_uuids(instance: Instance) -> list[str]:
    """Of all that is encrypted of a server, whether it ever had a key or not."""
    own = [secret_uuid(instance, _DISKS)] if hardware.encrypts_disks(instance.flavor, instance.image) else []
    return own + [encrypted.secret_uuid for _, encrypted in of_all(instance.block_devices)]


def prepared(instance: Instance, volume_id: str, data: dict[str, Any]) -> Encryption | None:
    """The encryption in ``data`` of the Volume service's connection. Raises InvalidVolume for a format that QEMU cannot
    decrypt."""
    said = data.get("encryption") or {}
    if not data.get("encrypted") or said.get("control_location") == _BACK_END:
        return None
    provider = str(said.get("provider") or "")
    provider = _CLASSES.get(provider.rpartition(".")[2], provider)
    if provider != LUKS:
        why = _REFUSED.get(provider, "only luks is known")
        raise exception.InvalidVolume(reason=f"it is encrypted with provider {provider or '(none)'}: {why}")
    if not said.get("encryption_key_id"):
        raise exception.InvalidVolume(reason="it is encrypted, but the Volume service names no key of it")
    return Encryption(str(said["encryption_key_id"]), secret_uuid(instance, volume_id),
                      str(said.get("cipher") or Encryption.cipher), int(said.get("key_size") or Encryption.key_size))
