"""The encrypted disks of guests: qcow2 whose data is in LUKS format, so that overlays of plain base images can be encrypted.

Data that a guest writes is encrypted in the file. Data that it has not written is read from the base image, which is not
encrypted. A new file has a new master key, which the passphrase opens.
"""
from __future__ import annotations

import os
import pathlib

from nova_lite.virt.libvirt import image_formats, images, qemu_tools

_SECRET = "passphrase"      # noqa: S105  the name of QEMU's object
_COPY_SECONDS = 3600.0      # that a formatted disk may take: the little that a file system consists of when it is new


def create(path: pathlib.Path, size: int, passphrase: str, base: pathlib.Path | None = None, base_format: str = "") -> None:
    """An empty disk of ``size`` bytes, or an overlay of a base image. Raises VirtDriverError."""
    options = f"encrypt.format=luks,encrypt.key-secret={_SECRET},encrypt.iter-time={qemu_tools.ITERATION}"
    below: list[str | os.PathLike[str]] = ["-F", base_format, "-b", base] if base is not None else []
    made = qemu_tools.create({_SECRET: passphrase}, "-f", images.OVERLAY, *below, "-o", options, path, str(size))
    if made.returncode:
        raise qemu_tools.failed("Making an encrypted disk", made)


def fill(path: pathlib.Path, passphrase: str, plain: pathlib.Path) -> None:
    """Write what is in the raw file ``plain`` to an empty disk. Raises VirtDriverError."""
    _run("convert", passphrase, "-n", "-f", "raw", plain, "--target-image-opts", _opened(path), seconds=_COPY_SECONDS)


def check_alone(path: pathlib.Path) -> None:
    """Raise OSError for a disk that has a base image, or that is not an encrypted disk: another host, or a QEMU under the
    control of its guest, may have written it."""
    header = images.qcow2_header(path)
    if header is None or not header.luks:
        raise OSError(f"{path} is to be encrypted, and is not")
    if header.backing_file or header.external_data:
        raise OSError(f"{path} says that some of its data is in another file")
    refusal = image_formats.overlay_refusal(path)
    if refusal:
        raise OSError(f"{path} is not opened: {refusal}")


def grow(path: pathlib.Path, size: int, passphrase: str) -> None:
    """Make a disk that is smaller as large as ``size`` bytes. Raises VirtDriverError, OSError."""
    if int(images.info(path, images.OVERLAY)["virtual-size"]) < size:
        _run("resize", passphrase, "-q", "--image-opts", _opened(path), str(size))


def rebase(path: pathlib.Path, passphrase: str, base: pathlib.Path, base_format: str) -> None:
    """Change the base of an overlay to another copy of its base image. Raises VirtDriverError."""
    _run("rebase", passphrase, "-u", "--image-opts", "-F", base_format, "-b", base, _opened(path))


def _opened(path: pathlib.Path) -> str:
    return (f"driver={images.OVERLAY},encrypt.format=luks,encrypt.key-secret={_SECRET},file.driver=file,"
            f"file.filename={images.option(path)}")


def _run(verb: str, passphrase: str, *arguments: str | os.PathLike[str], seconds: float = 0) -> None:
    done = qemu_tools.run({_SECRET: passphrase}, "qemu-img", verb, *arguments, seconds=seconds)
    if done.returncode:
        raise qemu_tools.failed("Working on an encrypted disk", done)
