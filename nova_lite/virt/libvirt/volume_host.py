"""What a host does for a volume before and after a guest has it: it keeps the secrets, and describes itself to the storage.

A password of the storage is kept while the volume is connected. The passphrase of an encrypted volume, or of the guest's own
disks, is kept only in libvirt's memory, and only while a guest reads it: each start reads it from the key manager again.
"""
from __future__ import annotations

import base64
import dataclasses
import os
import pathlib
import re
import stat
from collections.abc import Callable, Sequence
from typing import Any

from lxml import etree
from lxml.builder import E
from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.keymgr import KeyManager
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.runtime import concurrency
from nova_lite.virt.libvirt import disks, encryption, luks, volumes
from nova_lite.virt.libvirt.connection import Connection, again
from nova_lite.virt.libvirt.domain_xml.elements import child
from nova_lite.virt.libvirt.encryption import Encryption
from nova_lite.virt.libvirt.guest import Guest

LOG = log.getLogger(__name__)

_INITIATOR_FILE = pathlib.Path("/etc/iscsi/initiatorname.iscsi")
_USAGES = {"ceph": "name", "iscsi": "target", "volume": "volume"}       # kind of secret: the element with its use
_USAGE = re.compile(r"([0-9a-f-]{36})/(?:[0-9a-f-]{36}|disks)")     # of our secrets: server and volume, or its own disks
_IQN_PREFIX = "iqn.2010-10.org.openstack"


class VolumeHost:
    """The connector of one host for storage backends, and its libvirt secrets."""

    def __init__(self, conf: cfg.ConfigOpts, host: str, connection: Connection) -> None:
        self._conf, self._name, self._connection = conf, host, connection
        self._keys = KeyManager(conf)

    def connector(self) -> dict[str, Any]:
        """The connector for the Volume service."""
        return {"host": self._name, "ip": self._conf.my_ip, "initiator": self._initiator(), "multipath": False,
                "os_type": "linux", "platform": os.uname().machine, "do_local_attach": False}

    def connect(self, instance: Instance, device: BlockDevice, connection_info: dict[str, Any]) -> dict[str, Any]:
        """Keep the secrets and check the file; returns the connection_info that may be stored. Raises InvalidVolume, and the
        errors of ``KeyManager.passphrase`` and ``luks.make_ready``."""
        made = volumes.prepared(instance, str(device.volume_id), connection_info)
        data, kind, encrypted = made["data"], made["driver_volume_type"], encryption.of(made)
        passphrase = self._keys.passphrase(encrypted.key_id) if encrypted is not None else ""
        found = volumes.secret(connection_info)
        if kind == "iscsi":
            data["initiator"] = self._initiator()
        elif kind == "local":
            data |= concurrency.native(_look_at, str(data["device_path"]))
        if encrypted is not None and kind != "rbd":     # Cinder formats those itself
            disk = volumes.disk(instance, dataclasses.replace(device, connection_info=made), "vda")
            luks.make_ready(disk, encrypted, passphrase, found[1] if found is not None else "")
        if found is not None:
            self._keep(data["secret_uuid"], found[0], f"{instance.uuid}/{device.volume_id}", found[1])
        if encrypted is not None:
            self._keep_passphrase(instance, device, encrypted, passphrase)
        return made

    def disconnect(self, instance: Instance, device: BlockDevice) -> None:
        """Forget the secrets; there may be none."""
        # after an exchange of volumes the secret has the new volume's name, the device perhaps the old one's
        name = (device.connection_info or {}).get("volume_id") or device.volume_id
        self._forget(volumes.secret_uuid(instance, str(name)))
        if encryption.of(device.connection_info) is not None:
            self._forget(encryption.secret_uuid(instance, str(name)))

    def kept_for(self) -> set[str]:
        """The servers for which there are secrets."""
        return self._connection.run(lambda connection: {server for server, _ in self._kept(connection)})

    def forget_all(self, instance_uuid: str) -> None:
        """Delete the secrets of a server that has no guest here, and whose volumes are no longer known here."""
        if Guest(self._connection, instance_uuid).power_state() is None:
            for server, uuid in self._connection.run(self._kept):
                if server == instance_uuid:
                    self._forget(uuid)

    def _kept(self, connection: Any) -> list[tuple[str, str]]:
        """Servers, and the secrets that are kept for them."""
        lib = self._connection.libvirt
        try:
            return [(found[1], secret.UUIDString()) for secret in connection.listAllSecrets()
                    if (found := _USAGE.fullmatch(secret.usageID()))]
        except lib.libvirtError as error:
            if error.get_error_code() != lib.VIR_ERR_NO_SUPPORT:        # a hypervisor without secrets
                raise
            return []

    def unlock(self, instance: Instance) -> None:
        """Before its guest starts: libvirt is to have the passphrases of its encrypted volumes and disks. Raises what
        ``KeyManager.passphrase`` and ``encryption.of_disks`` raise."""
        for device, encrypted in encryption.of_all(instance.block_devices):
            if not self._has(encrypted.secret_uuid):
                self._keep_passphrase(instance, device, encrypted, self._keys.passphrase(encrypted.key_id))
        own = encryption.of_disks(instance)
        if own is not None and not self._has(own.secret_uuid):
            self._keep(own.secret_uuid, "volume", f"{instance.uuid}/disks", self._keys.passphrase(own.key_id))

    def unlocked(self, instance: Instance, step: Callable[[], None]) -> None:
        """``step``, which needs these passphrases. A libvirt that ends under it forgets them: then both are done again."""
        def unlock_and_step() -> None:
            self.unlock(instance)
            step()
        again(unlock_and_step, self._connection.clock)

    def remove_unused_secrets(self, instance: Instance) -> None:
        """Forget the passphrases of a server where no guest reads what they open any more."""
        self._remove_unused_secrets(instance, encryption.secret_uuids(instance))

    def remove_unused_volume_secret(self, instance: Instance, device: BlockDevice) -> None:
        """The same of one volume."""
        self._remove_unused_secrets(instance, [encrypted.secret_uuid for _, encrypted in encryption.of_all([device])])

    def _remove_unused_secrets(self, instance: Instance, uuids: Sequence[str]) -> None:
        if uuids and not Guest(self._connection, instance.uuid).is_active():
            for uuid in uuids:
                self._forget(uuid)

    def _keep_passphrase(self, instance: Instance, device: BlockDevice, encrypted: Encryption, passphrase: str) -> None:
        self._keep(encrypted.secret_uuid, "volume", f"{instance.uuid}/{device.volume_id}", passphrase)

    def _has(self, uuid: str) -> bool:
        lib = self._connection.libvirt

        def look(connection: Any) -> bool:
            try:
                return bool(connection.secretLookupByUUIDString(uuid))
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_NO_SECRET:
                    raise
                return False

        return self._connection.run(look)

    def _forget(self, uuid: str) -> None:
        lib = self._connection.libvirt

        def forget(connection: Any) -> None:
            try:
                connection.secretLookupByUUIDString(uuid).undefine()
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_NO_SECRET:
                    raise

        self._connection.run(forget)

    def _keep(self, uuid: str, kind: str, usage: str, value: str) -> None:
        """Define it, over an older one. Private: libvirt gives it to QEMU only. That of a storage (ceph, iscsi) survives a
        restart of the host, a passphrase (volume) is never written to a disk."""
        element = E.secret(E.uuid(uuid), E.description("storage of a server"), E.usage(child(_USAGES[kind], usage), type=kind),
                           ephemeral="yes" if kind == "volume" else "no", private="yes")
        xml = etree.tostring(element, encoding="unicode")
        # ceph keys are base64 of what libvirt wants to have
        raw = base64.b64decode(value) if kind == "ceph" else value.encode()

        def keep(connection: Any) -> None:
            made = connection.secretDefineXML(xml)
            try:
                made.setValue(raw, 0)
            except BaseException:       # a secret without a value would count as stored
                made.undefine()
                raise

        self._connection.run(keep)

    def _initiator(self) -> str:
        """This host's IQN: that of its iSCSI initiator when it has one, else one made of its name."""
        try:
            match = re.search(r"^InitiatorName=(\S+)", _INITIATOR_FILE.read_text(), re.MULTILINE)
        except OSError:
            match = None
        return match[1] if match else f"{_IQN_PREFIX}:nova-lite-{re.sub('[^a-z0-9.-]', '-', self._name.lower())}"


def _look_at(path: str) -> dict[str, Any]:
    """Whether a local volume is a block device, and whether it takes direct I/O."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise exception.InvalidVolume(reason=f"{path} cannot be used on this host: {error.strerror}",
                                      public="Invalid volume: it cannot be used on this host") from error
    if stat.S_ISBLK(mode):
        return {"block_device": True, "direct_io": True}
    return {"block_device": False, "direct_io": disks.takes_direct_io(pathlib.Path(path).parent)}
