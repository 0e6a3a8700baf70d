"""shelve, shelveOffload, unshelve, soft delete and restore: what is checked and what is written down."""
from __future__ import annotations

import json

import pytest

from nova_lite.context import RequestContext
from nova_lite.db import quotas
from nova_lite.objects.block_device import BlockDevice
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
VOLUME = "c905ac62-29d7-4a58-9a45-0fd2fe0b6c10"


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def act(client, server, body, status, version="2.1"):
    return client.at(version).ask("POST", f"/servers/{server}/action", body, status)


def images(cloud):
    return [i for i in cloud.services.image.list(ADMIN) if i.name.endswith("-shelved")]


def shelved(servers, client, offloaded=True, **values):
    server = servers.active(client)
    where = {"host": None, "node": None, "availability_zone": None} if offloaded else {}
    servers.set(server, vm_state="shelved_offloaded" if offloaded else "shelved", **where, **values)
    return server


def test_the_image_is_made_and_written_down(cloud, servers, member):
    server = servers.active(member, name="one")
    act(member, server, {"shelve": None}, 202)
    image, = images(cloud)
    row, begun = servers.row(server), servers.actions(server)[-1]
    assert (image.name, image.status, image.properties["image_type"]) == ("one-shelved", "queued", "snapshot")
    assert (row["vm_state"], row["task_state"]) == ("active", "shelving")
    assert row["system_metadata"]["shelved_image_id"] == image.id
    assert row["system_metadata"]["shelved_host"] == "host1"
    assert (begun["action"], begun["host"], begun["arguments"]["image_id"]) == ("shelve", "host1", image.id)


def test_the_image_of_a_long_name_has_one_that_an_image_may_have(cloud, servers, member):
    act(member, servers.active(member, name="n" * 255), {"shelve": None}, 202)
    image, = images(cloud)
    assert image.name == "n" * 247 + "-shelved"


def test_a_server_on_a_volume_needs_no_image(cloud, servers, member):
    server = servers.active(member)
    root = BlockDevice("d", "volume", boot_index=0, volume_id=VOLUME)
    servers.set(server, image_ref="", block_devices=[root.to_primitive()])
    act(member, server, {"shelve": None}, 202)
    assert images(cloud) == []


@pytest.mark.parametrize(("vm_state", "codes"), [
    ("active", (202, 409, 409)), ("stopped", (202, 409, 409)), ("paused", (202, 409, 409)), ("suspended", (202, 409, 409)),
    ("error", (409, 409, 409)), ("rescued", (409, 409, 409)), ("shelved", (409, 202, 202)),
    ("shelved_offloaded", (409, 409, 202))])
def test_states(cloud, servers, member, admin, vm_state, codes):
    server = servers.active(member)
    for action, code in zip(("shelve", "shelveOffload", "unshelve"), codes, strict=True):
        servers.set(server, vm_state=vm_state, task_state=None)
        act(admin, server, {action: None}, code)
    assert len(images(cloud)) == (codes[0] == 202)


def test_who_may(cloud, servers, member):
    server = servers.active(member)
    for action in ("shelve", "unshelve", "shelveOffload", "restore"):
        act(cloud.client(roles=("reader",)), server, {action: None}, 403)
    act(member, server, {"shelveOffload": None}, 403)


def test_unshelve_begins_at_the_conductor(servers, member):
    for offloaded in (True, False):
        server = shelved(servers, member, offloaded)
        act(member, server, {"unshelve": None}, 202)
        begun = servers.actions(server)[-1]
        assert (begun["action"], begun["stage"], begun["host"]) == ("unshelve", "conductor", None)
        assert servers.row(server)["task_state"] == "unshelving"


@pytest.mark.parametrize(("version", "argument", "code"), [
    ("2.76", {"availability_zone": "nowhere"}, 202), ("2.77", None, 202), ("2.77", {"availability_zone": "nova"}, 202),
    ("2.77", {"availability_zone": "nowhere"}, 400), ("2.77", {"availability_zone": None}, 400), ("2.77", {}, 400),
    ("2.90", {"host": "host1"}, 400), ("2.91", {"host": "host1"}, 202), ("2.91", {"host": "host9"}, 400),
    ("2.91", {"availability_zone": None}, 202), ("2.91", {"availability_zone": "nova", "host": "host1"}, 202),
    ("2.91", {}, 202), ("2.91", {"other": 1}, 400)])
def test_where_to(servers, member, admin, version, argument, code):
    server = shelved(servers, member, pinned_availability_zone="nova")
    act(admin, server, {"unshelve": argument}, code, version)
    if code == 202 and argument and version >= "2.77":
        row, arguments = servers.row(server), servers.actions(server)[-1]["arguments"]
        assert row["pinned_availability_zone"] == argument.get("availability_zone", "nova")
        assert arguments.get("destination") == argument.get("host")


def test_a_host_is_for_admins_and_of_the_zone(servers, member, admin):
    server = shelved(servers, member, pinned_availability_zone="other")
    act(member, server, {"unshelve": {"host": "host1"}}, 403, "2.91")
    fault = act(admin, server, {"unshelve": {"host": "host1"}}, 409, "2.91")
    assert "is not in the availability zone" in json.dumps(fault)
    act(admin, server, {"unshelve": {"host": "host1", "availability_zone": None}}, 202, "2.91")


def test_a_zone_needs_a_server_without_host(servers, member):
    server = shelved(servers, member, offloaded=False)
    fault = act(member, server, {"unshelve": {"availability_zone": "nova"}}, 409, "2.77")
    assert "must be SHELVED_OFFLOADED" in json.dumps(fault)


def test_a_delete_takes_the_image(cloud, servers, member):
    server = servers.active(member)
    act(member, server, {"shelve": None}, 202)
    servers.set(server, vm_state="shelved_offloaded", task_state=None, host=None)
    member.delete(f"/servers/{server}")
    assert images(cloud) == []


@pytest.mark.parametrize(("status", "kept"), [("active", 1), ("queued", 0)])
def test_a_delete_of_a_server_in_trouble_leaves_what_may_be_all_that_is_left(cloud, servers, member, status, kept):
    server = servers.active(member)
    act(member, server, {"shelve": None}, 202)
    if status == "active":
        cloud.services.image.upload(ADMIN, images(cloud)[0].id, [b"its disk"])
    servers.set(server, vm_state="error", task_state=None)
    member.delete(f"/servers/{server}")
    assert len(images(cloud)) == kept


def test_a_delete_on_the_way_to_the_shelf_takes_the_image(cloud, servers, member):
    server = servers.active(member)
    act(member, server, {"shelve": None}, 202)
    cloud.services.image.upload(ADMIN, images(cloud)[0].id, [b"its disk"])
    member.delete(f"/servers/{server}")
    assert images(cloud) == []


# soft delete --------------------------------------------------------------------------------------------------------------
SOFT = pytest.mark.parametrize("options", [{"compute__reclaim_instance_interval": 60}])


@SOFT
def test_a_delete_can_be_taken_back(servers, member):
    server = servers.active(member)
    member.delete(f"/servers/{server}")
    row, begun = servers.row(server), servers.actions(server)[-1]
    assert (row["task_state"], row["deleted"], begun["action"], begun["arguments"]["verb"]) == (
        "soft-deleting", 0, "delete", "soft_delete")
    assert row["deleted_at"] is not None
    servers.set(server, vm_state="soft-delete", task_state=None)
    assert member.get(f"/servers/{server}")["server"]["status"] == "SOFT_DELETED"
    act(member, server, {"restore": None}, 202)
    row = servers.row(server)
    assert row["task_state"] == "restoring"
    assert row["deleted_at"] is not None        # until it is back: a restore may fail
    act(member, server, {"restore": None}, 409)


@SOFT
@pytest.mark.parametrize(("vm_state", "kept"), [("shelved", 0), ("error", 1)])
def test_only_the_image_of_what_was_on_its_shelf_goes_with_a_soft_delete_for_good(cloud, servers, member, vm_state, kept):
    server = servers.active(member)
    act(member, server, {"shelve": None}, 202)
    image, = images(cloud)
    cloud.services.image.upload(ADMIN, image.id, [b"its disk"])
    servers.set(server, vm_state=vm_state, task_state=None)
    member.delete(f"/servers/{server}")
    assert servers.row(server)["system_metadata"].get("shelved_image_id") == (None if kept else image.id)
    servers.set(server, vm_state="soft-delete", task_state=None)
    assert len(images(cloud)) == 1
    act(member, server, {"forceDelete": None}, 202)
    assert len(images(cloud)) == kept


@SOFT
def test_what_never_ran_is_deleted(servers, member):
    server = servers.create(member)
    member.delete(f"/servers/{server}")
    assert servers.row(server)["task_state"] == "deleting"


@SOFT
def test_by_force_it_is_gone_at_once(servers, member):
    server = servers.active(member)
    servers.set(server, vm_state="soft-delete")
    act(member, server, {"forceDelete": None}, 202)
    assert servers.row(server)["task_state"] == "deleting"


def test_restore_needs_room_in_the_quota(cloud, servers, member):
    server = servers.active(member)
    servers.set(server, vm_state="soft-delete")
    cloud.db.write(quotas.set_limits, "project1", {"instances": 0})
    act(member, server, {"restore": None}, 403)
    cloud.db.write(quotas.set_limits, "project1", {"instances": 1})
    act(member, server, {"restore": None}, 202)


def test_restores_at_once_do_not_share_the_room_for_one(cloud, servers, member):
    first, second = servers.active(member), servers.active(member)
    for server in (first, second):
        servers.set(server, vm_state="soft-delete")
    cloud.db.write(quotas.set_limits, "project1", {"instances": 1})
    act(member, first, {"restore": None}, 202)
    assert servers.row(first)["vm_state"] == "soft-delete"      # no host has begun
    act(member, second, {"restore": None}, 403)


def test_lists(servers, member, admin):
    soft, alive = servers.active(member), servers.active(member)
    servers.set(soft, vm_state="soft-delete")

    def listed(query, client=member):
        return {s["id"] for s in client.get(f"/servers{query}")["servers"]}
    assert listed("") == {alive}
    assert listed("?status=SOFT_DELETED") == {soft}
    assert listed("?all_tenants=1&deleted=True", admin) == {soft}
    assert listed("?all_tenants=1&soft_deleted=True", admin) == {soft, alive}
    assert listed("?changes-since=2000-01-01T00:00:00Z") == {soft, alive}
