"""What API handlers may call, made once per process."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING

from oslo_config import cfg

from nova_lite import notifications, rpc
from nova_lite.db import host_keys
from nova_lite.db.core import Database
from nova_lite.identity.projects import Projects
from nova_lite.image import base as image_base
from nova_lite.network import base as network_base
from nova_lite.rpc import sender
from nova_lite.volume import base as volume_base

if TYPE_CHECKING:
    from nova_lite.compute.api import ComputeAPI
    from nova_lite.policy import Policy


@dataclass
class Services:
    """``compute`` holds the rules for servers; ``db`` is for resources that are rows and nothing more."""

    conf: cfg.ConfigOpts
    db: Database
    policy: Policy
    image: image_base.ImageAPI
    network: network_base.NetworkAPI
    volume: volume_base.VolumeAPI
    compute: ComputeAPI
    projects: Projects = field(init=False)

    def __post_init__(self) -> None:
        self.projects = Projects(self.conf)


def make_services(conf: cfg.ConfigOpts, modules: Sequence[ModuleType] | None = None, policy: Policy | None = None) -> Services:
    """Everything from the configuration; nothing connects before its first use.

    ``modules`` are the API's resources, which bring the rules of ``policy``, unless that is given; None: those of the entry
    points.
    """
    from nova_lite.api.openstack import rules
    from nova_lite.compute.api import ComputeAPI
    from nova_lite.conductor.security_group_notifier import SecurityGroupNotifier
    from nova_lite.db.port_store import DatabasePortStore
    from nova_lite.policy import Policy
    from nova_lite.rpc import compute as rpcapi

    db, transport = Database(conf), rpc.get_transport(conf)
    notifications.attach(conf, db, "api")
    image = image_base.load(conf)
    to_hosts = sender.to_hosts(conf, host_keys.Generations(db))
    network = network_base.load(conf, DatabasePortStore(db, SecurityGroupNotifier(db, rpcapi.ComputeAPI(transport, to_hosts))))
    volume = volume_base.load(conf)
    compute = ComputeAPI(conf, db, transport, image, network, volume)
    return Services(conf, db, policy or Policy(conf, rules.installed(modules)), image, network, volume, compute)
