"""``--demo``: boots one guest through the public API, as a user would, and shows its console."""
from __future__ import annotations

import json
import pathlib
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from nova_lite import exception
from nova_lite.embedded.identity.local import LocalIdentity

NAME = "demo"
BOOT_TIMEOUT, LOGIN_TIMEOUT = 300, 300
Say = Callable[[str], None]


class Api:
    """The compute API of this machine, as the user demo."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        identity = LocalIdentity(f"{conf.state_path}/identity")
        passwords = json.loads((identity.directory / "passwords.json").read_text())
        self.token, said = identity.authenticate("demo", passwords["demo"], None)
        self.url, self.tls = f"{base_url(conf)}/v2.1", _tls(conf)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None, version: str = "2.90") -> Any:
        """One request; raises ServiceUnavailable with the answer's text."""
        request = urllib.request.Request(  # noqa: S310  the scheme is ours
            self.url + path, method=method, data=json.dumps(body).encode() if body is not None else None,
            headers={"X-Auth-Token": self.token, "Content-Type": "application/json",
                     "OpenStack-API-Version": f"compute {version}"})
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:  # noqa: S310
                text = answer.read()
        except urllib.error.HTTPError as error:
            raise exception.ServiceUnavailable(what=f"{method} {path}", reason=error.read().decode()[:300]) from None
        except urllib.error.URLError as error:
            raise exception.ServiceUnavailable(what=self.url, reason=str(error.reason)) from None
        return json.loads(text) if text else None


def base_url(conf: cfg.ConfigOpts) -> str:
    """Where this machine's cloud answers."""
    return f"http{'s' if conf.api.tls_cert_file else ''}://127.0.0.1:{conf.api.port}"


def _tls(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    # our own address and our own certificate: there is no name to check
    return ssl._create_unverified_context() if conf.api.tls_cert_file else None  # noqa: S323


def wait_until_it_answers(conf: cfg.ConfigOpts) -> None:
    """Block until the API of this process takes requests."""
    while True:
        try:
            urllib.request.urlopen(f"{base_url(conf)}/healthcheck", timeout=5, context=_tls(conf)).close()  # noqa: S310
            return
        except OSError:
            time.sleep(0.2)


def run(conf: cfg.ConfigOpts, say: Say) -> None:
    """Boot (or find) the guest ``demo``, print the end of its console and the next commands. Raises when it does not start."""
    api = Api(conf)
    server_id = _boot(api, say)
    server = _wait_active(api, server_id, say)
    addresses = [a["addr"] for nics in server["addresses"].values() for a in nics]
    say(f"Server {NAME} ({server_id}) is ACTIVE, addresses: {', '.join(addresses) or 'none'}. Waiting for its login prompt ...")
    for line in _wait_login(api, server_id).splitlines()[-12:]:
        say(f"    | {line}")
    if conf.standalone_console_port:
        made = api.call("POST", f"/servers/{server_id}/remote-consoles", {
            "remote_console": {"protocol": "vnc", "type": "novnc"}})
        say(f"Its screen, for a browser, within {conf.console.token_ttl // 60} minutes: {made['remote_console']['url']}")
    path = pathlib.Path(conf.state_path) / "clouds.yaml"
    say(f"\nThe cloud answers at {api.url}; its clouds.yaml is {path}:\n")
    say(path.read_text())
    say("Try:  python3 -m venv client && client/bin/pip install python-openstackclient; PATH=$PWD/client/bin:$PATH\n"
        f"      export OS_CLIENT_CONFIG_FILE={path} OS_CLOUD=nova-lite-demo\n"
        "      openstack server list; openstack console log show demo; openstack server stop demo\n"
        "Ctrl-C stops the cloud; its guests run on and are found again at the next start.")


def _boot(api: Api, say: Say) -> str:
    known = [s for s in api.call("GET", f"/servers?name={NAME}")["servers"] if s["name"] == NAME]
    if known:
        say(f"Found server {NAME} of an earlier start")
        server = api.call("GET", f"/servers/{known[0]['id']}")["server"]
        if server["status"] == "SHUTOFF":
            api.call("POST", f"/servers/{server['id']}/action", {"os-start": None})
        return str(server["id"])
    images = [i for i in api.call("GET", "/images", version="2.1")["images"] if i["name"] == "tiny"]
    flavors = [f for f in api.call("GET", "/flavors")["flavors"] if f["name"] == "m1.nano"]
    if not images or not flavors:
        raise exception.NotFound("The cloud has no image 'tiny' or no flavor 'm1.nano' to boot from")
    say(f"Booting a guest from image {images[0]['name']} ...")
    made = api.call("POST", "/servers", {"server": {"name": NAME, "imageRef": images[0]["id"], "networks": "auto",
                                                    "flavorRef": flavors[0]["id"]}})
    return str(made["server"]["id"])


def _wait_active(api: Api, server_id: str, say: Say) -> dict[str, Any]:
    deadline, shown = time.monotonic() + BOOT_TIMEOUT, ""
    while time.monotonic() < deadline:
        server = api.call("GET", f"/servers/{server_id}")["server"]
        state = f"{server['status']} {server['OS-EXT-STS:task_state'] or ''}".strip()
        if state != shown:
            say(f"  {state}")
            shown = state
        if server["status"] == "ACTIVE" and server["OS-EXT-STS:task_state"] is None:
            return server
        if server["status"] == "ERROR":
            raise exception.BuildFailed(instance_id=server_id, reason=server.get("fault", {}).get("message", "no reason given"))
        time.sleep(0.3)
    raise exception.BuildFailed(instance_id=server_id, reason=f"not ACTIVE within {BOOT_TIMEOUT} s")


def _wait_login(api: Api, server_id: str) -> str:
    deadline, text = time.monotonic() + LOGIN_TIMEOUT, ""
    while time.monotonic() < deadline:
        text = api.call("POST", f"/servers/{server_id}/action", {"os-getConsoleOutput": {"length": 50}})["output"]
        if "login:" in text or "fake" in text.lower():
            return text
        time.sleep(1)
    raise exception.ServiceUnavailable(
        what=f"Guest {NAME}", reason=f"no login prompt within {LOGIN_TIMEOUT} s; its console ends with {text[-200:]!r}")
