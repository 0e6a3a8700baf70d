"""/flavors/{id}/os-extra_specs."""
import pytest

PATH = "/flavors/m1.tiny/os-extra_specs"


@pytest.fixture
def flavor(cloud):
    return cloud.add_flavor()


def test_life_of_extra_specs(admin, member, flavor):
    specs = {"hw:cpu_policy": "shared", "hw:numa_nodes": 1}
    assert admin.post(PATH, {"extra_specs": specs}) == {"extra_specs": {"hw:cpu_policy": "shared", "hw:numa_nodes": "1"}}
    assert admin.put(f"{PATH}/hw:numa_nodes", {"hw:numa_nodes": "2"}) == {"hw:numa_nodes": "2"}
    assert member.get(PATH) == {"extra_specs": {"hw:cpu_policy": "shared", "hw:numa_nodes": "2"}}
    assert member.get(f"{PATH}/hw:numa_nodes") == {"hw:numa_nodes": "2"}
    assert admin.delete(f"{PATH}/hw:numa_nodes", 200) is None
    assert admin.fault("GET", f"{PATH}/hw:numa_nodes", 404) == "Flavor m1.tiny has no extra specs with key hw:numa_nodes."
    admin.delete(f"{PATH}/hw:numa_nodes", 404)
    assert member.get(PATH) == {"extra_specs": {"hw:cpu_policy": "shared"}}


def test_bad_input(admin, member, flavor):
    admin.post(PATH, {"extra_specs": {"a/b": "1"}}, 400)
    admin.post(PATH, {"extra_specs": {"key": "x" * 256}}, 400)
    admin.post(PATH, {"extra_specs": {"key": None}}, 400)
    assert admin.fault("PUT", f"{PATH}/one", 400, {"two": "2"}) == "Request body and URI mismatch"
    admin.put(f"{PATH}/one", {"one": "1", "two": "2"}, 400)
    admin.get("/flavors/none/os-extra_specs", 404)
    admin.post("/flavors/none/os-extra_specs", {"extra_specs": {"a": "b"}}, 404)
    member.post(PATH, {"extra_specs": {"a": "b"}}, 403)


@pytest.mark.parametrize(("name", "value", "fine"), [
    ("hw:cpu_policy", "dedicated", True), ("hw:cpu_policy", "mine", False), ("hw:cpu_polcy", "shared", False),
    ("hw:numa_nodes", "2", True), ("hw:numa_nodes", "0", False), ("hw:numa_cpus.0", "0-3,^2", True),
    ("quota:disk_read_bytes_sec", "1024", True), ("quota:disk_read", "1", False), ("quota:cpu_quota", "-1", True),
    ("resources:VCPU", "2", True), ("resources:VCPU", "many", False), ("resources1:CUSTOM_GPU", "1", True),
    ("resources-net:CUSTOM_PORT", "1", True), ("trait_a-1:CUSTOM_X", "forbidden", True), ("resources-net:port", "1", False),
    ("quota:vif_shares_share", "5", True), ("quota:vif_shares", "5", False), ("quota:cpu_shares", "5", True),
    ("quota:memory_reservation", "-1", True), ("quota:memory_limit", "-1", False),
    ("trait:HW_CPU_X86_AVX2", "required", True), ("trait:HW_CPU_X86_AVX2", "wanted", False),
    ("os:secure_boot", "required", True), ("hw:mem_page_size", "large", True), ("hw:mem_page_size", "2MB", True),
    ("aggregate_instance_extra_specs:ssd", "true", True), ("mine:anything", "at all", True), ("simple", "value", True)])
def test_known_names_are_checked_since_2_86(admin, flavor, name, value, fine):
    assert admin.at("2.85").post(PATH, {"extra_specs": {name: value}})
    message = admin.at("2.86").ask("POST", PATH, {"extra_specs": {name: value}}, 200 if fine else 400)
    assert fine or name in message["badRequest"]["message"]
