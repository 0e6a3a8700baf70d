"""/os-quota-sets, /os-quota-class-sets and /limits."""
import pytest

from tests.unit.api.compute.conftest import assert_like_sample

VERSIONS = ["2.1", "2.36", "2.57"]
P = "/os-quota-sets/project1"


@pytest.mark.parametrize("version", VERSIONS)
def test_quota_sets_have_the_keys_of_the_samples(admin, member, version):
    for path, sample in ((P, "quotas-show-get-resp"), (f"{P}/defaults", "quotas-show-defaults-get-resp"),
                         (f"{P}/detail", "quotas-show-detail-get-resp"), (f"{P}?user_id=u", "user-quotas-show-get-resp")):
        assert_like_sample(member.at(version).get(path), f"os-quota-sets/{sample}", version)
    answer = admin.at(version).put(P, {"quota_set": {"force": "True", "instances": 45}})
    assert_like_sample(answer, "os-quota-sets/quotas-update-force-post-resp", version)
    assert answer["quota_set"]["instances"] == 45


@pytest.mark.parametrize("version", ["2.1", "2.50", "2.57"])
def test_class_sets_have_the_keys_of_the_samples(admin, version):
    admin = admin.at(version)
    path = "/os-quota-class-sets/default"
    assert_like_sample(admin.get(path), "os-quota-class-sets/quota-classes-show-get-resp", version)
    answer = admin.put(path, {"quota_class_set": {"cores": 50}})
    assert_like_sample(answer, "os-quota-class-sets/quota-classes-update-post-resp", version)


@pytest.mark.parametrize("version", ["2.1", "2.36", "2.39", "2.57"])
def test_limits_have_the_keys_of_the_samples(member, version):
    assert_like_sample(member.at(version).get("/limits"), "limits/limit-get-resp", version)


def test_defaults_are_those_of_the_options(member):
    quotas = member.at("2.57").get(P)["quota_set"]
    assert quotas == {"id": "project1", "cores": 20, "instances": 10, "key_pairs": 100, "metadata_items": 128, "ram": 51200,
                      "server_groups": 10, "server_group_members": 10}
    assert member.get(P)["quota_set"]["floating_ips"] == -1


def test_class_then_project_then_user(admin, member):
    admin.put("/os-quota-class-sets/default", {"quota_class_set": {"cores": 50, "ram": 1000}})
    assert member.get(P)["quota_set"]["cores"] == 50
    admin.put(P, {"quota_set": {"cores": 60}})
    assert member.get(P)["quota_set"]["cores"] == 60
    assert member.get(f"{P}/defaults")["quota_set"]["cores"] == 50
    assert admin.get("/os-quota-sets/project2")["quota_set"]["cores"] == 50
    admin.put(f"{P}?user_id=fake", {"quota_set": {"cores": 5}})
    assert member.get(f"{P}?user_id=fake")["quota_set"]["cores"] == 5
    assert member.get(f"{P}?user_id=fake")["quota_set"]["ram"] == 1000
    assert member.get(P)["quota_set"]["cores"] == 60
    admin.delete(f"{P}?user_id=fake", 202)
    assert member.get(f"{P}?user_id=fake")["quota_set"]["cores"] == 60
    admin.put(f"{P}?user_id=fake", {"quota_set": {"cores": 5}})
    admin.delete(P, 202)
    assert member.get(P)["quota_set"]["cores"] == 50
    assert member.get(f"{P}?user_id=fake")["quota_set"]["cores"] == 50


def test_a_class_keeps_what_is_said_of_networks(admin):
    path = "/os-quota-class-sets/default"
    assert admin.at("2.1").put(path, {"quota_class_set": {"fixed_ips": 99}})["quota_class_set"]["fixed_ips"] == 99
    assert admin.at("2.1").get(path)["quota_class_set"]["fixed_ips"] == 99


def test_a_project_keeps_what_is_said_of_networks(admin, member):
    sent = {"fixed_ips": 9, "floating_ips": 8, "security_groups": 7, "security_group_rules": 6}
    shown = admin.at("2.35").put(P, {"quota_set": sent})["quota_set"]
    assert {name: shown[name] for name in sent} == sent
    shown = member.at("2.1").get(P)["quota_set"]
    assert {name: shown[name] for name in sent} == sent
    assert not set(sent) & set(member.at("2.36").get(P)["quota_set"])
    admin.at("2.36").put(P, {"quota_set": sent}, 400)


def test_the_limits_show_what_is_said_of_networks(admin, member):
    def shown():
        absolute = member.at("2.35").get("/limits")["limits"]["absolute"]
        return [absolute[name] for name in ("maxTotalFloatingIps", "maxSecurityGroups", "maxSecurityGroupRules")]
    assert shown() == [-1, -1, -1]
    admin.put("/os-quota-class-sets/default", {"quota_class_set": {"floating_ips": 8, "security_groups": 7}})
    assert shown() == [8, 7, -1]
    admin.put(P, {"quota_set": {"security_groups": 3, "security_group_rules": 2}})
    assert shown() == [8, 3, 2]
    assert "maxSecurityGroups" not in member.at("2.36").get("/limits")["limits"]["absolute"]


@pytest.mark.parametrize("version", ["2.1", "2.49", "2.50", "2.57"])
def test_a_class_takes_server_groups_at_each_version(admin, member, version):
    """Horizon sends them all."""
    path, sent = "/os-quota-class-sets/default", {"server_groups": 3, "server_group_members": 4}
    shown = admin.at(version).put(path, {"quota_class_set": sent})["quota_class_set"]
    assert set(sent) & set(shown) == (set(sent) if version >= "2.50" else set())
    assert {name: member.get(P)["quota_set"][name] for name in sent} == sent


def test_another_class_changes_nothing(admin, member):
    admin.put("/os-quota-class-sets/gold", {"quota_class_set": {"cores": 99}})
    assert admin.get("/os-quota-class-sets/gold")["quota_class_set"]["cores"] == 99
    assert admin.get("/os-quota-class-sets/gold")["quota_class_set"]["id"] == "gold"
    admin.put("/os-quota-class-sets/default", {"quota_class_set": {"instances": 3}})
    assert admin.get("/os-quota-class-sets/gold")["quota_class_set"]["instances"] == 10     # the option's, as in Nova
    assert member.get(P)["quota_set"]["cores"] == 20


def test_usage(cloud, member):
    cloud.add_server()
    cloud.add_server(user_id="other")
    cloud.add_server(project_id="project2")
    cloud.delete_server(cloud.add_server())
    member.post("/os-server-groups", {"server_group": {"name": "g", "policies": ["affinity"]}})
    detail = member.get(f"{P}/detail")["quota_set"]
    assert detail["instances"] == {"limit": 10, "in_use": 2, "reserved": 0}
    assert (detail["cores"]["in_use"], detail["ram"]["in_use"], detail["server_groups"]["in_use"]) == (2, 1024, 1)
    assert member.get(f"{P}/detail?user_id=other")["quota_set"]["instances"]["in_use"] == 1
    absolute = member.get("/limits")["limits"]["absolute"]
    assert {name: absolute[name] for name in absolute if name.startswith("total")} == {
        "totalCoresUsed": 2, "totalInstancesUsed": 2, "totalRAMUsed": 1024, "totalServerGroupsUsed": 1,
        "totalSecurityGroupsUsed": 0, "totalFloatingIpsUsed": 0}
    assert (absolute["maxTotalCores"], absolute["maxPersonalitySize"], absolute["maxImageMeta"]) == (20, 10240, 128)


def test_limits_below_usage_need_force(cloud, admin):
    cloud.add_server()
    cloud.add_server()
    assert admin.fault("PUT", P, 400, {"quota_set": {"instances": 1}}) == \
        "Quota limit 1 for instances must be greater than or equal to already used and reserved 2."
    assert admin.put(P, {"quota_set": {"instances": 1, "force": True}})["quota_set"]["instances"] == 1
    assert admin.put(P, {"quota_set": {"instances": -1}})["quota_set"]["instances"] == -1


def test_a_user_gets_no_more_than_the_project(admin):
    path = f"{P}?user_id=u"
    for value in (21, -1):
        assert admin.fault("PUT", path, 400, {"quota_set": {"cores": value}}) == \
            f"Quota limit {value} for cores must be less than or equal to 20."
    admin.put(path, {"quota_set": {"cores": 20}})
    admin.put(path, {"quota_set": {"cores": 21, "force": True}})


@pytest.mark.parametrize("body", [{"cores": -2}, {"cores": "x"}, {"cores": 2 ** 31}, {"cores": None}, {"unknown": 1},
                                  {"cores": 1.5}, {"force": "maybe"}])
def test_bad_limits(admin, body):
    admin.put(P, {"quota_set": body}, 400)


def test_resources_by_microversion(admin):
    admin.put(P, {"quota_set": {"floating_ips": 5, "injected_files": 3}})
    assert admin.get(P)["quota_set"]["injected_files"] == 3
    admin.at("2.36").put(P, {"quota_set": {"floating_ips": 5}}, 400)
    admin.at("2.57").put(P, {"quota_set": {"injected_files": 5}}, 400)


def test_who_may(cloud, member):
    stranger = cloud.client("other", "project2")
    stranger.get(P, 403)
    stranger.get(f"{P}/detail", 403)
    stranger.get(f"{P}/defaults")
    member.put(P, {"quota_set": {"cores": 1}}, 403)
    member.delete(P, 403)
    member.get("/os-quota-class-sets/default", 403)
    stranger.get("/limits?tenant_id=project1", 403)


def test_limits_of_another_project(cloud, admin):
    cloud.add_server()
    assert admin.get("/limits?tenant_id=project1")["limits"]["absolute"]["totalInstancesUsed"] == 1
    assert admin.get("/limits")["limits"]["absolute"]["totalInstancesUsed"] == 0
    admin.at("2.96").get("/limits?tenant_id=project1")
    admin.at("2.96").get("/limits?unknown=1", 400)
