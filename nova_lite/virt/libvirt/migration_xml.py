"""The domain of a guest that moves while it runs, as the other host is to have it. Pure.

Devices keep all that the guest sees of them (addresses, models, aliases); what changes is what is behind them: paths below the
directory of guests, bridges and volumes as the other host has them, and the address of the console.
"""
from __future__ import annotations

from lxml import etree

from nova_lite.objects.guest_moves import Plan

# of a nic: what is behind it; the rest is what the guest sees, or follows from it
_BEHIND = ("source", "virtualport", "target", "mtu")


def build(xml: str, plan: Plan) -> str:
    """The destination's XML from that of the running guest (VIR_DOMAIN_XML_MIGRATABLE)."""
    domain = etree.fromstring(xml)
    _move_paths(domain, plan)
    for nic in domain.iterfind("devices/interface"):
        mac = nic.find("mac")
        if mac is not None and mac.get("address") in plan.nics:
            _replace(nic, etree.fromstring(plan.nics[mac.get("address", "")]), _BEHIND)
    for disk in domain.iterfind("devices/disk"):
        serial = disk.findtext("serial") or ""
        if serial in plan.volumes:
            _replace(disk, etree.fromstring(plan.volumes[serial]), ("source",))
    for log in domain.iterfind("devices//log"):
        log.set("append", "on")     # to what the guest has said at the source
    for graphics in domain.iterfind("devices/graphics"):
        for element in (graphics, *graphics.iterfind("listen")):
            for name in ("listen", "address"):
                if element.get(name):
                    element.set(name, plan.listen)
    return etree.tostring(domain, encoding="unicode")


def copied(xml: str, plan: Plan) -> list[str]:
    """The targets (vda ...) of the disks that are copied."""
    names = {f"{plan.source_root}/{d['name']}" for d in plan.disks}
    found = []
    for disk in etree.fromstring(xml).iterfind("devices/disk"):
        source, target = disk.find("source"), disk.find("target")
        path = source.get("file", "") if source is not None else ""
        if target is not None and path.removeprefix(f"{plan.source_root}/") != path and path in names:
            found.append(target.get("dev", ""))
    return found


def _move_paths(domain: etree._Element, plan: Plan) -> None:
    if plan.source_root == plan.root:
        return
    for element in domain.iter():
        for name, value in element.attrib.items():
            if str(value).startswith(f"{plan.source_root}/"):
                element.set(name, plan.root + str(value).removeprefix(plan.source_root))
    variables = domain.find("os/nvram")         # QEMU copies their content with the memory of the guest
    if variables is not None and (variables.text or "").startswith(f"{plan.source_root}/"):
        variables.text = plan.root + str(variables.text).removeprefix(plan.source_root)


def _replace(old: etree._Element, new: etree._Element, names: tuple[str, ...]) -> None:
    if new.get("type"):
        old.set("type", new.get("type", ""))
    for name in names:
        position = None
        for element in old.findall(name):
            position = old.index(element) if position is None else position
            old.remove(element)
        for element in reversed(new.findall(name)):
            old.insert(position if position is not None else len(old), element)
