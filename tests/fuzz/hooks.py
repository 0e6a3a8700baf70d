"""What schemathesis loads (SCHEMATHESIS_HOOKS): ids of things that exist, and a check for data of other projects.

Runs in the virtual environment of schemathesis, so it imports nothing of ours. FUZZ_WORLD names the JSON file of
``world.World``: ``ids`` (placeholder -> id), ``parameters`` (path parameter -> placeholders), ``secrets`` (words that no
answer to this user may hold) and ``foreign`` (ids of others' things, which an answer may hold only if the request did).

Placeholders are put in where values are generated and resolved just before a request is sent: so the same test case can be
played again after the thing that it deleted was made anew under another id.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import schemathesis
from hypothesis import strategies as st

FILE = pathlib.Path(os.environ["FUZZ_WORLD"])
_PLACEHOLDER = re.compile(r"fuzz\w+x")
_world: dict[str, Any] = {}
_read_at = 0


def world() -> dict[str, Any]:
    """The contents of the file, read again when it has changed."""
    global _world, _read_at
    changed = FILE.stat().st_mtime_ns
    if changed != _read_at:
        _world, _read_at = json.loads(FILE.read_text()), changed
    return _world


def _words(*kinds: str) -> st.SearchStrategy[str]:
    known = world()["parameters"]
    return st.sampled_from([word for kind in kinds for word in known[kind]])


# formats of our schemas -------------------------------------------------------------------------------------------------
schemathesis.openapi.format("uuid", st.one_of(st.uuids().map(str), _words("server_id", "volume_id", "group_id", "image_id",
                                                                          "network_id", "port_id")))
schemathesis.openapi.format("base64", st.sampled_from(["", "aGVsbG8=", "IyEvYmluL3NoCg==", "/+8=", "YQ"]))
schemathesis.openapi.format("name", st.one_of(st.sampled_from(["a", "web-1", "Ж 雪", "x" * 255, "'; --", "%s%n", "a/b?c#d"]),
                                              st.text(min_size=1, max_size=30)))
schemathesis.openapi.format("az_name", st.sampled_from(["nova", "az1", "nova:node", "internal"]))
schemathesis.openapi.format("printable", st.sampled_from(["", " ", "a text", "Ж 雪", "a\nb", "x" * 255, "'; --"]))
schemathesis.openapi.format("padded_name", st.sampled_from(["a", " a ", " ", "Ж 雪", "x" * 255]))
schemathesis.openapi.format("regex", st.sampled_from([".*", "a|b", "[", "(a+)+$", "^web", "*", "(?P<x>"]))


# path parameters --------------------------------------------------------------------------------------------------------
@schemathesis.hook
def flatmap_path_parameters(context: Any, path_parameters: dict[str, Any] | None) -> st.SearchStrategy[Any]:
    """Most of the time, ids of things that exist: ours and others'."""
    if not path_parameters:
        return st.just(path_parameters)
    known = world()["parameters"]
    parts = {name: st.sampled_from([*known[name], *known[name], value]) if name in known else st.just(value)
             for name, value in path_parameters.items()}
    return st.fixed_dictionaries(parts)


def resolve(value: Any, ids: dict[str, str]) -> Any:
    """``value`` with ids in place of placeholders."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda match: ids.get(match[0], match[0]), value)
    if isinstance(value, list):
        return [resolve(item, ids) for item in value]
    if isinstance(value, dict):
        return {resolve(key, ids): resolve(item, ids) for key, item in value.items()}
    return value


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Resolve the placeholders."""
    ids = world()["ids"]
    case.path_parameters = resolve(case.path_parameters, ids)
    case.query = resolve(case.query, ids)
    if isinstance(case.body, (str, list, dict)):
        case.body = resolve(case.body, ids)


# checks -----------------------------------------------------------------------------------------------------------------
@schemathesis.check
def no_data_of_others(ctx: Any, response: Any, case: Any) -> None:
    """No answer holds what only another project may see."""
    known = world()
    text = response.text
    for secret in known["secrets"]:
        assert secret not in text, f"the answer holds another project's data: {secret}"
    if response.status_code >= 300:
        return      # a 404 names what was asked for
    asked = f"{response.request.url} {response.request.body!r}"
    for foreign in known["foreign"]:
        assert foreign not in text or foreign in asked, f"the answer holds the id of another project's thing: {foreign}"


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Not a failure: an action without an answer. OpenAPI cannot say that one of the actions answers and the other does not."""
    return not (case.path.endswith("/action") and response.status_code == 202 and not response.content)
