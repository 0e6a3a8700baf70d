"""Flavors and images of which no guest can be made are told before anything is written down; see tests/unit/objects too."""
from __future__ import annotations

import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import Cloud
from tests.unit.api.compute.server_support import Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)


@pytest.fixture
def servers(cloud: Cloud) -> Servers:
    return Servers(cloud)


def _image(cloud, properties):
    made = cloud.services.image.create(ADMIN, {"name": "odd", "visibility": "public", "properties": properties})
    return cloud.services.image.upload(ADMIN, made.id, [b"y"]).id


def test_no_server_is_made(cloud, servers, member):
    cloud.add_flavor("pci", extra_specs={"pci_passthrough:alias": "gpu:1"})
    assert member.fault("POST", "/servers", 400, servers.body(flavorRef="pci")) == "PCI alias gpu is not defined"
    cloud.add_flavor("numa", vcpus=1, extra_specs={"hw:numa_nodes": "2"})
    assert "2 NUMA nodes" in member.fault("POST", "/servers", 400, servers.body(flavorRef="numa"))
    odd = _image(cloud, {"hw_vif_model": "nonsense"})
    assert "hw_vif_model=nonsense" in member.fault("POST", "/servers", 400, servers.body(imageRef=odd))
    cloud.add_flavor("many", extra_specs={"pci_passthrough:alias": "gpu"})
    assert "is not NAME:COUNT" in member.fault("POST", "/servers", 400, servers.body(flavorRef="many"))
    assert member.get("/servers")["servers"] == []


def test_no_server_becomes_one(cloud, servers, member):
    server, path = servers.active(member), "/servers/{}/action"
    cloud.add_flavor("memory", extra_specs={"hw:mem_encryption": "true"})
    body = {"resize": {"flavorRef": "memory"}}
    assert "encrypted memory" in member.fault("POST", path.format(server), 400, body)
    body = {"rebuild": {"imageRef": _image(cloud, {"hw_disk_bus": "nonsense"})}}
    assert "hw_disk_bus=nonsense" in member.fault("POST", path.format(server), 400, body)
    body = {"rebuild": {"imageRef": _image(cloud, {"hw_numa_nodes": "1"})}}
    assert "NUMA topology cannot be changed" in member.fault("POST", path.format(server), 400, body)
    assert servers.row(server)["task_state"] is None


@pytest.mark.parametrize("body", [{"shelve": None}, {"rescue": None}, {"rebuild": None},
                                  {"evacuate": {"onSharedStorage": False}},
                                  {"os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False}}])
def test_a_server_with_a_tpm_is_not_taken_from_it(cloud, servers, admin, body):
    body = {"rebuild": {"imageRef": servers.image}} if "rebuild" in body else body
    cloud.add_flavor("tpm", extra_specs={"hw:tpm_version": "2.0"})
    server = servers.active(admin, flavorRef="tpm")
    assert "not supported for vTPM-enabled instance" in admin.fault("POST", f"/servers/{server}/action", 409, body)
    assert servers.row(server)["task_state"] is None


@pytest.mark.parametrize("body", [{"shelve": None}, {"createImage": {"name": "copy"}},
                                  {"createBackup": {"name": "copy", "backup_type": "daily", "rotation": 1}}])
def test_no_image_is_made_of_an_encrypted_disk(cloud, servers, admin, body):
    cloud.add_flavor("locked", extra_specs={"hw:ephemeral_encryption": "true"})
    server = servers.active(admin, flavorRef="locked")
    before = [image.id for image in cloud.services.image.list(ADMIN)]
    assert "encrypted disks" in admin.fault("POST", f"/servers/{server}/action", 409, body)
    assert servers.row(server)["task_state"] is None
    assert [image.id for image in cloud.services.image.list(ADMIN)] == before


def test_whether_disks_are_encrypted_does_not_change(cloud, servers, admin):
    path = "/servers/{}/action"
    for name, specs in (("locked", {"hw:ephemeral_encryption": "true"}), ("open", {})):
        cloud.add_flavor(name, extra_specs=specs)
    for mine, other in (("locked", "open"), ("open", "locked")):
        server = servers.active(admin, flavorRef=mine)
        body = {"resize": {"flavorRef": other}}
        assert "cannot be changed by a resize" in admin.fault("POST", path.format(server), 400, body)
        assert servers.row(server)["task_state"] is None
    body = {"rebuild": {"imageRef": _image(cloud, {"hw_ephemeral_encryption": "true"})}}
    assert "cannot be changed as part of a rebuild" in admin.fault("POST", path.format(server), 400, body)


def test_secure_boot_does_not_change(cloud, servers, admin):
    """The variables of the guest's UEFI go along, and one that was made without keys never gets any."""
    flavors = {name: {"os:secure_boot": name} for name in ("required", "optional", "disabled")} | {"says nothing": {}}
    for name, specs in flavors.items():
        cloud.add_flavor(name, extra_specs=specs)
    uefi, path = _image(cloud, {"hw_firmware_type": "uefi"}), "/servers/{}/action"
    for mine, other in (("says nothing", "required"), ("optional", "required"), ("required", "disabled")):
        server = servers.active(admin, flavorRef=mine, imageRef=uefi)
        body = {"resize": {"flavorRef": other}}
        assert f"with flavor {other}" in admin.fault("POST", path.format(server), 400, body)
        assert servers.row(server)["task_state"] is None
    admin.ask("POST", path.format(servers.active(admin, flavorRef="says nothing", imageRef=uefi)),
              {"resize": {"flavorRef": "disabled"}}, 202)


def test_a_guest_that_is_bound_to_its_host_does_not_leave_it_running(cloud, servers, admin):
    cloud.add_flavor("pinned", extra_specs={"hw:cpu_policy": "dedicated"})
    server = servers.active(admin, flavorRef="pinned")
    body = {"os-migrateLive": {"host": None, "block_migration": False, "disk_over_commit": False}}
    assert "migrated cold" in admin.fault("POST", f"/servers/{server}/action", 400, body)
