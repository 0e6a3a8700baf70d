"""Images that a host fetches before a server asks for them. Nothing is lost when it fails: the first build fetches then."""
from __future__ import annotations

from oslo_log import log

from nova_lite.compute.work import Host
from nova_lite.context import RequestContext

LOG = log.getLogger(__name__)
QUEUE = "images"
"""One at a time: builds are to have the network for themselves, mostly."""


def fetch(host: Host, context: RequestContext, image_id: str, waited: bool = False) -> None:
    """Fetch one image into the cache of this host, unless it is there. An error is only logged: no request waits for it."""
    try:
        image = host.image.get(context, image_id)
        host.driver.cache_image(image, lambda wanted, path: host.image.download(context, wanted, path))
    except Exception as error:
        LOG.warning("image %s was not cached: %s", image_id, error)
    else:
        LOG.info("image %s is cached", image_id)
