"""What openstacksdk's cloud layer does for a user: run in the virtual environment of the stock client, with OS_CLOUD set.

    python sdk_cloud_layer.py NAME none|auto|later
"""
from __future__ import annotations

import sys
import time

import openstack


def main(name: str, floating_ip: str) -> None:
    """A server, one that boots from a volume, a keypair, a group; everything is deleted at the end. ``floating_ip``: there are
    none, one comes with the server, or one is added later."""
    cloud = openstack.connect()
    life(cloud, name, floating_ip)
    from_volume(cloud, f"{name}-volume")


def life(cloud: openstack.connection.Connection, name: str, floating_ip: str) -> None:
    """create_server with wait; get, list, search, update, metadata, console, delete with its IP."""
    key = cloud.create_keypair(name)        # asks for a generated key: keypairs are of 2.10 for the SDK
    assert "PRIVATE KEY" in key.private_key
    group = cloud.create_server_group(name, policy="soft-anti-affinity")
    server = cloud.create_server(name, image="tiny", flavor="m1.nano", network="private", key_name=name, wait=True,
                                 auto_ip=floating_ip == "auto", timeout=600, meta={"a": "1"}, userdata="#!/bin/sh\n",
                                 security_groups=["default"], scheduler_hints={"group": group["id"]})
    assert server.status == "ACTIVE", server
    if floating_ip == "later":
        # without waiting for Compute to hear of it: Neutron tells the cloud in its catalog, which we are not
        cloud.add_auto_ip(server, wait=False)
    server = cloud.get_server(name)
    assert server.public_v4 or floating_ip == "none", server
    assert server.private_v4, server
    assert [s.name for s in cloud.search_servers(f"{name}*")] == [name]
    assert cloud.get_server_id(name) == server.id
    cloud.set_server_metadata(name, {"b": "2"})
    cloud.delete_server_metadata(name, ["a"])
    assert cloud.get_server(name).metadata == {"b": "2"}
    assert cloud.update_server(name, description="words").description == "words"
    deadline = time.monotonic() + 120
    while not cloud.get_server_console(name):       # a real guest prints when its kernel does
        assert time.monotonic() < deadline, "the console says nothing"
        time.sleep(1)
    volume = cloud.create_volume(1, name=name, wait=True)
    attachment = cloud.attach_volume(server, volume, wait=True)
    assert attachment.volume_id == volume.id
    cloud.detach_volume(server, cloud.get_volume(volume.id), wait=True)
    cloud.delete_volume(volume.id, wait=True)
    image = cloud.create_image_snapshot(f"{name}-image", name, wait=True)
    assert image.status == "active"
    cloud.delete_image(image.id, wait=True)
    assert cloud.delete_server(name, wait=True, delete_ips=True)
    assert cloud.get_server(name) is None
    assert cloud.delete_server_group(group["id"])
    assert cloud.delete_keypair(name)


def from_volume(cloud: openstack.connection.Connection, name: str) -> None:
    """boot_from_volume and terminate_volume."""
    server = cloud.create_server(name, image="tiny", flavor="m1.nano", network="private", wait=True, auto_ip=False,
                                 boot_from_volume=True, volume_size=1, terminate_volume=True, timeout=600)
    assert server.status == "ACTIVE", server
    attached = list(cloud.compute.volume_attachments(server))
    assert len(attached) == 1
    assert attached[0].delete_on_termination is True
    assert cloud.delete_server(server.id, wait=True)
    assert not [v for v in cloud.list_volumes() if v.id == attached[0].volume_id and v.status not in ("deleting", "available")]


if __name__ == "__main__":
    main(*sys.argv[1:])
