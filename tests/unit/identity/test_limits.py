"""Keystone's unified limits: read from a small Keystone on HTTP, copied by a conductor, and what they mean for users."""
from __future__ import annotations

import itertools
from urllib.parse import parse_qs, urlsplit

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.conductor.limits import LimitsMirror
from nova_lite.db import core, quotas
from nova_lite.identity.limits import UnifiedLimits
from tests.support.fake_openstack import Answer, FakeOpenStack
from tests.unit.db.databases import URLS, empty_database

SERVICE = "5e41"


class Limits:
    """What Keystone holds: (service, region, name) -> limit, and the same with a project in front."""

    def __init__(self):
        self.registered = {(SERVICE, None, "servers"): 5, (SERVICE, None, "class:VCPU"): 8,
                           (SERVICE, None, "class:MEMORY_MB"): -1,
                           (SERVICE, "one", "server_groups"): 3, (SERVICE, None, "server_groups"): 1,
                           (SERVICE, "two", "server_key_pairs"): 9, ("glance", None, "servers"): 99,
                           (SERVICE, None, "class:CUSTOM_GPU"): 1}
        self.of_projects = {("p", SERVICE, "one", "servers"): 7, ("q", SERVICE, None, "class:VCPU"): 0}
        self.status, self.known = 200, True

    def __call__(self, call):
        parts = urlsplit(call.path)
        if self.status != 200:
            return Answer(self.status)
        if parts.path == "/v3/services":
            assert parse_qs(parts.query) == {"type": ["compute"]}
            return Answer(200, {"services": [{"id": SERVICE, "type": "compute"}] if self.known else []})
        wanted = parse_qs(parts.query)["service_id"]
        if parts.path == "/v3/registered_limits":
            return Answer(200, {"registered_limits": [
                {"service_id": s, "region_id": r, "resource_name": n, "default_limit": v}
                for (s, r, n), v in self.registered.items() if s in wanted]})
        assert parts.path == "/v3/limits"
        return Answer(200, {"limits": [
            {"project_id": p, "domain_id": None, "service_id": s, "region_id": r, "resource_name": n, "resource_limit": v}
            for (p, s, r, n), v in self.of_projects.items() if s in wanted]})


@pytest.fixture
def limits():
    return Limits()


@pytest.fixture
def make_conf(limits, tmp_path):
    keystone = FakeOpenStack("identity", limits, versions={"v3.14": "/v3/"})
    numbers = itertools.count()

    def make(**options):
        file = tmp_path / f"{next(numbers)}.conf"
        credentials = "\n".join(f"{k} = {v}" for k, v in keystone.options.items())
        file.write_text(f"[service_user]\nregion_name = one\n[oslo_limit]\n{credentials}")
        return nova_conf.load([], config_files=[str(file)], **{"quota__driver": "keystone", **options})
    yield make
    keystone.close()


@pytest.fixture(params=URLS, ids=lambda url: url.partition(":")[0])
def conf(request, tmp_path, make_conf):
    with empty_database(request.param, tmp_path) as url:
        yield make_conf(database__connection=url)


@pytest.fixture
def db(conf):
    database = core.Database(conf)
    yield database
    database.dispose()


def test_limits_are_those_of_our_service_and_region(make_conf):
    assert UnifiedLimits(make_conf()).read() == {
        "": {"instances": 5, "cores": 8, "ram": -1, "server_groups": 3}, "p": {"instances": 7}, "q": {"cores": 0}}


def test_a_keystone_without_a_compute_service(make_conf, limits):
    limits.known = False
    with pytest.raises(exception.ConfigError, match="no service of type compute"):
        UnifiedLimits(make_conf()).read()


def test_what_users_may_have(conf, db, limits):
    quotas_of = lambda project, user="": db.write(quotas.limits_for, conf, project, user)       # noqa: E731
    assert quotas_of("p")["instances"] == 0       # nothing is known yet
    mirror = LimitsMirror(conf, db)
    mirror.run()
    assert (quotas_of("p")["instances"], quotas_of("p")["cores"], quotas_of("p")["ram"]) == (7, 8, -1)
    assert (quotas_of("other")["instances"], quotas_of("q")["cores"], quotas_of("other")["key_pairs"]) == (5, 0, 0)
    db.write(quotas.set_limits, "p", {"instances": 100}, "u")
    db.write(quotas.set_limits, "p", {"instances": 100})
    assert quotas_of("p", "u")["instances"] == 7
    with pytest.raises(exception.TooManyInstances):
        db.write(quotas.check_servers, conf, "other", "u", 6, 6, 1)
    db.write(quotas.check_servers, conf, "other", "u", 5, 5, 10 ** 6)


def test_changes_arrive_and_an_absent_keystone_changes_nothing(conf, db, limits):
    mirror = LimitsMirror(conf, db)
    mirror.run()
    del limits.of_projects["p", SERVICE, "one", "servers"]
    limits.registered[SERVICE, None, "class:VCPU"] = 4
    mirror.run()
    found = db.write(quotas.limits_for, conf, "p")
    assert (found["instances"], found["cores"]) == (5, 4)
    limits.status = 503
    limits.registered.clear()
    mirror.run()
    assert db.write(quotas.limits_for, conf, "p") == found


def test_the_database_driver_asks_nobody(make_conf, limits, tmp_path):
    limits.status = 500
    with empty_database("sqlite", tmp_path) as url:
        conf = make_conf(quota__driver="database", database__connection=url)
        database = core.Database(conf)
        LimitsMirror(conf, database).run()
        assert database.write(quotas.limits_for, conf, "p")["instances"] == conf.quota.instances
        database.dispose()
