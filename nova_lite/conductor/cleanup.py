"""What others hold for a server without a host, or with a dead one, given back by the conductor: its volumes, and the key of
its disks. Its ports: see ``strays.py``."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from oslo_config import cfg
from oslo_log import log

from nova_lite.keymgr import KeyManager
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.volume import release
from nova_lite.volume.base import VolumeAPI

LOG = log.getLogger(__name__)
THREADS = 8             # servers whose volumes are given back at the same time


class Cleanup:
    """Everything here can be run twice, asks nobody for a server that needs nothing, and raises ServiceUnavailable."""

    def __init__(self, conf: cfg.ConfigOpts, volume: VolumeAPI) -> None:
        self._volume, self._keys = volume, KeyManager(conf)
        # neighbours may be slow, and neither the sweeper nor the placing of builds may wait for them
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="cleanup")

    def later(self, function: Callable[..., None], *arguments: object) -> None:
        """Call ``function(*arguments)`` in a thread of these; it must not raise."""
        self._threads.submit(function, *arguments)

    def stop(self) -> None:
        """Let what runs end."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def delete(self, instance: Instance) -> None:
        """Attachments, the volumes that go with the server, and the key of its disks."""
        release.release_all(self._volume, instance)
        release.delete_volumes(self._volume, instance)
        if instance.disks_key_id:
            self._keys.delete(instance.disks_key_id)

    @staticmethod
    def is_needed(instance: Instance) -> bool:
        """Whether :meth:`delete` has anything to do."""
        return bool(instance.volumes or instance.disks_key_id)

    def look_again(self, instance: Instance) -> None:
        """Attachments, and volumes that nobody knows, of a server that was deleted some time ago. A volume that its user knows
        stays: what the Volume service did not want to delete then may be used for something else by now."""
        release.release_all(self._volume, instance)
        release.delete_unknown(self._volume, instance)

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
