"""The metadata service over WSGI, with a conductor that knows two tenants' servers."""
from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import oslo_messaging
import pytest
import requests
import webob

from nova_lite import conf as conf_module
from nova_lite import exception
from nova_lite.api import wsgi
from nova_lite.api.metadata import handler
from nova_lite.api.metadata.answers import Answers
from nova_lite.api.metadata.handler import MetadataHandler
from nova_lite.objects.flavor import Flavor
from nova_lite.objects.instance import Instance
from nova_lite.objects.network import VIF, FixedIP

ONE, TWO = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
USER_DATA = b"#!/bin/sh\necho hello\n\xff"


def _server(uuid: str, project: str, address: str, **values) -> Instance:
    nic = VIF("33333333-3333-4333-8333-333333333333", "net", "private", "fa:16:3e:00:00:01", "bridge",
              [FixedIP(address, 4, "10.0.0.0/24", "10.0.0.1")], details={"dhcp": True})
    return Instance(uuid=uuid, id=42, project_id=project, user_id="u", display_name=f"server of {project}",
                    hostname=f"host-{project}", flavor=Flavor("1", "m1.tiny", 64, 1, 1), network_info=[nic],
                    keypair={"name": "k", "type": "ssh", "public_key": f"ssh-ed25519 AAAA {project}"},
                    security_groups=["default", "web"], reservation_id="r-abc", availability_zone="nova", **values)


class Conductor:
    """Answers as the real one does: primitives, or None."""

    def __init__(self) -> None:
        one = _server(ONE, "one", "10.0.0.5", user_data=base64.b64encode(USER_DATA).decode(), metadata={"role": "db"})
        self.by_address = {"10.0.0.5": one, "10.0.0.6": _server(TWO, "two", "10.0.0.6")}
        self.calls = 0
        self.passwords = {}
        self.delay = 0.0

    def set_server_password(self, context, instance_uuid, password):
        if instance_uuid in self.passwords:
            raise exception.Conflict("The password was posted before.")
        self.passwords[instance_uuid] = password
        for found in self.by_address.values():
            if found.uuid == instance_uuid:
                found.system_metadata = {f"password_{n}": password[n * 255:(n + 1) * 255] for n in range(4)}

    def instance_by_address(self, context, address, network_id=None):
        self.calls += 1
        time.sleep(self.delay)
        found = self.by_address.get(address)
        return found and found.to_primitive()

    def instance_metadata(self, context, instance_uuid):
        self.calls += 1
        time.sleep(self.delay)
        for found in self.by_address.values():
            if found.uuid == instance_uuid:
                return found.to_primitive()
        raise exception.InstanceNotFound(instance_id=instance_uuid)


@pytest.fixture
def conductor():
    return Conductor()


def _handler(conductor, clock=lambda: 0.0, **options):
    return MetadataHandler(conf_module.load([], config_files=[], **options), conductor, clock)


def _get(app, path, address="10.0.0.5", method="GET", body=None, **headers):
    request = webob.Request.blank(path, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()},
                                  environ={"REMOTE_ADDR": address})
    if body is not None:
        request.body = body
    return request.get_response(app)


def _refused(app, path="/openstack/latest/meta_data.json", **request) -> int:
    with pytest.raises(exception.NovaLiteError) as raised:
        _get(app, path, **request)
    return raised.value.code


def _signed(instance_id: str, tenant: str, secret: str = "secret") -> dict[str, str]:
    return {"X-Instance-ID": instance_id, "X-Tenant-ID": tenant,
            "X-Instance-ID-Signature": hmac.new(secret.encode(), instance_id.encode(), hashlib.sha256).hexdigest()}


def test_a_server_reads_its_own_documents(conductor):
    app = _handler(conductor)
    metadata = _get(app, "/openstack/latest/meta_data.json").json
    assert (metadata["uuid"], metadata["hostname"], metadata["project_id"]) == (ONE, "host-one", "one")
    assert metadata["public_keys"] == {"k": "ssh-ed25519 AAAA one"}
    assert metadata["meta"] == {"role": "db"}
    assert "admin_pass" not in metadata
    assert _get(app, "/openstack/latest/user_data").body == USER_DATA
    assert _get(app, "/latest/user-data").body == USER_DATA
    assert _get(app, "/openstack/2015-10-15/network_data.json").json["networks"][0]["type"] == "ipv4_dhcp"
    assert _get(app, "/openstack/latest/vendor_data2.json").json == {"static": {}}
    assert _get(app, "/openstack/latest/meta_data.json", address="10.0.0.6").json["uuid"] == TWO
    assert _get(app, "/openstack/latest/meta_data.json", address="::ffff:10.0.0.6").json["uuid"] == TWO


def test_documents_appear_with_the_version_that_brought_them(conductor):
    app = _handler(conductor)
    assert _get(app, "/openstack/2012-08-10").text.split() == ["meta_data.json", "user_data"]
    assert _get(app, "/openstack/2013-10-17/network_data.json").status_code == 404
    assert "random_seed" not in _get(app, "/openstack/2012-08-10/meta_data.json").json
    assert len(base64.b64decode(_get(app, "/openstack/2013-04-04/meta_data.json").json["random_seed"])) == 512
    assert set(_get(app, "/openstack/latest/").text.split()) == {
        "meta_data.json", "user_data", "vendor_data.json", "network_data.json", "vendor_data2.json", "password"}
    versions = _get(app, "/openstack").text.split()
    assert versions[0] == "2012-08-10"
    assert versions[-1] == "latest"


@pytest.mark.parametrize(("path", "text"), [
    ("/latest/", "meta-data/\nuser-data"), ("/2009-04-04/meta-data/instance-id", "i-0000002a"),
    ("/latest/meta-data/local-ipv4", "10.0.0.5"), ("/latest/meta-data/public-keys/", "0=k"),
    ("/latest/meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA one"),
    ("/latest/meta-data/placement/availability-zone", "nova"), ("/latest/meta-data/security-groups", "default\nweb"),
    ("/latest/meta-data/instance-type", "m1.tiny"), ("/1.0/meta-data/hostname", "host-one"),
    ("/latest/meta-data/block-device-mapping/", "ami\nroot"), ("/latest//meta-data//reservation-id", "r-abc")])
def test_ec2_paths(conductor, path, text):
    assert _get(_handler(conductor), path).text == text


def test_ec2_directories_end_with_a_slash(conductor):
    listed = _get(_handler(conductor), "/latest/meta-data/").text.split("\n")
    assert {"placement/", "public-keys/", "block-device-mapping/", "instance-id"} <= set(listed)


def test_the_root_names_the_versions_to_everybody(conductor):
    answer = _get(_handler(conductor), "/", address="192.0.2.1")
    assert answer.text.split()[-2:] == ["2009-04-04", "latest"]
    assert conductor.calls == 0


@pytest.mark.parametrize("path", ["/openstack/latest/meta_data.json", "/latest/meta-data/", "/openstack", "/latest"])
def test_an_unknown_address_gets_404(conductor, path):
    assert _get(_handler(conductor), path, address="192.0.2.1").status_code == 404
    assert _get(_handler(conductor), path, address="not-an-address").status_code == 404


@pytest.mark.parametrize("path", ["/openstack/latest/nothing", "/nothing", "/openstack/latest/meta_data.json/more",
                                  "/latest/meta-data/public-keys/0/_name", "/openstack/2030-01-01/meta_data.json",
                                  "/openstack/%ff", "/%ff"])
def test_an_unknown_path_gets_404(conductor, path):
    assert _get(_handler(conductor), path).status_code == 404


def test_a_guest_cannot_claim_anothers_address_or_id_by_headers(conductor):
    app = _handler(conductor)
    for headers in ({"X-Forwarded-For": "10.0.0.6"}, {"Forwarded": "for=10.0.0.6"}, _signed(TWO, "two", "")):
        assert _get(app, "/openstack/latest/meta_data.json", **headers).json["uuid"] == ONE


def test_an_address_that_passed_to_another_tenant_shows_only_the_new_server(conductor):
    app = _handler(conductor, metadata__cache_seconds=3600)
    assert _get(app, "/openstack/latest/meta_data.json").json["uuid"] == ONE
    conductor.by_address["10.0.0.5"] = conductor.by_address.pop("10.0.0.6")
    assert _get(app, "/openstack/latest/meta_data.json").json["uuid"] == TWO


def test_a_signed_request_is_answered_for_its_instance(conductor):
    app = _handler(conductor, metadata__shared_secret="secret")
    path = "/openstack/latest/meta_data.json"
    assert _get(app, path, address="192.0.2.9", **_signed(TWO, "two")).json["uuid"] == TWO
    assert _get(app, path, **_signed(TWO, "one")).status_code == 404
    for headers, code in ((_signed(TWO, "two", "wrong"), 403), ({**_signed(TWO, "two"), "X-Instance-ID": ONE}, 403),
                          (_signed("../x", "two"), 400), ({**_signed(TWO, "two"), "X-Tenant-ID": ""}, 400)):
        with pytest.raises(exception.NovaLiteError) as raised:
            _get(app, path, **headers)
        assert raised.value.code == code


def test_signed_answers_are_kept_for_cache_seconds(conductor):
    now = [0.0]
    app = _handler(conductor, lambda: now[0], metadata__shared_secret="secret", metadata__cache_seconds=15)
    for at, calls in ((0.0, 1), (14.9, 1), (15.1, 2)):
        now[0] = at
        assert _get(app, "/latest/meta-data/hostname", **_signed(TWO, "two")).text == "host-two"
        assert conductor.calls == calls
    keeps_nothing = _handler(conductor, metadata__shared_secret="secret", metadata__cache_seconds=0)
    for calls in (3, 4):
        _get(keeps_nothing, "/latest/meta-data/hostname", **_signed(TWO, "two"))
        assert conductor.calls == calls


def test_behind_neutron_only_signed_requests_are_answered(conductor):
    app = _handler(conductor, network__driver="neutron", metadata__shared_secret="secret")
    assert _get(app, "/openstack/latest/meta_data.json", **_signed(ONE, "one")).json["uuid"] == ONE
    assert _refused(app) == 400
    assert _refused(app, **{**_signed(ONE, "one"), "X-Instance-ID-Signature": ""}) == 403
    assert _refused(app, path="/openstack/latest/password", method="POST", body=b"x") == 400


def test_behind_neutron_without_a_secret_nobody_can_sign(conductor):
    app = _handler(conductor, network__driver="neutron")
    assert _refused(app, **_signed(ONE, "one", "")) == 403
    assert _refused(app, **_signed(ONE, "one")) == 403
    assert conductor.calls == 0


def test_what_one_tenant_asked_for_is_not_shown_to_another(conductor):
    app = _handler(conductor, metadata__shared_secret="secret", metadata__cache_seconds=3600)
    path = "/openstack/latest/meta_data.json"
    assert _get(app, path, **_signed(TWO, "two")).json["project_id"] == "two"
    assert _get(app, path, **_signed(TWO, "one")).status_code == 404
    assert _get(app, path, **_signed(ONE, "one")).json["project_id"] == "one"
    assert _get(app, path, **_signed(TWO, "two")).json["project_id"] == "two"


def test_servers_of_one_request_read_their_own_documents(conductor):
    for number, uuid in enumerate((ONE, TWO)):
        address = f"10.0.0.{5 + number}"
        conductor.by_address[address] = _server(uuid, "one", address, launch_index=number)
    app = _handler(conductor, metadata__shared_secret="secret")
    for _ in range(2):
        for number, uuid in enumerate((ONE, TWO)):
            found = _get(app, "/openstack/latest/meta_data.json", **_signed(uuid, "one")).json
            assert (found["uuid"], found["launch_index"]) == (uuid, number)
            assert _get(app, "/latest/meta-data/reservation-id", **_signed(uuid, "one")).text == "r-abc"


def test_many_requests_at_once_are_one_question(conductor):
    conductor.delay = 0.2
    signing = _handler(conductor, metadata__shared_secret="secret")
    for app, headers in ((_handler(conductor), {}), (signing, _signed(ONE, "one"))):
        conductor.calls = 0
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: _get(app, "/latest/meta-data/hostname", **headers), range(20)))  # noqa: B023
        assert [a.text for a in answers] == ["host-one"] * 20
        assert conductor.calls == 1


def test_what_is_unknown_is_asked_for_once_a_second(conductor):
    now = [0.0]
    app = _handler(conductor, lambda: now[0], metadata__shared_secret="secret", metadata__cache_seconds=15)
    new = "44444444-4444-4444-8444-444444444444"
    for at, calls in ((0.0, 1), (0.9, 1), (1.1, 2)):
        now[0] = at
        assert _get(app, "/latest/meta-data/hostname", **_signed(new, "new")).status_code == 404
        assert conductor.calls == calls
    conductor.by_address["10.0.0.9"] = _server(new, "new", "10.0.0.9")
    now[0] = 2.2
    assert _get(app, "/latest/meta-data/hostname", **_signed(new, "new")).text == "host-new"


def test_a_conductor_that_is_away_is_told_as_503_and_not_remembered(conductor, monkeypatch):
    app = _handler(conductor, metadata__shared_secret="secret")

    def away(*_args, **_kwargs):
        raise oslo_messaging.MessagingTimeout("nobody")
    with monkeypatch.context() as patch:
        patch.setattr(conductor, "instance_metadata", away)
        assert _refused(app, **_signed(ONE, "one")) == 503
    assert _get(app, "/latest/meta-data/hostname", **_signed(ONE, "one")).text == "host-one"


def test_the_memory_for_answers_is_bounded():
    answers = Answers(60.0, 10_000, lambda: 0.0)
    asked = []

    def ask(key):
        return answers.get(key, lambda: asked.append(key) or key, lambda _key: 1000)
    for key in range(20):
        ask(key)
    assert len(answers._kept) < 10
    for key in (0, 19):
        ask(key)
    assert asked.count(0) == 2
    assert asked.count(19) == 1
    assert answers.get("large", lambda: "large", lambda _key: 20_000) == "large"
    assert "large" not in answers._kept


def test_an_answer_that_was_under_way_when_it_was_forgotten_is_not_kept():
    answers = Answers(60.0, 10_000, lambda: 0.0)

    def ask():
        answers.forget("key")
        return "old"
    assert answers.get("key", ask, len) == "old"
    assert answers.get("key", lambda: "new", len) == "new"
    assert answers.get("key", lambda: "newer", len) == "new"


def test_a_guest_posts_its_password_once(conductor):
    app = _handler(conductor, metadata__shared_secret="secret", metadata__cache_seconds=3600)
    path, headers = "/openstack/2013-04-04/password", _signed(ONE, "one")
    password = "a" * 1020
    assert _get(app, path, **headers).body == b""
    posted = _get(app, path, method="POST", body=password.encode(), **headers)
    assert (posted.status_code, posted.body) == (200, b"")
    assert conductor.passwords == {ONE: password}
    assert _get(app, path, **headers).text == _get(app, "/openstack/latest/password").text == password
    assert _refused(app, path, method="POST", body=b"other", **headers) == 409
    assert _get(app, path, **_signed(TWO, "two")).body == b""
    assert conductor.passwords == {ONE: password}


@pytest.mark.parametrize("body", [b"a" * 1021, b"a" * 100_000, b"", "ä".encode(), b"\xff\x00"])
def test_a_password_that_is_none_is_refused(conductor, body):
    assert _refused(_handler(conductor), "/openstack/latest/password", method="POST", body=body) == 400
    assert conductor.passwords == {}


def test_only_the_password_of_a_known_server_can_be_posted(conductor):
    app = _handler(conductor, metadata__shared_secret="secret")
    for path, headers in (("/openstack/2012-08-10/password", {}), ("/openstack/2999-01-01/password", {}),
                          ("/openstack/latest/password", _signed(ONE, "two")),
                          ("/openstack/latest/password", _signed("44444444-4444-4444-8444-444444444444", "one"))):
        assert _get(app, path, method="POST", body=b"x", **headers).status_code == 404
    assert _get(app, "/openstack/latest/password", method="POST", body=b"x", address="192.0.2.1").status_code == 404
    assert conductor.passwords == {}


@pytest.mark.parametrize(("method", "path"), [
    ("POST", "/openstack/latest/meta_data.json"), ("PUT", "/openstack/latest/password"),
    ("DELETE", "/openstack/latest/password"), ("POST", "/latest/user-data")])
def test_only_get_is_served(conductor, method, path):
    assert _get(_handler(conductor), path, method=method).status_code == 404


def _by_an_agent_of_neutron(answer):
    """The body of an answer as Neutron's agents give it to a guest (neutron/common/metadata.py,
    MetadataProxyHandlerBaseSocketServer._http_response): unpacked, decoded and encoded again."""
    told = webob.Response(body=answer.body, headerlist=[h for h in answer.headerlist if h[0].lower() != "content-length"])
    if answer.body[:3] == b"\x1f\x8b\x08":
        told.content_encoding = "gzip"
        told.decode_content()
    encoding = requests.utils.get_encoding_from_headers({"content-type": answer.headers["Content-Type"]})
    return str(told).encode(encoding).partition(b"\r\n\r\n")[2]


_SCRIPT = "#!/bin/sh\necho für alle\n".encode()


@pytest.mark.parametrize(("user_data", "read"), [
    (_SCRIPT, _SCRIPT), (gzip.compress(_SCRIPT, mtime=0), _SCRIPT), (b"\xff\xfe\x00 no text", b"\xff\xfe\x00 no text"),
    (gzip.compress(b"\x80 neither", mtime=0), b"\x80 neither")])
def test_user_data_comes_through_an_agent_of_neutron(conductor, user_data, read):
    conductor.by_address["10.0.0.5"].user_data = base64.b64encode(user_data).decode()
    for path in ("/openstack/latest/user_data", "/latest/user-data"):
        answer = _get(_handler(conductor), path)
        assert answer.body == user_data
        assert answer.content_type == "text/plain"
        assert _by_an_agent_of_neutron(answer) == read


@pytest.mark.parametrize("path", ["/", "/openstack", "/openstack/latest/meta_data.json", "/latest/meta-data/local-ipv4",
                                  "/openstack/latest/password", "/openstack/latest/vendor_data2.json"])
def test_each_document_comes_through_an_agent_of_neutron(conductor, path):
    answer = _get(_handler(conductor), path)
    assert answer.status_code == 200
    assert _by_an_agent_of_neutron(answer) == answer.body


def test_head_has_no_body(conductor):
    assert _get(_handler(conductor), "/openstack/latest/meta_data.json", method="HEAD").body == b""


def test_vendor_data_comes_from_a_file(conductor, tmp_path):
    file = tmp_path / "vendor.json"
    file.write_text(json.dumps({"cloud-init": "#cloud-config\n{}"}))
    app = _handler(conductor, metadata__vendor_data_file=str(file))
    assert _get(app, "/openstack/latest/vendor_data.json").json == {"cloud-init": "#cloud-config\n{}"}
    assert _get(app, "/openstack/latest/vendor_data2.json").json == {"static": {"cloud-init": "#cloud-config\n{}"}}


@pytest.mark.parametrize("content", [None, "{", "[1]"])
def test_vendor_data_that_cannot_be_read_is_told_at_start(conductor, tmp_path, content):
    file = tmp_path / "vendor.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(exception.ConfigError, match="vendor_data_file"):
        _handler(conductor, metadata__vendor_data_file=str(file))


def test_the_paste_pipeline_serves_it_and_trusts_no_proxy_header(conductor, monkeypatch, tmp_path):
    file = tmp_path / "conf"
    file.write_text("[oslo_middleware]\nenable_proxy_headers_parsing = true\n[metadata]\nshared_secret = secret\n")
    conf = conf_module.load([], config_files=[str(file)])
    monkeypatch.setattr(handler, "factory", lambda conf: MetadataHandler(conf, conductor))
    app = wsgi.loadapp(conf, "metadata")
    for headers in ({"X_Forwarded_For": "10.0.0.6"}, {"Forwarded": "for=10.0.0.6"}):
        assert _get(app, "/openstack/latest/meta_data.json", **headers).json["uuid"] == ONE
    assert _get(app, "/openstack/latest/meta_data.json", **_signed(TWO, "two", "wrong")).status_code == 403
    assert _get(app, "/openstack/latest/password", method="POST", body=b"x" * 1021).status_code == 400
    assert _get(app, "/openstack/latest/password", method="POST", body=b"x").status_code == 200
    assert _get(app, "/openstack/latest/password", method="POST", body=b"x").status_code == 409


def test_the_service_does_not_load_the_database(tmp_path):
    """It has none, and SQLAlchemy takes 15 MiB."""
    config = tmp_path / "nova-lite.conf"
    config.write_text(f"[DEFAULT]\ntransport_url = rabbit://nobody:nothing@127.0.0.1:1/\nstate_path = {tmp_path}\n")
    program = ("import sys; import nova_lite.cmd; from nova_lite import conf; from nova_lite.api import wsgi; "
               f"wsgi.loadapp(conf.load([], config_files=[{str(config)!r}]), 'metadata'); "
               "print(sorted({'sqlalchemy', 'oslo_policy'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
