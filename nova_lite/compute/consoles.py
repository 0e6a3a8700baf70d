"""What the API and the console proxies ask a host about the consoles of its guests."""
from __future__ import annotations

from typing import Any

from oslo_config import cfg

from nova_lite import exception
from nova_lite.compute.work import Host
from nova_lite.context import RequestContext
from nova_lite.objects import console as objects
from nova_lite.objects import states
from nova_lite.objects.instance import Instance
from nova_lite.rpc import expected


class Consoles:
    """The part of the server side of ``rpc/compute.py`` about consoles. No token is known here."""

    def __init__(self, conf: cfg.ConfigOpts, host: Host) -> None:
        self._host = host
        self._urls: dict[str, dict[str, str]] = {}      # protocol -> type -> URL, of what this host offers
        if conf.vnc.enabled:
            self._urls["vnc"] = {objects.NOVNC: conf.vnc.novncproxy_base_url}
        if conf.spice.enabled:
            self._urls["spice"] = {objects.SPICE_HTML5: conf.spice.html5proxy_base_url,
                                   objects.SPICE_DIRECT: conf.spice.spice_direct_proxy_base_url}
        if conf.serial_console.enabled:
            self._urls["serial"] = {objects.SERIAL: conf.serial_console.base_url}

    @expected
    def get_console(self, context: RequestContext, instance_uuid: str, protocol: str, console_type: str) -> dict[str, Any]:
        """``objects.Console`` as a dictionary, with ``base_url``. Raises ConsoleTypeUnavailable for a protocol that is not
        enabled here, ConsoleTypeInvalid for a type of another protocol, and the errors of the driver."""
        if protocol not in self._urls:
            raise exception.ConsoleTypeUnavailable(console_type=console_type)
        if console_type not in self._urls[protocol]:
            raise exception.ConsoleTypeInvalid(console_type=console_type)
        instance = self._instance(context, instance_uuid)
        try:
            found = self._host.driver.console(instance, protocol)
        except exception.InstanceNotFound:
            if instance.vm_state != states.BUILDING:
                raise
            raise exception.InstanceNotReady(instance_id=instance_uuid) from None
        return {**found.to_primitive(), "base_url": self._urls[protocol][console_type]}

    @expected
    def validate_console(self, context: RequestContext, instance_uuid: str, console_type: str, port: int) -> bool:
        """Whether the guest is here and its console still at this port: after a restart another guest's may be there."""
        try:
            instance = self._instance(context, instance_uuid)
            return self._host.driver.console(instance, objects.PROTOCOLS[console_type]).port == port
        except (exception.NotFound, exception.Conflict, exception.Invalid, exception.Forbidden):
            return False

    def _instance(self, context: RequestContext, instance_uuid: str) -> Instance:
        return Instance.from_primitive(self._host.conductor.get_instance(context, instance_uuid))
