"""A small Neutron on HTTP: what the driver asks of it, kept in dictionaries, every call counted.

The token says who asks: ``user:<project>`` is a member of that project, anything else the service user (keystoneauth's plugin
``none`` sends "notused"). A port bound to ``deaf`` fails to bind.
"""
from __future__ import annotations

import copy
import ipaddress
import json
import threading
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

Row = dict[str, Any]
_SECRET = ("binding:host_id", "binding:vif_type", "resource_request")       # of a port: only admins see it
KEYS = {"networks": "network", "subnets": "subnet", "ports": "port", "security-groups": "security_group",
        "floatingips": "floatingip"}


class Refused(Exception):
    """An answer with an error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


class FakeNeutron:
    """``with FakeNeutron() as neutron: neutron.url``. ``tables`` may be changed by a test at any time."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {name: {} for name in KEYS}
        self.calls: list[str] = []              # "GET networks", in order
        self.asked: list[Row] = []              # the queries that belong to them
        self.port_quota = 1000
        self.group_quota = self.floating_quota = 1000
        self.before: Callable[[str, str], None] = lambda method, what: None     # raise Refused to refuse
        self.new_port_status = "DOWN"
        self.profiles: list[tuple[str, Row, list[str]]] = []    # what agents hear: host, profile and waiting hosts of a port
        self.auto_network: str | None = None
        self.most_at_once: int | None = None    # as pagination_max_limit
        self._lock = threading.Lock()

    def __enter__(self) -> FakeNeutron:
        handler = type("Handler", (_Handler,), {"neutron": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    # what there is --------------------------------------------------------------------------------------------------
    def add_network(self, name: str = "private", cidr: str | None = "10.0.0.0/24", project_id: str = "p", **values: Any) -> str:
        """A network, with one subnet unless ``cidr`` is None; its id."""
        network = {"id": str(uuid.uuid4()), "name": name, "mtu": 1450, "subnets": [], "shared": False, "project_id": project_id,
                   "router:external": False, "admin_state_up": True, "port_security_enabled": True, **values}
        self.tables["networks"][network["id"]] = network
        if cidr:
            self.add_subnet(network["id"], cidr)
        return network["id"]

    def add_subnet(self, network_id: str, cidr: str, **values: Any) -> str:
        parsed = ipaddress.ip_network(cidr)
        subnet = {"id": str(uuid.uuid4()), "network_id": network_id, "cidr": cidr, "ip_version": parsed.version,
                  "gateway_ip": str(parsed[1]), "dns_nameservers": ["9.9.9.9"], "enable_dhcp": True, "ipv6_address_mode": None,
                  "host_routes": [{"destination": "192.0.2.0/24", "nexthop": str(parsed[2])}], **values}
        self.tables["subnets"][subnet["id"]] = subnet
        self.tables["networks"][network_id]["subnets"].append(subnet["id"])
        return subnet["id"]

    def add_group(self, name: str, project_id: str = "p", **values: Any) -> str:
        group = {"id": str(uuid.uuid4()), "name": name, "project_id": project_id, "description": "", "security_group_rules": [],
                 **values}
        self.tables["security-groups"][group["id"]] = group
        return group["id"]

    def add_port(self, network_id: str, project_id: str = "p", **values: Any) -> str:
        """A port of a user's own; its id."""
        return self._create({"network_id": network_id, "project_id": project_id, **values})["id"]

    def add_floating_ip(self, port_id: str, fixed: str, address: str) -> None:
        one = {"id": str(uuid.uuid4()), "port_id": port_id, "fixed_ip_address": fixed, "floating_ip_address": address}
        self.tables["floatingips"][one["id"]] = one

    @property
    def ports(self) -> dict[str, Row]:
        return self.tables["ports"]

    def of(self, device_id: str) -> list[Row]:
        """The ports of a server."""
        return [p for p in self.ports.values() if p["device_id"] == device_id]

    # answers --------------------------------------------------------------------------------------------------------
    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Row, headers: Any) -> tuple[int, Row | None]:
        parts = path.removeprefix("/v2.0").strip("/").split("/")
        if parts == [""]:
            return 200, {"versions": [{"id": "v2.0", "status": "CURRENT",
                                       "links": [{"rel": "self", "href": f"{self.url}/v2.0/"}]}]}
        token = headers.get("X-Auth-Token", "")
        project = token.partition(":")[2] if token.startswith("user:") else None
        with self._lock:
            self.calls.append(f"{method} {parts[0]}")
            self.asked.append(dict(query))
        self.before(method, parts[0])
        with self._lock:
            if parts[0] == "auto-allocated-topology":
                if self.auto_network is None:
                    raise Refused(409, "AutoAllocationFailure", "Deployment error: No default router:external network.")
                found = "dry-run=pass" if query.get("fields") == ["dry-run"] else self.auto_network
                return 200, {"auto_allocated_topology": {"id": found, "tenant_id": parts[1]}}
            if method == "GET" and parts[2:] == ["bindings"]:
                return 200, {"bindings": self._bindings_of(self.ports.get(parts[1]))}
            if method == "GET" and len(parts) == 2:
                return 200, {KEYS[parts[0]]: self._one(*parts)}
            if method == "GET":
                return 200, self._page(parts[0], query, project)
            if parts[0] == "floatingips":
                return self._floating_ips(method, parts, body, project or "service")
            if parts[0].startswith("security-group"):
                return self._groups(method, parts, body, project or "service")
            if project is not None and (method, list(body.get("port", ()))) != ("PUT", ["security_groups"]):
                raise Refused(403, "PolicyNotAuthorized", "only the service user changes ports")
            if (method, len(parts)) == ("POST", 1):
                return 201, {"ports": self._create_many(body["ports"])}
            port = self.ports.get(parts[1])
            if port is None:
                raise Refused(404, "PortNotFound", f"Port {parts[1]} could not be found.")
            if parts[2:3] == ["bindings"]:
                return self._bindings(method, port, parts[3:], body)
            if method == "DELETE":
                del self.ports[parts[1]]
                return 204, None
            return 200, {"port": self._update(port, body["port"], headers.get("If-Match"))}

    def _page(self, what: str, query: dict[str, list[str]], project: str | None) -> Row:
        """All of a collection, or as much of it as is given at once, and where the rest is."""
        key, asked, marker = what.replace("-", "_"), dict(query), query.pop("marker", [""])[0]
        query.pop("limit", None)
        if self.most_at_once is None:
            return {key: self._list(what, query, project)}
        fields = query.pop("fields", None)
        rest = sorted((row for row in self._list(what, query, project) if row["id"] > marker), key=lambda row: str(row["id"]))
        page = rest[:self.most_at_once]
        answer: Row = {key: [{k: v for k, v in row.items() if not fields or k in fields} for row in page]}
        if len(page) == self.most_at_once:      # whether or not there are more
            after = urlencode({**asked, "limit": self.most_at_once, "marker": page[-1]["id"]}, doseq=True)
            answer[f"{key}_links"] = [{"rel": "next", "href": f"http://0.0.0.0:9696/v2.0/{what}?{after}"}]
        return answer

    def _list(self, what: str, query: dict[str, list[str]], project: str | None) -> list[Row]:
        fields = query.pop("fields", None)
        found = []
        for row in self.tables[what].values():
            if project is not None and what != "subnets" and not self._visible(what, row, project):
                continue
            if all(_matches(row, key, values) for key, values in query.items()):
                shown = {k: v for k, v in row.items() if not (project and k in _SECRET)}
                found.append({k: v for k, v in shown.items() if not fields or k in fields})
        return copy.deepcopy(found)

    def _visible(self, what: str, row: Row, project: str) -> bool:
        """By Neutron's default policy; the owner of a network sees the ports that others have on it."""
        owners = [row.get("project_id")]
        if what == "ports" and row["network_id"] in self.tables["networks"]:
            owners.append(self.tables["networks"][row["network_id"]]["project_id"])
        return bool(project in owners or row.get("shared") or row.get("router:external"))

    def _one(self, what: str, item_id: str) -> Row:
        if item_id not in self.tables[what]:
            raise Refused(404, "SecurityGroupNotFound", f"Security group {item_id} does not exist")
        return self.tables[what][item_id]

    def _floating_ips(self, method: str, parts: list[str], body: Row, project: str) -> tuple[int, Row | None]:
        """Changes of floating IPs."""
        table = self.tables["floatingips"]
        if method == "POST":
            network = self._one("networks", body["floatingip"]["floating_network_id"])
            if len(table) >= self.floating_quota:
                raise Refused(409, "OverQuota", "Quota exceeded for resources: ['floatingip'].")
            made = {"id": str(uuid.uuid4()), "floating_ip_address": f"203.0.113.{len(table) + 1}", "fixed_ip_address": None,
                    "port_id": None, "project_id": project, "floating_network_id": network["id"]}
            table[made["id"]] = made
            return 201, {"floatingip": made}
        found = self._one(*parts)
        if method == "DELETE":
            del table[found["id"]]
            return 204, None
        values = body["floatingip"]
        if values["port_id"] is not None and values["port_id"] not in self.ports:
            raise Refused(404, "PortNotFound", f"Port {values['port_id']} could not be found.")
        found.update({"fixed_ip_address": None, **values})
        return 200, {"floatingip": found}

    def _groups(self, method: str, parts: list[str], body: Row, project: str) -> tuple[int, Row | None]:
        """Changes of security groups and of their rules."""
        groups = self.tables["security-groups"]
        if parts[0] == "security-group-rules":
            return self._rules(method, parts, body)
        if method == "POST":
            if len(groups) >= self.group_quota:
                raise Refused(409, "OverQuota", "Quota exceeded for resources: ['security_group'].")
            return 201, {"security_group": groups[self.add_group(project_id=project, **body["security_group"])]}
        group = self._one(*parts)
        if method == "PUT":
            group.update(body["security_group"])
            return 200, {"security_group": group}
        if any(group["id"] in port["security_groups"] for port in self.ports.values()):
            raise Refused(409, "SecurityGroupInUse", f"Security Group {group['id']} in use.")
        del groups[group["id"]]
        return 204, None

    def _rules(self, method: str, parts: list[str], body: Row) -> tuple[int, Row | None]:
        groups = self.tables["security-groups"]
        if method == "POST":
            made = {**body["security_group_rule"], "id": str(uuid.uuid4())}
            rules = self._one("security-groups", made["security_group_id"])["security_group_rules"]
            if any({**rule, "id": made["id"]} == made for rule in rules):
                raise Refused(409, "SecurityGroupRuleExists", "Security group rule already exists.")
            rules.append(made)
            return 201, {"security_group_rule": made}
        for group in groups.values():
            left = [rule for rule in group["security_group_rules"] if rule["id"] != parts[1]]
            if len(left) < len(group["security_group_rules"]):
                group["security_group_rules"] = left
                return 204, None
        raise Refused(404, "SecurityGroupRuleNotFound", f"Security group rule {parts[1]} does not exist")

    def _create_many(self, bodies: list[Row]) -> list[Row]:
        made: list[Row] = []
        try:
            for body in bodies:
                made.append(self._create(body))
        except Refused:
            for port in made:
                del self.ports[port["id"]]
            raise
        return copy.deepcopy(made)

    def _create(self, body: Row) -> Row:
        network = self.tables["networks"].get(body["network_id"])
        if network is None:
            raise Refused(404, "NetworkNotFound", f"Network {body['network_id']} could not be found.")
        if sum(p["project_id"] == body["project_id"] for p in self.ports.values()) >= self.port_quota:
            raise Refused(409, "OverQuota", "Quota exceeded for resources: ['port'].")
        for key in ("dns_name",):
            if key in body and "dns_domain" not in network:
                raise Refused(400, "HTTPBadRequest", f"Unrecognized attribute(s) '{key}'")
        number = str(uuid.uuid4())
        port = {"id": number, "name": "", "mac_address": "fa:16:3e:" + ":".join(number[i:i + 2] for i in (0, 2, 4)),
                "status": "DOWN", "device_id": "", "device_owner": "", "admin_state_up": True, "revision_number": 1,
                "binding:vnic_type": "normal", "binding:host_id": "", "security_groups": ["default-of-" + body["project_id"]],
                "created_at": f"2026-01-01T00:00:{len(self.ports):02d}Z", **body}
        port["fixed_ips"] = self._addresses(network, body.get("fixed_ips"))
        self._bind(port)
        if port["device_id"]:
            port["status"] = self.new_port_status
        self.ports[number] = port
        return port

    def _addresses(self, network: Row, asked: list[Row] | None) -> list[Row]:
        if asked is not None and "ip_address" not in (asked or [{}])[0]:
            return asked
        used = {a["ip_address"] for p in self.ports.values() for a in p["fixed_ips"]}
        chosen = []
        for subnet_id in network["subnets"]:
            subnet = self.tables["subnets"][subnet_id]
            cidr = ipaddress.ip_network(subnet["cidr"])
            if asked:
                address = asked[0]["ip_address"]
                if ipaddress.ip_address(address) not in cidr:
                    raise Refused(400, "InvalidIpForNetwork", f"IP address {address} is not a valid IP for the network.")
                if address in used:
                    raise Refused(409, "IpAddressAlreadyAllocated", f"IP address {address} already allocated")
                return [{"subnet_id": subnet_id, "ip_address": address}]
            free = next((str(h) for h in cidr.hosts() if str(h) not in used and str(h) != subnet["gateway_ip"]), None)
            if free is None:
                raise Refused(409, "IpAddressGenerationFailure", f"No more IP addresses available on network {network['id']}.")
            chosen.append({"subnet_id": subnet_id, "ip_address": free})
        return chosen

    def _filled(self, wanted: Row) -> Row:
        """An address of which only the subnet was named."""
        if "ip_address" in wanted:
            return wanted
        subnet = self.tables["subnets"][wanted["subnet_id"]]
        used = {subnet["gateway_ip"], *(a["ip_address"] for p in self.ports.values() for a in p["fixed_ips"])}
        for address in map(str, ipaddress.ip_network(subnet["cidr"]).hosts()):
            if address not in used:
                return {**wanted, "ip_address": address}
        raise Refused(409, "IpAddressGenerationFailure", "No more IP addresses available.")

    def _update(self, port: Row, values: Row, if_match: str | None) -> Row:
        if values.get("binding:host_id") in port.get("waiting", ()):        # Neutron itself tries again and again, and hangs
            raise Refused(500, "DBDuplicateEntry", f"Port {port['id']} has an inactive binding to {values['binding:host_id']}")
        if if_match is not None and if_match != f"revision_number={port['revision_number']}":
            raise Refused(412, "RevisionNumberConstraintFailed", "Constrained to another revision")
        if "fixed_ips" in values:
            values = {**values, "fixed_ips": [self._filled(a) for a in values["fixed_ips"]]}
        if "binding:profile" in values:
            self.profiles.append((port["binding:host_id"], values["binding:profile"], list(port.get("waiting", ()))))
        port.update(values)
        port["revision_number"] += 1
        self._bind(port)
        return copy.deepcopy(port)

    def _bindings_of(self, port: Row | None) -> list[Row]:
        if port is None:
            raise Refused(404, "PortNotFound", "The port could not be found.")
        if not port["device_owner"].startswith("compute:"):
            raise Refused(400, "BadRequest", "Operation only valid on compute and shared filesystem ports.")
        return [{"host": port["binding:host_id"], "status": "ACTIVE"}] + [
            {"host": h, "status": "INACTIVE", **_bound_at(h)} for h in port.get("waiting", ())]

    def _bindings(self, method: str, port: Row, rest: list[str], body: Row) -> tuple[int, Row | None]:
        """The inactive bindings of a port are its ``waiting`` hosts, here only."""
        waiting = port.setdefault("waiting", [])
        if method == "POST":
            host = body["binding"]["host"]
            if _bound_at(host)["vif_type"] == "binding_failed":
                raise Refused(500, "PortBindingError",
                              f"Binding for port {port['id']} on host {host} could not be created or updated.")
            waiting.append(host)
            port.setdefault("profiles", {})[host] = body["binding"].get("profile", {})
            return 201, {"binding": {"host": host, "status": "INACTIVE", **_bound_at(host)}}
        host = rest[0]
        if method == "PUT" and host == port["binding:host_id"]:
            raise Refused(409, "PortBindingAlreadyActive", f"Binding for port {port['id']} on host {host} is already active.")
        if host not in waiting and (method == "PUT" or host != port["binding:host_id"]):
            raise Refused(404, "PortBindingNotFound", f"Binding for port {port['id']} for host {host} could not be found.")
        if method == "DELETE":
            waiting.remove(host)
            return 204, None
        source = waiting[waiting.index(host)] = port["binding:host_id"]
        profiles = port.setdefault("profiles", {})      # each binding has its own
        profiles[source] = port.get("binding:profile") or {}
        self._update(port, {"binding:host_id": host, "binding:profile": profiles.get(host, {})}, None)
        return 200, {"binding": {"host": host, "status": "ACTIVE"}}

    @staticmethod
    def _bind(port: Row) -> None:
        found = _bound_at(port.get("binding:host_id"))
        port |= {f"binding:{key}": value for key, value in found.items()}


def _bound_at(host: str | None) -> Row:
    return {"vif_type": "unbound" if not host else "binding_failed" if host == "deaf" else "ovs",
            "vif_details": {"bridge_name": "br-int", "port_filter": True} if host and host != "deaf" else {}}


def _matches(row: Row, key: str, values: list[str]) -> bool:
    if key == "fixed_ips":
        return any(f"ip_address={a['ip_address']}" in values for a in row["fixed_ips"])
    return str(row.get(key)) in values


class _Handler(BaseHTTPRequestHandler):
    neutron: FakeNeutron
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True      # headers and body are sent apart

    def _serve(self) -> None:
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else {}
        try:
            query = parse_qs(url.query, keep_blank_values=True)
            status, answer = self.neutron.answer(self.command, url.path, query, body, self.headers)
        except Refused as error:
            status, answer = error.status, {"NeutronError": {"type": error.kind, "message": error.message, "detail": ""}}
        data = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_arguments: Any) -> None:
        """Nothing."""


CREDENTIALS = "[service_user]\nauth_type = none\nendpoint = {url}\n"
"""Lines of a configuration file that lead every neighbour's calls to ``url``."""
