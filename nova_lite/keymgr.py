"""The keys of encrypted volumes: from the key manager (Barbican, Vault, ...) by castellan, or the one of the configuration.

castellan is loaded when the first key is asked for, and needs to be there only then. It is asked as the service user, so the
key manager must allow that user to read keys: a user's token is long gone when a guest is started again.
"""
from __future__ import annotations

import binascii
import queue
import threading
from typing import Any

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log

from nova_lite import exception
from nova_lite.identity.keystone import UNHURRIED, make_session

LOG = log.getLogger(__name__)
FIXED_KEY_ID = "00000000-0000-0000-0000-000000000000"       # what Nova and Cinder call the fixed key
_CONF_KEY_MANAGER = "ConfKeyManager"


class KeyManager:
    """What ``[key_manager]`` says."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._castellan: Any = None

    def passphrase(self, key_id: str) -> str:
        """The passphrase of a LUKS volume, as Nova and Cinder make it: the key's bytes in hexadecimal digits.

        Raises InvalidVolume for a key that is not there, ServiceUnavailable when the key manager does not answer or refuses,
        ConfigError for what the operator has to mend.
        """
        options = self._conf.key_manager
        if options.backend.endswith(_CONF_KEY_MANAGER) or options.fixed_key and key_id == FIXED_KEY_ID:
            return self._fixed(key_id)
        return binascii.hexlify(self._ask_in_time(key_id)).decode()

    def _fixed(self, key_id: str) -> str:
        key = self._conf.key_manager.fixed_key
        try:
            made = binascii.hexlify(binascii.unhexlify(key or "")).decode()
        except (binascii.Error, ValueError):
            made = ""
        if not made:
            raise exception.ConfigError(reason="[key_manager] fixed_key is not a key in hexadecimal digits")
        if key_id != FIXED_KEY_ID:
            raise _missing(key_id)
        return made

    def _ask_in_time(self, key_id: str) -> bytes:
        """castellan sets no limit to its requests: one that does not come back is left to itself."""
        answers: queue.Queue[bytes | Exception] = queue.Queue()
        seconds = UNHURRIED * self._conf.service_user.timeout

        def ask() -> None:
            try:
                answers.put(self._ask(key_id))
            except Exception as error:      # raised where it is waited for
                answers.put(error)

        threading.Thread(target=ask, name="key-manager", daemon=True).start()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise exception.ServiceUnavailable(what="The key manager", reason=f"no answer within {seconds} s") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _ask(self, key_id: str) -> bytes:
        try:
            from castellan import key_manager
            from castellan.common import exception as errors
        except ImportError as error:
            raise exception.ConfigError(reason="encrypted volumes need castellan (pip install nova-lite[encryption]): "
                                               f"{error}") from error
        try:
            if self._castellan is None:
                # apart from our own configuration, where options of these names are ours
                read = cfg.ConfigOpts()
                read([], default_config_files=self._conf.config_file or [], default_config_dirs=self._conf.config_dir or [])
                self._castellan = key_manager.API(read)
            found = self._castellan.get(_AsService(self._conf), key_id)
            return bytes(found.get_encoded())
        except errors.ManagedObjectNotFoundError as error:
            raise _missing(key_id) from error
        except exception.NovaLiteError:
            raise
        except Exception as error:      # each of its backends has errors of its own; none tells a key
            LOG.warning("key %s: %s: %s", key_id, type(error).__name__, error)
            raise exception.ServiceUnavailable(what="The key manager", reason=f"key {key_id}: {error}") from error


class _AsService(oslo_context.RequestContext):
    """What castellan takes for a user: it asks it for credentials."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(overwrite=False)
        self._conf = conf

    def get_auth_plugin(self) -> Any:
        """The credentials of the service user; raises ConfigError where there are none."""
        return make_session(self._conf).auth


def _missing(key_id: str) -> exception.InvalidVolume:
    return exception.InvalidVolume(reason=f"it is encrypted, and its key {key_id} is not in the key manager")
