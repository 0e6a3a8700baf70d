"""What a new standalone cloud starts with: schema, users, flavors, a network and an image. Safe to run at every start."""
from __future__ import annotations

import pathlib

import sqlalchemy as sa
from oslo_config import cfg
from oslo_log import log

from nova_lite import durable
from nova_lite.context import RequestContext
from nova_lite.db import cloud, flavors, migration, models, networks, secret_keys
from nova_lite.db.core import Database
from nova_lite.embedded.identity.local import LocalIdentity
from nova_lite.image import base as image_base

LOG = log.getLogger(__name__)

USERS = {"admin": ("admin", ["admin", "manager", "member", "reader"]), "demo": ("demo", ["member", "reader"])}
FLAVORS = (  # id, name, MiB of memory, vcpus, GiB of disk
    ("1", "m1.tiny", 512, 1, 1), ("2", "m1.small", 2048, 1, 20), ("3", "m1.medium", 4096, 2, 40),
    ("4", "m1.large", 8192, 4, 80), ("42", "m1.nano", 128, 1, 1))
NETWORK, CIDR = "private", "10.71.0.0/24"
IMAGE = "tiny"


def seed(conf: cfg.ConfigOpts, db: Database, image: str = "") -> None:
    """Create what is missing; ``image`` is the qcow2 file of the first image. What a user has deleted stays deleted: the file
    ``seeded`` names the cloud for which this directory was made."""
    migration.sync(conf)
    secret_keys.ensure(conf)
    state = pathlib.Path(conf.state_path)
    state.mkdir(parents=True, exist_ok=True)
    passwords = LocalIdentity(f"{state}/identity").ensure(USERS)
    mark = state / "seeded"
    with db.read() as connection:
        mine, is_new = cloud.find_id(connection) or "", _is_new(connection)
    marked = mark.read_text().strip() if mark.exists() else None
    # the file of an older version names no cloud, so the database decides whether it is the same
    if marked != mine and (marked != "" or is_new):
        db.write(_flavors)
        db.write(_network, conf)
        _image(conf, image)
    if marked != mine:
        mark.write_text(f"{mine}\n")
    write_clouds_yaml(conf, passwords)


def _is_new(connection: sa.Connection) -> bool:
    """Whether the database was never used: there is no flavor, and never was a server."""
    return not flavors.list_all(connection) and connection.scalar(sa.select(models.instances.c.id).limit(1)) is None


def _flavors(connection: sa.Connection) -> None:
    have = flavors.list_all(connection)
    names, ids = {f.name for f in have}, {f.flavorid for f in have}
    for flavorid, name, memory_mb, vcpus, root_gb in FLAVORS:
        if name not in names and flavorid not in ids:
            flavors.create(connection, {"flavorid": flavorid, "name": name, "memory_mb": memory_mb, "vcpus": vcpus,
                                        "root_gb": root_gb})


def _network(connection: sa.Connection, conf: cfg.ConfigOpts) -> None:
    if not networks.list_networks(connection, None):
        networks.create_network(connection, name=NETWORK, cidr=CIDR, mtu=conf.network.mtu,
                                bridge_prefix=conf.network.bridge_prefix)


def _image(conf: cfg.ConfigOpts, path: str) -> None:
    if not path and conf.compute.driver != "fake":
        LOG.warning("no --image was given: the cloud starts without an image")
        return
    images = image_base.load(conf)
    context = RequestContext(roles=["admin"], is_admin=True, overwrite=False)
    for old in images.list(context):
        if old.name == IMAGE and old.status == "active":
            return
        if old.name == IMAGE:
            images.delete(context, old.id)      # the start before this one died in the middle of the upload
    made = images.create(context, {"name": IMAGE, "visibility": "public", "disk_format": "qcow2" if path else "raw"})
    if not path:
        images.upload(context, made.id, [b"nothing but a few bytes, for guests that are played\n"])
        return
    with open(path, "rb") as stream:
        images.upload(context, made.id, iter(lambda: stream.read(1 << 20), b""))


def write_clouds_yaml(conf: cfg.ConfigOpts, passwords: dict[str, str]) -> pathlib.Path:
    """``<state_path>/clouds.yaml``, readable by its owner only: one entry per user."""
    scheme = "https" if conf.api.tls_cert_file else "http"
    lines = ["clouds:"]
    for user, (project, _roles) in USERS.items():
        name = "nova-lite" if user == "admin" else f"nova-lite-{user}"
        lines += [f"  {name}:", "    auth:", f"      auth_url: {scheme}://127.0.0.1:{conf.api.port}/identity/v3",
                  f"      username: {user}", f"      password: {passwords[user]}", f"      project_name: {project}",
                  "      user_domain_id: default", "      project_domain_id: default", "    region_name: RegionOne",
                  "    identity_api_version: 3"]
    path = pathlib.Path(conf.state_path) / "clouds.yaml"
    with durable.written_whole(path) as part:
        part.write_text("\n".join(lines) + "\n")
    return path
