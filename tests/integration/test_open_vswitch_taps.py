"""The taps that a host makes on a real Open vSwitch (in user space). Needs root."""
from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import uuid

import pytest

from nova_lite import exception
from nova_lite.virt.libvirt.taps import Taps
from tests.support.open_vswitch import open_vswitch, vsctl
from tests.unit.virt.libvirt.builders import instance, vif

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ovs-vswitchd"), reason="needs root and Open vSwitch")


@pytest.fixture(scope="module")
def bridge(tmp_path_factory):
    """A bridge of a switch of its own."""
    with open_vswitch(tmp_path_factory.mktemp("ovs")) as name:
        yield name


@pytest.fixture
def nic(bridge):
    """A nic with a name of its own."""
    number = str(uuid.uuid4())
    made = vif(type="ovs", id=number, devname="tap" + number[:11], details={"bridge": bridge, "datapath_type": "netdev"})
    yield made
    Taps("one").remove([made])


@pytest.fixture
def server():
    return instance(uuid=str(uuid.uuid4()))


def _link(name: str) -> dict[str, object]:
    done = subprocess.run(["ip", "-json", "-details", "link", "show", "dev", name], capture_output=True, text=True, check=False)
    return json.loads(done.stdout)[0] if done.returncode == 0 else {}


def test_a_tap_is_as_the_agent_of_neutron_looks_for_it(bridge, nic, server):
    for _ in range(2):
        Taps("one").make(server, [nic])
        assert vsctl("list-ports", bridge).split() == [nic.devname]
    link = _link(nic.devname)
    assert (link["mtu"], link["address"]) == (nic.mtu, "fe" + nic.mac_address[2:])
    assert "UP" in link["flags"]
    assert link["linkinfo"]["info_data"]["multi_queue"] is False
    for name, value in (("iface-id", nic.id), ("attached-mac", nic.mac_address), ("iface-status", "active"),
                        ("vm-uuid", server.uuid)):
        assert vsctl("get", "Interface", nic.devname, f"external_ids:{name}").strip('"') == value


def test_a_tap_that_an_agent_took_from_the_bridge_comes_back(bridge, nic, server):
    """Neutron's agent does so when the guest comes back to a host that it has just left."""
    Taps("one").make(server, [nic])
    vsctl("del-port", nic.devname)
    Taps("one").make(server, [nic])
    assert vsctl("list-ports", bridge).split() == [nic.devname]
    assert vsctl("get", "Interface", nic.devname, "external_ids:iface-id").strip('"') == nic.id


def test_a_tap_that_is_on_no_bridge_is_found(bridge, nic, server):
    one = Taps("one")
    assert one.unplugged() == set()
    one.make(server, [nic])
    assert one.unplugged() == set()
    vsctl("del-port", nic.devname)
    assert one.unplugged() == {server.uuid}
    one.remove([nic])
    assert one.unplugged() == set()


def test_a_tap_that_is_made_anew_is_a_new_interface(bridge, nic, server):
    """OVN's controller claims the port again then, which makes Neutron say once more that it is wired."""
    taps = Taps("one")
    taps.make_anew(server, [nic])
    before = vsctl("get", "Interface", nic.devname, "_uuid")
    taps.make_anew(server, [nic])
    assert vsctl("get", "Interface", nic.devname, "_uuid") != before
    assert vsctl("get", "Interface", nic.devname, "external_ids:iface-id").strip('"') == nic.id
    assert vsctl("list-ports", bridge).split() == [nic.devname]


def test_a_tap_of_several_queues(nic):
    wide = instance({"hw:vif_multiqueue_enabled": "true"}, vcpus=4, uuid=str(uuid.uuid4()))
    Taps("one").make(wide, [nic])
    assert _link(nic.devname)["linkinfo"]["info_data"]["multi_queue"] is True


def test_nothing_of_a_removed_tap_stays(bridge, nic, server):
    taps = Taps("one")
    taps.make(server, [nic])
    for _ in range(2):
        taps.remove([nic])
        assert vsctl("list-ports", bridge) == ""
        assert _link(nic.devname) == {}


def test_the_bridge_of_a_trunk_comes_and_goes_with_its_tap(nic, server):
    trunk = f"tbr-{uuid.uuid4().hex[:8]}-1"
    nic.details["bridge"] = trunk
    taps = Taps("one")
    taps.make(server, [nic])
    assert vsctl("list-ports", trunk) == nic.devname
    assert vsctl("get", "Bridge", trunk, "datapath_type") == "netdev"
    taps.remove([nic])
    assert trunk not in vsctl("list-br").split()


def test_a_host_finds_the_taps_that_it_has_made_and_no_others(bridge, nic, server):
    one, two = Taps("one"), Taps("two")
    assert one.kept_for() == set()
    one.make(server, [nic])
    assert (one.kept_for(), two.kept_for()) == ({server.uuid}, set())
    two.forget(server.uuid)
    one.forget(str(uuid.uuid4()))
    assert vsctl("list-ports", bridge) == nic.devname
    one.forget(server.uuid)
    assert vsctl("list-ports", bridge) == ""
    assert not pathlib.Path("/sys/class/net", nic.devname).exists()


def test_a_name_that_is_none_reaches_no_command(nic, server):
    nic.details["bridge"] = "-x; reboot"
    with pytest.raises(exception.ConfigError):
        Taps("one").make(server, [nic])
    nic.details["bridge"] = "none"
