"""Who may use a private flavor."""
import pytest

from tests.unit.api.compute.conftest import assert_like_sample

ADD, REMOVE = {"addTenantAccess": {"tenant": "p2"}}, {"removeTenantAccess": {"tenant": "p2"}}


@pytest.fixture(autouse=True)
def _flavors(cloud):
    cloud.add_flavor("open")
    cloud.add_flavor("private", is_public=False)


def test_access_is_given_and_taken(cloud, admin):
    other = cloud.client(project="p2")
    other.get("/flavors/private", 404)
    added = admin.post("/flavors/private/action", ADD)
    assert_like_sample(added, "flavor-access/flavor-access-add-tenant-resp", "2.1")
    assert added == {"flavor_access": [{"flavor_id": "private", "tenant_id": "p2"}]}
    assert admin.get("/flavors/private/os-flavor-access") == added
    other.get("/flavors/private")
    assert admin.post("/flavors/private/action", REMOVE) == {"flavor_access": []}
    other.get("/flavors/private", 404)


def test_what_is_refused(admin, member):
    admin.post("/flavors/private/action", ADD)
    assert admin.fault("POST", "/flavors/private/action", 409, ADD) == \
        "Flavor access already exists for flavor private and project p2 combination."
    admin.post("/flavors/private/action", REMOVE)
    assert admin.fault("POST", "/flavors/private/action", 404, REMOVE) == \
        "Flavor access not found for private / p2 combination."
    admin.post("/flavors/none/action", ADD, 404)
    admin.post("/flavors/private/action", {"addTenantAccess": {}}, 400)
    admin.post("/flavors/private/action", {"addAccess": {"tenant": "x"}}, 400)
    member.post("/flavors/private/action", ADD, 403)
    member.get("/flavors/private/os-flavor-access", 403)


def test_public_flavors_have_no_list(admin):
    assert admin.fault("GET", "/flavors/open/os-flavor-access", 404) == "Access list not available for public flavors."
    admin.at("2.6").post("/flavors/open/action", ADD)
    assert admin.at("2.7").fault("POST", "/flavors/open/action", 409, ADD) == "Can not add access to a public flavor."
