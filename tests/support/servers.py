"""Rows of servers for tests that need a server to be there, not a cloud that builds it."""
from __future__ import annotations

import uuid

from nova_lite.db import instances
from nova_lite.db.core import Database
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance


def add_server(db: Database, instance: Instance | None = None) -> Instance:
    """Write a server down as POST /servers does, one of the project ``p`` when none is given."""
    if instance is None:
        instance = Instance(uuid=str(uuid.uuid4()), project_id="p", user_id="u", display_name="n", hostname="n",
                            flavor=Flavor("1", "f", 1, 1, 1))
    db.write(instances.create_many, [{
        "uuid": instance.uuid, "project_id": instance.project_id, "user_id": instance.user_id, "hostname": instance.hostname,
        "display_name": instance.display_name, "flavor": instance.flavor, "vm_state": instance.vm_state}])
    return instance
