"""rebuild: what is checked, what is written down and what the answer shows."""
from __future__ import annotations

import json

import pytest
import sqlalchemy as sa

from nova_lite.context import RequestContext
from nova_lite.db import models, quotas
from nova_lite.objects.block_device import BlockDevice
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import VERSIONS, Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def add_image(cloud, size=16, **values):
    made = cloud.services.image.create(ADMIN, {"name": "other", "visibility": "public", **values})
    return cloud.services.image.upload(ADMIN, made.id, [b"y" * size]).id


def rebuild(client, server, image, status=202, version="2.1", **values):
    return client.at(version).ask("POST", f"/servers/{server}/action", {"rebuild": {"imageRef": image, **values}}, status)


def test_what_is_asked_for_is_the_servers_at_once(cloud, servers, member):
    server = servers.active(member)
    image = add_image(cloud, properties={"os_distro": "fedora"})
    answer = rebuild(member, server, image, name="new", metadata={"a": "b"}, accessIPv4="192.0.2.9", adminPass="secret",
                     **{"OS-DCF:diskConfig": "AUTO"})["server"]
    assert (answer["name"], answer["metadata"], answer["accessIPv4"]) == ("new", {"a": "b"}, "192.0.2.9")
    assert (answer["status"], answer["adminPass"], answer["image"]["id"]) == ("REBUILD", "secret", image)
    assert answer["OS-DCF:diskConfig"] == "AUTO"
    row = servers.row(server)
    assert (row["task_state"], row["vm_state"], row["image_ref"]) == ("rebuilding", "active", image)
    assert row["image"]["properties"] == {"os_distro": "fedora"}
    begun = servers.actions(server)[-1]
    assert (begun["action"], begun["stage"], begun["host"], begun["state"]) == ("rebuild", "compute", "host1", "pending")
    arguments = begun["arguments"]
    assert (arguments["verb"], arguments["preserve_ephemeral"]) == ("rebuild", False)
    assert (arguments["before"]["image_ref"], arguments["before"]["image"]["id"]) == (servers.image, servers.image)


def test_the_password_is_written_down_only_for_a_config_drive(servers, member):
    server = servers.active(member)
    servers.set(server, config_drive=True)
    answer = rebuild(member, server, servers.image)["server"]
    assert servers.actions(server)[-1]["arguments"]["admin_password"] == answer["adminPass"]


@pytest.mark.parametrize("version", VERSIONS)
def test_each_version(servers, member, admin, version):
    minor = int(version[2:])
    asked = {"accessIPv6": "2001:db8::1"}
    if minor >= 19:
        asked["description"] = None
    if minor >= 54:
        asked["key_name"] = None
    asked |= {"user_data": "aGk="} if minor >= 57 else {"personality": [{"path": "/a", "contents": "aGk="}]}
    if minor >= 90:
        asked["hostname"] = "other.example.org" if minor >= 94 else "other"
    for client in (member, admin):
        server = servers.active(client)
        rebuild(client, server, servers.image, version=version, **asked)
        row = servers.row(server)
        assert row["user_data"] == asked.get("user_data")
        assert row["personality"] == asked.get("personality")
        if "hostname" in asked:
            assert row["hostname"] == asked["hostname"]


@pytest.mark.parametrize(("version", "name"), [("2.18", "description"), ("2.53", "key_name"), ("2.56", "user_data"),
                                               ("2.57", "personality"), ("2.62", "trusted_image_certificates"),
                                               ("2.89", "hostname")])
def test_what_a_version_does_not_know_is_refused(servers, member, version, name):
    values = {"personality": [{"path": "/a", "contents": "aGk="}], "trusted_image_certificates": ["a"], "user_data": "aGk="}
    rebuild(member, servers.active(member), servers.image, 400, version, **{name: values.get(name, "text")})


def test_the_key_is_that_of_who_asks(cloud, servers, member):
    server, other = servers.active(member), cloud.client("other")
    for user, key in (("fake", "ssh-rsa A"), ("other", "ssh-rsa B")):
        cloud.insert(models.key_pairs, name="mine", user_id=user, type="ssh", public_key=key, fingerprint="f")
    cloud.insert(models.key_pairs, name="none", user_id="fake", type="ssh", public_key="ssh-rsa C", fingerprint="f")
    answer = rebuild(other, server, servers.image, version="2.54", key_name="mine")["server"]
    assert answer["key_name"] == "mine"
    assert servers.row(server)["keypair"]["public_key"] == "ssh-rsa B"
    servers.set(server, task_state=None)
    assert "Invalid key_name" in json.dumps(rebuild(other, server, servers.image, 400, "2.54", key_name="none"))


@pytest.mark.parametrize(("vm_state", "task_state", "code"), [
    ("active", None, 202), ("stopped", None, 202), ("error", None, 202), ("paused", None, 409), ("suspended", None, 409),
    ("rescued", None, 409), ("shelved", None, 409), ("active", "rebooting", 409), ("active", "deleting", 409)])
def test_states(servers, member, vm_state, task_state, code):
    server = servers.active(member)
    servers.set(server, vm_state=vm_state, task_state=task_state)
    rebuild(member, server, servers.image, code)


def test_a_locked_server_is_its_admins(servers, member, admin):
    server = servers.active(member)
    servers.set(server, locked=True, locked_by="admin")
    rebuild(member, server, servers.image, 409)
    rebuild(admin, server, servers.image, 202)


def test_images_that_do_not_fit(cloud, servers, member):
    server = servers.active(member)
    for image in ("c905ac62-29d7-4a58-9a45-0fd2fe0b6c10", add_image(cloud, min_ram=100_000), add_image(cloud, min_disk=100),
                  cloud.services.image.create(ADMIN, {"name": "empty", "visibility": "public"}).id):
        rebuild(member, server, image, 400)
    assert servers.row(server)["task_state"] is None
    assert [a["action"] for a in servers.actions(server)] == ["create"]


def test_what_the_servers_flavor_has_of_old_is_no_hindrance(servers, member):
    """It had no effect then, and a new server would not get it."""
    server = servers.active(member)
    specs = {"trait:HW_CPU_X86_AVX2": "required", "quota:cpu_reservation": "10"}
    servers.set(server, flavor={**servers.row(server)["flavor"], "extra_specs": specs})
    rebuild(member, server, servers.image, 202)


def test_quota_of_metadata(cloud, servers, member):
    server = servers.active(member)
    cloud.db.write(quotas.set_limits, "project1", {"metadata_items": 1})
    rebuild(member, server, servers.image, 403, metadata={"a": "1", "b": "2"})
    rebuild(member, server, servers.image, 202, metadata={"a": "1"})


def test_an_address_is_shown_in_its_short_form(servers, member):
    server = servers.active(member)
    answer = rebuild(member, server, servers.image, accessIPv6="2001:DB8:0:0::0001")["server"]
    assert answer["accessIPv6"] == "2001:db8::1"


def test_a_reader_may_not(cloud, servers, member):
    server = servers.active(member)
    rebuild(cloud.client(roles=("reader",)), server, servers.image, 403)


def on_volume(cloud, servers, member, image):
    volume = cloud.services.volume.create(RequestContext(project_id="project1", user_id="fake"), 1)
    server = servers.active(member)
    root = BlockDevice("d", "volume", boot_index=0, volume_id=volume.id)
    servers.set(server, image_ref="", image={"id": image}, block_devices=[root.to_primitive()])
    return server


def test_a_server_on_a_volume_keeps_its_image_until_2_93(cloud, servers, member):
    other = add_image(cloud)
    server = on_volume(cloud, servers, member, servers.image)
    fault = rebuild(member, server, other, 400, "2.92")
    assert "different image for a volume-backed server" in fault["badRequest"]["message"]
    rebuild(member, server, servers.image, 202, "2.92")
    assert "reimage" not in servers.actions(server)[-1]["arguments"]


def test_from_2_93_its_volume_is_written_anew(cloud, servers, member):
    other = add_image(cloud)
    server = on_volume(cloud, servers, member, servers.image)
    answer = rebuild(member, server, other, 202, "2.93")
    assert answer["server"]["image"] == ""
    assert servers.actions(server)[-1]["arguments"]["reimage"] == other
    assert servers.row(server)["image"]["id"] == other
    too_big = add_image(cloud, min_disk=2)
    servers.set(server, task_state=None)
    rebuild(member, server, too_big, 400, "2.93")


def test_of_two_at_once_one_wins(servers, member, cloud):
    server = servers.active(member)
    rebuild(member, server, servers.image)
    rebuild(member, server, servers.image, 409)
    with cloud.db.read() as conn:
        count = conn.scalar(sa.select(sa.func.count()).select_from(models.instance_actions).where(
            models.instance_actions.c.action == "rebuild"))
    assert count == 1


def test_certificates_are_refused_as_nobody_checks_signatures(servers, member):
    """Not ignored: who gives them relies on that check. Taking the list away, or leaving it out, is no such wish."""
    server, wish = servers.active(member), {"trusted_image_certificates": ["c1"]}
    for answer in (rebuild(member, server, servers.image, 400, "2.63", **wish),
                   member.at("2.63").ask("POST", "/servers", servers.body(networks="none", **wish), 400)):
        assert "trusted_image_certificates: signatures of images are not checked" in answer["badRequest"]["message"]
    assert servers.row(server)["task_state"] is None
    rebuild(member, server, servers.image, version="2.63", trusted_image_certificates=None)
    assert servers.row(server)["trusted_certs"] is None
