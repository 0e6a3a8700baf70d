"""Formats an encrypted volume before its first guest.

Many back ends leave a new encrypted volume empty, and its first user has to write the LUKS header. The header is written only
to a volume whose beginning is blank, or has the rest of a header of a killed run. qemu-img accesses the storage itself, as QEMU
does. Secrets are passed by pipes, and the header in memory: no command line and no file has them.
"""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from oslo_log import log

from nova_lite import exception
from nova_lite.virt.libvirt import images, qemu_tools
from nova_lite.virt.libvirt.config import Disk
from nova_lite.virt.libvirt.encryption import Encryption

LOG = log.getLogger(__name__)
BLANK = 1 << 20             # bytes from the beginning that must be zeros
SECTOR = 512                # bytes that are written all or not at all
# its first sector is full while the rest of the header is written, so that half a header is not taken for data
BEGUN = ord("N")
_NOT_LUKS = "not in LUKS format"


def make_ready(disk: Disk, encrypted: Encryption, passphrase: str, password: str = "") -> None:
    """Format the volume behind ``disk`` unless it has a LUKS header. ``password``: that of its storage, where there is one.

    Raises InvalidVolume for one that has other data, VirtDriverError when it cannot be read or written.
    """
    place = _place(disk)
    look = qemu_tools.run({"storage": password}, "qemu-img", "info", "-U", "--image-opts", f"driver=luks,{place}")
    if look.returncode == 0:
        return
    if _NOT_LUKS not in look.stderr:
        raise qemu_tools.failed("Looking for the LUKS header", look)
    if not _begins(place, password, 0, BLANK) and not _begins(place, password, BEGUN, SECTOR):
        raise exception.InvalidVolume(reason="it is said to be encrypted with luks, but has other data at its beginning")
    LOG.info("volume %s is empty: it gets a LUKS header", disk.serial)
    _write(place, password, _header(encrypted, passphrase))


def _begins(place: str, password: str, byte: int, length: int) -> bool:
    """Whether the first ``length`` bytes of the volume are all ``byte``. Raises VirtDriverError."""
    read = qemu_tools.run({"storage": password}, "qemu-io", "-r", "-U", "--image-opts", "-c", f"read -P {byte} 0 {length}",
                          f"driver=raw,{place}")
    if "verification failed" in read.stdout + read.stderr:
        return False
    if read.returncode:
        raise qemu_tools.failed("Looking at the volume", read)
    return True


def _write(place: str, password: str, header: bytes) -> None:
    """The first sector last: until it is there, the volume is taken for one without a header. Raises VirtDriverError."""
    with _in_memory(header[:SECTOR]) as first, _in_memory(header[SECTOR:]) as rest:
        steps = (f"write -P {BEGUN} 0 {SECTOR}", f"write -s /dev/fd/{rest} {SECTOR} {len(header) - SECTOR}",
                 f"write -s /dev/fd/{first} 0 {SECTOR}")
        commands = [word for step in steps for word in ("-c", step, "-c", "flush")]
        written = qemu_tools.run({"storage": password}, "qemu-io", "--image-opts", *commands, f"driver=raw,{place}",
                                 keep=[first, rest])
    if written.returncode or "failed" in written.stdout:
        raise qemu_tools.failed("Writing the LUKS header", written)


def _header(encrypted: Encryption, passphrase: str) -> bytes:
    """A new header. Raises VirtDriverError."""
    with _in_memory() as header:
        made = qemu_tools.create({"passphrase": passphrase}, "-f", "luks", "-o", _options(encrypted), f"/dev/fd/{header}", "0",
                                 keep=[header])
        if made.returncode:
            raise qemu_tools.failed("Making the LUKS header", made)
        return os.pread(header, os.fstat(header).st_size, 0)


def _options(encrypted: Encryption) -> str:
    """As Cinder reads a cipher: aes-xts-plain64 with 256 bits is aes-256, xts, plain64. Raises InvalidVolume."""
    parts = encrypted.cipher.split("-")
    if len(parts) != 3:
        raise exception.InvalidVolume(reason=f"its cipher {encrypted.cipher} is not of the form aes-xts-plain64")
    algorithm, mode, vector = map(images.option, parts)
    return (f"key-secret=passphrase,cipher-alg={algorithm}-{encrypted.key_size},cipher-mode={mode},ivgen-alg={vector},"
            f"iter-time={qemu_tools.ITERATION}")


def _place(disk: Disk) -> str:
    """Where it is, as qemu-img takes it. Raises InvalidVolume for a storage that formats its volumes itself (rbd)."""
    network = disk.network
    if network is None:
        return f"file.driver={'host_device' if disk.block else 'file'},file.filename={images.option(disk.path)}"
    host, port = network.hosts[0]
    if network.protocol == "nbd":
        values = {"driver": "nbd", "server.type": "inet", "server.host": host, "server.port": port, "export": network.name}
    elif network.protocol == "iscsi":
        target, _, lun = network.name.rpartition("/")
        values = {"driver": "iscsi", "transport": "tcp", "portal": f"[{host}]:{port}" if ":" in host else f"{host}:{port}",
                  "target": target, "lun": lun}
        if network.auth is not None:
            values |= {"user": network.auth.username, "password-secret": "storage"}
        if network.initiator:
            values["initiator-name"] = network.initiator
    else:
        raise exception.InvalidVolume(reason=f"an encrypted volume of {network.protocol} must have been formatted")
    return ",".join(f"file.{name}={images.option(value)}" for name, value in values.items() if value)


@contextlib.contextmanager
def _in_memory(data: bytes = b"") -> Iterator[int]:
    """A file that is gone with its last process."""
    file = os.memfd_create("header")
    try:
        os.pwrite(file, data, 0)
        yield file
    finally:
        os.close(file)
