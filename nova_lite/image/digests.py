"""Whether data is that of an image, by the digest in the image's record (of Glance: os_hash_value, else checksum)."""
from __future__ import annotations

import hashlib
import os
from typing import Any

from nova_lite import exception
from nova_lite.objects.image import ImageMeta


def begun(image: ImageMeta) -> Any:
    """A digest to be fed with the data; None: the record has none to compare with. ImageUnacceptable for an algorithm that is
    not known here."""
    if not image.checksum:
        return None
    try:
        digest = hashlib.new(image.hash_algo, usedforsecurity=False)     # md5 is still the only one that old images have
        digest.hexdigest()
        return digest
    except (ValueError, TypeError) as error:        # unknown, or an algorithm whose digests have no fixed length
        raise exception.ImageUnacceptable(image_id=image.id, reason=f"its digest is by {image.hash_algo!r}, which is not known "
                                                                    "here") from error


def check(image: ImageMeta, digest: Any, size: int) -> None:
    """Raise ImageUnacceptable for data, of ``size`` bytes, that is not the image's."""
    if digest is not None and digest.hexdigest() != image.checksum:
        raise exception.ImageUnacceptable(image_id=image.id, reason="its data does not fit its checksum")
    if digest is None and image.size and image.size != size:
        raise exception.ImageUnacceptable(image_id=image.id, reason=f"{size} bytes came, not {image.size}")


def fits(image: ImageMeta, path: str | os.PathLike[str]) -> bool:
    """Whether a file is this image, as far as its record says. Raises ImageUnacceptable as ``begun``, OSError."""
    digest = begun(image)
    with open(path, "rb") as stream:
        if digest is None:
            return not image.size or os.fstat(stream.fileno()).st_size == image.size
        hashlib.file_digest(stream, lambda: digest)
    return bool(digest.hexdigest() == image.checksum)
