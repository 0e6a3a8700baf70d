"""[pci]: devices of hosts that are given to guests."""
from oslo_config import cfg

GROUP = "pci"
OPTS = [
    cfg.MultiStrOpt("device_spec", default=[],
                    help="On a compute host: devices that it offers to guests, as JSON with vendor_id, product_id and address "
                         "(a pattern such as 0000:0a:00.*); may be given several times. libvirt binds them to vfio-pci when "
                         "their guest starts."),
    cfg.MultiStrOpt("alias", default=[],
                    help="For the API: a name by which flavors ask for devices (pci_passthrough:alias=NAME:COUNT), as JSON "
                         "with name, vendor_id, product_id and device_type (type-PCI, type-PF, type-VF); may be given several "
                         "times, also by one name: then any of these will do."),
]
