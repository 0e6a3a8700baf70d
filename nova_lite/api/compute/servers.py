"""/servers: create, list, show, change and delete."""
from __future__ import annotations

import ipaddress
from typing import Any, NamedTuple

import webob
from oslo_utils import strutils

from nova_lite import exception
from nova_lite.api.compute.schemas import servers as schema
from nova_lite.api.compute.schemas import servers_response as answers
from nova_lite.api.compute.schemas.shapes import LOCATION
from nova_lite.api.compute.views import servers as views
from nova_lite.api.compute.views.servers import BRIEF, ServerView
from nova_lite.api.openstack import links, pagination
from nova_lite.api.openstack.routes import Route
from nova_lite.api.openstack.wsgi import Request
from nova_lite.compute.api import validate
from nova_lite.compute.api.create import CreateRequest, password_of
from nova_lite.compute.api.listing import ListRequest, sort_pairs
from nova_lite.network.default_group import NAME as DEFAULT_GROUP
from nova_lite.objects.instance import Instance
from nova_lite.policies.base import admin, member, reader

RULE = "os_compute_api:servers:"
_ALL_TENANTS = {
    "index": admin(f"{RULE}index:get_all_tenants", "List the servers of all projects.", "GET /servers"),
    "detail": admin(f"{RULE}detail:get_all_tenants", "List the servers of all projects with details.", "GET /servers/detail")}
_ALL_FILTERS = admin(f"{RULE}allow_all_filters", "Filter the list of servers by every attribute.", "GET /servers",
                     "GET /servers/detail")
_FORCED_HOST = admin(f"{RULE}create:forced_host",
                     "Create a server on the host that availability_zone names, without the scheduler's check.",
                     "POST /servers")
_DESTINATION = admin("compute:servers:create:requested_destination",
                     "Create a server on a requested host or hypervisor (2.74).", "POST /servers")
_WITH_VOLUME = member(f"{RULE}create:attach_volume", "Create a server with volumes.", "POST /servers")
_WITH_NETWORK = member(f"{RULE}create:attach_network", "Create a server with requested networks or ports.", "POST /servers")
_TRUSTED_CERTS = member(f"{RULE}create:trusted_certs", "Create a server with trusted image certificates (2.63).",
                        "POST /servers")
_ZERO_DISK = admin(f"{RULE}create:zero_disk_flavor", "Create a server from an image with a flavor whose disk is 0.",
                   "POST /servers")
ATTACH_EXTERNAL_NETWORK = admin("network:attach_external_network", "Attach a server to an external network.",
                                "POST /servers", "POST /servers/{server_id}/os-interface")


class Seen(NamedTuple):
    """The owner of a server, and the columns of its view."""

    project_id: str
    user_id: str
    view: dict[str, Any]


def seen(req: Request, server_id: str, short: bool = False) -> Seen:
    """A server that the caller may know of, in the statements that its view needs. Raises InstanceNotFound."""
    view = ServerView(req, short=short)
    found = req.services.compute.show(req.context, server_id, view.columns(), view.wants_tags, view.wants_hosts,
                                      view.wants_groups)
    row = found.rows[0]
    shown = view.full(row, found.tags.get(server_id), found.hosts, found.groups.get(server_id))
    return Seen(row["project_id"], row["user_id"], shown)


# list and show ----------------------------------------------------------------------------------------------------------
def index(req: Request) -> dict[str, Any]:
    """Names and links of servers."""
    view = ServerView(req)
    question = _question(req, "index")
    found = [] if _asks_for_none(req) else req.services.compute.list_servers(req.context, question, BRIEF).rows
    return {"servers": [view.brief(row) for row in found],
            **pagination.next_links(req, "servers", [row["uuid"] for row in found], "servers")}


def detail(req: Request) -> dict[str, Any]:
    """Servers with all attributes except their group."""
    question = _question(req, "detail")
    if _asks_for_none(req):
        return {"servers": []}
    view = ServerView(req, groups=False)
    found = req.services.compute.list_servers(req.context, question, view.columns(), view.wants_tags, view.wants_hosts)
    return {"servers": [view.full(row, found.tags.get(row["uuid"]), found.hosts) for row in found.rows],
            **pagination.next_links(req, "servers", [row["uuid"] for row in found.rows], "servers", "detail")}


def show(_req: Request, instance: Seen) -> dict[str, Any]:
    """One server."""
    return {"server": instance.view}


def _asks_for_none(req: Request) -> bool:
    text = (req.params_in.get("limit") or ["1"])[-1]
    return text.isdigit() and int(text[:18]) == 0


def _question(req: Request, which: str) -> ListRequest:
    """The query of a list as the compute API takes it; raises PolicyNotAuthorized for all_tenants, Invalid for what is no
    filter."""
    params = dict(req.params_in)
    keys, directions = params.pop("sort_key", []), params.pop("sort_dir", [])
    statuses = params.pop("status", [])
    params.pop("limit", None)
    params.pop("marker", None)
    everything = req.can(_ALL_FILTERS, fatal=False)
    wrong = [name for name in params if name.startswith("_") or name in schema.NO_FILTERS]
    if wrong and everything:
        raise exception.Invalid(f"Invalid filter field: {wrong[0]}.")
    filters = {name: values[-1] for name, values in params.items() if name not in wrong}
    all_tenants = "all_tenants" in filters and _is_true("all_tenants", filters["all_tenants"])
    if all_tenants:
        req.can(_ALL_TENANTS[which])
    return ListRequest(filters, statuses, sort_pairs(keys, directions), pagination.limit(req), pagination.marker(req),
                       everything, all_tenants, req.since)


def _is_true(name: str, text: str) -> bool:
    try:
        return strutils.bool_from_string(text, strict=True) if text else True      # "?all_tenants" alone means yes
    except ValueError as error:
        raise exception.InvalidInput(reason=f"{name}: {error}") from error


# create -----------------------------------------------------------------------------------------------------------------
def create(req: Request) -> webob.Response:
    """New servers: they are written down when the answer comes, and built after it."""
    server = req.json_in["server"]
    request = _creation(req, server)
    created = req.services.compute.create(req.context, request)
    if strutils.bool_from_string(server.get("return_reservation_id")):
        return webob.Response(status=202, json_body={"reservation_id": created.reservation_id})
    first = created.uuids[0]
    shown: dict[str, Any] = {
        "id": first, "links": links.links(req, "servers", first),
        "OS-DCF:diskConfig": "AUTO" if created.auto_disk_config else "MANUAL",
        "security_groups": server.get("security_groups", [{"name": DEFAULT_GROUP}])}
    if request.admin_password is not None:
        shown["adminPass"] = request.admin_password
    return webob.Response(status=202, json_body={"server": shown}, location=req.link("self", "servers", first))


def _creation(req: Request, server: dict[str, Any]) -> CreateRequest:
    zone, host, node = validate.parse_zone(server.get("availability_zone"))
    minimum = int(server.get("min_count", 1))
    request = CreateRequest(
        name=server["name"], flavor_id=str(server["flavorRef"]).rstrip("/").rpartition("/")[2],
        image_id=server.get("imageRef") or "", min_count=minimum, max_count=int(server.get("max_count", minimum)),
        description=server.get("description") if req.since("2.19") else server["name"],
        hostname=server.get("hostname"), metadata=server.get("metadata", {}),
        networks=server.get("networks"), key_name=server.get("key_name"), availability_zone=zone, host=host, node=node,
        force=bool(host or node), hints=_hints(req.json_in), user_data=server.get("user_data"),
        personality=server.get("personality", []), config_drive=strutils.bool_from_string(server.get("config_drive")),
        disk_config=server.get("OS-DCF:diskConfig"), access_ip_v4=server.get("accessIPv4") or None,
        access_ip_v6=short_ipv6(server.get("accessIPv6")), security_groups=_security_groups(server),
        tags=list(dict.fromkeys(server.get("tags", []))), trusted_certs=server.get("trusted_image_certificates"),
        block_devices=server.get("block_device_mapping_v2", []),
        legacy_block_devices=server.get("block_device_mapping", []),
        allow_zero_disk=req.can(_ZERO_DISK, fatal=False),
        allow_external_network=req.can(ATTACH_EXTERNAL_NETWORK, fatal=False),
        allow_multiattach=req.since("2.60"))
    if req.services.conf.api.enable_instance_password:
        request.admin_password = password_of(server)
    _choose_host(req, server, request)
    if request.networks and not isinstance(request.networks, str):
        req.can(_WITH_NETWORK)
    if request.trusted_certs:
        req.can(_TRUSTED_CERTS)
    if request.block_devices or request.legacy_block_devices:
        req.can(_WITH_VOLUME)
    return request


def _choose_host(req: Request, server: dict[str, Any], request: CreateRequest) -> None:
    """The host of the zone (forced) or of 2.74 (the scheduler still has its say); both are for admins."""
    if request.force:
        req.can(_FORCED_HOST)
    host, node = server.get("host"), server.get("hypervisor_hostname")
    if not host and not node:
        return
    req.can(_DESTINATION)
    if request.force:
        raise exception.Invalid("Specifying a host in availability_zone together with host or hypervisor_hostname is not "
                                "supported.")
    request.host, request.node = host, node


def _hints(body: dict[str, Any]) -> dict[str, Any]:
    hints = body.get("os:scheduler_hints") or body.get("OS-SCH-HNT:scheduler_hints") or {}
    return {name: value for name, value in hints.items() if value is not None}


def short_ipv6(text: str | None) -> str | None:
    """An address that the schema has let through, in its short form, as Nova shows it."""
    return ipaddress.IPv6Address(text).compressed if text else None


def _security_groups(server: dict[str, Any]) -> list[str]:
    names = [group["name"] for group in server.get("security_groups", []) if group.get("name")]
    return list(dict.fromkeys(names)) or [DEFAULT_GROUP]


# change and delete ------------------------------------------------------------------------------------------------------
def update(req: Request, instance: Instance) -> dict[str, Any]:
    """Change what the body names."""
    server = req.json_in["server"]
    columns = {"name": "display_name", "description": "display_description", "hostname": "hostname",
               "pinned_availability_zone": "pinned_availability_zone"}
    values: dict[str, Any] = {column: server[key] for key, column in columns.items() if key in server}
    if "accessIPv4" in server:
        values["access_ip_v4"] = server["accessIPv4"] or None
    if "accessIPv6" in server:
        values["access_ip_v6"] = short_ipv6(server["accessIPv6"])
    if "OS-DCF:diskConfig" in server:
        values["auto_disk_config"] = server["OS-DCF:diskConfig"] == "AUTO"
    if values:
        req.services.compute.update(req.context, instance.uuid, values)
    return {"server": seen(req, instance.uuid, short=not req.since("2.75")).view}


def delete(req: Request, instance: Instance) -> None:
    """Delete a server."""
    req.services.compute.delete(req.context, instance.uuid)


ROUTES = [
    Route("GET", "/servers", index, reader(f"{RULE}index", "List servers."), query=schema.LIST, response=answers.INDEX),
    Route("GET", "/servers/detail", detail, reader(f"{RULE}detail", "List servers with details."), query=schema.LIST,
          response=answers.DETAIL),
    Route("POST", "/servers", create, member(f"{RULE}create", "Create servers."), body=schema.CREATE, query=schema.NO_QUERY,
          response=answers.CREATE, status=202, headers=LOCATION),
    Route("GET", "/servers/{server_id}", show, reader(f"{RULE}show", "Show a server."), query=schema.NO_QUERY,
          response=answers.SHOW, server=seen),
    Route("PUT", "/servers/{server_id}", update, member(f"{RULE}update", "Change a server."), body=schema.UPDATE,
          query=schema.NO_QUERY, response=answers.UPDATE),
    Route("DELETE", "/servers/{server_id}", delete, member(f"{RULE}delete", "Delete a server."), query=schema.NO_QUERY,
          status=204),
]
RULES = [*views.RULES, *_ALL_TENANTS.values(), _ALL_FILTERS, _FORCED_HOST, _DESTINATION, _WITH_VOLUME, _WITH_NETWORK,
         _TRUSTED_CERTS, _ZERO_DISK, ATTACH_EXTERNAL_NETWORK]
