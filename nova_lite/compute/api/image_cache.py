"""Images that hosts are to fetch before a server asks for them."""
from __future__ import annotations

from collections.abc import Collection, Sequence

from nova_lite import exception
from nova_lite.compute.api.base import Base
from nova_lite.context import RequestContext
from nova_lite.db import clock, services


class ImageCache(Base):
    """A cast to each host. When a cast is lost, the first build fetches the image."""

    def cache_images(self, context: RequestContext, hosts: Collection[str], image_ids: Sequence[str]) -> None:
        """Raises Invalid for an image that is not there or not active."""
        for image_id in image_ids:
            try:
                image = self.image.get(context, image_id)
            except exception.ImageNotFound as error:
                raise exception.Invalid(error.public) from error
            if image.status != "active":
                raise exception.ImageNotActive(image_id=image_id)
        with self.db.read() as connection:
            computes, now = services.of_hosts(connection, hosts), clock.read(connection)
        for service in computes:
            if services.is_up(service, self.conf.compute.service_down_time, now):
                self.wakeups.send(self.compute_rpc.cache_images, context, service["host"], list(image_ids))
