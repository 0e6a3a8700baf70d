"""The note that a guest was copied to another host while it was paused.

QEMU takes the disks of a guest that has come paused only when the guest is let run, and one whose copy failed late has let go
of them in the same way. Until then QEMU below version 10 ends itself, and all the guest's memory with it, when the guest is
copied again or saved, or one of its disks is resized. Nothing in libvirt tells such a guest from another one that is paused. So
its domain has a note among the metadata: it is written before the copy and travels with it, ends with the QEMU process, and is
removed when the guest runs again.
"""
from __future__ import annotations

from typing import Any

REASON = ("a copy of it to another host was begun while it was paused, and until it has run again QEMU would lose its memory: "
          "unpause it first")
_URI = "urn:nova-lite:paused-copy"


def note(lib: Any, domain: Any) -> None:
    """Before an active guest that is paused is copied."""
    domain.setMetadata(lib.VIR_DOMAIN_METADATA_ELEMENT, "<copied/>", "paused", _URI, lib.VIR_DOMAIN_AFFECT_LIVE)


def forget(lib: Any, domain: Any) -> None:
    """The guest runs again, or did: one that has ended meanwhile has no note."""
    if not _has_note(lib, domain):
        return
    try:
        domain.setMetadata(lib.VIR_DOMAIN_METADATA_ELEMENT, None, None, _URI, lib.VIR_DOMAIN_AFFECT_LIVE)
    except lib.libvirtError as error:
        if error.get_error_code() != lib.VIR_ERR_OPERATION_INVALID:
            raise


def is_noted(lib: Any, domain: Any) -> bool:
    """Whether a guest is as it came, or as it failed to leave: it has a note, and is still paused."""
    return domain.state()[0] == lib.VIR_DOMAIN_PAUSED and _has_note(lib, domain)


def _has_note(lib: Any, domain: Any) -> bool:
    try:
        return bool(domain.metadata(lib.VIR_DOMAIN_METADATA_ELEMENT, _URI, lib.VIR_DOMAIN_AFFECT_LIVE))
    except lib.libvirtError as error:
        if error.get_error_code() not in (lib.VIR_ERR_NO_DOMAIN_METADATA, lib.VIR_ERR_OPERATION_INVALID):
            raise
        return False
