"""The package of docs/extending.md, as it is written there."""
from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import types

import pytest

from nova_lite.api import auth
from nova_lite.api.openstack import registry, router, rules
from nova_lite.policy import Policy

PAGE = pathlib.Path(__file__).parents[4] / "docs/extending.md"
BLOCKS = dict(re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL))


@pytest.fixture
def extended(cloud):
    """The cloud with the module of the page."""
    module = types.ModuleType("acme_greeting")
    exec(BLOCKS["python"], module.__dict__)
    modules = [*registry.load_modules(), module]
    cloud.services.policy = Policy(cloud.conf, rules.installed(modules))
    table = registry.Registry(modules, check_schemas=True)
    cloud.app = auth.NoAuth2(auth.ContextFilter(router.Router(cloud.services, table, validate_responses=True)))
    return cloud


def test_the_route_of_the_page(extended):
    path = f"/servers/{extended.add_server(display_name='vm')}/acme-greeting"
    owner = extended.client(version="2.90")
    assert owner.get(path) == {"greeting": "Hello, vm"}
    assert extended.client(roles=("admin",), version="2.90").get(f"{path}?loud=yes") == {"greeting": "HELLO, VM"}
    extended.client("x", "project2", version="2.90").get(path, 404)
    assert "acme:greeting:show" in extended.client(roles=("nothing",), version="2.90").fault("GET", path, 403)
    assert "acme:greeting:loud" in owner.fault("GET", f"{path}?loud=yes", 403)
    owner.get(f"{path}?loud=very", 400)
    owner.get(f"{path}?quiet=yes", 400)
    owner.at("2.89").get(path, 404)


def test_the_package_of_the_page(tmp_path):
    """Installed, its rules stand in the sample of all rules."""
    (tmp_path / "acme_greeting.py").write_text(BLOCKS["python"])
    (tmp_path / "pyproject.toml").write_text(BLOCKS["toml"])
    build = "from setuptools import setup; setup()"
    subprocess.run([sys.executable, "-c", build, "-q", "egg_info"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "from nova_lite.cmd.policy import main; main()", "sample"],
                          capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert '#"acme:greeting:show": "rule:project_reader_or_admin"' in done.stdout
    assert '#"acme:greeting:loud": "rule:context_is_admin"' in done.stdout
