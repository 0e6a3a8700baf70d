from __future__ import annotations

import importlib
import pathlib
import subprocess
import sys

import pytest

from nova_lite import conf as nova_conf
from nova_lite import exception
from nova_lite.api import wsgi
from tests.unit.api.conftest import Client, Make


def test_the_module_imports_without_any_configuration(monkeypatch):
    monkeypatch.setenv(wsgi.CONF_VARIABLE, "/nowhere/at/all.conf")
    assert callable(importlib.import_module("nova_lite.api.wsgi").application)


def test_the_entry_point_reads_the_file_that_the_environment_names(tmp_path):
    # its own process: it makes the services of a real configuration
    file = tmp_path / "nova-lite.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\ntransport_url = fake://\n[api]\nauth_strategy = noauth2\n"
                    f"link_prefix = https://here\n[database]\nconnection = sqlite:///{tmp_path}/db\n"
                    "[network]\ndriver = null\n")
    code = ("import webob; from nova_lite.api.wsgi import application\n"
            "print(webob.Request.blank('/').get_response(application).json['versions'][1]['links'][0]['href'])")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                          env={"NOVA_LITE_CONF": str(file), "PATH": "/usr/bin:/bin"},
                          check=False)
    assert done.stdout.splitlines()[-1:] == ["https://here/v2.1/"], done.stderr


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
