"""The cloud of the tours, and how a client is started: in a virtual environment of its own, as its users have it."""
from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import yaml
from keystoneauth1.identity import v3
from keystoneauth1.session import Session

from tests.support.cloud import Standalone

HERE = pathlib.Path(__file__).parent
SECONDS = 900       # the longest tour, with real guests


@dataclass
class Cloud:
    """``config`` is a clouds.yaml that has the clouds ``user`` (a member) and ``admin``; ``external`` is the network of
    floating IPs, if there is one. All have the image "tiny", the flavors "m1.nano" and "m1.tiny", the network "private"."""

    config: pathlib.Path
    user: str
    admin: str
    external: str | None = None

    def auth(self, cloud: str) -> dict[str, str]:
        """The ``auth`` of one of them."""
        found: dict[str, str] = yaml.safe_load(self.config.read_text())["clouds"][cloud]["auth"]
        return found

    def session(self, cloud: str) -> Session:
        auth = self.auth(cloud)
        return Session(auth=v3.Password(
            auth_url=auth["auth_url"], username=auth["username"], password=auth["password"],
            project_name=auth["project_name"], user_domain_id="default", project_domain_id="default"))

    def env(self, cloud: str) -> dict[str, str]:
        """For a client that reads clouds.yaml, and for one that reads OS_USERNAME and so on."""
        auth = self.auth(cloud)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return {**kept, "OS_CLIENT_CONFIG_FILE": str(self.config), "OS_CLOUD": cloud, "OS_AUTH_URL": auth["auth_url"],
                "OS_USERNAME": auth["username"], "OS_PASSWORD": auth["password"], "OS_PROJECT_NAME": auth["project_name"],
                "OS_TENANT_NAME": auth["project_name"], "OS_USER_DOMAIN_ID": "default", "OS_PROJECT_DOMAIN_ID": "default",
                "OS_REGION_NAME": "RegionOne", "OS_IDENTITY_API_VERSION": "3",
                "EXTERNAL_NETWORK": self.external or ""}


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The one that OS_CLIENT_CONFIG_FILE names, else an embedded one."""
    given = os.environ.get("OS_CLIENT_CONFIG_FILE")
    if given:
        made = Cloud(pathlib.Path(given), "nova-lite-demo", "nova-lite")
        networks = made.session(made.user).get("/v2.0/networks?router:external=true",
                                               endpoint_filter={"service_type": "network"}).json()["networks"]
        made.external = networks[0]["name"] if networks else None
        yield made
        return
    # the delay is for clients that wait for states such as REBOOT
    standalone = Standalone(tmp_path_factory.mktemp("tours"), None, "--virt-driver", "fake", "--set", "fake.delay=1.5", "--set",
                            "quota.instances=100")
    try:
        standalone.start()
        yield Cloud(standalone.directory / "state" / "clouds.yaml", "nova-lite-demo", "nova-lite")
    finally:
        if standalone.process.popen is not None:
            assert standalone.stop() == 0, standalone.process.tail()


Run = Callable[..., str]


@pytest.fixture
def run(cloud: Cloud) -> Run:
    """Runs a command as a user of the cloud; the answer is what it printed. A failure of the command fails the test."""
    def run(*command: str | pathlib.Path, as_admin: bool = False, **more: str) -> str:
        env = cloud.env(cloud.admin if as_admin else cloud.user)
        done = subprocess.run([str(part) for part in command], env={**env, **more}, cwd=HERE, capture_output=True,
                              text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
        return done.stdout
    return run
