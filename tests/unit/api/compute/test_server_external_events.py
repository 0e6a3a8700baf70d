"""POST /os-server-external-events."""
import uuid

import pytest

from nova_lite import units
from nova_lite.db import actions, models

PATH = "/os-server-external-events"


@pytest.fixture
def sent(cloud, monkeypatch):
    """What the hosts would be told: [(host, events)]."""
    found = []
    monkeypatch.setattr(cloud.services.compute.wakeups, "send", lambda cast, _context, *arguments: found.append(
        (cast.__name__, *arguments)))
    return found


@pytest.fixture
def service(cloud):
    return cloud.client("neutron", "service", ("service",), version="2.93")


def _event(server, name="network-changed", **values):
    return {"name": name, "server_uuid": server, **values}


def test_events_go_to_their_hosts_in_one_message_each(cloud, service, sent):
    one, two, three = (cloud.add_server(host=host) for host in ("h1", "h2", "h1"))
    events = [_event(one, tag="port"), _event(two, "network-vif-plugged", status="failed", tag="p2"), _event(three)]
    answer = service.post(PATH, {"events": events})
    assert answer == {"events": [{**event, "status": "completed", "code": 200} for event in events]}
    assert [(name, host, [e["server_uuid"] for e in some]) for name, host, some in sent] == [
        ("external_instance_event", "h1", [one, three]), ("external_instance_event", "h2", [two])]
    assert sent[1][2] == [{"name": "network-vif-plugged", "server_uuid": two, "tag": "p2", "status": "failed"}]


def _move(cloud, server, **values):
    moving = {"status": "migrating", "source_compute": "h1", "dest_compute": "h2", "migration_type": "migration", **values}
    cloud.insert(models.migrations, uuid=str(uuid.uuid4()), instance_uuid=server, updated_at=units.utcnow(), **moving)


@pytest.mark.parametrize(("values", "host", "told"), [
    ({"migration_type": "resize"}, "h1", ["h1", "h2"]),
    ({"migration_type": "resize", "dest_compute": "h1"}, "h1", ["h1"]),         # to another size on the same host
    ({"migration_type": "migration", "status": "reverting"}, "h2", ["h1", "h2"]),
    ({"migration_type": "live-migration", "status": "running"}, "h1", ["h1", "h2"]),
    ({"migration_type": "evacuation", "status": "pre-migrating"}, "h1", ["h1", "h2"]),
    ({"migration_type": "evacuation", "status": "accepted", "dest_compute": None}, "h1", ["h1"]),
    ({"migration_type": "resize", "status": "confirmed"}, "h2", ["h2"]),
    ({"migration_type": "live-migration", "status": "error"}, "h1", ["h1"])])
def test_both_hosts_of_a_move_that_is_open_hear_of_it_once_each(cloud, service, sent, values, host, told):
    server = cloud.add_server(host=host)
    _move(cloud, server, **values)
    service.post(PATH, {"events": [_event(server, "network-vif-plugged", tag="p")]})
    assert sorted((host, len(some)) for _, host, some in sent) == [(host, 1) for host in told]


def test_what_is_asked_of_the_database_does_not_grow_with_the_events(cloud, service, sent):
    servers = [cloud.add_server(host="h1") for _ in range(5)]
    for server in servers[1:]:
        _move(cloud, server)
    asked = []
    for some in (servers[:1], servers):
        with cloud.statements() as statements:
            service.post(PATH, {"events": [_event(s, "network-vif-plugged", tag="p") for s in some]})
        asked.append([s for s in statements if s.startswith("SELECT")])
    assert len(asked[0]) == len(asked[1])
    assert sum("FROM migrations" in s for s in asked[1]) == 1


def test_each_event_has_a_code_of_its_own(cloud, service, sent):
    here, nowhere, gone = cloud.add_server(host="h1"), cloud.add_server(host=None), cloud.add_server(host="h1")
    cloud.delete_server(gone)
    answer = service.post(PATH, {"events": [_event(here), _event(nowhere), _event(gone), _event(str(uuid.uuid4())),
                                            _event(here, "power-update", tag="POWER_UP"),
                                            _event(here, "volume-extended")]}, 207)
    assert [(e["code"], e["status"]) for e in answer["events"]] == [
        (200, "completed"), (422, "failed"), (404, "failed"), (404, "failed"), (400, "failed"), (400, "failed")]
    assert len(sent) == 1
    assert len(sent[0][2]) == 1


def test_power_update_is_an_operation(cloud, service, sent):
    on, off, locked = (cloud.add_server(host="h1", launched_at="2026-01-01T00:00:00", **values) for values in (
        {}, {"vm_state": "stopped", "power_state": 4}, {"locked": True}))
    answer = service.post(PATH, {"events": [
        _event(on, "power-update", tag="POWER_OFF"), _event(off, "power-update", tag="POWER_ON"),
        _event(off, "power-update", tag="POWER_OFF"), _event(locked, "power-update", tag="POWER_OFF")]}, 207)
    assert [e["code"] for e in answer["events"]] == [200, 200, 200, 409]
    assert [(name, host) for name, host, _ in sent] == [("wake", "h1")] * 2
    with cloud.db.read() as conn:
        assert [actions.get(conn, action_id).verb for _, _, [action_id] in sent] == ["stop", "start"]


@pytest.mark.parametrize(("version", "name"), [("2.51", "volume-extended"), ("2.76", "power-update"),
                                               ("2.82", "accelerator-request-bound"), ("2.93", "volume-reimaged")])
def test_names_come_with_their_microversions(cloud, service, sent, version, name):
    server = cloud.add_server(host="h1")
    body = {"events": [_event(server, name, tag="x")]}
    before = f"2.{int(version.partition('.')[2]) - 1}"
    assert name in service.at(before).fault("POST", PATH, 400, body)
    service.at(version).post(PATH, body, 207 if name == "power-update" else 200)


@pytest.mark.parametrize("body", [{}, {"events": []}, {"events": [{"name": "network-changed"}]},
                                  {"events": [{"name": "network-changed", "server_uuid": "x"}]},
                                  {"events": [{"name": "network-changed", "server_uuid": str(uuid.uuid4()), "more": 1}]},
                                  {"events": [{"name": "network-changed", "server_uuid": str(uuid.uuid4()), "status": "x"}]}])
def test_bad_bodies(service, body):
    service.fault("POST", PATH, 400, body)


def test_users_tell_nothing(cloud, member, admin, sent):
    server = cloud.add_server(host="h1")
    member.fault("POST", PATH, 403, {"events": [_event(server)]})
    assert sent == []
    admin.post(PATH, {"events": [_event(server)]})
