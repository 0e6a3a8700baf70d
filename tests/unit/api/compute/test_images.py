"""/images until 2.35 and their metadata until 2.38."""
import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import assert_like_sample

OWNER = RequestContext(user_id="fake", project_id="project1", roles=["member"], overwrite=False)


@pytest.fixture
def add(cloud):
    def add(name="cirros", **values):
        images = cloud.services.image
        values = {"name": name, "visibility": "private", "owner": "project1", "disk_format": "raw", **values}
        return images.upload(OWNER, images.create(OWNER, values).id, [b"x" * 10]).id
    return add


def test_views_have_the_keys_of_the_samples(member, add):
    image = add(properties={"auto_disk_config": "True", "architecture": "x86_64"})
    assert_like_sample(member.get("/images"), "images/images-list-get-resp", "2.1")
    assert_like_sample(member.get("/images/detail"), "images/images-details-get-resp", "2.1")
    answer = member.get(f"/images/{image}")
    assert_like_sample(answer, "images/image-get-resp", "2.1")
    assert answer["image"]["OS-DCF:diskConfig"] == "AUTO"
    assert answer["image"]["OS-EXT-IMG-SIZE:size"] == 10
    assert (answer["image"]["status"], answer["image"]["progress"]) == ("ACTIVE", 100)


def test_not_there(cloud, member, add):
    image = add()
    unknown = "11111111-2222-3333-4444-555555555555"
    assert member.fault("GET", f"/images/{unknown}", 404) == f"Image {unknown} could not be found."
    cloud.client("x", "project2").get(f"/images/{image}", 404)
    for path in ("/images", "/images/detail", f"/images/{image}"):
        member.at("2.35").get(path)
        member.at("2.36").get(path, 404)


def test_filters_and_pages(member, add):
    first, second = add("a", min_ram=100), add("b", min_disk=5, properties={"instance_uuid": "1234"})

    def ids(query):
        return {image["id"] for image in member.get(f"/images?{query}")["images"]}
    assert ids("name=a") == {first}
    assert ids("minRam=100") == {first}
    assert ids("minDisk=1") == {second}
    assert ids("status=ACTIVE") == {first, second}
    assert ids("status=SAVING") == set()
    assert ids("server=http://x/servers/1234") == {second}
    assert ids("type=snapshot") == {second}
    assert ids("property-instance_uuid=1234") == {second}
    assert ids("changes-since=2000-01-01T00:00:00Z") == {first, second}
    assert ids("changes-since=2200-01-01T00:00:00Z") == set()
    page = member.get("/images?limit=1")
    (one,) = page["images"]
    rest = member.get(page["images_links"][0]["href"].removeprefix("http://localhost:8774/v2.1"))
    assert {one["id"], rest["images"][0]["id"]} == {first, second}
    for query in ("minRam=x", "changes-since=x", "changes-since=0001-01-01T00:00:00%2B14:00", "marker=x", "limit=x"):
        member.get(f"/images?{query}", 400)


def test_a_snapshot_names_its_server(member, add):
    server = member.get(f"/images/{add(properties={'instance_uuid': '1234'})}")["image"]["server"]
    assert server["id"] == "1234"
    assert server["links"][0]["href"] == "http://localhost:8774/v2.1/servers/1234"


def test_delete(cloud, member, add):
    image, public = add(), add(visibility="public")
    cloud.client("x", "project2").delete(f"/images/{public}", 403)
    member.delete(f"/images/{image}")
    member.get(f"/images/{image}", 404)


def test_metadata(cloud, member, add):
    path = f"/images/{add(properties={'a': '1'}, visibility='public')}/metadata"
    assert member.get(path) == {"metadata": {"a": "1"}}
    assert member.post(path, {"metadata": {"b": "2"}}) == {"metadata": {"a": "1", "b": "2"}}
    assert member.put(path, {"metadata": {"c": "3"}}) == {"metadata": {"c": "3"}}
    assert member.put(f"{path}/d", {"meta": {"d": "4"}}) == {"meta": {"d": "4"}}
    assert member.get(f"{path}/d") == {"meta": {"d": "4"}}
    member.delete(f"{path}/c")
    assert member.get(path) == {"metadata": {"d": "4"}}
    assert member.fault("GET", f"{path}/c", 404) == "Metadata item was not found"
    member.delete(f"{path}/c", 404)
    assert member.fault("PUT", f"{path}/x", 400, {"meta": {"y": "1"}}) == "Request body and URI mismatch"
    member.post(path, {"metadata": {"x": 1}}, 400)
    cloud.client("x", "project2").post(path, {"metadata": {"x": "1"}}, 403)
    member.at("2.38").get(path)
    member.at("2.39").get(path, 404)


class TestQuota:
    @pytest.fixture
    def options(self):
        return {"quota__metadata_items": 1}

    def test_metadata_is_counted(self, member, add):
        path = f"/images/{add(properties={'a': '1'})}/metadata"
        assert member.fault("POST", path, 403, {"metadata": {"b": "2"}}) == "Maximum number of metadata items exceeds 1"
