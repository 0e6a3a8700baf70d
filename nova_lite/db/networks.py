"""The embedded network's rows: networks and ports.

Whoever gives away addresses of a network locks its row first (in the order of the uuids), so that two builds never want the
same address; the unique constraints would stop them if they did. ``request_key`` makes an allocation that is run again find
the ports of its first run.
"""
from __future__ import annotations

import ipaddress
import uuid as uuidlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from nova_lite import exception
from nova_lite.db import models, port_groups, quotas, security_groups
from nova_lite.network import ipam
from nova_lite.units import utcnow

NETWORKS = models.networks
PORTS = models.ports
MAX_NETWORKS, MAX_PORTS = 10, 50     # of a project: all projects share 256 ranges, and a shared network has 253 addresses
_MAC_TRIES = 5
_RANGES = "embedded network ranges"      # the name of the lock in quotas.lock during the search for a free range
_BRIDGE_LENGTH = 15      # of an interface's name in Linux


# networks ----------------------------------------------------------------------------------------------------------
def create_network(c: sa.Connection, name: str, cidr: str, project_id: str | None = None, gateway: str | None = None,
                   dns: Sequence[str] = (), mtu: int = 1500, bridge_prefix: str = "nlbr",
                   uuid: str | None = None) -> dict[str, Any]:
    """Add a network; ``project_id`` None: every project may use it.

    Raises InvalidInput for a bad range, gateway, resolver or MTU, and for a range that overlaps another network's: the host
    routes all of them, and the metadata service knows a guest by its address. QuotaLimitExceeded for one more than a project
    may have.
    """
    parsed = ipam.new_range(cidr)
    if not ipam.MIN_MTU <= mtu <= ipam.MAX_MTU:
        raise exception.InvalidInput(reason=f"MTU {mtu} is not between {ipam.MIN_MTU} and {ipam.MAX_MTU}")
    quotas.lock(c, _RANGES)
    if project_id is not None:
        _check_limit("networks", MAX_NETWORKS, count_networks(c, project_id))
    for other in c.execute(sa.select(NETWORKS.c.uuid, NETWORKS.c.cidr)):
        if parsed.overlaps(ipaddress.IPv4Network(other.cidr)):
            raise exception.InvalidInput(reason=f"range {cidr} overlaps {other.cidr} of network {other.uuid}")
    uuid = uuid or str(uuidlib.uuid4())
    values = {"uuid": uuid, "name": name, "project_id": project_id, "cidr": str(parsed),
              "gateway": ipam.parse_gateway(parsed, gateway), "dns": [_resolver(d) for d in dns], "mtu": mtu,
              "bridge": (bridge_prefix + uuid.replace("-", "")[:8])[:_BRIDGE_LENGTH], "created_at": utcnow()}
    c.execute(sa.insert(NETWORKS).values(**values))
    return get_network(c, uuid)


def create_next_network(c: sa.Connection, **values: Any) -> dict[str, Any]:
    """A network on the first free one of the ranges 10.71.n.0/24; ``values`` as for :func:`create_network`. Raises Conflict
    when none is left."""
    quotas.lock(c, _RANGES)
    taken = [ipaddress.IPv4Network(cidr) for cidr in c.execute(sa.select(NETWORKS.c.cidr)).scalars()]
    for number in range(256):
        free = ipaddress.IPv4Network(f"10.71.{number}.0/24")
        if not any(free.overlaps(one) for one in taken):
            return create_network(c, cidr=str(free), **values)
    raise exception.Conflict("No range of addresses is left for another network: all of 10.71.0.0/16 are in use.")


def count_networks(c: sa.Connection, project_id: str) -> int:
    """How many of MAX_NETWORKS a project has."""
    return c.scalar(sa.select(sa.func.count()).where(NETWORKS.c.project_id == project_id)) or 0


def count_ports(c: sa.Connection, project_id: str) -> int:
    """How many of MAX_PORTS a project has; those that were made for a server do not count."""
    return c.scalar(sa.select(sa.func.count()).where(PORTS.c.project_id == project_id, PORTS.c.request_key.is_(None))) or 0


def _check_limit(what: str, limit: int, used: int) -> None:
    """The caller holds the lock of all who make such rows."""
    if used >= limit:
        raise exception.QuotaLimitExceeded(what=what)


def _resolver(address: str) -> str:
    try:
        return str(ipaddress.IPv4Address(address))
    except ValueError:
        raise exception.InvalidInput(reason=f"{address!r} is not the IPv4 address of a resolver") from None


def list_networks(c: sa.Connection, project_id: str | None = None) -> list[dict[str, Any]]:
    """Networks that the project may use, oldest first (None: all networks)."""
    query = sa.select(NETWORKS).order_by(NETWORKS.c.id)
    if project_id is not None:
        query = query.where(sa.or_(NETWORKS.c.project_id.is_(None), NETWORKS.c.project_id == project_id))
    return [_network(row) for row in c.execute(query).mappings()]


def get_network(c: sa.Connection, uuid: str, project_id: str | None = None) -> dict[str, Any]:
    """One network; NetworkNotFound when it is not there or is another project's."""
    row = c.execute(sa.select(NETWORKS).where(NETWORKS.c.uuid == uuid)).mappings().first()
    if row is None or (project_id is not None and row["project_id"] not in (None, project_id)):
        raise exception.NetworkNotFound(network_id=uuid)
    return _network(row)


def delete_network(c: sa.Connection, uuid: str) -> None:
    """Remove a network; Conflict while it has ports."""
    _lock_networks(c, [uuid])
    if c.execute(sa.select(PORTS.c.id).where(PORTS.c.network_uuid == uuid).limit(1)).first() is not None:
        raise exception.Conflict(f"Network {uuid} still has ports.")
    if c.execute(sa.delete(NETWORKS).where(NETWORKS.c.uuid == uuid)).rowcount == 0:
        raise exception.NetworkNotFound(network_id=uuid)


# ports -------------------------------------------------------------------------------------------------------------
def create_port(c: sa.Connection, network_uuid: str, project_id: str, name: str = "", address: str | None = None,
                mac_address: str | None = None, groups: Sequence[str] | None = None) -> dict[str, Any]:
    """A port of the user's own, to be given to a server later; ``groups`` are ids, None is the project's default. Raises
    MacAddressInUse and QuotaLimitExceeded; ports that are made for a server do not count, since servers do."""
    network = get_network(c, network_uuid, project_id)
    if mac_address is not None:
        mac_address = ipam.parse_mac(mac_address)
        if mac_address.startswith(ipam.gateway_macs(network_uuid)) or list_ports(c, mac_address=mac_address):
            raise exception.MacAddressInUse(mac=mac_address)
    _lock_networks(c, [network_uuid])
    quotas.lock(c, project_id)
    _check_limit("ports", MAX_PORTS, count_ports(c, project_id))
    return _insert_port(c, network, project_id, name=name, address=address, mac_address=mac_address, groups=groups)


def update_port(c: sa.Connection, uuid: str, project_id: str | None, name: str | None = None,
                groups: Sequence[str] | None = None) -> dict[str, Any]:
    """Another name, or other security groups (of its project) in place of all. Raises PortNotFound, SecurityGroupNotFound."""
    c.execute(sa.select(PORTS.c.id).where(PORTS.c.uuid == uuid).with_for_update()).first()      # see port_groups.forget
    port = get_port(c, uuid, project_id)
    if name is not None:
        c.execute(sa.update(PORTS).where(PORTS.c.uuid == uuid).values(name=name, updated_at=utcnow()))
    if groups is not None:
        port_groups.put(c, uuid, [group for group, _ in security_groups.choose(c, port["project_id"], groups)])
    return get_port(c, uuid)


def get_port(c: sa.Connection, uuid: str, project_id: str | None = None) -> dict[str, Any]:
    """One port with its ``network``; PortNotFound when it is not there or is another project's."""
    found = list_ports(c, project_id=project_id, uuid=uuid)
    if not found:
        raise exception.PortNotFound(port_id=uuid)
    return found[0]


def list_ports(c: sa.Connection, **filters: Any) -> list[dict[str, Any]]:
    """Ports whose columns have these values (a value of None: any), oldest first, each with its ``network`` and the ids of its
    ``security_groups``."""
    query = sa.select(PORTS).order_by(PORTS.c.id)
    for column, value in filters.items():
        if value is not None:
            query = query.where(PORTS.c[column] == value)
    return _with_groups(c, _with_networks(c, [dict(row) for row in c.execute(query).mappings()]))


def delete_port(c: sa.Connection, uuid: str, project_id: str | None = None) -> None:
    """Remove a port that no server uses; PortInUse otherwise."""
    port = get_port(c, uuid, project_id)
    unused = sa.and_(PORTS.c.uuid == uuid, PORTS.c.instance_uuid.is_(None))
    port_groups.forget(c, unused)
    if c.execute(sa.delete(PORTS).where(unused)).rowcount == 0:
        raise exception.PortInUse(port_id=port["uuid"])


def list_host_ports(c: sa.Connection, host: str) -> list[dict[str, Any]]:
    """Ports bound to a host, as :func:`list_ports` gives them, with the ``hostname`` of their server."""
    return _with_hostnames(c, PORTS.c.host == host)


def list_server_ports(c: sa.Connection, instance_uuid: str) -> list[dict[str, Any]]:
    """The same for the ports of one server."""
    return _with_hostnames(c, PORTS.c.instance_uuid == instance_uuid)


def move_ports(c: sa.Connection, instance_uuid: str, host: str) -> None:
    """The ports of a server are bound to another host from now on."""
    c.execute(sa.update(PORTS).where(PORTS.c.instance_uuid == instance_uuid).values(host=host, updated_at=utcnow()))


def unbind_ports(c: sa.Connection, instance_uuids: Sequence[str]) -> None:
    """Unbind the ports of servers without a host: they keep their ports."""
    c.execute(sa.update(PORTS).where(PORTS.c.instance_uuid.in_(instance_uuids), PORTS.c.host.is_not(None))
              .values(host=None, updated_at=utcnow()))


def _with_hostnames(c: sa.Connection, which: sa.ColumnElement[bool]) -> list[dict[str, Any]]:
    instances = models.instances
    query = (sa.select(PORTS, instances.c.hostname)
             .join(instances, instances.c.uuid == PORTS.c.instance_uuid, isouter=True)
             .where(which).order_by(PORTS.c.id))
    return _with_groups(c, _with_networks(c, [dict(row) for row in c.execute(query).mappings()]))


# what a server asks for --------------------------------------------------------------------------------------------
def allocate_ports(c: sa.Connection, instance_uuid: str, project_id: str, host: str,
                   requests: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A port for each request (NetworkRequest primitives), in order, bound to the server and the host.

    A request that names neither network nor port means the project's only network; it gives no port when there is none.
    Run again, also for another host, it gives the same ports. Raises InstanceNotFound for a server that is deleted: a host
    that is late with its build leaves no port behind.
    """
    _lock_server(c, instance_uuid)
    wanted = _resolve(c, project_id, requests, _made_ports(c, instance_uuid).keys(), instance_uuid)
    _lock_networks(c, {n["uuid"] for _, _, n in wanted if n})
    mine = _made_ports(c, instance_uuid)     # again: another run of this allocation may have held the lock before us
    asked_for = {request["address"] for _, request, _ in wanted if request.get("address")}
    ports = []
    for key, request, network in wanted:
        if request.get("port_id"):
            ports.append(_bind_port(c, request["port_id"], project_id, instance_uuid, host))
        elif key in mine:
            ports.append(_rebind(c, mine[key], host))
        elif network:
            ports.append(_insert_port(c, network, project_id, address=request.get("address"), instance_uuid=instance_uuid,
                                      request_key=key, host=host, spared=asked_for,
                                      groups=request.get("security_groups")))
    return _with_networks(c, ports)


def check_requests(c: sa.Connection, project_id: str, requests: Sequence[dict[str, Any]], count: int = 1) -> None:
    """Raise what :func:`allocate_ports` would raise now for ``count`` servers; changes nothing."""
    for request in requests:
        what = "port" if request.get("port_id") else "fixed_ip" if request.get("address") else None
        if what and count > 1:
            raise exception.InvalidInput(f"Failed to launch instances: a {what} can be given to one instance only, "
                                         f"{count} were asked for.")
    seen: set[str] = set()
    needed: dict[str, int] = {}
    for _, request, network in _resolve(c, project_id, requests, set(), ""):
        if request.get("port_id"):
            port = get_port(c, request["port_id"], project_id)
            if port["instance_uuid"] or port["uuid"] in seen:
                raise exception.PortInUse(port_id=port["uuid"])
            seen.add(port["uuid"])
        elif network:
            if request.get("address"):
                _checked_address(c, network, request["address"])
            needed[network["uuid"]] = needed.get(network["uuid"], 0) + count
            free = ipam.parse_cidr(network["cidr"]).num_addresses - 2 - len(_used_addresses(c, network))
            if needed[network["uuid"]] > free:
                raise exception.NoMoreFixedIps(net=network["uuid"])


def release_ports(c: sa.Connection, instance_uuid: str) -> None:
    """Delete the ports made for the server; ports that the user brought are unbound."""
    _release(c, PORTS.c.instance_uuid == instance_uuid)


def release_port(c: sa.Connection, instance_uuid: str, port_id: str | None, key: str | None) -> None:
    """The same for one port of the server, by its id or by the key of its request."""
    which = PORTS.c.uuid == port_id if port_id else PORTS.c.request_key == _key(instance_uuid, key or "")
    _release(c, sa.and_(PORTS.c.instance_uuid == instance_uuid, which))


def _release(c: sa.Connection, which: sa.ColumnElement[bool]) -> None:
    made = sa.and_(which, PORTS.c.request_key.is_not(None))
    port_groups.forget(c, made)
    c.execute(sa.delete(PORTS).where(made))
    c.execute(sa.update(PORTS).where(which).values(instance_uuid=None, host=None, updated_at=utcnow()))


def with_ports(c: sa.Connection, instance_uuids: Sequence[str]) -> list[str]:
    """Those of the servers that have ports."""
    query = sa.select(PORTS.c.instance_uuid).where(PORTS.c.instance_uuid.in_(instance_uuids)).distinct()
    return list(c.execute(query).scalars())


def _made_ports(c: sa.Connection, instance_uuid: str) -> dict[str, dict[str, Any]]:
    """The ports that earlier runs made for the server, by request_key."""
    return {p["request_key"]: p for p in list_ports(c, instance_uuid=instance_uuid) if p["request_key"]}


def _key(instance_uuid: str, name: int | str) -> str:
    return f"{instance_uuid}/{name}"


def _resolve(c: sa.Connection, project_id: str, requests: Sequence[dict[str, Any]], done: Collection[str],
             instance_uuid: str) -> list[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """(request_key, request, network to take an address of) for each request; ``done`` keys need no network any more."""
    resolved = []
    for position, request in enumerate(requests):
        key, network = _key(instance_uuid, request.get("key") or position), None
        if key not in done and not request.get("port_id"):
            if request.get("network_id"):
                network = get_network(c, request["network_id"], project_id)
            else:
                network = _only_network(c, project_id)
        resolved.append((key, request, network))
    return resolved


def _only_network(c: sa.Connection, project_id: str) -> dict[str, Any] | None:
    networks = list_networks(c, project_id)
    if len(networks) > 1:
        raise exception.NetworkAmbiguous()
    return networks[0] if networks else None


def _lock_server(c: sa.Connection, uuid: str) -> None:
    """A delete, which releases the ports, comes before or after all of this allocation."""
    servers = models.instances
    alive = sa.select(servers.c.id).where(servers.c.uuid == uuid, servers.c.deleted == 0)
    if c.execute(alive.with_for_update()).first() is None:
        raise exception.InstanceNotFound(instance_id=uuid)


def _lock_networks(c: sa.Connection, uuids: Iterable[str]) -> None:
    for uuid in sorted(uuids):       # always in this order: two servers on the same two networks cannot deadlock
        c.execute(sa.select(NETWORKS.c.id).where(NETWORKS.c.uuid == uuid).with_for_update()).first()


def _bind_port(c: sa.Connection, uuid: str, project_id: str, instance_uuid: str, host: str) -> dict[str, Any]:
    get_port(c, uuid, project_id)
    free = sa.or_(PORTS.c.instance_uuid.is_(None), PORTS.c.instance_uuid == instance_uuid)
    bound = c.execute(sa.update(PORTS).where(PORTS.c.uuid == uuid, free)
                      .values(instance_uuid=instance_uuid, host=host, updated_at=utcnow()))
    if bound.rowcount == 0:
        raise exception.PortInUse(port_id=uuid)
    return _port(c, uuid)


def _rebind(c: sa.Connection, port: dict[str, Any], host: str) -> dict[str, Any]:
    if port["host"] != host:         # the build continues on another host
        c.execute(sa.update(PORTS).where(PORTS.c.uuid == port["uuid"]).values(host=host, updated_at=utcnow()))
    return _port(c, port["uuid"])


def _insert_port(c: sa.Connection, network: dict[str, Any], project_id: str, name: str = "", address: str | None = None,
                 mac_address: str | None = None, instance_uuid: str | None = None, request_key: str | None = None,
                 host: str | None = None, spared: Collection[str] = (), groups: Sequence[str] | None = None) -> dict[str, Any]:
    """The caller has locked the network. ``spared``: addresses that are for others, who get theirs next."""
    if address is not None:
        address = _checked_address(c, network, address)
    else:
        address = ipam.pick_address(ipam.parse_cidr(network["cidr"]), _used_addresses(c, network) | set(spared))
        if address is None:
            raise exception.NoMoreFixedIps(net=network["uuid"])
    uuid = str(uuidlib.uuid4())
    c.execute(sa.insert(PORTS).values(
        uuid=uuid, network_uuid=network["uuid"], project_id=project_id, name=name, address=address,
        mac_address=mac_address or _free_mac(c), instance_uuid=instance_uuid, request_key=request_key, host=host,
        created_at=utcnow()))
    chosen = [security_groups.ensure_default(c, project_id)] if groups is None else [
        group for group, _ in security_groups.choose(c, project_id, groups)]
    port_groups.put(c, uuid, chosen)
    return _with_networks(c, [_port(c, uuid)])[0]


def _free_mac(c: sa.Connection) -> str:
    for _ in range(_MAC_TRIES):
        mac = ipam.make_mac()
        if c.execute(sa.select(PORTS.c.id).where(PORTS.c.mac_address == mac)).first() is None:
            return mac
    raise exception.ServiceUnavailable(what="Network", reason="no free hardware address")


def _checked_address(c: sa.Connection, network: dict[str, Any], address: str) -> str:
    """As it is written down: what is a row here becomes rules and leases on the hosts."""
    if not ipam.is_host_address(ipam.parse_cidr(network["cidr"]), address):
        raise exception.InvalidInput(
            reason=f"Fixed IP {address} is not a valid ip address for network {network['uuid']}.")
    plain = str(ipaddress.IPv4Address(address))
    if plain in _used_addresses(c, network):
        raise exception.FixedIpAlreadyInUse(address=plain, network_id=network["uuid"])
    return plain


def _used_addresses(c: sa.Connection, network: dict[str, Any]) -> set[str]:
    rows = c.execute(sa.select(PORTS.c.address).where(PORTS.c.network_uuid == network["uuid"]))
    return {network["gateway"], *(row.address for row in rows)}


def _port(c: sa.Connection, uuid: str) -> dict[str, Any]:
    return dict(c.execute(sa.select(PORTS).where(PORTS.c.uuid == uuid)).mappings().one())


def _network(row: sa.RowMapping) -> dict[str, Any]:
    return _plain(dict(row))


def _with_networks(c: sa.Connection, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    uuids = {p["network_uuid"] for p in ports}
    rows = c.execute(sa.select(NETWORKS).where(NETWORKS.c.uuid.in_(uuids))).mappings() if uuids else ()
    networks = {row["uuid"]: _network(row) for row in rows}
    return [{**_plain(p), "network": networks[p["network_uuid"]]} for p in ports]


def _with_groups(c: sa.Connection, ports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    groups = port_groups.groups_of(c, [p["uuid"] for p in ports]) if ports else {}
    return [{**p, "security_groups": groups.get(p["uuid"], [])} for p in ports]


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Times as text: these dictionaries cross RPC."""
    return {k: v.isoformat() if k in ("created_at", "updated_at") and hasattr(v, "isoformat") else v
            for k, v in values.items()}
