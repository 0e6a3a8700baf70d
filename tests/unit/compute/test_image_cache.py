"""A host fetches images when it is told to, and builds do not care whether it could."""
from __future__ import annotations

import time

import pytest

from nova_lite.context import RequestContext
from nova_lite.objects import states
from tests.unit.conductor.conftest import make_cloud

__all__ = ["make_cloud"]
CONTEXT = RequestContext(user_id="admin", project_id="admin", roles=["admin"], is_admin=True, overwrite=False)


@pytest.fixture
def cloud(make_cloud):
    return make_cloud("h1", image__driver="local", fake__fetch_images=True)


def _image(cloud, name):
    images = cloud.hosts["h1"].host.image
    return images.upload(CONTEXT, images.create(CONTEXT, {"name": name, "visibility": "public"}).id, [b"x"]).id


def test_images_are_fetched_once(cloud):
    one, two = _image(cloud, "one"), _image(cloud, "two")
    fetched = cloud.hosts["h1"].host.driver._fetched
    cloud.conductor.compute.cache_images(CONTEXT, "h1", [one, "nothing", two])
    cloud.wait_for(lambda: fetched == {one, two})
    cloud.hosts["h1"].host.image.delete(CONTEXT, one)
    cloud.conductor.compute.cache_images(CONTEXT, "h1", [one])
    time.sleep(0.1)
    assert cloud.wait(cloud.build()[0], states.ACTIVE)
