"""A server's life over REST, through conductor, scheduler and compute."""
from __future__ import annotations

import pytest

ROUND = [("os-stop", None, "SHUTOFF", 4), ("os-start", None, "ACTIVE", 1), ("reboot", {"type": "SOFT"}, "ACTIVE", 1),
         ("reboot", {"type": "HARD"}, "ACTIVE", 1), ("pause", None, "PAUSED", 3), ("unpause", None, "ACTIVE", 1),
         ("suspend", None, "SUSPENDED", 4), ("resume", None, "ACTIVE", 1)]


def test_every_operation_ends_where_the_table_says(demo):
    server = demo.boot("walk", demo.flavor("m1.nano"))
    demo.wait(server["id"], "ACTIVE")
    for action, argument, status, power_state in ROUND:
        demo.action(server["id"], action, argument)
        shown = demo.wait(server["id"], status)
        assert shown["OS-EXT-STS:power_state"] == power_state, action
    actions = demo.ok("GET", f"/servers/{server['id']}/os-instance-actions")["instanceActions"]
    assert [a["action"] for a in reversed(actions)] == [
        "create", "stop", "start", "reboot", "reboot", "pause", "unpause", "suspend", "resume"]
    assert {a["message"] for a in actions} == {None}
    demo.delete(server["id"])
    demo.wait_gone(server["id"])


def test_a_server_goes_through_rescue_rebuild_and_the_shelf(admin, demo):
    server = demo.boot("states", demo.flavor("m1.nano"))["id"]
    shown = demo.wait(server, "ACTIVE")
    assert demo.action(server, "rescue", {"adminPass": "MySecretPass"}) == {"adminPass": "MySecretPass"}
    demo.wait(server, "RESCUE")
    demo.action(server, "unrescue")
    demo.wait(server, "ACTIVE")
    answer = demo.action(server, "rebuild", {"imageRef": shown["image"]["id"], "name": "rebuilt"})["server"]
    assert (answer["name"], answer["status"]) == ("rebuilt", "REBUILD")
    demo.wait(server, "ACTIVE")
    demo.action(server, "shelve")
    assert demo.wait(server, "SHELVED_OFFLOADED")["OS-EXT-AZ:availability_zone"] == ""
    names = [i["name"] for i in demo.ok("GET", "/images", version="2.1")["images"]]
    assert "rebuilt-shelved" in names
    demo.action(server, "unshelve")
    demo.wait(server, "ACTIVE")
    assert "rebuilt-shelved" not in [i["name"] for i in demo.ok("GET", "/images", version="2.1")["images"]]
    actions = demo.ok("GET", f"/servers/{server}/os-instance-actions")["instanceActions"]
    assert [a["action"] for a in reversed(actions)] == ["create", "rescue", "unrescue", "rebuild", "shelve", "unshelve"]
    events = [admin.ok("GET", f"/servers/{server}/os-instance-actions/{a['request_id']}")["instanceAction"]["events"]
              for a in reversed(actions)]
    assert [[e["event"] for e in reversed(some)] for some in events[1:]] == [
        ["compute_rescue_instance"], ["compute_unrescue_instance"], ["compute_rebuild_instance"],
        ["compute_shelve_instance"], ["schedule_instances", "compute_unshelve_instance"]]
    assert {e["result"] for some in events for e in some} == {"Success"}


def test_a_resize_stays_on_the_only_host(demo):
    server = demo.boot("grows", demo.flavor("m1.nano"))["id"]
    demo.wait(server, "ACTIVE")
    demo.action(server, "resize", {"flavorRef": demo.flavor("m1.tiny")})
    demo.wait(server, "VERIFY_RESIZE")
    demo.action(server, "confirmResize")
    assert demo.wait(server, "ACTIVE")["flavor"]["original_name"] == "m1.tiny"


def test_multi_create_makes_numbered_servers(demo):
    demo.ok("POST", "/servers", json={"server": {
        "name": "many", "flavorRef": demo.flavor("m1.nano"), "imageRef": demo.image(), "networks": "none",
        "min_count": 3, "max_count": 5}})
    servers = demo.servers()
    assert sorted(s["name"] for s in servers) == [f"many-{n}" for n in range(1, 6)]
    for server in servers:
        demo.wait(server["id"], "ACTIVE")


def test_a_flavor_that_fits_nowhere_ends_in_error_and_says_why(admin, demo):
    flavor = admin.ok("POST", "/flavors", json={"flavor": {
        "name": "huge", "ram": 64, "vcpus": 1, "disk": 10_000_000}})["flavor"]["id"]
    try:
        server = demo.boot("huge", flavor)
        fault = demo.wait(server["id"], "ERROR")["fault"]
        assert fault["code"] == 500
        assert "No valid host was found" in fault["message"]
        assert "DiskFilter left 0" in fault["message"]
        demo.delete(server["id"])
        demo.wait_gone(server["id"])
    finally:
        admin.ok("DELETE", f"/flavors/{flavor}")


def test_delete_right_after_create_wins(demo):
    for _ in range(5):
        server = demo.boot("short")
        demo.delete(server["id"])
        demo.wait_gone(server["id"])


def test_a_locked_server_refuses_its_owner(demo):
    server = demo.boot("locked")
    demo.wait(server["id"], "ACTIVE")
    demo.action(server["id"], "lock")
    answer = demo.request("POST", f"/servers/{server['id']}/action", json={"os-stop": None})
    assert (answer.status_code, "is locked" in answer.json()["conflictingRequest"]["message"]) == (409, True)
    demo.action(server["id"], "unlock")
    demo.action(server["id"], "os-stop")
    demo.wait(server["id"], "SHUTOFF")


@pytest.mark.parametrize("action", ["os-start", "unpause", "resume"])
def test_an_operation_in_the_wrong_state_is_a_conflict_that_names_it(demo, action):
    server = demo.boot("wrong")
    demo.wait(server["id"], "ACTIVE")
    answer = demo.request("POST", f"/servers/{server['id']}/action", json={action: None})
    assert answer.status_code == 409
    assert "while it is in vm_state active" in answer.json()["conflictingRequest"]["message"]


def test_one_tenant_never_sees_the_server_of_another(standalone, admin, demo):
    server = admin.boot("private")
    try:
        for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/ips"), ("GET", "/metadata"), ("GET", "/tags"),
                             ("GET", "/os-instance-actions")):
            assert demo.request(method, f"/servers/{server['id']}{path}").status_code == 404, (method, path)
        assert server["id"] not in [s["id"] for s in demo.servers()]
        assert demo.request("GET", "/servers/detail?all_tenants=1").status_code == 403
    finally:
        admin.delete(server["id"])
        admin.wait_gone(server["id"])


def test_console_output_of_a_running_guest(demo):
    server = demo.boot("console")
    demo.wait(server["id"], "ACTIVE")
    output = demo.action(server["id"], "os-getConsoleOutput", {"length": 5})["output"]
    assert output
    assert len(output.splitlines()) <= 5
