"""Nics that come to a real QEMU guest while it runs, and go again. Needs root and libvirtd."""
from __future__ import annotations

import base64
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import uuid

import pytest

import nova_lite.conf
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF
from nova_lite.virt import driver as virt_driver
from nova_lite.virt import guest_metadata
from nova_lite.virt.driver import GuestFiles
from tests.guest import tiny_image
from tests.libvirt_host import LibvirtHost
from tests.support.open_vswitch import open_vswitch, vsctl
from tests.support.process import wait_for

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("libvirtd"), reason="needs root and libvirtd")
BRIDGE = f"nlif{os.getpid() % 100000}"


@pytest.fixture(scope="module")
def bridge():
    subprocess.run(["ip", "link", "add", BRIDGE, "type", "bridge"], check=True)
    subprocess.run(["ip", "link", "set", BRIDGE, "up"], check=True)
    yield BRIDGE
    subprocess.run(["ip", "link", "delete", BRIDGE], check=True)


@pytest.fixture(scope="module")
def hypervisor(tmp_path_factory):
    with LibvirtHost(tmp_path_factory.mktemp("libvirt"), hostname="node-nic") as host:
        yield host


@pytest.fixture
def driver(hypervisor, tmp_path):
    conf = nova_lite.conf.load([], config_files=[], state_path=str(tmp_path), libvirt__connection_uri=hypervisor.uri)
    made = virt_driver.load(conf, "node-nic")
    made.init_host(lambda *_news: None)
    yield made
    made.stop_host()


def _vif(bridge):
    port = str(uuid.uuid4())
    return VIF(port, "n", "private", "fa:16:3e:" + ":".join((port[0:2], port[2:4], port[4:6])), "bridge", mtu=1450,
               details={"bridge": bridge})


def _guest():
    image = ImageMeta(str(uuid.uuid4()))
    return Instance(uuid=str(uuid.uuid4()), id=1, project_id="p", user_id="u", display_name="one",
                    flavor=Flavor("1", "tiny", 128, 1, 1), image_ref=image.id, image=image)


def _fetch(_image, path):
    shutil.copyfile(tiny_image(), path)


def _xml(hypervisor, guest, *side):
    return subprocess.run(["virsh", "-q", "-c", hypervisor.uri, "dumpxml", guest.uuid, *side], capture_output=True, text=True,
                          check=True).stdout


def test_a_nic_comes_and_goes_while_the_guest_runs_and_while_it_is_off(driver, hypervisor, bridge):
    guest, first, second = _guest(), _vif(bridge), _vif(bridge)
    driver.spawn(guest, [first], GuestFiles(), _fetch)
    try:
        wait_for("the login prompt", lambda: "login:" in driver.console_output(guest, None), 240, 0.5)
        for _ in range(2):
            driver.attach_interface(guest, second)
        tap = pathlib.Path("/sys/class/net", second.devname)
        assert tap.joinpath("master").resolve().name == bridge
        for side in ([], ["--inactive"]):
            assert _xml(hypervisor, guest, *side).count(second.mac_address) == 1
        for _ in range(2):
            driver.detach_interface(guest, second)
        for side in ([], ["--inactive"]):
            text = _xml(hypervisor, guest, *side)
            assert (text.count(second.mac_address), text.count(first.mac_address)) == (0, 1)
        assert not tap.exists()
        driver.power_off(guest, 0)
        driver.attach_interface(guest, second)
        assert second.mac_address in _xml(hypervisor, guest)
        driver.detach_interface(guest, second)
        assert second.mac_address not in _xml(hypervisor, guest)
    finally:
        driver.destroy(guest, [first, second])


def test_a_tagged_nic_is_where_the_config_drive_says(driver, bridge):
    nics = [_vif(bridge), dataclasses.replace(_vif(bridge), tag="front")]
    guest = dataclasses.replace(_guest(), config_drive=True, network_info=nics, user_data=base64.b64encode(b"""#!/bin/sh
for nic in /sys/class/net/eth*; do
  echo "found $(cat $nic/address) at $(basename $(readlink -f $nic/device/..))" >/dev/console
done
echo "told $(jq -c .devices /run/config-drive/meta_data.json)" >/dev/console
""").decode())

    def documents(addresses):
        return guest_metadata.build(guest, nics, addresses=addresses)
    driver.spawn(guest, nics, GuestFiles(metadata=documents({}), metadata_with=documents), _fetch)
    try:
        console = wait_for("the guest to tell", lambda: driver.console_output(guest, None).partition("told [")[2] and
                           driver.console_output(guest, None), 240, 0.5)
        found = dict(re.findall("found ([0-9a-f:]+) at ([0-9a-f:.]+)", console))
        [told] = json.loads(re.search(r"told (\[.*\])", console)[1])
        assert told == {"type": "nic", "bus": "pci", "address": found[nics[1].mac_address], "mac": nics[1].mac_address,
                        "tags": ["front"]}
        assert {key: driver.device_addresses(guest)[key] for key in found} == found
    finally:
        driver.destroy(guest, nics)


@pytest.mark.skipif(not shutil.which("ovs-vswitchd"), reason="needs Open vSwitch")
def test_taps_on_open_vswitch_are_there_while_the_guest_is(driver, tmp_path):
    with open_vswitch(tmp_path) as switch:
        nics = [dataclasses.replace(_vif(switch), type="ovs", details={"bridge": switch, "datapath_type": "netdev"})
                for _ in range(2)]
        guest = dataclasses.replace(_guest(), network_info=nics)

        def wired():
            """The taps that QEMU has open; each that exists is on the bridge."""
            taps = [pathlib.Path("/sys/class/net", nic.devname) for nic in nics]
            there = [tap for tap in taps if tap.exists()]
            assert sorted(tap.name for tap in there) == sorted(vsctl("list-ports", switch).split())
            return [(tap / "carrier").read_text().strip() == "1" for tap in there]
        driver.spawn(guest, nics[:1], GuestFiles(), _fetch)
        try:
            assert wired() == [True]
            driver.attach_interface(guest, nics[1])
            assert wired() == [True, True]
            for off, on in ((lambda: driver.power_off(guest, 0), lambda: driver.power_on(guest, nics)),
                            (lambda: driver.suspend(guest), lambda: driver.resume(guest, nics))):
                off()
                assert True not in wired()
                on()
                assert wired() == [True, True]
            driver.power_off(guest, 0)
            assert wired() == []
        finally:
            driver.destroy(guest, nics)
        assert wired() == []
