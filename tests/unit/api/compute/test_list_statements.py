"""Every list costs as many SQL statements when it is long as when it is short. (Those of servers, flavors, aggregates, hosts,
services, hypervisors, groups and usage say so in their own files.)"""
from __future__ import annotations

import pytest

from nova_lite.context import RequestContext
from nova_lite.db import actions, instances, keypairs, moves
from nova_lite.objects.block_device import BlockDevice

CONTEXT = RequestContext(user_id="fake", project_id="project1", overwrite=False)


def add_keypair(cloud, server, number):
    values = {"name": f"k{number}", "user_id": "fake", "type": "ssh", "fingerprint": "f", "public_key": "p"}
    cloud.db.write(keypairs.create, cloud.conf, "project1", values)


def add_action(cloud, server, number):
    cloud.db.write(actions.record, CONTEXT, "lock", server)


def add_move(cloud, server, number):
    def write(conn):
        moves.create(conn, instances.get(conn, server), "live-migration", "running", dest_compute="h2")
    cloud.db.write(write)


def add_volume(cloud, server, number):
    def write(conn):
        devices = instances.get(conn, server).block_devices
        volume = f"00000000-0000-0000-0000-00000000000{number}"
        device = BlockDevice(f"d{number}", "volume", volume_id=volume, device_name="/dev/vdb")
        instances.update(conn, server, {"block_devices": [*devices, device]})
    cloud.db.write(write)


def add_tag(cloud, server, number):
    cloud.client(version="2.26").put(f"/servers/{server}/tags/t{number}", None, 201)


@pytest.mark.parametrize(("add", "path", "most"), [
    (add_keypair, "/os-keypairs", 1), (add_action, "/servers/{}/os-instance-actions", 3), (add_move, "/os-migrations", 2),
    (add_move, "/servers/{}/migrations", 3), (add_volume, "/servers/{}/os-volume_attachments", 2),
    (add_tag, "/servers/{}/tags", 2)])
@pytest.mark.parametrize("version", ["2.23", "2.90"])
def test_a_long_list_takes_as_many_statements_as_a_short_one(cloud, add, path, most, version):
    if add is add_tag:
        version = "2.90"
    server, counts, lengths = cloud.add_server(host="h1", launched_at=None), [], []
    admin = cloud.client(roles=("admin", "member", "reader"), version=version)
    for number in range(1, 7):
        add(cloud, server, number)
        with cloud.statements() as seen:
            (found, *_) = admin.get(path.format(server)).values()
        lengths.append(len(found))
        counts.append(len([s for s in seen if s.lstrip().upper().startswith("SELECT")]))
    assert lengths == [1, 2, 3, 4, 5, 6]
    assert set(counts) == {counts[0]}
    assert counts[0] <= most
