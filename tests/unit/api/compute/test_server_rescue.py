"""rescue and unrescue: what is checked, what is written down, what is answered."""
from __future__ import annotations

import pytest

from nova_lite.context import RequestContext
from nova_lite.objects.block_device import BlockDevice
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
NOBODY = "c905ac62-29d7-4a58-9a45-0fd2fe0b6c10"


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def act(client, server, body, status, version="2.1"):
    return client.at(version).ask("POST", f"/servers/{server}/action", body, status)


def add_image(cloud, **values):
    made = cloud.services.image.create(ADMIN, {"name": "rescue", "visibility": "public", **values})
    return cloud.services.image.upload(ADMIN, made.id, [b"y"]).id


def test_by_its_own_image(servers, member):
    server = servers.active(member)
    answer = act(member, server, {"rescue": None}, 200)
    assert len(answer["adminPass"]) == 12
    row, begun = servers.row(server), servers.actions(server)[-1]
    assert (row["vm_state"], row["task_state"]) == ("active", "rescuing")
    assert (begun["action"], begun["host"], begun["arguments"]["image"]["id"]) == ("rescue", "host1", servers.image)
    assert "admin_password" not in begun["arguments"]


def test_of_a_server_from_a_snapshot_by_the_image_that_it_came_from(cloud, servers, member):
    base = add_image(cloud)
    snapshot = add_image(cloud, properties={"base_image_ref": base})
    for found in (base, snapshot):      # then the snapshot, as the other one is deleted
        server = servers.active(member, imageRef=snapshot)
        act(member, server, {"rescue": None}, 200)
        assert servers.actions(server)[-1]["arguments"]["image"]["id"] == found
        if found == base:
            cloud.services.image.delete(ADMIN, base)


def test_by_another_image_and_with_a_password(cloud, servers, member):
    server, image = servers.active(member), add_image(cloud)
    servers.set(server, config_drive=True)
    asked = {"rescue": {"adminPass": "MySecretPass", "rescue_image_ref": image}}
    assert act(member, server, asked, 200) == {"adminPass": "MySecretPass"}
    arguments = servers.actions(server)[-1]["arguments"]
    assert (arguments["image"]["id"], arguments["admin_password"]) == (image, "MySecretPass")


@pytest.mark.parametrize("options", [{"api__enable_instance_password": False}])
def test_without_passwords(servers, member):
    assert act(member, servers.active(member), {"rescue": {}}, 200) == {}


@pytest.mark.parametrize("body", [{"rescue": {"rescue_image_ref": NOBODY}}, {"rescue": {"rescue_image_ref": "x y"}},
                                  {"rescue": {"other": 1}}, {"rescue": "x"}])
def test_what_is_wrong_is_a_bad_request(servers, member, body):
    act(member, servers.active(member), body, 400)


@pytest.mark.parametrize(("vm_state", "code"), [("active", 200), ("stopped", 200), ("error", 200), ("paused", 409),
                                                ("rescued", 409), ("suspended", 409), ("shelved", 409)])
def test_states(servers, member, vm_state, code):
    server = servers.active(member)
    servers.set(server, vm_state=vm_state)
    act(member, server, {"rescue": None}, code)
    servers.set(server, vm_state=vm_state, task_state=None)
    act(member, server, {"unrescue": None}, 202 if vm_state == "rescued" else 409)


def test_servers_on_volumes(cloud, servers, member):
    server = servers.active(member)
    root = BlockDevice("d", "volume", boot_index=0, volume_id=NOBODY)
    servers.set(server, image_ref="", image=None, block_devices=[root.to_primitive()])
    stable, plain = add_image(cloud, properties={"hw_rescue_bus": "virtio"}), add_image(cloud)
    for image, version, code in ((stable, "2.86", 400), (plain, "2.87", 400), (None, "2.87", 400), (stable, "2.87", 200)):
        act(member, server, {"rescue": {"rescue_image_ref": image} if image else None}, code, version)


def test_who_may(cloud, servers, member):
    server = servers.active(member)
    act(cloud.client(roles=("reader",)), server, {"rescue": None}, 403)
    act(cloud.client(roles=("reader",)), server, {"unrescue": None}, 403)
