"""An Open vSwitch in user space, of a test's own. Needs root."""
from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
import uuid
from collections.abc import Callable, Iterator

from tests.support.process import wait_for

SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


def vsctl(*command: str) -> str:
    """The output of ovs-vsctl."""
    return subprocess.run(["ovs-vsctl", "--timeout=20", *command], capture_output=True, text=True, check=True).stdout.strip()


@contextlib.contextmanager
def open_vswitch(directory: pathlib.Path) -> Iterator[str]:
    """The name of its bridge. ovs-vsctl finds the switch by this process's environment."""
    environment = {f"OVS_{name}DIR": str(directory) for name in ("RUN", "DB", "LOG", "SYSCONF")}
    os.environ.update(environment)
    database, socket = str(directory / "conf.db"), directory / "db.sock"
    subprocess.run(["ovsdb-tool", "create", database, SCHEMA], check=True)
    with contextlib.ExitStack() as ends:
        for variable in environment:
            ends.callback(os.environ.pop, variable)
        ends.callback(_run(["ovsdb-server", database, f"--remote=punix:{socket}"], directory))
        wait_for("Open vSwitch's database", socket.exists, 30)
        vsctl("--no-wait", "init")
        control = directory / "switch.ctl"
        ends.callback(_run(["ovs-vswitchd", f"unix:{socket}", f"--unixctl={control}"], directory))
        name = f"brt{uuid.uuid4().hex[:6]}"
        vsctl("add-br", name, "--", "set", "Bridge", name, "datapath_type=netdev")
        ends.callback(subprocess.run, ["ovs-appctl", "-t", str(control), "exit", "--cleanup"], check=True)
        yield name


def _run(command: list[str], directory: pathlib.Path) -> Callable[[], None]:
    """Start a daemon; the answer ends it."""
    with open(directory / "daemons.out", "ab") as log:
        daemon = subprocess.Popen([*command, "--no-chdir"], stdout=log, stderr=log)

    def end() -> None:
        daemon.terminate()
        daemon.wait(30)
    return end
