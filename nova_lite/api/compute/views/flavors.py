"""The view of a flavor, by microversion."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import links
from nova_lite.api.openstack.wsgi import Request
from nova_lite.objects.flavor import Flavor


def brief(req: Request, flavor: Flavor) -> dict[str, Any]:
    """One item of the short list."""
    view: dict[str, Any] = {"id": flavor.flavorid, "name": flavor.name, "links": links.links(req, "flavors", flavor.flavorid)}
    if req.since("2.55"):
        view["description"] = flavor.description
    return view


def full(req: Request, flavor: Flavor, with_specs: bool) -> dict[str, Any]:
    """All attributes; ``with_specs``: whether the caller may see extra specs (2.61)."""
    view = brief(req, flavor) | {
        "ram": flavor.memory_mb, "vcpus": flavor.vcpus, "disk": flavor.root_gb,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb, "os-flavor-access:is_public": flavor.is_public,
        "swap": flavor.swap if flavor.swap or req.since("2.75") else ""}
    if not req.since("2.102"):
        view |= {"OS-FLV-DISABLED:disabled": flavor.disabled, "rxtx_factor": flavor.rxtx_factor}
    if with_specs:
        view["extra_specs"] = flavor.extra_specs
    return view


def shows_specs(req: Request) -> bool:
    """Whether this answer has extra specs in it."""
    return req.since("2.61") and req.can("os_compute_api:os-flavor-extra-specs:index", fatal=False)
