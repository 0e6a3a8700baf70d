from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.api import wsgi
from nova_lite.db import migration, secret_keys
from tests.unit.api.conftest import Client, Make


def _serve(file: pathlib.Path, text: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """As a server of somebody else does it, in its own process: it makes the services of a real configuration."""
    file.write_text(text)
    code = f"import webob; from nova_lite.wsgi.compute import application\n{code}"
    return subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False,
                          env={"NOVA_LITE_CONF": str(file), "PATH": "/usr/bin:/bin"})


@pytest.fixture
def options(tmp_path: pathlib.Path) -> str:
    text = (f"[DEFAULT]\nstate_path = {tmp_path}\ntransport_url = fake://\nlog_file = {tmp_path}/log\n[api]\n"
            f"auth_strategy = noauth2\nlink_prefix = https://here\n[database]\nconnection = sqlite:///{tmp_path}/db\n"
            "[network]\ndriver = null\n")
    file = tmp_path / "sync.conf"
    file.write_text(text)
    conf = nova_conf.load([], config_files=[str(file)])
    migration.sync(conf)
    secret_keys.ensure(conf)
    return text


def test_the_entry_point_reads_the_file_that_the_environment_names(tmp_path, options):
    done = _serve(tmp_path / "nova-lite.conf", options,
                  "print(webob.Request.blank('/').get_response(application).json['versions'][1]['links'][0]['href'])")
    assert done.stdout.splitlines()[-1:] == ["https://here/v2.1/"], done.stderr


def test_the_metadata_service_needs_no_database(tmp_path, options):
    file = tmp_path / "nova-lite.conf"
    file.write_text(options.replace("/db\n", "/nothing\n"))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "from nova_lite.wsgi.metadata import application"],
                          capture_output=True, text=True, check=False,
                          env={"NOVA_LITE_CONF": str(file), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("old", "new", "told"), [
    ("/db\n", "/nothing\n", "The database schema is at nothing"),
    ("[database]\n", "[database]\nsecret_keys_file = /nosuch/keys\n", "/nosuch/keys"),
    ("transport_url = fake://", "transport_url = rabbit://u:p@127.0.0.1:1/", "The message broker"),
    ("noauth2", "noauth3", "[api] auth_strategy"), ("[api]\n", "[api]\npaste_config = /nosuch.ini\n", "/nosuch.ini")])
def test_a_mistake_ends_the_server_with_one_line(tmp_path, options, old, new, told):
    done = _serve(tmp_path / "nova-lite.conf", options.replace(old, new))
    [line] = done.stderr.splitlines()
    assert line.startswith("nova_lite.wsgi.compute: ")
    assert told in line
    assert (done.returncode, done.stdout) == (wsgi.LOAD_ERROR, "")


def test_the_paste_file_of_the_checkout_is_found():
    path = pathlib.Path(wsgi.find_paste_config(nova_conf.load([], config_files=[])))
    assert path.name == "api-paste.ini"
    assert "[composite:compute]" in path.read_text()


def test_a_missing_paste_file_is_one_clear_line(tmp_path):
    conf = nova_conf.load([], config_files=[], api__paste_config=str(tmp_path / "none.ini"))
    with pytest.raises(exception.ConfigError, match=r"no api-paste.ini at .*none.ini"):
        wsgi.loadapp(conf)


def test_an_unknown_application_is_one_clear_line():
    conf = nova_conf.load([], config_files=[], api__auth_strategy="noauth2")
    with pytest.raises(exception.ConfigError, match="nonsense"):
        wsgi.loadapp(conf, "nonsense")


def test_healthcheck(api: Client, make: Make, tmp_path):
    assert (api("/healthcheck", token=None).status_code, api("/healthcheck").text) == (200, "OK")
    assert api("/healthcheck", "HEAD").body == b""
    assert api("/healthcheck", "POST").status_code == 405
    text = pathlib.Path(wsgi.find_paste_config(nova_conf.load([], config_files=[]))).read_text()
    (tmp_path / "api-paste.ini").write_text(text.replace("/etc/nova_lite/healthcheck_disable", f"{tmp_path}/off"))
    api = make(api__paste_config=str(tmp_path / "api-paste.ini"))
    assert api("/healthcheck").status_code == 200
    (tmp_path / "off").touch()
    assert (api("/healthcheck").status_code, api("/healthcheck").text) == (503, "DISABLED BY FILE")
