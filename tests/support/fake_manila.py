"""A Manila of dictionaries: as much of Shared File Systems v2 as the driver speaks."""
from __future__ import annotations

import json
import re
import uuid
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.fake_openstack import Answer, Call


class FakeManila:
    """``rules`` holds the accesses by share; ``new_state`` is what a new one is in, and what it becomes when looked at."""

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, Any]] = {}
        self.rules: dict[str, list[dict[str, Any]]] = {}
        self.new_state = ("new", "active")

    def add(self, **values: Any) -> str:
        """A share that is there already; its id."""
        made = {"id": str(uuid.uuid4()), "status": "available", "share_proto": "NFS", "paths": ["10.0.0.5:/one"], **values}
        self.shares[made["id"]], self.rules[made["id"]] = made, []
        return made["id"]

    def hosts(self, share_id: str) -> list[str]:
        """The addresses that may mount a share."""
        return [rule["access_to"] for rule in self.rules[share_id]]

    def __call__(self, call: Call) -> Answer:
        parts = urlsplit(call.path)
        match = re.fullmatch(r"/v2/shares/([^/]+)(/action|/export_locations)?", parts.path)
        looks_at_it = call.method == "GET" and match is not None and match[2] is None       # clients do so at any version
        if not looks_at_it and call.headers.get("X-OpenStack-Manila-API-Version") != "2.82":
            return Answer(400, {"badRequest": {"message": "wrong microversion"}})
        if parts.path == "/v2/share-access-rules":
            rules = self.rules[parse_qs(parts.query)["share_id"][0]]
            answer = Answer(200, {"access_list": [dict(rule) for rule in rules]})
            for rule in rules:
                rule["state"] = self.new_state[1]
            return answer
        share = self.shares.get(match[1]) if match else None
        if match is None or share is None:
            return Answer(404, {"itemNotFound": {"message": "no such share"}})
        if match[2] == "/export_locations":
            return Answer(200, {"export_locations": [{"path": p, "preferred": n == 1} for n, p in enumerate(share["paths"])]})
        if match[2] is None:
            return Answer(200, {"share": {key: share[key] for key in ("id", "status", "share_proto")}})
        return self._act(share["id"], json.loads(call.body))

    def _act(self, share_id: str, body: dict[str, Any]) -> Answer:
        if "deny_access" in body:
            assert body["deny_access"]["unrestrict"]
            self.rules[share_id] = [r for r in self.rules[share_id] if r["id"] != body["deny_access"]["access_id"]]
            return Answer(202)
        rule = {**body["allow_access"], "id": str(uuid.uuid4()), "state": self.new_state[0]}
        self.rules[share_id].append(rule)
        return Answer(200, {"access": rule})
