"""Keys of compute hosts and nonces of messages, on each kind of database."""
import concurrent.futures

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.db import core, host_keys
from tests.unit.db.databases import URLS, empty_database


@pytest.fixture(params=URLS)
def db(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        made = core.Database(nova_conf.load([], config_files=[], database__connection=url))
        yield made
        made.dispose()


def test_a_nonce_is_spent_once_by_whoever_comes_first(db):
    db.write(host_keys.create, "h1")

    def spend(_number):
        try:
            db.write(host_keys.spend, "h1", 1, "nonce", 1000.0)
        except exception.MessageReplayed:
            return False
        return True

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(16))) == 1


def test_control_services_need_no_row(db):
    db.write(host_keys.spend, None, 0, "nonce", 1000.0)
    with pytest.raises(exception.MessageReplayed):
        db.write(host_keys.spend, None, 0, "nonce", 1000.0)


def test_a_revoked_key_spends_nothing(db):
    assert [db.write(host_keys.create, "h1") for _ in range(2)] == [1, 2]
    assert db.write(host_keys.revoke, "h1", 1) == 1
    with pytest.raises(exception.HostNotAllowed, match="revoked"):
        db.write(host_keys.spend, "h1", 1, "nonce", 1000.0)
    with pytest.raises(exception.HostNotAllowed, match="revoked"):
        db.write(host_keys.spend, "another", 1, "nonce", 1000.0)
    db.write(host_keys.spend, "h1", 2, "nonce", 1000.0)
    with db.read() as conn, pytest.raises(exception.HostNotAllowed, match="revoked"):
        host_keys.check(conn, "h1", 1)


def test_nonces_that_count_no_more_are_forgotten(db):
    db.write(host_keys.spend, None, 0, "old", 1000.0)
    db.write(host_keys.spend, None, 0, "new", 2000.0)
    db.write(host_keys.forget_nonces, 1500.0)
    db.write(host_keys.spend, None, 0, "old", 3000.0)
    with pytest.raises(exception.MessageReplayed):
        db.write(host_keys.spend, None, 0, "new", 3000.0)
