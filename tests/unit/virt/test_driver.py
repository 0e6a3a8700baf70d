"""Each driver has the whole interface: drivers are found by their entry points, so no type checker compares them."""
from __future__ import annotations

import inspect

import pytest

from nova_lite.virt.driver import ComputeDriver
from nova_lite.virt.fake import FakeDriver
from nova_lite.virt.fake_live import FakeLiveMigrations
from nova_lite.virt.libvirt import live_migration
from nova_lite.virt.libvirt.driver import LibvirtDriver
from nova_lite.virt.live import LiveMigrations


def _methods(interface: type) -> dict[str, list[str]]:
    return {name: list(inspect.signature(member).parameters) for name, member in vars(interface).items()
            if inspect.isfunction(member) and not name.startswith("_")}


@pytest.mark.parametrize(("interface", "made"), [
    (ComputeDriver, FakeDriver), (ComputeDriver, LibvirtDriver),
    (LiveMigrations, FakeLiveMigrations), (LiveMigrations, live_migration.LiveMigrations)])
def test_a_driver_has_each_method_of_the_interface(interface, made):
    wanted = _methods(interface)
    assert wanted
    found = {name: list(inspect.signature(getattr(made, name)).parameters) for name in wanted if hasattr(made, name)}
    assert found == wanted
