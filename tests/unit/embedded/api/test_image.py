"""The embedded Image API over WSGI: what a field may be, who may show an image to all, and ids of deleted images."""
from __future__ import annotations

import os
import uuid

import pytest
import webob

from nova_lite import conf as conf_module
from nova_lite.embedded.api import image as image_api
from nova_lite.embedded.identity.local import LocalIdentity

USERS = {"admin": ("admin", ["admin", "member", "reader"]), "demo": ("demo", ["member", "reader"]),
         "other": ("other", ["member", "reader"])}


class Api:
    """Asks as one user; the answer's JSON, of this status."""

    def __init__(self, app, token):
        self.app, self.token = app, token

    def __call__(self, method, path, body=None, status=200):
        request = webob.Request.blank(f"/v2/images{path}", method=method, headers={"X-Auth-Token": self.token})
        if body is not None:
            request.json = body
        answer = request.get_response(self.app)
        assert answer.status_code == status, answer.text
        return answer.json if answer.body else None

    def patch(self, image, name, value, status=200):
        return self("PATCH", f"/{image}", [{"op": "replace", "path": f"/{name}", "value": value}], status)


@pytest.fixture
def users(tmp_path):
    conf = conf_module.load([], config_files=[], state_path=str(tmp_path), image__local_path=str(tmp_path / "images"))
    identity = LocalIdentity(f"{tmp_path}/identity")
    passwords = identity.ensure(USERS)
    app = image_api.factory(conf)
    return {name: Api(app, identity.authenticate(name, passwords[name], project)[0]) for name, (project, _) in USERS.items()}


@pytest.mark.parametrize(("name", "value"), [
    ("min_disk", "abc"), ("min_disk", "1"), ("min_disk", -1), ("min_disk", 1.5), ("min_disk", True), ("min_disk", None),
    ("min_disk", 2 ** 31), ("min_ram", []), ("min_ram", {}), ("name", 7), ("name", "x" * 256), ("name", "a\0b"),
    ("name", "\ud800"), ("visibility", "everybody"), ("visibility", []), ("disk_format", 1), ("container_format", ["bare"]),
    ("tags", "one"), ("tags", [1]), ("tags", {"a": "b"}), ("protected", "yes"), ("protected", 1), ("protected", None)])
def test_a_field_of_the_wrong_type_is_refused_by_its_name(users, name, value):
    demo = users["demo"]
    answer = demo("POST", "", {"name": "one", name: value}, 400)
    assert name in answer["error"]["message"]
    made = demo("POST", "", {"name": "one"}, 201)
    assert name in demo.patch(made["id"], name, value, 400)["error"]["message"]
    assert demo("GET", f"/{made['id']}") == made
    assert demo("GET", "")["images"] == [made]


def test_an_api_that_starts_removes_what_killed_ones_have_left(tmp_path):
    left = tmp_path / "images" / f"{uuid.uuid4()}.data"
    left.parent.mkdir()
    left.touch()
    os.utime(left, (1, 1))
    image_api.factory(conf_module.load([], config_files=[], state_path=str(tmp_path), image__local_path=str(left.parent)))
    assert not left.exists()


def test_properties_are_texts(users):
    demo = users["demo"]
    made = demo("POST", "", {"hw_cpu_cores": 2, "os_type": "linux", "flag": True, "more": ["x"]}, 201)
    assert (made["hw_cpu_cores"], made["os_type"], made["flag"], made["more"]) == ("2", "linux", "True", "['x']")
    assert demo.patch(made["id"], "hw_cpu_cores", 4)["hw_cpu_cores"] == "4"
    demo.patch(made["id"], "os_type", "a\0b", 400)
    demo("POST", "", {"a\0b": "x"}, 400)
    demo("POST", "", {"x" * 256: "x"}, 400)


def test_fields_that_may_be_null_are_empty_then(users):
    made = users["demo"]("POST", "", {"name": None, "disk_format": None, "container_format": None}, 201)
    assert (made["name"], made["disk_format"], made["container_format"]) == ("", "", "")


def test_a_field_is_not_removed(users):
    demo = users["demo"]
    made = demo("POST", "", {"name": "one", "mine": "x"}, 201)
    demo("PATCH", f"/{made['id']}", [{"op": "remove", "path": "/min_disk"}], 403)
    assert "mine" not in demo("PATCH", f"/{made['id']}", [{"op": "remove", "path": "/mine"}])


@pytest.mark.parametrize("visibility", ["public", "community"])
def test_only_an_admin_shows_an_image_to_all(users, visibility):
    demo, admin = users["demo"], users["admin"]
    assert visibility in demo("POST", "", {"visibility": visibility}, 403)["error"]["message"]
    made = demo("POST", "", {"name": "one"}, 201)["id"]
    demo.patch(made, "visibility", visibility, 403)
    users["other"]("GET", f"/{made}", status=404)
    assert demo.patch(made, "visibility", "shared")["visibility"] == "shared"
    assert admin.patch(made, "visibility", visibility)["visibility"] == visibility
    users["other"]("GET", f"/{made}")
    assert admin("POST", "", {"visibility": visibility}, 201)["visibility"] == visibility


def test_the_id_of_a_deleted_image_is_nobodys(users):
    demo, other, chosen = users["demo"], users["other"], str(uuid.uuid4())
    demo("POST", "", {"id": chosen, "name": "one"}, 201)
    demo("DELETE", f"/{chosen}", status=204)
    for user in (demo, other, users["admin"]):
        assert chosen in user("POST", "", {"id": chosen, "name": "two"}, 409)["error"]["message"]
        user("GET", f"/{chosen}", status=404)
        user("DELETE", f"/{chosen}", status=404)
        assert user("GET", "")["images"] == []
