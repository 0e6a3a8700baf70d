"""The API's own pipeline with keystonemiddleware before the real Keystone: who may enter, and as whom."""
from __future__ import annotations

import pathlib
import uuid
from collections.abc import Callable, Iterator

import pytest

from nova_lite import conf as nova_conf
from nova_lite.api import wsgi
from nova_lite.api.openstack import rules
from nova_lite.policy import Policy
from tests.support.fault_proxy import HANG, FaultProxy
from tests.support.neighbours import Neighbours
from tests.unit.api.conftest import ROUTES, Client, Services, fault, module

Make = Callable[..., Client]


@pytest.fixture
def keystone(neighbours: Neighbours) -> Iterator[FaultProxy]:
    proxy = FaultProxy(neighbours.url("keystone"))
    yield proxy
    proxy.close()


@pytest.fixture
def make(neighbours: Neighbours, keystone: FaultProxy, tmp_path: pathlib.Path) -> Make:
    """Applications as so many processes would load them."""
    def made(**more: str) -> Client:
        options = {k.removeprefix("keystone_authtoken__"): v for k, v in neighbours.options().items()
                   if k.startswith("keystone_authtoken__")}
        options |= {"auth_url": f"{keystone.url}/v3", **more}
        file = tmp_path / f"{uuid.uuid4()}.conf"
        file.write_text("[api]\nauth_strategy = keystone\n[service_user]\ntimeout = 2\n[keystone_authtoken]\n"
                        + "".join(f"{k} = {v}\n" for k, v in options.items()))
        conf = nova_conf.load([], config_files=[str(file)])
        services = Services(conf, Policy(conf, rules.installed()))
        return Client(wsgi.loadapp(conf, "compute", services, [module("third_party", ROUTES)]))  # type: ignore[arg-type]
    return made


def _fresh(neighbours: Neighbours, user: str) -> str:
    """A token that nobody has seen yet."""
    session = neighbours.session(user)
    return str(session.auth.get_auth_ref(session).auth_token)


def test_a_user_enters_as_what_keystone_says(neighbours: Neighbours, make: Make) -> None:
    found = make()("/v2.1/things/x", token=neighbours.token("demo"), X_Roles="admin", X_User_Id="somebody").json
    session = neighbours.session("demo")
    assert (found["user"], found["project"]) == (session.get_user_id(), neighbours.project_id("demo"))
    assert "member" in found["roles"]
    assert found["is_admin"] is False
    assert found["service_roles"] == []
    admin = make()("/v2.1/things/x", token=neighbours.token("admin")).json
    assert admin["is_admin"] is True


def test_a_service_enters_beside_its_user(neighbours: Neighbours, make: Make) -> None:
    app = make()
    found = app("/v2.1/things/x", token=neighbours.token("demo"), X_Service_Token=neighbours.token("nova_lite")).json
    assert "service" in found["service_roles"]
    assert found["is_admin"] is False
    # a plain user's token is no service token, whatever header it stands in
    assert app("/v2.1/things/x", token=neighbours.token("demo"), X_Service_Token=neighbours.token("demo")).status_code == 401
    assert app("/v2.1/things/x", token=neighbours.token("demo"), X_Service_Token="x").status_code == 401


@pytest.mark.parametrize("token", [None, "", "x", "gAAAAABh" + "x" * 200])
def test_nobody_else_enters(make: Make, token: str | None) -> None:
    answer = make()("/v2.1/things/x", token=token, X_User_Id="joe", X_Identity_Status="Confirmed")
    assert answer.status_code == 401
    assert "Keystone uri=" in answer.headers["WWW-Authenticate"]


def test_a_revoked_token_does_not_enter(neighbours: Neighbours, make: Make) -> None:
    token = _fresh(neighbours, "demo")
    neighbours.session("demo").delete(f"{neighbours.facts['keystone']}/auth/tokens", headers={"X-Subject-Token": token})
    assert make()("/v2.1/things/x", token=token).status_code == 401


def test_a_token_is_asked_for_once_by_all_processes(neighbours: Neighbours, keystone: FaultProxy, make: Make) -> None:
    apps, token = [make(), make()], _fresh(neighbours, "demo")
    keystone.forget()
    for app in apps * 3:
        assert app("/v2.1/things/x", token=token).json["project"] == neighbours.project_id("demo")
    assert keystone.counts()["GET /v3/auth/tokens"] == 1        # memcached tells the others


def test_keystone_down_lets_in_who_is_known(neighbours: Neighbours, keystone: FaultProxy, make: Make) -> None:
    app, known = make(), _fresh(neighbours, "demo")
    assert app("/v2.1/things/x", token=known).status_code == 200
    keystone.stop()
    assert app("/v2.1/things/x", token=known).status_code == 200
    assert app("/v2.1/things/x", token=_fresh(neighbours, "demo")).status_code == 503
    keystone.start()
    assert app("/v2.1/things/x", token=_fresh(neighbours, "demo")).status_code == 200


def test_a_keystone_that_hangs_holds_nobody_for_long(neighbours: Neighbours, keystone: FaultProxy, make: Make) -> None:
    app, token, known = make(), _fresh(neighbours, "demo"), _fresh(neighbours, "demo")
    assert app("/v2.1/things/x", token=known).status_code == 200     # remembered from now on for five minutes
    keystone.mode = HANG
    said = fault(app("/v2.1/things/x", token=token), "serviceUnavailable", 503)
    assert said == "Keystone is unavailable: no answer about the token of this request"
    assert app("/v2.1/things/x", token=known).status_code == 200


def test_errors_have_the_form_of_the_api(neighbours: Neighbours, make: Make) -> None:
    fault(make()("/v2.1/things/conflict", token=neighbours.token("demo")), "conflictingRequest", 409)
