"""docs/guest_options.md names what shapes a guest, and the API and the code do as it says."""
from __future__ import annotations

import pathlib
import re

import pytest

from nova_lite import exception
from nova_lite.api.compute import extra_spec_names, image_property_names
from nova_lite.api.compute.schemas import servers as schemas
from nova_lite.api.openstack.routes import at_version
from nova_lite.context import RequestContext
from nova_lite.network import neutron_requests
from nova_lite.objects import hardware
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from tests.support import guest_options
from tests.support.guest_options import DEVICE, HONOURED, NO_EFFECT, PORT, PROPERTY, REFUSED, SPEC
from tests.unit.api.compute.server_support import Servers

ROOT = pathlib.Path(__file__).parents[4]
REFERENCE = ROOT.parent / "shared/reference/libvirt.md"
ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
TABLE = guest_options.options()
# what else a flavor must have, so that a value of an extra spec, or of the property of that name, is one
BESIDE = {
    "hw:cpu_thread_policy": {"hw:cpu_policy": "dedicated"}, "hw:numa_cpus.0": {"hw:numa_nodes": "1", "hw:numa_mem.0": "1024"},
    "hw:numa_mem.0": {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, "hw:tpm_model": {"hw:tpm_version": "2.0"},
    "hw:video_ram": {"hw_video:ram_max_mb": "64"}, "hw:emulator_threads_policy": {"hw:cpu_policy": "dedicated"},
    "hw:ephemeral_encryption_format": {"hw:ephemeral_encryption": "true"}, "hw:mem_page_size": {"hw:mem_page_size": "any"},
    **{f"quota:vif_{way}_{rate}": {f"quota:vif_{way}_average": "1"} for way in ("inbound", "outbound")
       for rate in ("peak", "burst")}}


@pytest.fixture
def options():
    return {"pci__alias": ['{"name": "gpu", "vendor_id": "10de", "product_id": "1eb8"}']}


@pytest.fixture
def servers(cloud):
    return Servers(cloud)


def _real(name):
    """A name for one that stands for many."""
    return name.replace("NAME", "CUSTOM_X").replace("GROUP", "1").replace(".N", ".0")


def _asked(option, value):
    """(extra specs, properties) that ask for it."""
    name = _real(option.name)
    beside = BESIDE.get(name.replace("hw_", "hw:", 1) if option.kind == PROPERTY else name, {})
    return ({**beside, name: value}, {}) if option.kind == SPEC else (beside, {name: value})


def _boot(cloud, servers, member, option, value):
    """The answer to a request with a flavor or image that has it."""
    specs, properties = _asked(option, value)
    cloud.add_flavor("asks", memory_mb=1024, vcpus=4, extra_specs=specs)
    made = cloud.services.image.create(ADMIN, {"name": "asks", "visibility": "public", "properties": properties})
    image = cloud.services.image.upload(ADMIN, made.id, [b"y"]).id
    return member.call("POST", "/servers", servers.body(flavorRef="asks", imageRef=image))


def _of(*kinds):
    return [option for option in TABLE if option.kind in kinds]


def _ids(value):
    return value.name if isinstance(value, guest_options.Option) else None


def test_the_document_is_made_of_the_table():
    assert guest_options.DOCUMENT.read_text() == guest_options.render(), "python -m tests.support.guest_options"


def test_each_row_is_one_of_three():
    assert not [option for option in TABLE if not option.here.startswith((HONOURED, REFUSED, NO_EFFECT))]
    names = [(option.kind, option.name) for option in TABLE]
    assert len(set(names)) == len(names)


def test_the_extra_specs_are_those_that_the_api_knows():
    """By the check of microversion 2.86, whose names are Nova's."""
    names = [_real(option.name) for option in _of(SPEC)]
    for name in names:
        assert any(known.fullmatch(name) for known, _ in extra_spec_names._KNOWN) or name.startswith("vmware:"), name
    for known, _ in extra_spec_names._KNOWN:
        assert known.pattern.startswith("vmware:") or any(known.fullmatch(name) for name in names), known.pattern


def test_the_properties_are_those_that_servers_show():
    names = {option.name.removesuffix(".N") for option in _of(PROPERTY)}
    shown = {name for name in image_property_names.NAMES if name.startswith(("hw_", "img_", "os_"))}
    assert shown - names <= {"img_bittorrent"}       # XenServer's, which Nova has dropped


def test_the_fields_of_block_devices_are_those_of_the_schema():
    schema = at_version(schemas.CREATE, "2.104")["properties"]["server"]["properties"]["block_device_mapping_v2"]
    assert {option.name for option in _of(DEVICE)} == set(schema["items"]["properties"])


@pytest.mark.parametrize(("option", "value"), [
    (option, option.value if option.here == REFUSED else option.bad) for option in _of(SPEC, PROPERTY)
    if option.here == REFUSED or option.bad], ids=_ids)
def test_what_is_refused_is_refused_by_its_name(cloud, servers, member, option, value):
    answer = _boot(cloud, servers, member, option, value)
    assert answer.status_code == 400, answer.text
    assert _real(option.name) in answer.json["badRequest"]["message"]
    assert member.get("/servers")["servers"] == []


@pytest.mark.parametrize("option", [option for option in _of(SPEC, PROPERTY) if option.here != REFUSED], ids=_ids)
def test_what_is_not_refused_is_taken(cloud, servers, member, option):
    answer = _boot(cloud, servers, member, option, option.value)
    assert answer.status_code == 202, answer.text


@pytest.mark.parametrize("option", [option for option in _of(DEVICE) if option.bad], ids=_ids)
def test_fields_of_block_devices_are_refused_by_their_names(cloud, servers, member, option):
    cloud.add_flavor("ephemeral", ephemeral_gb=1)
    root = {"source_type": "image", "destination_type": "local", "uuid": servers.image, "boot_index": 0}
    for value, status in ((option.bad, 400), (option.value, 202)):
        blank = {"source_type": "blank", "destination_type": "local", "volume_size": 1, option.name: value}
        answer = member.call("POST", "/servers", servers.body(flavorRef="ephemeral", block_device_mapping_v2=[root, blank]))
        assert answer.status_code == status, answer.text
        assert status == 202 or f"{option.name} {value}" in answer.json["badRequest"]["message"]


PORT_VALUES = {"resource_request": {"resources": {}}, "trusted": True, "hints": {}, "fixed_ips": [{"ip_address": "192.0.2.1"}]}


@pytest.mark.parametrize("option", _of(PORT), ids=_ids)
def test_attributes_of_ports(option):
    def check(value):
        given = {"id": "p", "fixed_ips": [{"ip_address": "192.0.2.1"}], option.name: value}
        try:
            neutron_requests.check_port(given)
        except exception.UnsupportedNetworkRequest as error:
            return error.message
        return ""
    said = check(PORT_VALUES.get(option.name, option.value))
    assert (option.name in said) is (option.here == REFUSED)
    if option.bad:
        assert option.name.rpartition("_")[2] in check(option.bad).lower()


class _Recorder(dict):
    """Notes which names are read."""

    def __init__(self, **given):
        super().__init__(given)
        self.read = set()

    def get(self, name, default=None):
        self.read.add(name)
        return super().get(name, default)


def test_what_is_honoured_is_read():
    """By the check of flavors and images; the rest is read where it matters, by its full name, or its old one without img_."""
    read = {SPEC: set(), PROPERTY: set()}
    # some names are read only where others ask for it
    for given in ({}, {"hw:numa_nodes": "1"}, {"pci_passthrough:alias": "gpu:1"}, {"hw:ephemeral_encryption": "1"}):
        specs, properties = _Recorder(**given), _Recorder()
        hardware.check(Flavor("1", "f", 1024, 4, 1, extra_specs=specs), ImageMeta("i", properties=properties))
        read[SPEC] |= specs.read
        read[PROPERTY] |= properties.read
    source = "\n".join(path.read_text() for path in (ROOT / "nova_lite").rglob("*.py")
                       if path.name not in ("extra_spec_names.py", "image_property_names.py"))
    for option in _of(SPEC, PROPERTY):
        if option.here.startswith(HONOURED):
            words = [f'"{option.name.removesuffix(":NAME")}"', f'"{re.sub("^(img_|hw_(?=auto))", "", option.name)}"',
                     f'either("{re.sub("^hw[:_]", "", option.name)}"', f".{option.name}"]
            assert _real(option.name) in read[option.kind] or any(word in source for word in words), option.name


@pytest.mark.skipif(not REFERENCE.is_file(), reason="there is no ../shared/reference/libvirt.md")
def test_no_name_of_the_reference_is_missing():
    """That file lies beside the checkout and is no part of the project."""
    text = REFERENCE.read_text()
    specs, properties = (text.partition(f"## {number}.")[2].partition("\n## ")[0] for number in ("E5", "E6"))
    known = {kind: {option.name for option in _of(kind)} for kind in (SPEC, PROPERTY)}
    asked = {f"hw:{word}" for word in re.findall(r"[a-z_]+(?:\.N)?", specs.partition("hw: ")[2].partition(".\n")[0])}
    asked -= {f"hw:{word}" for word in ("sockets", "threads", "shared", "dedicated", "mixed", "mode")}       # of a/b/c
    asked |= set(re.findall(r"\b(?:hw_rng|hw_video|os|pci_passthrough|accel):[a-z_]+|quota:[a-z_]+[a-z]", specs))
    assert asked <= known[SPEC]
    asked = set(re.findall(r"\b(?:hw|os|img|min)_[a-z_]*[a-z]\b(?!_?\*)|traits_required|kernel_id|ramdisk_id", properties))
    assert asked <= known[PROPERTY]
