"""/os-baremetal-nodes until 2.35: there is no Ironic."""


def test_no_ironic(cloud, admin, member):
    for path in ("/os-baremetal-nodes", "/os-baremetal-nodes/x"):
        assert "Ironic client unavailable" in admin.fault("GET", path, 501)
        member.get(path, 403)
        admin.at("2.36").get(path, 404)
    for method, path, body in (("POST", "/os-baremetal-nodes", {"node": {}}), ("DELETE", "/os-baremetal-nodes/x", None),
                               ("POST", "/os-baremetal-nodes/x/action", {"add_interface": {"address": "a"}}),
                               ("POST", "/os-baremetal-nodes/x/action", {"remove_interface": {"address": "a"}})):
        assert "Bare Metal service" in admin.fault(method, path, 400, body)
        admin.at("2.36").ask(method, path, body, 404)
