"""/os-volumes and /os-snapshots until 2.35, on volumes in local files."""
import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import SAMPLES, assert_like_sample, key_paths

UNKNOWN = "11111111-2222-3333-4444-555555555555"
OWNER = RequestContext(user_id="fake", project_id="project1", roles=["member"], overwrite=False)
BODY = {"volume": {"size": 1, "display_name": "data", "display_description": "text", "metadata": {"a": 1}}}


@pytest.fixture
def volume(member):
    return member.post("/os-volumes", BODY)["volume"]["id"]


@pytest.fixture
def attached(cloud, volume):
    """The volume, in use by a server; the server."""
    driver = cloud.services.volume
    attachment = driver.reserve(OWNER, volume, UNKNOWN).id
    driver.connect(OWNER, attachment, {"host": "host1"})
    driver.complete(OWNER, attachment)
    return UNKNOWN


def test_create(cloud, member):
    response = member.call("POST", "/os-volumes", BODY)
    made = response.json["volume"]
    assert response.status_code == 200
    assert response.headers["Location"] == f"http://localhost:8774/v2.1/os-volumes/{made['id']}"
    assert made.pop("createdAt")
    assert made == {"id": made["id"], "status": "available", "size": 1, "availabilityZone": "nova", "attachments": [{}],
                    "displayName": "data", "displayDescription": "text", "volumeType": "local", "snapshotId": None,
                    "metadata": {"a": "1"}}
    small = member.post("/os-volumes", {"volume": {"size": "2"}})["volume"]
    assert (small["size"], small["displayName"]) == (2, "")


def test_views_have_the_keys_of_the_samples(member, volume, attached):
    for path, sample in ((f"/os-volumes/{volume}", "get"), ("/os-volumes", "index"), ("/os-volumes/detail", "detail")):
        answer = member.get(path)
        # the device is Nova's guess, which the Block Storage service need not know
        shown = key_paths(answer) | {f"{'volume' if sample == 'get' else 'volumes[]'}.attachments[].device"}
        one = answer.get("volume") or answer["volumes"][0]
        assert one["attachments"] == [{"id": volume, "volumeId": volume, "serverId": attached}]
        assert one["metadata"] == {"a": "1"}
        assert shown == set(SAMPLES[f"os-volumes/os-volumes-{sample}-resp"]["2.1"])


def test_delete(member, volume):
    member.delete(f"/os-volumes/{volume}", 202)
    member.get(f"/os-volumes/{volume}", 404)
    assert UNKNOWN in member.fault("DELETE", f"/os-volumes/{UNKNOWN}", 404)


def test_a_volume_in_use_stays(member, volume, attached):
    member.delete(f"/os-volumes/{volume}", 400)
    assert member.get(f"/os-volumes/{volume}")["volume"]["status"] == "in-use"


def test_slices(cloud, member, volume):
    second = member.post("/os-volumes", BODY)["volume"]["id"]
    for path in ("/os-volumes", "/os-volumes/detail"):
        assert [one["id"] for one in member.get(f"{path}?limit=1")["volumes"]] == [second]
        assert [one["id"] for one in member.get(f"{path}?limit=1&offset=1")["volumes"]] == [volume]
        assert len(member.get(f"{path}?limit=0")["volumes"]) == 2
        member.get(f"{path}?offset=x", 400)
    assert cloud.client("x", "project2").get("/os-volumes") == {"volumes": []}
    cloud.client("x", "project2").get(f"/os-volumes/{volume}", 404)


@pytest.mark.parametrize("values", [{"size": 0}, {"size": "x"}, {"size": None}, {"size": -1}, {"size": 1.5}, {"unknown": 1},
                                    {"metadata": []}, {"display_name": 5}, {"size": "9" * 30}])
def test_bad_volumes(member, values):
    member.post("/os-volumes", {"volume": {**BODY["volume"], **values}}, 400)


def test_snapshots(member, volume):
    body = {"snapshot": {"volume_id": volume, "display_name": "before", "display_description": "text"}}
    made = member.post("/os-snapshots", body)
    assert_like_sample(made, "os-snapshots/snapshot-create-resp", "2.1")
    snapshot = made["snapshot"]
    assert (snapshot["volumeId"], snapshot["size"], snapshot["displayName"], snapshot["displayDescription"]) == (
        volume, 1, "before", "text")
    path = f"/os-snapshots/{snapshot['id']}"
    assert_like_sample(member.get(path), "os-snapshots/snapshots-show-resp", "2.1")
    assert_like_sample(member.get("/os-snapshots"), "os-snapshots/snapshots-list-resp", "2.1")
    assert_like_sample(member.get("/os-snapshots/detail"), "os-snapshots/snapshots-detail-resp", "2.1")
    copy = member.post("/os-volumes", {"volume": {"size": 1, "snapshot_id": snapshot["id"]}})["volume"]
    assert copy["snapshotId"] == snapshot["id"]
    member.delete(path, 202)
    assert member.get("/os-snapshots") == {"snapshots": []}
    member.get(path, 404)
    member.delete(path, 404)
    member.post("/os-volumes", {"volume": {"size": 1, "snapshot_id": snapshot["id"]}}, 404)


def test_snapshots_that_are_refused(member, volume, attached):
    body = {"snapshot": {"volume_id": volume}}
    member.post("/os-snapshots", body, 400)
    member.post("/os-snapshots", {"snapshot": {"volume_id": volume, "force": "True"}})
    member.post("/os-snapshots", {"snapshot": {"volume_id": UNKNOWN}}, 404)
    for values in ({"force": "perhaps"}, {"volume_id": None}, {"x": 1}):
        member.post("/os-snapshots", {"snapshot": {**body["snapshot"], **values}}, 400)


def test_until_2_35_and_for_whom(cloud, member, volume):
    reader = cloud.client(roles=("reader",))
    for path in ("/os-volumes", "/os-volumes/detail", f"/os-volumes/{volume}", "/os-snapshots", "/os-snapshots/detail"):
        reader.at("2.35").get(path)
        member.at("2.36").get(path, 404)
    for method, path, body in (("POST", "/os-volumes", BODY), ("DELETE", f"/os-volumes/{volume}", None),
                               ("POST", "/os-snapshots", {"snapshot": {"volume_id": volume}}),
                               ("DELETE", f"/os-snapshots/{UNKNOWN}", None)):
        reader.ask(method, path, body, 403)
        member.at("2.36").ask(method, path, body, 404)
