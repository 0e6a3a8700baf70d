"""The interface to images: the Image service, or a local directory."""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from oslo_config import cfg
from stevedore import driver as stevedore_driver

from nova_lite.context import RequestContext
from nova_lite.objects.image import ImageMeta


class ImageAPI(Protocol):
    """All raise ImageNotFound (404) for what is not there or not visible to the context's project."""

    def get(self, context: RequestContext, image_id: str) -> ImageMeta:
        """One image."""

    def list(self, context: RequestContext, properties: Mapping[str, str] | None = None) -> list[ImageMeta]:
        """The images that the project may use: its own and the public ones; only those with these properties."""

    def download(self, context: RequestContext, image_id: str, path: str, expected: ImageMeta | None = None) -> None:
        """Write the data to ``path``; raises ImageUnacceptable when it does not fit its checksum.

        ``expected`` is the record that the caller has of it, whose checksum counts: it spares a question."""

    def read(self, context: RequestContext, image_id: str) -> Iterator[bytes]:
        """The data in pieces."""

    def create(self, context: RequestContext, values: dict[str, Any]) -> ImageMeta:
        """A new image record in status queued; ``values`` are fields of ImageMeta."""

    def upload(self, context: RequestContext, image_id: str, data: Iterable[bytes]) -> ImageMeta:
        """Store the data: size and checksum are set, the status becomes active."""

    def update(self, context: RequestContext, image_id: str, values: dict[str, Any]) -> ImageMeta:
        """Change fields of the record."""

    def delete(self, context: RequestContext, image_id: str) -> None:
        """Remove record and data."""


def load(conf: cfg.ConfigOpts) -> ImageAPI:
    """The driver ``[image] driver``."""
    manager: Any = stevedore_driver.DriverManager("nova_lite.image", conf.image.driver, invoke_on_load=True,
                                                  invoke_args=(conf,))
    return manager.driver
