"""What a compute host answers at once, asked over RPC."""
import pytest

from nova_lite import exception
from nova_lite.context import admin_context
from nova_lite.objects.diagnostics import Diagnostics
from nova_lite.rpc.compute import ComputeAPI
from tests.unit.conductor.conftest import cloud, make_cloud  # noqa: F401


@pytest.fixture
def ask(cloud):  # noqa: F811
    """Asks the host of a server."""
    rpc = ComputeAPI(cloud.transport)
    return lambda method, server, *more: getattr(rpc, method)(admin_context(), cloud.get(server).host, server, *more)


def test_diagnostics_of_a_running_guest(cloud, ask):  # noqa: F811
    found = Diagnostics.from_primitive(ask("get_diagnostics", cloud.active()))
    assert (found.state, found.memory_maximum, len(found.cpus), found.config_drive) == ("running", 1024, 1, False)


def test_no_diagnostics_of_a_stopped_guest(cloud, ask):  # noqa: F811
    server = cloud.active()
    cloud.operate(server, "stop")
    cloud.wait(server, "stopped")
    with pytest.raises(exception.InstanceInvalidState) as caught:
        ask("get_diagnostics", server)
    assert caught.value.code == 409
    assert caught.value.message == f"Cannot 'get_diagnostics' instance {server} while it is in power state shutdown"


def test_console_output(cloud, ask):  # noqa: F811
    server = cloud.active(hostname="web")
    assert ask("get_console_output", server, 1) == "web login:"
    assert ask("get_console_output", server, 0) == ""
