"""Encryption of the disks that a guest has on its host: root, ephemeral, swap. Volumes have their own."""
from __future__ import annotations

from nova_lite import exception
from nova_lite.objects.hardware.asked import Asked, among

TRAIT, LUKS_TRAIT = "COMPUTE_EPHEMERAL_ENCRYPTION", "COMPUTE_EPHEMERAL_ENCRYPTION_LUKS"
_FORMATS = ("luks",)


def is_asked(asked: Asked) -> bool:
    """Whether they are to be encrypted. Raises FlavorImageConflict, InvalidHardware for a format that is not offered."""
    wanted = bool(asked.agreed_flag("ephemeral_encryption"))
    if wanted:
        _format(asked)
    return wanted


def check(asked: Asked) -> None:
    """As ``is_asked``; InvalidHardware also for an image whose data is encrypted itself."""
    is_asked(asked)
    if asked.property("hw_ephemeral_encryption_secret_uuid") is not None:
        raise exception.InvalidHardware(reason="hw_ephemeral_encryption_secret_uuid: images that are encrypted are not offered")


def traits(asked: Asked) -> set[str]:
    """That of the format only where one is named. Raises as ``is_asked``."""
    if not is_asked(asked):
        return set()
    return {TRAIT, LUKS_TRAIT} if _format(asked) else {TRAIT}


def _format(asked: Asked) -> str | None:
    spec = "hw:ephemeral_encryption_format"
    name = spec if asked.spec(spec) is not None else "hw_ephemeral_encryption_format"
    return among(asked, name, asked.agreed("ephemeral_encryption_format"), _FORMATS)
