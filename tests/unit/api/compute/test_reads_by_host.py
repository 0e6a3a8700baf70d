"""What is asked for some hosts reads the services of these hosts, however many others there are."""
from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from nova_lite import units
from nova_lite.db import models
from tests.unit.api.compute.server_support import Servers

MORE = 60


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


@contextmanager
def reads(cloud):
    """(statements that read, rows of services and of hosts of aggregates that they answer with)"""
    seen, found = [], []

    def note(_conn, _cursor, statement, parameters, _context, _many):
        if statement.lstrip().upper().startswith("SELECT"):
            seen.append((statement, parameters))
    sa.event.listen(cloud.db.engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(cloud.db.engine, "before_cursor_execute", note)
    with cloud.db.read() as conn:
        rows = sum(len(conn.exec_driver_sql(statement, parameters).all()) for statement, parameters in seen
                   if "FROM services" in statement or "aggregate_hosts" in statement)
    found.extend([len(seen), rows])


def add_hosts(cloud, first, count):
    """Hosts, half of them in zones of two aggregates."""
    names = [f"more{number}" for number in range(first, first + count)]
    rows = [{"uuid": f"{name:>036}", "host": name, "binary": "nova-compute", "disabled": False, "forced_down": False,
             "last_seen_at": units.utcnow(), "created_at": units.utcnow()} for name in names]
    cloud.db.write(lambda conn: conn.execute(sa.insert(models.services), rows))
    members = [{"aggregate_id": 1 + number % 2, "host": name} for number, name in enumerate(names) if number % 4 < 2]
    cloud.db.write(lambda conn: conn.execute(sa.insert(models.aggregate_hosts), members))


def zoned(servers, zone):
    return lambda admin: admin.at("2.100").post("/servers", {"server": {
        **servers.body()["server"], "networks": "none", "availability_zone": zone}}, 202)


def on_a_server(servers, state, act) -> Callable:
    def ask(admin):
        server = servers.active(admin)
        servers.set(server, **state)
        return act(admin, f"/servers/{server}")
    return ask


ASKED = {
    "show": lambda servers, server: lambda who: who.get(f"/servers/{server}"),
    "list": lambda servers, server: lambda who: who.get("/servers/detail"),
    "zones": lambda servers, server: lambda who: who.get("/os-availability-zone"),
    "a service": lambda servers, server: lambda who: who.get("/os-services?host=host1"),
    "build in a zone": lambda servers, server: zoned(servers, "london"),
    "build in the default zone": lambda servers, server: zoned(servers, "nova"),
    "build in no such zone": lambda servers, server: lambda who: who.post(
        "/servers", servers.body(availability_zone="mars"), 400),
    "resize": lambda servers, server: on_a_server(
        servers, {"task_state": None}, lambda who, path: who.post(f"{path}/action", {"resize": {"flavorRef": "larger"}}, 202)),
    "pin": lambda servers, server: on_a_server(
        servers, {"task_state": None},
        lambda who, path: who.at("2.104").put(path, {"server": {"pinned_availability_zone": "nova"}})),
    "unshelve": lambda servers, server: on_a_server(
        servers, {"vm_state": "shelved_offloaded", "host": None},
        lambda who, path: who.at("2.91").post(f"{path}/action", {"unshelve": {"host": "host1"}}, 202)),
}


@pytest.mark.parametrize("asked", ASKED)
def test_many_hosts_cost_what_few_cost(servers, cloud, admin, asked):
    admin = admin.at("2.90")
    for name in ("london", "paris"):
        admin.post("/os-aggregates", {"aggregate": {"name": name, "availability_zone": name}})
    cloud.add_flavor("larger", vcpus=2)
    add_hosts(cloud, 0, 4)
    ask = ASKED[asked](servers, servers.active(admin))
    ask(admin)
    with reads(cloud) as few:
        ask(admin)
    add_hosts(cloud, 4, MORE)
    with reads(cloud) as many:
        ask(admin)
    assert many == few
    assert few[1] < 10


def test_the_hosts_of_a_page_have_their_status(servers, cloud, admin):
    made = {host: servers.active(admin) for host in ("host1", "off", "gone")}
    cloud.add_service("off", disabled=True)
    for host, server in made.items():
        servers.set(server, host=host)
    found = {one["id"]: one["host_status"] for one in admin.at("2.90").get("/servers/detail")["servers"]}
    assert found == {made["host1"]: "UP", made["off"]: "MAINTENANCE", made["gone"]: ""}
