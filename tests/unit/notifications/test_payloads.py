"""The two formats of a notification: the keys are those that consumers of Nova's know."""
from __future__ import annotations

import datetime
import json

import pytest

from nova_lite.notifications import unversioned, versioned
from nova_lite.notifications.events import END, ERROR, START, Event, Fault
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP

NOW = datetime.datetime(2026, 11, 21, 8, 30)
BORN = datetime.datetime(2026, 11, 20, 10, 0, 5)
_INSTANCE = """architecture availability_zone block_devices created_at deleted_at display_name display_description host
    host_name ip_addresses kernel_id key_name launched_at image_uuid metadata locked node os_type progress ramdisk_id
    reservation_id state task_state power_state tenant_id terminated_at auto_disk_config flavor updated_at user_id uuid
    request_id action_initiator_user action_initiator_project locked_reason"""
_BILLING = """tenant_id user_id instance_id display_name reservation_id hostname instance_type instance_type_id
    instance_flavor_id architecture memory_mb disk_gb vcpus root_gb ephemeral_gb host node availability_zone cell_name
    created_at terminated_at deleted_at launched_at image_ref_url os_type kernel_id ramdisk_id state state_description progress
    access_ip_v4 access_ip_v6 image_meta metadata fixed_ips"""
INSTANCE_KEYS, BILLING_KEYS = set(_INSTANCE.split()), set(_BILLING.split())


def _server(**values) -> Instance:
    vif = VIF("port-1", "net", "private", "fa:16:3e:00:00:01", "ovs", [FixedIP("10.0.0.5", 4, "10.0.0.0/24",
                                                                              floating_ips=["192.0.2.7"])])
    image = ImageMeta("image-1", "debian", min_disk=1, properties={
        "os_distro": "debian", "hw_architecture": "x86_64", "x": [1]})
    return Instance(**{
        "uuid": "server-1", "project_id": "p", "user_id": "u", "display_name": "new", "hostname": "web", "vm_state": "active",
        "power_state": 1, "host": "h1", "node": "n1", "flavor": Flavor("f1", "m1.tiny", 512, 2, 10, 5, id=7), "image": image,
        "image_ref": "image-1", "network_info": [vif], "created_at": BORN, "launched_at": BORN, "tags": ["blue"],
        "keypair": {"name": "k", "type": "ssh", "public_key": "no key"}, "key_name": "k", "metadata": {"a": "b"},
        "user_data": "c2VjcmV0", "system_metadata": {"password_0": "secret"},
        "block_devices": [BlockDevice("d", "volume", volume_id="v1", device_name="/dev/vdb", tag="data"),
                          BlockDevice("e", "blank", "local")], **values})


def _event(name: str, phase: str | None = None, **more) -> Event:
    context = {"request_id": "req-1", "user_id": "x", "project_id": "y"}
    return Event(name, phase, more.pop("instance", None) or _server(), context, "h1", **more)


def test_an_envelope_names_type_and_version():
    for event, name, version, more in (
            (_event("power_off", START), "InstanceActionPayload", "1.8", {"fault"}),
            (_event("create", END), "InstanceCreatePayload", "1.12",
             {"fault", "keypairs", "tags", "trusted_image_certificates"}),
            (_event("update", before=_server(vm_state="building", display_name="old")), "InstanceUpdatePayload", "2.0",
             {"audit_period", "old_display_name", "state_update", "tags"})):
        payload = versioned.payload(event, NOW)
        assert {k: v for k, v in payload.items() if k != "nova_object.data"} == {
            "nova_object.name": name, "nova_object.namespace": "nova", "nova_object.version": version}
        assert payload["nova_object.data"].keys() == INSTANCE_KEYS | more
        assert "secret" not in json.dumps(payload)


def test_what_a_versioned_payload_says():
    data = versioned.payload(_event("create", END), NOW)["nova_object.data"]
    assert (data["uuid"], data["tenant_id"], data["user_id"], data["state"], data["power_state"]) == (
        "server-1", "p", "u", "active", "running")
    assert (data["created_at"], data["deleted_at"]) == ("2026-11-20T10:00:05Z", None)
    assert (data["request_id"], data["action_initiator_user"], data["action_initiator_project"]) == ("req-1", "x", "y")
    assert (data["architecture"], data["image_uuid"], data["host_name"], data["tags"]) == ("x86_64", "image-1", "web", ["blue"])
    assert data["flavor"]["nova_object.data"] == {
        "flavorid": "f1", "name": "m1.tiny", "memory_mb": 512, "vcpus": 2, "root_gb": 10, "ephemeral_gb": 5, "swap": 0,
        "rxtx_factor": 1.0, "vcpu_weight": 0, "disabled": False, "is_public": True, "extra_specs": {}, "projects": None,
        "description": None}
    assert [ip["nova_object.data"] for ip in data["ip_addresses"]] == [
        {"label": "private", "mac": "fa:16:3e:00:00:01", "meta": {}, "port_uuid": "port-1", "version": 4,
         "address": "10.0.0.5", "device_name": "tapport-1"}]
    assert [d["nova_object.data"] for d in data["block_devices"]] == [
        {"device_name": "/dev/vdb", "boot_index": None, "delete_on_termination": False, "volume_id": "v1", "tag": "data"}]
    assert data["keypairs"][0]["nova_object.data"]["name"] == "k"


def test_what_was_never_changed_has_no_time_of_it():
    made = _server().created_at
    for changed, told in ((made, None), (NOW, "2026-11-21T08:30:00Z")):
        data = versioned.payload(_event("create", START, instance=_server(updated_at=changed)), NOW)["nova_object.data"]
        assert data["updated_at"] == told


def test_an_update_tells_both_states_and_the_month():
    event = _event("update", before=_server(vm_state="building", task_state="spawning", display_name="old"))
    data = versioned.payload(event, NOW)["nova_object.data"]
    assert data["state_update"]["nova_object.data"] == {
        "old_state": "building", "state": "active", "old_task_state": "spawning", "new_task_state": None}
    assert data["old_display_name"] == "old"
    assert data["audit_period"]["nova_object.data"] == {
        "audit_period_beginning": "2026-11-01T00:00:00Z", "audit_period_ending": "2026-11-21T08:30:00Z"}
    flat = unversioned.payload(event, NOW)
    assert flat.keys() - BILLING_KEYS == {"old_state", "old_task_state", "new_task_state", "audit_period_beginning",
                                          "audit_period_ending", "bandwidth", "old_display_name"}
    assert (flat["old_state"], flat["state"], flat["old_task_state"]) == ("building", "active", "spawning")


def test_what_billing_reads():
    flat = unversioned.payload(_event("create", END), NOW)
    assert flat.keys() == BILLING_KEYS | {"message"}
    expected = {"tenant_id": "p", "user_id": "u", "instance_id": "server-1", "display_name": "new", "instance_type": "m1.tiny",
                "instance_type_id": 7, "instance_flavor_id": "f1", "vcpus": 2, "memory_mb": 512, "disk_gb": 15, "root_gb": 10,
                "ephemeral_gb": 5, "state": "active", "state_description": "", "created_at": "2026-11-20 10:00:05+00:00",
                "launched_at": "2026-11-20T10:00:05.000000", "deleted_at": "", "message": "Success"}
    assert {k: flat[k] for k in expected} == expected
    assert flat["image_meta"] == {"os_distro": "debian", "hw_architecture": "x86_64", "min_disk": "1", "min_ram": "0",
                                  "disk_format": "qcow2", "container_format": "bare", "base_image_ref": "image-1"}
    assert flat["fixed_ips"] == [{"address": "10.0.0.5", "version": 4, "type": "fixed", "label": "private",
                                  "vif_mac": "fa:16:3e:00:00:01", "floating_ips": ["192.0.2.7"], "meta": {}}]
    assert "secret" not in json.dumps(flat)
    assert unversioned.payload(_event("create", START), NOW)["image_name"] == "debian"
    assert unversioned.payload(_event("delete", START, instance=_server(task_state="deleting")), NOW)[
        "state_description"] == "deleting"


def test_errors_say_why():
    event = _event("create", ERROR, fault=Fault("NoValidHost", "No host", "a.b", "f", "trace"))
    assert versioned.payload(event, NOW)["nova_object.data"]["fault"]["nova_object.data"] == {
        "exception": "NoValidHost", "exception_message": "No host", "module_name": "a.b", "function_name": "f",
        "traceback": "trace"}
    flat = unversioned.payload(event, NOW)
    assert (flat["exception"], flat["message"], flat["code"]) == ("NoValidHost", "No host", 500)


@pytest.mark.parametrize("name", ["create", "delete", "update"])
def test_a_server_that_has_nothing_yet(name):
    bare = Instance(uuid="u", project_id="p", user_id="u", display_name="d", flavor=Flavor("1", "f", 1, 1, 1))
    event = Event(name, None, bare, {}, None)
    assert json.dumps(versioned.payload(event, NOW))
    assert json.dumps(unversioned.payload(event, NOW))


def test_a_service():
    record = {"host": "h1", "binary": "nova-compute", "disabled": 1, "disabled_reason": "x", "forced_down": 0, "uuid": "s",
              "last_seen_at": NOW}
    payload = versioned.service_payload(record)
    assert payload["nova_object.data"] == {
        "host": "h1", "disabled": True, "last_seen_up": "2026-11-21T08:30:00Z", "binary": "nova-compute", "topic": "compute",
        "disabled_reason": "x", "report_count": 0, "forced_down": False, "version": 0, "availability_zone": None, "uuid": "s"}


def test_volumes():
    event = _event("volume_attach", END, volume_id="v1")
    payload = versioned.payload(event, NOW)
    assert (payload["nova_object.name"], payload["nova_object.version"]) == ("InstanceActionVolumePayload", "1.6")
    assert payload["nova_object.data"].keys() == INSTANCE_KEYS | {"fault", "volume_id"}
    assert payload["nova_object.data"]["volume_id"] == unversioned.payload(event, NOW)["volume_id"] == "v1"
    assert unversioned.event_type(event) == "compute.instance.volume.attach"
    assert unversioned.event_type(_event("volume_detach", START, volume_id="v1")) is None


def test_an_exchange_of_volumes_and_a_snapshot():
    swap = _event("volume_swap", END, volume_id="v1", new_volume_id="v2")
    payload = versioned.payload(swap, NOW)
    assert (payload["nova_object.name"], payload["nova_object.version"]) == ("InstanceActionVolumeSwapPayload", "1.8")
    assert payload["nova_object.data"].keys() == INSTANCE_KEYS | {"fault", "old_volume_id", "new_volume_id"}
    assert (payload["nova_object.data"]["old_volume_id"], payload["nova_object.data"]["new_volume_id"]) == ("v1", "v2")
    snapshot = _event("snapshot", START, image_id="i1")
    payload = versioned.payload(snapshot, NOW)
    assert (payload["nova_object.name"], payload["nova_object.version"]) == ("InstanceActionSnapshotPayload", "1.9")
    assert payload["nova_object.data"]["snapshot_image_id"] == "i1"
    assert unversioned.event_type(snapshot) == "compute.instance.snapshot.start"


@pytest.mark.parametrize(("event", "kind"), [
    (_event("lock"), None), (_event("unlock"), None), (_event("volume_swap", END), None),
    (_event("evacuate"), "compute.instance.evacuate"),
    (_event("live_migration_pre", START), "compute.instance.live_migration.pre.start"),
    (_event("live_migration_post", END), "compute.instance.live_migration._post.end"),
    (_event("live_migration_post_dest", END), "compute.instance.live_migration.post.dest.end"),
    (_event("live_migration_rollback", START), "compute.instance.live_migration._rollback.start")])
def test_what_the_older_format_calls_it(event, kind):
    assert unversioned.event_type(event) == kind
    assert versioned.payload(event, NOW)["nova_object.name"].startswith("InstanceAction")
