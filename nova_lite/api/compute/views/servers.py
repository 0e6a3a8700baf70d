"""The view of a server, by microversion.

A :class:`ServerView` is made once per request, and decides once which attributes are shown. It then builds each server from a
row of the columns that it has asked for. It does not read the database.
"""
from __future__ import annotations

import datetime
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from nova_lite import units
from nova_lite.api.compute import image_property_names
from nova_lite.db import models
from nova_lite.objects import states
from nova_lite.objects.block_device import VOLUME
from nova_lite.policies.base import admin, reader

if TYPE_CHECKING:
    from nova_lite.api.openstack.wsgi import Request

Row = Mapping[str, Any]
I = models.instances.c  # noqa: E741
BRIEF = (I.uuid, I.display_name)
_BASE = (I.id, I.uuid, I.display_name, I.project_id, I.user_id, I.vm_state, I.task_state, I.progress, I.metadata, I.host,
         I.image_ref, I.flavor_ref, I.created_at, I.updated_at, I.network_info, I.access_ip_v4, I.access_ip_v6,
         I.auto_disk_config, I.fault, I.deleted)
_EXTENDED = (I.availability_zone, I.config_drive, I.key_name, I.launched_at, I.terminated_at, I.security_groups,
             I.power_state, I.block_devices)
_ATTRIBUTES, _SPECS, _HOST_STATUS, _UNKNOWN_HOST = RULES = [
    make(name, description, "GET /servers/{server_id}", "GET /servers/detail", "PUT /servers/{server_id}",
         "POST /servers/{server_id}/action (rebuild)") for make, name, description in (
    (admin, "os_compute_api:os-extended-server-attributes", "See the OS-EXT-SRV-ATTR attributes of servers."),
    (reader, "os_compute_api:servers:show:flavor-extra-specs",
     "See the flavor's extra specs in the view of a server (2.47)."),
    (admin, "os_compute_api:servers:show:host_status", "See the status of a server's host (2.16)."),
    (admin, "os_compute_api:servers:show:host_status:unknown-only",
     "See the status of a server's host only where it is UNKNOWN (2.16)."))]
_SINCE: dict[str, tuple[sa.Column[Any], ...]] = {
    "2.9": (I.locked,), "2.19": (I.display_description,), "2.47": (I.flavor,), "2.63": (I.trusted_certs,),
    "2.73": (I.locked_reason,), "2.90": (I.hostname,), "2.96": (I.pinned_availability_zone,), "2.98": (I.image,),
    "2.100": (I.scheduler_hints,)}
_PROGRESS = frozenset(("ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"))
_FAULTY = frozenset(("ERROR", "DELETED"))


def host_id(project_id: str, host: str | None) -> str:
    """A hash of the host name: a project sees which of its servers share a host, but not the host."""
    return hashlib.sha224((project_id + host).encode()).hexdigest() if host else ""


def addresses(network_info: list[dict[str, Any]] | None, extended: bool) -> dict[str, list[dict[str, Any]]]:
    """The addresses of a server by the name of their network; ``extended`` adds MAC and type."""
    found: dict[str, list[dict[str, Any]]] = {}
    for vif in network_info or ():
        known = found.setdefault(vif["network_name"], [])
        for fixed in vif["fixed_ips"]:
            pairs = [(fixed["address"], "fixed"), *((address, "floating") for address in fixed.get("floating_ips") or ())]
            for address, kind in pairs:
                shown: dict[str, Any] = {"version": 6 if ":" in address else 4, "addr": address}
                if extended:
                    shown["OS-EXT-IPS:type"] = kind
                    shown["OS-EXT-IPS-MAC:mac_addr"] = vif["mac_address"]
                known.append(shown)
    return found


class ServerView:
    """The view for one request. ``short``: without the attributes that PUT leaves out before 2.75; ``groups``: with
    server_groups."""

    def __init__(self, req: Request, short: bool = False, groups: bool = True) -> None:
        self._since = {version: req.since(version) for version in (*_SINCE, "2.3", "2.16", "2.26", "2.71")}
        self._short = short
        self._self, self._bookmark = req.link("self", "servers") + "/", req.link("bookmark", "servers") + "/"
        self._flavors, self._images = req.link("bookmark", "flavors") + "/", req.link("bookmark", "images") + "/"
        self._admin = req.context.is_admin
        self._groups = groups and self._since["2.71"]
        self._attributes = not short and req.can(_ATTRIBUTES, fatal=False)
        self._specs = self._since["2.47"] and req.can(_SPECS, fatal=False)
        self._template = req.services.conf.compute.instance_name_template
        status = not short and self._since["2.16"]
        self.host_status = status and req.can(_HOST_STATUS, fatal=False)
        self.host_unknown = status and not self.host_status and req.can(_UNKNOWN_HOST, fatal=False)
        self.wants_hosts = self.host_status or self.host_unknown
        self.wants_tags = self._since["2.26"]
        self.wants_groups = self._groups

    def columns(self) -> list[sa.Column[Any]]:
        """What the rows must hold."""
        wanted = list(_BASE)
        for version, columns in _SINCE.items():
            if self._since[version]:
                wanted += columns
        if not self._short:
            wanted += _EXTENDED
        if self._attributes:
            wanted += (I.node,)
            if self._since["2.3"]:
                wanted += (I.hostname, I.image, I.launch_index, I.reservation_id, I.root_device_name, I.user_data)
        return wanted

    def brief(self, row: Row) -> dict[str, Any]:
        """A server in GET /servers."""
        return {"id": row["uuid"], "name": row["display_name"], "links": self._links(row["uuid"])}

    def full(self, row: Row, tags: list[str] | None = None, hosts: Mapping[str, str] | None = None,
             group: str | None = None) -> dict[str, Any]:
        """A server in all its parts; ``hosts`` are the states of hosts by name, ``group`` its server group."""
        status = "DELETED" if row["deleted"] else states.status(row["vm_state"], row["task_state"])
        shown: dict[str, Any] = {
            "id": row["uuid"], "name": row["display_name"], "status": status, "tenant_id": row["project_id"],
            "user_id": row["user_id"], "metadata": row["metadata"], "hostId": host_id(row["project_id"], row["host"]),
            "image": self._image(row), "flavor": self._flavor(row), "created": units.isotime(row["created_at"]),
            "updated": units.isotime(row["updated_at"] or row["created_at"]),
            "addresses": {} if row["vm_state"] == states.BUILDING else addresses(row["network_info"], not self._short),
            "accessIPv4": row["access_ip_v4"] or "", "accessIPv6": row["access_ip_v6"] or "",
            "links": self._links(row["uuid"]), "OS-DCF:diskConfig": "AUTO" if row["auto_disk_config"] else "MANUAL"}
        if status in _PROGRESS:
            shown["progress"] = row["progress"]
        if status in _FAULTY and row["fault"]:
            shown["fault"] = self._fault(row["fault"], row["updated_at"] or row["created_at"])
        if not self._short:
            self._add_extended(shown, row, hosts or {})
        if self._attributes:
            self._add_attributes(shown, row)
        self._add_newer(shown, row, tags or [])
        if self._groups:
            shown["server_groups"] = [group] if group else []
        return shown

    def _links(self, uuid: str) -> list[dict[str, str]]:
        return [{"rel": "self", "href": self._self + uuid}, {"rel": "bookmark", "href": self._bookmark + uuid}]

    def _image(self, row: Row) -> dict[str, Any] | str:
        ref = row["image_ref"]
        if not ref:
            return ""
        image: dict[str, Any] = {"id": ref, "links": [{"rel": "bookmark", "href": self._images + ref}]}
        if self._since["2.98"]:
            image["properties"] = image_property_names.shown((row["image"] or {}).get("properties") or {})
        return image

    def _flavor(self, row: Row) -> dict[str, Any]:
        if not self._since["2.47"]:
            ref = row["flavor_ref"]
            return {"id": ref, "links": [{"rel": "bookmark", "href": self._flavors + ref}]}
        flavor = row["flavor"]
        shown = {"vcpus": flavor["vcpus"], "ram": flavor["memory_mb"], "disk": flavor["root_gb"],
                 "ephemeral": flavor["ephemeral_gb"], "swap": flavor["swap"], "original_name": flavor["name"]}
        if self._specs:
            shown["extra_specs"] = flavor.get("extra_specs") or {}
        return shown

    def _fault(self, fault: Mapping[str, Any], when: datetime.datetime) -> dict[str, Any]:
        created = fault.get("created")
        if isinstance(created, str):
            when = datetime.datetime.fromisoformat(created).replace(tzinfo=None)
        shown = {"code": fault["code"], "created": units.isotime(when), "message": fault["message"][:255]}
        if fault.get("details") and (self._admin or fault["code"] != 500):
            shown["details"] = fault["details"]
        return shown

    def _add_extended(self, shown: dict[str, Any], row: Row, hosts: Mapping[str, str]) -> None:
        shown["OS-EXT-AZ:availability_zone"] = row["availability_zone"] or ""
        shown["config_drive"] = "True" if row["config_drive"] else ""
        shown["key_name"] = row["key_name"]
        shown["OS-SRV-USG:launched_at"] = units.isotime_micro(row["launched_at"])
        shown["OS-SRV-USG:terminated_at"] = units.isotime_micro(row["terminated_at"])
        shown["OS-EXT-STS:task_state"] = row["task_state"]
        shown["OS-EXT-STS:vm_state"] = row["vm_state"]
        shown["OS-EXT-STS:power_state"] = row["power_state"]
        shown["os-extended-volumes:volumes_attached"] = self._volumes(row["block_devices"])
        if row["security_groups"] and row["network_info"] and not row["deleted"]:      # they are those of the ports
            shown["security_groups"] = [{"name": name} for name in row["security_groups"]]
        if self.wants_hosts:
            status = hosts.get(row["host"], "") if row["host"] else ""
            if self.host_status or status == "UNKNOWN":
                shown["host_status"] = status

    def _volumes(self, devices: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        attached = [d for d in devices or () if d["destination_type"] == VOLUME and d["volume_id"]]
        if not self._since["2.3"]:
            return [{"id": device["volume_id"]} for device in attached]
        return [{"id": device["volume_id"], "delete_on_termination": device["delete_on_termination"]} for device in attached]

    def _add_attributes(self, shown: dict[str, Any], row: Row) -> None:
        shown["OS-EXT-SRV-ATTR:host"] = row["host"]
        shown["OS-EXT-SRV-ATTR:hypervisor_hostname"] = row["node"]
        shown["OS-EXT-SRV-ATTR:instance_name"] = instance_name(self._template, row["id"], row["uuid"])
        if not self._since["2.3"]:
            return
        properties = (row["image"] or {}).get("properties") or {}
        shown["OS-EXT-SRV-ATTR:kernel_id"] = properties.get("kernel_id") or ""
        shown["OS-EXT-SRV-ATTR:ramdisk_id"] = properties.get("ramdisk_id") or ""
        shown["OS-EXT-SRV-ATTR:reservation_id"] = row["reservation_id"] or ""
        for name in ("hostname", "launch_index", "root_device_name", "user_data"):
            shown["OS-EXT-SRV-ATTR:" + name] = row[name]

    def _add_newer(self, shown: dict[str, Any], row: Row, tags: list[str]) -> None:
        since = self._since
        if since["2.9"]:
            shown["locked"] = row["locked"]
        if since["2.19"]:
            shown["description"] = row["display_description"]
        if since["2.26"]:
            shown["tags"] = tags
        if since["2.63"]:
            shown["trusted_image_certificates"] = row["trusted_certs"] or None
        if since["2.73"]:
            shown["locked_reason"] = row["locked_reason"]
        if since["2.90"]:
            shown["OS-EXT-SRV-ATTR:hostname"] = row["hostname"]
        if since["2.96"]:
            shown["pinned_availability_zone"] = row["pinned_availability_zone"]
        if since["2.100"]:
            shown["scheduler_hints"] = {name: value if isinstance(value, list) else [value]
                                        for name, value in (row["scheduler_hints"] or {}).items()}


def instance_name(template: str, number: int, uuid: str) -> str:
    """The hypervisor's name of a server; see ``Instance.domain_name``."""
    try:
        return template % number
    except TypeError:
        return template % {"uuid": uuid, "id": number}
