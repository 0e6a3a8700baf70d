"""The neighbours that the other integration tests stand on do what tests/support/neighbours.py says."""
from __future__ import annotations

import http.server
import json
import threading
import uuid

import pytest

from tests.support.neighbours import again
from tests.support.process import wait_for

PORTS = "/v2.0/ports"


@pytest.fixture
def port(neighbours):
    """Makes ports in network "private" bound to a host, as the service user."""
    made = []

    def make(host: str, server: str) -> dict:
        project = neighbours.project_id("demo")
        answer = neighbours.call("POST", "neutron", PORTS, "nova_lite", json={"port": {
            "network_id": neighbours.network_id(), "project_id": project, "device_id": server, "device_owner": "compute:nova",
            "binding:host_id": host}})["port"]
        made.append(answer["id"])
        return answer
    yield make
    for ident in made:
        neighbours.call("DELETE", "neutron", f"{PORTS}/{ident}", "admin")


def test_users_and_roles(neighbours):
    session = neighbours.session("nova_lite")
    assert set(session.auth.get_access(session).role_names) >= {"admin", "service"}
    assert set(neighbours.session("demo").auth.get_access(neighbours.session("demo")).role_names) == {"member", "reader"}
    assert neighbours.project_id("demo") != neighbours.project_id("alt_demo")


@pytest.mark.parametrize(("host", "vif_type", "status"), [
    ("node", "ovs", "ACTIVE"), ("silent-node", "ovs", "DOWN"), ("refuse-node", "binding_failed", "DOWN")])
def test_the_host_decides_how_a_port_is_bound(neighbours, port, host, vif_type, status):
    made = port(host, str(uuid.uuid4()))
    shown = neighbours.call("GET", "neutron", f"{PORTS}/{made['id']}", "admin")["port"]
    assert (shown["binding:vif_type"], shown["status"]) == (vif_type, status)


def test_neutron_tells_compute_that_a_port_is_plugged(neighbours, port):
    events = []

    class Compute(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            events.extend(body["events"])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"events": [dict(e, code=200) for e in body["events"]]}).encode())

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"version": {"id": "v2.1", "status": "CURRENT", "version": "2.90", "min_version": "2.1", '
                             b'"links": []}}')

        def log_message(self, *_args):
            pass

    with neighbours.catalog_ports() as ports:
        server = http.server.ThreadingHTTPServer(("127.0.0.1", ports["api__port"]), Compute)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            uuids = str(uuid.uuid4())
            made = port("node", uuids)
            wait_for("the event", lambda: {"name": "network-vif-plugged", "server_uuid": uuids, "tag": made["id"],
                                           "status": "completed"} in events, 30)
        finally:
            server.shutdown()
            server.server_close()


def test_images_keep_their_bytes(neighbours):
    made = neighbours.call("POST", "glance", "/v2/images", json={
        "name": "bytes", "disk_format": "raw", "container_format": "bare"})
    try:
        neighbours.call("PUT", "glance", f"/v2/images/{made['id']}/file", data=b"some bytes" * 1000,
                        headers={"Content-Type": "application/octet-stream"})
        assert neighbours.call("GET", "glance", f"/v2/images/{made['id']}/file").content == b"some bytes" * 1000
        assert neighbours.call("GET", "glance", f"/v2/images/{made['id']}")["os_hash_algo"] == "sha512"
        neighbours.call("GET", "glance", f"/v2/images/{made['id']}", "alt_demo", status=404)
    finally:
        neighbours.call("DELETE", "glance", f"/v2/images/{made['id']}")
    assert neighbours.image_id()


def test_images_can_be_sent_in_chunks(neighbours):
    made = neighbours.call("POST", "glance", "/v2/images", json={
        "name": "chunks", "disk_format": "raw", "container_format": "bare"})
    try:
        neighbours.call("PUT", "glance", f"/v2/images/{made['id']}/file", data=iter([b"a" * 70000] * 10),
                        headers={"Content-Type": "application/octet-stream"})
        assert neighbours.call("GET", "glance", f"/v2/images/{made['id']}")["size"] == 700000
    finally:
        neighbours.call("DELETE", "glance", f"/v2/images/{made['id']}")


def test_volumes_attach_with_a_secret(neighbours):
    new = {"OpenStack-API-Version": "volume 3.60"}
    volume = neighbours.call("POST", "cinder", "/volumes", json={"volume": {"size": 1}})["volume"]["id"]

    def status() -> str:
        return neighbours.call("GET", "cinder", f"/volumes/{volume}")["volume"]["status"]
    wait_for("the volume", lambda: status() == "available", 60, 0.5)
    body = {"attachment": {"volume_uuid": volume, "instance_uuid": str(uuid.uuid4()),
                           "connector": {"host": "node", "initiator": "iqn.2026-11.test:node", "ip": "127.0.0.1"}}}
    attachment = neighbours.call("POST", "cinder", "/attachments", json=body, headers=new)["attachment"]
    assert attachment["connection_info"]["auth_password"].startswith("chap-secret-")
    neighbours.call("POST", "cinder", f"/attachments/{attachment['id']}/action", json={"os-complete": {}}, headers=new)
    assert status() == "in-use"
    # without a service's token Cinder would ask compute whether there is such a server
    service = neighbours.token("nova_lite")
    neighbours.call("DELETE", "cinder", f"/attachments/{attachment['id']}", headers={**new, "X-Service-Token": service})
    wait_for("the detachment", lambda: status() == "available", 30, 0.5)
    neighbours.call("DELETE", "cinder", f"/volumes/{volume}")


def test_a_database_and_a_virtual_host_of_ones_own(neighbours):
    assert neighbours.new_database() != neighbours.new_database()
    assert neighbours.new_broker() != neighbours.new_broker()


def test_stack_sh_runs_again_on_a_stack_with_other_networks_of_the_same_names(neighbours):
    def ids(project: str) -> list[list[str]]:
        answers = ((what, neighbours.call("GET", "neutron", f"/v2.0/{what}?project_id={project}", "admin"))
                   for what in ("networks", "subnets", "routers"))
        return [sorted(one["id"] for one in answer[what]) for what, answer in answers]
    other = neighbours.project_id("alt_demo")       # not demo's: by that name its network is found by other tests
    demo = neighbours.call("GET", "keystone", "/projects?name=demo", "admin")["projects"][0]["id"]
    made = []
    try:
        while not made or min(made) > ids(demo)[0][0]:      # the other project's is to come first in Neutron's list
            network = neighbours.call("POST", "neutron", "/v2.0/networks", "alt_demo", json={"network": {"name": "private"}})
            made.append(network["network"]["id"])
        before = ids(other), ids(demo)
        again(neighbours.directory)
        assert (ids(other), ids(demo)) == before
    finally:
        for network_id in made:
            neighbours.call("DELETE", "neutron", f"/v2.0/networks/{network_id}", "alt_demo")
