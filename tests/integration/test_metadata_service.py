"""nova-lite-api-metadata as Neutron's metadata agent asks it: signed requests, over a real broker, for two projects."""
from __future__ import annotations

import hashlib
import hmac
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.support.cloud import Services
from tests.support.engines import MariaDB, RabbitMQ

SECRET = "between-neutron-and-us"


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    directory = tmp_path_factory.mktemp("metadata")
    (directory / "vendor.json").write_text(json.dumps({"motd": "hello"}))
    broker, database = RabbitMQ(directory / "rabbitmq"), MariaDB(directory / "mariadb")
    services = None
    try:
        broker.start()
        database.start()
        services = Services(directory / "cloud", broker.url, database.new_database(), metadata__shared_secret=SECRET,
                            metadata__vendor_data_file=directory / "vendor.json")
        services.start()
        services.add_image()
        yield services
    finally:
        if services is not None:
            services.stop()
        database.close()
        broker.close()


@pytest.fixture(scope="module")
def servers(cloud):
    """project -> id of a server."""
    cloud.client().flavor()
    made = {}
    for project in ("one", "two"):
        client = cloud.client(f"admin:{project}")
        made[project] = client.boot(f"web-{project}", metadata={"of": project})["id"]
        client.wait(made[project], "ACTIVE")
    return made


def _ask(cloud, path, server, project, method="GET", secret=SECRET, **request):
    headers = {"X-Instance-ID": server, "X-Tenant-ID": project, "X-Forwarded-For": "10.0.0.5",
               "X-Instance-ID-Signature": hmac.new(secret.encode(), server.encode(), hashlib.sha256).hexdigest()}
    if not project:
        del headers["X-Tenant-ID"]
    return requests.request(method, f"http://127.0.0.1:{cloud.metadata_port}{path}", headers=headers, timeout=30, **request)


def test_each_reads_its_own(cloud, servers):
    for project, server in servers.items():
        found = _ask(cloud, "/openstack/latest/meta_data.json", server, project).json()
        assert (found["uuid"], found["project_id"], found["meta"]) == (server, project, {"of": project})
        assert _ask(cloud, "/latest/meta-data/hostname", server, project).text == f"web-{project}"
        assert _ask(cloud, "/openstack/latest/vendor_data2.json", server, project).json() == {"static": {"motd": "hello"}}


def test_nobody_reads_anothers(cloud, servers):
    path = "/openstack/latest/meta_data.json"
    assert _ask(cloud, path, servers["one"], "two").status_code == 404
    assert _ask(cloud, path, servers["one"], "one", secret="guessed").status_code == 403
    assert _ask(cloud, path, servers["one"], "").status_code == 400
    assert _ask(cloud, path, "11111111-2222-4333-8444-555555555555", "one").status_code == 404
    unsigned = requests.get(f"http://127.0.0.1:{cloud.metadata_port}{path}", timeout=30)
    assert unsigned.status_code == 404


def test_a_password_is_posted_once_and_read_by_its_project(cloud, servers):
    path, password = "/openstack/2013-04-04/password", "A1b2" * 255
    for project in servers:
        assert _ask(cloud, path, servers[project], project).text == ""
    assert _ask(cloud, path, servers["one"], "one", "POST", data=password + "x").status_code == 400
    with ThreadPoolExecutor(8) as pool:
        tries = list(pool.map(lambda n: _ask(cloud, path, servers["one"], "one", "POST", data=password).status_code, range(8)))
    assert sorted(tries) == [200] + [409] * 7
    assert _ask(cloud, path, servers["one"], "one").text == password
    assert _ask(cloud, path, servers["two"], "two").text == ""
    shown = f"/servers/{servers['one']}/os-server-password"
    owner = cloud.client("admin:one")
    assert owner.ok("GET", shown) == {"password": password}
    assert cloud.client("admin:two").ok("GET", f"/servers/{servers['two']}/os-server-password") == {"password": ""}
    assert owner.request("DELETE", shown).status_code == 204
    assert owner.ok("GET", shown) == {"password": ""}


def test_a_crowd_is_answered(cloud, servers):
    with ThreadPoolExecutor(40) as pool:
        answers = list(pool.map(
            lambda n: _ask(cloud, "/openstack/latest/meta_data.json", servers[("one", "two")[n % 2]], ("one", "two")[n % 2]),
            range(400)))
    assert {a.status_code for a in answers} == {200}
    assert [a.json()["project_id"] for a in answers] == ["one", "two"] * 200
