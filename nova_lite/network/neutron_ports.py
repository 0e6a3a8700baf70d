"""The ports of a server in Neutron, as the service user handles them: found, created, bound, released.

A port of nova_lite has the server's uuid as ``device_id`` from its creation on, so that it can always be found.
"""
from __future__ import annotations

from collections.abc import Collection, Sequence

from oslo_config import cfg
from oslo_log import log

from nova_lite import exception
from nova_lite.context import RequestContext
from nova_lite.network.neutron_api import Json, NeutronAPI, StaleRevision
from nova_lite.network.neutron_requests import check_owner, check_port
from nova_lite.network.neutron_views import FAILED, PROFILE, is_leaving, settled
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import NetworkRequest

LOG = log.getLogger(__name__)
HOST = "binding:host_id"
_TRIES = 3          # tries of a change, when another client changes the port at the same time
_UNBOUND: Json = {"device_id": "", "device_owner": "", HOST: ""}


class Ports:
    """All calls are made as the service user, whose role may bind ports and see the ports of every project."""

    def __init__(self, conf: cfg.ConfigOpts, api: NeutronAPI) -> None:
        self._conf, self._api = conf, api

    def of_server(self, context: RequestContext, instance: Instance) -> list[Json]:
        """Every port that says it is the server's, oldest first."""
        found = self._api.list(context, "ports", device_id=instance.uuid)
        return sorted(found, key=lambda p: (p.get("created_at") or "", p["id"]))

    def allocate(self, context: RequestContext, instance: Instance, requests: Sequence[NetworkRequest],
                 host: str) -> list[Json]:
        """A port bound to ``host`` for each request, in order. Run again, also for another host, it gives the same ones."""
        # a port of the user that has not changed since the API read it need not be read again
        known = [] if all(r.port_id and r.revision is not None for r in requests) else self.of_server(context, instance)
        chosen = _match(instance, requests, known)
        bound: list[Json | None] = []
        for request, port in zip(requests, chosen, strict=True):
            if request.port_id or port is not None:
                port = self._bind(context, instance, request.port_id or (port or {})["id"], port, host, request.revision)
            bound.append(port)
        missing = [r for r, port in zip(requests, bound, strict=True) if port is None]
        made = iter(self._api.create_ports(context, [self._new(instance, r, host) for r in missing]) if missing else ())
        ports = [port if port is not None else next(made) for port in bound]
        for port in ports:
            _check_bound(port, host)
        return ports

    def attach(self, context: RequestContext, instance: Instance, request: NetworkRequest, host: str) -> Json:
        """One more port. A port of an earlier run is among the ports of the server, but not among its nics."""
        if request.port_id:
            port = None if request.revision is not None else self._get(context, request.port_id)
            port = self._bind(context, instance, request.port_id, port, host, request.revision)
        elif left := self._left_by(context, instance, request):
            port = self._bind(context, instance, left[0]["id"], left[0], host, None)
        else:
            port = self._api.create_ports(context, [self._new(instance, request, host)])[0]
        _check_bound(port, host)
        return port

    def detach(self, context: RequestContext, instance: Instance, port_id: str, preserve: bool) -> None:
        """Delete or (``preserve``) unbind one port, if it still is the server's."""
        for port in self.of_server(context, instance):
            if port["id"] == port_id:
                self._release_one(context, instance, port, [port_id] if preserve else ())

    def abandon(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> None:
        """Release what ``attach`` may have created or bound for a request."""
        if request.port_id:
            self.detach(context, instance, request.port_id, preserve=True)
            return
        for port in self._left_by(context, instance, request):
            self._release_one(context, instance, port, ())

    def _left_by(self, context: RequestContext, instance: Instance, request: NetworkRequest) -> list[Json]:
        known = {v.id for v in instance.network_info} | {r["port_id"] for r in _listed(instance) if r.get("port_id")}
        return [p for p in self.of_server(context, instance)
                if p["id"] not in known and p["project_id"] == instance.project_id and _fits(p, request)]

    def _get(self, context: RequestContext, port_id: str) -> Json:
        found = next(iter(self._api.list(context, "ports", id=port_id)), None)
        if found is None:
            raise exception.PortNotFound(port_id=port_id)
        return found

    def release(self, context: RequestContext, instance: Instance) -> None:
        """Delete the ports that were made for the server, unbind the user's own; raises the first error after all tries."""
        keep = {r["port_id"] for r in _listed(instance) if r.get("port_id")}
        keep |= {v.id for v in instance.network_info if v.preserve_on_delete}
        first: exception.NovaLiteError | None = None
        for port in self.of_server(context, instance):
            try:
                self._release_one(context, instance, port, keep)
            except exception.NovaLiteError as error:
                LOG.warning("port %s was not released: %s", port["id"], error, extra={"instance_uuid": instance.uuid})
                first = first or error
        if first is not None:
            raise first

    def _release_one(self, context: RequestContext, instance: Instance, port: Json, keep: Collection[str]) -> None:
        if port["id"] in keep:
            try:
                # before it is unbound: a live migration may have left a binding at the host of its next server
                self._api.drop_waiting(context, port["id"])
                unsaid = {PROFILE: settled(port)} if is_leaving(port) else {}
                self._api.update_port(context, port["id"], {**_UNBOUND, **unsaid})
            except exception.PortNotFound:
                return
        elif port["project_id"] == instance.project_id:
            self._api.delete_port(context, port["id"])
        else:       # any user may write the uuid of a server into a port
            LOG.warning("port %s of project %s is not this server's: left alone", port["id"], port["project_id"],
                        extra={"instance_uuid": instance.uuid})

    def _bind(self, context: RequestContext, instance: Instance, port_id: str, port: Json | None, host: str,
              revision: int | None) -> Json:
        """A port of the user's, or one of an earlier run, becomes the server's nic on ``host``."""
        if port is not None:
            revision = port.get("revision_number")
        for _ in range(_TRIES):
            if port is not None:
                if port["device_id"] not in ("", instance.uuid):
                    raise exception.PortInUse(port_id=port_id)
                check_owner(port, instance.uuid, instance.project_id)
                if (port["device_id"], port.get(HOST)) == (instance.uuid, host):
                    return self._settled(context, port)
                check_port(port)
            try:
                bound = self._api.update_port(context, port_id, self._owned(instance, host), revision)
                return self._settled(context, self._checked_owner(context, instance, bound))
            except StaleRevision:
                port = self._get(context, port_id)
                revision = port.get("revision_number")
        raise exception.PortInUse(f"Port {port_id} is changed by others again and again.")

    def _checked_owner(self, context: RequestContext, instance: Instance, bound: Json) -> Json:
        """The port. A port of another project than the server's is unbound again."""
        try:
            check_owner(bound, instance.uuid, instance.project_id)
        except exception.PortNotUsable:
            self._api.update_port(context, bound["id"], _UNBOUND)
            raise
        return bound

    def _settled(self, context: RequestContext, port: Json) -> Json:
        """A live migration of the server that had it before may have left its mark: the agent would not wire it."""
        return self._api.update_port(context, port["id"], {PROFILE: settled(port)}) if is_leaving(port) else port

    def _owned(self, instance: Instance, host: str) -> Json:
        zone = instance.availability_zone or self._conf.compute.default_availability_zone
        return {"device_id": instance.uuid, "device_owner": f"compute:{zone}", HOST: host}

    def _new(self, instance: Instance, request: NetworkRequest, host: str) -> Json:
        body: Json = {"network_id": request.network_id, "project_id": instance.project_id, "admin_state_up": True,
                      **self._owned(instance, host)}
        if request.address:
            body["fixed_ips"] = [{"ip_address": request.address}]
        if request.security_groups:
            body["security_groups"] = request.security_groups
        if request.dns and instance.hostname:
            body["dns_name"] = instance.hostname.partition(".")[0][:63]
        return body


def _check_bound(port: Json, host: str) -> None:
    check_port(port)
    if port.get("binding:vif_type") == FAILED:
        raise exception.BuildFailed(
            f"Binding failed for port {port['id']}: Neutron found no way to connect it on host {host}; the logs of "
            "neutron-server and of this host's agent say why.", f"Binding failed for port {port['id']}.")


def _listed(instance: Instance) -> list[Json]:
    asked = instance.network_request
    return asked if isinstance(asked, list) else []


def _match(instance: Instance, requests: Sequence[NetworkRequest], known: Sequence[Json]) -> list[Json | None]:
    """Assign the existing ports to the requests: by id, else by the earlier nic, else any that fits."""
    by_id = {p["id"]: p for p in known}
    users = {r.port_id for r in requests if r.port_id}
    free = [p for p in known if p["id"] not in users and p["project_id"] == instance.project_id]
    before = [v.id for v in instance.network_info]
    chosen: list[Json | None] = []
    for position, request in enumerate(requests):
        if request.port_id:
            chosen.append(by_id.get(request.port_id))
            continue
        fitting = [p for p in free if _fits(p, request)]
        same = before[position] if position < len(before) else None
        port = next((p for p in fitting if p["id"] == same), next(iter(fitting), None))
        if port is not None:
            free.remove(port)
        chosen.append(port)
    return chosen


def _fits(port: Json, request: NetworkRequest) -> bool:
    addresses = [a["ip_address"] for a in port.get("fixed_ips", ())]
    return port["network_id"] == request.network_id and (not request.address or request.address in addresses)
