"""The stock ``openstack`` command in a virtual environment of its own, as a user has it: not beside the service."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import uuid
from collections.abc import Callable
from typing import Any

from tests.support import tools_venv
from tests.support.process import wait_for

FORKS = pathlib.Path(__file__).with_name("openstack_forks.py")


def install() -> str:
    """Path of the command; installs python-openstackclient at the first call."""
    return tools_venv.install("openstackclient", "openstack", "python-openstackclient>=7")


class Openstack:
    """Runs ``openstack ...`` as an admin (``cloud``: as another) of the cloud in ``clouds.yaml`` and answers its JSON.

    The commands are forks of one process that has imported the client (``openstack_forks.py``): else they would take most
    of their time for that. :meth:`close` ends it.
    """

    def __init__(self, clouds: pathlib.Path, cloud: str = "nova-lite") -> None:
        self.clouds, self.cloud = clouds, cloud
        python = pathlib.Path(install()).with_name("python")
        env = {name: value for name, value in os.environ.items() if name != "NOVA_LITE_CONCURRENCY" and name[:3] != "OS_"}
        self._forks = subprocess.Popen([str(python), "-W", "ignore", str(FORKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True, env=env)

    def __call__(self, *arguments: str, cloud: str = "", parse: bool = True, fails: bool = False) -> Any:
        """``parse`` False: the text of a command that prints no table; ``fails``: it must fail, the answer is what it said."""
        env = {"OS_CLIENT_CONFIG_FILE": str(self.clouds), "OS_CLOUD": cloud or self.cloud}
        argv = [*arguments, *(["-f", "json"] if parse and not fails else [])]
        assert self._forks.stdin is not None
        assert self._forks.stdout is not None
        self._forks.stdin.write(json.dumps({"argv": argv, "env": env}) + "\n")
        self._forks.stdin.flush()
        done = json.loads(self._forks.stdout.readline())
        said = f"openstack {' '.join(arguments)}: {done['out']}{done['err']}"
        assert (done["status"] != 0) == fails, said
        if fails:
            return done["err"]
        return json.loads(done["out"]) if parse else done["out"]

    def close(self) -> None:
        """End the process that forks."""
        assert self._forks.stdin is not None
        self._forks.stdin.close()
        self._forks.wait(60)


def tour(openstack: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """A server's life by the stock commands."""
    name = f"cli-{uuid.uuid4().hex[:6]}"
    assert openstack("image", "list")
    assert openstack("network", "list")
    flavor = openstack("flavor", "create", "--ram", "128", "--disk", "1", "--vcpus", "1", name)
    assert flavor["ram"] == 128
    openstack("keypair", "create", "--private-key", str(tmp_path / "key"), name)
    image = openstack("image", "list")[0]["Name"]
    server = openstack("server", "create", "--flavor", name, "--image", image, "--nic", "none", "--key-name", name,
                       "--wait", name)
    assert server["status"] == "ACTIVE"
    assert name in [s["Name"] for s in openstack("server", "list")]
    assert openstack("server", "show", name)["key_name"] == name
    openstack("server", "stop", name, parse=False)
    _until(openstack, name, "SHUTOFF")
    openstack("server", "start", name, parse=False)
    _until(openstack, name, "ACTIVE")
    openstack("server", "reboot", "--wait", name, parse=False)
    openstack("server", "reboot", "--hard", "--wait", name, parse=False)
    wait_for("the guest's first words", lambda: openstack("console", "log", "show", name, parse=False).strip(), 120)
    assert openstack("server", "event", "list", name)
    openstack("server", "delete", "--wait", name, parse=False)
    assert name not in [s["Name"] for s in openstack("server", "list")]
    openstack("keypair", "delete", name, parse=False)
    openstack("flavor", "delete", name, parse=False)


def volume_tour(openstack: Callable[..., Any]) -> None:
    """Volumes by the stock commands."""
    name = f"vol-{uuid.uuid4().hex[:6]}"
    made = openstack("volume", "create", "--size", "1", "--property", "a=b", name)
    assert (made["size"], made["properties"]) == (1, {"a": "b"})
    _until_volume(openstack, name, "available")
    assert name in [v["Name"] for v in openstack("volume", "list")]
    openstack("volume", "set", "--description", "mine", "--size", "2", "--property", "c=d", name, parse=False)
    shown = openstack("volume", "show", name)
    assert (shown["size"], shown["description"], shown["properties"]) == (2, "mine", {"a": "b", "c": "d"})
    openstack("volume", "snapshot", "create", "--volume", name, f"{name}-s")
    _until_volume(openstack, f"{name}-s", "available", "volume snapshot")
    image = openstack("image", "list")[0]["Name"]
    for other, source in ((f"{name}-1", ("--snapshot", f"{name}-s")), (f"{name}-2", ("--image", image, "--size", "1"))):
        openstack("volume", "create", *source, other)
        _until_volume(openstack, other, "available")
        openstack("volume", "delete", other, parse=False)
    assert [s["Name"] for s in openstack("volume", "snapshot", "list", "--volume", name)] == [f"{name}-s"]
    openstack("volume", "snapshot", "delete", f"{name}-s", parse=False)
    wait_for(f"{name} without a snapshot", lambda: not openstack("volume", "snapshot", "list", "--volume", name), 60)
    _attach_and_boot(openstack, name, image)
    openstack("volume", "delete", name, parse=False)
    wait_for(f"{name} to be gone", lambda: name not in [v["Name"] for v in openstack("volume", "list")], 60)


def _attach_and_boot(openstack: Callable[..., Any], name: str, image: str) -> None:
    openstack("server", "create", "--flavor", "m1.nano", "--image", image, "--nic", "none", "--wait", name)
    assert openstack("server", "add", "volume", name, name)["Device"] == "/dev/vdb"
    _until_volume(openstack, name, "in-use")
    assert [v["Volume ID"] for v in openstack("server", "volume", "list", name)] == [openstack("volume", "show", name)["id"]]
    openstack("server", "remove", "volume", name, name, parse=False)
    _until_volume(openstack, name, "available")
    openstack("server", "create", "--flavor", "m1.nano", "--image", image, "--boot-from-volume", "1", "--nic", "none", "--wait",
              f"{name}-root")
    root, = openstack("server", "volume", "list", f"{name}-root")
    assert openstack("volume", "show", root["Volume ID"])["status"] == "in-use"
    openstack("server", "delete", "--wait", name, f"{name}-root", parse=False)
    _until_volume(openstack, root["Volume ID"], "available")
    openstack("volume", "delete", root["Volume ID"], parse=False)


def _until_volume(openstack, name: str, status: str, kind: str = "volume") -> None:
    wait_for(f"{kind} {name} to be {status}", lambda: openstack(*kind.split(), "show", name)["status"] == status, 120)


def _until(openstack, name: str, status: str) -> None:
    # a guest that ignores the power button is stopped after a minute
    wait_for(f"{name} to become {status}", lambda: openstack("server", "show", name)["status"] == status, 120)
