"""An encrypted volume made ready for its first guest.

Of many back ends a new encrypted volume is as empty as any other: whoever connects it first is to write the LUKS header. That
is done to a volume whose beginning is blank, and to nothing else but what a killed run has left of such a header. qemu-img
speaks to the storage itself, as QEMU does; what is secret goes to it by pipes, the header by memory: no command line and no
file has any of it.
"""
from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterable, Iterator

from oslo_log import log

from nova_lite import exception
from nova_lite.virt.libvirt import images
from nova_lite.virt.libvirt.config import Disk
from nova_lite.virt.libvirt.encryption import Encryption

LOG = log.getLogger(__name__)
BLANK = 1 << 20             # bytes from the beginning that must be zeros
SECONDS = 120.0             # that one look at the storage may take
SECTOR = 512                # bytes that are written all or not at all
# of which the first sector is full as long as the rest of the header is written, so that nobody takes half a header for data
BEGUN = ord("N")
# milliseconds of work to try a passphrase: ours are random keys, which nobody guesses at any speed
_ITERATION = 100
_NOT_LUKS = "not in LUKS format"
# QEMU measures how fast the machine is; on a busy one its clock of the thread's work now and then does not move meanwhile
_UNMEASURED = "Unable to get accurate CPU usage"
_ATTEMPTS = 50              # of some milliseconds each; one in five failed on a machine with two busy cores


def make_ready(disk: Disk, encrypted: Encryption, passphrase: str, password: str = "") -> None:
    """Format the volume behind ``disk`` unless it has a LUKS header. ``password``: that of its storage, where there is one.

    Raises InvalidVolume for one that has other data, VirtDriverError when it cannot be read or written.
    """
    place = _place(disk)
    look = _run({"storage": password}, "qemu-img", "info", "-U", "--image-opts", f"driver=luks,{place}")
    if look.returncode == 0:
        return
    if _NOT_LUKS not in look.stderr:
        raise _failed("Looking for the LUKS header", look)
    if not _begins(place, password, 0, BLANK) and not _begins(place, password, BEGUN, SECTOR):
        raise exception.InvalidVolume(reason="it is said to be encrypted with luks, but has other data at its beginning")
    LOG.info("volume %s is empty: it gets a LUKS header", disk.serial)
    _write(place, password, _header(encrypted, passphrase))


def _begins(place: str, password: str, byte: int, length: int) -> bool:
    """Whether the first ``length`` bytes of the volume are all ``byte``. Raises VirtDriverError."""
    read = _run({"storage": password}, "qemu-io", "-r", "-U", "--image-opts", "-c", f"read -P {byte} 0 {length}",
                f"driver=raw,{place}")
    if "verification failed" in read.stdout + read.stderr:
        return False
    if read.returncode:
        raise _failed("Looking at the volume", read)
    return True


def _write(place: str, password: str, header: bytes) -> None:
    """The first sector last: until it is there, the volume is taken for one without a header. Raises VirtDriverError."""
    with _in_memory(header[:SECTOR]) as first, _in_memory(header[SECTOR:]) as rest:
        steps = (f"write -P {BEGUN} 0 {SECTOR}", f"write -s /dev/fd/{rest} {SECTOR} {len(header) - SECTOR}",
                 f"write -s /dev/fd/{first} 0 {SECTOR}")
        commands = [word for step in steps for word in ("-c", step, "-c", "flush")]
        written = _run({"storage": password}, "qemu-io", "--image-opts", *commands, f"driver=raw,{place}", keep=[first, rest])
    if written.returncode or "failed" in written.stdout:
        raise _failed("Writing the LUKS header", written)


def _header(encrypted: Encryption, passphrase: str) -> bytes:
    """A new header. Raises VirtDriverError."""
    with _in_memory() as header:
        for _attempt in range(_ATTEMPTS):
            made = _run({"passphrase": passphrase}, "qemu-img", "create", "-q", "-f", "luks", "-o", _options(encrypted),
                        f"/dev/fd/{header}", "0", keep=[header])
            if _UNMEASURED not in made.stderr:
                break
            LOG.info("qemu-img could not measure the speed of this machine: once more")
        if made.returncode:
            raise _failed("Making the LUKS header", made)
        return os.pread(header, os.fstat(header).st_size, 0)


def _options(encrypted: Encryption) -> str:
    """As Cinder reads a cipher: aes-xts-plain64 with 256 bits is aes-256, xts, plain64. Raises InvalidVolume."""
    parts = encrypted.cipher.split("-")
    if len(parts) != 3:
        raise exception.InvalidVolume(reason=f"its cipher {encrypted.cipher} is not of the form aes-xts-plain64")
    algorithm, mode, vector = map(images.option, parts)
    return (f"key-secret=passphrase,cipher-alg={algorithm}-{encrypted.key_size},cipher-mode={mode},ivgen-alg={vector},"
            f"iter-time={_ITERATION}")


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


def _run(secrets: dict[str, str], program: str, *arguments: str | os.PathLike[str],
         keep: Iterable[int] = ()) -> subprocess.CompletedProcess[str]:
    """With its secrets as QEMU's objects of these names, and the open files ``keep``. A program that takes too long is ended:
    VirtDriverError."""
    objects, ends = list[str](), list[int]()
    try:
        for name, value in secrets.items():
            if value:
                read, write = os.pipe()
                ends.append(read)
                os.write(write, value.encode())         # far less than a pipe holds
                os.close(write)
                objects += ["--object", f"secret,id={name},file=/dev/fd/{read}"]
        verb, rest = ([arguments[0]], arguments[1:]) if program == "qemu-img" else ([], arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run([program, *verb, *objects, *rest], stdin=subprocess.DEVNULL, capture_output=True,  # noqa: S603
                                  text=True, errors="replace", check=False, pass_fds=[*ends, *keep], timeout=SECONDS)
        raise exception.VirtDriverError(what=program, reason=f"it did not end within {SECONDS:.0f} s")
    finally:
        for end in ends:
            os.close(end)


def _failed(what: str, done: subprocess.CompletedProcess[str]) -> exception.VirtDriverError:
    return exception.VirtDriverError(what=what, reason=(done.stderr or done.stdout).strip()[-500:])
