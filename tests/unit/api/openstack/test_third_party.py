"""A package of somebody else's that extends the API, with rules of its own."""
from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from tests.support.process import BIN

MODULE = '''
from nova_lite.api.openstack.routes import Route
from nova_lite.policies.base import Rule, member
from oslo_policy import policy

WORDS = member("acme:words", "Greet in other words.", "GET /os-greeting")

def greet(req):
    return {"greeting": "salve" if req.can(WORDS, fatal=False) else "hello"}

def part(req, instance):
    return {"good-bye": instance.display_name}

ROUTES = [Route("GET", "/os-greeting", greet, Rule("acme:greet", "role:greeter", "Greet."), response={"type": "object"}),
          Route("GET", "/servers/{server_id}/os-greeting", part, "acme:part", response={"type": "object"})]
RULES = [WORDS]

def list_rules():
    return [policy.RuleDefault("acme:part", "role:greeter"), policy.RuleDefault("acme:greet", "role:greeter")]
'''
ASK = '''
import sys
import oslo_messaging
import webob
from nova_lite import conf
from nova_lite.api import wsgi
made = conf.load([], config_files=[], state_path=sys.argv[1], api__auth_strategy="noauth2", network__driver="null",
                 database__connection="sqlite://")
oslo_messaging.TransportURL.parse(made)         # registers transport_url
made.set_override("transport_url", "fake://")
app = wsgi.loadapp(made)
for roles in ("reader", "greeter", "greeter,member"):
    request = webob.Request.blank("/v2.1/os-greeting", headers={"X-Auth-Token": "user:project", "X-Roles": roles})
    answer = request.get_response(app)
    print(roles, answer.status_int, answer.json.get("greeting"))
'''


@pytest.fixture
def site(tmp_path: pathlib.Path) -> pathlib.Path:
    """A directory in which such a package is installed."""
    (tmp_path / "acme_greeting.py").write_text(MODULE)
    info = tmp_path / "acme_greeting-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-greeting\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[nova_lite.api.v21.extensions]\ngreeting = acme_greeting\n"
                                           "[oslo.policy.policies]\nacme = acme_greeting:list_rules\n")
    return tmp_path


def _run(site: pathlib.Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(site), "XDG_CACHE_HOME": str(site)})


def _ask(site: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return _run(site, sys.executable, "-W", "ignore", "-c", ASK, str(site))


def _policy(site: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (site / "nova-lite.conf").write_text("")
    return _run(site, f"{BIN}/nova-lite-policy", "--config-file", f"{site}/nova-lite.conf", *arguments)


def test_its_rules_are_taken_up(site):
    """Those of its rows, of its RULES and of its own entry point, which may name one of a row again."""
    done = _ask(site)
    assert done.stdout.splitlines()[-3:] == ["reader 403 None", "greeter 200 hello", "greeter,member 200 salve"], done.stderr


def test_the_sample_of_policies_has_them(site):
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", "from nova_lite.cmd.policy import main; main()", "sample"],
                          capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(site)})
    assert '#"acme:greet": "role:greeter"' in done.stdout
    assert "# Greet.\n# GET  /os-greeting\n" in done.stdout
    assert '#"acme:words": "rule:project_member_or_admin"' in done.stdout


@pytest.mark.parametrize(("old", "new"), [
    ('"acme:greet", "role:greeter")]', '"acme:greet", "role:other")]'),
    ('WORDS = member("acme:words"', 'WORDS = member("os_compute_api:servers:show"'),
    ('WORDS = member("acme:words"', 'WORDS = member("context_is_admin"')])
def test_two_defaults_of_one_rule_are_refused(site, old, new):
    (site / "acme_greeting.py").write_text(MODULE.replace(old, new))
    assert "ConfigError: two API extensions give the policy" in _ask(site).stderr


def test_rules_that_cannot_be_loaded_are_named(site):
    (site / "acme_greeting.py").write_text(MODULE.replace("def list_rules", "def other"))
    assert "ConfigError: the policy rules of acme-greeting (acme_greeting:list_rules) cannot be loaded" in _ask(site).stderr


def test_its_rules_are_listed_with_ours(site):
    lines = _policy(site, "sample").stdout.splitlines()
    assert '#"acme:greet": "role:greeter"' in lines
    assert any(line.startswith('#"os_compute_api:servers:show"') for line in lines)
    assert "acme:greet" in _policy(site, "allowed", "--roles", "greeter").stdout.splitlines()
    assert "acme:greet" not in _policy(site, "allowed", "--roles", "reader").stdout.splitlines()


def test_a_sample_without_its_rules_is_not_made(site):
    (site / "acme_greeting.py").write_text(MODULE.replace("def list_rules", "def other"))
    done = _policy(site, "sample")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("nova-lite-policy: the policy rules of acme-greeting (acme_greeting:list_rules) cannot be")
    assert len(done.stderr.splitlines()) == 1
