"""A thousand broken requests: none may be our fault (500)."""
from __future__ import annotations

import json
import random
from typing import Any

from tests.unit.api.conftest import Client

VALUES: list[Any] = [None, True, 0, -1, 2 ** 70, 1.5, "", " ", "x" * 300, "\u0000", "\ud800", "\u202e", "9" * 5000, [], {},
                     [[]], {"": ""}, "../../etc", "%s%n", "'; DROP TABLE"]
HEADERS = ["compute 2.9", "compute latest", "compute \u00b2.1", "compute 2." + "9" * 50, "compute -2.1", ",", "2.9", "\x7f"]
PATHS = ["/v2.1/things", "/v2.1/things/x", "/v2.1/things/x/action", "/v2/things", "/v2.1/demo/things", "/v2.1//things", "//",
         "/v2.1/", "/v2.1/things/%2e%2e", "/v2.1/things/%00", "/v2.1/things/%ff%fe", "/v2.1/%c3%a4"]
QUERIES = ["", "limit=", "limit=%ff", "limit=1&limit=2", "&&==", "sort_key[]=1", "marker=%00", "marker=nobody", "a" * 3000,
           "limit=" + "9" * 5000]


def mutate(chance: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice(list(value))
        changed = dict(value)
        changed[chance.choice([key, key, key + "x", ""])] = mutate(chance, changed.pop(key))
        return changed
    return chance.choice(VALUES)


def test_no_broken_request_is_our_fault(api: Client):
    chance = random.Random(7)
    valid: list[Any] = [{"thing": {"name": "n", "size": 3, "id": "0" * 32, "data": "", "notes": {"a": 1}}}, {"grow": {"by": 1}}]
    seen = set()
    for _ in range(1000):
        body = json.dumps(mutate(chance, chance.choice(valid))).encode()
        if chance.random() < 0.2:
            cut = chance.randrange(len(body) + 1)
            body = body[:cut] + bytes([chance.randrange(256)]) + body[cut:]
        path = chance.choice(PATHS[:3] if chance.random() < 0.6 else PATHS)
        query = chance.choice(QUERIES) if chance.random() < 0.3 else ""
        headers = {"OpenStack_API_Version": chance.choice(HEADERS)} if chance.random() < 0.2 else {}
        method = chance.choice(["POST", "POST", "POST", "GET", "PUT", "DELETE", "HEAD", "OPTIONS"])
        response = api(f"{path}?{query}", method, body, **headers)
        seen.add(response.status_code)
        assert response.status_code < 500, (method, path, query, body, response.text)
    assert {200, 400, 404} <= seen
