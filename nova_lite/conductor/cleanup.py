"""Releases what other services hold for a server without a host or with a dead one: its volumes, the key of its disks, and the
image of a shelved server. For its ports see ``leaked_resources.py``.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception, retry
from nova_lite.context import admin_context
from nova_lite.image import base as image_base
from nova_lite.keymgr import KeyManager
from nova_lite.objects import states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.volume import release
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
THREADS = 8             # servers whose volumes are released at the same time


class Cleanup:
    """Each method can be run twice, calls no service that is not needed, and raises ServiceUnavailable."""

    def __init__(self, conf: cfg.ConfigOpts, volume: VolumeAPI, clock: retry.Clock = retry.SYSTEM) -> None:
        self._conf, self._volume, self._clock, self._keys = conf, volume, clock, KeyManager(conf)
        # other services may be slow; the sweeper and the placement of builds must not wait for them
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cleanup")

    def later(self, function: Callable[..., None], *arguments: object) -> None:
        """Call ``function(*arguments)`` in a thread of the pool. The function must not raise."""
        self._threads.submit(function, *arguments)

    def stop(self) -> None:
        """Wait for the calls that run."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def delete(self, instance: Instance) -> None:
        """Release the attachments; delete the volumes that go with the server, the image that a soft delete left of a shelved
        server, and the key of its disks."""
        release.release_all(self._volume, instance)
        release.delete_volumes(self._volume, instance, self._clock)
        if image_id := states.left_image(instance):
            self._delete_image(instance, image_id)
        if instance.disks_key_id:
            self._keys.delete(instance.disks_key_id)

    @staticmethod
    def is_needed(instance: Instance) -> bool:
        """Whether :meth:`delete` has anything to do."""
        return bool(instance.volumes or instance.disks_key_id or states.left_image(instance))

    @functools.cached_property
    def _image(self) -> image_base.ImageAPI:
        """Made at the first use: few clouds need it."""
        return image_base.load(self._conf)

    def _delete_image(self, instance: Instance, image_id: str) -> None:
        """When this fails, the user has to delete the image, as on a host."""
        try:
            self._image.delete(admin_context(), image_id)
        except exception.ImageNotFound:
            return
        except exception.NovaLiteError as error:
            LOG.warning("image %s of the shelved server could not be deleted: %s", image_id, error,
                        extra={"instance_uuid": instance.uuid})

    def look_again(self, instance: Instance) -> None:
        """Release the attachments, and delete volumes that the server has made unnoticed, of a server that was deleted some
        time ago. Volumes that the record of the server names stay: the user may use them for another purpose by now."""
        release.release_all(self._volume, instance)
        release.delete_unknown(self._volume, instance, self._clock)

    def release(self, instance: Instance) -> None:
        """Release the attachments only."""
        release.release_all(self._volume, instance)

    def detach(self, instance: Instance, device: BlockDevice) -> None:
        """One volume of a server that has no guest."""
        release.release_volume(self._volume, instance.uuid, device)

    def give_back(self, instances: Iterable[Instance]) -> None:
        """Release the volumes of servers that will never be built, in a thread. The delete of a server repeats what fails
        here."""
        for instance in instances:
            if instance.volumes:
                self.later(self._give_back, instance)

    def _give_back(self, instance: Instance) -> None:
        try:
            release.release_all(self._volume, instance)
        except Exception:
            LOG.exception("its volumes stay reserved until it is deleted", extra={"instance_uuid": instance.uuid})
