"""Who is an administrator, the operator's policy.yaml says."""
from nova_lite import conf as nova_conf
from nova_lite import units
from nova_lite.api.openstack import rules
from nova_lite.policy import Policy


def test_the_role_of_the_policy_file_sees_and_does_everything_and_admin_nothing_more_than_others(cloud, tmp_path):
    (tmp_path / "policy.yaml").write_text('"context_is_admin": "role:cloud_admin"\n')
    file = tmp_path / "policy.conf"
    file.write_text(f"[oslo_policy]\npolicy_file = {tmp_path / 'policy.yaml'}\n")
    cloud.services.policy = Policy(nova_conf.load([], config_files=[str(file)]), rules.installed())
    server = cloud.add_server(host="host1", launched_at=units.utcnow())
    boss = cloud.client("boss", "office", ("cloud_admin",))
    admin = cloud.client("admin", "admin", ("admin", "member", "reader"))
    assert boss.get(f"/servers/{server}")["server"]["id"] == server
    assert [s["id"] for s in boss.get("/servers?all_tenants=1")["servers"]] == [server]
    boss.post(f"/servers/{server}/action", {"os-stop": None}, 202)
    admin.get(f"/servers/{server}", 404)
    assert admin.call("GET", "/servers?all_tenants=1").status_code == 403
