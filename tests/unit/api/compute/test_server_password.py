"""os-server-password, and what the conductor keeps for it."""
from __future__ import annotations

import pytest

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.db import server_passwords


def test_the_password_is_read_and_forgotten(cloud, member):
    server = cloud.add_server(system_metadata={"kept": "yes"})
    path = f"/servers/{server}/os-server-password"
    assert member.get(path) == {"password": ""}
    password = "".join(chr(97 + n % 26) for n in range(700))
    cloud.db.write(server_passwords.set_once, server, password)
    assert member.get(path) == {"password": password}
    member.delete(path)
    member.delete(path)
    assert member.get(path) == {"password": ""}
    cloud.db.write(server_passwords.set_once, server, "new")
    assert member.get(path) == {"password": "new"}
    assert member.get(f"/servers/{server}")["server"]["id"] == server


def test_it_is_kept_once_beside_what_else_is_there(cloud):
    server = cloud.add_server(system_metadata={"kept": "yes"})
    cloud.db.write(server_passwords.set_once, server, "x" * 300)
    with pytest.raises(exception.Conflict):
        cloud.db.write(server_passwords.set_once, server, "y")
    instance = cloud.services.compute.get(admin_context(), server)
    assert instance.system_metadata == {"kept": "yes", "password_0": "x" * 255, "password_1": "x" * 45}
    for wrong in ("", "x" * 1021):
        with pytest.raises(exception.Invalid):
            cloud.db.write(server_passwords.set_once, server, wrong)


def test_nobody_elses(cloud, member):
    server = cloud.add_server()
    cloud.db.write(server_passwords.set_once, server, "x")
    path = f"/servers/{server}/os-server-password"
    other = cloud.client("other", "project2")
    assert other.fault("GET", path, 404)
    assert other.fault("DELETE", path, 404)
    reader = cloud.client(roles=("reader",))
    assert reader.get(path) == {"password": "x"}
    assert reader.fault("DELETE", path, 403)
    assert member.fault("GET", "/servers/nothing/os-server-password", 404)
