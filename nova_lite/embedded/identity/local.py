"""The embedded identity: users in one file, and tokens that are encrypted with a key of this machine, so they need no table and
no expiry job.

Files under ``<state_path>/identity``, readable by the user of the service only: ``key`` (Fernet) and ``users.json``. Passwords
are stored as salted scrypt hashes. The generated passwords are in ``clouds.yaml`` beside them, for the administrator.
"""
from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
import os
import secrets
import threading
import uuid
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet, InvalidToken

from nova_lite import durable, exception
from nova_lite.embedded.identity.attempts import Attempts
from nova_lite.embedded.identity.base import Token
from nova_lite.units import utcnow

LIFETIME = datetime.timedelta(hours=12)
_NOBODYS = base64.b64encode(os.urandom(16 + 64)).decode()       # as :func:`_hash` makes it; no password is known to fit


class LocalIdentity:
    """Users, projects and tokens of one machine. Several processes may use the same directory."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self._attempts = Attempts()
        self._turn = threading.Lock()

    def ensure(self, users: dict[str, tuple[str, list[str]]]) -> dict[str, str]:
        """Make key and users at the first start; ``users`` is name -> (project name, roles).

        Answers the passwords by user name: those made now, and those made before as ``passwords.json`` keeps them.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not (self.directory / "key").exists():
            _write_private(self.directory / "key", Fernet.generate_key())
        passwords: dict[str, str] = {}
        if (self.directory / "passwords.json").exists():
            passwords = json.loads((self.directory / "passwords.json").read_text())
        if (self.directory / "users.json").exists():
            return passwords
        records: dict[str, Any] = {"users": {}, "projects": {}}
        for name, (project, roles) in users.items():
            records["projects"].setdefault(project, uuid.uuid4().hex)
            passwords[name] = secrets.token_urlsafe(12)
            records["users"][name] = {"id": uuid.uuid4().hex, "password": _hash(passwords[name]),
                                      "projects": {project: roles}}
        # the passwords first: a start that dies between the two files makes both anew
        _write_private(self.directory / "passwords.json", json.dumps(passwords).encode())
        _write_private(self.directory / "users.json", json.dumps(records, indent=1).encode())
        return passwords

    def records(self) -> dict[str, Any]:
        """The users file; raises ServiceUnavailable before :meth:`ensure` ran."""
        try:
            return json.loads((self.directory / "users.json").read_text())
        except FileNotFoundError:
            raise exception.ServiceUnavailable(what="Embedded identity", reason="it has no users yet") from None

    def authenticate(self, user: str, password: str, project: str | None, address: str = "") -> tuple[str, Token]:
        """See :class:`nova_lite.embedded.identity.base.Identity`. One login at a time, so that simultaneous logins cannot pass
        the limit. An unknown user takes the same time as a known one, and has the same limits."""
        records = self.records()
        name = next((n for n, u in records["users"].items() if user in (n, u["id"])), None)
        who = name or str(user)
        with self._turn:
            self._attempts.check(who, address)
            if not _matches(password, records["users"][name]["password"] if name else _NOBODYS) or name is None:
                self._attempts.failed(who, address)
                raise exception.Unauthorized()
            self._attempts.succeeded(who, address)
        return self._issue(records, name, project)

    def rescope(self, token: str, project: str | None) -> tuple[str, Token]:
        """A new token for an old one (the method ``token`` of Identity v3). It expires when the old one would."""
        old = self.validate(token)
        return self._issue(self.records(), old.user_name, project or old.project_name, old.expires_at)

    def _issue(self, records: dict[str, Any], name: str, project: str | None,
               expires: datetime.datetime | None = None) -> tuple[str, Token]:
        user = records["users"][name]
        projects = {p: records["projects"][p] for p in user["projects"]}
        chosen = next((p for p, i in projects.items() if project in (None, p, i)), None)
        if chosen is None:
            raise exception.Unauthorized()
        now = utcnow().replace(microsecond=0)
        expires = expires or now + LIFETIME
        said = Token(user["id"], name, projects[chosen], chosen, user["projects"][chosen], now, expires)
        body = {"u": said.user_name, "p": said.project_name, "i": now.isoformat(), "e": expires.isoformat()}
        return self._fernet().encrypt(json.dumps(body).encode()).decode(), said

    def validate(self, token: str) -> Token:
        """See :class:`.base.Identity`. Roles are read from the users file: a removed user's token is void."""
        try:
            body = json.loads(self._fernet().decrypt(token.encode()))
        except (InvalidToken, ValueError):
            raise exception.Unauthorized() from None
        records = self.records()
        user = records["users"].get(body["u"])
        expires = datetime.datetime.fromisoformat(body["e"])
        if user is None or body["p"] not in user["projects"] or expires < utcnow():
            raise exception.Unauthorized()
        return Token(user["id"], body["u"], records["projects"][body["p"]], body["p"], user["projects"][body["p"]],
                     datetime.datetime.fromisoformat(body["i"]), expires)

    def _fernet(self) -> Fernet:
        return Fernet((self.directory / "key").read_bytes())


def _hash(password: str, salt: bytes | None = None) -> str:
    salt = salt or os.urandom(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, n=2 ** 12, r=8, p=1)
    return base64.b64encode(salt + digest).decode()


def _matches(password: str, known: str) -> bool:
    salt = base64.b64decode(known)[:16]
    return hmac.compare_digest(_hash(password, salt), known)


def _write_private(path: Path, data: bytes) -> None:
    with durable.written_whole(path) as part:
        part.write_bytes(data)
