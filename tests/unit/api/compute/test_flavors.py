"""/flavors: views by microversion, filters, paging, rights."""
import pytest

from nova_lite.db import flavors
from tests.unit.api.compute.conftest import assert_like_sample, sample_versions

NEW = {"name": "test_flavor", "ram": 1024, "vcpus": 2, "disk": 10, "id": "10"}


def names(answer):
    return [flavor["name"] for flavor in answer["flavors"]]


@pytest.mark.parametrize("version", sample_versions("flavors/flavors-detail-resp"))
def test_views_have_the_keys_of_the_samples(cloud, admin, version):
    cloud.add_flavor("m1.tiny", description="text", extra_specs={"hw:numa_nodes": "1"})
    admin = admin.at(version)
    assert_like_sample(admin.get("/flavors"), "flavors/flavors-list-resp", version)
    assert_like_sample(admin.get("/flavors/detail"), "flavors/flavors-detail-resp", version)
    assert_like_sample(admin.get("/flavors/m1.tiny"), "flavors/flavor-get-resp", version)
    assert_like_sample(admin.post("/flavors", {"flavor": NEW}), "flavor-manage/flavor-create-post-resp", version)


@pytest.mark.parametrize("version", sample_versions("flavor-manage/flavor-update-resp"))
def test_update_changes_the_description(cloud, admin, version):
    cloud.add_flavor()
    answer = admin.at(version).put("/flavors/m1.tiny", {"flavor": {"description": "other"}})
    assert_like_sample(answer, "flavor-manage/flavor-update-resp", version)
    assert admin.at(version).get("/flavors/m1.tiny")["flavor"]["description"] == "other"


def test_values_of_a_new_flavor(admin):
    body = {"flavor": {"name": "big", "ram": "2048", "vcpus": "4", "disk": "20", "swap": 64, "rxtx_factor": 2.0,
                       "OS-FLV-EXT-DATA:ephemeral": 5, "os-flavor-access:is_public": "false"}}
    flavor = admin.post("/flavors", body)["flavor"]
    assert {key: flavor[key] for key in flavor if key not in ("id", "links")} == {
        "name": "big", "ram": 2048, "vcpus": 4, "disk": 20, "swap": 64, "rxtx_factor": 2.0, "OS-FLV-DISABLED:disabled": False,
        "OS-FLV-EXT-DATA:ephemeral": 5, "os-flavor-access:is_public": False}
    assert len(flavor["id"]) == 36
    assert flavor["links"][0] == {"rel": "self", "href": f"http://localhost:8774/v2.1/flavors/{flavor['id']}"}
    assert flavor["links"][1] == {"rel": "bookmark", "href": f"http://localhost:8774/flavors/{flavor['id']}"}


def test_no_swap_is_an_empty_string_until_2_74(cloud, admin):
    cloud.add_flavor()
    assert admin.at("2.74").get("/flavors/m1.tiny")["flavor"]["swap"] == ""
    assert admin.at("2.75").get("/flavors/m1.tiny")["flavor"]["swap"] == 0


def test_name_and_id_are_taken_once(admin):
    admin.post("/flavors", {"flavor": NEW})
    assert admin.fault("POST", "/flavors", 409, {"flavor": NEW | {"name": "x"}}) == "Flavor with ID 10 already exists."
    assert admin.fault("POST", "/flavors", 409, {"flavor": NEW | {"id": "11"}}) == \
        "Flavor with name test_flavor already exists."


@pytest.mark.parametrize("change", [
    {"ram": 0}, {"ram": "x"}, {"ram": 2 ** 31}, {"vcpus": -1}, {"disk": -1}, {"name": ""}, {"name": " x"}, {"name": "x" * 256},
    {"id": "a/b"}, {"swap": -1}, {"rxtx_factor": 0}, {"rxtx_factor": "-1"}, {"os-flavor-access:is_public": "maybe"},
    {"unknown": 1}, {"description": "too early"}, {"OS-FLV-EXT-DATA:ephemeral": None}])
def test_bad_values_are_refused(admin, change):
    assert admin.fault("POST", "/flavors", 400, {"flavor": NEW | change})


def test_fields_of_newer_and_older_microversions(admin):
    with_text = {"flavor": NEW | {"description": "text"}}
    assert admin.at("2.55").post("/flavors", with_text)["flavor"]["description"] == "text"
    assert admin.at("2.102").fault("POST", "/flavors", 400, {"flavor": NEW | {"rxtx_factor": 1.0}})
    assert admin.at("2.54").call("PUT", "/flavors/10", {"flavor": {"description": "x"}}).status_code == 404


def test_delete(cloud, admin):
    cloud.add_flavor()
    admin.delete("/flavors/m1.tiny", 202)
    assert admin.fault("GET", "/flavors/m1.tiny", 404) == "Flavor m1.tiny could not be found."
    admin.delete("/flavors/m1.tiny", 404)


def test_who_sees_private_flavors(cloud, admin, member):
    cloud.add_flavor("a")
    private = cloud.add_flavor("b", is_public=False)
    cloud.add_flavor("c", is_public=False)
    cloud.db.write(flavors.add_project, private, "project1")
    assert names(member.get("/flavors")) == ["a", "b"]
    assert names(member.get("/flavors?is_public=None")) == ["a", "b"]
    assert names(admin.get("/flavors")) == ["a"]
    assert names(admin.get("/flavors?is_public=None")) == ["a", "b", "c"]
    assert names(admin.get("/flavors?is_public=false")) == ["b", "c"]
    assert admin.fault("GET", "/flavors?is_public=perhaps", 400) == \
        "Invalid input received: Invalid is_public filter [perhaps]"
    member.get("/flavors/b")
    member.get("/flavors/c", 404)
    admin.get("/flavors/c")


def test_filters_and_order(cloud, member):
    cloud.add_flavor("a", memory_mb=100, root_gb=3)
    cloud.add_flavor("b", memory_mb=300, root_gb=2)
    cloud.add_flavor("c", memory_mb=200, root_gb=1)
    assert names(member.get("/flavors?minRam=200")) == ["b", "c"]
    assert names(member.get("/flavors?minDisk=2")) == ["a", "b"]
    assert names(member.get("/flavors/detail?sort_key=memory_mb&sort_dir=desc")) == ["b", "c", "a"]
    assert member.fault("GET", "/flavors?minRam=much", 400) == "Invalid input received: Invalid minRam filter [much]"
    member.get("/flavors?sort_key=extra_specs", 400)
    assert names(member.get("/flavors?sort_key=vcpu_weight")) == names(member.get("/flavors?sort_key=id"))
    member.at("2.101").get("/flavors?sort_key=rxtx_factor")
    member.at("2.102").get("/flavors?sort_key=rxtx_factor", 400)
    member.get("/flavors?sort_dir=up", 400)


def test_name_filter_since_2_102(cloud, member):
    cloud.add_flavor("m1.small")
    cloud.add_flavor("m1.large")
    assert names(member.at("2.102").get("/flavors?name=small")) == ["m1.small"]
    assert names(member.at("2.74").get("/flavors?name=small")) == ["m1.large", "m1.small"]
    member.at("2.102").get("/flavors?nome=small", 400)


def test_pages_follow_each_other(cloud, member):
    for name in "abcde":
        cloud.add_flavor(name, memory_mb=100 if name in "bd" else 200, description=None if name == "a" else name)
    for query, whole in (("", "abcde"), ("&sort_key=memory_mb", "bdace"), ("&sort_key=memory_mb&sort_dir=desc", "ecadb"),
                         ("&sort_key=description", "abcde"), ("&sort_key=description&sort_dir=desc", "edcba")):
        seen, path = "", f"/flavors?limit=2{query}"
        while path:
            answer = member.get(path)
            seen += "".join(names(answer))
            link = answer.get("flavors_links")
            path = link[0]["href"].removeprefix("http://localhost:8774/v2.1") if link else None
        assert seen == whole
    assert member.fault("GET", "/flavors?marker=zzz", 400) == "marker [zzz] not found"
    member.get("/flavors?limit=-1", 400)


def test_members_may_not_change_flavors(cloud, member):
    cloud.add_flavor()
    member.post("/flavors", {"flavor": NEW}, 403)
    member.delete("/flavors/m1.tiny", 403)
    member.at("2.55").put("/flavors/m1.tiny", {"flavor": {"description": "x"}}, 403)


def test_extra_specs_are_shown_to_those_who_may_list_them(cloud):
    cloud.add_flavor(extra_specs={"hw:numa_nodes": "1"})
    stranger = cloud.client(roles=("nothing",), version="2.61")
    assert "extra_specs" not in stranger.get("/flavors/m1.tiny")["flavor"]


def test_a_list_takes_one_statement(cloud, member):
    for number in range(5):
        cloud.add_flavor(f"f{number}", extra_specs={"hw:numa_nodes": "1"})
    with cloud.statements() as seen:
        member.at("2.96").get("/flavors/detail")
    assert len([statement for statement in seen if statement.startswith("SELECT")]) == 1
