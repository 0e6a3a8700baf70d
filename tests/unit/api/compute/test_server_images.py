"""createImage and createBackup: the image's record, the action that is written down, and what is refused."""
from __future__ import annotations

import json

import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
BODIES = {"createImage": {"name": "snap", "metadata": {"colour": "red"}},
          "createBackup": {"name": "snap", "metadata": {"colour": "red"}, "backup_type": "daily", "rotation": 2}}
TASKS = {"createImage": "image_snapshot_pending", "createBackup": "image_backup"}


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def test_the_users_metadata_go_before_what_an_image_gets_by_itself(cloud, servers, member):
    kinds = []
    for action in BODIES:
        body = {action: {**BODIES[action], "metadata": {"image_type": "test", "backup_type": "mine"}}}
        made = member.at("2.45").post(f"/servers/{servers.active(member)}/action", body, 202)["image_id"]
        properties = cloud.services.image.get(ADMIN, made).properties
        kinds.append((properties["image_type"], properties["backup_type"]))
    assert kinds == [("test", "mine"), ("test", "daily")]


@pytest.mark.parametrize("action", BODIES)
def test_the_record_is_made_and_named_in_the_action(cloud, servers, member, action):
    server = servers.active(member)
    answer = member.at("2.45").post(f"/servers/{server}/action", {action: BODIES[action]}, 202)
    image = cloud.services.image.get(ADMIN, answer["image_id"])
    assert (image.name, image.status, image.visibility) == ("snap", "queued", "private")
    row = servers.row(server)
    assert image.owner == row["project_id"]
    assert image.min_disk == row["root_gb"]
    wanted = {"os_distro": "debian", "colour": "red", "instance_uuid": server, "base_image_ref": servers.image,
              "user_id": row["user_id"], "owner_id": row["project_id"], "image_location": "snapshot",
              "image_state": "available", "image_type": "snapshot" if action == "createImage" else "backup"}
    if action == "createBackup":
        wanted["backup_type"] = "daily"
    assert image.properties == wanted
    begun = servers.actions(server)[-1]
    assert (begun["action"], begun["stage"], begun["host"], begun["state"]) == (action, "compute", "host1", "pending")
    assert begun["arguments"]["image_id"] == image.id
    assert row["task_state"] == TASKS[action]


@pytest.mark.parametrize("action", BODIES)
def test_until_2_44_the_answer_is_a_location(servers, member, action):
    server = servers.active(member)
    answer = member.at("2.44").call("POST", f"/servers/{server}/action", {action: BODIES[action]})
    assert (answer.status_code, answer.body) == (202, b"")
    image_id = servers.actions(server)[-1]["arguments"]["image_id"]
    assert answer.headers["Location"].endswith(f"/images/{image_id}")


def test_a_backup_that_does_not_stay_has_no_location_but_a_name(servers, member):
    body = {"createBackup": {**BODIES["createBackup"], "rotation": 0}}
    answer = member.at("2.44").call("POST", f"/servers/{servers.active(member)}/action", body)
    assert (answer.status_code, answer.body, answer.headers.get("Location")) == (202, b"", None)
    server = servers.active(member)
    answer = member.at("2.45").post(f"/servers/{server}/action", body, 202)
    assert answer == {"image_id": servers.actions(server)[-1]["arguments"]["image_id"]}


@pytest.mark.parametrize("action", BODIES)
@pytest.mark.parametrize(("vm_state", "task_state", "code"), [
    ("active", None, 202), ("stopped", None, 202), ("paused", None, 202), ("suspended", None, 202), ("error", None, 409),
    ("building", None, 409), ("active", "rebooting", 409), ("active", "image_uploading", 409)])
def test_states(cloud, servers, member, action, vm_state, task_state, code):
    server = servers.active(member)
    servers.set(server, vm_state=vm_state, task_state=task_state)
    before = len(cloud.services.image.list(ADMIN))
    answer = member.call("POST", f"/servers/{server}/action", {action: BODIES[action]})
    assert answer.status_code == code
    assert len(cloud.services.image.list(ADMIN)) == before + (code == 202)
    if code == 409:
        message = json.loads(answer.body)["conflictingRequest"]["message"]
        assert message.startswith(f"Cannot '{action}' instance {server} while it is in ")


def test_a_locked_server_may_be_copied(servers, member):
    server = servers.active(member)
    servers.set(server, locked=True, locked_by="admin")
    member.post(f"/servers/{server}/action", {"createImage": BODIES["createImage"]}, 202)


def test_an_operation_that_came_first_leaves_no_image(cloud, servers, member, monkeypatch):
    """Between the look at the server and the transaction that begins the operation somebody else has begun one."""
    server = servers.active(member)
    images = cloud.services.image
    before = {image.id for image in images.list(ADMIN)}
    create = images.create

    def slowly(context, values):
        servers.set(server, task_state="rebooting")
        return create(context, values)
    monkeypatch.setattr(images, "create", slowly)
    member.fault("POST", f"/servers/{server}/action", 409, {"createImage": {"name": "late"}})
    assert {image.id for image in images.list(ADMIN)} == before


@pytest.mark.parametrize("reclaim", [0, 60])
@pytest.mark.parametrize("action", BODIES)
def test_a_delete_takes_the_images_that_are_not_made_yet(cloud, servers, member, action, reclaim):
    """Their host may be down: nobody else hears of them any more, and they would be queued for ever."""
    cloud.conf.set_override("reclaim_instance_interval", reclaim, group="compute")
    server, images = servers.active(member), cloud.services.image
    before = {image.id for image in images.list(ADMIN)}
    member.post(f"/servers/{server}/action", {action: BODIES[action]}, 202)
    member.delete(f"/servers/{server}")
    assert servers.row(server)["task_state"] == ("soft-deleting" if reclaim else "deleting")
    assert {image.id for image in images.list(ADMIN)} == before


def test_one_that_has_its_data_stays(cloud, servers, member):
    server, images = servers.active(member), cloud.services.image
    made = member.at("2.45").post(f"/servers/{server}/action", {"createImage": BODIES["createImage"]}, 202)["image_id"]
    images.update(ADMIN, made, {"disk_format": "raw", "container_format": "bare"})
    images.upload(ADMIN, made, [b"all of it"])
    member.delete(f"/servers/{server}")
    assert images.get(ADMIN, made).status == "active"


@pytest.mark.parametrize("action", BODIES)
@pytest.mark.parametrize(("version", "code"), [("2.38", 403), ("2.39", 202)])
def test_too_much_metadata_until_2_38(cloud, servers, member, action, version, code):
    server = servers.active(member)
    many = {str(n): "x" for n in range(cloud.services.conf.quota.metadata_items + 1)}
    answer = member.at(version).call("POST", f"/servers/{server}/action", {action: {**BODIES[action], "metadata": many}})
    assert answer.status_code == code


@pytest.mark.parametrize("body", [
    {"createImage": {}}, {"createImage": {"name": ""}}, {"createImage": {"name": "x" * 256}},
    {"createImage": {"name": "a", "metadata": {"k": 1}}}, {"createImage": {"name": "a", "more": 1}},
    {"createBackup": {"name": "a", "backup_type": "daily"}}, {"createBackup": {"name": "a", "rotation": 1}},
    {"createBackup": {"name": "a", "backup_type": "daily", "rotation": -1}}])
def test_bodies_that_are_refused(servers, member, body):
    server = servers.active(member)
    member.post(f"/servers/{server}/action", body, 400)


@pytest.mark.parametrize(("action", "code"), [("createBackup", 400)])
def test_a_server_that_boots_from_a_volume(servers, member, action, code):
    server = servers.active(member)
    servers.set(server, block_devices=[{"id": "1", "source_type": "volume", "destination_type": "volume", "boot_index": 0,
                                        "volume_id": "v", "device_name": "/dev/vda"}])
    member.post(f"/servers/{server}/action", {action: BODIES[action]}, code)
