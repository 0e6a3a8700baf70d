"""Numbers of thousands of digits in extra specs and properties of images: the API refuses them by name. Python reads at
most 4300 digits, so one that came to a scheduler or a host would end there as an error of ours."""
from __future__ import annotations

import json
import pathlib

import pytest

from nova_lite.context import RequestContext
from tests.unit.api.compute.conftest import admin, cloud, member, options  # noqa: F401
from tests.unit.api.compute.server_support import Servers

ADMIN = RequestContext(project_id="admin", user_id="admin", roles=["admin"], is_admin=True)
PROPERTIES = ("hw_cpu_sockets", "hw_cpu_max_cores", "hw_numa_nodes", "hw_numa_cpus.0", "hw_mem_page_size", "hw_video_ram",
              "hw_serial_port_count", "hw_vif_multiqueue_enabled", "img_hv_requested_version", "hypervisor_version_requires")
SPECS = ("hw:cpu_sockets", "hw:cpu_max_threads", "hw:numa_nodes", "hw:numa_mem.0", "hw:mem_page_size", "hw:serial_port_count",
         "hw_video:ram_max_mb", "hw_rng:rate_bytes", "quota:cpu_shares", "quota:disk_read_iops_sec")
NUMBERS = ("9" * 21, "9" * 250, "9" * 5000)


@pytest.fixture
def servers(cloud):     # noqa: F811
    return Servers(cloud)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_of_an_image(servers, cloud, member, name):     # noqa: F811
    """At a boot, of the image itself and onto a volume that remembers it, and at a rebuild."""
    there, rebuild = servers.active(member), {"rebuild": {"imageRef": servers.image}}
    for number in NUMBERS:
        for value in (number, f">={number}", f"1.{number}", f" {number} ") if "version" in name else (number,):
            cloud.services.image.update(ADMIN, servers.image, {"properties": {name: value}})
            for path, body in (("/servers", servers.body()), (f"/servers/{there}/action", rebuild)):
                assert f"{name} has a number of more than 20 digits" in member.fault("POST", path, 400, body)
    cloud.services.image.update(ADMIN, servers.image, {"properties": {}})
    servers.create(member)


@pytest.mark.parametrize("name", SPECS)
def test_an_extra_spec_of_a_flavor(servers, admin, member, name):     # noqa: F811
    """An extra spec holds 255 characters."""
    for number in NUMBERS[:2]:
        admin.post(f"/flavors/{servers.flavor}/os-extra_specs", {"extra_specs": {name: number}})
        assert f"{name} has a number of more than 20 digits" in member.fault("POST", "/servers", 400, servers.body())
        # this version knows names, and some of their values
        assert admin.at("2.86").call("POST", f"/flavors/{servers.flavor}/os-extra_specs",
                                     {"extra_specs": {name: number}}).status_code in (200, 400)
    admin.fault("POST", f"/flavors/{servers.flavor}/os-extra_specs", 400, {"extra_specs": {name: NUMBERS[2]}})
    admin.delete(f"/flavors/{servers.flavor}/os-extra_specs/{name}", 200)
    servers.create(member)


def test_what_a_volume_remembers_of_its_image(servers, cloud, member):     # noqa: F811
    """Block Storage takes any text for it, of whoever may use the volume."""
    volume = cloud.services.volume.create(RequestContext(project_id="project1", user_id="fake"), 1).id
    record = pathlib.Path(cloud.conf.volume.local_path, f"{volume}.json")
    known = json.loads(record.read_text()) | {"bootable": True}
    body = servers.body(imageRef="", block_device_mapping_v2=[{
        "boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"}])
    for name in PROPERTIES:
        record.write_text(json.dumps(known | {"image_metadata": {name: "9" * 5000}}))
        assert f"{name} has a number of more than 20" in member.fault("POST", "/servers", 400, body)
    record.write_text(json.dumps(known | {"image_metadata": dict.fromkeys(("min_disk", "min_ram"), "9" * 5000)}))
    member.post("/servers", body, 202)
