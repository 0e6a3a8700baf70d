"""Quotas, bulk requests, and what the embedded Network API has not: there, or refused with a reason."""
from __future__ import annotations

import pytest

from nova_lite.db import networks, security_groups
from nova_lite.db.core import Database
from nova_lite.embedded.api import network as network_api
from tests.unit.embedded.api.test_embedded_apis import _login, _send, conf, passwords

__all__ = ["conf", "passwords"]


@pytest.fixture
def ask(conf, passwords):  # noqa: F811
    app = network_api.factory(conf)
    answers = {name: _login(conf, passwords, name) for name in ("demo", "admin")}

    def send(method, path, body=None, user="demo", status=200):
        answer = _send(app, method, f"/v2.0/{path}", body, answers[user].headers["X-Subject-Token"])
        assert answer.status_code == status, answer.text
        return answer.json if answer.body else None
    send.projects = {name: answer.json["token"]["project"]["id"] for name, answer in answers.items()}
    send.app = app
    return send


def test_quotas_are_shown_with_what_is_used(ask):
    ask("POST", "networks", {"network": {"name": "n"}}, status=201)
    ask("POST", "security-groups", {"security_group": {"name": "g"}}, status=201)
    mine = ask.projects["demo"]
    shown = ask("GET", f"quotas/{mine}")["quota"]
    assert shown == ask("GET", f"quotas/{mine}/default")["quota"]
    assert shown == {"network": networks.MAX_NETWORKS, "subnet": networks.MAX_NETWORKS, "port": networks.MAX_PORTS,
                     "security_group": security_groups.MAX_GROUPS, "security_group_rule": security_groups.MAX_RULES,
                     "floatingip": 0, "router": 0, "subnetpool": 0, "rbac_policy": 0}
    used = ask("GET", f"quotas/{mine}/details")["quota"]
    assert {name: one["used"] for name, one in used.items() if one["used"]} == {
        "network": 1, "subnet": 1, "security_group": 2, "security_group_rule": 6}
    assert used == ask("GET", f"quotas/{mine}/details.json", user="admin")["quota"]
    assert ask("GET", "quotas") == {"quotas": []}
    ask("GET", f"quotas/{ask.projects['admin']}", status=403)
    for method in ("PUT", "DELETE"):
        said = ask(method, f"quotas/{mine}", {"quota": {"network": 99}}, "admin", 400)
        assert "quotas of Network are fixed" in said["NeutronError"]["message"]


@pytest.mark.parametrize(("method", "path", "status", "said"), [
    ("POST", "subnets", 400, "one subnet"), ("PUT", "subnets/x", 400, "one subnet"), ("DELETE", "subnets/x", 400, "one subnet"),
    ("POST", "floatingips", 400, "no floating IPs"), ("GET", "floatingips/x", 404, "Floating IP x"),
    ("PUT", "floatingips/x", 404, "Floating IP x"), ("DELETE", "floatingips/x", 404, "Floating IP x"),
    ("POST", "routers", 400, "no routers"), ("GET", "routers/x", 404, "Router x")])
def test_what_there_is_not_is_refused_with_its_reason(ask, method, path, status, said):
    answer = ask(method, path, {} if method in ("POST", "PUT") else None, status=status)
    assert said in answer["NeutronError"]["message"]
    assert _send(ask.app, method, f"/v2.0/{path}").status_code == 401


def _rule(group, port, **more):
    return {"security_group_id": group, "direction": "ingress", "protocol": "tcp", "port_range_min": port,
            "port_range_max": port, **more}


def test_rules_in_bulk_are_made_all_or_none(ask):
    group = ask("POST", "security-groups", {"security_group": {"name": "g"}}, status=201)["security_group"]["id"]

    def count():
        return len(ask("GET", f"security-group-rules?security_group_id={group}")["security_group_rules"])
    before = count()
    made = ask("POST", "security-group-rules", {"security_group_rules": [_rule(group, 80), _rule(group, 81)]}, status=201)
    assert [one["port_range_min"] for one in made["security_group_rules"]] == [80, 81]
    for second, status in ((_rule(group, 80), 409), (_rule(group, 83, protocol="x"), 400), (_rule("none", 83), 404)):
        ask("POST", "security-group-rules", {"security_group_rules": [_rule(group, 82), second]}, status=status)
    for wrong in ([], {}, [1], "x"):
        ask("POST", "security-group-rules", {"security_group_rules": wrong}, status=400)
    assert count() == before + 2


def test_rules_in_bulk_count_against_the_limit(ask, monkeypatch):
    group = ask("POST", "security-groups", {"security_group": {"name": "g"}}, status=201)["security_group"]["id"]
    monkeypatch.setattr(security_groups, "MAX_RULES", 8)
    ask("POST", "security-group-rules", {"security_group_rules": [_rule(group, n) for n in (1, 2, 3)]}, status=409)
    ask("POST", "security-group-rules", {"security_group_rules": [_rule(group, n) for n in (1, 2)]}, status=201)


@pytest.mark.parametrize(("path", "key"), [
    ("networks", "networks"), ("ports", "ports"), ("security-groups", "security_groups")])
def test_other_bulk_requests_are_refused_with_their_name(ask, conf, path, key):  # noqa: F811
    said = ask("POST", path, {key: [{"name": "a"}, {"name": "b"}]}, status=400)["NeutronError"]["message"]
    assert f"{key}: one at a time" in said
    with Database(conf).read() as c:
        assert networks.list_networks(c) == []
