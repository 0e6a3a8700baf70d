from __future__ import annotations

import json

import pytest

from nova_lite import json_in


@pytest.mark.parametrize("text", ["[" * 64 + "]" * 64, '{"a":' * 64 + "1" + "}" * 64, json.dumps(["[" * 100]),
                                  json.dumps([{}] * 1000)])
def test_what_is_read(text):
    assert json_in.loads(text) == json.loads(text)


@pytest.mark.parametrize("text", ["[" * 65 + "]" * 65, '{"a":' * 65 + "1" + "}" * 65, "[" * 900 + "]" * 900,
                                  '{"a":' * 100000 + "1" + "}" * 100000,
                                  json.dumps([*[{}] * 1000, *json.loads("[" * 65 + "]" * 65)]), "[", ""])
def test_what_is_no_json_or_too_deep(text):
    with pytest.raises(ValueError, match="."):
        json_in.loads(text)
