"""The embedded Identity and Network APIs, over WSGI, as the stock clients call them."""
from __future__ import annotations

import pytest
import webob

from nova_lite import conf as conf_module
from nova_lite.db import networks, security_groups
from nova_lite.db.core import Database
from nova_lite.embedded.api import identity as identity_api
from nova_lite.embedded.api import network as network_api
from nova_lite.embedded.identity.local import LocalIdentity
from tests.unit.db.databases import make_tables

USERS = {"admin": ("admin", ["admin", "member", "reader"]), "demo": ("demo", ["member", "reader"])}


@pytest.fixture
def conf(tmp_path):
    made = conf_module.load([], config_files=[], state_path=str(tmp_path), database__connection=f"sqlite:///{tmp_path}/db")
    make_tables(made.database.connection)
    return made


@pytest.fixture
def passwords(conf):
    return LocalIdentity(f"{conf.state_path}/identity").ensure(USERS)


def _send(app, method, path, body=None, token="", **headers):
    request = webob.Request.blank(path, method=method, headers={"X-Auth-Token": token, **headers})
    if body is not None:
        request.json = body
    return request.get_response(app)


def _login(conf, passwords, user):
    answer = _send(identity_api.factory(conf), "POST", "/v3/auth/tokens", {"auth": {
        "identity": {"methods": ["password"], "password": {"user": {
            "name": user, "domain": {"id": "default"}, "password": passwords[user]}}},
        "scope": {"project": {"name": user, "domain": {"id": "default"}}}}})
    assert answer.status_code == 201, answer.text
    return answer


def test_login_gives_a_catalog_of_all_five_services(conf, passwords):
    answer = _login(conf, passwords, "demo")
    catalog = {s["type"]: s["endpoints"][0]["url"] for s in answer.json["token"]["catalog"]}
    assert catalog == {"compute": "http://localhost/v2.1", "identity": "http://localhost/identity/v3",
                       "image": "http://localhost/image", "network": "http://localhost/network",
                       "block-storage": "http://localhost/volume/v3",
                       "volumev3": "http://localhost/volume/v3"}        # the type by which many clients ask
    assert answer.json["token"]["expires_at"] > answer.json["token"]["issued_at"]


@pytest.mark.parametrize("driver", ["null", "neutron"])
def test_no_network_is_offered_that_compute_cannot_use(conf, passwords, driver):
    conf.set_override("driver", driver, group="network")
    catalog = _login(conf, passwords, "demo").json["token"]["catalog"]
    assert "network" not in [service["type"] for service in catalog]
    assert network_api.factory(conf) is None


@pytest.mark.parametrize("body", [{}, {"auth": None}, {"auth": {"identity": {"methods": ["password"]}}}, [1]])
def test_a_malformed_login_is_a_400_or_401_never_a_500(conf, passwords, body):
    assert _send(identity_api.factory(conf), "POST", "/v3/auth/tokens", body).status_code in (400, 401)


def test_a_member_does_not_choose_what_the_hosts_route(conf, passwords):
    app = network_api.factory(conf)
    demo, admin = (_login(conf, passwords, name).headers["X-Subject-Token"] for name in ("demo", "admin"))

    def create(token, **values):
        return _send(app, "POST", "/v2.0/networks", {"network": {"name": "n", **values}}, token)
    assert create(demo, cidr="10.9.0.0/24").status_code == 403
    for cidr in ("8.8.8.0/24", "0.0.0.0/8", "192.0.0.0/8", "240.0.0.0/8"):
        assert create(admin, cidr=cidr).status_code == 400, cidr
    assert create(admin, cidr="10.71.0.0/25").status_code == 201
    assert create(demo).status_code == 201
    subnets = _send(app, "GET", "/v2.0/subnets", token=admin).json["subnets"]
    assert [s["cidr"] for s in subnets] == ["10.71.0.0/25", "10.71.1.0/24"]
    create(admin, cidr="10.71.128.0/17")
    create(admin, cidr="10.71.2.0/23")
    for step in (2, 3, 4, 5, 6):
        create(admin, cidr=f"10.71.{2 ** step}.0/{24 - step}")
    full = create(demo)
    assert (full.status_code, "No range" in full.json["NeutronError"]["message"]) == (409, True)


def test_a_member_sees_shared_and_own_networks_only(conf, passwords):
    db = Database(conf)
    db.write(networks.create_network, name="shared", cidr="10.1.0.0/24")
    db.write(networks.create_network, name="other", cidr="10.2.0.0/24", project_id="somebody")
    app = network_api.factory(conf)
    demo = _login(conf, passwords, "demo").headers["X-Subject-Token"]
    admin = _login(conf, passwords, "admin").headers["X-Subject-Token"]
    made = _send(app, "POST", "/v2.0/networks", {"network": {"name": "mine"}}, demo)
    assert made.status_code == 201
    assert [n["name"] for n in _send(app, "GET", "/v2.0/networks", token=demo).json["networks"]] == ["shared", "mine"]
    assert len(_send(app, "GET", "/v2.0/networks", token=admin).json["networks"]) == 3
    assert [n["name"] for n in _send(app, "GET", "/v2.0/networks?name=mine", token=demo).json["networks"]] == ["mine"]
    other = next(n["id"] for n in _send(app, "GET", "/v2.0/networks?name=other", token=admin).json["networks"])
    assert _send(app, "GET", f"/v2.0/networks/{other}", token=demo).status_code == 404
    assert _send(app, "GET", "/v2.0/networks").status_code == 401


def test_a_port_is_made_shown_and_deleted_by_its_owner(conf, passwords):
    db = Database(conf)
    network = db.write(networks.create_network, name="shared", cidr="10.1.0.0/24")
    app = network_api.factory(conf)
    demo = _login(conf, passwords, "demo").headers["X-Subject-Token"]
    body = {"port": {"network_id": network["uuid"], "fixed_ips": [{"ip_address": "10.1.0.77"}]}}
    port = _send(app, "POST", "/v2.0/ports", body, demo).json["port"]
    assert port["fixed_ips"] == [{"subnet_id": network["uuid"], "ip_address": "10.1.0.77"}]
    assert _send(app, "POST", "/v2.0/ports", body, demo).status_code == 409
    for name in ("x" * 256, 7, ["x"]):      # MariaDB and PostgreSQL would refuse the first with an error of their own
        assert _send(app, "PUT", f"/v2.0/ports/{port['id']}", {"port": {"name": name}}, demo).status_code == 400
        assert _send(app, "POST", "/v2.0/ports", {"port": {"network_id": network["uuid"], "name": name}},
                     demo).status_code == 400
    assert _send(app, "DELETE", f"/v2.0/ports/{port['id']}", token=demo).status_code == 204
    assert _send(app, "GET", f"/v2.0/ports/{port['id']}", token=demo).status_code == 404
    assert _send(app, "PUT", "/v2.0/ports", token=demo).status_code == 405


NO_TEXT = (172425271, 1.5, True, [], ["x"], {"a": 1}, "a\0b", "\ud800", "x" * 256)
NO_INTEGER = (1.5, True, [], {"a": 1}, "x")


@pytest.mark.parametrize(("path", "kind", "field", "wrong"), [
    ("networks", "network", "name", NO_TEXT), ("networks", "network", "cidr", NO_TEXT),
    ("networks", "network", "mtu", (*NO_INTEGER, 10 ** 30)), ("networks", "network", "shared", (7, "x", [], {})),
    ("ports", "port", "network_id", NO_TEXT), ("ports", "port", "name", NO_TEXT), ("ports", "port", "ip_address", NO_TEXT),
    ("ports", "port", "mac_address", NO_TEXT), ("ports", "port", "security_groups", (7, "x", [7], {})),
    ("ports", "port", "fixed_ips", (7, 0, "x", [7], {}, [{}, {}])),
    *(("security-groups", "security_group", field, NO_TEXT) for field in ("name", "description", "project_id")),
    ("security-group-rules", "security_group_rule", "port_range_min", NO_INTEGER),
    *(("security-group-rules", "security_group_rule", field, NO_TEXT) for field in (
        "security_group_id", "direction", "ethertype", "remote_ip_prefix", "remote_group_id", "description")),
    ("security-group-rules", "security_group_rule", "protocol", (1.5, True, [], {"a": 1}, "x", "\ud800", 256))])
def test_a_field_of_the_wrong_type_is_refused_by_its_name(conf, passwords, path, kind, field, wrong):
    network = Database(conf).write(networks.create_network, name="shared", cidr="10.71.0.0/24")     # 10.71.0.55 is 172425271
    app, admin = network_api.factory(conf), _login(conf, passwords, "admin").headers["X-Subject-Token"]
    group = _send(app, "GET", "/v2.0/security-groups", token=admin).json["security_groups"][0]["id"]
    good = {"port": {"network_id": network["uuid"]},
            "security_group_rule": {"security_group_id": group, "direction": "ingress"}}.get(kind, {})
    before = _send(app, "GET", f"/v2.0/{path}", token=admin).json
    for value in wrong:
        values = {"fixed_ips": [{"ip_address": value}]} if field == "ip_address" else {field: value}
        answer = _send(app, "POST", f"/v2.0/{path}", {kind: {**good, **values}}, admin)
        assert (answer.status_code, field in answer.json["NeutronError"]["message"]) == (400, True), (value, answer.text)
    assert _send(app, "GET", f"/v2.0/{path}", token=admin).json == before


def test_security_groups_as_the_stock_clients_ask_for_them(conf, passwords):
    network = Database(conf).write(networks.create_network, name="shared", cidr="10.1.0.0/24")
    app = network_api.factory(conf)
    demo, admin = (_login(conf, passwords, name).headers["X-Subject-Token"] for name in ("demo", "admin"))

    def ask(method, path, body=None, token=demo, status=200):
        answer = _send(app, method, f"/v2.0/{path}", body, token)
        assert answer.status_code == status, answer.text
        return answer.json if answer.body else None
    [default] = ask("GET", "security-groups")["security_groups"]
    mine = default["project_id"]
    assert (default["name"], default["tenant_id"], len(default["security_group_rules"])) == ("default", mine, 4)
    body = {"security_group": {"name": "web", "description": "text"}}
    web = ask("POST", "security-groups", body, status=201)["security_group"]
    assert (web["description"], [r["direction"] for r in web["security_group_rules"]]) == ("text", ["egress", "egress"])
    assert [g["id"] for g in ask("GET", "security-groups?name=web")["security_groups"]] == [web["id"]]
    path = f"security-groups/{web['id']}"
    assert ask("PUT", path, {"security_group": {"name": "www"}})["security_group"]["name"] == "www"
    body = {"direction": "ingress", "ethertype": "IPv4", "security_group_id": web["id"], "protocol": "tcp",
            "port_range_min": 80, "port_range_max": 80, "remote_ip_prefix": "10.0.0.0/8"}
    rule = ask("POST", "security-group-rules", {"security_group_rule": body}, status=201)["security_group_rule"]
    assert body.items() <= rule.items()
    ask("POST", "security-group-rules", {"security_group_rule": body}, status=409)
    ask("POST", "security-group-rules", {"security_group_rule": {**body, "protocol": "x"}}, status=400)
    ask("POST", "security-group-rules", {"security_group_rule": {**body, "remote_address_group_id": web["id"]}}, status=400)
    ask("POST", "security-groups", {"security_group": {"name": "quick", "stateful": False}}, status=400)
    assert ask("GET", f"security-group-rules/{rule['id']}")["security_group_rule"] == rule
    listed = ask("GET", f"security-group-rules?security_group_id={web['id']}&direction=ingress")["security_group_rules"]
    assert listed == [rule]
    assert ask("GET", path)["security_group"]["security_group_rules"][2:] == [rule]

    port = ask("POST", "ports", {"port": {"network_id": network["uuid"], "security_groups": [web["id"]]}}, status=201)["port"]
    assert port["security_groups"] == [web["id"]]
    ask("DELETE", path, status=409)
    changed = ask("PUT", f"ports/{port['id']}", {"port": {"name": "p", "security_groups": [default["id"]]}})["port"]
    assert (changed["name"], changed["security_groups"]) == ("p", [default["id"]])
    ask("PUT", f"ports/{port['id']}", {"port": {"security_groups": "x"}}, status=400)
    ask("DELETE", f"security-group-rules/{rule['id']}", status=204)
    ask("DELETE", path, status=204)
    ask("GET", path, status=404)
    ask("DELETE", f"security-groups/{default['id']}", status=409)
    ask("POST", "security-groups", {"security_group": {"name": "default"}}, status=409)
    ask("POST", "security-groups", {"security_group": {"name": "x", "project_id": "admin"}}, status=403)
    theirs = ask("POST", "security-groups", {"security_group": {"name": "x", "project_id": mine}}, admin, 201)
    assert theirs["security_group"]["project_id"] == mine
    hidden = ask("POST", "security-groups", {"security_group": {"name": "hidden"}}, admin, 201)["security_group"]
    ask("GET", f"security-groups/{hidden['id']}", status=404)
    ask("PUT", f"ports/{port['id']}", {"port": {"security_groups": [hidden["id"]]}}, status=404)


def test_what_is_taken_or_used_up_is_a_conflict(conf, passwords):
    small = Database(conf).write(networks.create_network, name="small", cidr="10.1.0.0/29")     # five besides the gateway
    app, demo = network_api.factory(conf), _login(conf, passwords, "demo").headers["X-Subject-Token"]

    def make(status, **values):
        answer = _send(app, "POST", "/v2.0/ports", {"port": {"network_id": small["uuid"], **values}}, demo)
        assert answer.status_code == status, answer.text
        return answer.json
    make(201, fixed_ips=[{"ip_address": "10.1.0.3"}], mac_address="fa:16:3e:00:00:01")
    for values, said in (({"fixed_ips": [{"ip_address": "10.1.0.3"}]}, "10.1.0.3"),
                         ({"mac_address": "FA:16:3E:00:00:01"}, "fa:16:3e:00:00:01"),
                         ({"fixed_ips": [{"ip_address": small["gateway"]}]}, small["gateway"])):
        assert said in make(409, **values)["NeutronError"]["message"]
    make(400, fixed_ips=[{"ip_address": "10.2.0.3"}])
    for _ in range(4):
        make(201)
    assert "No fixed IP addresses available" in make(409)["NeutronError"]["message"]


def test_more_networks_and_ports_than_the_limit_are_a_conflict(conf, passwords, monkeypatch):
    shared = Database(conf).write(networks.create_network, name="shared", cidr="10.1.0.0/24")
    app, path = network_api.factory(conf), "/v2.0/"
    demo, admin = (_login(conf, passwords, name).headers["X-Subject-Token"] for name in ("demo", "admin"))
    for kind, limit, body in (("network", "MAX_NETWORKS", {}), ("port", "MAX_PORTS", {"network_id": shared["uuid"]})):
        monkeypatch.setattr(networks, limit, 2)
        tried = [_send(app, "POST", f"{path}{kind}s", {kind: body}, demo) for _ in range(3)]
        assert [one.status_code for one in tried] == [201, 201, 409]
        assert tried[2].json["NeutronError"]["message"] == f"Quota exceeded, too many {kind}s."
        assert _send(app, "POST", f"{path}{kind}s", {kind: body}, admin).status_code == 201        # of another project
        gone = f"{path}{kind}s/{tried[0].json[kind]['id']}"
        assert _send(app, "DELETE", gone, token=demo).status_code == 204
        assert _send(app, "POST", f"{path}{kind}s", {kind: body}, demo).status_code == 201


def test_more_groups_than_the_limit_are_a_conflict(conf, passwords, monkeypatch):
    monkeypatch.setattr(security_groups, "MAX_GROUPS", 1)
    demo = _login(conf, passwords, "demo").headers["X-Subject-Token"]
    answer = _send(network_api.factory(conf), "POST", "/v2.0/security-groups", {"security_group": {"name": "n"}}, demo)
    assert (answer.status_code, answer.json["NeutronError"]["message"]) == (409, "Quota exceeded, too many security groups.")
