"""A REST client of the compute API for tests and benchmarks: thin, so that what is asserted is what the server said."""
from __future__ import annotations

import time
import uuid
from typing import Any

import requests

TRANSIENT = 60.0


def _pause(began: float) -> None:
    """Between two questions, 0.05 s to 0.5 s: who waits long asks seldom, since asking takes power from what is waited for."""
    time.sleep(min(0.5, max(0.05, (time.monotonic() - began) / 10)))


class Compute:
    """One user of one project at one microversion, who waits ``timeout`` seconds for an answer. With noauth2 the token is
    ``user:project``."""

    def __init__(self, endpoint: str, token: str = "admin:demo", version: str = "2.90", timeout: float = 60) -> None:
        self.endpoint, self.token, self.version, self.timeout = endpoint.rstrip("/"), token, version, timeout
        self.session = requests.Session()
        self.session.trust_env = False

    def request(self, method: str, path: str, version: str | None = None, **kwargs: Any) -> requests.Response:
        """Any request; nothing is asserted."""
        headers = {"X-Auth-Token": self.token, "OpenStack-API-Version": f"compute {version or self.version}",
                   **kwargs.pop("headers", {})}
        return self.session.request(method, self.endpoint + path, headers=headers, timeout=self.timeout, **kwargs)

    def ok(self, method: str, path: str, version: str | None = None, **kwargs: Any) -> Any:
        """A request that must succeed; its JSON body, or None."""
        answer = self.request(method, path, version, **kwargs)
        assert answer.status_code < 300, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    # servers --------------------------------------------------------------------------------------------------------
    def boot(self, name: str = "", flavor: str = "", image: str = "", networks: Any = "none",
             **more: Any) -> dict[str, Any]:
        """POST /servers; the answer's server."""
        body = {"name": name or f"s-{uuid.uuid4().hex[:8]}", "flavorRef": flavor or self.flavor(), "imageRef":
                image or self.image(), "networks": networks, **more}
        return self.ok("POST", "/servers", json={"server": body})["server"]

    def server(self, server_id: str) -> dict[str, Any]:
        return self.ok("GET", f"/servers/{server_id}")["server"]

    def servers(self, query: str = "") -> list[dict[str, Any]]:
        """All pages of /servers/detail."""
        found: list[dict[str, Any]] = []
        marker = ""
        while True:
            page = self.ok("GET", f"/servers/detail?limit=1000{query}{marker}")["servers"]
            found += page
            if len(page) < 1000:
                return found
            marker = f"&marker={page[-1]['id']}"

    def action(self, server_id: str, name: str, argument: Any = None) -> Any:
        return self.ok("POST", f"/servers/{server_id}/action", json={name: argument})

    def wait(self, server_id: str, status: str, timeout: float = TRANSIENT) -> dict[str, Any]:
        """Poll until the server is idle in ``status``; an unexpected ERROR fails at once with its fault."""
        began = time.monotonic()
        deadline = began + timeout
        while True:
            server = self.server(server_id)
            if server["status"] == status and server["OS-EXT-STS:task_state"] is None:
                return server
            assert status == "ERROR" or server["status"] != "ERROR", f"{server_id} is in ERROR: {server.get('fault')}"
            task = server["OS-EXT-STS:task_state"]
            assert time.monotonic() < deadline, f"{server_id} is {server['status']}/{task}, not {status}"
            _pause(began)

    def delete(self, server_id: str) -> None:
        self.ok("DELETE", f"/servers/{server_id}")

    def wait_gone(self, server_id: str, timeout: float = TRANSIENT) -> None:
        began = time.monotonic()
        deadline = began + timeout
        while self.request("GET", f"/servers/{server_id}").status_code != 404:
            assert time.monotonic() < deadline, f"{server_id} is still there: {self.server(server_id)}"
            _pause(began)

    # networks -------------------------------------------------------------------------------------------------------
    def let_in(self, protocol: str, first: int = -1, last: int = -1) -> str:
        """Open the project's group "default" for everybody; the rule's id."""
        groups = self.ok("GET", "/os-security-groups", "2.35")["security_groups"]
        default = next(group["id"] for group in groups if group["name"] == "default")
        return self.ok("POST", "/os-security-group-rules", "2.35", json={"security_group_rule": {
            "parent_group_id": default, "ip_protocol": protocol, "from_port": first, "to_port": last, "cidr": "0.0.0.0/0"}})[
                "security_group_rule"]["id"]

    # things to boot from ---------------------------------------------------------------------------------------------
    def flavor(self, name: str = "m1.nano") -> str:
        for flavor in self.ok("GET", "/flavors")["flavors"]:
            if flavor["name"] == name:
                return flavor["id"]
        body = {"name": name, "ram": 64, "vcpus": 1, "disk": 1}
        return self.ok("POST", "/flavors", json={"flavor": body})["flavor"]["id"]

    def image(self) -> str:
        images = self.ok("GET", "/images", version="2.1")["images"]
        assert images, "the cloud has no image"
        return images[0]["id"]
