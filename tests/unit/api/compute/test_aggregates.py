"""/os-aggregates and the zones that they make."""
import datetime

import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import assert_like_sample


@pytest.fixture
def hosts(cloud):
    for number in (1, 2):
        cloud.add_service(f"host{number}")


def make(admin, name, zone=None):
    body = {"name": name, **({"availability_zone": zone} if zone else {})}
    return f"/os-aggregates/{admin.post('/os-aggregates', {'aggregate': body})['aggregate']['id']}"


def add(admin, path, host="host1", status=200):
    return admin.post(f"{path}/action", {"add_host": {"host": host}}, status)


def remove(admin, path, host="host1", status=200):
    return admin.post(f"{path}/action", {"remove_host": {"host": host}}, status)


@pytest.mark.parametrize("version", ["2.1", "2.41"])
def test_views_have_the_keys_of_the_samples(admin, hosts, version):
    admin = admin.at(version)
    made = admin.post("/os-aggregates", {"aggregate": {"name": "name", "availability_zone": "london"}})
    assert_like_sample(made, "os-aggregates/aggregate-post-resp", version)
    assert_like_sample(add(admin, "/os-aggregates/1"), "os-aggregates/aggregates-add-host-post-resp", version)
    assert_like_sample(admin.get("/os-aggregates/1"), "os-aggregates/aggregates-get-resp", version)
    assert_like_sample(admin.get("/os-aggregates"), "os-aggregates/aggregates-list-get-resp", version)
    assert_like_sample(remove(admin, "/os-aggregates/1"), "os-aggregates/aggregates-remove-host-post-resp", version)
    answer = admin.put("/os-aggregates/1", {"aggregate": {"name": "newname", "availability_zone": "nova2"}})
    assert_like_sample(answer, "os-aggregates/aggregate-update-post-resp", version)
    assert answer["aggregate"]["metadata"] == {"availability_zone": "nova2"}
    answer = admin.post("/os-aggregates/1/action", {"set_metadata": {"metadata": {"key": "value"}}})
    assert_like_sample(answer, "os-aggregates/aggregates-metadata-post-resp", version)
    assert answer["aggregate"]["metadata"] == {"availability_zone": "nova2", "key": "value"}


def test_metadata_is_merged_and_null_removes(admin):
    path = make(admin, "a", "london")

    def put(**metadata):
        return admin.post(f"{path}/action", {"set_metadata": {"metadata": metadata}})["aggregate"]
    assert put(ssd="true", x="y")["metadata"] == {"availability_zone": "london", "ssd": "true", "x": "y"}
    assert put(x=None)["metadata"] == {"availability_zone": "london", "ssd": "true"}
    changed = put(availability_zone=None)
    assert (changed["metadata"], changed["availability_zone"]) == ({"ssd": "true"}, None)


def test_names_are_taken_once(admin):
    make(admin, "a")
    other = make(admin, "b")
    assert admin.fault("POST", "/os-aggregates", 409, {"aggregate": {"name": "a"}}) == "Aggregate a already exists."
    assert admin.fault("PUT", other, 409, {"aggregate": {"name": "a"}}) == "Aggregate a already exists."


def test_bad_input(admin, member, hosts):
    path = make(admin, "a")
    for body in ({"name": ""}, {"name": "x" * 256}, {}, {"name": "b", "availability_zone": "a:b"},
                 {"name": "b", "availability_zone": ""}, {"name": "b", "other": 1}):
        admin.post("/os-aggregates", {"aggregate": body}, 400)
    admin.put(path, {"aggregate": {}}, 400)
    for metadata in ({"a": 1}, {"a": "x" * 256}, {"a/b": "c"}, {"availability_zone": "a:b"}):
        admin.post(f"{path}/action", {"set_metadata": {"metadata": metadata}}, 400)
    admin.get("/os-aggregates/x", 400)
    admin.get("/os-aggregates/--1", 400)
    admin.get("/os-aggregates/-1", 404)
    assert admin.fault("GET", "/os-aggregates/99", 404) == "Aggregate 99 could not be found."
    add(admin, "/os-aggregates/99", status=404)
    admin.post(f"{path}/action", {"explode": {}}, 400)
    member.get("/os-aggregates", 403)
    member.post("/os-aggregates", {"aggregate": {"name": "x"}}, 403)
    add(member, path, status=403)


def test_hosts(admin, hosts):
    path = make(admin, "a")
    assert add(admin, path)["aggregate"]["hosts"] == ["host1"]
    assert add(admin, path, status=409)["conflictingRequest"]["message"] == "Aggregate 1 already has host host1."
    assert add(admin, path, "nowhere", 404)["itemNotFound"]["message"] == "Compute host nowhere could not be found."
    assert "Host aggregate is not empty" in admin.fault("DELETE", path, 400)
    assert remove(admin, path)["aggregate"]["hosts"] == []
    assert remove(admin, path, status=404)["itemNotFound"]["message"] == "Aggregate 1 has no host host1."
    admin.delete(path, 200)
    admin.get(path, 404)


def test_a_host_is_in_one_zone(admin, hosts):
    london, paris, plain = make(admin, "l", "london"), make(admin, "p", "paris"), make(admin, "n")
    london2 = make(admin, "l2", "london")
    add(admin, london)
    add(admin, london2)
    add(admin, plain)
    assert "already in availability zone(s) ['london']" in add(admin, paris, status=409)["conflictingRequest"]["message"]
    zone = {"aggregate": {"availability_zone": "paris"}}
    assert "already in availability zone(s)" in admin.fault("PUT", plain, 400, zone)
    metadata = {"set_metadata": {"metadata": {"availability_zone": "paris"}}}
    assert "already in availability zone(s)" in admin.fault("POST", f"{plain}/action", 400, metadata)


def test_a_host_with_servers_stays_in_its_zone(cloud, admin, hosts):
    london, plain = make(admin, "l", "london"), make(admin, "n")
    add(admin, london)
    server = cloud.add_server(host="host1", node="host1")
    cloud.add_server(host="host2", node="host2")
    for answer in (remove(admin, london, status=409), add(admin, london, "host2", 409)):
        assert "One or more hosts contain instances in this zone" in answer["conflictingRequest"]["message"]
    assert "contain instances" in admin.fault("PUT", london, 400, {"aggregate": {"availability_zone": "rome"}})
    admin.put(london, {"aggregate": {"name": "renamed", "availability_zone": "london"}})
    add(admin, plain)       # no zone: no harm
    remove(admin, plain)
    london2 = make(admin, "l2", "london")
    add(admin, london2)     # the same zone
    remove(admin, london)   # it stays in london
    cloud.delete_server(server)
    remove(admin, london2)


def test_a_host_with_a_claim_stays_in_its_zone(cloud, admin, hosts):
    path = make(admin, "l", "london")
    cloud.add_claim(cloud.add_node("host1"), "11111111-2222-3333-4444-555555555555")
    add(admin, path, status=409)


def test_a_list_takes_two_statements(cloud, admin, hosts):
    for number in range(3):
        add(admin, make(admin, f"a{number}"))
    with cloud.statements() as seen:
        assert len(admin.get("/os-aggregates")["aggregates"]) == 3
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 2


def _image(cloud):
    context = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True, overwrite=False)
    made = cloud.services.image.create(context, {"name": "tiny", "visibility": "public"})
    return cloud.services.image.upload(context, made.id, [b"x"]).id


def test_hosts_that_are_up_fetch_images(cloud, admin, hosts, monkeypatch):
    cast = []
    monkeypatch.setattr(cloud.services.compute.wakeups, "send",
                        lambda method, _context, *arguments: cast.append((method.__name__, *arguments)))
    cloud.add_service("down", last_seen_at=datetime.datetime(2020, 1, 1))
    path, image = make(admin, "n"), _image(cloud)
    for host in ("host1", "host2", "down"):
        add(admin, path, host)
    admin.at("2.81").post(f"{path}/images", {"cache": [{"id": image}]}, 202)
    assert cast == [("cache_images", "host1", [image]), ("cache_images", "host2", [image])]


def test_images_that_cannot_be_fetched(cloud, admin, hosts, member):
    admin = admin.at("2.81")
    path, image, unknown = make(admin, "n"), _image(cloud), "11111111-2222-4333-8444-555555555555"
    for body in ({"cache": [{"id": unknown}]}, {"cache": [{"id": image}, {"id": image}]}, {"cache": []}, {},
                 {"cache": [{"id": "x"}]}, {"cache": [{"id": image, "more": 1}]}):
        assert admin.fault("POST", f"{path}/images", 400, body)
    assert admin.fault("POST", "/os-aggregates/77/images", 404, {"cache": [{"id": image}]})
    assert admin.at("2.80").fault("POST", f"{path}/images", 404, {"cache": [{"id": image}]})
    assert member.at("2.81").fault("POST", f"{path}/images", 403, {"cache": [{"id": image}]})


@pytest.mark.parametrize(("key", "where"), [
    ("cpu_allocation_ratio", "[compute]"), ("ram_allocation_ratio", "[compute]"), ("disk_allocation_ratio", "[compute]"),
    ("ram_weight_multiplier", "[scheduler] weight_multipliers"), ("filter_tenant_id", "no filter"),
    ("filter_tenant_id2", "no filter"), ("max_instances_per_host", "no filter"), ("max_io_ops_per_host", "no filter"),
    ("trait:HW_CPU_X86_AVX", "no Placement")])
def test_what_would_have_no_effect_is_refused(admin, key, where):
    path = f"/os-aggregates/{admin.post('/os-aggregates', {'aggregate': {'name': 'a'}})['aggregate']['id']}/action"
    said = admin.fault("POST", path, 400, {"set_metadata": {"metadata": {key: "8", "ssd": "true"}}})
    assert f"{key}=8" in said
    assert where in said
    assert admin.post(path, {"set_metadata": {"metadata": {key: None}}})["aggregate"]["metadata"] == {}
