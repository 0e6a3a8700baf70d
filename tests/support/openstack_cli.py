"""The stock ``openstack`` command in a virtual environment of its own, as a user has it: not beside the service."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import uuid
from collections.abc import Callable
from typing import Any

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "nova-lite" / "openstackclient"


def install() -> str:
    """Path of the command; installs python-openstackclient at the first call."""
    command = CACHE / "bin" / "openstack"
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(CACHE)], check=True)
        subprocess.run([str(CACHE / "bin" / "pip"), "install", "-q", "python-openstackclient>=7"], check=True)
    return str(command)


def runner(clouds: pathlib.Path) -> Callable[..., Any]:
    """A function that runs ``openstack ...`` as an admin of the cloud in ``clouds.yaml`` and answers its JSON."""
    command = install()

    def run(*arguments: str, cloud: str = "nova-lite", parse: bool = True) -> Any:
        env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": cloud, "PYTHONWARNINGS": "ignore"}
        env.pop("NOVA_LITE_CONCURRENCY", None)
        done = subprocess.run([command, *arguments, *(["-f", "json"] if parse else [])], capture_output=True, text=True,
                              env=env, check=False, timeout=120)
        assert done.returncode == 0, f"openstack {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if parse else done.stdout
    return run


def tour(openstack: Callable[..., Any], tmp_path: pathlib.Path) -> None:
    """A server's life by the stock commands."""
    name = f"cli-{uuid.uuid4().hex[:6]}"
    assert openstack("image", "list")
    assert openstack("network", "list")
    flavor = openstack("flavor", "create", "--ram", "64", "--disk", "1", "--vcpus", "1", name)
    assert flavor["ram"] == 64
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
    assert openstack("console", "log", "show", name, parse=False).strip()
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
    image = openstack("image", "list")[0]["Name"]
    for other, source in ((f"{name}-1", ("--snapshot", f"{name}-s")), (f"{name}-2", ("--image", image, "--size", "1"))):
        openstack("volume", "create", *source, other)
        _until_volume(openstack, other, "available")
        openstack("volume", "delete", other, parse=False)
    assert openstack("volume", "snapshot", "list")[0]["Name"] == f"{name}-s"
    openstack("volume", "snapshot", "delete", f"{name}-s", parse=False)
    _attach_and_boot(openstack, name, image)
    openstack("volume", "delete", name, parse=False)
    assert name not in [v["Name"] for v in openstack("volume", "list")]


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


def _until_volume(openstack, name: str, status: str) -> None:
    for _ in range(30):
        if (said := openstack("volume", "show", name)["status"]) == status:
            return
    raise AssertionError(f"volume {name} is {said}, not {status}")


def _until(openstack, name: str, status: str) -> None:
    for _ in range(30):
        if openstack("server", "show", name)["status"] == status:
            return
    raise AssertionError(f"{name} never became {status}")
