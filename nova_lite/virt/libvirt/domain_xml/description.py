"""The metadata element: Nova's, which monitoring tools read, and our own, which tells our domains from others."""
from __future__ import annotations

from lxml import etree
from lxml.builder import ElementMaker

from nova_lite.virt.libvirt.config import GuestConfig

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"
OWN = "urn:nova-lite:domain:1"


def element(config: GuestConfig) -> etree._Element:
    """<metadata> with both."""
    own = ElementMaker(namespace=OWN, nsmap={"nova_lite": OWN})
    metadata = etree.Element("metadata")
    metadata.append(_nova(config))
    metadata.append(own.guest(own.version(config.description.package)))
    return metadata


def _nova(config: GuestConfig) -> etree._Element:
    nova = ElementMaker(namespace=NOVA, nsmap={"nova": NOVA})
    about = config.description
    specs = (nova.extraSpec(value, name=name) for name, value in sorted(about.extra_specs.items()))
    flavor = nova.flavor(nova.memory(str(about.memory_mb)), nova.disk(str(about.root_gb)), nova.swap(str(about.swap_mb)),
                         nova.ephemeral(str(about.ephemeral_gb)), nova.vcpus(str(about.vcpus)), nova.extraSpecs(*specs),
                         name=about.flavor_name, id=about.flavor_id)
    ports = [nova.port(*(nova.ip(type="fixed", address=address, ipVersion=str(version))
                         for address, version in port.addresses), uuid=port.id) for port in about.ports]
    instance = nova.instance(nova.package(version=about.package), nova.name(about.name),
                             nova.creationTime(about.created), flavor)
    if about.image_id:
        instance.append(nova.image(uuid=about.image_id))
        instance.append(nova.root(type="image", uuid=about.image_id))
    instance.append(nova.owner(nova.user(uuid=about.user_id), nova.project(uuid=about.project_id)))
    instance.append(nova.ports(*ports))
    return instance
