"""Neutron's v2.0 API, as much of it as servers need. Its refusals become the errors that users of Nova expect."""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.identity.keystone import Client, NeighbourError

LOG = log.getLogger(__name__)
Json = dict[str, Any]
_CHUNK = 100        # ids in one query: servers of HTTP bound the length of its line


class StaleRevision(exception.Conflict):
    """The port has changed since it was read."""

    msg_fmt = "Port %(port_id)s was changed by another client."


class NeutronRefusal(exception.NovaLiteError):
    """What Neutron refused for a reason of its own; ``code`` is its status."""

    msg_fmt = "Neutron answered %(status)s: %(reason)s"
    safe = True

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.code = int(kwargs.get("status", 500))


def not_bound(port_id: str, host: str) -> exception.VirtDriverError:
    """What happened to a binding of Neutron's that has failed."""
    return exception.DriverRefusal(what=f"Binding port {port_id} to host {host}", reason="Neutron found no way to connect it "
                                   "there", public=f"Binding failed for port {port_id}")


class NeutronAPI:
    """Every method raises ServiceUnavailable when Neutron does not answer."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._client = Client(conf, "network", "Neutron", 2)

    def list(self, context: RequestContext, what: str, **query: Any) -> Sequence[Json]:
        """GET of a collection: "networks", "security-groups", ...; a list as a value asks for any of its items. All of it,
        also where Neutron gives no more than ``pagination_max_limit`` at once."""
        key = what.replace("-", "_")
        found: list[Json] = []
        while True:
            answer = self._call(context, "GET", f"/{what}", params=query)
            found += answer[key]
            after = [link["href"] for link in answer.get(f"{key}_links", ()) if link["rel"] == "next"]
            if not after or not answer[key]:
                return found
            # only the query of the address is used: Neutron may not know under which address it is reached
            query = parse_qs(urlsplit(after[0]).query, keep_blank_values=True)

    def by_ids(self, context: RequestContext, what: str, ids: Collection[str], key: str = "id", **query: Any) -> Sequence[Json]:
        """The items of a collection whose ``key`` is one of ``ids``; no call without ids."""
        wanted = sorted(set(ids))
        found: list[Json] = []
        for start in range(0, len(wanted), _CHUNK):
            found += self.list(context, what, **{key: wanted[start:start + _CHUNK]}, **query)
        return found

    def create_ports(self, context: RequestContext, ports: Sequence[Json]) -> Sequence[Json]:
        """All of them in one call, or none."""
        answer = self._call(context, "POST", "/ports", json={"ports": list(ports)},
                            subject={"network_id": ", ".join(dict.fromkeys(p["network_id"] for p in ports)),
                                     "address": ", ".join(a["ip_address"] for p in ports for a in p.get("fixed_ips", ()))})
        return answer["ports"]

    def update_port(self, context: RequestContext, port_id: str, values: Json, revision: int | None = None) -> Json:
        """Change a port; with ``revision`` only when it still has that revision, else StaleRevision."""
        headers = {"If-Match": f"revision_number={revision}"} if revision is not None else {}
        answer = self._call(context, "PUT", f"/ports/{port_id}", json={"port": values}, headers=headers,
                            subject={"port_id": port_id})
        return answer["port"]

    def delete_port(self, context: RequestContext, port_id: str) -> None:
        """Delete a port; one that does not exist is no error."""
        try:
            self._call(context, "DELETE", f"/ports/{port_id}", subject={"port_id": port_id})
        except exception.PortNotFound:
            return

    def bindings(self, context: RequestContext, port_id: str) -> Sequence[Json]:
        """The hosts that a port is bound to, one of them actively."""
        return self._call(context, "GET", f"/ports/{port_id}/bindings", subject={"port_id": port_id})["bindings"]

    def add_binding(self, context: RequestContext, port_id: str, host: str, vnic_type: str | None = None,
                    profile: Json | None = None) -> Json:
        """A second, inactive binding of a port; its ``vif_type`` and ``vif_details`` are those of ``host``. Raises
        VirtDriverError when there is no way to connect it there, and nothing is kept then."""
        values = {"host": host, **({"vnic_type": vnic_type} if vnic_type else {}), **({"profile": profile} if profile else {})}
        try:
            return self._call(context, "POST", f"/ports/{port_id}/bindings", json={"binding": values},
                              subject={"port_id": port_id})["binding"]
        except exception.ServiceUnavailable as error:
            if error.kwargs.get("kind") != "PortBindingError":      # for which Neutron has the status 500
                raise
            raise not_bound(port_id, host) from error

    def activate_binding(self, context: RequestContext, port_id: str, host: str) -> None:
        """Let the binding of ``host`` be the one that counts. That there is none, or that it counts already, is no error."""
        try:
            self._call(context, "PUT", f"/ports/{port_id}/bindings/{host}/activate")
        except NeutronRefusal as error:
            if error.code not in (404, 409):
                raise

    def delete_binding(self, context: RequestContext, port_id: str, host: str) -> bool:
        """Remove one; False: it was gone, or its port was."""
        try:
            self._call(context, "DELETE", f"/ports/{port_id}/bindings/{host}")
        except NeutronRefusal as error:
            if error.code != 404:
                raise
            return False
        return True

    def drop_waiting(self, context: RequestContext, port_id: str) -> None:
        """Remove the inactive bindings of a port, which an interrupted check or move has left. While a host has one, the port
        cannot be bound there by a change of its host: Neutron does not answer that call. And the agent of the port's own host
        does not wire the port."""
        try:
            found = self.bindings(context, port_id)
        except (exception.PortNotFound, NeutronRefusal) as error:   # it is gone, or says that it is no server's: it has none
            LOG.debug("bindings of port %s: %s", port_id, error)
            return
        for binding in found:
            if binding.get("status") == "INACTIVE":
                self.delete_binding(context, port_id, binding["host"])

    def auto_allocated_network(self, context: RequestContext, project_id: str, dry_run: bool = False) -> str:
        """The id of the network that Neutron makes (or made before) for a project; raises UnableToAutoAllocateNetwork."""
        try:
            answer = self._call(context, "GET", f"/auto-allocated-topology/{project_id}",
                                params={"fields": "dry-run"} if dry_run else {})
        except NeutronRefusal as error:
            raise exception.UnableToAutoAllocateNetwork(
                f"Unable to automatically allocate a network for project {project_id} ({error.public})") from error
        return answer["auto_allocated_topology"]["id"]

    def get(self, context: RequestContext, what: str, item_id: str) -> Json:
        """One item of a collection."""
        return self._item(context, "GET", what, item_id)

    def create(self, context: RequestContext, what: str, values: Json) -> Json:
        """A new item."""
        return self._item(context, "POST", what, "", values)

    def update(self, context: RequestContext, what: str, item_id: str, values: Json) -> Json:
        """Change an item."""
        return self._item(context, "PUT", what, item_id, values)

    def delete(self, context: RequestContext, what: str, item_id: str) -> None:
        """Remove an item."""
        self._item(context, "DELETE", what, item_id)

    def _item(self, context: RequestContext, method: str, what: str, item_id: str, values: Json | None = None) -> Json:
        key = what.replace("-", "_").removesuffix("s")
        body = {"json": {key: values}} if values is not None else {}
        answer = self._call(context, method, f"/{what}/{item_id}".rstrip("/"), subject={"what": what, "id": item_id}, **body)
        return answer.get(key, {})

    def _call(self, context: RequestContext, method: str, path: str, subject: Mapping[str, str] | None = None,
              **arguments: Any) -> Json:
        try:
            answer = self._client.call(context, method, path, **arguments)
        except NeighbourError as error:
            raise _ours(error, subject or {}) from error
        return answer.json() if answer.content else {}


def _ours(error: NeighbourError, subject: Mapping[str, str]) -> exception.NovaLiteError:
    """Nova's error for one of Neutron's, with Neutron's words in it."""
    if error.status == 412:
        return StaleRevision(port_id=subject.get("port_id", ""))
    if error.status == 404 and "port_id" in subject:
        return exception.PortNotFound(port_id=subject["port_id"])
    if "what" in subject and (of_item := _of_item(error, subject["what"], subject["id"])) is not None:
        return of_item
    make = _KINDS.get(error.kind)
    if make is not None:
        made = make(subject)
        made.args = (f"{made.message} (Neutron: {error.reason})",)
        return made
    if error.status == 401:
        return exception.Unauthorized(f"Neutron does not accept the token: {error.reason}")
    return NeutronRefusal(status=error.status, reason=error.reason)


def _of_item(error: NeighbourError, what: str, item_id: str) -> exception.NovaLiteError | None:
    """Nova's error about a security group, a rule of one, or a floating IP; None: the general error is used."""
    name = _ITEMS.get(what, what)
    if error.status == 404:
        text = f"{name} {item_id} could not be found." if item_id else error.reason
        return exception.SecurityGroupNotFound(text) if what != "floatingips" else exception.NotFound(text)
    if error.kind in ("IpAddressGenerationFailure", "ExternalIpAddressExhausted"):
        return exception.NotFound(f"No more floating IPs: {error.reason}")
    if error.kind == "OverQuota":
        return exception.QuotaLimitExceeded(f"{name}: {error.reason}")
    if error.status in (400, 409):      # in use, there already, the default one ...
        return exception.Invalid(f"{name}: {error.reason}")
    return None


_ITEMS = {"security-groups": "Security group", "security-group-rules": "Security group rule", "floatingips": "Floating IP"}


def _fixed_ip_in_use(subject: Mapping[str, str]) -> exception.NovaLiteError:
    return exception.FixedIpAlreadyInUse(address=subject.get("address", ""), network_id=subject.get("network_id", ""))


def _bad_fixed_ip(subject: Mapping[str, str]) -> exception.NovaLiteError:
    return exception.InvalidInput(reason=f"Fixed IP {subject.get('address', '')} is not a valid ip address for network "
                                         f"{subject.get('network_id', '')}.")


def _no_more_ips(subject: Mapping[str, str]) -> exception.NovaLiteError:
    return exception.NoMoreFixedIps(net=subject.get("network_id", ""))


_KINDS: dict[str, Callable[[Mapping[str, str]], exception.NovaLiteError]] = {
    "OverQuota": lambda _: exception.PortLimitExceeded(),
    "IpAddressGenerationFailure": _no_more_ips, "IpAddressGenerationFailureAllSubnets": _no_more_ips,
    "IpAddressInUse": _fixed_ip_in_use, "IpAddressAlreadyAllocated": _fixed_ip_in_use,
    "InvalidIpForNetwork": _bad_fixed_ip, "InvalidIpForSubnet": _bad_fixed_ip,
    "MacAddressInUse": lambda _: exception.Conflict("The MAC address is in use."),
    "NetworkNotFound": lambda s: exception.NetworkNotFound(network_id=s.get("network_id", "")),
    "SecurityGroupNotFound": lambda _: exception.SecurityGroupNotFound(security_group_id="of the request"),
}


def by_key(rows: Iterable[Json], key: str) -> dict[str, Json]:
    """The rows by one of their values, which is unique."""
    return {row[key]: row for row in rows}
