"""The embedded identity: passwords, tokens, and that nothing readable lies about."""
from __future__ import annotations

import datetime
import stat

import pytest

from nova_lite import exception
from nova_lite.embedded.identity import local
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.embedded.identity.middleware import EmbeddedAuth

USERS = {"admin": ("admin", ["admin", "member", "reader"]), "demo": ("demo", ["member", "reader"])}


@pytest.fixture
def identity(tmp_path):
    made = LocalIdentity(str(tmp_path / "identity"))
    made.passwords = made.ensure(USERS)
    return made


def test_a_password_gives_a_token_that_says_who_it_is(identity):
    text, issued = identity.authenticate("demo", identity.passwords["demo"], "demo")
    token = identity.validate(text)
    assert (token.user_name, token.project_name, token.roles) == ("demo", "demo", ["member", "reader"])
    assert token == issued


def test_a_second_start_keeps_users_and_passwords(identity):
    again = LocalIdentity(str(identity.directory)).ensure(USERS)
    assert again == identity.passwords


@pytest.mark.parametrize(("user", "password", "project"), [
    ("demo", "wrong", "demo"), ("nobody", "x", "demo"), ("demo", None, "admin")])
def test_wrong_user_password_or_project_is_refused(identity, user, password, project):
    with pytest.raises(exception.Unauthorized):
        identity.authenticate(user, password or identity.passwords["demo"], project)


def test_a_changed_or_expired_token_is_refused(identity, monkeypatch):
    text, _ = identity.authenticate("demo", identity.passwords["demo"], None)
    for wrong in ("", "x", text[:-4] + "AAAA"):
        with pytest.raises(exception.Unauthorized):
            identity.validate(wrong)
    later = local.utcnow() + local.LIFETIME + datetime.timedelta(seconds=1)
    monkeypatch.setattr(local, "utcnow", lambda: later)
    with pytest.raises(exception.Unauthorized):
        identity.validate(text)


def test_a_token_of_a_token_ends_with_it(identity, monkeypatch):
    text, first = identity.authenticate("demo", identity.passwords["demo"], None)
    later = local.utcnow() + local.LIFETIME / 2
    monkeypatch.setattr(local, "utcnow", lambda: later)
    again, second = identity.rescope(text, None)
    assert (second.expires_at, identity.validate(again).expires_at) == (first.expires_at, first.expires_at)
    assert second.issued_at > first.issued_at


def test_files_are_private_and_hold_no_password_in_clear(identity):
    for path in identity.directory.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert identity.passwords["admin"] not in (identity.directory / "users.json").read_text()


def test_the_filter_lets_nobody_say_himself_who_he_is(identity):
    seen = {}

    def app(environ, start_response):
        seen.update(environ)
        return [b""]
    text, token = identity.authenticate("demo", identity.passwords["demo"], None)
    EmbeddedAuth(app, identity)({"HTTP_X_AUTH_TOKEN": text, "HTTP_X_ROLES": "admin", "HTTP_X_USER_ID": "root",
                                 "HTTP_X_SERVICE_ROLES": "service"}, lambda *a: None)
    assert (seen["HTTP_X_ROLES"], seen["HTTP_X_USER_ID"]) == ("member,reader", token.user_id)
    assert "HTTP_X_SERVICE_ROLES" not in seen

    answers = []
    EmbeddedAuth(app, identity)({"HTTP_X_USER_ID": "root"}, lambda status, headers: answers.append(status))
    assert answers == ["401 Unauthorized"]
