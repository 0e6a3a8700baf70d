"""Neighbours that are stopped, fail, hang or refuse while servers are built and deleted: check 4 and 5 of the issue.

The neighbours are real, and so are the five services, with the fake hypervisor; only the way between them is broken.
"""
from __future__ import annotations

import itertools
import re
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fault_proxy import LATE, LATENESS, LOSE, PASS, FaultProxy
from tests.support.faulty_cloud import SETTLED, TIMEOUT, FaultyCloud, storm
from tests.support.neighbours import Neighbours
from tests.support.process import wait_for

pytestmark = pytest.mark.timeout(900)       # a storm ends in a minute; on a busy machine it may take several

CAUSES = {"stop": r"it cannot be reached|the connection broke|its answer broke off|does not answer|so far not heard",
          "error": r"it answered 500", "hang": r"no answer within \d+ s|too many requests wait|it takes long"}
NAMES = {"glance": "Glance", "neutron": "Neutron", "keystone": "Keystone", "cinder": "Cinder"}
EACH_ONCE = [("glance", "hang"), ("neutron", "stop"), ("cinder", "error"), ("keystone", "hang")]
"""``make test`` has each neighbour and each failure at least once. ``make guest-test`` has all other pairs."""


@pytest.fixture(scope="module")
def cloud(neighbours: Neighbours, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCloud]:
    made = FaultyCloud(neighbours, tmp_path_factory.mktemp("faults"))
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(autouse=True)
def healed(cloud: FaultyCloud) -> Iterator[None]:
    cloud.proxies.heal()
    cloud.goes_on()         # what one test has broken is no fault of the next
    yield
    cloud.proxies.heal()
    if left := sorted(cloud.living() - cloud.spare()):      # by a test that failed
        cloud.delete(left)


def _fail(proxy: FaultProxy, fault: str) -> None:
    if fault == "stop":
        proxy.stop()
    else:
        proxy.mode = fault


def _disks(cloud: FaultyCloud, volume: str | None = None) -> list[dict[str, Any]]:
    """The image on a local disk, and a volume: a new one, or one that is there."""
    data = {"uuid": volume, "source_type": "volume"} if volume else {
        "source_type": "blank", "volume_size": 1, "volume_type": cloud.volume_type, "delete_on_termination": True}
    return [{"boot_index": 0, "uuid": cloud.image, "source_type": "image", "destination_type": "local",
             "delete_on_termination": True}, {"destination_type": "volume", "boot_index": -1, **data}]


def _blamed(ended: dict[str, dict[str, Any] | None], name: str, causes: str) -> list[str]:
    """The servers in ERROR; each says who is to blame, and why."""
    failed = {s: state["fault"]["message"] for s, state in ended.items() if state and state["status"] == "ERROR"}
    for message in failed.values():
        assert re.search(rf"{name} is unavailable: .*({causes})", message), message
    return list(failed)


def test_a_list_of_a_hundred_servers_asks_nobody(cloud: FaultyCloud) -> None:
    """The first test here, and the next the second: later the conductor looks for what servers may have left behind. Of the
    hundred the following tests live."""
    ready = cloud.ready()
    ready += cloud.active(100 - len(ready))
    cloud.proxies.forget()
    assert len(cloud.user.servers()) >= 100
    assert not sum((proxy.counts() for proxy in cloud.proxies.all.values()), start=type(cloud.proxies.glance.counts())())


def test_what_a_build_costs(cloud: FaultyCloud) -> None:
    """At most 4 calls to Neutron and 2 to Glance, 1 when the host has the image."""
    call = cloud.neighbours.call
    image = call("POST", "glance", "/v2/images", json={"name": "counted", "disk_format": "raw",
                                                       "container_format": "bare"})["id"]
    call("PUT", "glance", f"/v2/images/{image}/file", data=b"x" * 1000, headers={"Content-Type": "application/octet-stream"})
    host = cloud.admin.server(cloud.ready()[-1])["OS-EXT-SRV-ATTR:host"]      # the same host twice: it has the image then
    costs = []
    for _ in range(2):
        cloud.proxies.forget()
        answer = cloud.services.client(cloud.neighbours.token("admin")).boot(
            flavor=cloud.flavor, image=image, networks=[{"uuid": cloud.network}], availability_zone=f"nova:{host}")
        cloud.made.append(answer["id"])
        cloud.admin.wait(answer["id"], "ACTIVE")
        costs.append({name: proxy.counts() for name, proxy in cloud.proxies.all.items()})
        cloud.admin.delete(answer["id"])
        cloud.admin.wait_gone(answer["id"])
    for cost, glance in zip(costs, (2, 1), strict=True):
        assert sum(cost["neutron"].values()) <= 4, cost
        assert sum(cost["glance"].values()) <= glance, cost
        assert not cost["cinder"], cost
    call("DELETE", "glance", f"/v2/images/{image}")


@pytest.mark.parametrize(("neighbour", "fault"), EACH_ONCE + [
    pytest.param(*both, marks=pytest.mark.long) for both in itertools.product(NAMES, CAUSES) if both not in EACH_ONCE])
def test_a_neighbour_fails_during_twenty_builds_and_twenty_deletes(cloud: FaultyCloud, neighbour: str, fault: str) -> None:
    proxy, more = cloud.proxies.all[neighbour], {"block_device_mapping_v2": _disks(cloud)} if neighbour == "cinder" else {}
    with cloud.answering(TIMEOUT - 1):      # it waits for no neighbour
        answers, ended = storm(cloud, lambda: _fail(proxy, fault), cloud.proxies.heal, **more)
    refused = [a for a in answers if a.status_code not in (202, 204)]
    for answer in refused:      # the API needs the neighbour to check a request: it says so, and who failed
        assert answer.status_code == 503, answer.text
        assert re.search(rf"{NAMES[neighbour]} is unavailable: .*({CAUSES[fault]})", answer.text), answer.text
    failed = _blamed(ended, NAMES[neighbour], CAUSES[fault])
    if neighbour == "keystone":     # tokens are kept: nobody notices
        assert not failed
        assert not refused
    else:
        assert failed or refused
    cloud.goes_on(**more)
    # those in ERROR, those whose delete the API could not take, those whose request failed in the middle
    cloud.delete(sorted(cloud.living() - cloud.spare()))
    cloud.consistent()
    attachments = cloud.attachments()
    assert not more or {len(attachments.get(s, [])) for s in cloud.ready(more)} == {1}


def test_ports_that_neutron_makes_behind_our_back(cloud: FaultyCloud) -> None:
    """The answer to the creation of a port is lost; or it is made seconds later, when the build has failed."""
    made: dict[str, list[str]] = {}
    for mode in (LOSE, LATE):
        cloud.proxies.neutron.refuse("POST", "/v2.0/ports$", 0, None, mode=mode)
        servers = made[mode] = [cloud.boot().json()["server"]["id"] for _ in range(4)]
        failed = _blamed(cloud.settled(servers), "Neutron", "the connection broke before it answered")
        assert sorted(failed) == sorted(servers)
        cloud.proxies.heal()
    wait_for("the late ports", lambda: set(made[LATE]) <= set(cloud.ports()), 30)
    # the servers stay, in ERROR: nobody deletes them, and still no port is left
    wait_for("the late ports to be found", lambda: not set(cloud.ports()) & {*made[LOSE], *made[LATE]}, 180, 1)
    cloud.delete([*made[LOSE], *made[LATE]])
    cloud.consistent()


def test_the_answer_to_a_delete_of_a_port_is_lost(cloud: FaultyCloud) -> None:
    servers = cloud.active(3)
    cloud.proxies.neutron.refuse("DELETE", "/v2.0/ports/", 0, None, mode=LOSE, times=3)
    for server in servers:
        cloud.user.delete(server)
    assert set(cloud.settled(servers).values()) == {None}       # asked again: it was gone already
    cloud.consistent()


@pytest.mark.parametrize("mode", [LOSE, LATE])
@pytest.mark.parametrize("path", ["/volumes$", "/attachments$"])
def test_volumes_and_attachments_that_cinder_makes_behind_our_back(cloud: FaultyCloud, path: str, mode: str) -> None:
    cloud.proxies.cinder.refuse("POST", path, 0, None, mode=mode, times=2)
    before = cloud.living()
    answers = [cloud.boot(block_device_mapping_v2=_disks(cloud)) for _ in range(2)]
    for answer in answers:
        assert answer.status_code in (202, 503)
    made = cloud.living() - before
    for state in cloud.settled(sorted(made)).values():
        if state and state["status"] == "ERROR":        # else the second host has asked again, and got it
            assert re.search("Cinder is unavailable: the connection broke", state["fault"]["message"])
    cloud.proxies.heal()
    if mode == LATE:
        time.sleep(LATENESS)
    cloud.delete(sorted(made))
    cloud.consistent()


def test_a_volume_in_use_is_not_given_twice(cloud: FaultyCloud) -> None:
    call = cloud.neighbours.call
    volume = call("POST", "cinder", "/volumes", json={"volume": {"size": 1, "volume_type": cloud.volume_type}})["volume"]["id"]
    wait_for("the volume", lambda: call("GET", "cinder", f"/volumes/{volume}")["volume"]["status"] == "available", 60, 0.5)
    first = cloud.active(1, block_device_mapping_v2=_disks(cloud, volume))
    answer = cloud.boot(block_device_mapping_v2=_disks(cloud, volume))
    assert answer.status_code == 400
    assert f"volume '{volume}' status must be 'available'. Currently in 'in-use'" in answer.text
    # taken in between: by another server, after the API has looked
    cloud.delete(first)
    other = str(uuid.uuid4())
    cloud.proxies.cinder.refuse("POST", "/attachments$", 0, None, mode=PASS, times=1, before=lambda _path: call(
        "POST", "cinder", "/attachments", json={"attachment": {"volume_uuid": volume, "instance_uuid": other}},
        headers={"OpenStack-API-Version": "volume 3.44"}))
    answer = cloud.boot(block_device_mapping_v2=_disks(cloud, volume))
    assert answer.status_code == 400, answer.text
    assert volume in answer.text
    cloud.consistent()
    found = call("GET", "cinder", "/attachments/detail", headers={"OpenStack-API-Version": "volume 3.44"})["attachments"]
    for one in [a for a in found if a["volume_id"] == volume]:
        assert one["instance"] == other
        call("DELETE", "cinder", f"/attachments/{one['id']}", headers={"OpenStack-API-Version": "volume 3.44"})
    call("DELETE", "cinder", f"/volumes/{volume}")


def test_the_quota_of_ports_is_used_up(cloud: FaultyCloud) -> None:
    project = cloud.neighbours.project_id("demo")
    used = len(cloud.neighbours.call("GET", "neutron", "/v2.0/ports", "demo")["ports"])
    cloud.neighbours.call("PUT", "neutron", f"/v2.0/quotas/{project}", "admin", json={"quota": {"port": used + 2}})
    servers: list[str] = []
    ended: dict[str, dict[str, Any] | None] = {}
    try:
        for together in (1, 1, 3):      # Neutron counts a port twice for a moment: ports made together may be refused too soon
            some = [cloud.boot().json()["server"]["id"] for _ in range(together)]
            servers += some
            ended |= cloud.settled(some)
    finally:
        cloud.neighbours.call("DELETE", "neutron", f"/v2.0/quotas/{project}", "admin")
    failed = {s: state["fault"]["message"] for s, state in ended.items() if state and state["status"] == "ERROR"}
    assert set(failed) == set(servers[2:])
    for message in failed.values():
        assert "Neutron: Quota exceeded" in message, message
    cloud.delete(servers)
    cloud.consistent()


def test_a_network_has_no_more_addresses(cloud: FaultyCloud) -> None:
    call, name = cloud.neighbours.call, f"small-{uuid.uuid4().hex[:6]}"
    network = call("POST", "neutron", "/v2.0/networks", json={"network": {"name": name}})["network"]["id"]
    call("POST", "neutron", "/v2.0/subnets", json={"subnet": {
        "network_id": network, "ip_version": 4, "cidr": "10.99.0.0/29", "enable_dhcp": False,
        "allocation_pools": [{"start": "10.99.0.2", "end": "10.99.0.3"}]}})
    servers = [cloud.boot(networks=[{"uuid": network}]).json()["server"]["id"] for _ in range(4)]
    ended = cloud.settled(servers)
    failed = {s: state["fault"]["message"] for s, state in ended.items() if state and state["status"] == "ERROR"}
    assert len(failed) == 2
    for message in failed.values():
        assert message.startswith(f"No fixed IP addresses available for network: {network} (Neutron: "), message
    cloud.delete(servers)
    cloud.consistent()
    call("DELETE", "neutron", f"/v2.0/networks/{network}")


def test_the_image_is_deleted_in_between(cloud: FaultyCloud) -> None:
    call = cloud.neighbours.call
    image = call("POST", "glance", "/v2/images", json={"name": "short-lived", "disk_format": "raw",
                                                       "container_format": "bare"})["id"]
    call("PUT", "glance", f"/v2/images/{image}/file", data=b"x" * 1000, headers={"Content-Type": "application/octet-stream"})
    cloud.proxies.glance.refuse("GET", f"{image}/file", 0, None, mode=PASS, times=1,
                                before=lambda _path: call("DELETE", "glance", f"/v2/images/{image}"))
    answers = [cloud.boot(imageRef=image) for _ in range(3)]
    servers = [a.json()["server"]["id"] for a in answers if a.status_code == 202]
    assert servers
    for state in cloud.settled(servers).values():
        assert state is not None
        assert state["status"] == "ERROR"
        assert f"image {image} is not there any more" in state["fault"]["message"]
    answer = cloud.boot(imageRef=image)
    assert (answer.status_code, answer.json()["badRequest"]["message"]) == (400, f"Image {image} could not be found.")
    cloud.delete(servers)
    cloud.consistent()


def test_a_compute_daemon_killed_between_port_and_guest_leaves_one_port(cloud: FaultyCloud) -> None:
    killed = threading.Event()

    def kill(_path: str) -> None:
        if not killed.is_set():
            killed.set()
            cloud.services.processes["compute"].kill(signal.SIGKILL)
    # the first question after the port is there
    cloud.proxies.neutron.refuse("GET", "/v2.0/subnets", 0, None, mode=PASS, before=kill)
    other = cloud.neighbours.call("POST", "neutron", "/v2.0/ports", json={"port": {"network_id": cloud.network}})["port"]["id"]
    server = cloud.boot(networks=[{"uuid": cloud.network}, {"port": other}]).json()["server"]["id"]
    assert killed.wait(30)
    assert len(cloud.ports()[server]) == 2
    cloud.services.processes["compute"].start()
    cloud.user.wait(server, "ACTIVE", SETTLED)
    ports = cloud.ports()[server]
    assert len(ports) == 2
    assert other in ports
    cloud.services.wait_ready(2)
    cloud.delete([server])
    found = cloud.neighbours.call("GET", "neutron", f"/v2.0/ports/{other}")["port"]
    assert (found["device_id"], found["device_owner"]) == ("", "")
    cloud.neighbours.call("DELETE", "neutron", f"/v2.0/ports/{other}")
    cloud.consistent()


def test_a_host_that_starts_while_keystone_is_down(cloud: FaultyCloud) -> None:
    """A fresh process has no token yet: that is the one who notices."""
    cloud.proxies.keystone.stop()
    cloud.services.restart("compute")
    cloud.services.wait_ready(2)
    servers = [cloud.boot().json()["server"]["id"] for _ in range(3)]
    failed = _blamed(cloud.settled(servers), "Keystone", CAUSES["stop"])
    assert sorted(failed) == sorted(servers)
    cloud.proxies.heal()
    cloud.goes_on()
    cloud.delete(servers)
    cloud.consistent()


def test_a_token_that_is_revoked_after_the_request(cloud: FaultyCloud) -> None:
    """Whatever is done after the 202 is done as the service user."""
    session = cloud.neighbours.session("demo")
    token = session.auth.get_auth_ref(session).auth_token
    mine = cloud.services.client(token)
    cloud.services.processes["compute"].send(signal.SIGSTOP)
    servers = [mine.boot(flavor=cloud.flavor, image=cloud.image, networks=[{"uuid": cloud.network}])["id"] for _ in range(3)]
    cloud.made += servers
    session.delete(f"{cloud.neighbours.facts['keystone']}/auth/tokens", headers={"X-Subject-Token": token})
    cloud.services.processes["compute"].send(signal.SIGCONT)
    for server in servers:
        cloud.user.wait(server, "ACTIVE", SETTLED)
    cloud.delete(servers)
    cloud.consistent()


def test_images_by_way_of_the_compute_api(cloud: FaultyCloud) -> None:
    call, user = cloud.neighbours.call, cloud.services.client(cloud.user.token, "2.1")
    image = call("POST", "glance", "/v2/images", json={
        "name": "proxied", "disk_format": "raw", "container_format": "bare", "min_disk": 1, "os_distro": "debian"})["id"]
    found = user.ok("GET", f"/images/{image}")["image"]
    assert (found["status"], found["minDisk"], found["metadata"]) == ("SAVING", 1, {"os_distro": "debian"})
    call("PUT", "glance", f"/v2/images/{image}/file", data=b"x" * 1000, headers={"Content-Type": "application/octet-stream"})
    assert user.ok("GET", f"/images/{image}")["image"]["OS-EXT-IMG-SIZE:size"] == 1000
    assert image in [i["id"] for i in user.ok("GET", "/images")["images"]]
    assert [i["id"] for i in user.ok("GET", "/images/detail?name=proxied&status=ACTIVE")["images"]] == [image]
    url = f"/images/{image}/metadata"
    assert user.ok("POST", url, json={"metadata": {"a": "1"}})["metadata"] == {"os_distro": "debian", "a": "1"}
    assert user.ok("PUT", f"{url}/a", json={"meta": {"a": "2"}})["meta"] == {"a": "2"}
    assert user.request("DELETE", f"{url}/os_distro").status_code == 204
    assert call("GET", "glance", f"/v2/images/{image}")["a"] == "2"
    assert user.ok("PUT", url, json={"metadata": {"b": "3"}})["metadata"] == {"b": "3"}
    other = cloud.services.client(cloud.neighbours.token("alt_demo"), "2.1")
    assert other.request("GET", f"/images/{image}").status_code == 404
    assert other.request("DELETE", f"/images/{image}").status_code == 404
    assert user.request("DELETE", f"/images/{image}").status_code == 204
    assert user.request("GET", f"/images/{image}").status_code == 404


@pytest.mark.parametrize(("change", "code", "said"), [
    ("queued", 400, "Image {image} is not active."), ("deactivated", 400, "Image {image} is not active."),
    ("min_ram", 400, "Flavor's memory is too small for requested image."),
    ("min_disk", 400, "Flavor's disk is smaller than the minimum size specified in image metadata."),
    ("private", 400, "Image {image} could not be found.")])
def test_an_image_that_a_server_cannot_have(cloud: FaultyCloud, change: str, code: int, said: str) -> None:
    call = cloud.neighbours.call
    owner = "alt_demo" if change == "private" else "demo"
    image = call("POST", "glance", "/v2/images", owner, json={
        "name": change, "disk_format": "raw", "container_format": "bare", "visibility": "private",
        **({change: 100_000} if change.startswith("min") else {})})["id"]
    if change != "queued":
        call("PUT", "glance", f"/v2/images/{image}/file", owner, data=b"x", headers={
            "Content-Type": "application/octet-stream"})
    if change == "deactivated":
        call("POST", "glance", f"/v2/images/{image}/actions/deactivate", "admin")
    answer = cloud.boot(imageRef=image)
    assert answer.status_code == code, answer.text
    assert answer.json()["badRequest"]["message"].startswith(said.format(image=image))
    call("DELETE", "glance", f"/v2/images/{image}", owner)
