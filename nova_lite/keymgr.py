"""The keys of encrypted volumes and disks: in the key manager (Barbican, Vault, ...), by castellan, or the configuration's one.

castellan is loaded when the first key is asked for, and needs to be there only then. It is asked as the service user, so the
key manager must allow that user to read the keys of volumes: a user's token is long gone when a guest is started again. The
keys of servers' own disks are the service user's: it makes, reads and deletes them.
"""
from __future__ import annotations

import binascii
import importlib.util
import os
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from oslo_config import cfg
from oslo_context import context as oslo_context
from oslo_log import log

from nova_lite import exception

LOG = log.getLogger(__name__)
FIXED_KEY_ID = "00000000-0000-0000-0000-000000000000"       # what Nova and Cinder call the fixed key
_CONF_KEY_MANAGER = "ConfKeyManager"
_KEY_BITS = 256             # of a key that is made here
T = TypeVar("T")


class KeyManager:
    """The key manager of ``[key_manager]``."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._castellan: Any = None

    @property
    def is_set_up(self) -> bool:
        """Whether there can be keys at all; without a call of the key manager."""
        if self._is_fixed:
            return bool(self._conf.key_manager.fixed_key)
        return importlib.util.find_spec("castellan") is not None

    def passphrase(self, key_id: str) -> str:
        """The passphrase of LUKS in the form of Nova and Cinder: the key's bytes as hexadecimal digits. Raises
        EncryptionKeyNotFound for a key that does not exist, ServiceUnavailable when the key manager does not answer or refuses,
        ConfigError for a mistake in the options."""
        if self._is_fixed or self._conf.key_manager.fixed_key and key_id == FIXED_KEY_ID:
            return self._fixed(key_id)
        found = self._ask_in_time(
            f"key {key_id}", lambda backend, context: bytes(backend.get(context, key_id).get_encoded()), key_id)
        if not found:       # it would pass for no encryption at all
            raise exception.EncryptionKeyNotFound(key_id=key_id)
        return binascii.hexlify(found).decode()

    def create(self, name: str) -> str:
        """A new key of the service user's; its id. ConfKeyManager has the fixed one only. Raises ServiceUnavailable and
        ConfigError."""
        if self._is_fixed:
            self._fixed(FIXED_KEY_ID)
            return FIXED_KEY_ID

        def store(backend: Any, context: Any) -> str:
            from castellan.common.objects.symmetric_key import SymmetricKey

            return str(backend.store(context, SymmetricKey("AES", _KEY_BITS, os.urandom(_KEY_BITS // 8), name=name)))

        return self._ask_in_time(f"a new key for the {name}", store)

    def delete(self, key_id: str) -> None:
        """One that :meth:`create` has made; it may be gone. Raises ServiceUnavailable, ConfigError."""
        if self._is_fixed or key_id == FIXED_KEY_ID:
            return
        try:
            self._ask_in_time(f"deleting key {key_id}", lambda backend, context: backend.delete(context, key_id), key_id)
        except exception.EncryptionKeyNotFound:
            LOG.info("key %s does not exist any more", key_id)

    @property
    def _is_fixed(self) -> bool:
        return bool(self._conf.key_manager.backend.endswith(_CONF_KEY_MANAGER))

    def _fixed(self, key_id: str) -> str:
        key = self._conf.key_manager.fixed_key
        try:
            made = binascii.hexlify(binascii.unhexlify(key or "")).decode()
        except (binascii.Error, ValueError):
            made = ""
        if not made:
            raise exception.ConfigError(reason="[key_manager] fixed_key is not a key in hexadecimal digits")
        if key_id != FIXED_KEY_ID:
            raise exception.EncryptionKeyNotFound(key_id=key_id)
        return made

    def _ask_in_time(self, what: str, question: Callable[[Any, Any], T], key_id: str = "") -> T:
        """castellan sets no time limit: a call that does not return is abandoned."""
        from nova_lite.identity.keystone import UNHURRIED  # 6 MiB, for those who have keys

        answers: queue.Queue[tuple[T | None, Exception | None]] = queue.Queue()
        seconds = UNHURRIED * self._conf.service_user.timeout

        def ask() -> None:
            try:
                answers.put((self._ask(what, question, key_id), None))
            except Exception as error:      # raised where it is waited for
                answers.put((None, error))

        threading.Thread(target=ask, name="key-manager", daemon=True).start()
        try:
            answer, error = answers.get(timeout=seconds)
        except queue.Empty:
            raise exception.ServiceUnavailable(what="The key manager", reason=f"no answer within {seconds} s") from None
        if error is not None:
            raise error
        return answer       # type: ignore[return-value]  # an answer or an error

    def _ask(self, what: str, question: Callable[[Any, Any], T], key_id: str) -> T:
        try:
            from castellan import key_manager
            from castellan.common import exception as errors
        except ImportError as error:
            raise exception.ConfigError(reason="encrypted volumes and disks need castellan (pip install '.[encryption]' "
                                               f"in a clone of nova_lite): {error}") from error
        try:
            if self._castellan is None:
                # apart from our own configuration, where options of these names are ours
                read = cfg.ConfigOpts()
                read([], default_config_files=self._conf.config_file or [], default_config_dirs=self._conf.config_dir or [])
                self._castellan = key_manager.API(read)
            return question(self._castellan, _AsService(self._conf))
        except errors.ManagedObjectNotFoundError as error:
            raise exception.EncryptionKeyNotFound(key_id=key_id) from error
        except exception.NovaLiteError:
            raise
        except Exception as error:      # each of its backends has its own errors; none contains a key
            LOG.warning("%s: %s: %s", what, type(error).__name__, error)
            raise exception.ServiceUnavailable(what="The key manager", reason=f"{what}: {error}",
                                               public="The key manager is unavailable") from error


class _AsService(oslo_context.RequestContext):
    """What castellan takes for a user: it asks it for credentials."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(overwrite=False)
        self._conf = conf

    def get_auth_plugin(self) -> Any:
        """The credentials of the service user; raises ConfigError where there are none."""
        from nova_lite.identity.keystone import make_session

        return make_session(self._conf).auth
