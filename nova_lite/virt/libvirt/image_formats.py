"""Checks the format of an image by two independent tests: a table of nova_lite, and the format inspector of oslo.utils, which
OpenStack maintains. QEMU opens a file only when both agree with its declared format.
"""
from __future__ import annotations

import os
import re

from oslo_log import log
from oslo_utils.imageutils import format_inspector

LOG = log.getLogger(__name__)

# signatures that a "raw" file must not have: a program that guesses formats might read it as another format
_MAGICS = ((0, b"QFI\xfb", "qcow2"), (0, b"KDMV", "vmdk"), (0, b"COWD", "vmdk"), (0, b"conectix", "vhd"),
           (0, b"vhdxfile", "vhdx"), (0, b"<<< ", "vdi"), (64, b"\x7f\x10\xda\xbe", "vdi"), (0, b"QED\x00", "qed"),
           (0, b"LUKS\xba\xbe", "luks"), (0, b"WithoutFre", "parallels"), (0, b"WithouFre", "parallels"),
           (0, b"Bochs Virtual HD Image", "bochs"), (0, b"#!/bin/sh\n#V2.0 Format", "cloop"))
# a descriptor of VMDK is text: comments and white space, then its version
_VMDK = re.compile(rb"(?:\s|#[^\n]*\n)*(?:version\s*=|# Disk Descriptor)", re.IGNORECASE)
_TABLE_BYTES = 4096
_INSPECTED, _PIECE = 4 << 20, 1 << 16       # bytes from the beginning, where the headers and descriptors of all formats are
_IN_RAW = {"raw", "gpt", "iso"}             # what lies on a disk may be a table of partitions or a CD; it names no files


def pretended(path: str | os.PathLike[str]) -> str:
    """The format that a raw file could be taken for; empty: none."""
    with open(path, "rb") as stream:
        start = stream.read(_TABLE_BYTES)
    for offset, magic, name in _MAGICS:
        if start.startswith(magic, offset):
            return name
    return "vmdk" if _VMDK.match(start) else ""


def refusal(path: str | os.PathLike[str], claimed: str) -> str:
    """Why oslo.utils does not accept a file as a self-contained image of this format; empty: it does. Raises OSError."""
    with open(path, "rb") as stream:
        wrapper = format_inspector.InspectWrapper(stream)
        try:
            left = _INSPECTED
            while left > 0 and (piece := wrapper.read(_PIECE)):
                left -= len(piece)
            wrapper.close()
            found = {str(one): one for one in wrapper.formats or ()}
            if claimed == "raw":
                strange = sorted(set(found) - _IN_RAW)
                return f"it claims to be raw, but its data is {' and '.join(strange)}" if strange else ""
            if set(found) != {claimed}:
                return f"it claims to be {claimed}, but its data is {' and '.join(sorted(found))}"
            found[claimed].safety_check()
        except OSError:
            raise
        except format_inspector.SafetyCheckFailed as error:
            LOG.info("The format inspector on %s: %s", path, error)
            return "its header asks for what no image may have"
        except Exception as error:      # whatever a crafted file makes of the inspector, it is not passed
            LOG.info("The format inspector on %s: %s: %s", path, type(error).__name__, error)
            return f"its data cannot be inspected as {claimed}"
    return ""


def overlay_refusal(path: str | os.PathLike[str]) -> str:
    """The same for a qcow2 disk that may have a base image. Raises OSError."""
    try:
        format_inspector.QcowInspector.from_file(os.fspath(path)).safety_check()
    except format_inspector.SafetyCheckFailed as error:
        others = sorted(set(error.failures) - {"backing_file"})
        return f"{', '.join(others)}" if others else ""
    except format_inspector.ImageFormatError as error:
        return str(error)
    return ""
