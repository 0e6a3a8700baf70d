"""Passwords and crash dumps on a host: what the action and the server look like after it."""
import pytest

from nova_lite.compute.api import base as api
from nova_lite.context import RequestContext, admin_context
from nova_lite.rpc.compute import ComputeAPI
from tests.unit.conductor.conftest import cloud, make_cloud  # noqa: F401


@pytest.fixture
def server(cloud):  # noqa: F811
    return cloud.active()


def begin(cloud, server, verb, arguments):  # noqa: F811
    context = RequestContext(user_id="u", project_id="p", overwrite=False)
    action_id, host = cloud.db.write(api._begin, context, server, verb, arguments, cloud.conf.conductor.lease_seconds)
    cloud.conductor.compute.wake(admin_context(), host, [action_id])
    return action_id


def test_the_password_is_set_and_forgotten(cloud, server, monkeypatch):  # noqa: F811
    seen = []
    driver = cloud.hosts[cloud.get(server).host].host.driver
    real = driver.set_admin_password

    def note(instance, password):
        seen.append(password)
        real(instance, password)
    monkeypatch.setattr(driver, "set_admin_password", note)
    action = cloud.wait_action(begin(cloud, server, "changePassword", {"admin_password": "s3cret"}), "done")
    assert seen == ["s3cret"]
    assert action.arguments == {"verb": "changePassword"}
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == ("active", None)


def test_a_password_that_is_not_set_leaves_the_server_as_it_was(cloud, server):  # noqa: F811
    cloud.fail("set_admin_password")
    action = cloud.wait_action(begin(cloud, server, "changePassword", {"admin_password": "s3cret"}), "error")
    assert action.arguments == {"verb": "changePassword"}
    assert (cloud.get(server).vm_state, cloud.get(server).task_state) == ("active", None)


@pytest.mark.parametrize(("rules", "state"), [((), "done"), (("trigger_crash_dump",), "error")])
def test_a_crash_dump_changes_no_state(cloud, server, rules, state):  # noqa: F811
    cloud.fail(*rules)
    before = cloud.get(server)
    cloud.wait_action(begin(cloud, server, "trigger_crash_dump", {}), state)
    after = cloud.get(server)
    assert (after.vm_state, after.task_state, after.power_state, after.fault) == (
        before.vm_state, before.task_state, before.power_state, before.fault)


def test_a_fake_guest_takes_any_password(cloud, server):  # noqa: F811
    ComputeAPI(cloud.transport).check_admin_password(admin_context(), cloud.get(server).host, server)
