"""The paths of the metadata service, as a tree of documents: ``openstack/...`` and ``<EC2 version>/...``."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nova_lite.objects.instance import Instance
from nova_lite.virt import guest_metadata
from nova_lite.virt.guest_metadata import EC2_VERSIONS, LATEST

Tree = dict[str, Any]
"""Name -> a directory, or the content of a document."""


def documents(instance: Instance, vendor_data: Mapping[str, Any] | None = None) -> tuple[Tree, int]:
    """All documents of one server, and their size in bytes."""
    tree: Tree = {}
    files = guest_metadata.build(instance, instance.network_info, vendor_data=vendor_data)
    for path, content in files.items():
        if path.startswith("openstack/"):
            _put(tree, path.split("/"), content)
    for version in (*(v for v in tree["openstack"] if v != "content"),):
        if version >= guest_metadata.GRIZZLY:
            tree["openstack"][version]["password"] = instance.encrypted_password.encode()
    ec2: Tree = {"meta-data": _ec2(guest_metadata.ec2_meta_data(instance, instance.network_info))}
    user_data = files.get("openstack/latest/user_data")
    if user_data is not None:
        ec2["user-data"] = user_data
    tree.update(dict.fromkeys((*EC2_VERSIONS, LATEST), ec2))
    return tree, sum(len(content) for content in {id(c): c for c in files.values()}.values())


def root() -> bytes:
    """``/``: the EC2 versions; no server need be known for it."""
    return "\n".join((*EC2_VERSIONS, LATEST)).encode()


def find(tree: Tree, path: str) -> tuple[bytes, str] | None:
    """The content below a path with its type, or None. A directory is the list of its names."""
    node: Any = tree
    parts = [p for p in path.split("/") if p]
    for part in parts:
        if not isinstance(node, dict) or part not in node or part == "_name":
            return None
        node = node[part]
    if isinstance(node, dict):
        slashes = parts[:1] != ["openstack"]
        return "\n".join(_entry(name, child, slashes) for name, child in node.items() if name != "_name").encode(), "text/plain"
    return node, "application/json" if parts[-1].endswith(".json") else "text/plain"


def _entry(name: str, child: Any, slashes: bool) -> str:
    if isinstance(child, dict) and slashes:
        return child.get("_name") or f"{name}/"
    return name


def _put(tree: Tree, path: list[str], content: bytes) -> None:
    for part in path[:-1]:
        tree = tree.setdefault(part, {})
    tree[path[-1]] = content


def _ec2(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v if k == "_name" else _ec2(v) for k, v in value.items()}
    if isinstance(value, list):
        return "\n".join(str(v) for v in value).encode()
    return str(value).encode()
