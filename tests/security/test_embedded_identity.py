"""The embedded identity under attack: which users there are, and guessing of passwords."""
from __future__ import annotations

import hashlib
import threading

import pytest
import webob

from nova_lite import conf as conf_module
from nova_lite.embedded.api import identity as identity_api
from nova_lite.embedded.identity import attempts
from nova_lite.embedded.identity.local import LocalIdentity

USERS = {"admin": ("admin", ["admin", "member"]), "demo": ("demo", ["member"])}
ATTACKER, FRIEND = "192.0.2.66", "192.0.2.1"


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


class Cloud:
    """login(user, password, address) answers the response; the seconds of the limits are those of ``clock``."""

    def __init__(self, directory, monkeypatch):
        self.clock = Clock()
        monkeypatch.setattr(attempts.Attempts.__init__, "__defaults__", (self.clock,))
        conf = conf_module.load([], config_files=[], state_path=str(directory))
        identity = LocalIdentity(f"{directory}/identity")
        self.passwords = identity.ensure(USERS)
        self.ids = {name: user["id"] for name, user in identity.records()["users"].items()}
        self.app = identity_api.factory(conf)

    def login(self, user, password=None, address=ATTACKER, key="name"):
        request = webob.Request.blank("/v3/auth/tokens", method="POST", environ={"REMOTE_ADDR": address})
        request.json = {"auth": {"identity": {"methods": ["password"], "password": {"user": {
            key: user, "domain": {"id": "default"}, "password": self.passwords[user] if password is None else password}}}}}
        return request.get_response(self.app)

    def codes(self, times, *arguments, **named):
        return [self.login(*arguments, **named).status_code for _ in range(times)]


@pytest.fixture
def cloud(tmp_path, monkeypatch):
    return Cloud(tmp_path, monkeypatch)


def test_an_unknown_user_costs_as_many_key_derivations_as_a_known_one(cloud, monkeypatch):
    derive, made = hashlib.scrypt, []
    monkeypatch.setattr(hashlib, "scrypt", lambda *args, **named: made.append(named) or derive(*args, **named))
    costs = {}
    for user in ("admin", "nobody"):
        assert cloud.login(user, "wrong").status_code == 401
        costs[user] = [{name: value for name, value in one.items() if name != "salt"} for one in made]
        made.clear()
    assert len(costs["nobody"]) == 1
    assert costs["nobody"] == costs["admin"]


def test_guessing_ends_after_a_few_passwords(cloud):
    assert cloud.codes(attempts.PER_USER + 1, "admin", "wrong") == [401] * attempts.PER_USER + [429]
    refused = cloud.login("admin")              # even the right one
    assert refused.status_code == 429
    assert refused.headers["Retry-After"] == str(int(attempts.WINDOW))
    assert refused.json["error"]["code"] == 429
    cloud.clock.now += attempts.WINDOW
    assert cloud.login("admin").status_code == 201


def test_name_and_id_of_a_user_have_one_limit(cloud):
    cloud.codes(attempts.PER_USER - 1, "admin", "wrong")
    assert cloud.login(cloud.ids["admin"], "wrong", key="id").status_code == 401
    assert cloud.login("admin", "wrong").status_code == 429


def test_unknown_users_are_refused_as_known_ones_are(cloud):
    said = {user: [cloud.login(user, "wrong").text for _ in range(attempts.PER_USER + 1)] for user in ("admin", "nobody")}
    assert said["nobody"] == said["admin"]


def test_nobody_locks_the_admin_out_from_another_address(cloud):
    for last in range(1, 20):
        cloud.codes(attempts.PER_USER + 1, "admin", "wrong", address=f"192.0.2.{100 + last}")
    assert cloud.login("admin", address=FRIEND).status_code == 201


def test_an_address_has_a_limit_for_all_users_together(cloud):
    codes = [cloud.login(f"user-{number}", "wrong").status_code for number in range(attempts.PER_ADDRESS + 1)]
    assert codes == [401] * attempts.PER_ADDRESS + [429]
    assert cloud.login("demo").status_code == 429
    assert cloud.login("demo", address=FRIEND).status_code == 201


def test_an_own_account_does_not_reset_the_limit_of_the_address(cloud):
    codes = []
    for number in range(attempts.PER_ADDRESS):
        codes += [cloud.login(f"user-{number}", "wrong").status_code, cloud.login("demo").status_code]
    assert codes == [401, 201] * (attempts.PER_ADDRESS - 1) + [401, 429]


def test_a_right_password_forgets_the_wrong_ones_before_it(cloud):
    for _ in range(3):
        assert cloud.codes(attempts.PER_USER - 1, "demo", "wrong") == [401] * (attempts.PER_USER - 1)
        assert cloud.login("demo").status_code == 201


def test_addresses_of_one_ipv6_network_are_one(cloud):
    codes = [cloud.login("admin", "wrong", address=f"2001:db8::{number:x}").status_code for number in range(1, 8)]
    assert codes == [401] * attempts.PER_USER + [429] * (7 - attempts.PER_USER)
    assert cloud.login("admin", address="2001:db8:0:1::1").status_code == 201
    assert cloud.login("admin", address="::ffff:192.0.2.1").status_code == 201


def test_an_address_that_the_client_put_before_its_own_does_not_count(cloud):
    """What a proxy makes of X-Forwarded-For; the last one is the proxy's own word."""
    codes = [cloud.login("admin", "wrong", address=f"198.51.100.{number}, {ATTACKER}").status_code for number in range(8)]
    assert codes == [401] * attempts.PER_USER + [429] * (8 - attempts.PER_USER)
    assert cloud.login("admin", address=f"{ATTACKER}, {FRIEND}").status_code == 201


def test_guesses_at_the_same_time_pass_no_limit(cloud):
    codes = []
    threads = [threading.Thread(target=lambda: codes.append(cloud.login("admin", "wrong").status_code)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [401] * attempts.PER_USER + [429] * (20 - attempts.PER_USER)


def test_what_is_remembered_is_bounded():
    remembered = attempts.Attempts()
    for number in range(attempts.MOST_KEYS):
        remembered.failed("x" * 1000, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(remembered._failures) == attempts.MOST_KEYS
    assert all(len(key) == 32 for key in remembered._failures)
