"""Options under Nova's names, and options that nobody knows."""
from __future__ import annotations

import pathlib
import re
import tempfile

import pytest

from nova_lite import conf as conf_module
from nova_lite.conf import files

# what an operator of Nova has in nova.conf, with sections of libraries
NOVA = """
[DEFAULT]
cpu_allocation_ratio = 8.0
heal_instance_info_cache_interval = -1
osapi_compute_listen = 192.0.2.1
osapi_compute_workers = 3
transport_url = rabbit://u:p@127.0.0.1/
log-dir = /tmp
compute_driver = libvirt.LibvirtDriver
[vnc]
server_listen = 192.0.2.2
[neutron]
metadata_proxy_shared_secret = secret
auth_url = http://192.0.2.3:5000
[filter_scheduler]
host_subset_size = 3
enabled_filters = ComputeFilter
[keystone_authtoken]
auth_url = http://192.0.2.3:5000
password = secret
[oslo_messaging_rabbit]
ssl = false
[oslo_concurrency]
lock_path = /tmp
[oslo_policy]
policy_file = policy.yaml
[compute]
report_interval = 9
reprot_interval = 9
[libvirt]
virt_type = qemu
"""


def _load(tmp_path, text):
    path = tmp_path / "nova-lite.conf"
    path.write_text(text)
    return conf_module.load([], config_files=[str(path)])


def test_names_of_nova_are_read(tmp_path):
    conf = _load(tmp_path, NOVA)
    assert (conf.compute.cpu_allocation_ratio, conf.api.listen, conf.api.workers) == (8.0, "192.0.2.1", 3)
    assert (conf.console.server_listen, conf.metadata.shared_secret) == ("192.0.2.2", "secret")
    assert (conf.scheduler.host_subset_size, conf.compute.heal_instance_info_cache_interval) == (3, -1)
    assert "ForcedHostFilter" in conf.scheduler.enabled_filters         # Nova's list leaves room to Placement


def test_our_own_name_has_the_last_word(tmp_path):
    both = "[DEFAULT]\ncpu_allocation_ratio = 8\n[compute]\ncpu_allocation_ratio = 2\n"
    assert _load(tmp_path, both).compute.cpu_allocation_ratio == 2.0


def test_what_nobody_knows_is_named(tmp_path):
    assert files.unknown(_load(tmp_path, NOVA), conf_module.list_opts()) == [
        "[DEFAULT] compute_driver", "[compute] reprot_interval", "[filter_scheduler] enabled_filters", "[neutron] auth_url"]


CREDENTIALS = """
[service_user]
auth_type = v3applicationcredential
auth-url = http://192.0.2.3:5000
application_credential_id = nova
application_credential_secret = secret
cafile = /etc/ssl/ca.crt
send_service_user_token = true
username = nova
passwrod = secret
tiemout = 3
[keystone_authtoken]
www_authenticate_uri = http://192.0.2.3:5000
memcached_servers = 192.0.2.4:11211
auth_plugin = password
user-name = nova
usrname = nova
"""


def test_what_nobody_knows_of_the_credentials_is_named(tmp_path):
    assert files.unknown(_load(tmp_path, CREDENTIALS), conf_module.list_opts()) == [
        "[keystone_authtoken] usrname", "[service_user] passwrod",
        "[service_user] send_service_user_token", "[service_user] tiemout"]


@pytest.mark.parametrize(("text", "named"), [
    ("[service_user]\nauth_type = nosuch\nwhat = ever\n", []),      # told when somebody asks for a token
    ("[service_user]\nauth_section = who\n[who]\nauth_type = password\npassword = secret\npasswrod = secret\n",
     ["[who] passwrod"])])
def test_credentials_of_other_kinds_and_in_other_sections(tmp_path, text, named):
    assert files.unknown(_load(tmp_path, text), conf_module.list_opts()) == named


def test_a_file_that_everybody_can_read_is_named():
    with tempfile.TemporaryDirectory() as name:         # pytest's own are closed to others
        directory = pathlib.Path(name)
        directory.chmod(0o755)
        conf = _load(directory, f"{NOVA}[api]\ntls_cert_file = {directory}/tls.cert\ntls_key_file = {directory}/tls.key\n"
                                f"[console]\ntls_cert_file = {directory}/both.pem\n[database]\n"
                                f"secret_keys_file = {directory}/secret_keys\nconnection = sqlite:///{directory}/nova.sqlite\n")
        path = directory / "nova-lite.conf"
        for mode, found in ((0o644, [str(path)]), (0o640, []), (0o600, [])):
            path.chmod(mode)
            assert files.exposed(conf) == found
        secrets = ("both.pem", "nova.sqlite", "secret_keys", "tls.key")
        for name in secrets:
            (directory / name).touch(mode=0o640)
        (directory / "tls.cert").touch(mode=0o644)
        assert files.exposed(conf) == []
        for name in secrets:
            (directory / name).chmod(0o644)
        assert sorted(files.exposed(conf)) == [str(directory / name) for name in secrets]
        path.chmod(0o644)
        directory.chmod(0o750)
        assert files.exposed(conf) == []


def test_our_own_sample_is_known(tmp_path):
    sample = (pathlib.Path(__file__).parents[2] / "etc/nova_lite/nova-lite.conf").read_text()
    text, options = re.subn(r"^#(?=[a-z0-9_]+ = )", "", sample, flags=re.MULTILINE)
    assert options > 100
    assert files.unknown(_load(tmp_path, text), conf_module.list_opts()) == []
