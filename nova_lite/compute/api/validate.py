"""Checks of a request for servers against the cloud: each raises the error for the user."""
from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from oslo_config import cfg
from oslo_utils import strutils

from nova_lite import exception, units
from nova_lite.context import RequestContext
from nova_lite.db import aggregates, flavors, models, server_groups, services
from nova_lite.objects import hardware
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.image import ImageMeta
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import NetworkRequest


def parse_zone(text: str | None) -> tuple[str | None, str | None, str | None]:
    """``zone[:host[:node]]`` as its parts; ``zone::node`` names no host. Raises InvalidInput."""
    if not text or ":" not in text:
        return text or None, None, None
    parts = text.split(":")
    if len(parts) > 3:
        raise exception.InvalidInput(reason="Unable to parse availability_zone")
    zone, host, node = (parts + [""])[:3]
    return zone or None, host or None, node or None


def check_zone(connection: sa.Connection, conf: cfg.ConfigOpts, zone: str) -> None:
    """Raise Invalid for a zone without a host that takes servers."""
    if not services.zone_takes_servers(connection, zone, conf.compute.default_availability_zone):
        raise exception.Invalid("The requested availability zone is not available")


def zone_of_forced(connection: sa.Connection, conf: cfg.ConfigOpts, zone: str | None, host: str | None) -> str | None:
    """The zone of a server that is forced onto ``host``: the requested zone if the host is in it, else the zone of the host's
    aggregates, None for none. Another zone in the request is no error, as in Nova."""
    there = aggregates.zone_of(connection, host)
    return zone if there is None and zone == conf.compute.default_availability_zone else there


def check_destination(connection: sa.Connection, host: str | None, node: str | None) -> None:
    """Raise Invalid unless there is such a compute node (2.74)."""
    nodes = models.compute_nodes.c
    query = sa.select(nodes.id).limit(1)
    if host:
        query = query.where(nodes.host == host)
    if node:
        query = query.where(nodes.hypervisor_hostname == node)
    if (host or node) and connection.execute(query).first() is None:
        raise exception.Invalid(f"Compute host {host or node} could not be found.")


def get_flavor(connection: sa.Connection, context: RequestContext, flavorid: str) -> Flavor:
    """The flavor that a server is to have; raises Invalid for one that the project may not use."""
    try:
        flavor = flavors.get(connection, flavorid, None if context.is_admin else context.project_id)
    except exception.FlavorNotFound as error:
        raise exception.Invalid(error.public) from error
    if flavor.disabled:
        raise exception.Invalid(f"Flavor {flavorid} could not be found.")
    return flavor


def get_group(connection: sa.Connection, context: RequestContext, uuid: str) -> dict[str, Any]:
    """The server group of the hint; raises Invalid for a group of another project."""
    try:
        group = server_groups.get(connection, uuid)
    except exception.ServerGroupNotFound as error:
        raise exception.Invalid(error.public) from error
    if not context.is_admin and group["project_id"] != context.project_id:
        raise exception.Invalid(f"Instance group {uuid} could not be found.")
    return group


def check_image(image: ImageMeta, flavor: Flavor, allow_zero_disk: bool, is_on_volume: bool = False) -> None:
    """Raise the error of an image that cannot boot with this flavor; ``is_on_volume``: the flavor's disk is not used."""
    if image.status != "active":
        raise exception.ImageNotActive(image_id=image.id)
    if flavor.memory_mb < int(image.min_ram or 0):
        raise exception.FlavorMemoryTooSmall()
    if is_on_volume:
        return
    if flavor.root_gb == 0:
        # such a server's disk is as large as its image, which no quota and no claim counts
        if not allow_zero_disk:
            raise exception.Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
        return
    size = flavor.root_gb * units.GiB
    if int(image.size or 0) > size:
        raise exception.FlavorDiskSmallerThanImage(flavor_size=size, image_size=image.size)
    if int(image.min_disk or 0) * units.GiB > size:
        raise exception.FlavorDiskSmallerThanMinDisk(flavor_size=size, image_min_disk=image.min_disk * units.GiB)


def refuse_certificates(certificates: Sequence[str] | None) -> None:
    """Raise Invalid for a list of them: it asks for a check of the image's signature, which is not supported."""
    if certificates:
        raise exception.Invalid("trusted_image_certificates: signatures of images are not checked by this cloud, so no list of "
                                "certificates is taken.")


def refuse_vtpm(instance: Instance, operation: str) -> None:
    """Raise OperationNotSupportedForVTPM (409): the state of the TPM would be lost or missing."""
    if hardware.has_tpm(instance.flavor, instance.image):
        raise exception.OperationNotSupportedForVTPM(operation=operation, instance_uuid=instance.uuid)


def refuse_encrypted_disks(instance: Instance, operation: str) -> None:
    """Raise OperationNotSupportedForEncryptedDisks (409): an image of its disk would hold in plain what the disk does not."""
    if not instance.is_volume_backed and hardware.encrypts_disks(instance.flavor, instance.image):
        raise exception.OperationNotSupportedForEncryptedDisks(
            operation=operation, instance_uuid=instance.uuid, reason="no image is made of an encrypted disk")


def auto_disk_config(image: ImageMeta, wanted: str | None) -> bool:
    """Whether the guest's partition is to grow with its disk; raises Invalid where the image forbids it."""
    text = str(image.properties.get("auto_disk_config", "")).strip()
    if wanted == "AUTO" and text.lower() in ("disabled", "false"):
        raise exception.Invalid(f"Requested image {image.id} has automatic disk resize disabled.")
    return wanted == "AUTO" if wanted else strutils.bool_from_string(text)


def check_metadata_quota(metadata: Mapping[str, str], limit: int) -> None:
    """Raise MetadataLimitExceeded."""
    if 0 <= limit < len(metadata):
        raise exception.MetadataLimitExceeded(allowed=limit)


def check_files(personality: Sequence[Mapping[str, str]], limits: Mapping[str, int]) -> None:
    """Raise QuotaLimitExceeded or Invalid for the files of ``personality``."""
    if 0 <= limits["injected_files"] < len(personality):
        raise exception.QuotaLimitExceeded(what="personality files")
    for item in personality:
        try:
            contents = base64.b64decode("".join(item["contents"].split()), validate=True)
        except (binascii.Error, ValueError) as error:
            raise exception.Invalid(f"Personality content for {item['path']} cannot be decoded") from error
        if 0 <= limits["injected_file_content_bytes"] < len(contents):
            raise exception.OverQuota("Personality content too long")
        if 0 <= limits["injected_file_path_bytes"] < len(item["path"].encode()):
            raise exception.OverQuota("Personality path too long")


def network_requests(networks: str | Sequence[Mapping[str, Any]] | None,
                     count: int) -> str | list[NetworkRequest] | None:
    """What ``networks`` of a request means: "auto", "none", a list, or None for "whatever there is"."""
    if networks is None or isinstance(networks, str):
        return networks
    made = [_network_request(network) for network in networks]
    if count > 1 and any(r.port_id for r in made):
        raise exception.Invalid("Unable to launch multiple instances with a single configured port ID. Please launch your "
                                "instance one by one with different ports.")
    if count > 1 and any(r.address for r in made):
        raise exception.Invalid("Unable to launch multiple instances with a fixed IP address. Please launch your instance "
                                "one by one with different addresses.")
    _check_unique([r.port_id for r in made if r.port_id], "port")
    _check_unique([r.tag for r in made if r.tag], "device tag")
    return made or None


def _network_request(network: Mapping[str, Any]) -> NetworkRequest:
    port, uuid, address = network.get("port"), network.get("uuid"), network.get("fixed_ip")
    if port and address:
        raise exception.Invalid(f"Specified Fixed IP '{address}' cannot be used with port '{port}': the two cannot be "
                                "specified together.")
    if not port and not uuid:
        raise exception.Invalid("Bad networks format: network uuid is not in proper format (None)")
    return NetworkRequest(None if port else uuid, port or None, address, network.get("tag"))


def _check_unique(values: Collection[str], what: str) -> None:
    if len(set(values)) < len(values):
        raise exception.Invalid(f"The same {what} is given more than once: {', '.join(sorted(values))}")


def hostname_of(name: str, default: str) -> str:
    """A host name made of a server's name: letters, digits and hyphens, 63 at most; ``default`` when nothing is left."""
    latin = name.encode("latin-1", "ignore").decode("latin-1")
    made = re.sub(r"[^a-z0-9-]", "", re.sub(r"[\s_.]", "-", latin).lower())[:63].strip("-")
    return made or default[:63].lower()
