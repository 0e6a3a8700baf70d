"""Creation of servers: everything is checked, then one transaction writes the servers and their actions."""
from __future__ import annotations

import secrets
import string
import uuid as uuids
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from oslo_log import log

from nova_lite import exception
from nova_lite.compute.api import block_devices, validate
from nova_lite.compute.api.volumes import Prepared, Volumes, check_image_fits
from nova_lite.context import RequestContext
from nova_lite.db import actions, instances, keypairs, quotas, server_groups
from nova_lite.network.base import Requests, Wanted
from nova_lite.objects import action as action_objects
from nova_lite.objects import hardware, states
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta

LOG = log.getLogger(__name__)
_ALPHABETS = (string.digits.replace("0", "").replace("1", ""), "ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz")


@dataclass
class CreateRequest:
    """What a user asks for. ``host`` and ``node`` with ``force``: without the scheduler's consent."""

    name: str
    flavor_id: str
    image_id: str = ""
    min_count: int = 1
    max_count: int = 1
    description: str | None = None
    hostname: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    networks: str | list[dict[str, Any]] | None = None
    key_name: str | None = None
    availability_zone: str | None = None
    host: str | None = None
    node: str | None = None
    force: bool = False
    hints: dict[str, Any] = field(default_factory=dict)
    user_data: str | None = None
    personality: list[dict[str, str]] = field(default_factory=list)
    config_drive: bool = False
    disk_config: str | None = None
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    security_groups: list[str] = field(default_factory=lambda: ["default"])
    tags: list[str] = field(default_factory=list)
    trusted_certs: list[str] | None = None
    block_devices: list[dict[str, Any]] = field(default_factory=list)
    legacy_block_devices: list[dict[str, Any]] = field(default_factory=list)
    admin_password: str | None = None
    allow_zero_disk: bool = False
    allow_external_network: bool = False
    allow_multiattach: bool = True


@dataclass
class Created:
    """The servers of one request, in order."""

    uuids: list[str]
    reservation_id: str
    auto_disk_config: bool


@dataclass
class _Facts:
    """What was found for a request."""

    flavor: Flavor
    image: ImageMeta
    keypair: dict[str, Any] | None
    networks: Requests
    auto_disk_config: bool
    devices: list[BlockDevice]


class Creation(Volumes):
    """POST /servers."""

    def create(self, context: RequestContext, request: CreateRequest) -> Created:
        """Write ``min_count`` to ``max_count`` servers, as many as the quota allows, and let them be built. Raises the errors
        of the request (Invalid and subclasses, 400), OverQuota (403) or Conflict (409)."""
        facts = self._look_up(context, request)
        wanted = self._check_networks(context, facts.networks, request)
        facts.networks, request.security_groups = wanted.requests, wanted.security_groups
        reservation = "r-" + "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(8))
        servers, action_ids, devices = self.db.write(self._write, context, request, facts, reservation)
        LOG.info("create: %s server(s), reservation %s", len(servers), reservation,
                 extra={"instance_uuid": servers[0]} if len(servers) == 1 else {})
        if _has_volumes(facts.devices):
            self.prepare_volumes(context, devices, action_ids)
        self.wakeups.send(self.conductor_rpc.schedule_and_build_instances, context, action_ids)
        return Created(servers, reservation, facts.auto_disk_config)

    def _look_up(self, context: RequestContext, request: CreateRequest) -> _Facts:
        if request.min_count > request.max_count:
            raise exception.Invalid("min_count must be <= max_count")
        if request.hostname and request.max_count > 1:
            raise exception.Invalid("A hostname cannot be given to more than one server.")
        validate.refuse_certificates(request.trusted_certs)
        image = self._image_of(context, request.image_id)
        mapping: block_devices.Mappings = request.block_devices
        if image is not None and not request.legacy_block_devices:
            mapping = block_devices.with_those_of_image(mapping, image)
        devices = block_devices.parse(mapping, request.legacy_block_devices, request.image_id)
        networks = validate.network_requests(request.networks, request.max_count)
        with self.db.read() as connection:
            flavor = self.with_devices(validate.get_flavor(connection, context, request.flavor_id))
            keypair = self._keypair(connection, context, request.key_name)
            self._check_zone_and_host(connection, request)
            if request.hints.get("group"):
                validate.get_group(connection, context, request.hints["group"])
            if request.metadata or request.personality:
                limits = quotas.limits_for(connection, self.conf, context.project_id or "")
                validate.check_metadata_quota(request.metadata, limits["metadata_items"])
                validate.check_files(request.personality, limits)
        image = self._check_disks(context, request, flavor, devices, image)
        return _Facts(flavor, image, keypair, networks, validate.auto_disk_config(image, request.disk_config), devices)

    def _check_zone_and_host(self, connection: sa.Connection, request: CreateRequest) -> None:
        """Zone, host and node of the request; the zone becomes that of a host that is forced."""
        if request.force:
            request.availability_zone = validate.zone_of_forced(connection, self.conf, request.availability_zone, request.host)
        else:
            validate.check_destination(connection, request.host, request.node)
        if request.availability_zone and not (request.force and request.host):
            validate.check_zone(connection, self.conf, request.availability_zone)

    def _check_disks(self, context: RequestContext, request: CreateRequest, flavor: Flavor,
                     devices: list[BlockDevice], image: ImageMeta | None) -> ImageMeta:
        """Check the root disk and all other disks of the servers; raises the errors."""
        block_devices.check_local(devices, flavor)
        self.check_devices(context, devices, request.max_count, request.allow_multiattach, has_image=image is not None)
        root = next((d for d in devices if d.is_root and d.is_volume), None)
        if image is None:
            assert root is not None     # else `parse` has refused a request without an image
            image = self.root_image(context, root)
        validate.check_image(image, flavor, request.allow_zero_disk, is_on_volume=root is not None)
        hardware.check(flavor, image)
        if root is not None:
            check_image_fits(image, root)
        return image

    def _image_of(self, context: RequestContext, image_id: str) -> ImageMeta | None:
        """The image of the request; None: it names none. Raises Invalid for an image that does not exist."""
        try:
            return self.image.get(context, image_id) if image_id else None
        except exception.ImageNotFound as error:
            raise exception.Invalid(error.public) from error

    @staticmethod
    def _keypair(connection: sa.Connection, context: RequestContext, name: str | None) -> dict[str, Any] | None:
        if name is None:
            return None
        try:
            found = keypairs.get(connection, context.user_id or "", name)
        except exception.KeypairNotFound as error:
            raise exception.Invalid(f"Invalid key_name provided: {name}") from error
        return {key: found[key] for key in ("name", "type", "public_key")}

    def _check_networks(self, context: RequestContext, networks: Requests, request: CreateRequest) -> Wanted:
        try:
            return self.network.validate(context, networks, request.max_count, request.security_groups,
                                         request.allow_external_network)
        except exception.NotFound as error:        # a network that is not there is a mistake in the body, not in the URL
            raise exception.Invalid(error.public) from error

    def _write(self, connection: sa.Connection, context: RequestContext, request: CreateRequest, facts: _Facts,
               reservation: str) -> tuple[list[str], list[int], Prepared]:
        project, user = context.project_id or "", context.user_id or ""
        count = quotas.servers_that_fit(connection, self.conf, project, user, request.min_count, request.max_count,
                                        facts.flavor.vcpus, facts.flavor.memory_mb)
        group = request.hints.get("group")
        if group:
            quotas.check_server_group_members(connection, self.conf, project, user, group, count)
        chosen = [str(uuids.uuid4()) for _ in range(count)]
        common = self._common(context, request, facts, reservation)
        devices = {uuid: block_devices.for_server(facts.devices, facts.flavor, facts.image, common["config_drive"])
                   for uuid in chosen}
        instances.create_many(connection, [
            {**common, **self._names(request, uuid, number, count), "block_devices": devices[uuid] or None,
             "root_device_name": block_devices.root_name(devices[uuid], facts.image)} for number, uuid in enumerate(chosen)])
        if group:
            server_groups.add_members(connection, group, chosen)
        # the password reaches a guest by a config drive only: without one it is not kept
        arguments = {"admin_password": request.admin_password} if request.admin_password and common["config_drive"] else None
        # volumes are reserved and made first, see prepare_volumes
        stage = action_objects.API if _has_volumes(facts.devices) else action_objects.CONDUCTOR
        ids = actions.create(connection, context, "build", chosen, self._lease(), stage, arguments=arguments)
        return chosen, ids, devices

    @staticmethod
    def _names(request: CreateRequest, uuid: str, number: int, count: int) -> dict[str, Any]:
        suffix = f"-{number + 1}" if count > 1 else ""
        name = request.name[:255 - len(suffix)] + suffix
        hostname = request.hostname or validate.hostname_of(name, f"Server-{uuid}")
        return {"uuid": uuid, "display_name": name, "hostname": hostname[:255], "launch_index": number}

    def _common(self, context: RequestContext, request: CreateRequest, facts: _Facts, reservation: str) -> dict[str, Any]:
        destination = None
        if request.host or request.node:
            destination = {"host": request.host, "node": request.node, "force": request.force}
        mandatory = str(facts.image.properties.get("img_config_drive", "")) == "mandatory"
        return {
            "project_id": context.project_id or "", "user_id": context.user_id or "", "reservation_id": reservation,
            "display_description": request.description, "vm_state": states.BUILDING, "task_state": states.SCHEDULING,
            "image_ref": request.image_id, "image": facts.image, "flavor": facts.flavor, "flavor_ref": facts.flavor.flavorid,
            "key_name": request.key_name, "keypair": facts.keypair, "availability_zone": request.availability_zone,
            "pinned_availability_zone": request.availability_zone, "metadata": request.metadata,
            "config_drive": request.config_drive or mandatory or self.conf.compute.force_config_drive,
            "user_data": request.user_data, "access_ip_v4": request.access_ip_v4, "access_ip_v6": request.access_ip_v6,
            "auto_disk_config": facts.auto_disk_config, "network_request": _plain_networks(facts.networks),
            "security_groups": request.security_groups, "scheduler_hints": request.hints,
            "requested_destination": destination, "trusted_certs": request.trusted_certs,
            "personality": request.personality or None, "tags": request.tags}


def _plain_networks(networks: Requests) -> str | list[dict[str, Any]] | None:
    return networks if networks is None or isinstance(networks, str) else [r.to_primitive() for r in networks]


def _has_volumes(devices: Sequence[BlockDevice]) -> bool:
    return any(d.is_volume for d in devices)


def password_of(asked: Mapping[str, Any]) -> str:
    """The ``adminPass`` of a request, which may be empty, or a new one."""
    return str(asked["adminPass"]) if "adminPass" in asked else generate_password()


def generate_password(length: int = 12) -> str:
    """A password without letters that look alike, with at least one of each alphabet."""
    chosen = [secrets.choice(alphabet) for alphabet in _ALPHABETS]
    chosen += [secrets.choice("".join(_ALPHABETS)) for _ in range(length - len(chosen))]
    secrets.SystemRandom().shuffle(chosen)
    return "".join(chosen)
