"""The formats and base images of disks that an older version has made, which did not write them down.

Both are noted in a guest's directory before its root disk is made (``GuestDirectory.note_format``, ``note_base``). For guests
of older versions that is done once, when the daemon starts: ``[libvirt] images_type`` may be another one later. The base image
is the one that the disk names then, as nothing else tells it.
"""
from __future__ import annotations

import pathlib

from lxml import etree
from oslo_log import log
from oslo_utils import uuidutils

from nova_lite.virt.libvirt import images
from nova_lite.virt.libvirt.connection import Connection
from nova_lite.virt.libvirt.files import ASIDE, DISK_FORMATS, GuestDirectory, UnreadableRecord
from nova_lite.virt.libvirt.guest import Guest
from nova_lite.virt.libvirt.guest_record import State

LOG = log.getLogger(__name__)


def note_all(root: pathlib.Path, host: str, connection: Connection, images_type: str) -> None:
    """Note formats and base images for the guests of this host, and for those that moves have set aside. Raises VirtDriverError
    or OSError."""
    for disk in sorted(root.glob("*/disk")):
        files = GuestDirectory(root, disk.parent.name)
        uuid = files.path.name.removesuffix(ASIDE)
        try:
            if uuidutils.is_uuid_like(uuid) and (files.is_of(host) or files.record.state is State.UNKNOWN):
                _note(files, uuid, connection, images_type)
        except UnreadableRecord as error:
            LOG.error("It cannot start: %s", error, extra={"instance_uuid": uuid})


def _note(files: GuestDirectory, uuid: str, connection: Connection, images_type: str) -> None:
    if not files.disk_format:
        found = of_domain(Guest(connection, uuid).xml(), files.disk) or images_type
        files.note_format(found)
        LOG.info("Its disk is %s", found, extra={"instance_uuid": uuid})
    if files.base is None:
        _note_base(files, uuid)


def _note_base(files: GuestDirectory, uuid: str) -> None:
    """A disk that is not to be opened has none to be noted, and holds up no other guest."""
    try:
        base = images.base_of(files.disk, files.disk_format, None)
    except OSError as error:
        LOG.error("Its disk is not opened: %s", error, extra={"instance_uuid": uuid})
        return
    files.note_base(base.name if base is not None else "")


def of_domain(xml: str, disk: pathlib.Path) -> str:
    """The format in which a domain has a file as its disk; empty: it has no such disk."""
    for device in etree.fromstring(xml).iterfind("devices/disk") if xml else ():
        source, driver = device.find("source"), device.find("driver")
        if source is not None and driver is not None and source.get("file") == str(disk):
            found = driver.get("type") or ""
            return found if found in DISK_FORMATS else ""
    return ""
