"""The stock ``openstack`` command against the standalone cloud, as the README tells a user to use it."""
from __future__ import annotations

import json
import os
import subprocess
import uuid

import pytest

from tests.support.openstack_cli import install


@pytest.fixture(scope="session")
def openstack(standalone):
    command = install()

    def run(*arguments: str, cloud: str = "nova-lite", parse: bool = True):
        env = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(standalone.directory / "state" / "clouds.yaml"),
               "OS_CLOUD": cloud, "PYTHONWARNINGS": "ignore"}
        env.pop("NOVA_LITE_CONCURRENCY", None)
        done = subprocess.run([command, *arguments, *(["-f", "json"] if parse else [])], capture_output=True, text=True,
                              env=env, check=False, timeout=120)
        assert done.returncode == 0, f"openstack {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout) if parse else done.stdout
    return run


def test_a_tour_of_the_compute_commands(openstack, tmp_path):
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


@pytest.mark.parametrize("arguments", [
    ("flavor", "list"), ("keypair", "list"), ("hypervisor", "list"), ("compute", "service", "list"), ("aggregate", "list"),
    ("availability", "zone", "list", "--compute"), ("server", "group", "list"), ("limits", "show", "--absolute"),
    ("quota", "show", "--compute"), ("image", "list"), ("network", "list"), ("project", "list"), ("catalog", "list"),
    ("subnet", "list"), ("versions", "show")], ids=" ".join)
def test_list_commands(openstack, arguments):
    assert isinstance(openstack(*arguments), (list, dict))


def _until(openstack, name: str, status: str) -> None:
    for _ in range(30):
        if openstack("server", "show", name)["status"] == status:
            return
    raise AssertionError(f"{name} never became {status}")
