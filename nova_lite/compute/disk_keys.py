"""The key of a server's encrypted disks: one key for all of them, made at the build, deleted with the server. Its id is written
to the server's record before anything is encrypted with it. So the next builder of the server, on this host or another, finds
it. Only the key manager stores the key itself.
"""
from __future__ import annotations

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.compute.work import Work
from nova_lite.keymgr import KeyManager
from nova_lite.objects import hardware, states
from nova_lite.objects.instance import DISKS_KEY, Instance

LOG = log.getLogger(__name__)


def ensure(work: Work) -> None:
    """Create a key for the server, unless it has one or needs none. Raises the errors of ``KeyManager.create``,
    UnexpectedTaskState or LeaseLost: then stop."""
    instance = work.instance
    if instance.disks_key_id or not hardware.encrypts_disks(instance.flavor, instance.image):
        return
    keys = KeyManager(work.host.conf)
    key_id = keys.create(f"disks of server {instance.uuid}")
    noted = {**instance.system_metadata, DISKS_KEY: key_id}
    try:
        work.update({"system_metadata": noted}, list(states.BUILD_STATES))
    except (exception.LeaseLost, exception.NovaLiteError):     # the new owner of the server does not have this key
        _discard(keys, key_id, instance)
        raise
    instance.system_metadata = noted


def delete(conf: cfg.ConfigOpts, instance: Instance) -> None:
    """Delete the key: the disks are no longer needed. A key that does not exist is no error. Raises the errors of
    ``KeyManager.delete``."""
    if instance.disks_key_id:
        KeyManager(conf).delete(instance.disks_key_id)


def _discard(keys: KeyManager, key_id: str, instance: Instance) -> None:
    try:
        keys.delete(key_id)
    except exception.NovaLiteError as error:
        LOG.warning("key %s was made for nothing, and stays in the key manager: %s", key_id, error,
                    extra={"instance_uuid": instance.uuid})
