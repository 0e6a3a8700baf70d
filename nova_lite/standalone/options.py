"""How the options of the standalone cloud differ from those of five services: one machine, one directory."""
from __future__ import annotations

import os
import pathlib
from typing import Any

import oslo_messaging as messaging
from oslo_config import cfg

CLI_OPTS = [
    cfg.StrOpt("state-path", dest="standalone_state", default="/var/lib/nova_lite",
               help="Directory of everything the cloud keeps."),
    cfg.PortOpt("port", dest="standalone_port", default=8774, help="Port of the APIs."),
    cfg.PortOpt("metadata-port", dest="standalone_metadata_port", default=8775, help="Port of the metadata service."),
    cfg.PortOpt("console-port", dest="standalone_console_port", default=0, min=0,
                help="Port at which browsers find the guests' screens (needs the package novnc); 0: none."),
    cfg.StrOpt("virt-driver", dest="standalone_virt_driver", default="libvirt", choices=["libvirt", "fake"],
               help="fake plays guests without a hypervisor."),
    cfg.StrOpt("image", dest="standalone_image", default="",
               help="qcow2 file that becomes the first image, tiny; without one an image of a few bytes with the fake "
                    "driver and none with libvirt."),
    cfg.MultiStrOpt("set", dest="standalone_set", default=[], metavar="GROUP.NAME=VALUE",
                    help="Any other option of nova_lite, e.g. --set quota.instances=50. May be repeated."),
    cfg.BoolOpt("demo", dest="standalone_demo", default=False,
                help="Boot one guest, show the end of its console and how to use the cloud, then keep serving."),
]


def overrides(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """The options that make a cloud of one process, as ``group__name`` -> value."""
    state = pathlib.Path(os.path.abspath(conf.standalone_state))
    fake = conf.standalone_virt_driver == "fake"
    return {
        "state_path": str(state), "transport_url": "in-process://", "api__auth_strategy": "embedded",
        "api__port": conf.standalone_port, "metadata__port": conf.standalone_metadata_port,
        "database__connection": f"sqlite:///{state}/nova_lite.sqlite", "compute__driver": conf.standalone_virt_driver,
        **({"vnc__novncproxy_port": conf.standalone_console_port,
            "vnc__novncproxy_base_url": f"http://127.0.0.1:{conf.standalone_console_port}/vnc_lite.html"}
           if conf.standalone_console_port else {}),
        # fake guests need no bridges on this machine
        "network__driver": "fake" if fake else "bridge", "image__driver": "local",
        **({"fake__state_file": f"{state}/guests.json", "fake__vcpus": 64, "fake__memory_mb": 65536, "fake__disk_gb": 1000}
           if fake else {}),
    }


def apply(conf: cfg.ConfigOpts) -> None:
    """Set the values of :func:`overrides`, then those of ``--set``; raises cfg.Error for an unknown option or a bad value."""
    messaging.TransportURL.parse(conf)      # registers transport_url, as its documentation promises
    for key, value in overrides(conf).items():
        group, _, name = key.rpartition("__")
        conf.set_override(name, value, group=group or None)
    # there is no other host
    conf.set_default("allow_resize_to_same_host", True, group="compute")
    # the terminal is for what a person wants to read
    conf.set_default("log_file", f"{conf.state_path}/nova-lite.log")
    for setting in conf.standalone_set:
        key, separator, value = setting.partition("=")
        group, _, name = key.rpartition(".")
        if not separator:
            raise cfg.ConfigFileValueError(f"--set {setting}: expected GROUP.NAME=VALUE")
        target = None if group in ("", "DEFAULT") else group
        option = (conf._groups[target]._opts if target in conf._groups else conf._opts).get(name)
        if option is None or (target and target not in conf._groups):
            raise cfg.NoSuchOptError(name, conf._groups.get(target) if target else None)
        conf.set_override(name, option["opt"].type(value), group=target)
