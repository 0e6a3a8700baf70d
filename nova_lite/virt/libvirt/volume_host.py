"""What a host does for a volume before and after a guest has it: it keeps the secret, and says who it is."""
from __future__ import annotations

import base64
import os
import pathlib
import re
import stat
from typing import Any

from lxml import etree
from lxml.builder import E
from oslo_config import cfg
from oslo_log import log

from nova_lite import concurrency, exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.virt.libvirt import disks, volumes
from nova_lite.virt.libvirt.connection import Connection

LOG = log.getLogger(__name__)

_INITIATOR_FILE = pathlib.Path("/etc/iscsi/initiatorname.iscsi")
_IQN_PREFIX = "iqn.2010-10.org.openstack"


class VolumeHost:
    """One host as storage backends see it, and its libvirt secrets."""

    def __init__(self, conf: cfg.ConfigOpts, host: str, connection: Connection) -> None:
        self._conf, self._name, self._connection = conf, host, connection

    def connector(self) -> dict[str, Any]:
        """What the Volume service is told."""
        return {"host": self._name, "ip": self._conf.my_ip, "initiator": self._initiator(), "multipath": False,
                "os_type": "linux", "platform": os.uname().machine, "do_local_attach": False}

    def connect(self, instance: Instance, device: BlockDevice, connection_info: dict[str, Any]) -> dict[str, Any]:
        """Keep the secret, look at the file; the connection_info that may be stored. Raises InvalidVolume."""
        made = volumes.prepared(instance, str(device.volume_id), connection_info)
        data, kind = made["data"], made["driver_volume_type"]
        found = volumes.secret(connection_info)
        if found is not None:
            self._keep(data["secret_uuid"], found[0], f"{instance.uuid}/{device.volume_id}", found[1])
        if kind == "iscsi":
            data["initiator"] = self._initiator()
        elif kind == "local":
            data |= concurrency.native(_look_at, str(data["device_path"]))
        return made

    def disconnect(self, instance: Instance, device: BlockDevice) -> None:
        """Forget the secret; there may be none."""
        # after an exchange of volumes the secret has the new volume's name, the device perhaps the old one's
        name = (device.connection_info or {}).get("volume_id") or device.volume_id
        lib, uuid = self._connection.libvirt, volumes.secret_uuid(instance, str(name))

        def forget(connection: Any) -> None:
            try:
                connection.secretLookupByUUIDString(uuid).undefine()
            except lib.libvirtError as error:
                if error.get_error_code() != lib.VIR_ERR_NO_SECRET:
                    raise

        self._connection.run(forget)

    def _keep(self, uuid: str, kind: str, usage: str, value: str) -> None:
        """Define it, over an older one. Private: libvirt gives it to QEMU only; it survives a restart of the host."""
        element = E.secret(E.uuid(uuid), E.description("volume of a server"),
                           E.usage(E.name(usage) if kind == "ceph" else E.target(usage), type=kind),
                           ephemeral="no", private="yes")
        xml = etree.tostring(element, encoding="unicode")
        # ceph keys are base64 of what libvirt wants to have
        raw = base64.b64decode(value) if kind == "ceph" else value.encode()
        self._connection.run(lambda connection: connection.secretDefineXML(xml).setValue(raw, 0) and None)

    def _initiator(self) -> str:
        """This host's IQN: that of its iSCSI initiator when it has one, else one of its name."""
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
        raise exception.InvalidVolume(reason=f"{path} cannot be used on this host: {error.strerror}") from error
    if stat.S_ISBLK(mode):
        return {"block_device": True, "direct_io": True}
    return {"block_device": False, "direct_io": disks.takes_direct_io(pathlib.Path(path).parent)}
