"""The NUMA nodes of a host, from the capabilities of libvirt."""
from __future__ import annotations

from lxml import etree

from nova_lite.objects.hardware.asked import ranges
from nova_lite.objects.hardware.placement import HostCell

_SMALL_KIB = 4


def of_capabilities(xml: str) -> list[HostCell]:
    """Nodes without CPUs are left out; without NUMA data there are none."""
    return [cell for cell in map(_cell, etree.fromstring(xml).iterfind("host/topology/cells/cell")) if cell.cpus]


def _cell(element: etree._Element) -> HostCell:
    cpus = [c for c in element.iterfind("cpus/cpu") if c.get("id")]
    groups = {tuple(ranges(c.get("siblings", c.get("id", "")))) for c in cpus}
    pages = {int(page.get("size", "0")): int(page.text or 0) for page in element.iterfind("pages")}
    return HostCell(int(element.get("id", "0")), tuple(sorted(int(c.get("id", "0")) for c in cpus)),
                    int(element.findtext("memory") or 0) // 1024,
                    tuple(sorted(group for group in groups if len(group) > 1)),
                    {size: count for size, count in pages.items() if size > _SMALL_KIB and count})
