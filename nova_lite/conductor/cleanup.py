"""What others hold for a server without a host, or with a dead one, given back by the conductor: its volumes, the key of
its disks, and the image of its shelf. Its ports: see ``leaked_resources.py``."""
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
THREADS = 8             # servers whose volumes are given back at the same time


class Cleanup:
    """Everything here can be run twice, asks nobody for a server that needs nothing, and raises ServiceUnavailable."""

    def __init__(self, conf: cfg.ConfigOpts, volume: VolumeAPI, clock: retry.Clock = retry.SYSTEM) -> None:
        self._conf, self._volume, self._clock, self._keys = conf, volume, clock, KeyManager(conf)
        # neighbours may be slow, and neither the sweeper nor the placing of builds may wait for them
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cleanup")

    def later(self, function: Callable[..., None], *arguments: object) -> None:
        """Call ``function(*arguments)`` in a thread of these; it must not raise."""
        self._threads.submit(function, *arguments)

    def stop(self) -> None:
        """Let what runs end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def delete(self, instance: Instance) -> None:
        """Attachments, the volumes that go with the server, what a soft delete left of its shelf, and the key of its disks."""
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
        """Not before somebody needs it: few do."""
        return image_base.load(self._conf)

    def _delete_image(self, instance: Instance, image_id: str) -> None:
        """As on a host: when that fails its owner has to delete it."""
        try:
            self._image.delete(admin_context(), image_id)
        except exception.ImageNotFound:
            return
        except exception.NovaLiteError as error:
            LOG.warning("the image of its shelf, %s, could not be deleted: %s", image_id, error,
                        extra={"instance_uuid": instance.uuid})

    def look_again(self, instance: Instance) -> None:
        """Attachments, and volumes that nobody knows, of a server that was deleted some time ago. A volume that its user knows
        stays: what the Volume service did not want to delete then may be used for something else by now."""
        release.release_all(self._volume, instance)
        release.delete_unknown(self._volume, instance, self._clock)

    def release(self, instance: Instance) -> None:
        """Attachments alone."""
        release.release_all(self._volume, instance)

    def detach(self, instance: Instance, device: BlockDevice) -> None:
        """One volume of a server that has no guest."""
        release.release_volume(self._volume, instance.uuid, device)

    def give_back(self, instances: Iterable[Instance]) -> None:
        """The volumes of servers that will never be built, soon; what fails here their deletes do again."""
        for instance in instances:
            if instance.volumes:
                self.later(self._give_back, instance)

    def _give_back(self, instance: Instance) -> None:
        try:
            release.release_all(self._volume, instance)
        except Exception:
            LOG.exception("its volumes stay reserved until it is deleted", extra={"instance_uuid": instance.uuid})
