"""PCI devices: which ones a host offers, what a flavor asks for, and which ones it is given."""
import json

import pytest

from nova_lite import exception
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.hardware import pci
from nova_lite.objects.hardware.pci import PciDevice

GPUS = [PciDevice(f"0000:0{n}:00.0", "10de", "1eb8") for n in (3, 1, 2)]
CARD = PciDevice("0000:04:00.0", "8086", "1572", pci.PHYSICAL)
PARTS = [PciDevice(f"0000:04:02.{n}", "8086", "154c", pci.VIRTUAL, parent=CARD.address) for n in range(2)]


def _offered(**spec):
    return [d.address for d in pci.offered([*GPUS, CARD, *PARTS], pci.device_specs([json.dumps(spec)]))]


@pytest.mark.parametrize(("spec", "addresses"), [
    ({"vendor_id": "10DE"}, ["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]),
    ({"vendor_id": "8086", "product_id": "154c"}, ["0000:04:02.0", "0000:04:02.1"]),
    ({"address": "0000:04:02.1"}, ["0000:04:02.1"]), ({"address": "04:02.*"}, ["0000:04:02.0", "0000:04:02.1"]),
    ({"address": "*:02:*.*", "vendor_id": "*"}, ["0000:02:00.0"]),
    ({"address": {"bus": "04", "function": "[1-7]"}}, ["0000:04:02.1"]), ({"product_id": "ffff"}, [])])
def test_a_host_offers_what_its_operator_says(spec, addresses):
    assert _offered(**spec) == addresses


@pytest.mark.parametrize(("text", "reason"), [
    ("{", "is not JSON"), ('"gpu"', "is not an object"), ('{"vendor_id": "nvidia"}', "vendor_id is not four"),
    ('{"physical_network": "x"}', "physical_network is not offered"), ('{"address": "; rm"}', "address is not an address")])
def test_a_device_spec_that_cannot_be_read_is_told_at_start(text, reason):
    with pytest.raises(exception.ConfigError, match=reason):
        pci.device_specs([text])


@pytest.mark.parametrize(("text", "reason"), [
    ("gpu", "is not JSON"), ('{"vendor_id": "10de"}', "has no name"), ('{"name": "a:b"}', "with :"),
    ('{"name": "a", "device_type": "GPU"}', "device_type"), ('{"name": "a", "product_id": "1"}', "four hexadecimal"),
    ('{"name": "a", "numa_policy": "required"}', "numa_policy"), ('{"name": "a", "resource_class": "X"}', "resource_class"),
    ('{"name": "a", "capability_type": "usb"}', "capability_type")])
def test_an_alias_that_cannot_be_read_is_told_at_start(text, reason):
    with pytest.raises(exception.ConfigError, match=reason):
        pci.aliases([text])


ALIASES = pci.aliases(['{"name": "gpu", "vendor_id": "10DE", "product_id": "1eb8", "device_type": "type-PCI"}',
                       '[{"name": "nic", "device_type": "type-VF"}, {"name": "any", "vendor_id": "8086"}]',
                       '{"name": "any", "vendor_id": "10de"}', '{"name": "card", "device_type": "type-PF"}'])


def _asked(text):
    return pci.requests(Flavor("1", "f", 1, 1, 1, extra_specs={pci.SPEC: text} if text else {}), ALIASES)


def test_what_a_flavor_asks_for():
    gpu = {"vendor_id": "10de", "product_id": "1eb8", "dev_type": "type-PCI"}
    assert _asked("gpu:2, any:1") == [{"alias": "gpu", "count": 2, "specs": [gpu]},
                                      {"alias": "any", "count": 1, "specs": [{"vendor_id": "8086"}, {"vendor_id": "10de"}]}]
    assert pci.count(_asked("gpu:2,any:1")) == 3
    assert _asked("") == []
    with pytest.raises(exception.PciRequestAliasNotDefined, match="PCI alias fpga is not defined"):
        _asked("gpu:1,fpga:1")
    for text in ("gpu", "gpu:0", "gpu:x", ":1"):
        with pytest.raises(exception.InvalidHardware, match="NAME:COUNT"):
            _asked(text)


def _held(*addresses):
    return [PciDevice.from_primitive({**d.to_primitive(), "consumer": "s" if d.address in addresses else None})
            for d in sorted([*GPUS, CARD, *PARTS], key=lambda d: d.address)]


@pytest.mark.parametrize(("text", "held", "chosen"), [
    ("gpu:2", (), ["0000:01:00.0", "0000:02:00.0"]), ("gpu:2", ("0000:01:00.0",), ["0000:02:00.0", "0000:03:00.0"]),
    ("gpu:2", ("0000:01:00.0", "0000:02:00.0"), None), ("gpu:4", (), None),
    ("any:4", (), ["0000:04:02.0", "0000:04:02.1", "0000:01:00.0", "0000:02:00.0"][2:] + ["0000:03:00.0", "0000:04:02.0"]),
    ("nic:2", (), ["0000:04:02.0", "0000:04:02.1"]), ("nic:1", ("0000:04:00.0",), None),   # the whole card is somebody's
    ("card:1", (), ["0000:04:00.0"]), ("card:1", ("0000:04:02.1",), None),                # a part of it is
    ("nic:1,card:1", (), None), ("card:1,gpu:3", (), ["0000:04:00.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"]),
    ("", (), [])])
def test_nobody_is_given_what_another_has(text, held, chosen):
    assert pci.choose(_held(*held), _asked(text)) == chosen


@pytest.mark.parametrize("text", ["", "04:02.1", "0000:04:02.8", "0000:04:02.1; x", "../0"])
def test_what_is_no_address(text):
    with pytest.raises(ValueError, match="is not a PCI address"):
        pci.address_parts(text)
