"""A Neutron mechanism driver that binds ports on any host without an agent: for work on the API only, nothing is plugged.

The host's name decides, so that tests can see each outcome: on hosts "refuse-..." binding fails, on hosts "silent-..." the port is
bound but never becomes ACTIVE, on all others it is ACTIVE at once.
"""
from neutron_lib import constants
from neutron_lib.api.definitions import portbindings
from neutron_lib.plugins.ml2 import api

DETAILS = {portbindings.CAP_PORT_FILTER: True, portbindings.OVS_HYBRID_PLUG: False,
           portbindings.VIF_DETAILS_CONNECTIVITY: portbindings.CONNECTIVITY_L2, "bridge_name": "br-int",
           "datapath_type": "netdev"}


class BindDriver(api.MechanismDriver):
    """See the module."""

    def initialize(self):
        """Nothing to prepare."""

    @property
    def connectivity(self):
        return portbindings.CONNECTIVITY_L2

    def bind_port(self, context):
        if context.host.startswith("refuse-"):
            return
        if context.current.get(portbindings.VNIC_TYPE, portbindings.VNIC_NORMAL) != portbindings.VNIC_NORMAL:
            return
        status = constants.PORT_STATUS_DOWN if context.host.startswith("silent-") else constants.PORT_STATUS_ACTIVE
        for segment in context.segments_to_bind[:1]:
            context.set_binding(segment[api.ID], portbindings.VIF_TYPE_OVS, dict(DETAILS), status=status)
