"""Images that never got their data: whoever was to make them has failed or was given up, and nobody will.

A host that fails deletes the image itself. What is left are the images of actions that were given up, or dropped after
os-resetState, and those that the Image service did not delete when it was asked. A failed action stays written down as one
whose image is to be looked for until that has been done.
"""
from __future__ import annotations

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.db import actions
from nova_lite.db.core import Database
from nova_lite.image import base as image_base
from nova_lite.objects.action import Action

LOG = log.getLogger(__name__)
INTERVAL = 60.0
_ACTIVE = "active"


class UnmadeImages:
    """Any number of conductors may look: an image that another one has deleted is gone."""

    def __init__(self, conf: cfg.ConfigOpts, db: Database) -> None:
        self._conf, self._db = conf, db
        self._images: image_base.ImageAPI | None = None

    def run(self) -> None:
        """Look for the images whose time has come. An Image service that is away is asked again in the next run."""
        with self._db.read() as conn:
            due = actions.with_images(conn)
        for action in due:
            try:
                self._delete(action)
            except exception.ServiceUnavailable as error:
                LOG.warning("the images that %d actions have left are looked for later: %s", len(due), error)
                return
            except exception.NovaLiteError as error:        # its owner has to delete it
                LOG.warning("image %s has no data and could not be deleted: %s", action.arguments.get("image_id"), error,
                            extra={"instance_uuid": action.instance_uuid})
            self._db.write(actions.forget_image, action.id)

    def _delete(self, action: Action) -> None:
        """Unless it has its data: only the worker's report was lost then."""
        image_id = action.arguments.get("image_id")
        if image_id is None:        # written down by another version
            return
        if self._images is None:
            self._images = image_base.load(self._conf)
        try:
            if self._images.get(admin_context(), image_id).status == _ACTIVE:
                return
            self._images.delete(admin_context(), image_id)
        except exception.ImageNotFound:
            return
        LOG.info("image %s will never have data: deleted", image_id, extra={"instance_uuid": action.instance_uuid})
