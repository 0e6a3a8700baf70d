"""The keys of secrets in the database: a file that every API and conductor has, so that neither a dump nor a backup of the
database gives a password away.

One Fernet key per line. The first seals, and each opens. The last was made by the latest rotation and seals after the next one,
so machines may get a rotated file one after the other: each can open what the others seal.
"""
from __future__ import annotations

import os
import pathlib
import uuid
from collections.abc import Sequence

from oslo_config import cfg

from nova_lite import durable, exception

KEPT = 5        # keys of a rotated file; more only slow down the opening of what none of them fits


class SecretKeys:
    """Seals and opens. The file is read again when it has changed, so nothing has to be restarted."""

    def __init__(self, path: str) -> None:
        self._path = pathlib.Path(path)
        self._known: tuple[tuple[int, int], list[bytes]] = ((0, 0), [])

    def seal(self, text: str) -> str:
        """The text in a form that only the keys open. Raises ConfigError where there are none."""
        from cryptography.fernet import Fernet

        return Fernet(self._keys()[0]).encrypt(text.encode()).decode()

    def open(self, sealed: str) -> str:
        """What was sealed. Raises ConfigError where no key fits."""
        from cryptography.fernet import Fernet, InvalidToken, MultiFernet

        try:
            return MultiFernet([Fernet(key) for key in self._keys()]).decrypt(sealed.encode()).decode()
        except InvalidToken:
            raise exception.ConfigError(reason=f"A secret in the database was sealed with a key that is not in {self._path}: "
                                               "copy the file from the machine that sealed it") from None

    def check(self) -> None:
        """Raise ConfigError with the remedy, unless the keys can be used."""
        self._keys()

    def _keys(self) -> list[bytes]:
        try:
            found = self._path.stat()
            if self._known[0] != (found.st_ino, found.st_mtime_ns):
                self._known = (found.st_ino, found.st_mtime_ns), _checked(self._path)
        except FileNotFoundError:
            raise exception.ConfigError(
                reason=f"There are no keys for secrets in the database: {self._path} ([database] secret_keys_file) is missing. "
                       "'nova-lite-manage db sync' makes it. All machines with an API or a conductor need the same") from None
        except OSError as error:
            raise exception.ConfigError(reason=f"The keys for secrets in the database cannot be read: {error}") from None
        return self._known[1]


def ensure(conf: cfg.ConfigOpts) -> bool:
    """Make the file where there is none; whether it was made."""
    path = pathlib.Path(conf.database.secret_keys_file)
    if path.exists():
        return False
    part = _write(conf, path, [_new(), _new()])
    try:
        os.link(part, path)     # another one that was made meanwhile stays
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def rotate(conf: cfg.ConfigOpts) -> None:
    """Seal with the newest key from now on, and make another one for the next time. Raises ConfigError without a file."""
    SecretKeys(conf.database.secret_keys_file).check()
    path = pathlib.Path(conf.database.secret_keys_file)
    *older, newest = _checked(path)
    durable.put_in_place(_write(conf, path, [newest, *older[:KEPT - 2], _new()]), path)


def _checked(path: pathlib.Path) -> list[bytes]:
    """The keys of the file; raises ConfigError for one that holds something else."""
    from cryptography.fernet import Fernet

    keys = path.read_bytes().split()
    try:
        for key in keys:
            Fernet(key)
    except ValueError:
        keys = []
    if not keys:
        raise exception.ConfigError(reason=f"{path} holds no keys: it must have one Fernet key per line")
    return keys


def _write(conf: cfg.ConfigOpts, path: pathlib.Path, keys: Sequence[bytes]) -> pathlib.Path:
    """A new file beside the path. Whoever may read the options may read it: they hold the password of the database."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid.uuid4()}.part")
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        if conf.config_file and os.geteuid() == 0:
            options = os.stat(conf.config_file[-1])
            os.fchown(stream.fileno(), options.st_uid, options.st_gid)
        os.fchmod(stream.fileno(), 0o640)
        stream.write(b"".join(key + b"\n" for key in keys))
        stream.flush()
        os.fsync(stream.fileno())
    return part


def _new() -> bytes:
    from cryptography.fernet import Fernet

    return Fernet.generate_key()
