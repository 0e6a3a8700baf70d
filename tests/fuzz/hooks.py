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
import sys
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


# values that nobody should send ------------------------------------------------------------------------------------------
sys.set_int_max_str_digits(0)       # numbers of any length are to be sent


def _deep(levels: int) -> Any:
    value: Any = 1
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


_TEXTS = ["x" * 300, "x" * 60000, "\x00", "a\x1b[31m\r\nb\x7f", "\u202e\u2028", "9" * 10000, "-" * 300, "%00%ff%0a",
          "../" * 50, "[a]*" * 20 + "b$", "(a+)+$", "[" * 200, "\U0001f4a9" * 100, "1e999", "NaN", "\u0660", "{}", "\x85"]
_ODD = [*_TEXTS, "\ud800", 10 ** 20, -10 ** 20, 2 ** 63, 10 ** 4000, 10 ** 10000, 1e308, -0.0, None, True, [], {}, [[]],
        [None] * 1000, {"x" * 300: 1}, {"\x00": "\x00"}, {"": ""}, _deep(30), _deep(63), _deep(65), _deep(400)]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document, the whole of it first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in inner for found in _leaves(item, (*path, key)))]


def _replaced(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    if not path:
        return odd
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _replaced(value[path[0]], path[1:], odd)
    return copied


@schemathesis.hook
def flatmap_body(context: Any, body: Any) -> st.SearchStrategy[Any]:
    """One body in five has one value in its place that nobody should send."""
    if not isinstance(body, (dict, list)) or not body:
        return st.just(body)
    odd = st.builds(_replaced, st.just(body), st.sampled_from(_leaves(body)[1:]), st.sampled_from(_ODD))
    return st.integers(0, 4).flatmap(lambda number: odd if number == 4 else st.just(body))


@schemathesis.hook
def flatmap_query(context: Any, query: dict[str, Any] | None) -> st.SearchStrategy[Any]:
    """So has one query in five."""
    if not query:
        return st.just(query)
    odd = st.builds(_replaced, st.just(query), st.sampled_from([(name,) for name in query]),
                    st.sampled_from([_TEXTS[0], *_TEXTS[2:]]))       # no URL is so long
    return st.integers(0, 4).flatmap(lambda number: odd if number == 4 else st.just(query))


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
