"""PCI devices of a host that are given to guests: which ones a host offers, which ones a flavor asks for. Pure.

Options have the form of Nova: ``[pci] device_spec`` selects the devices that a host offers; ``[pci] alias`` defines the names
that flavors use (``pci_passthrough:alias=NAME:COUNT,...``).
"""
from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nova_lite import exception
from nova_lite.objects.base import Record
from nova_lite.objects.flavor import Flavor

SPEC = "pci_passthrough:alias"
# a whole device, one that can be split (physical function), and a part of such a one (virtual function)
STANDARD, PHYSICAL, VIRTUAL = "type-PCI", "type-PF", "type-VF"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_ID = re.compile(r"[0-9a-f]{4}")
_DEVICE_KEYS = ("vendor_id", "product_id", "address")
_ALIAS_KEYS = ("name", "capability_type", "vendor_id", "product_id", "device_type", "numa_policy")


@dataclass
class PciDevice(Record):
    """One function of a device, by its address (0000:0a:00.1). ``parent`` is the physical function of a virtual one.
    ``consumer`` is the uuid of the server or move that has the device; None: it is free."""

    address: str
    vendor_id: str
    product_id: str
    dev_type: str = STANDARD
    numa_node: int | None = None
    parent: str | None = None
    consumer: str | None = None


@dataclass(frozen=True)
class Pool:
    """Devices that no request can tell from each other."""

    vendor_id: str
    product_id: str
    dev_type: str


@dataclass(frozen=True)
class DeviceSpec:
    """Devices that a host offers: by their ids and address, each a pattern."""

    vendor_id: str = "*"
    product_id: str = "*"
    address: str = "*"

    def matches(self, device: PciDevice) -> bool:
        """Whether a device is meant."""
        return all(fnmatch.fnmatchcase(getattr(device, name), getattr(self, name)) for name in _DEVICE_KEYS)


Aliases = Mapping[str, Sequence[Mapping[str, str]]]


def address_parts(address: str) -> tuple[str, str, str, str]:
    """Domain, bus, slot and function, as hexadecimal digits. Raises ValueError for what is no address."""
    match = _ADDRESS.fullmatch(address.lower())
    if match is None:
        raise ValueError(f"{address!r} is not a PCI address")
    domain, bus, slot, function = match.groups()
    return domain, bus, slot, function


def device_specs(texts: Iterable[str]) -> list[DeviceSpec]:
    """``[pci] device_spec``. Raises ConfigError."""
    return [_device_spec(entry) for entry in _entries("device_spec", texts, _DEVICE_KEYS)]


def _device_spec(entry: Mapping[str, Any]) -> DeviceSpec:
    for name in ("vendor_id", "product_id"):
        if entry.get(name, "*") != "*" and not _ID.fullmatch(str(entry[name]).lower()):
            raise _wrong("device_spec", entry, f"{name} is not four hexadecimal digits or *")
    address = entry.get("address", "*")
    if isinstance(address, Mapping):
        parts = {name: str(address.get(name, "*")) for name in ("domain", "bus", "slot", "function")}
        address = "{domain}:{bus}:{slot}.{function}".format(**parts)
    elif re.fullmatch(r"[^:]+:[^:]+", str(address)):        # Nova takes an address without its domain
        address = f"0000:{address}"
    if not re.fullmatch(r"[0-9a-f*?:.\[\]-]+", str(address).lower()):
        raise _wrong("device_spec", entry, "address is not an address or a pattern such as 0000:0a:00.*")
    return DeviceSpec(**{name: str(entry.get(name, "*")).lower() for name in ("vendor_id", "product_id")},
                      address=str(address).lower())


def offered(devices: Iterable[PciDevice], specs: Sequence[DeviceSpec]) -> list[PciDevice]:
    """Those of a machine's devices that its host offers, by address."""
    return sorted((d for d in devices if any(spec.matches(d) for spec in specs)), key=lambda d: d.address)


def aliases(texts: Iterable[str]) -> Aliases:
    """``[pci] alias``: name -> what each entry of this name says. Raises ConfigError."""
    found: dict[str, list[Mapping[str, str]]] = {}
    for entry in _entries("alias", texts, _ALIAS_KEYS):
        name, kind = entry.get("name"), entry.get("device_type")
        if not name or not re.fullmatch(r"[^:,\s]+", str(name)):
            raise _wrong("alias", entry, "it has no name, or one with : or ,")
        if kind not in (None, STANDARD, PHYSICAL, VIRTUAL):
            raise _wrong("alias", entry, f"device_type is not one of {STANDARD}, {PHYSICAL}, {VIRTUAL}")
        if entry.get("capability_type", "pci") != "pci":
            raise _wrong("alias", entry, "capability_type is not pci")
        if entry.get("numa_policy", "legacy") not in ("legacy", "preferred"):
            raise _wrong("alias", entry, "only the numa_policy legacy or preferred is offered")
        meant: dict[str, str] = {key: str(entry[key]).lower() for key in ("vendor_id", "product_id") if key in entry}
        if not all(_ID.fullmatch(value) for value in meant.values()):
            raise _wrong("alias", entry, "vendor_id and product_id have four hexadecimal digits")
        found.setdefault(str(name), []).append({**meant, "dev_type": str(kind)} if kind else meant)
    return found


def _entries(option: str, texts: Iterable[str], keys: Sequence[str]) -> Iterable[dict[str, Any]]:
    """Each text is a JSON object, or a list of them."""
    for text in texts:
        try:
            read = json.loads(text)
        except ValueError as error:
            raise exception.ConfigError(reason=f"[pci] {option}: {text} is not JSON: {error}") from error
        for entry in read if isinstance(read, list) else [read]:
            if not isinstance(entry, dict):
                raise exception.ConfigError(reason=f"[pci] {option}: {text} is not an object")
            unknown = sorted(set(entry) - set(keys))
            if unknown:
                raise _wrong(option, entry, f"{', '.join(unknown)} is not offered; there is {', '.join(keys)}")
            yield entry


def _wrong(option: str, entry: Mapping[str, Any], reason: str) -> exception.ConfigError:
    return exception.ConfigError(reason=f"[pci] {option}: {json.dumps(entry)}: {reason}")


def requests(flavor: Flavor, known: Aliases) -> list[dict[str, Any]]:
    """The devices that a flavor asks for, with the present meaning of its names: [{"alias", "count", "specs"}]. Raises
    PciRequestAliasNotDefined, or InvalidHardware for a value that cannot be read."""
    text = str(flavor.extra_specs.get(SPEC) or "").strip()
    found = []
    for part in text.split(",") if text else ():
        name, _, count = part.strip().partition(":")
        if not name or not count.strip().isdecimal() or int(count) < 1:
            raise exception.InvalidHardware(reason=f"flavor {flavor.name}: {SPEC}={text} is not NAME:COUNT")
        if name not in known:
            raise exception.PciRequestAliasNotDefined(alias=name)
        found.append({"alias": name, "count": int(count), "specs": [dict(meant) for meant in known[name]]})
    return found


def count(asked: Iterable[Mapping[str, Any]]) -> int:
    """How many devices requests are about."""
    return sum(int(request["count"]) for request in asked)


def choose(devices: Sequence[PciDevice], asked: Iterable[Mapping[str, Any]]) -> list[str] | None:
    """The addresses of free devices that meet all requests; None: there are too few. A server with a physical function has its
    virtual functions too, and the reverse; a device that can be split is only given to a flavor that asks for that type."""
    taken = {d.address for d in devices if d.consumer is not None}
    chosen: list[str] = []
    for request in asked:
        for _ in range(int(request["count"])):
            busy = {d.parent for d in devices if d.parent and d.address in taken}
            device = next((d for d in devices if d.address not in taken | busy and d.parent not in taken
                           and is_meant(d, request)), None)
            if device is None:
                return None
            taken.add(device.address)
            chosen.append(device.address)
    return chosen


def is_meant(device: PciDevice | Pool, request: Mapping[str, Any]) -> bool:
    """Whether a request may be met with this device, or with those of this pool."""
    return any(all(getattr(device, name) == value for name, value in meant.items()) for meant in request["specs"]
               if device.dev_type != PHYSICAL or "dev_type" in meant)
