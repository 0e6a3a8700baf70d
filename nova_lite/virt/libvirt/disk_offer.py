"""Serves the disks of a guest that moves, from its old host to its new one.

QEMU's storage daemon serves the files over NBD, read-only, during the move. The files are copied as they are: of an overlay
only its own data is sent, and its base image comes from the cache of the other host. Each move has its own key (TLS with a
pre-shared key), which authenticates the connection and encrypts the data. The key is never part of a command line. It is stored
in the guest's directory, and sent to the other host in the answer to its question.
"""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import time
from collections.abc import Iterator

from oslo_log import log

from nova_lite import durable, exception, retry
from nova_lite.objects.guest_moves import DiskOffer
from nova_lite.virt.driver import Checker
from nova_lite.virt.libvirt import copying, images

LOG = log.getLogger(__name__)
USER = "nova-lite"          # the identity of the key in TLS
ROOT = "disk"               # the file that may have a base image
BASE = "base"               # the export that is the backing file of the root disk
_SERVES = retry.Schedule((0.0,) * 4)        # a port that was free may be taken a moment later
_STOP_SECONDS = 10.0


class DiskServer:
    """Serves the files of one directory. The files that identify its process are in the same directory, so a new daemon finds
    the process of the one before."""

    def __init__(self, directory: pathlib.Path, address: str) -> None:
        self._directory, self._address = directory, address
        self._keys = directory / "offer.tls"
        self._pid_file = directory / "offer.pid"
        self._state = directory / "offer.json"

    @property
    def has_files(self) -> bool:
        """Whether a process serves the files, or has left its own files."""
        return any(path.exists() for path in (self._state, self._pid_file, self._keys))

    def offer(self, names: list[str], disk_format: str, made_on: str | None) -> DiskOffer:
        """Serve the files with these names, unless they are served already. Raises as :func:`images.base_of`. ``disk_format``
        is the format in which this host made the root disk: only a qcow2 disk has a base image, whatever a guest has written
        into a raw one. ``made_on``: see :func:`images.base_of`."""
        if self._process() is not None and self._state.exists():
            return DiskOffer.from_primitive(json.loads(self._state.read_text()) | {"key": self._key()})
        self.stop()
        paths = {name: self._directory / name for name in names}
        base, base_format = self._base(disk_format, made_on) if ROOT in names else (None, "")
        if base is not None:
            paths[BASE] = base
        port = retry.on_error(lambda: self._serve(paths), OSError, _SERVES)
        offer = DiskOffer(self._address, port, names, base.name if base else "", base_format, disk_format=disk_format)
        with durable.written_whole(self._state) as part:
            part.write_text(json.dumps(offer.to_primitive()))
        return DiskOffer.from_primitive(offer.to_primitive() | {"key": self._key()})

    def stop(self) -> None:
        """End the process; the key is good for nothing any more."""
        pid = self._process()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_SECONDS
            while self._process() is not None:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
        for path in (self._state, self._pid_file):
            path.unlink(missing_ok=True)
        shutil.rmtree(self._keys, ignore_errors=True)

    def _serve(self, paths: dict[str, pathlib.Path]) -> int:
        port = _free_port(self._address)
        images.run(*self._command(port, paths))
        return port

    def _command(self, port: int, paths: dict[str, pathlib.Path]) -> list[str]:
        self._key()
        listen = f"addr.type=inet,addr.host={self._address},addr.port={port},tls-creds=tls0,max-connections=0"
        keys = images.option(self._keys)
        command = ["qemu-storage-daemon", "--object", f"tls-creds-psk,id=tls0,endpoint=server,dir={keys}"]
        for number, path in enumerate(paths.values()):
            # locking off: the storage daemon only reads what no process writes any more, a base image perhaps for others, too
            name = images.option(path)
            command += ["--blockdev", f"driver=file,node-name=d{number},filename={name},read-only=on,locking=off"]
        command += ["--nbd-server", listen]
        for number, name in enumerate(paths):
            command += ["--export", f"type=nbd,id=e{number},node-name=d{number},name={name},writable=off"]
        return [*command, "--daemonize", "--pidfile", str(self._pid_file)]

    def _base(self, disk_format: str, made_on: str | None) -> tuple[pathlib.Path | None, str]:
        """The base image of the root disk and its format. Raises what :func:`images.base_of` raises."""
        disk = self._directory / ROOT
        base = images.base_of(disk, disk_format, made_on)
        return base, "" if base is None else str(images.info(disk, disk_format).get("backing-filename-format") or "raw")

    def _key(self) -> str:
        path = self._keys / "keys.psk"
        if not path.exists():
            write_key(self._keys, secrets.token_hex(32))
        return path.read_text().strip().partition(":")[2]

    def _process(self) -> int | None:
        """The process that serves, by its pid file. A pid that belongs to another program is ignored."""
        try:
            pid = int(self._pid_file.read_text())
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return pid if str(self._pid_file).encode() in command.split(b"\0") else None


def write_key(directory: pathlib.Path, key: str) -> None:
    """The key as QEMU reads it, in a file that only we may read."""
    directory.mkdir(mode=0o700, exist_ok=True)
    with open(os.open(directory / "keys.psk", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
        stream.write(f"{USER}:{key}\n")


@contextlib.contextmanager
def key_of(offer: DiskOffer, directory: pathlib.Path) -> Iterator[pathlib.Path]:
    """A directory with the key of an offer, as long as its disks are pulled."""
    keys = directory / "pull.tls"
    write_key(keys, offer.key)
    try:
        yield keys
    finally:
        shutil.rmtree(keys, ignore_errors=True)


def pull(offer: DiskOffer, export: str, keys: pathlib.Path, target: pathlib.Path, check: Checker) -> None:
    """Copy one file of the offer, with its holes. Raises VirtDriverError that names the other host, and the error of
    ``check``."""
    source = (f"driver=raw,file.driver=nbd,file.host={images.option(offer.address)},file.port={offer.port},"
              f"file.export={images.option(export)},file.tls-creds=tls0")
    secret = f"tls-creds-psk,id=tls0,endpoint=client,dir={images.option(keys)},username={USER}"
    try:
        copying.run(check, "qemu-img", "convert", "--object", secret, "--image-opts", source, "-O", "raw", target)
    except OSError as error:
        what = f"Copying {export} from {offer.address}:{offer.port}"
        raise exception.VirtDriverError(what=what, reason=str(error)) from error


def _free_port(address: str) -> int:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
