"""Where the ports of a server are bound when it was to go elsewhere."""


def test_ports_go_back_where_the_server_stays_when_its_evacuation_fails(cloud):
    old = cloud.get(cloud.server).host
    cloud.add_host("h2")
    cloud.end_host(old)
    cloud.silence(old)
    cloud.fail("spawn")
    cloud.admin.post(f"/servers/{cloud.server}/action", {"evacuate": {}}, 200)
    cloud.actions_end(cloud.server)
    found = cloud.get(cloud.server)
    assert (found.host, found.vm_state) == (old, "error")
    assert [p["binding:host_id"] for p in cloud.neutron.of(cloud.server)] == [old]
