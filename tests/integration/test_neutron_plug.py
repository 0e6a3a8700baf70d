"""What the Neutron driver does on a host for the bridges of Neutron's agents. Needs root."""
from __future__ import annotations

import os
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite import exception
from nova_lite.network.neutron import NeutronNetwork
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="needs root")
SERVER = Instance(uuid=str(uuid.uuid4()), project_id="p", user_id="u", display_name="s", flavor=Flavor("1", "f", 64, 1, 1))


@pytest.fixture
def netns():
    name = f"plug-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "delete", name], check=True)


@pytest.fixture
def driver(netns):
    return NeutronNetwork(nova_lite.conf.load([], config_files=[], network__netns=netns), None)


def _vif(**values):
    return VIF(id=str(uuid.uuid4()), network_id="n", network_name="private", mac_address="fa:16:3e:00:00:01", **values)


def _up(netns, name):
    shown = subprocess.run(["ip", "-n", netns, "-br", "link", "show", "dev", name], capture_output=True, text=True, check=False)
    return shown.returncode == 0 and "UP" in shown.stdout


def test_a_linux_bridge_is_there_before_its_guest(driver, netns):
    vif = _vif(type="bridge", details={"bridge": "brq12345678-12"})
    for _ in range(2):
        driver.plug(SERVER, vif)
        assert _up(netns, "brq12345678-12")
    driver.unplug(SERVER, vif)
    assert _up(netns, "brq12345678-12")     # others may be on it; the agent removes it after the last


def test_a_bridge_with_a_bad_name_is_none(driver):
    with pytest.raises(exception.ConfigError):
        driver.plug(SERVER, _vif(type="bridge", details={"bridge": "-x; reboot"}))


def test_hybrid_plugging_is_refused(driver):
    driver.plug(SERVER, _vif(type="ovs", details={"bridge": "br-int"}))
    with pytest.raises(exception.BuildAborted, match="firewall_driver = openvswitch"):
        driver.plug(SERVER, _vif(type="ovs", details={"bridge": "br-int", "ovs_hybrid_plug": True}))
