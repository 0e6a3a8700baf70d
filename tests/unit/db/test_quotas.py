"""Quotas: what they say, and that nobody overtakes the check."""
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.db import core, instances, keypairs, models, quotas, server_groups
from nova_lite.objects.flavor import Flavor
from tests.unit.db.databases import URLS, empty_database

FLAVOR = Flavor("1", "f", memory_mb=512, vcpus=2, root_gb=1)


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def conf(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        yield nova_conf.load([], config_files=[], database__connection=url, database__max_pool_size=10,
                             quota__instances=10, quota__cores=20, quota__ram=51200, quota__key_pairs=3,
                             quota__server_groups=3, quota__server_group_members=2)


@pytest.fixture
def db(conf):
    database = core.Database(conf)
    yield database
    database.dispose()


def create_servers(conn, conf, count, user="u", project="p", checked=True):
    if checked:
        quotas.check_servers(conn, conf, project, user, count, count * FLAVOR.vcpus, count * FLAVOR.memory_mb)
    servers = [{"uuid": str(uuid.uuid4()), "project_id": project, "user_id": user, "display_name": "s", "flavor": FLAVOR}
               for _ in range(count)]
    instances.create_many(conn, servers)
    return [server["uuid"] for server in servers]


def test_the_message_names_what_is_over(conf, db):
    db.write(create_servers, conf, 10)
    with pytest.raises(exception.TooManyInstances) as caught:
        db.write(create_servers, conf, 2)
    assert caught.value.message == ("Quota exceeded for cores, instances: Requested 4, 2, but already used 20, 10 of 20, 10 "
                                    "cores, instances")
    assert caught.value.code == 403
    db.write(create_servers, conf, 2, project="other")


def test_deleted_servers_do_not_count(conf, db):
    (first, *_) = db.write(create_servers, conf, 10)
    db.write(instances.mark_deleted, first)
    db.write(create_servers, conf, 1)
    assert db.write(quotas.usage, "p")["instances"] == 10


def test_a_user_may_have_less_than_the_project(conf, db):
    db.write(quotas.set_limits, "p", {"instances": 2}, "u")
    db.write(create_servers, conf, 2)
    with pytest.raises(exception.TooManyInstances, match="Quota exceeded for instances: Requested 1, but already used 2 of 2"):
        db.write(create_servers, conf, 1)
    db.write(create_servers, conf, 8, user="other")
    with pytest.raises(exception.TooManyInstances, match="already used 20, 10 of 20, 10"):
        db.write(create_servers, conf, 1, user="other")


def test_no_limit(conf, db):
    db.write(quotas.set_limits, "p", {"instances": -1, "cores": -1, "ram": -1})
    db.write(create_servers, conf, 30)
    assert {name: db.write(quotas.usage, "p")[name] for name in ("instances", "cores")} == {"instances": 30, "cores": 60}


def test_nothing_more_is_never_too_much(conf, db):
    db.write(create_servers, conf, 10)
    db.write(quotas.set_limits, "p", {"cores": 1})
    db.write(quotas.check_servers, conf, "p", "u", 0, 0, 512)
    with pytest.raises(exception.TooManyInstances, match="cores"):
        db.write(quotas.check_servers, conf, "p", "u", 0, 1, 512)


def test_how_many_fit(conf, db):
    db.write(create_servers, conf, 7)
    assert db.write(quotas.servers_that_fit, conf, "p", "u", 1, 5, 2, 512) == 3
    assert db.write(quotas.servers_that_fit, conf, "p", "u", 1, 2, 2, 512) == 2
    with pytest.raises(exception.TooManyInstances, match="Requested 8, 4, but already used 14, 7 of 20, 10"):
        db.write(quotas.servers_that_fit, conf, "p", "u", 4, 5, 2, 512)


def test_group_members_are_counted_per_user(conf, db):
    values = {"uuid": str(uuid.uuid4()), "name": "g", "policy": "affinity", "rules": {}, "project_id": "p", "user_id": "u"}
    group = db.write(server_groups.create, conf, values)["uuid"]
    db.write(server_groups.add_members, group, db.write(create_servers, conf, 2))
    with pytest.raises(exception.QuotaLimitExceeded, match="too many servers in group"):
        db.write(quotas.check_server_group_members, conf, "p", "u", group)
    db.write(quotas.check_server_group_members, conf, "p", "other", group, 2)


def _race(work, times=12):
    """Run ``work(number)`` on as many threads; how many were not refused."""
    def attempt(number):
        try:
            work(number)
        except exception.OverQuota:
            return 0
        return 1
    with ThreadPoolExecutor(times) as pool:
        return sum(pool.map(attempt, range(times)))


def test_servers_that_are_created_at_once_stay_within_the_quota(conf, db):
    assert _race(lambda _: db.write(create_servers, conf, 1)) == 10
    with db.read() as conn:
        assert quotas.usage(conn, "p") == {"instances": 10, "cores": 20, "ram": 5120, "server_groups": 0}


def test_groups_that_are_created_at_once_stay_within_the_quota(conf, db):
    def create(number):
        db.write(server_groups.create, conf, {"uuid": str(uuid.uuid4()), "name": f"g{number}", "policy": "affinity",
                                              "rules": {}, "project_id": "p", "user_id": "u"})
    assert _race(create) == 3


def test_key_pairs_that_are_created_at_once_stay_within_the_quota(conf, db):
    def create(number):
        # a user's key pairs are counted whichever project they are made from
        db.write(keypairs.create, conf, f"p{number}", {"name": f"k{number}", "user_id": "u", "type": "ssh",
                                                       "fingerprint": "00", "public_key": "ssh-rsa"})
    assert _race(create) == 3
    with db.read() as conn:
        assert conn.scalar(sa.select(sa.func.count()).select_from(models.key_pairs)) == 3


def test_usage_is_one_statement(conf, db):
    seen = []
    sa.event.listen(db.engine, "before_cursor_execute", lambda _c, _cur, statement, *_: seen.append(statement))
    with db.read() as conn:
        quotas.usage(conn, "p", "u")
        quotas.limits_for(conn, conf, "p", "u")
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2
