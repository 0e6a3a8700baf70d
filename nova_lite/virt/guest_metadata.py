"""The documents of the config drive and of the metadata service. Pure functions of an instance and its nics.

The names, keys and dated versions are those of OpenStack's clients in guests (mainly cloud-init). A document or key exists from
the version on that introduced it.
"""
from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from nova_lite import exception
from nova_lite.objects.block_device import BlockDevice
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP
from nova_lite.virt import device_names

LATEST = "latest"
FOLSOM, GRIZZLY, HAVANA, LIBERTY = "2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15"
NEWTON_ONE, NEWTON_TWO, OCATA, ROCKY, VICTORIA = "2016-06-30", "2016-10-06", "2017-02-22", "2018-08-27", "2020-10-14"
OPENSTACK_VERSIONS = (FOLSOM, GRIZZLY, HAVANA, LIBERTY, NEWTON_ONE, NEWTON_TWO, OCATA, ROCKY, VICTORIA)
EC2_VERSIONS = ("1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
                "2009-04-04")
RANDOM_SEED_SIZE = 512
# link types that guests support; any other is shown as physical
_LINK_TYPES = ("bridge", "ovs", "tap", "vhostuser", "hw_veb", "hyperv", "dvs")
# what a guest finds a disk on; virtio is a PCI device
_BUSES = {"virtio": "pci", "scsi": "scsi", "ide": "ide", "sata": "scsi", "usb": "usb"}
UNKNOWN = "none"        # so clients of the format call it


def build(instance: Instance, network_info: Sequence[VIF], admin_password: str | None = None,
          injected_files: Sequence[dict[str, str]] = (), random_seed: bytes | None = None,
          vendor_data: Mapping[str, Any] | None = None,
          addresses: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Path -> content of every document, e.g. ``openstack/latest/meta_data.json``.

    ``admin_password`` and ``injected_files`` ({"path", "contents" in base64}) belong on a config drive only. Without a
    ``random_seed`` a new one is made. ``vendor_data`` is the operator's data for all guests. ``addresses`` are the addresses of
    the guest's devices (None: those of the server's record). Raises InvalidInput for user data or files that are not base64.
    """
    seed = random_seed if random_seed is not None else secrets.token_bytes(RANDOM_SEED_SIZE)
    files, contents = _files(injected_files)
    user_data = _decode(instance.user_data, "user_data") if instance.user_data else None
    documents = {f"openstack/content/{name}": data for name, data in contents.items()}
    for version in (*OPENSTACK_VERSIONS, LATEST):
        metadata = meta_data(instance, network_info, version, seed, addresses)
        if files:
            metadata["files"] = files
        if admin_password:
            metadata["admin_pass"] = admin_password
        there: dict[str, Any] = {"meta_data.json": metadata}
        if version >= HAVANA:
            there["vendor_data.json"] = dict(vendor_data or {})
        if version >= LIBERTY:
            there["network_data.json"] = network_data(network_info)
        if version >= NEWTON_TWO:
            there["vendor_data2.json"] = {"static": dict(vendor_data or {})}
        documents.update({f"openstack/{version}/{name}": _dump(value) for name, value in there.items()})
        if user_data is not None:
            documents[f"openstack/{version}/user_data"] = user_data
    for version in (EC2_VERSIONS[-1], LATEST):
        documents[f"ec2/{version}/meta-data.json"] = _dump(ec2_meta_data(instance, network_info))
        if user_data is not None:
            documents[f"ec2/{version}/user-data"] = user_data
    return documents


def meta_data(instance: Instance, network_info: Sequence[VIF], version: str, random_seed: bytes,
              addresses: Mapping[str, str] | None = None) -> dict[str, Any]:
    """meta_data.json at a dated version (``latest`` sorts after all dates)."""
    found = instance.device_addresses if addresses is None else addresses
    made: dict[str, Any] = {
        "uuid": instance.uuid, "hostname": hostname(instance), "name": instance.display_name,
        "launch_index": instance.launch_index, "availability_zone": instance.availability_zone}
    if instance.metadata:
        made["meta"] = dict(instance.metadata)
    if instance.keypair:
        key = instance.keypair
        made["public_keys"] = {key["name"]: key["public_key"]}
        made["keys"] = [{"name": key["name"], "type": key.get("type", "ssh"), "data": key["public_key"]}]
    if version >= GRIZZLY:
        made["random_seed"] = base64.b64encode(random_seed).decode()
    if version >= LIBERTY:
        made["project_id"] = instance.project_id
    if version >= NEWTON_ONE:
        made["devices"] = [_nic(v, found) for v in network_info if v.tag] + _disks(instance, found)
    if version >= VICTORIA:
        made["dedicated_cpus"] = []
    return made


def _nic(vif: VIF, addresses: Mapping[str, str]) -> dict[str, Any]:
    address = addresses.get(vif.mac_address.lower())
    return {"type": "nic", "bus": "pci" if address else UNKNOWN, "address": address or UNKNOWN, "mac": vif.mac_address,
            "tags": [vif.tag]}


def _disks(instance: Instance, addresses: Mapping[str, str]) -> list[dict[str, Any]]:
    names = device_names.by_device(instance)
    return [_disk(instance, device, names.get(device.id), addresses.get(device.id))
            for device in instance.block_devices if device.tag]


def _disk(instance: Instance, device: BlockDevice, name: str | None, address: str | None) -> dict[str, Any]:
    made = {"type": "disk", "bus": _BUSES.get(device_names.disk_bus(instance, device), UNKNOWN),
            "address": address or UNKNOWN, "tags": [device.tag]}
    if device.volume_id:
        made["serial"] = device.volume_id
    if name:
        made["path"] = f"/dev/{name}"
    return made


def hostname(instance: Instance) -> str:
    """The guest's name."""
    return instance.hostname or f"server-{instance.uuid}"


def network_data(network_info: Sequence[VIF]) -> dict[str, Any]:
    """network_data.json: links, networks, and the resolvers as services."""
    links: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    services: list[dict[str, Any]] = []
    for vif in network_info:
        links.append({"id": vif.devname, "vif_id": vif.id, "type": vif.type if vif.type in _LINK_TYPES else "phy",
                      "mtu": vif.mtu, "ethernet_mac_address": vif.mac_address})
        for fixed_ip in vif.fixed_ips:
            networks.append({"id": f"network{len(networks)}", **_network(vif, fixed_ip)})
            services += [{"type": "dns", "address": d} for d in fixed_ip.dns]
    return {"links": links, "networks": networks,
            "services": [s for n, s in enumerate(services) if s not in services[:n]]}


def _network(vif: VIF, fixed_ip: FixedIP) -> dict[str, Any]:
    kind, mode = f"ipv{fixed_ip.version}", fixed_ip.ipv6_address_mode
    made: dict[str, Any] = {"type": kind, "link": vif.devname, "network_id": vif.network_id}
    dhcp = fixed_ip.dhcp if fixed_ip.dhcp is not None else vif.details.get("dhcp")
    if fixed_ip.version == 6 and mode:      # the address that the guest will get is known, so it is included
        made["type"] = f"{kind}_{mode}"
    elif dhcp:
        return {**made, "type": f"{kind}_dhcp"}
    routes = [(r["cidr"], r["gateway"]) for r in fixed_ip.routes]
    if fixed_ip.gateway:
        routes.insert(0, ("0.0.0.0/0" if fixed_ip.version == 4 else "::/0", fixed_ip.gateway))
    return {**made, "ip_address": fixed_ip.address, "netmask": str(ipaddress.ip_network(fixed_ip.cidr).netmask),
            "routes": [_route(cidr, gateway) for cidr, gateway in routes],
            "services": [{"type": "dns", "address": d} for d in fixed_ip.dns]}


def _route(cidr: str, gateway: str) -> dict[str, str]:
    network = ipaddress.ip_network(cidr)
    return {"network": str(network.network_address), "netmask": str(network.netmask), "gateway": gateway}


def ec2_meta_data(instance: Instance, network_info: Sequence[VIF]) -> dict[str, Any]:
    """The tree ``meta-data`` of the EC2 form. A directory is a dictionary, a list of lines a list."""
    fixed = [f for v in network_info for f in v.fixed_ips if f.version == 4]
    floating = [a for f in fixed for a in f.floating_ips]
    name, root = hostname(instance), instance.root_device_name or "/dev/vda"
    made: dict[str, Any] = {
        "ami-id": f"ami-{(instance.image_ref or '0' * 8)[:8]}", "ami-launch-index": instance.launch_index,
        "ami-manifest-path": "FIXME", "block-device-mapping": _ec2_devices(instance, root),
        "hostname": name, "instance-action": "none", "instance-id": f"i-{instance.id or 0:08x}",
        "instance-type": instance.flavor.name, "local-hostname": name, "local-ipv4": fixed[0].address if fixed else "",
        "placement": {"availability-zone": instance.availability_zone or ""}, "public-hostname": name,
        "public-ipv4": floating[0] if floating else "", "reservation-id": instance.reservation_id or "",
        "security-groups": list(instance.security_groups)}
    for key, prefix in (("kernel_id", "aki"), ("ramdisk_id", "ari")):
        found = instance.image.properties.get(key) if instance.image else None
        if found:
            made[key.replace("_", "-")] = f"{prefix}-{str(found)[:8]}"
    if instance.keypair:
        made["public-keys"] = {"0": {"openssh-key": instance.keypair["public_key"], "_name": f"0={instance.keypair['name']}"}}
    return made


def _ec2_devices(instance: Instance, root: str) -> dict[str, str]:
    names = device_names.assign(instance)
    made = {"ami": root.removeprefix("/dev/"), "root": root}
    for kind in (*map(device_names.ephemeral, range(len(instance.ephemeral_disks))), device_names.SWAP):
        if kind in names:
            made[kind] = names[kind]
    volumes = [d for d in instance.block_devices if d.is_volume and not d.is_root]
    return made | {f"ebs{number}": names[device.id] for number, device in enumerate(volumes)}


def _files(injected: Sequence[dict[str, str]]) -> tuple[list[dict[str, str]], dict[str, bytes]]:
    files, contents = [], {}
    for number, file in enumerate(injected):
        name = f"{number:04d}"
        files.append({"content_path": f"/content/{name}", "path": file["path"]})
        contents[name] = _decode(file["contents"], file["path"])
    return files, contents


def _decode(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        raise exception.InvalidInput(reason=f"{what} is not base64") from None


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()
