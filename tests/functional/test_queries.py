"""What is asked of hosts and drivers beside the life of a server: over REST, through all services."""
from __future__ import annotations

import time

import pytest


@pytest.fixture
def server(demo):
    made = demo.boot("asked", demo.flavor("m1.nano"))
    return demo.wait(made["id"], "ACTIVE")["id"]


def test_diagnostics_and_topology(admin, demo, server):
    found = admin.ok("GET", f"/servers/{server}/diagnostics")
    assert (found["state"], found["num_cpus"]) == ("running", 1)
    assert admin.ok("GET", f"/servers/{server}/topology") == {"nodes": [], "pagesize_kb": None}
    demo.action(server, "os-stop")
    demo.wait(server, "SHUTOFF")
    answer = admin.request("GET", f"/servers/{server}/diagnostics")
    assert (answer.status_code, "power state shutdown" in answer.text) == (409, True)


def test_password_and_crash_dump(demo, server):
    demo.action(server, "changePassword", {"adminPass": "s3cret"})
    demo.wait(server, "ACTIVE")
    demo.action(server, "trigger_crash_dump")
    deadline = time.monotonic() + 60
    while True:
        actions = demo.ok("GET", f"/servers/{server}/os-instance-actions")["instanceActions"]
        details = [demo.ok("GET", f"/servers/{server}/os-instance-actions/{a['request_id']}")["instanceAction"]
                   for a in actions]
        results = {d["action"]: [e["result"] for e in d["events"]] for d in details}
        if results.get("trigger_crash_dump") and results.get("changePassword"):
            break
        assert time.monotonic() < deadline, results
        time.sleep(0.1)
    assert results["changePassword"] == results["trigger_crash_dump"] == ["Success"]
    assert demo.ok("GET", f"/servers/{server}")["server"]["status"] == "ACTIVE"


def test_usage(admin, demo, server):
    project = demo.ok("GET", f"/servers/{server}")["server"]["tenant_id"]
    usage = demo.ok("GET", f"/os-simple-tenant-usage/{project}?start=2020-01-01T00:00:00")["tenant_usage"]
    assert server in [one["instance_id"] for one in usage["server_usages"]]
    everybody = admin.ok("GET", "/os-simple-tenant-usage?start=2020-01-01T00:00:00")["tenant_usages"]
    assert project in [one["tenant_id"] for one in everybody]


def test_a_server_without_ports_has_no_security_groups(demo, server):
    assert demo.ok("GET", f"/servers/{server}/os-security-groups")["security_groups"] == []
    refused = demo.request("POST", f"/servers/{server}/action", json={"addSecurityGroup": {"name": "default"}})
    assert refused.status_code == 404
    assert "security_groups" not in demo.ok("GET", f"/servers/{server}")["server"]


def test_what_the_cloud_keeps_is_closed_to_other_users(standalone):
    state = standalone.directory / "state"
    assert {path.name: path.stat().st_mode & 0o007 for path in (state / "images", state / "identity", *state.glob("nova*"))
            if path.stat().st_mode & 0o007 and path.suffix != ".sync-lock"} == {}
